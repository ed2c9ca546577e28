"""Training: settings, the loop, and the files of a run.

Importing this package loads no torch, so that the command line can read settings and run folders quickly; import names
from its modules.
"""
