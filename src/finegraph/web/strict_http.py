"""Strict HTTP/1.1: ambiguous requests that lenient parsers accept are refused.

If a proxy and this server read one request differently, a second request can be smuggled inside it. So the server
refuses everything that RFC 9112 allows it to refuse: a length together with chunks, lines that end without a carriage
return, folded header fields, and heads above a size. The connection is then closed, as nobody knows where the next
request begins. Cost: three searches through the head of each request.
"""

from __future__ import annotations

import re

import h11

from finegraph.web.problems import ProblemError

MAX_HEAD = 32 << 10
"""The largest head of a request, in bytes."""
_END = re.compile(rb"\n\r?\n")
_BARE = re.compile(rb"(?<!\r)\n")
_FOLDED = re.compile(rb"\n[ \t]")
Event = h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]


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
        return ProblemError("bad-request", "A field of the head goes on in the next line; write it in one.")
    return None


def _length_problem(request: h11.Request) -> ProblemError | None:
    """The problem of how a request declares its length; None if there is none."""
    if {b"content-length", b"transfer-encoding"} <= {name for name, _ in request.headers}:
        return ProblemError(
            "bad-request", "The request has both Content-Length and Transfer-Encoding; send one of them."
        )
    return None
