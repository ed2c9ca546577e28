"""What is answered where somebody else was quicker: 409 with both values, so that the person can choose.

A choice needs the version of what it replaces, and a photo its number on the page. Where the store does not say them,
as for an undo, they are read here together with the value, so that the person chooses between values that fit
together. Where a preview does not hold any more, the present one is told. Cost: a question per conflict; of an action
with very many, the first hundred are told and `total` counts all.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from finegraph.errors import ConflictError, UnknownNameError
from finegraph.labelling import CellState, Conflict
from finegraph.web.label.exchange import listed
from finegraph.web.label.photo_numbers import PhotoNumbers
from finegraph.web.problems import ProblemError

if TYPE_CHECKING:
    from finegraph.workflows.label import LabelSession

Json = dict[str, Any]
MOST_TOLD = 100
"""How many conflicts of one action are told; nobody chooses more often than that in a row."""


def install_conflicts(app: FastAPI, session: LabelSession) -> None:
    """Answer conflicts of a session with both values."""
    photos = PhotoNumbers(session)

    async def answer(request: Request, error: Exception) -> Response:
        assert isinstance(error, ConflictError)
        told = error.conflicts[:MOST_TOLD]
        found = await run_in_threadpool(lambda: [_complete(session, photos, one) for one in told])
        return ProblemError("conflict", str(error), conflicts=found, total=len(error.conflicts)).response()

    app.add_exception_handler(ConflictError, answer)


def _complete(session: LabelSession, photos: PhotoNumbers, conflict: Conflict) -> Json:
    """A conflict with the present value, its version, and the number of its photo."""
    found: Json = conflict.to_dict()
    if conflict.what == "preview" and "changes" in conflict.theirs:
        found["theirs"] = listed(conflict.theirs)
    with suppress(UnknownNameError):  # gone meanwhile: there is nothing to choose any more
        if conflict.what == "photo" and conflict.photo is not None and conflict.kind is not None:
            now = session.store.photo_cells([conflict.photo]).get(conflict.photo, {}).get(conflict.kind)
            found |= _present(now) | {"number": photos.number(conflict.photo)}
        elif conflict.what == "cell" and conflict.fine is not None and conflict.kind is not None:
            found |= _present(session.store.cell(conflict.fine, conflict.kind))
        elif conflict.what == "note" and conflict.fine is not None:
            found |= _present_note(session, conflict.fine)
    return found


def _present(cell: CellState | None) -> Json:
    """What others have made of a cell; a photo may have no label any more."""
    if cell is None:
        return {}
    return {"theirs": cell.to_dict()["value"], "version": cell.version, "by": cell.by, "at": cell.at}


def _present_note(session: LabelSession, fine: str) -> Json:
    """What the note of a class is now; who wrote it is told by the store."""
    row = session.store.one_class(fine)
    return {"theirs": row.note, "version": row.note_version}
