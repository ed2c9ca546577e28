"""`/v1/lessons`: teach the served model by example, take lessons back, and list them.

These routes exist only if the server was started with teaching. Photos are decoded in memory like all others; the model
folder keeps their features, names and digests with the lesson, never the photos themselves.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Annotated, Any

import numpy as np
import torch
from fastapi import APIRouter, Path, Query, Request, Response
from numpy.typing import NDArray
from starlette.responses import JSONResponse

from finegraph.errors import PhotoFileError
from finegraph.model.teaching.lesson import MAX_NAME, MAX_PERSON, TaughtPhoto, check_id, check_teacher
from finegraph.model.teaching.taught_photos import kept_features, photo_name
from finegraph.web.problems import ProblemError, problem_responses
from finegraph.web.serve.answering import ServedModel
from finegraph.web.serve.batching import Done
from finegraph.web.serve.photo_requests import admitted_upload, answer_photos
from finegraph.web.serve.schemas import LessonsBody, TaughtBody, multipart
from finegraph.web.serve.server_state import ServerState
from finegraph.web.serve.uploads import UploadedPhoto
from finegraph.workflows.teach import TeachResult, parse_parents

MAX_LISTED = 1000
FIELDS: dict[str, dict[str, Any]] = {
    "label": {"type": "string", "maxLength": MAX_NAME, "description": "The fine label that the photos show."},
    "parent": {
        "type": "array",
        "items": {"type": "string"},
        "description": "A coarse label of a new label, as kind=label; the same kind again means one of these, and of a "
        "group of kinds all of these. Of a number its value: price=12.5, price=12.5 +- 1.5 or price=10..15.",
    },
    "new": {
        "type": "boolean",
        "default": False,
        "description": "Whether the label may be new although no coarse label is given.",
    },
    "person": {"type": "string", "maxLength": MAX_PERSON, "description": "Who teaches."},
    "id": {"type": "string", "description": "The lesson's own id: the same lesson sent again counts once."},
}


def lesson_routes(state: ServerState) -> APIRouter:
    """The routes of lessons."""
    router = APIRouter(tags=["lessons"])
    description = multipart(FIELDS, state.settings.photos_per_request)
    schema = description["requestBody"]["content"]["multipart/form-data"]["schema"]
    schema["required"] = ["label"]
    schema["properties"]["photo"]["minItems"] = 0

    @router.post(
        "/v1/lessons",
        response_model=TaughtBody,
        responses=problem_responses(
            "timeout", "media-type", "photo", "input", "unknown-name", "too-many", "overloaded", "lesson"
        ),
        openapi_extra=description,
    )
    async def teach(request: Request) -> Response:
        """Teach what photos show, or a new label without any; answers follow at once.

        The lesson is on the disk when this answers. All of its photos count, or none.
        """
        async with admitted_upload(state, request, FIELDS, min_photos=0) as upload:
            lesson_id = check_id(upload.one("id", secrets.token_hex(8)))
            person = check_teacher(upload.one("person", "").strip())
            given, new = upload.fields.get("parent", ()), upload.flag("new", False)
            classifier = state.model.model
            parents = parse_parents(classifier.graph, given) if given or new else None
            label = upload.one("label", "").strip()
            if all(taught_lesson.id != lesson_id for taught_lesson in classifier.lessons):
                classifier.teaching.check(label, parents, with_photos=bool(upload.photos))
            photos = await _photos(state, upload.photos)
            result = await state.teach(label, photos, parents=parents, person=person, lesson_id=lesson_id)
        return JSONResponse(_content(state, result))

    @router.get("/v1/lessons", response_model=LessonsBody, responses=problem_responses("lesson"))
    def lessons(
        limit: Annotated[int, Query(ge=1, le=MAX_LISTED, description="How many to list.")] = 50,
    ) -> Response:
        """The lessons that hold, the last one first."""
        holding = [taught_lesson for taught_lesson in state.model.model.lessons if not taught_lesson.forgotten]
        listed = [taught_lesson.to_dict() for taught_lesson in reversed(holding[-limit:])]
        return JSONResponse({"model": state.model.id, "count": len(holding), "lessons": listed})

    @router.delete(
        "/v1/lessons/{lesson}", response_model=TaughtBody, responses=problem_responses("input", "not-found", "lesson")
    )
    async def forget(
        lesson: Annotated[str, Path(max_length=100)],
        person: Annotated[str, Query(max_length=MAX_PERSON, description="Who takes it back.")] = "",
    ) -> Response:
        """Take a lesson back, as if it had never been taught."""
        if all(taught_lesson.id != lesson for taught_lesson in state.model.model.lessons):
            raise ProblemError("not-found", "There is no lesson of this id.")
        return JSONResponse(_content(state, await state.forget(lesson, person=check_teacher(person.strip()))))

    return router


async def _photos(state: ServerState, photos: list[UploadedPhoto]) -> list[TaughtPhoto]:
    """The photos as the lesson keeps them; one that cannot be read fails the whole lesson."""
    if not photos:
        return []
    model = state.model
    outcomes = await answer_photos(state, photos, model, None)
    taught = []
    for photo, outcome in zip(photos, outcomes, strict=True):
        if isinstance(outcome, PhotoFileError):
            raise ProblemError("photo", f"{photo.name}: {outcome.reason}")
        assert isinstance(outcome, Done)
        assert outcome.scores.feature is not None
        assert model.model.statistics is not None
        views = [outcome.scores.feature, *await _other_views(state, photo, model, model.model.statistics.views)]
        rows = [torch.from_numpy(view)[None].to(model.model.device) for view in views]
        digest = hashlib.sha256(photo.content).hexdigest()
        taught.append(TaughtPhoto(photo_name(photo.name), digest, *kept_features(model.model.network, rows)[0]))
    return taught


async def _other_views(
    state: ServerState, photo: UploadedPhoto, model: ServedModel, views: int
) -> list[NDArray[np.float32]]:
    """The features of the parts of a photo that count with its middle, where the model was fitted to several views."""
    features = []
    for view in range(2, views + 1):
        done = await state.look(photo, model, None, view)
        assert done.scores.feature is not None
        features.append(done.scores.feature)
    return features


def _content(state: ServerState, result: TeachResult) -> dict[str, Any]:
    return {"model": state.model.id, **result.to_dict()}
