"""The routes that look back: who did what, how far things are, how well people agree, what is doubtful."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from finegraph.web.label.agreements import Agreements
from finegraph.web.label.live_check import LiveCheck

if TYPE_CHECKING:
    from finegraph.workflows.label import LabelSession

Json = dict[str, Any]
Limit = Annotated[int, Query(ge=1, le=200)]


def looking_back_routes(session: LabelSession) -> APIRouter:
    """The routes of a session that look back."""
    router = APIRouter(prefix="/api")
    store, check, agreements = session.store, LiveCheck(session.store), Agreements(session.store)

    @router.get("/history")
    def history(
        fine: str | None = None,
        kind: str | None = None,
        batch: int | None = None,
        before: int | None = None,
        limit: Limit = 100,
    ) -> Json:
        found = store.history(fine=fine, kind=kind, batch=batch, before=before, limit=limit)
        return {"edits": [edit.to_dict() for edit in found]}

    @router.get("/batches")
    def batches(person: str | None = None, before: int | None = None, limit: Limit = 50) -> Json:
        """The last actions, each with the version of the store that it made."""
        return {"batches": [batch.to_dict() for batch in store.batches(person=person, before=before, limit=limit)]}

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
        """What the graph check finds, of one class or of all; `version` is the state that was checked."""
        version, found = check.findings()
        listed = [finding.to_dict() for finding in found if fine is None or fine in finding.fine]
        return {"findings": listed, "version": version}

    @router.get("/diff")
    def diff(one: int, two: int | None = None) -> Json:
        return store.diff(one, two).to_dict()

    return router
