"""The routes of history, progress, agreement and findings."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse
from pydantic import Field

from finegraph.errors import UnknownNameError
from finegraph.web.label.background_answers import PATIENCE, Agreements, LiveCheck, LiveNames
from finegraph.web.label.class_routes import MAX_PHOTOS
from finegraph.web.label.json_routes import JsonRouter
from finegraph.workflows.label import LabelSession

Json = dict[str, Any]
Limit = Annotated[int, Query(ge=1, le=200)]
Numbers = Annotated[list[Annotated[int, Field(ge=0, lt=1 << 63)]], Query(min_length=1, max_length=200)]
FIRST_EDITS = 3
"""The number of edits that are listed with an action."""
CELL_RULES = ("misspelt-label", "alike-names")
"""The rules of the graph check that concern all cells with a label; the page shows other findings elsewhere."""


def history_routes(session: LabelSession, names: LiveNames) -> APIRouter:
    """The routes of a session for its history; `names` are its suggestions from names."""
    router = JsonRouter(prefix="/api")
    store, check, agreements = session.store, LiveCheck(session.store), Agreements(session.store)

    @router.get("/history")
    def history(
        fine: str | None = None,
        kind: str | None = None,
        target: Literal["cell", "note", "photo"] | None = None,
        batch: int | None = None,
        before: int | None = None,
        limit: Limit = 100,
    ) -> Json:
        """Edits, newest first; with a class and the target `photo`, those of the labels of its photos."""
        photos: list[str] | None = None
        if target == "photo" and fine is not None:
            photos, fine = [photo.key for photo in session.photos(fine, MAX_PHOTOS)], None
        edits = store.history(
            fine=fine, kind=kind, target=target, photo=photos, batch=batch, before=before, limit=limit
        )
        return {"edits": [edit.to_dict() for edit in edits]}

    @router.get("/batches")
    def batches(person: str | None = None, before: int | None = None, limit: Limit = 50) -> Json:
        """The last actions, each with the version of the store that it made and with its last edits."""
        with store.one_state():
            actions = store.batches(person=person, before=before, limit=limit)
            edits = [store.history(batch=batch.number, limit=FIRST_EDITS) for batch in actions]
        return {
            "batches": [
                batch.to_dict() | {"edits": [edit.to_dict() for edit in last]}
                for batch, last in zip(actions, edits, strict=True)
            ]
        }

    @router.get("/undoable")
    def undoable(person: str) -> Json:
        return {"batch": store.last_undoable(person)}

    @router.get("/changes")
    def changes(since: int) -> JSONResponse:
        """The edits after a version, newest first, and the cells that they changed; `more`: too many to list."""
        # Every open page asks this about once a second; what the store gives is plain JSON already.
        return JSONResponse(store.changes(since).to_dict())

    @router.get("/progress")
    def progress() -> Json:
        return store.progress().to_dict()

    @router.get("/agreement")
    def agreement(kind: str | None = None) -> Json:
        return agreements.of(kind)

    @router.get("/findings")
    def findings(fine: str | None = None) -> Json:
        """What the graph check finds, of one class or of all; `version` is the state that was checked.

        For one class, also the suggestions from its name.
        """
        version, listed = check.findings() if fine is None else check.of_class(fine)
        answer: Json = {"findings": [finding.to_dict() for finding in listed], "version": version}
        if fine is not None:
            answer["suggestions"] = []
            with suppress(UnknownNameError):  # it was renamed or removed; the page learns of that from the changes
                answer["suggestions"] = names.of_cells(store.one_class(fine).cells.values(), PATIENCE)[1]
        return answer

    @router.get("/marks")
    def marks(kind: str, number: Numbers) -> Json:
        """What the graph check says of the cells of a kind, and what names suggest, by the numbers of their classes."""
        try:
            rows = [row for row in store.numbered_classes(number, kinds=(kind,)) if not row.removed]
        except UnknownNameError:  # it was renamed or removed; the page learns of that from the changes
            return {"marks": {}, "suggestions": {}, "version": store.version, "now": store.version}
        version, by_class = check.of_classes(row.fine for row in rows)
        messages_by_class = {
            row.number: [
                finding.message for finding in by_class[row.fine] if finding.kind == kind and finding.rule in CELL_RULES
            ]
            for row in rows
        }
        marked = {number: messages for number, messages in messages_by_class.items() if messages}
        names_version, named = names.of_cells((row.cells[kind] for row in rows), PATIENCE)
        by_name = {finding["fine"]: finding for finding in named}
        suggested = {row.number: by_name[row.fine] for row in rows if row.fine in by_name}
        return {"marks": marked, "suggestions": suggested, "version": min(version, names_version), "now": store.version}

    @router.get("/diff")
    def diff(one: int, two: int | None = None) -> Json:
        return store.diff(one, two).to_dict()

    return router
