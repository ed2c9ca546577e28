"""Admission: the limit on photos in the server at once, so that admitted requests stay fast.

A request is let in, or refused at once with the seconds after which to try again, before its body is read. It counts as
one photo until its photos are known. Beside the bound for all there is one for each client, so that one who sends more
than its share is told so (429) and leaves room for others; only when all together are too many, the server is full
(503). A client is an address. This machine itself is bounded only when that is asked for, as a proxy on it may stand
for many. How long to wait follows from how quickly photos were done recently.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from finegraph.web.problems import ProblemError

_SHORTEST, _LONGEST = 1, 30
_MEMORY = 0.9
"""How much of the old rate stays when a photo is done."""
HERE = "here"
"""The name of all clients on this machine."""


class Admission:
    """Counts what is in the server.

    Args:
        photos: how many photos may be in it.
        megabytes: how much all their uploads may take together.
        per_client: how many photos of one client may be in it; by default half of all, and for clients on this machine
            all.
        largest: how many bytes a request may bring at most.

    Attributes:
        inside: how many photos are in it now.
        refused: how many requests were refused so far.
        open: whether anything is let in; False while the server stops.
    """

    def __init__(self, photos: int, megabytes: int, per_client: int | None = None, *, largest: int = 32 << 20) -> None:
        self._most, self._most_bytes, self._largest = photos, megabytes << 20, largest
        self._bounds_here = per_client is not None
        self._share = per_client if per_client is not None else max(1, photos // 2)
        self.inside, self.refused, self.open = 0, 0, True
        self._of_client: Counter[str] = Counter()
        self._bytes = 0
        self._seconds_per_photo, self._last = 0.05, time.monotonic()

    @contextmanager
    def enter(self, size: int | None, client: str = HERE) -> Iterator[Ticket]:
        """Let a request in for the time of a `with` block.

        Args:
            size: how many bytes it brings; one that does not say (None) counts as the largest, which it may be.
            client: whose it is, as `client_name` says.

        Raises:
            ProblemError: the server is full or stopping, or the client has its share already.
        """
        size = self._largest if size is None else size
        if not self.open:
            raise ProblemError("not-ready", "The server is stopping.", {"retry-after": "5"})
        if self.full_for(client) or (self._bytes and self._bytes + size > self._most_bytes):
            raise self.refuse(client)
        ticket = Ticket(self, client)
        self._count(client, 1)
        self._bytes += size
        try:
            yield ticket
        finally:
            self._count(client, -ticket.photos)
            self._bytes -= size

    def full_for(self, client: str) -> bool:
        """Whether no further photo of a client is admitted."""
        return self.inside >= self._most or self._has_its_share(client)

    def _has_its_share(self, client: str, more: int = 1) -> bool:
        bounded = client != HERE or self._bounds_here
        return bounded and self._of_client[client] + more > self._share

    def _count(self, client: str, photos: int) -> None:
        self.inside += photos
        self._of_client[client] += photos
        if not self._of_client[client]:
            del self._of_client[client]  # there may be any number of addresses

    def _more(self, ticket: Ticket, photos: int) -> None:
        extra, client = photos - ticket.photos, ticket.client
        crowded = self.inside > ticket.photos and self.inside + extra > self._most
        greedy = self._of_client[client] > ticket.photos and self._has_its_share(client, extra)
        if extra > 0 and (crowded or greedy):
            raise self.refuse(client)  # a request that is alone may be larger than the queue
        self._count(client, extra)
        ticket.photos = photos

    def refuse(self, client: str = HERE) -> ProblemError:
        """Why a request is refused, and when to try again; counts it."""
        self.refused += 1
        greedy = self.inside < self._most and self._has_its_share(client)
        photos = self._of_client[client] if greedy else self.inside
        wait = min(max(_SHORTEST, math.ceil(photos * self._seconds_per_photo)), _LONGEST)
        headers = {"retry-after": str(wait)}
        if greedy:
            return ProblemError("too-many", f"There are {photos} photos of yours in the server already.", headers)
        return ProblemError("overloaded", f"There are {photos} photos in the server already.", headers)

    def done(self, photos: int) -> None:
        """Note that photos were answered, which tells how quick the server is."""
        now = time.monotonic()
        taken = (now - self._last) / max(photos, 1)
        self._last = now
        if taken < 1.0:  # a longer gap is idleness, not slowness
            self._seconds_per_photo = _MEMORY * self._seconds_per_photo + (1 - _MEMORY) * taken


class Ticket:
    """The place of one request in the server."""

    def __init__(self, admission: Admission, client: str) -> None:
        self._admission, self.client, self.photos = admission, client, 1

    def count(self, photos: int) -> None:
        """Say how many photos the request holds, once that is known.

        Raises:
            ProblemError: there is no room for them now.
        """
        self._admission._more(self, photos)


@lru_cache(maxsize=4096)
def client_name(host: str | None) -> str:
    """The name of a client by its address; of IPv6 addresses the network, since everybody has 2^64 of them."""
    try:
        address = ipaddress.ip_address((host or "").partition("%")[0])
    except ValueError:
        return HERE  # no address: a test or a local socket
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        elif not address.is_loopback:
            return str(ipaddress.ip_network((address, 64), strict=False))
    return HERE if address.is_loopback else str(address)
