"""Serving a model: uvicorn with connection limits, a reload on SIGHUP, and a graceful stop.

On SIGTERM or Ctrl-C the server takes no new connections, answers open requests, then ends its workers. A second Ctrl-C
ends at once. On SIGHUP the model is loaded again from its folder; no request is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Callable

import torch
import uvicorn

from finegraph.web.connections import ConnectionLimits
from finegraph.web.refusing import QuickRefusal
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
