"""A labelling server for tests: a session on a small graph, with photos, behind a real server in a thread."""

import csv
import socket
import threading
from contextlib import contextmanager

import uvicorn
from PIL import Image, ImageDraw

from finegraph.graph.sample_menu import sample_menu
from finegraph.web.label import create_label_app
from finegraph.workflows.label import open_session

TIMES = 400


class Server:
    """A server that can be stopped and started again at the same address."""

    def __init__(self, app):
        self._app = app
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._server = None

    def start(self):
        config = uvicorn.Config(
            self._app, host="127.0.0.1", port=self.port, log_level="critical", ws="none", lifespan="off"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        for _ in range(TIMES):
            if self._server.started:
                return
            threading.Event().wait(0.02)
        raise RuntimeError("the server did not start")

    def stop(self):
        if self._server is not None:
            self._server.should_exit = True
            self._server.force_exit = True
            self._thread.join(10)
            self._server = None


@contextmanager
def serving(session, **options):
    """A running server of a session."""
    server = Server(create_label_app(session, **options))
    server.start()
    try:
        yield server
    finally:
        server.stop()


def photo_folder(folder, classes, each=3):
    """A folder per class with small photos, each of its own colours."""
    for number, name in enumerate(classes):
        place = folder / name
        place.mkdir(parents=True)
        for photo in range(each):
            picture = Image.new("RGB", (160, 120), ((number * 67) % 256, (number * 31 + 90) % 256, 120))
            ImageDraw.Draw(picture).ellipse([20 + 20 * photo, 30, 90 + 20 * photo, 100], fill=(240, 220, 150))
            picture.save(place / f"{photo}.jpg")
    return folder


def table_session(folder, header, rows):
    """A session on a graph file with a header and rows, in a folder."""
    path = folder / "table.csv"
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return open_session(str(path))


def menu_session(folder, **options):
    """A session on the sample menu, in a folder."""
    path = folder / "menu.csv"
    sample_menu().write(path)
    return open_session(str(path), **options)
