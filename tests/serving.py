"""A real server on a free port of this machine, in a thread of the test."""

import asyncio
import io
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import httpx

import tiny_classifier as tiny
from finegraph.web.decoding import DecodingSettings
from finegraph.web.security import Security
from finegraph.web.serve.answering import ServedModel
from finegraph.web.serve.model_server import make_server
from finegraph.web.serve.serve_settings import ServeSettings
from finegraph.web.serve.server_state import ServerState
from finegraph.web.server import listen


@contextmanager
def running(classifier, *, index=None, decoding=None, security=None, **settings):
    """A server of a classifier; gives its address, its state, and a client."""
    settings = ServeSettings(
        **{"model": Path("model"), "threads": 2, **settings},
        decoding=decoding or DecodingSettings(workers=1),
        security=security or Security(),
    )
    state = ServerState(settings, ServedModel(classifier, "menu"), index)
    server = make_server(state)
    listener = listen("127.0.0.1", 0)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            thread.join(0.01)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with httpx.Client(base_url=address, timeout=30) as client:
            yield SimpleNamespace(address=address, state=state, client=client, model=classifier, server=server)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def until(holds, seconds=20.0):
    """Wait until something holds; fail where it does not come about."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)


def photo_bytes(seed=0, form="PNG", **size):
    """A photo file."""
    buffer = io.BytesIO()
    tiny.picture(seed, **size).save(buffer, form)
    return buffer.getvalue()


def files(*contents):
    """Photos for a multipart request."""
    return [("photo", (f"photo{number}.png", content, "image/png")) for number, content in enumerate(contents)]


class InProcess:
    """A client of an app without a server between them; it keeps cookies."""

    def __init__(self, app, base):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(transport=transport, base_url=base)
        self.cookies = self._client.cookies

    def request(self, *arguments, **options):
        return asyncio.run(self._client.request(*arguments, **options))

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, **options):
        return self.request("POST", path, **options)

    def delete(self, path, **options):
        return self.request("DELETE", path, **options)
