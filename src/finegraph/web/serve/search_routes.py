"""`/v1/search`: the photos of an index that are most similar to photos of a request (POST) or of a fine label (GET)."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.responses import JSONResponse

from finegraph.errors import PhotoFileError
from finegraph.web.problems import ProblemError, problem_responses
from finegraph.web.serve.answering import ServedModel
from finegraph.web.serve.batching import Done
from finegraph.web.serve.photo_requests import admitted_upload, answer_photos, bad_photos, client_of, stored_contents
from finegraph.web.serve.schemas import MAX_TOP, LabelSearchBody, SearchBody, multipart
from finegraph.web.serve.searching import OpenIndex, PhotoIndex, SearchAsk
from finegraph.web.serve.server_state import ServerState
from finegraph.web.serve.uploads import Upload
from finegraph.workflows.predict import evidence_of, parse_given

_NAMES = {"type": "array", "items": {"type": "string"}}
FIELDS: dict[str, dict[str, Any]] = {
    "count": {"type": "integer", "minimum": 1, "maximum": MAX_TOP, "default": 12, "description": "How many photos."},
    "where": {
        **_NAMES,
        "description": "Only photos with this, as kind=label; the same kind again: one of these. Numbers and ordered "
        "kinds take limits, such as price<=12, heat>=medium, and heat>this: hotter than what is searched by.",
    },
    "where_not": {**_NAMES, "description": "No photos with this, as kind=label."},
    "same": {**_NAMES, "description": "Kinds that should be the same as on the photo."},
    "other": {**_NAMES, "description": "Kinds that should differ from the photo."},
    "given": {
        **_NAMES,
        "description": "What is known of the photos, as kind=label: only such are found; or for same and other.",
    },
    "per_label": {"type": "integer", "minimum": 1, "maximum": MAX_TOP, "description": "Of each fine label at most."},
    "sort": {
        "type": "string",
        "maxLength": 200,
        "description": "A number or an ordered kind to sort what is found by, rising; with a minus sign, falling.",
    },
    "guessed": {
        "type": "boolean",
        "default": False,
        "description": "Whether photos without a label are filtered by what the model takes them for.",
    },
}


def search_routes(state: ServerState) -> APIRouter:
    """The routes that search."""
    router = APIRouter(tags=["search"])

    @router.post(
        "/v1/search",
        response_model=SearchBody,
        responses=problem_responses(
            "no-index",
            "timeout",
            "media-type",
            "photo",
            "input",
            "evidence",
            "too-many",
            "overloaded",
            "index-changed",
            "search-engine",
        ),
        openapi_extra=multipart(FIELDS, state.settings.photos_per_request),
    )
    async def search(request: Request) -> Response:
        """The photos of the index that are most similar to each photo, filtered and re-ranked as asked."""
        _index_of(state)  # before anything is read
        async with admitted_upload(state, request, FIELDS) as upload:
            # Taken together: a reload during the upload may have replaced both the model and its index.
            index = _index_of(state)
            model = index.model
            opened, ask = await asyncio.to_thread(_prepare, index, model, upload)
            outcomes = await answer_photos(state, upload.photos, model, None)
            good = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, Done)]
            bad = bad_photos(upload.photos, outcomes)
            scores = [outcome.scores for outcome in outcomes if not isinstance(outcome, PhotoFileError)]
            copies = await asyncio.to_thread(opened.copies, [upload.photos[number].content for number in good])
            found = await asyncio.to_thread(opened.search, scores, ask, copies)
        photos = [
            {
                "number": number,
                "photo": upload.photos[number].name,
                "hits": stored_contents(state, opened, own.hits),
                "in_index": stored_contents(state, opened, same_photo),
                "limits": own.limits,
            }
            for number, own, same_photo in zip(good, found, copies, strict=True)
        ]
        given = {
            kind: sorted(labels) if isinstance(labels, set) else [labels] for kind, labels in (ask.given or {}).items()
        }
        return JSONResponse({"model": model.id, "given": given, "photos": photos, "bad": bad})

    @router.get(
        "/v1/photos/{key}",
        response_class=Response,
        responses={
            200: {"description": "A small JPEG.", "content": {"image/jpeg": {}}},
            **problem_responses("not-found", "photo", "input", "overloaded"),
        },
    )
    async def photo(request: Request, key: Annotated[str, Path(max_length=64)]) -> Response:
        """A small picture of a photo that a search found."""
        picture = await state.photo_files.small(state.thumbnails.photo(key))
        return picture.response(request, "image/jpeg")

    return router


def _index_of(state: ServerState) -> PhotoIndex:
    """The index that is searched now."""
    if state.index is None:
        raise ProblemError("no-index", "This server was started without an index.")
    return state.index


def _prepare(index: PhotoIndex, model: ServedModel, upload: Upload) -> tuple[OpenIndex, SearchAsk]:
    """The current index and the question of a request, checked before any photo is decoded."""
    opened = index.current(model)
    known = parse_given(model.model.graph, upload.fields.get("given", ()))
    given = evidence_of(model.model.graph, known)
    return opened, SearchAsk(
        count=upload.whole("count", 12, 1, MAX_TOP),
        where=opened.filters(upload.fields.get("where", ())),
        where_not=opened.filters(upload.fields.get("where_not", ())),
        same=tuple(upload.fields.get("same", ())),
        other=tuple(upload.fields.get("other", ())),
        given=given or None,
        per_label=upload.whole("per_label", 1, 1, MAX_TOP) if "per_label" in upload.fields else None,
        guessed=upload.flag("guessed", False),
        sort=opened.check_sort(next(iter(upload.fields.get("sort", ())), None)),
    )


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
        responses=problem_responses(
            "no-index", "unknown-name", "input", "too-many", "overloaded", "index-changed", "search-engine"
        ),
    )
    async def search_label(
        request: Request,
        label: Annotated[str, Query(max_length=1000, description="A fine label; searched by the mean of its photos.")],
        count: Annotated[int, Query(ge=1, le=MAX_TOP, description="How many photos.")] = 12,
        where: Annotated[Names, _named("where")] = [],  # noqa: B006  FastAPI makes a new one for each request
        where_not: Annotated[Names, _named("where_not")] = [],  # noqa: B006
        same: Annotated[Names, _named("same")] = [],  # noqa: B006
        other: Annotated[Names, _named("other")] = [],  # noqa: B006
        per_label: Annotated[int | None, Query(ge=1, le=MAX_TOP, description="Of each fine label at most.")] = None,
        guessed: Annotated[bool, Query(description=FIELDS["guessed"]["description"])] = False,
        sort: Annotated[str | None, Query(max_length=200, description=FIELDS["sort"]["description"])] = None,
    ) -> Response:
        """The photos of the index that are most similar to those of a fine label, filtered and re-ranked as asked."""
        index = _index_of(state)
        model = index.model
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
                sort=opened.check_sort(sort),
            )
            found = await asyncio.to_thread(opened.search_label, label, ask)
        hits = stored_contents(state, opened, found.hits)
        return JSONResponse({"model": model.id, "label": label, "hits": hits, "limits": found.limits})

    return router
