"""Limits on connections: their number, and the time for a request to arrive and an answer to be read.

Whoever opens connections and sends a byte now and then, or never reads its answer, takes a place that others need. So
a head has some seconds from its first byte, or from the connection, a body some more, and an answer must be read on,
also one that is small or the last: a connection that is closed waits for its client to take the rest, and not for ever.
What is not HTTP or comes too late is answered as a problem, like everything else. Cost: one timer for each connection.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from finegraph.web.admission import HERE, client_name
from finegraph.web.problems import MEDIA_TYPE, PROBLEMS, ProblemError
from finegraph.web.strict_http import StrictConnection

HEAD, BODY = "head", "body"
"""The parts of a request that are waited for."""


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """The bounds of one server."""

    connections: int = 1000
    """How many there may be; one client, unless it is on this machine, may have a quarter of them."""
    head_seconds: float = 10.0
    """How long the head of a request may take."""
    body_seconds: float = 35.0
    """How long its body may take."""
    stalled_seconds: float = 30.0
    """How long an answer that waits for its client, or what is left of it when the connection is closed, may wait."""
    of_client: Counter[str] = field(default_factory=Counter)
    """How many connections each client has now."""


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
        self.who = HERE

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Count the connection, or refuse it."""
        super().connection_made(transport)
        self.who = client_name(self.client[0] if self.client else None)
        self.limits.of_client[self.who] += 1
        most = self.limits.connections
        if len(self.connections) > most or (self.who != HERE and self.limits.of_client[self.who] > max(1, most // 4)):
            self.end_with(ProblemError("overloaded", "There are too many connections.", {"retry-after": "5"}))
        else:
            self._enter(HEAD)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop counting the connection."""
        super().connection_lost(exc)
        self._enter(None)
        self.resume_writing()
        if self._closing is not None:
            self._closing.cancel()
        self.limits.of_client[self.who] -= 1
        if not self.limits.of_client[self.who]:
            del self.limits.of_client[self.who]

    def data_received(self, data: bytes) -> None:
        """Pass the data on, and see what is awaited next."""
        super().data_received(data)
        self.follow()

    def on_response_complete(self) -> None:
        """Watch for missing data, such as the rest of a body that no route reads."""
        super().on_response_complete()
        self.follow()
        self._bound_closing()

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection, since no further request came."""
        super().timeout_keep_alive_handler()
        self._bound_closing()

    def shutdown(self) -> None:
        """Close the connection once it is answered, since the server stops."""
        super().shutdown()
        self._bound_closing()

    def follow(self) -> None:
        """Start the clock anew when another part of a request is awaited."""
        self._enter(self.awaited())

    def awaited(self) -> str | None:
        """The missing part of a request."""
        if self.conn.their_state is h11.SEND_BODY:
            return BODY
        return HEAD if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0] else None

    def _enter(self, phase: str | None) -> None:
        if phase == self._phase:
            return  # the time goes on: a byte now and then does not make it longer
        self._phase = phase
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if phase is not None and not self.transport.is_closing():
            seconds = self.limits.head_seconds if phase == HEAD else self.limits.body_seconds
            self._deadline = self.loop.call_later(seconds, self._too_late, phase, seconds)

    def _too_late(self, phase: str, seconds: float) -> None:
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
            cycle.disconnected = True  # what the route says now would come as a second answer
            cycle.message_event.set()
        self.close()

    def close(self) -> None:
        """Close the connection once the client has read what is written, or has had the time to."""
        self.transport.close()
        self._bound_closing()

    def _bound_closing(self) -> None:
        if self.transport.is_closing() and self._closing is None and self.transport.get_write_buffer_size():
            self._closing = self.loop.call_later(self.limits.stalled_seconds, self.transport.abort)

    def send_400_response(self, msg: str) -> None:
        """Answer what is not strictly HTTP like other bad requests."""
        self.end_with(self.conn.problem or ProblemError("bad-request", msg))

    def pause_writing(self) -> None:
        """The client reads more slowly than the server writes."""
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(self.limits.stalled_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read on."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None


def problem_bytes(problem: ProblemError, headers: dict[str, str] | None = None) -> bytes:
    """A problem as a whole answer."""
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
