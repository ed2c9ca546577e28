"""How things are kept on the disk so that no kill, full disk or second process can harm them.

Runs, checkpoints and search indexes are all written through these few files. None of them needs torch.
"""
