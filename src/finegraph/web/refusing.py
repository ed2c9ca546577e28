"""Refusing requests while the server is full, at almost no cost.

A flood must not take from those inside what it is not given itself. So while the server is full, or full of a client's
own photos, a plain request with photos is answered from its first bytes: no parser, no task, no route. Whatever is not
quite plain (no length, a length twice, waiting for leave to send, one request behind another, refusals that nobody
reads) takes the usual path, where it is refused too, at twenty times the cost. A refusal tells nothing but that the
server is busy, so no token or origin is looked at.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import h11

from finegraph.web.admission import Admission
from finegraph.web.connections import BODY, BoundedConnection, ConnectionLimits, problem_bytes
from finegraph.web.problems import ProblemError
from finegraph.web.strict_http import head_problem

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,12}) *\r\n", re.IGNORECASE)
_NOT_PLAIN = re.compile(rb"\r\n(?:transfer-encoding|expect|upgrade|connection)[ \t]*:", re.IGNORECASE)
_END = b"\r\n\r\n"


class QuickRefusal(BoundedConnection):
    """A bounded connection that can refuse early. `of` makes one for a server."""

    admission: Admission
    starts: tuple[bytes, ...] = ()
    max_bytes: int = 0

    @classmethod
    def of(
        cls, admission: Admission, paths: tuple[str, ...], max_bytes: int, limits: ConnectionLimits
    ) -> type[QuickRefusal]:
        """The protocol of a server that refuses POST requests to some paths while it is full."""
        starts = tuple(f"POST {path} HTTP/1.1\r\n".encode() for path in paths)
        settings = {"admission": admission, "starts": starts, "max_bytes": max_bytes, "limits": limits}
        return type("ServerProtocol", (cls,), settings)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._left = 0
        """How much of the body of a refused request is still to come."""

    def data_received(self, data: bytes) -> None:
        """Refuse the request, or pass the data on."""
        if self._left:
            passed = min(self._left, len(data))
            self._left -= passed
            data = data[passed:]
            if not data:
                self._stay()
                return
        if data.startswith(self.starts) and self.admission.full_for(self.who) and self._is_between_requests():
            size = plain_size(data)
            if size is not None and len(data) <= size <= self.max_bytes:
                self._left = size - len(data)
                problem = self.admission.refuse(self.who)
                self.transport.write(_answer(problem.name, problem.detail, problem.headers["retry-after"]))
                self._stay()
                return
        super().data_received(data)

    def awaited(self) -> str | None:
        """The missing part of a request, also of a refused one."""
        return BODY if self._left else super().awaited()

    def _stay(self) -> None:
        """Keep the connection for a while after a refusal, as after any other answer."""
        self.follow()
        self._unset_keepalive_if_required()
        if not self._left:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _is_between_requests(self) -> bool:
        """Whether nothing of another request is in this connection, and its client takes the answers."""
        connection = self.conn
        idle = connection.our_state is h11.IDLE and connection.their_state is h11.IDLE
        return idle and connection.trailing_data == (b"", False) and not self.flow.write_paused


@lru_cache(maxsize=256)
def _answer(name: str, detail: str, seconds: str) -> bytes:
    """A refusal as bytes; in a flood nearly all are the same."""
    return problem_bytes(ProblemError(name, detail, {"retry-after": seconds}))


def plain_size(data: bytes) -> int | None:
    """The size of a whole request from its beginning; None if it is not plain or its head is not all there."""
    end = data.find(_END)
    if end < 0:
        return None
    head = data[: end + 2]
    lengths = _LENGTH.findall(head)
    if head_problem(data) is not None:
        return None
    if len(lengths) != 1 or head.lower().count(b"content-length") != 1 or _NOT_PLAIN.search(head):
        return None
    return end + len(_END) + int(lengths[0])
