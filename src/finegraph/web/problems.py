"""Errors as programs and people read them over HTTP: `application/problem+json` (RFC 9457).

Every error answer has the same five fields: `type`, which is stable and meant for programs, `title`, `status`, `detail`
(what was expected and what came) and `what_to_do`. All problems are in one table, so that the OpenAPI description and
the answers cannot differ. An unexpected error becomes `internal`, without details of the machine. Errors of the library
are mapped here and nowhere else.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from finegraph.errors import (
    DamagedStoreError,
    EvidenceError,
    FinegraphError,
    GraphError,
    InputError,
    LabelStoreError,
    LessonError,
    NoRoomError,
    PhotoFileError,
    SearchEngineError,
    UnknownNameError,
)

MEDIA_TYPE = "application/problem+json"
_LOG = logging.getLogger("finegraph.web")
_NO_ADVICE: Mapping[str, str] = {}


class ProblemKind(NamedTuple):
    """What all problems of one type share."""

    status: int
    title: str
    what_to_do: str


PROBLEMS: dict[str, ProblemKind] = {
    "bad-request": ProblemKind(400, "The request cannot be read", "Correct the request and send it again."),
    "token": ProblemKind(401, "A token is needed", "Load the page again, or send `Authorization: Bearer TOKEN`."),
    "origin": ProblemKind(403, "The request comes from another site", "Send it from a page of this server."),
    "not-found": ProblemKind(404, "There is nothing here", "Begin at the page, which is at /."),
    "no-index": ProblemKind(404, "There is no index to search", "Make one with `finegraph index` and start with it."),
    "method": ProblemKind(405, "The method is not allowed here", "Send it by a method that the Allow header names."),
    "timeout": ProblemKind(408, "The request took too long to arrive", "Send it again, in one go."),
    "conflict": ProblemKind(409, "It has changed in the meantime", "Look at both values and decide again."),
    "other-model": ProblemKind(409, "The scores are of another model", "Send the photo again."),
    "too-large": ProblemKind(413, "The request is too large", "Send fewer or smaller photos."),
    "media-type": ProblemKind(415, "The body is of the wrong type", "Send photos as multipart/form-data."),
    "host": ProblemKind(421, "The request is for another host", "Use the printed address, or start it with this name."),
    "input": ProblemKind(422, "A value is wrong", "Correct it and send it again."),
    "unknown-name": ProblemKind(422, "There is no such kind or label", "Use one of the existing names."),
    "evidence": ProblemKind(422, "What is given cannot be used", "Correct or leave out what is given."),
    "photo": ProblemKind(422, "The photo cannot be read", "Send a whole photo, such as a JPEG or PNG."),
    "too-many": ProblemKind(429, "You ask for more than your share", "Wait for your answers; try after Retry-After."),
    "head-too-large": ProblemKind(431, "The head of the request is too large", "Send fewer or shorter headers."),
    "damaged": ProblemKind(500, "The labels are damaged", "Stop editing; the server's log says how to restore them."),
    "internal": ProblemKind(500, "The server has a fault", "Try again; if it stays, look into the server's log."),
    "overloaded": ProblemKind(503, "The server is busy", "Try again after the seconds in Retry-After."),
    "index-changed": ProblemKind(503, "The index cannot be opened", "Try again later; the server's log says why."),
    "search-engine": ProblemKind(503, "The search engine does not answer", "Try again; the server's log says why."),
    "not-ready": ProblemKind(503, "The server is starting or stopping", "Try again in a moment."),
    "lesson": ProblemKind(507, "The lesson cannot be kept", "Nothing has changed. The server's log says what to do."),
    "no-room": ProblemKind(507, "The disk of the server is full", "Ask for room on the disk, then send it again."),
}
"""All problems by the end of their type, `urn:finegraph:problem:NAME`. No text names a route that an app may lack."""


class ProblemBody(BaseModel):
    """An error answer."""

    type: str = Field(description="Which problem it is; never changes.", examples=["urn:finegraph:problem:input"])
    title: str = Field(description="The problem in a few words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What was expected and what came.")
    what_to_do: str = Field(description="How to continue.")


class ProblemError(FinegraphError):
    """A problem to answer a request with; raise it anywhere below a route.

    Args:
        name: one of `PROBLEMS`.
        detail: what was expected and what came.
        headers: further headers, such as Retry-After.
        **more: further fields of the answer, as JSON data.
    """

    def __init__(self, name: str, detail: str, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.name, self.detail, self.headers, self.more = name, detail, dict(headers or {}), more

    def content(self, advice: Mapping[str, str] = _NO_ADVICE) -> dict[str, Any]:
        """The fields of the answer; `advice` replaces `what_to_do` by problem, where an app can say more."""
        kind = PROBLEMS[self.name]
        return {
            "type": f"urn:finegraph:problem:{self.name}",
            "title": kind.title,
            "status": kind.status,
            "detail": self.detail,
            "what_to_do": advice.get(self.name, kind.what_to_do),
            **self.more,
        }

    def response(self, advice: Mapping[str, str] = _NO_ADVICE) -> Response:
        """The answer itself; see `content`."""
        return JSONResponse(
            self.content(advice), PROBLEMS[self.name].status, headers=self.headers, media_type=MEDIA_TYPE
        )


def problem_of(error: Exception) -> ProblemError:
    """The problem that is reported to a client for an error of the library, of FastAPI or of anything else."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, RequestValidationError):
        return _of_validation(error)
    if isinstance(error, HTTPException):
        return _of_status(error)
    for kind, name in _LIBRARY_ERRORS.items():
        if isinstance(error, kind):
            if isinstance(error, SearchEngineError):  # its words name the machine that could not be reached
                _LOG.error("%s", error)
                return ProblemError(name, "The server that holds the photos of the index did not answer.")
            return ProblemError(name, error.reason if isinstance(error, PhotoFileError | LessonError) else str(error))
    _LOG.error("a request failed", exc_info=error)
    return ProblemError("internal", "Something went wrong that should not; nothing was kept.")


_LIBRARY_ERRORS: dict[type[FinegraphError], str] = {
    EvidenceError: "evidence",
    UnknownNameError: "unknown-name",
    InputError: "input",
    GraphError: "input",
    PhotoFileError: "photo",
    LessonError: "lesson",
    DamagedStoreError: "damaged",
    NoRoomError: "no-room",
    LabelStoreError: "overloaded",
    SearchEngineError: "search-engine",
}
"""The first match counts, so subclasses come first."""


def _of_validation(error: RequestValidationError) -> ProblemError:
    """All faults of a request that does not fit its description; values are left out, they may be long or secret."""
    faults = [f"{' '.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in error.errors()]
    unreadable = any(fault["type"] == "json_invalid" for fault in error.errors())
    return ProblemError("bad-request" if unreadable else "input", "; ".join(faults[:10]))


def _of_status(error: HTTPException) -> ProblemError:
    names = {404: "not-found", 405: "method", 413: "too-large", 415: "media-type"}
    fallback = "bad-request" if error.status_code < 500 else "internal"
    return ProblemError(names.get(error.status_code, fallback), str(error.detail), headers=error.headers)


def install_problems(app: FastAPI, advice: Mapping[str, str] = _NO_ADVICE) -> None:
    """Answer every error of an app as a problem, also those of FastAPI.

    An unexpected error is passed on to the guard (`security.py`), which answers it with the security headers.

    Args:
        app: the app.
        advice: what to do by problem, where the app can say more than `PROBLEMS`, such as name one of its routes.
    """

    async def answer(request: Request, error: Exception) -> Response:
        return problem_of(error).response(advice)

    for kind in (FinegraphError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, answer)


def problem_responses(*names: str) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route for the OpenAPI description: those named, and what any request may meet."""
    responses: dict[int | str, dict[str, Any]] = {}
    for name in (*names, "bad-request", "token", "origin", "too-large", "host", "internal"):
        kind = PROBLEMS[name]
        known = responses.get(kind.status)
        description = kind.title if known is None else f"{known['description']}; or: {kind.title}"
        schema = {"$ref": "#/components/schemas/ProblemBody"}
        responses[kind.status] = {"description": description, "content": {MEDIA_TYPE: {"schema": schema}}}
    return responses
