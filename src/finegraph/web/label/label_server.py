"""Running the labelling page: one process, one writer, until it is stopped.

On SIGTERM or Ctrl-C the server takes no new connections, answers open requests, and `serve_label` returns. A second
Ctrl-C ends the process at once.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Sequence

import uvicorn

from finegraph.web.connections import BoundedConnection
from finegraph.web.label.label_app import MAX_BYTES, OPEN_PATHS, create_label_app
from finegraph.web.security import Security
from finegraph.web.server import Server, listen, run_until_stopped
from finegraph.workflows.label import LabelSession

_STOP_SECONDS = 5


def print_address(address: str) -> None:
    """Print the address of the page."""
    print(f"The page is at {address}   (Ctrl-C stops)", flush=True)  # a calling program may wait for this line


def serve_label(
    session: LabelSession,
    *,
    host: str = "127.0.0.1",
    port: int = 8377,
    token: str | None = None,
    hosts: Sequence[str] = (),
    on_ready: Callable[[str], None] = print_address,
) -> None:
    """Serve the labelling page of a session until the process is asked to stop.

    Args:
        session: the labelling session.
        host: the address to listen on; one that other machines can reach needs a token.
        port: the port to listen on; 0 for any that is free.
        token: the secret that every request must send.
        hosts: further host names of the server, such as that of a proxy in front of it.
        on_ready: called with the address once the server answers.

    Raises:
        InputError: a public address without a token, a token that is easily guessed, or an address that is taken.
    """
    Security(host=host, port=port, token=token).check()
    listener = listen(host, port)
    try:
        taken = listener.getsockname()[1]
        security = Security(
            host=host, port=taken, token=token, hosts=tuple(hosts), max_bytes=MAX_BYTES, open_paths=OPEN_PATHS
        )
        config = uvicorn.Config(
            create_label_app(session, security=security),
            http=BoundedConnection,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=_STOP_SECONDS,
        )
        gc.collect()
        gc.freeze()  # collecting the loaded modules, which all stay, would delay an edit by up to 150 ms
        asyncio.run(run_until_stopped(Server(config), listener, on_ready))
    finally:
        gc.unfreeze()
        listener.close()
