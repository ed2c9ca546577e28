"""Refusing requests while the server is full, for next to nothing.

A flood must not take from those inside what it is not given itself. So while the server is full, a plain request with
photos is answered from its first bytes: no parser, no task, no route. Whatever is not quite plain (no length, a length
twice, waiting for leave to send, one request behind another) goes the usual way, where it is refused too, at twenty
times the cost. A refusal tells nothing but that the server is busy, so no token or origin is looked at.
"""

from __future__ import annotations

import re
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from finegraph.web.admission import Admission
from finegraph.web.problems import MEDIA_TYPE, ProblemError

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,12}) *\r\n", re.IGNORECASE)
_NOT_PLAIN = re.compile(rb"\r\n(?:transfer-encoding|expect|upgrade|connection)[ \t]*:", re.IGNORECASE)
_END = b"\r\n\r\n"


class QuickRefusal(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, with a short way to refuse. `of` makes one for a server."""

    admission: Admission
    starts: tuple[bytes, ...] = ()
    most_bytes: int = 0

    @classmethod
    def of(cls, admission: Admission, paths: tuple[str, ...], most_bytes: int) -> type[QuickRefusal]:
        """The protocol of a server that refuses POST requests to some paths while it is full."""
        starts = tuple(f"POST {path} HTTP/1.1\r\n".encode() for path in paths)
        return type("ServerProtocol", (cls,), {"admission": admission, "starts": starts, "most_bytes": most_bytes})

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._left = 0
        """How much of the body of a refused request is still to come."""

    def data_received(self, data: bytes) -> None:
        """Refuse what has come, or hand it on."""
        if self._left:
            passed = min(self._left, len(data))
            self._left -= passed
            data = data[passed:]
            if not data:
                return
        if self.admission.full and data.startswith(self.starts) and self._is_between_requests():
            size = plain_size(data)
            if size is not None and len(data) <= size <= self.most_bytes:
                self._left = size - len(data)
                self.transport.write(refusal_bytes(self.admission.refuse()))
                return
        super().data_received(data)

    def _is_between_requests(self) -> bool:
        """Whether nothing of another request is in this connection."""
        connection = self.conn
        idle = connection.our_state is h11.IDLE and connection.their_state is h11.IDLE
        return idle and connection.trailing_data == (b"", False)


def plain_size(data: bytes) -> int | None:
    """The size of a whole request from its beginning; None where it is not plain or its head is not all there."""
    end = data.find(_END)
    if end < 0:
        return None
    head = data[: end + 2]
    lengths = _LENGTH.findall(head)
    if len(lengths) != 1 or head.lower().count(b"content-length") != 1 or _NOT_PLAIN.search(head):
        return None
    return end + len(_END) + int(lengths[0])


def refusal_bytes(problem: ProblemError) -> bytes:
    """A problem as a whole answer."""
    body = problem.response().body
    head = f"HTTP/1.1 503 Service Unavailable\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
    more = "".join(f"{name}: {value}\r\n" for name, value in problem.headers.items())
    return (head + more + "cache-control: no-store\r\nx-content-type-options: nosniff\r\n\r\n").encode() + bytes(body)
