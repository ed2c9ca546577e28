"""`finegraph` as typed, with the tiny networks among those that it knows: `typed_tiny.py train ... --network tiny`.

`TINY_OWN_CACHES` is a folder in which each process has a cache of its own.
`TINY_KILL` is "RANK STEP": SIGKILL ends that process in the middle of that step of training.
"""

import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import tiny

from finegraph.cli.main import main


def kill_in(step):
    """End this process in the middle of a step."""
    calls, forward = [], tiny.Tiny.forward_with_auxiliary

    def counted(self, images):
        calls.extend([None] * self.training)
        if len(calls) == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return forward(self, images)

    tiny.Tiny.forward_with_auxiliary = counted


if __name__ == "__main__":
    tiny.register()
    if "TINY_OWN_CACHES" in os.environ:
        os.environ["FINEGRAPH_CACHE"] = os.path.join(os.environ["TINY_OWN_CACHES"], os.environ.get("RANK", "0"))
    rank, step = os.environ.get("TINY_KILL", "-1 0").split()
    if os.environ.get("RANK") == rank:
        kill_in(int(step))
    main()
