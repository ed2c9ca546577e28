"""`GET /v1/search`: the photos of an index that are most similar to those of a fine label; no photo is sent."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import JSONResponse

from finegraph.web.problems import ProblemError, problem_responses
from finegraph.web.serve.routes_predict import client_of
from finegraph.web.serve.routes_search import FIELDS
from finegraph.web.serve.schemas import MOST_TOP, LabelSearchBody
from finegraph.web.serve.searching import SearchAsk
from finegraph.web.serve.state import ServerState
from finegraph.web.serve.stored_photos import stored_contents


def _named(name: str) -> object:
    """A list of texts, described as in the other kind of search."""
    return Query(max_length=200, description=FIELDS[name]["description"])


Names = list[str]


def label_search_routes(state: ServerState) -> APIRouter:
    """The route that searches by a fine label."""
    router = APIRouter(tags=["search"])

    @router.get(
        "/v1/search",
        response_model=LabelSearchBody,
        responses=problem_responses("no-index", "unknown-name", "input", "too-many", "overloaded", "index-changed"),
    )
    async def search_label(
        request: Request,
        label: Annotated[str, Query(max_length=1000, description="A fine label; searched by the mean of its photos.")],
        count: Annotated[int, Query(ge=1, le=MOST_TOP, description="How many photos.")] = 12,
        where: Annotated[Names, _named("where")] = [],  # noqa: B006  FastAPI makes a new one for each request
        where_not: Annotated[Names, _named("where_not")] = [],  # noqa: B006
        same: Annotated[Names, _named("same")] = [],  # noqa: B006
        other: Annotated[Names, _named("other")] = [],  # noqa: B006
        per_label: Annotated[int | None, Query(ge=1, le=MOST_TOP, description="Of each fine label at most.")] = None,
        guessed: Annotated[bool, Query(description=FIELDS["guessed"]["description"])] = False,
    ) -> Response:
        """The photos of the index that are most similar to those of a fine label, filtered and re-ranked as asked."""
        index, model = state.index, state.model
        if index is None:
            raise ProblemError("no-index", "This server was started without an index.")
        with state.admission.enter(0, client_of(request)):
            opened = await asyncio.to_thread(index.current, model)
            ask = SearchAsk(
                count=count,
                where=await asyncio.to_thread(opened.filters, where),
                where_not=await asyncio.to_thread(opened.filters, where_not),
                same=tuple(same),
                other=tuple(other),
                per_label=per_label,
                guessed=guessed,
            )
            hits = await asyncio.to_thread(opened.search_label, label, ask)
        return JSONResponse({"model": model.id, "label": label, "hits": stored_contents(state, opened, hits)})

    return router
