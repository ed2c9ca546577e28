"""Routes about the served model: its description, graph and labels, and sample photos."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from finegraph.graph import LabelGraph
from finegraph.graph.name_search import label_search
from finegraph.inference.evidence import FINE
from finegraph.model.teaching.taught_photos import photo_name
from finegraph.web.problems import problem_responses
from finegraph.web.serve.schemas import KindBody, LabelsBody, ModelBody, NumberKindBody, SampleBody
from finegraph.web.serve.server_state import ServerState

MAX_ORDER = 200
"""The largest number of ordered labels that the description of a model lists; every page loads it."""


def model_routes(state: ServerState) -> APIRouter:
    """The routes about the model."""
    router = APIRouter(tags=["model"])

    @router.get("/v1/model", responses=problem_responses())
    def model() -> ModelBody:
        """The model, its kinds, and the limits of this server."""
        served, settings = state.model, state.settings
        return ModelBody(
            id=served.id,
            name=served.name,
            network=served.model.network.design.network,
            fine=len(served.model.graph),
            kinds=kinds_of(served.model.graph),
            numbers=numbers_of(served.model.graph),
            size=served.model.views.size,
            index=0 if state.index is None else len(state.index),
            teaching=settings.teach,
            lessons=sum(not lesson.forgotten for lesson in served.model.lessons),
            limits={
                "bytes": settings.security.max_bytes,
                "photos": settings.photos_per_request,
                "pixels": settings.decoding.max_pixels,
                "jpeg_pixels": settings.decoding.max_jpeg_pixels,
            },
        )

    @router.get(
        "/v1/graph",
        responses={
            200: {"description": "The label graph.", "content": {"application/json": {}}},
            **problem_responses(),
        },
    )
    def graph(request: Request) -> Response:
        """The label graph in its canonical form, as in the file graph.json of a model folder."""
        tag = f'"{state.model.model.graph.digest[:32]}"'
        headers = {"etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(state.model.graph_json, media_type="application/json", headers=headers)

    @router.get("/v1/labels", responses=problem_responses("unknown-name"))
    def labels(
        kind: Annotated[str, Query(description="A kind, or `fine`.")] = FINE,
        search: Annotated[str, Query(max_length=200, description="A part of the label; capitals do not matter.")] = "",
        limit: Annotated[int, Query(ge=1, le=1000, description="How many to list.")] = 50,
    ) -> LabelsBody:
        """The labels of a kind that hold a text; also of kinds with a million labels."""
        found = label_search(state.model.model.graph, None if kind == FINE else kind)
        count, labels = found.holding(search, limit)
        return LabelsBody(kind=kind, count=count, labels=labels)

    @router.get("/v1/samples", responses=problem_responses())
    def samples() -> list[SampleBody]:
        """Photos to try or to label, if there are any."""
        to_label = state.samples.to_label
        return [
            SampleBody(
                name=photo_name(path) if to_label else f"sample {number + 1}",
                url=f"/v1/samples/{number}",
                thumbnail=f"/v1/samples/{number}/small",
                to_label=to_label,
            )
            for number, path in enumerate(state.samples.paths)
        ]

    @router.get(
        "/v1/samples/{number}",
        response_class=Response,
        responses={
            200: {"description": "The photo.", "content": {"application/octet-stream": {}}},
            **problem_responses("not-found", "input", "photo", "overloaded"),
        },
    )
    async def sample(request: Request, number: Annotated[int, Path(ge=0, le=10_000)]) -> Response:
        """A photo to try, as it is."""
        photo = await state.photo_files.whole(state.samples.photo(number))
        return photo.response(request, "application/octet-stream")

    @router.get(
        "/v1/samples/{number}/small",
        response_class=Response,
        responses={
            200: {"description": "A small JPEG.", "content": {"image/jpeg": {}}},
            **problem_responses("not-found", "input", "photo", "overloaded"),
        },
    )
    async def small(request: Request, number: Annotated[int, Path(ge=0, le=10_000)]) -> Response:
        """A small picture of a photo to try."""
        photo = await state.photo_files.small(state.samples.photo(number))
        return photo.response(request, "image/jpeg")

    return router


def kinds_of(graph: LabelGraph) -> list[KindBody]:
    """The kinds, each with the group that it is a part of: `ingredient: tofu` is tofu of the group ingredient."""
    bodies = []
    for name in graph.kinds:
        kind = graph.kind(name)
        group, mark, part = name.partition(": ")
        grouped = bool(mark) and kind.binary
        bodies.append(
            KindBody(
                name=name,
                labels=len(kind.labels),
                binary=kind.binary,
                group=group if grouped else None,
                part=part if grouped else name,
                ordered=kind.ordered,
                order=list(kind.labels) if kind.ordered and len(kind.labels) <= MAX_ORDER else None,
            )
        )
    return bodies


def numbers_of(graph: LabelGraph) -> list[NumberKindBody]:
    """The numbers of which at least one value is known, with the range of their values."""
    bodies = []
    for name in graph.numbers:
        number = graph.number(name)
        values = number.values[number.known]
        if len(values):
            low, high = float(values.min()), float(values.max())
            whole = bool((values == values.round()).all())
            body = NumberKindBody(name=name, unit=number.unit, scale=number.scale, low=low, high=high, whole=whole)
            bodies.append(body)
    return bodies
