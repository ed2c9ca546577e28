"""The routes that show labels: the start of the page, lists of classes, one class, suggestions.

A list returns the cells of one kind and at most 200 classes. A list of unknown classes gets shorter while people work
through it, so `Listings` keeps the order of each list under a name and takes pages from it. Cost of the first page: the
numbers of all classes of the list are read. Memory: 8 bytes per class of a list, at most 32 MB.
"""

from __future__ import annotations

import hashlib
import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from finegraph.labelling.questions.queries import Show
from finegraph.web.label.background_answers import PATIENCE, LiveNames, with_named
from finegraph.web.label.json_routes import JsonRouter, store_identity
from finegraph.web.label.photo_routes import PhotoNumbers
from finegraph.workflows.label import LabelSession

MAX_NUMBERS = 4_000_000
"""How many numbers all lists have together; the newest list is kept however long it is."""
_NAME_LENGTH = 20


class Listings:
    """The lists of one store; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lists: OrderedDict[str, array[int]] = OrderedDict()
        self._numbers = 0

    def find(self, name: str | None, make: Callable[[], array[int]]) -> tuple[str, array[int]]:
        """A list with its name: the list of that name, or a new one if there is none."""
        with self._lock:
            if name is not None and name in self._lists:
                self._lists.move_to_end(name)
                return name, self._lists[name]
        numbers = make()
        name = hashlib.sha256(numbers.tobytes()).hexdigest()[:_NAME_LENGTH]
        with self._lock:
            if name not in self._lists:
                self._lists[name] = numbers
                self._numbers += len(numbers)
            self._lists.move_to_end(name)
            while self._numbers > MAX_NUMBERS and len(self._lists) > 1:
                _, oldest = self._lists.popitem(last=False)
                self._numbers -= len(oldest)
        return name, numbers


def first_place(numbers: array[int], wanted: Sequence[int]) -> int | None:
    """The position in a list of the first wanted class that it has; None if it has none of them."""
    for number in wanted:
        try:
            return numbers.index(number)
        except ValueError:
            continue
    return None


Json = dict[str, Any]
Offset = Annotated[int, Query(ge=0)]
Limit = Annotated[int, Query(ge=1, le=200)]
Near = Annotated[list[int], Query(max_length=20)]
"""Classes by number, one of which a page wants to stay at."""
ListName = Annotated[str | None, Query(alias="list", max_length=64)]
MAX_PHOTOS = 60
"""How many photos of a class are listed."""


def class_routes(session: LabelSession, names: LiveNames) -> APIRouter:
    """The routes of a session that show labels; `names` are its suggestions from names."""
    router = JsonRouter(prefix="/api")
    store, photos = session.store, PhotoNumbers(session)
    listings = Listings()
    identity = store_identity(store)

    @router.get("/start")
    def start() -> Json:
        return {
            "name": session.name,
            "store": identity,
            "version": store.version,
            "kinds": [kind.to_dict() for kind in store.kinds()],
            "progress": store.progress().to_dict(),
            "people": list(store.people()),
            "photos": session.samples is not None,
            "beliefs": store.has_beliefs,
            "contradicted": store.suggestions(source="model", contradicting=True, limit=1).total > 0,
        }

    @router.get("/classes")
    def classes(
        kind: str | None = None,
        show: Show = "all",
        search: str = "",
        label: str | None = None,
        order: Literal["graph", "name", "attention"] = "graph",
        offset: Offset = 0,
        limit: Limit = 100,
        name: ListName = None,
        near: Near = [],  # noqa: B006 - FastAPI copies it
    ) -> Json:
        """A page of a list; `list` names it, `place` is the place of the first of the `near` classes that it has."""
        if show == "contradicted":
            order = "attention"  # the surest first
        with store.one_state():
            name, numbers = listings.find(
                name, lambda: store.class_numbers(kind=kind, show=show, search=search, label=label, order=order)
            )
            listed = store.numbered_classes(numbers[offset : offset + limit], kinds=() if kind is None else (kind,))
            living = [row.fine for row in listed if not row.removed]
            best = {} if kind is None else store.best_suggestions(kind, living)
            beliefs = {} if kind is None else store.beliefs(living, kind=kind)
            _, named = names.of_cells(row.cells[kind] for row in listed if kind is not None and not row.removed)
            of_name = {suggestion["fine"]: suggestion for suggestion in named}
            rows = []
            for row in listed:
                first = [] if row.removed else photos.of_class(row.fine, 1)
                kept = [best[row.fine].to_dict()] if not row.removed and row.fine in best else []
                both = with_named(kept, [of_name[row.fine]] if not row.removed and row.fine in of_name else [])
                extra = {"photo": first[0][0] if first else None, "suggestion": both[0] if both else None}
                rows.append(row.to_dict() | extra | {"beliefs": {} if row.removed else beliefs.get(row.fine, {})})
            version = store.version
        return {
            "rows": rows,
            "total": len(numbers),
            "offset": offset,
            "version": version,
            "list": name,
            "place": first_place(numbers, near),
        }

    def alike_photos(fine: str, kind: str) -> list[Json]:
        """A photo of each class that is the reason for what a model suggests."""
        alike = session.suggested.alike.get((fine, kind), ())
        shown = [(name, photos.of_class(name, 1)) for name in alike]
        return [{"fine": name, "number": own[0][0]} for name, own in shown if own]

    @router.get("/class")
    def one_class(fine: str, number: Annotated[int | None, Query(ge=0)] = None, photo: str | None = None) -> Json:
        """One class by its name, or by its number if it was renamed; a named photo is always listed."""
        with store.one_state():
            found = store.one_class(fine, number=number)
            row, fine = found.to_dict(), found.fine
            listed = photos.of_class(fine, MAX_PHOTOS)
            asked = None if photo is None else photos.named(fine, photo)
            if asked is not None and asked not in listed:
                listed.append(asked)
            row["photo"] = None if asked is None else asked[0]
            row["beliefs"] = store.beliefs([fine]).get(fine, {})
            cells = store.photo_cells([photo.key for _, photo in listed])
            suggestions = store.suggestions(fine=fine, limit=100).rows
        row["photos"] = [
            {
                "number": number,
                "key": photo.key,
                "cells": {kind: cell.to_dict() for kind, cell in cells.get(photo.key, {}).items()},
            }
            for number, photo in listed
        ]
        row["photo_count"] = session.photo_count(fine)
        _, named = names.of_cells(found.cells.values())
        row["suggestions"] = with_named([one.to_dict() for one in suggestions], named)
        for one in row["suggestions"]:
            if one["source"] == "model":
                one["alike"] = alike_photos(fine, one["kind"])
        return row

    @router.get("/suggestions")
    def suggestions(
        kind: str | None = None,
        fine: str | None = None,
        contradicting: bool = False,
        least: Annotated[float, Query(ge=0, le=1)] = 0.0,
        offset: Offset = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Json:
        """Suggestions of the store; on the first page of a class or a kind, also those from names as they are now."""
        with store.one_state():
            page = store.suggestions(
                kind=kind, fine=fine, contradicting=contradicting, least=least, offset=offset, limit=limit
            ).to_dict()
            if contradicting or offset or (kind is None and fine is None):
                return page
            unknown = store.classes(kind=kind, show="unknown", limit=limit, kinds=None if kind is None else (kind,))
            rows = unknown.rows if fine is None else (store.one_class(fine),)
        cells = (cell for row in rows for cell in row.cells.values() if kind in (None, cell.kind))
        _, named = names.of_cells(cells, PATIENCE)
        both = with_named(page["rows"], [suggestion for suggestion in named if suggestion["score"] >= least])
        return {"rows": both[:limit], "total": page["total"] + len(both) - len(page["rows"])}

    return router
