"""Files that no kill, full disk or second process can harm.

Models, runs, checkpoints and search indexes are all written through these modules. None of them needs torch.
"""
