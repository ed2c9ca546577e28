"""The command line: flags to a workflow, its result to the terminal. No logic lives here.

Nothing slow (torch, numpy, rich) is imported before a command runs, so that `--help` answers at once.
"""
