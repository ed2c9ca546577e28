"""Admission: limits how many photos the server processes at once, so that admitted requests stay fast.

A request is admitted, or refused with a Retry-After time, before its body is read. It counts as one photo until its
photos have been counted. There is a limit for the whole server (503 when it is reached) and one per client (429), so
that one busy client leaves room for the others. A client is an IP address. Clients on this machine are limited only on
request, because a local proxy may stand for many. The Retry-After time follows from the recent time per photo.
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

_MIN_WAIT, _MAX_WAIT = 1, 30
_SMOOTHING = 0.9
"""The weight of the previous average when a new time per photo is averaged in."""
LOCAL_CLIENT = "here"
"""The name that all clients on this machine share."""


class Admission:
    """Counts the photos and bytes in the server and refuses requests that exceed the limits.

    Args:
        photos: the largest number of photos in the server.
        megabytes: the largest total size of their uploads.
        per_client: the largest number of photos of one client; by default half of `photos`, and no limit for clients
            on this machine.
        max_request_bytes: the largest size of one request.

    Attributes:
        inside: the number of photos in the server now.
        refused: the number of requests refused so far.
        open: whether requests are admitted; False while the server stops.
    """

    def __init__(
        self, photos: int, megabytes: int, per_client: int | None = None, *, max_request_bytes: int = 32 << 20
    ) -> None:
        self._max_photos, self._max_bytes, self._max_request_bytes = photos, megabytes << 20, max_request_bytes
        self._limits_local_client = per_client is not None
        self._max_per_client = per_client if per_client is not None else max(1, photos // 2)
        self.inside, self.refused, self.open = 0, 0, True
        self._photos_by_client: Counter[str] = Counter()
        self._bytes = 0
        self._seconds_per_photo, self._last_done = 0.05, time.monotonic()

    @contextmanager
    def enter(self, size: int | None, client: str = LOCAL_CLIENT) -> Iterator[Ticket]:
        """Admit a request for the duration of a `with` block.

        Args:
            size: the size of its body in bytes; None if it is not declared, which counts as the largest allowed.
            client: the client, as `client_name` names it.

        Raises:
            ProblemError: the server is full or stopping, or the client has reached its limit.
        """
        size = self._max_request_bytes if size is None else size
        if not self.open:
            raise ProblemError("not-ready", "The server is stopping.", {"retry-after": "5"})
        if self.is_full_for(client) or (self._bytes and self._bytes + size > self._max_bytes):
            raise self.refuse(client)
        ticket = Ticket(self, client)
        self._count(client, 1)
        self._bytes += size
        try:
            yield ticket
        finally:
            self._count(client, -ticket.photos)
            self._bytes -= size

    def is_full_for(self, client: str) -> bool:
        """Whether no further photo of a client is admitted."""
        return self.inside >= self._max_photos or self._exceeds_share(client)

    def _exceeds_share(self, client: str, extra: int = 1) -> bool:
        is_limited = client != LOCAL_CLIENT or self._limits_local_client
        return is_limited and self._photos_by_client[client] + extra > self._max_per_client

    def _count(self, client: str, photos: int) -> None:
        self.inside += photos
        self._photos_by_client[client] += photos
        if not self._photos_by_client[client]:
            del self._photos_by_client[client]  # otherwise the table grows with every address ever seen

    def _resize(self, ticket: Ticket, photos: int) -> None:
        extra, client = photos - ticket.photos, ticket.client
        crowded = self.inside > ticket.photos and self.inside + extra > self._max_photos
        over_share = self._photos_by_client[client] > ticket.photos and self._exceeds_share(client, extra)
        if extra > 0 and (crowded or over_share):
            raise self.refuse(client)  # a request that is alone may be larger than the queue
        self._count(client, extra)
        ticket.photos = photos

    def refuse(self, client: str = LOCAL_CLIENT) -> ProblemError:
        """Count a refusal; return the problem to answer with, including when to try again."""
        self.refused += 1
        over_share = self.inside < self._max_photos and self._exceeds_share(client)
        photos = self._photos_by_client[client] if over_share else self.inside
        wait = min(max(_MIN_WAIT, math.ceil(photos * self._seconds_per_photo)), _MAX_WAIT)
        headers = {"retry-after": str(wait)}
        if over_share:
            return ProblemError("too-many", f"There are {photos} photos of yours in the server already.", headers)
        return ProblemError("overloaded", f"There are {photos} photos in the server already.", headers)

    def done(self, photos: int) -> None:
        """Record that photos were answered, which updates the average time per photo."""
        now = time.monotonic()
        seconds = (now - self._last_done) / max(photos, 1)
        self._last_done = now
        if seconds < 1.0:  # a longer gap is idleness, not slowness
            self._seconds_per_photo = _SMOOTHING * self._seconds_per_photo + (1 - _SMOOTHING) * seconds


class Ticket:
    """An admitted request."""

    def __init__(self, admission: Admission, client: str) -> None:
        self._admission, self.client, self.photos = admission, client, 1

    def count(self, photos: int) -> None:
        """Set the number of photos in the request, once it is known.

        Raises:
            ProblemError: there is no room for them now.
        """
        self._admission._resize(self, photos)


@lru_cache(maxsize=4096)
def client_name(host: str | None) -> str:
    """The name of a client: its address, or the /64 network of an IPv6 address, since a client owns all of it."""
    try:
        address = ipaddress.ip_address((host or "").partition("%")[0])
    except ValueError:
        return LOCAL_CLIENT  # no address: a test or a local socket
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        elif not address.is_loopback:
            return str(ipaddress.ip_network((address, 64), strict=False))
    return LOCAL_CLIENT if address.is_loopback else str(address)
