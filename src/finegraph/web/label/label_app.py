"""The web app of the labelling page: its routes, its files, and whether its store is whole.

Every route is a thin layer over one method of the store. Blocking calls run in the thread pool of the server. Access is
checked before all routes, in `finegraph.web.security`.

The store is checked when it is opened. Later reads are not compared with its seals, which would cost too much. So
`/health/ready` starts a check of the whole store every ten minutes, in a background thread, and waits at most a second
for it.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from finegraph.errors import DamagedStoreError, FinegraphError, LabelStoreError
from finegraph.labelling import LabelStore
from finegraph.web.label.background_answers import LiveNames
from finegraph.web.label.class_routes import class_routes
from finegraph.web.label.compare_routes import compare_routes
from finegraph.web.label.edit_routes import edit_routes, install_conflicts
from finegraph.web.label.file_routes import file_routes
from finegraph.web.label.history_routes import history_routes
from finegraph.web.label.photo_routes import photo_routes
from finegraph.web.problems import ProblemError, install_problems, problem_of
from finegraph.web.security import Guard, Security
from finegraph.web.server import SHARED, mount_assets, page_response
from finegraph.workflows.label import LabelSession

_LOG = logging.getLogger("finegraph.web")

STATIC = Path(__file__).parent / "static"
"""The files of the page."""
OPEN_PATHS = ("/health/live", "/health/ready", "/label/", "/shared/")
"""Paths without a token: health, and the files of the page, which hold no labels."""
ADVICE = {
    "not-found": "Load the page again, which is at /.",
    "too-large": "Send a smaller file, or import it where the store is.",
    "media-type": "Send JSON.",
    "unknown-name": "Load the page again: somebody may have renamed it. /api/start has the names of the kinds.",
}
"""What to do about problems, by the routes of this server."""
MAX_BYTES = 64 << 20
"""The largest request; a graph file of 100,000 classes with ten kinds has about 15 MB."""


def create_label_app(session: LabelSession, *, security: Security | None = None) -> FastAPI:
    """The web app of a labelling session.

    Args:
        session: the labelling session; the caller keeps it open while the app is in use, and closes it.
        security: the access rules; by default this machine only.
    """
    app = FastAPI(title="finegraph label", docs_url=None, redoc_url=None, openapi_url=None)
    install_problems(app, ADVICE)
    install_conflicts(app, session)
    names = LiveNames(session.store)
    for router in (
        class_routes(session, names),
        history_routes(session, names),
        photo_routes(session),
        edit_routes(session),
        compare_routes(session),
        file_routes(session),
    ):
        app.router.routes.extend(router.routes)  # flat: nested routers cost every request time

    @app.exception_handler(LabelStoreError)
    async def store_problem(request: Request, error: LabelStoreError) -> Response:
        return _store_problem(session.store, error).response(ADVICE)

    @app.get("/")
    def page() -> Response:
        return page_response(STATIC / "label.html")

    @app.get("/health/live")
    def live() -> dict[str, str]:
        return {"status": "ok"}

    health = StoreHealth(session.store)

    @app.get("/health/ready")
    def ready() -> dict[str, str]:
        """Whether the store is whole, by its last check."""
        health.refuse_damaged()
        return {"status": "ready"}

    mount_assets(app, STATIC, "/label")
    mount_assets(app, SHARED, "/shared")
    app.add_middleware(Guard, security=security or Security(open_paths=OPEN_PATHS, max_bytes=MAX_BYTES))
    return app


def _store_problem(store: LabelStore, error: LabelStoreError) -> ProblemError:
    """The problem for an error of the store, without the place of the database."""
    problem = problem_of(error)
    if isinstance(error, DamagedStoreError):
        _LOG.error("%s", error)
        return ProblemError(problem.name, "; ".join(error.damage) or "The store is not as it was written.")
    headers = {"retry-after": "1"} if problem.name == "overloaded" else {}
    return ProblemError(problem.name, str(error).removeprefix(f"{store.place}: "), headers)


_CHECK_INTERVAL = 600.0
"""The seconds from one check to the next."""
_CHECK_WAIT = 1.0
"""The seconds that a request waits for the check that it started; enough for small stores."""


class StoreHealth:
    """What the last check of an open store found.

    Args:
        store: the store, which has just been checked.
        between: the seconds from one check to the next.
    """

    def __init__(self, store: LabelStore, between: float = _CHECK_INTERVAL) -> None:
        self._store, self._interval = store, between
        self._lock = threading.Lock()
        self._next = time.monotonic() + between
        self._running = False
        self._damage: DamagedStoreError | None = None

    def refuse_damaged(self) -> None:
        """Begin a check if one is due.

        Raises:
            DamagedStoreError: the last check found damage.
        """
        with self._lock:
            due = not self._running and time.monotonic() >= self._next
            self._running |= due
        if due:
            check = threading.Thread(target=self._check, name="label-store-check", daemon=True)
            check.start()
            check.join(_CHECK_WAIT)
        if (damage := self._damage) is not None:
            raise DamagedStoreError(str(damage), damage.damage)

    def _check(self) -> None:
        try:
            self._store.check()
            self._damage = None
        except DamagedStoreError as error:
            self._damage = error
        except FinegraphError as error:  # the store is closing
            _LOG.warning("the store could not be checked: %s", error)
        with self._lock:
            self._running, self._next = False, time.monotonic() + self._interval
