"""Processes as threads, which exchange by a table; real processes are in `training/test_typed_ranks.py`."""

import threading
from concurrent.futures import ThreadPoolExecutor

import torch

from finegraph.training.distributed import Ranks


class ThreadRanks:
    """As many threads as a job has processes."""

    def __init__(self, size):
        self.size, self.table, self.barrier = size, [None] * size, threading.Barrier(size, timeout=20)

    def rank(self, number):
        threads = self

        class Rank(Ranks):
            def gather(self, value):
                threads.table[self.rank] = value
                threads.barrier.wait()
                found = list(threads.table)
                threads.barrier.wait()
                return found

            def gather_first(self, value):
                found = self.gather(value)
                return found if self.first else None

            def sum(self, tensors):
                self._replace(tensors, lambda found: torch.stack(found).sum(dim=0))

            def largest(self, values):
                self._replace([values], lambda found: torch.stack(found).amax(dim=0))

            def copy_first(self, tensors):
                self._replace(tensors, lambda found: found[0])

            def _replace(self, tensors, joined):
                parts = self.gather([tensor.clone() for tensor in tensors])
                for tensor, *found in zip(tensors, *parts, strict=True):
                    assert len({part.shape for part in found}) == len({part.dtype for part in found}) == 1
                    tensor.copy_(joined(found))

        return Rank(number, self.size)

    def run(self, work):
        """What the work gives in each process; the first error ends the others, and is raised."""
        errors = []

        def watched(rank):
            try:
                return work(rank)
            except BaseException as error:
                errors.append(error)
                self.barrier.abort()
                raise

        with ThreadPoolExecutor(self.size) as pool:
            done = [pool.submit(watched, self.rank(number)) for number in range(self.size)]
        if errors:
            raise errors[0]
        return [one.result() for one in done]
