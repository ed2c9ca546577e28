"""Refusing requests while the server is full, at almost no cost.

A flood of requests must not slow down the requests that were admitted. So while the server is full, or a client has
reached its limit, a plain upload is refused from its first bytes: no parser, no task, no route. A request that is not
plain (no length, two lengths, `Expect`, pipelining, unread refusals) takes the usual path, where it is refused too, at
twenty times the cost. A refusal reveals only that the server is busy, so neither token nor origin is checked.
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
        self._unread_bytes = 0
        """The bytes of the body of a refused request that have not arrived yet."""

    def data_received(self, data: bytes) -> None:
        """Refuse the request, or pass the data on."""
        if self._unread_bytes:
            skipped = min(self._unread_bytes, len(data))
            self._unread_bytes -= skipped
            data = data[skipped:]
            if not data:
                self._keep_open()
                return
        if data.startswith(self.starts) and self.admission.is_full_for(self.client_id) and self._is_between_requests():
            size = plain_size(data)
            if size is not None and len(data) <= size <= self.max_bytes:
                self._unread_bytes = size - len(data)
                problem = self.admission.refuse(self.client_id)
                self.transport.write(_answer(problem.name, problem.detail, problem.headers["retry-after"]))
                self._keep_open()
                return
        super().data_received(data)

    def awaited(self) -> str | None:
        """The missing part of a request, also of a refused one."""
        return BODY if self._unread_bytes else super().awaited()

    def _keep_open(self) -> None:
        """Keep the connection open for a while after a refusal, as after any other answer."""
        self.follow()
        self._unset_keepalive_if_required()
        if not self._unread_bytes:
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
    """The size of a request, by its head; None if the request is not plain or its head is incomplete."""
    head_end = data.find(_END)
    if head_end < 0:
        return None
    head = data[: head_end + 2]
    lengths = _LENGTH.findall(head)
    if head_problem(data) is not None:
        return None
    if len(lengths) != 1 or head.lower().count(b"content-length") != 1 or _NOT_PLAIN.search(head):
        return None
    return head_end + len(_END) + int(lengths[0])
