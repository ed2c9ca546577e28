"""The app of `finegraph serve`: its routes, page, checks and counters.

GET  /                 the page
POST /v1/predict       what is on photos            POST /v1/given     the same photo with other evidence
POST /v1/search        similar photos               GET  /v1/search    photos like those of a fine label
GET  /v1/photos/…      small pictures of them
GET  /v1/model         the model                    GET  /v1/graph     its label graph
GET  /v1/labels        labels by a part of them     GET  /v1/samples   photos to try
POST, GET, DELETE /v1/lessons   teaching, what was taught, taking it back; if the server was started so
GET  /health/live, /health/ready, /metrics, /openapi.json, /docs (the API as a page)
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import APIRouter, FastAPI, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from finegraph._version import __version__
from finegraph.web.problems import ProblemBody, ProblemError, install_problems, problem_responses
from finegraph.web.security import Guard
from finegraph.web.serve.lesson_routes import lesson_routes
from finegraph.web.serve.model_routes import model_routes
from finegraph.web.serve.predict_routes import predict_routes
from finegraph.web.serve.schemas import HealthBody
from finegraph.web.serve.search_routes import label_search_routes, search_routes
from finegraph.web.serve.server_state import ServerCounters, ServerState
from finegraph.web.server import SHARED, mount_assets, page_response

PAGE = Path(__file__).parent / "page"
"""The files of the page, served under `/assets`."""
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"

ADVICE = {
    "bad-request": "Send it as /openapi.json describes.",
    "not-found": "See /openapi.json for what there is.",
    "method": "See /openapi.json for the methods.",
    "unknown-name": "See /v1/labels for the names.",
}
"""What to do about problems, by the routes of this server."""


def make_app(state: ServerState) -> FastAPI:
    """The app of a server. Its workers start and stop with it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await state.start()
        yield
        await state.stop()

    app = FastAPI(
        title="finegraph",
        version=__version__,
        description="What is on photos: fine and coarse labels with one exact posterior.",
        docs_url=None,  # that page loads scripts from elsewhere; ours is `page/api_docs.html`
        redoc_url=None,
        lifespan=lifespan,
    )
    install_problems(app, ADVICE)
    lessons = (lesson_routes,) if state.settings.teach else ()
    for routes in (predict_routes, search_routes, label_search_routes, model_routes, *lessons, _health_routes):
        app.include_router(routes(state))
    mount_assets(app, PAGE, "/assets")
    mount_assets(app, SHARED, "/shared")

    @app.get("/", include_in_schema=False)
    def page() -> Response:
        return page_response(PAGE / "serve.html")

    @app.get("/docs", include_in_schema=False)
    def docs() -> Response:
        return page_response(PAGE / "api_docs.html")

    _complete_description(app, has_token=state.settings.security.token is not None)
    app.add_middleware(_LessonRefresh, state=state)
    app.add_middleware(_RequestCounter, statistics=state.statistics)
    app.add_middleware(Guard, security=state.settings.security)
    return app


def _health_routes(state: ServerState) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/health/live")
    async def live() -> HealthBody:  # async: it needs no thread, and none may be free
        """Whether the server runs."""
        return HealthBody(status="live")

    @router.get("/health/ready", responses=problem_responses("not-ready"))
    async def ready() -> HealthBody:
        """Whether the server can answer about photos now."""
        if not state.ready or not state.pool.is_ready():
            raise ProblemError("not-ready", "The workers are not there yet, or no longer.", {"retry-after": "1"})
        return HealthBody(status="ready")

    @router.get(
        "/metrics",
        response_class=Response,
        responses={
            200: {"description": "Counters for Prometheus.", "content": {"text/plain": {}}},
            **problem_responses(),
        },
    )
    def metrics() -> Response:
        """What the server counts."""
        return Response(state.statistics.text(), media_type=PROMETHEUS)

    return router


def _complete_description(app: FastAPI, *, has_token: bool) -> None:
    """Complete the OpenAPI description: add the error schema and the token, and use docstrings as summaries."""
    make = app.openapi

    def described() -> dict[str, object]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        description = make()
        parts = description.setdefault("components", {})
        parts.setdefault("schemas", {})["ProblemBody"] = ProblemBody.model_json_schema()
        if has_token:
            parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            description["security"] = [{"token": []}]
        for methods in description["paths"].values():
            for operation in methods.values():  # what a route does stands in its docstring
                operation["summary"], _, more = operation.pop("description").partition("\n\n")
                if more:
                    operation["description"] = more
        return description

    app.openapi = described  # type: ignore[method-assign]


class _LessonRefresh:
    """Middleware that takes up lessons of other processes before each request to the API."""

    def __init__(self, app: ASGIApp, state: ServerState) -> None:
        self._app, self._state = app, state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/v1/"):
            await self._state.follow()
        await self._app(scope, receive, send)


class _RequestCounter:
    """Middleware that counts requests by route and status, and measures how long they take."""

    def __init__(self, app: ASGIApp, statistics: ServerCounters) -> None:
        self._app, self._statistics = app, statistics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def send_and_note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_note_status)
        finally:
            # The pattern of a route, not the path: every distinct path would become a counter of its own.
            route = getattr(scope.get("route"), "path", "other")
            self._statistics.requests.labels(route, str(status)).inc()
            self._statistics.seconds.labels(route).observe(time.perf_counter() - started)
