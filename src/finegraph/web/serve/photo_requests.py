"""What the routes with photos share: letting a request in, and looking at its photos.

A request is admitted before its body is read, and counts as one photo until its photos are known. A photo that cannot
be read does not affect the others.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from starlette.requests import Request

from finegraph.errors import PhotoFileError
from finegraph.web.admission import client_name
from finegraph.web.problems import ProblemError
from finegraph.web.serve.answering import Ask, ServedModel
from finegraph.web.serve.batching import Done
from finegraph.web.serve.server_state import ServerState
from finegraph.web.serve.uploads import Photo, Upload, read_upload


@contextlib.asynccontextmanager
async def admitted_upload(
    state: ServerState, request: Request, fields: Iterable[str], *, min_photos: int = 1
) -> AsyncIterator[Upload]:
    """The photos and fields of a request, which is in the server for as long as the block runs.

    Args:
        state: the server.
        request: not yet read.
        fields: the names of fields that are known.
        min_photos: how many photos it must hold, 0 or 1.

    Raises:
        ProblemError: the server is full, or the body cannot be read, has too much in it, or takes too long.
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


async def look_at_all(
    state: ServerState, photos: Sequence[Photo], model: ServedModel, ask: Ask | None
) -> list[Done | PhotoFileError]:
    """The outcome of each photo of a request, in order; an error for one that cannot be read.

    Raises:
        FinegraphError: what is wrong with the request as a whole.
    """
    found = await asyncio.gather(*(state.look(photo, model, ask) for photo in photos), return_exceptions=True)
    outcomes: list[Done | PhotoFileError] = []
    for outcome in found:
        if not isinstance(outcome, Done | PhotoFileError):
            raise outcome
        outcomes.append(outcome)
        state.statistics.photos.labels("answered" if isinstance(outcome, Done) else "bad").inc()
    state.admission.done(len(outcomes))
    return outcomes


def refuse_all_bad(photos: Sequence[Photo], outcomes: Sequence[Done | PhotoFileError]) -> list[dict[str, Any]]:
    """The photos that could not be read.

    Raises:
        ProblemError: there is no other.
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
    """Whose request it is."""
    return client_name(request.client.host if request.client else None)


def body_size(request: Request) -> int | None:
    """The length that a request declares; None if it declares none or comes in chunks."""
    length = request.headers.get("content-length", "")
    return int(length) if length.isdigit() and "transfer-encoding" not in request.headers else None
