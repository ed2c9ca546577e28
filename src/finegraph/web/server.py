"""Running a web server: uvicorn on a socket that is bound first, until the process is asked to stop; files of pages.

On SIGTERM or Ctrl-C the server takes no new connections, answers open requests, and `run_until_stopped` returns. A
second Ctrl-C ends the process at once. Pages are served as they lie in the package: plain HTML, CSS and JavaScript
modules, nothing built.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from finegraph.errors import InputError
from finegraph.web.security import reachable

SHARED = Path(__file__).parent / "shared"
"""The files that the pages of both servers share, served under `/shared`."""


class Server(uvicorn.Server):
    """uvicorn without its signal handling, which would end the process as if it had been killed."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do not handle signals; `run_until_stopped` does."""
        yield


def listen(host: str, port: int) -> socket.socket:
    """A socket bound to an address; bound before the model is loaded, so that a mistake shows at once.

    Raises:
        InputError: the address is taken, or not an address of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio disables Nagle's algorithm only if the protocol is given; otherwise each small answer waits 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise InputError(
            f"{host}:{port} cannot be listened on: {error.strerror or error}; choose another port or address"
        ) from error
    return listener


def signals_where_possible() -> contextlib.suppress:
    """A context for setting signal handlers: only the main thread can, and Windows does not have them."""
    return contextlib.suppress(NotImplementedError, ValueError, RuntimeError)


async def run_until_stopped(server: Server, listener: socket.socket, on_ready: Callable[[str], None]) -> None:
    """Serve until asked to stop.

    Args:
        server: the server.
        listener: the socket that it listens on.
        on_ready: called with the address once the server answers; if it listens on all addresses, with one that other
            machines reach.
    """
    loop = asyncio.get_running_loop()
    with signals_where_possible():
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, server.handle_exit, number, None)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.02)
    if server.started:
        host, port = listener.getsockname()[:2]
        on_ready(reachable(host, port)[0])
    await serving


class _Revalidated(StaticFiles):
    """Files that a browser may cache but must revalidate, so that pages and scripts always match."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = "no-cache"
        return response


def mount_assets(app: FastAPI, folder: Path, path: str) -> None:
    """Serve the files in a folder of the package, and nothing outside it."""
    app.mount(path, _Revalidated(directory=folder), name=path.strip("/").replace("/", "-"))


def page_response(path: Path) -> Response:
    """The response with the page in a file."""
    return FileResponse(path, media_type="text/html; charset=utf-8", headers={"cache-control": "no-cache"})
