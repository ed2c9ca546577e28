"""Training: settings, the loop, and what a run leaves on the disk.

Importing this package loads no torch, so that the command line can read settings and run folders quickly; take things
from the modules in it.
"""
