"""The bound on what is in the server at once, so that it stays quick for those it lets in.

A request is let in, or refused at once with the seconds after which to try again, before its body is read. It counts as
one photo until its photos are known. How long to wait follows from how quickly photos were done lately.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from finegraph.web.problems import ProblemError

_SHORTEST, _LONGEST = 1, 30
_MEMORY = 0.9
"""How much of the old rate stays when a photo is done."""


class Admission:
    """Counts what is in the server.

    Args:
        photos: how many photos may be in it.
        megabytes: how much all their uploads may take together.

    Attributes:
        inside: how many photos are in it now.
        refused: how many requests were refused so far.
        open: whether anything is let in; False while the server stops.
    """

    def __init__(self, photos: int, megabytes: int) -> None:
        self._most, self._most_bytes = photos, megabytes << 20
        self.inside, self.refused, self.open = 0, 0, True
        self._bytes = 0
        self._seconds_per_photo, self._last = 0.05, time.monotonic()

    @contextmanager
    def enter(self, size: int) -> Iterator[Ticket]:
        """Let a request in for the time of a `with` block.

        Args:
            size: how many bytes it brings; what it does not say counts as nothing until it has come.

        Raises:
            ProblemError: the server is full or stopping.
        """
        if not self.open:
            raise ProblemError("not-ready", "The server is stopping.", {"retry-after": "5"})
        if self.full or (self._bytes and self._bytes + size > self._most_bytes):
            raise self.refuse()
        ticket = Ticket(self, size)
        self.inside += 1
        self._bytes += size
        try:
            yield ticket
        finally:
            self.inside -= ticket.photos
            self._bytes -= size

    @property
    def full(self) -> bool:
        """Whether no photo more is let in."""
        return self.inside >= self._most

    def _more(self, ticket: Ticket, photos: int) -> None:
        extra = photos - ticket.photos
        if extra > 0 and self.inside > ticket.photos and self.inside + extra > self._most:
            raise self.refuse()  # a request that is alone may be larger than the queue
        self.inside += extra
        ticket.photos = photos

    def refuse(self) -> ProblemError:
        """Why a request is refused, and when to try again; counts it."""
        self.refused += 1
        wait = min(max(_SHORTEST, math.ceil(self.inside * self._seconds_per_photo)), _LONGEST)
        return ProblemError(
            "overloaded", f"There are {self.inside} photos in the server already.", {"retry-after": str(wait)}
        )

    def done(self, photos: int) -> None:
        """Note that photos were answered, which tells how quick the server is."""
        now = time.monotonic()
        taken = (now - self._last) / max(photos, 1)
        self._last = now
        if taken < 1.0:  # a longer gap is idleness, not slowness
            self._seconds_per_photo = _MEMORY * self._seconds_per_photo + (1 - _MEMORY) * taken


class Ticket:
    """The place of one request in the server."""

    def __init__(self, admission: Admission, size: int) -> None:
        self._admission, self.size, self.photos = admission, size, 1

    def count(self, photos: int) -> None:
        """Say how many photos the request holds, once that is known.

        Raises:
            ProblemError: there is no room for so many now.
        """
        self._admission._more(self, photos)
