"""`POST /v1/predict` and `POST /v1/given`: predictions of photos, and of the same photos with other evidence."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.model import Prediction
from finegraph.model.answering.predictions import PredictionSettings
from finegraph.web.problems import ProblemError, problem_responses
from finegraph.web.security import check_length, limited
from finegraph.web.serve.answer_text import answer_words
from finegraph.web.serve.answering import ServedModel
from finegraph.web.serve.batching import Done
from finegraph.web.serve.photo_requests import (
    admitted_upload,
    answer_photos,
    bad_photos,
    body_size,
    client_of,
    copies_of,
)
from finegraph.web.serve.schemas import (
    MAX_QUESTIONS,
    MAX_TOP,
    Evidence,
    GivenBody,
    GivenRequest,
    PredictBody,
    multipart,
)
from finegraph.web.serve.server_state import ServerState
from finegraph.workflows.predict import evidence_of, parse_given

FIELDS: dict[str, dict[str, Any]] = {
    "given": {
        "type": "array",
        "items": {"type": "string"},
        "description": "What is known of all photos, as kind=label; the same kind again means one of these.",
    },
    "top": {"type": "integer", "minimum": 1, "maximum": MAX_TOP, "default": 5, "description": "How many labels."},
    "risk": {
        "type": "number",
        "minimum": 0,
        "exclusiveMaximum": 1,
        "default": 0.05,
        "description": "How often the sure answer may be wrong.",
    },
    "explain": {"type": "boolean", "default": True, "description": "Whether to explain the first answer."},
    "questions": {
        "type": "integer",
        "minimum": 0,
        "maximum": MAX_QUESTIONS,
        "default": 3,
        "description": "How many questions to offer that would help most.",
    },
    "scores": {"type": "boolean", "default": False, "description": "Whether to send the scores, for /v1/given."},
}


def predict_routes(state: ServerState) -> APIRouter:
    """The routes that answer about photos."""
    router = APIRouter(tags=["predict"])

    @router.post(
        "/v1/predict",
        response_model=PredictBody,
        responses=problem_responses("timeout", "media-type", "photo", "input", "evidence", "too-many", "overloaded"),
        openapi_extra=multipart(FIELDS, state.settings.photos_per_request),
    )
    async def predict(request: Request) -> Response:
        """Say what is on photos: labels, kinds, the sure answer, and why the first rather than the second."""
        async with admitted_upload(state, request, FIELDS) as upload:
            settings = PredictionSettings(
                top=upload.whole("top", 5, 1, MAX_TOP),
                risk=upload.number("risk", 0.05),
                explain=upload.flag("explain", True),
                questions=upload.whole("questions", 3, 0, MAX_QUESTIONS),
            )
            wants_scores = upload.flag("scores", False)
            model = state.model
            given = parse_given(model.model.graph, upload.fields.get("given", ()))
            evidence = evidence_of(model.model.graph, given)
            ask = model.ask(evidence, settings, key=json.dumps(sorted(given.items())))
            outcomes = await answer_photos(state, upload.photos, model, ask)
            copies = await asyncio.to_thread(copies_of, state, model, upload.photos)
        photos = []
        for number, outcome in enumerate(outcomes):
            if isinstance(outcome, Done) and outcome.prediction is not None:
                scores = model.pack(outcome.scores) if wants_scores else None
                content = prediction_content(number, outcome.prediction, given, scores)
                photos.append({**content, "in_index": copies[number]})
        bad = bad_photos(upload.photos, outcomes)
        known = {kind: list(labels) for kind, labels in given.items()}
        return JSONResponse({"model": model.id, "given": known, "photos": photos, "bad": bad})

    async def given(body: GivenRequest) -> Response:
        """Answer about a photo again with other evidence, exactly and without the photo, from the scores it had."""
        model = state.model
        evidence = _evidence(model.model.graph, body.given)
        settings = PredictionSettings(top=body.top, risk=body.risk, explain=body.explain, questions=body.questions)
        known = {kind: value for kind, value in evidence.items() if value is not None}
        loop = asyncio.get_running_loop()
        prediction = await loop.run_in_executor(state.given_threads, _answer_again, model, body, known, settings)
        return JSONResponse({"model": model.id, "prediction": prediction_content(0, prediction, known, body.scores)})

    router.add_api_route(
        "/v1/given",
        given,
        methods=["POST"],
        response_model=GivenBody,
        responses=problem_responses("input", "evidence", "other-model", "too-many", "overloaded"),
        route_class_override=_admitted(state),
    )
    return router


def _admitted(state: ServerState) -> type[APIRoute]:
    """A route class that admits a request before reading its body, whose size is limited to that of scores."""

    class Admitted(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def admit(request: Request) -> Response:
                max_bytes, size = state.model.max_given_bytes, body_size(request)
                check_length(request.headers, max_bytes)
                with state.admission.enter(max_bytes if size is None else size, client_of(request)):
                    bounded = Request(request.scope, limited(request.receive, max_bytes))
                    try:
                        await bounded.body()
                    except ClientDisconnect:
                        raise ProblemError("bad-request", "The request ended early.") from None
                    return await handle(bounded)

            return admit

    return Admitted


def _answer_again(
    model: ServedModel, body: GivenRequest, evidence: dict[str, object], settings: PredictionSettings
) -> Prediction:
    """The answer from scores."""
    return model.answer([model.unpack(body.scores)], [body.photo], model.ask(evidence, settings))[0]


def _evidence(graph: LabelGraph, given: Mapping[str, Evidence]) -> dict[str, object]:
    """Evidence of JSON as `Posterior.given` takes it: a list is one of several labels; of a number it holds one text.

    Raises:
        InputError: several texts for a number.
    """
    evidence: dict[str, object] = {}
    for name, value in given.items():
        if isinstance(value, list) and name in graph.numbers:
            if len(value) != 1:
                raise InputError(f"given {name}: expected one limit or range, such as '10..15', got {len(value)}")
            evidence[name] = value[0]
        else:
            evidence[name] = set(value) if isinstance(value, list) else value
    return evidence


def prediction_content(
    number: int, prediction: Prediction, given: Mapping[str, object], scores: str | None
) -> dict[str, Any]:
    """A prediction as JSON."""
    content = {"number": number, **prediction.to_dict(), "words": answer_words(prediction, given)}
    return content if scores is None else {**content, "scores": scores}
