"""The command `finegraph` with the tiny network registered, for tests that need a process of their own."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import tiny
import torch

from finegraph.cli.main import run

if __name__ == "__main__":
    torch.set_num_threads(1)
    tiny.register()
    sys.exit(run(sys.argv[1:]))
