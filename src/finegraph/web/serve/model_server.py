"""Serving a model: uvicorn with connection limits, quick refusals, a reload on SIGHUP, and a graceful stop.

On SIGTERM or Ctrl-C the server takes no new connections, answers open requests, then ends its workers. A second Ctrl-C
ends at once. On SIGHUP the model is loaded again from its folder; no request is dropped.

A flood of requests must not slow down the requests that were admitted. So while the server is full, or a client has
reached its limit, a plain upload is refused from its first bytes: no parser, no task, no route. A request that is not
plain (no length, two lengths, `Expect`, pipelining, unread refusals) takes the usual path, where it is refused too, at
twenty times the cost. A refusal reveals only that the server is busy, so neither token nor origin is checked.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import signal
import socket
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import h11
import torch
import uvicorn

from finegraph.web.admission import Admission
from finegraph.web.connections import BODY, BoundedConnection, ConnectionLimits, head_problem, problem_bytes
from finegraph.web.problems import ProblemError
from finegraph.web.serve.answering import ServedModel
from finegraph.web.serve.searching import PhotoIndex
from finegraph.web.serve.serve_app import make_app
from finegraph.web.serve.serve_settings import ServeSettings
from finegraph.web.serve.server_state import ServerState
from finegraph.web.server import Server, listen, run_until_stopped, signals_where_possible

_LOG = logging.getLogger("finegraph.web")
_UPLOAD_GRACE = 5.0
"""How long after the upload deadline a connection is cut, in seconds; it lets the route answer first."""
_SWITCH_INTERVAL = 0.0005
"""How long a thread may keep others from running Python, in seconds. The event loop yields whenever it sends; with
Python's default of 5 ms it then waits so long that the network runs dry, which costs a quarter of the throughput."""
_SPARE_FILES = 200
"""How many open files a server needs in addition to its connections."""
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,12}) *\r\n", re.IGNORECASE)
_NOT_PLAIN = re.compile(rb"\r\n(?:transfer-encoding|expect|upgrade|connection)[ \t]*:", re.IGNORECASE)
_END = b"\r\n\r\n"


def serve(settings: ServeSettings, on_ready: Callable[[str], None] = lambda address: None) -> None:
    """Load the model and serve it until the process is asked to stop.

    Args:
        settings: the settings of the server.
        on_ready: called with the address once the server answers.

    Raises:
        ModelFolderError: there is no model, or it is damaged.
        InputError: the address cannot be listened on.
    """
    torch.set_num_threads(1)  # each batching thread uses one core; see batching.py
    sys.setswitchinterval(_SWITCH_INTERVAL)
    listener = listen(settings.security.host, settings.security.port)
    raise_file_limit(settings.connections + _SPARE_FILES)
    try:
        model = ServedModel.load(settings.model, settings.engine, settings.weights)
        if settings.teach:
            _ = model.model.teaching  # raises for a model that cannot be taught
        if model.note is not None:
            _LOG.warning(model.note)
        index = PhotoIndex.open_for(settings.index, model, settings.small_index)
        state = ServerState(settings, model, index)
        asyncio.run(_run(make_server(state), state, listener, on_ready))
    finally:
        listener.close()


def raise_file_limit(number: int) -> None:
    """Raise the limit of open files of this process, as far as the system allows."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # Windows has no such limit
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY and soft < number:
            wanted = number if hard == resource.RLIM_INFINITY else min(number, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def make_server(state: ServerState) -> Server:
    """The server of an app, ready to be run on a socket."""
    settings = state.settings
    limits = ConnectionLimits(
        connections=settings.connections,
        head_seconds=settings.head_seconds,
        body_seconds=settings.upload_seconds + _UPLOAD_GRACE,
        stalled_seconds=settings.stalled_seconds,
    )
    paths, max_bytes = ("/v1/predict", "/v1/search", "/v1/lessons"), settings.security.max_bytes
    return Server(
        uvicorn.Config(
            make_app(state),
            http=QuickRefusal.of(state.admission, paths, max_bytes, limits),
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            lifespan="on",
            ws="none",
            backlog=512,
            timeout_keep_alive=20,
            timeout_graceful_shutdown=round(settings.stop_seconds),
        )
    )


async def _run(server: Server, state: ServerState, listener: socket.socket, on_ready: Callable[[str], None]) -> None:
    """Serve until asked to stop; SIGHUP loads the model again."""
    loop = asyncio.get_running_loop()
    reloads: set[asyncio.Task[bool]] = set()

    def reload() -> None:
        task = loop.create_task(state.reload())
        reloads.add(task)  # asyncio holds only a weak reference: without this the task may be collected
        task.add_done_callback(reloads.discard)

    with signals_where_possible():
        loop.add_signal_handler(signal.SIGHUP, reload)
    await run_until_stopped(server, listener, on_ready)


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
