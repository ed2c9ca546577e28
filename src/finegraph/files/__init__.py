"""Files that survive a killed process, a full disk and a second writer.

Models, runs, checkpoints and search indexes are all written through these modules. None of them needs torch.
"""
