"""What the routes with photos share: admitting a request, answering its photos, and describing photos of the index.

A request is admitted before its body is read, and counts as one photo until its photos are known. A photo that cannot
be read does not affect the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from starlette.requests import Request

from finegraph.errors import PhotoFileError
from finegraph.search import StoredPhoto
from finegraph.web.admission import client_name
from finegraph.web.problems import ProblemError
from finegraph.web.serve.answering import PhotoQuestion, ServedModel
from finegraph.web.serve.batching import Done
from finegraph.web.serve.searching import OpenIndex
from finegraph.web.serve.server_state import ServerState
from finegraph.web.serve.uploads import Upload, UploadedPhoto, read_upload


@contextlib.asynccontextmanager
async def admitted_upload(
    state: ServerState, request: Request, fields: Iterable[str], *, min_photos: int = 1
) -> AsyncIterator[Upload]:
    """Admit a request for the duration of the block, and read its photos and fields.

    Args:
        state: the server.
        request: the request, not yet read.
        fields: the names of the known fields.
        min_photos: how many photos it must hold, 0 or 1.

    Raises:
        ProblemError: the server is full, or the body cannot be read, holds too much, or takes too long.
        InputError: a field that is not known, or no photo.
    """
    with state.admission.enter(body_size(request), client_of(request)) as ticket:
        upload = await read_upload(
            request,
            tuple(fields),
            max_photos=state.settings.photos_per_request,
            seconds=state.settings.upload_seconds,
            min_photos=min_photos,
        )
        ticket.count(max(1, len(upload.photos)))
        yield upload


async def answer_photos(
    state: ServerState, photos: Sequence[UploadedPhoto], model: ServedModel, ask: PhotoQuestion | None
) -> list[Done | PhotoFileError]:
    """The outcome of each photo of a request, in order; an error for a photo that cannot be read.

    Raises:
        FinegraphError: the request as a whole is wrong.
    """
    results = await asyncio.gather(*(state.look(photo, model, ask) for photo in photos), return_exceptions=True)
    outcomes: list[Done | PhotoFileError] = []
    for outcome in results:
        if not isinstance(outcome, Done | PhotoFileError):
            raise outcome
        outcomes.append(outcome)
        state.statistics.photos.labels("answered" if isinstance(outcome, Done) else "bad").inc()
    state.admission.done(len(outcomes))
    return outcomes


def bad_photos(photos: Sequence[UploadedPhoto], outcomes: Sequence[Done | PhotoFileError]) -> list[dict[str, Any]]:
    """The photos that could not be read.

    Raises:
        ProblemError: no photo could be read.
    """
    bad = [
        {"number": number, "photo": photo.name, "reason": outcome.reason}
        for number, (photo, outcome) in enumerate(zip(photos, outcomes, strict=True))
        if isinstance(outcome, PhotoFileError)
    ]
    if len(bad) == len(photos):
        raise ProblemError("photo", f"{bad[0]['photo']}: {bad[0]['reason']}", bad=bad)
    return bad


def client_of(request: Request) -> str:
    """The name of the client that sent a request."""
    return client_name(request.client.host if request.client else None)


def body_size(request: Request) -> int | None:
    """The length that a request declares; None if it declares none or comes in chunks."""
    length = request.headers.get("content-length", "")
    return int(length) if length.isdigit() and "transfer-encoding" not in request.headers else None


def stored_contents(state: ServerState, opened: OpenIndex, photos: Sequence[StoredPhoto]) -> list[dict[str, Any]]:
    """Photos of the index as JSON: the name of the file alone and a key, never a path of this machine."""
    contents = []
    for photo in photos:
        content = photo.to_dict()
        path = content.pop("path")
        # Names of files may be any bytes, and JSON holds text only.
        content["name"] = os.path.basename(path).encode("utf-8", "backslashreplace").decode("utf-8")
        content["thumbnail"] = f"/v1/photos/{state.thumbnails.key(opened.place(photo))}"
        contents.append(content)
    return contents


def copies_of(
    state: ServerState, model: ServedModel, photos: Sequence[UploadedPhoto]
) -> list[list[dict[str, Any]] | None]:
    """For each photo its copies in the index as JSON; None if there is no index, or none that can be opened now."""
    if state.index is None:
        return [None] * len(photos)
    try:
        opened = state.index.current(state.index.model)
    except ProblemError:  # an answer needs no index
        return [None] * len(photos)
    return [stored_contents(state, opened, found) for found in opened.copies([photo.content for photo in photos])]
