"""Limits on connections, and strict HTTP.

A client that sends a byte now and then, or never reads its answer, would hold a connection that others need. So the
head of a request must arrive within some seconds of the connection or of its first byte, and the body within some more.
The client must keep reading the answer, also while the connection closes; otherwise the connection is cut. Input that
is not HTTP or arrives too late is answered as a problem, like all other errors. Cost: one timer for each connection.

If a proxy and this server read one request differently, a second request can be smuggled inside it. So the server
refuses every ambiguous request that RFC 9112 allows it to refuse: a length together with chunks, lines that end without
a carriage return, folded header fields, and heads above a size. The connection is then closed, as nobody knows where
the next request begins. Cost: three searches through the head of each request.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from finegraph.web.admission import LOCAL_CLIENT, client_name
from finegraph.web.problems import MEDIA_TYPE, PROBLEMS, ProblemError

HEAD, BODY = "head", "body"
"""The parts of a request that have a deadline."""
MAX_HEAD = 32 << 10
"""The largest head of a request, in bytes."""
_END = re.compile(rb"\n\r?\n")
_BARE = re.compile(rb"(?<!\r)\n")
_FOLDED = re.compile(rb"\n[ \t]")
Event = h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """The connection limits of one server."""

    connections: int = 1000
    """The largest number of connections; one client may have a quarter of them, or all if it is on this machine."""
    head_seconds: float = 10.0
    """How long the head of a request may take to arrive."""
    body_seconds: float = 35.0
    """How long its body may take to arrive."""
    stalled_seconds: float = 30.0
    """How long an answer, or the rest of it when the connection closes, may wait for its client to read on."""
    by_client: Counter[str] = field(default_factory=Counter)
    """The number of open connections of each client."""


class BoundedConnection(H11Protocol):
    """HTTP/1.1 as uvicorn speaks it, within limits."""

    limits = ConnectionLimits()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn: StrictConnection = StrictConnection()
        self._phase: str | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._closing: asyncio.TimerHandle | None = None
        self.client_id = LOCAL_CLIENT

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Count the connection, or refuse it."""
        super().connection_made(transport)
        self.client_id = client_name(self.client[0] if self.client else None)
        self.limits.by_client[self.client_id] += 1
        max_connections = self.limits.connections
        if len(self.connections) > max_connections or (
            self.client_id != LOCAL_CLIENT and self.limits.by_client[self.client_id] > max(1, max_connections // 4)
        ):
            self.end_with(ProblemError("overloaded", "There are too many connections.", {"retry-after": "5"}))
        else:
            self._set_phase(HEAD)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting the connection."""
        super().connection_lost(exc)
        self._set_phase(None)
        self.resume_writing()
        if self._closing is not None:
            self._closing.cancel()
        self.limits.by_client[self.client_id] -= 1
        if not self.limits.by_client[self.client_id]:
            del self.limits.by_client[self.client_id]

    def data_received(self, data: bytes) -> None:
        """Pass the data on and update the deadline."""
        super().data_received(data)
        self.follow()

    def on_response_complete(self) -> None:
        """Update the deadline; the rest of a body that no route reads may still be missing."""
        super().on_response_complete()
        self.follow()
        self._limit_closing()

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection, since no further request came."""
        super().timeout_keep_alive_handler()
        self._limit_closing()

    def shutdown(self) -> None:
        """Close the connection once it is answered, since the server stops."""
        super().shutdown()
        self._limit_closing()

    def follow(self) -> None:
        """Restart the deadline when the connection begins to wait for another part of a request."""
        self._set_phase(self.awaited())

    def awaited(self) -> str | None:
        """The part of a request that the connection waits for; None if it waits for none."""
        if self.conn.their_state is h11.SEND_BODY:
            return BODY
        return HEAD if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0] else None

    def _set_phase(self, phase: str | None) -> None:
        if phase == self._phase:
            return  # keep the deadline: otherwise a byte now and then would extend it for ever
        self._phase = phase
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if phase is not None and not self.transport.is_closing():
            seconds = self.limits.head_seconds if phase == HEAD else self.limits.body_seconds
            self._deadline = self.loop.call_later(seconds, self._on_deadline, phase, seconds)

    def _on_deadline(self, phase: str, seconds: float) -> None:
        begun = phase == BODY or bool(self.conn.trailing_data[0])
        answered = self.cycle is not None and self.cycle.response_started
        if begun and not (phase == BODY and answered):
            self.end_with(
                ProblemError("timeout", f"The {phase} of the request took longer than {seconds:g} seconds to arrive.")
            )
        else:
            self.close()

    def end_with(self, problem: ProblemError) -> None:
        """Answer with a problem and close; if another answer has begun, only close."""
        cycle = self.cycle
        begun = cycle is not None and not cycle.response_complete
        if not (begun and cycle.response_started):
            self.transport.write(problem_bytes(problem, {"connection": "close"}))
        if begun:
            cycle.disconnected = True  # otherwise the route would send a second answer
            cycle.message_event.set()
        self.close()

    def close(self) -> None:
        """Close the connection once the client has read what was written, or its time for that is over."""
        self.transport.close()
        self._limit_closing()

    def _limit_closing(self) -> None:
        if self.transport.is_closing() and self._closing is None and self.transport.get_write_buffer_size():
            self._closing = self.loop.call_later(self.limits.stalled_seconds, self.transport.abort)

    def send_400_response(self, msg: str) -> None:
        """Answer input that is not strictly HTTP as a bad request."""
        self.end_with(self.conn.problem or ProblemError("bad-request", msg))

    def pause_writing(self) -> None:
        """Start the timer of a client that reads more slowly than the server writes."""
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(self.limits.stalled_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop that timer: the client has read on."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None


def problem_bytes(problem: ProblemError, headers: dict[str, str] | None = None) -> bytes:
    """A complete HTTP response with a problem."""
    body = bytes(problem.response().body)
    status = PROBLEMS[problem.name].status
    fields = {
        "content-type": MEDIA_TYPE,
        "content-length": str(len(body)),
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        **problem.headers,
        **(headers or {}),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} {STATUS_PHRASES[status].decode()}\r\n{lines}\r\n".encode() + body


class StrictConnection(h11.Connection):
    """The server's side of a connection.

    Attributes:
        problem: why the last request was refused; None if the parser itself refused it.
    """

    def __init__(self) -> None:
        super().__init__(h11.SERVER, MAX_HEAD)
        self.problem: ProblemError | None = None

    def next_event(self) -> Event:
        """The next part of a request.

        Raises:
            RemoteProtocolError: the request is not strictly HTTP; `problem` says why.
        """
        if self.their_state is h11.IDLE:
            self._refuse(head_problem(self.trailing_data[0]))
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._refuse(_length_problem(event))
        return event

    def _refuse(self, problem: ProblemError | None) -> None:
        if problem is not None:
            self.problem = problem
            raise h11.RemoteProtocolError(problem.detail)


def head_problem(data: bytes) -> ProblemError | None:
    """The problem of the head of a request, which may be incomplete; None if there is none.

    Args:
        data: the head, and what follows it.
    """
    end = _END.search(data)
    head = data[: end.end()] if end is not None else data
    if len(head) > MAX_HEAD:
        return ProblemError("head-too-large", f"The head of the request has more than {MAX_HEAD >> 10} kB.")
    if _BARE.search(head):
        return ProblemError("bad-request", "A line of the head ends with a bare line feed; lines end with CR LF.")
    if _FOLDED.search(head):
        return ProblemError("bad-request", "A field of the head continues in the next line; write it in one.")
    return None


def _length_problem(request: h11.Request) -> ProblemError | None:
    """The problem of how a request declares its length; None if there is none."""
    if {b"content-length", b"transfer-encoding"} <= {name for name, _ in request.headers}:
        return ProblemError(
            "bad-request", "The request has both Content-Length and Transfer-Encoding; send one of them."
        )
    return None
