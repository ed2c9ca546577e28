"""The routes that change labels. Each is one action of one person: acknowledged when it is on the disk, undone as one.

The page gives every action a number of its own and sends it again under that number if no answer came, so that each
action happens once. An action that rests on an old version of a cell is answered 409 with both values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter

from finegraph.errors import InputError
from finegraph.labelling import Decision, EditResult, change_from_dict
from finegraph.web.label.bodies import MOST_AT_ONCE, Accept, Apply, Change, Decide, Note, PhotoLabel, Resolve, Undo
from finegraph.web.label.photo_numbers import PhotoNumbers

if TYPE_CHECKING:
    from finegraph.workflows.label import LabelSession

Json = dict[str, Any]
NAMES = ("fine", "kind", "label", "graph")
"""What an edit can be of so that names have changed."""


def writing_routes(session: LabelSession) -> APIRouter:
    """The routes of a session that change labels."""
    router = APIRouter(prefix="/api")
    store, photos = session.store, PhotoNumbers(session)

    @router.post("/decide")
    def decide(body: Decide) -> Json:
        if len(body.cells) == 1:
            cell = body.cells[0]
            done = store.decide(cell.fine, cell.kind, cell.value, person=body.person, edit_id=body.edit, seen=cell.seen)
            return _answer(done)
        decisions = [Decision(fine=c.fine, kind=c.kind, value=c.value, seen=c.seen) for c in body.cells]
        return _answer(store.decide_many(decisions, person=body.person, edit_id=body.edit))

    @router.post("/resolve")
    def resolve(body: Resolve) -> Json:
        return _answer(
            store.resolve(body.fine, body.kind, body.value, person=body.person, edit_id=body.edit, seen=body.seen)
        )

    @router.post("/note")
    def note(body: Note) -> Json:
        return _answer(store.set_note(body.fine, body.text, person=body.person, edit_id=body.edit, seen=body.seen))

    @router.post("/photo")
    def label_photo(body: PhotoLabel) -> Json:
        photo = photos.photo(body.photo)
        done = store.label_photo(
            photo.key, body.kind, body.value, person=body.person, edit_id=body.edit, seen=body.seen, fine=photo.fine
        )
        return {**_answer(done), "cells": []}  # the page keeps cells of classes

    @router.post("/accept")
    def accept(body: Accept) -> Json:
        numbers = list(body.suggestions)
        return _answer(store.accept(numbers, person=body.person, edit_id=body.edit, seen=body.suggestions))

    @router.post("/undo")
    def undo(body: Undo) -> Json:
        if (body.batch is None) == (body.number is None):
            raise InputError("expected either batch or number: what to undo")
        if body.batch is not None:
            done = store.undo(body.batch, person=body.person, edit_id=body.edit)
        else:
            assert body.number is not None
            done = store.undo_edit(body.number, person=body.person, edit_id=body.edit)
        edits = store.history(batch=done.batch, limit=MOST_AT_ONCE)
        on_photos = {edit.photo for edit in edits if edit.target == "photo"}
        answer = _answer(done, names=any(edit.target in NAMES for edit in edits))
        return {**answer, "cells": [cell for cell in answer["cells"] if cell["fine"] not in on_photos]}

    @router.post("/preview")
    def preview(body: Change) -> Json:
        return store.preview(change_from_dict(body.change)).to_dict()

    @router.post("/apply")
    def apply(body: Apply) -> Json:
        change = change_from_dict(body.change)
        done = store.apply(change, person=body.person, edit_id=body.edit, digest=body.digest)
        return _answer(done, names=True)

    return router


def _answer(done: EditResult, *, names: bool = False) -> Json:
    """The result as JSON; `names` says that labels, kinds or classes are called otherwise now."""
    return {**done.to_dict(), "names": names}
