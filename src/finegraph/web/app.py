"""The app of `finegraph serve`: routes, page, checks and counters put together.

GET  /                 the page
POST /v1/predict       what is on photos            POST /v1/given     the same photo with other evidence
POST /v1/search        similar photos               GET  /v1/search    photos like those of a fine label
GET  /v1/photos/…      small pictures of them
GET  /v1/model         the model                    GET  /v1/graph     its label graph
GET  /v1/labels        labels by a part of them     GET  /v1/samples   photos to try
GET  /health/live, /health/ready, /metrics, /openapi.json
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from finegraph._version import __version__
from finegraph.web.assets import mount_assets, page_response
from finegraph.web.problems import ProblemBody, ProblemError, install_problems, problem_responses
from finegraph.web.routes_label_search import label_search_routes
from finegraph.web.routes_model import model_routes
from finegraph.web.routes_predict import predict_routes
from finegraph.web.routes_search import search_routes
from finegraph.web.schemas import HealthBody
from finegraph.web.security import Guard
from finegraph.web.state import ServerState
from finegraph.web.statistics import Statistics

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
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    install_problems(app, ADVICE)
    app.include_router(label_search_routes(state))
    for router in (predict_routes(state), search_routes(state), model_routes(state), _health_routes(state)):
        app.include_router(router)
    mount_assets(app)

    @app.get("/", include_in_schema=False)
    def page() -> Response:
        return page_response("index.html")

    _describe_problems(app)
    app.add_middleware(_Counted, statistics=state.statistics)
    app.add_middleware(Guard, security=state.settings.security)
    return app


def _health_routes(state: ServerState) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/health/live")
    async def live() -> HealthBody:  # needs no thread, of which there may be none left
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


def _describe_problems(app: FastAPI) -> None:
    """Put the form of error answers into the description, where all routes refer to it."""
    make = app.openapi

    def described() -> dict[str, object]:
        description = make()
        schemas = description.setdefault("components", {}).setdefault("schemas", {})
        schemas["ProblemBody"] = ProblemBody.model_json_schema()
        return description

    app.openapi = described  # type: ignore[method-assign]


class _Counted:
    """Counts requests by route and status, and how long they take."""

    def __init__(self, app: ASGIApp, statistics: Statistics) -> None:
        self._app, self._statistics = app, statistics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            # The pattern of a route, never the path itself: there may be any number of those.
            route = getattr(scope.get("route"), "path", "other")
            self._statistics.requests.labels(route, str(status)).inc()
            self._statistics.seconds.labels(route).observe(time.perf_counter() - started)
