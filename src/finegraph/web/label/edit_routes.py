"""The routes that change labels, and the answer to conflicts.

Each route is one action of one person: acknowledged when it is on the disk, undone as one. The page gives every action
an id and sends it again under that id if no answer came, so that each action happens once. It may send the numbers
behind its names, so that the action also holds after a rename.

An action based on an old version is answered 409 with both values and the current version, so that the person can
choose. Cost: one query per conflict; at most a hundred conflicts are listed, and `total` counts all.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from finegraph.errors import Conflict, ConflictError, InputError, UnknownNameError
from finegraph.labelling import CellState, Decision, Edit, EditResult, Numbers, change_from_dict
from finegraph.web.label import request_bodies as bodies
from finegraph.web.label.file_routes import import_preview
from finegraph.web.label.json_routes import JsonRouter, only_for
from finegraph.web.label.photo_routes import PhotoNumbers
from finegraph.web.label.request_bodies import MAX_CELLS, Accept, Apply, Change, Decide, Note, PhotoLabel, Resolve, Undo
from finegraph.web.problems import ProblemError
from finegraph.workflows.label import LabelSession

Json = dict[str, Any]
NAMES = ("fine", "kind", "label", "graph")
"""Targets of edits that change names."""


def edit_routes(session: LabelSession) -> APIRouter:
    """The routes of a session that change labels."""
    router = JsonRouter(prefix="/api", dependencies=[Depends(only_for(session.store))])
    store, photos = session.store, PhotoNumbers(session)

    @router.post("/decide")
    def decide(body: Decide) -> Json:
        if len(body.cells) == 1:
            one = body.cells[0]
            return _answer(store.decide(one.fine, one.kind, one.value, **_options(body, one)))
        decisions = [_decision(cell) for cell in body.cells]
        return _answer(store.decide_many(decisions, person=body.person, edit_id=body.edit))

    @router.post("/resolve")
    def resolve(body: Resolve) -> Json:
        return _answer(store.resolve(body.fine, body.kind, body.value, **_options(body)))

    @router.post("/note")
    def note(body: Note) -> Json:
        return _answer(store.set_note(body.fine, body.text, **_options(body)))

    @router.post("/photo")
    def label_photo(body: PhotoLabel) -> Json:
        photo = photos.photo(body.photo)
        meant = _numbers_of(body.numbers) or Numbers()
        if meant.fine is None:  # by its number, since the same edit may come again after the class was renamed
            meant = replace(meant, fine=session.class_of(photo))
        result = store.label_photo(photo.key, body.kind, body.value, **{**_options(body), "numbers": meant})
        return {**_answer(result), "cells": []}  # the page keeps cells of classes

    @router.post("/accept")
    def accept(body: Accept) -> Json:
        numbers, named = list(body.suggestions), [_decision(cell) for cell in body.named]
        result = store.accept(numbers, person=body.person, edit_id=body.edit, seen=body.suggestions, named=named)
        return _answer(result, names=bool(named and store.history(batch=result.batch, target="label", limit=1)))

    @router.post("/undo")
    def undo(body: Undo) -> Json:
        if (body.batch is None) == (body.number is None):
            raise InputError("expected either batch or number: what to undo")
        if body.batch is not None:
            result = store.undo(body.batch, person=body.person, edit_id=body.edit)
        else:
            assert body.number is not None
            result = store.undo_edit(body.number, person=body.person, edit_id=body.edit)
        edits = store.history(batch=result.batch, limit=MAX_CELLS)
        on_photos = {edit.photo for edit in edits if edit.target == "photo"}
        answer = _answer(result, names=any(edit.target in NAMES for edit in edits))
        cells = [cell for cell in answer["cells"] if cell["fine"] not in on_photos]
        return {**answer, "cells": cells, **_versions(photos, edits)}

    @router.post("/preview")
    def preview(body: Change) -> Json:
        return store.preview(change_from_dict(body.change)).to_dict()

    @router.post("/apply")
    def apply(body: Apply) -> Json:
        change = change_from_dict(body.change)
        result = store.apply(change, person=body.person, edit_id=body.edit, digest=body.digest)
        return _answer(result, names=True)

    return router


def _decision(cell: bodies.CellChange) -> Decision:
    """A decision for the store."""
    return Decision(fine=cell.fine, kind=cell.kind, value=cell.value, seen=cell.seen, numbers=_numbers_of(cell.numbers))


def _options(action: Decide | Resolve | Note | PhotoLabel, cell: bodies.CellChange | None = None) -> Json:
    """The person, the id, the version and the meaning of names of an edit; the last two of a cell, if there is one."""
    based = action if cell is None else cell
    assert not isinstance(based, Decide)
    return {
        "person": action.person,
        "edit_id": action.edit,
        "seen": based.seen,
        "numbers": _numbers_of(based.numbers),
    }


def _numbers_of(numbers: bodies.Numbers | None) -> Numbers | None:
    """The numbers behind the names of an edit, for the store."""
    return None if numbers is None else Numbers(fine=numbers.fine, kind=numbers.kind, labels=numbers.labels)


def _versions(photos: PhotoNumbers, edits: Iterable[Edit]) -> Json:
    """The versions that edits gave to photo labels and notes, for the next edit of the same person."""
    labels, notes = [], []
    for edit in edits:
        if edit.target == "note":
            notes.append({"fine": edit.fine, "version": edit.number})
        elif edit.target == "photo" and edit.photo is not None:
            with suppress(UnknownNameError):  # no photo of this session
                labels.append({"photo": photos.number(edit.photo), "kind": edit.kind, "version": edit.number})
    return {"photos": labels, "notes": notes}


def _answer(result: EditResult, *, names: bool = False) -> Json:
    """The result as JSON; `names` says whether labels, kinds or classes were renamed."""
    return {**result.to_dict(), "names": names}


MAX_CONFLICTS = 100
"""How many conflicts of one action are listed."""


def install_conflicts(app: FastAPI, session: LabelSession) -> None:
    """Answer conflicts of a session with both values."""
    photos = PhotoNumbers(session)

    async def answer(request: Request, error: Exception) -> Response:
        assert isinstance(error, ConflictError)
        listed = error.conflicts[:MAX_CONFLICTS]
        conflicts = await run_in_threadpool(lambda: [_complete(session, photos, conflict) for conflict in listed])
        return ProblemError("conflict", str(error), conflicts=conflicts, total=len(error.conflicts)).response()

    app.add_exception_handler(ConflictError, answer)


def _complete(session: LabelSession, photos: PhotoNumbers, conflict: Conflict) -> Json:
    """A conflict with the present value, its version, and the number of its photo."""
    content: Json = conflict.to_dict()
    if conflict.what == "preview" and "changes" in conflict.theirs:
        content["theirs"] = import_preview(conflict.theirs)
    with suppress(UnknownNameError):  # removed: there is nothing left to choose
        if conflict.what == "photo" and conflict.photo is not None and conflict.kind is not None:
            now = session.store.photo_cells([conflict.photo]).get(conflict.photo, {}).get(conflict.kind)
            content |= _present(now) | {"number": photos.number(conflict.photo)}
        elif conflict.what == "cell" and conflict.fine is not None and conflict.kind is not None:
            content |= _present(session.store.cell(conflict.fine, conflict.kind))
        elif conflict.what == "note" and conflict.fine is not None:
            content |= _present_note(session, conflict.fine)
    return content


def _present(cell: CellState | None) -> Json:
    """The present value of a cell; a photo may have no label any more."""
    if cell is None:
        return {}
    return {"theirs": cell.to_dict()["value"], "version": cell.version, "by": cell.by, "at": cell.at}


def _present_note(session: LabelSession, fine: str) -> Json:
    """The current note of a class; the conflict has its author."""
    row = session.store.one_class(fine)
    return {"theirs": row.note, "version": row.note_version}
