"""The routes of comparisons: the next pair, an answer, and the order that follows.

The page asks for the next pair while a person looks at one, and names the pairs that it already shows. Photos are
compared as photos of two classes, of which one each is drawn at random. An answer is an edit like any other.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query

from finegraph.errors import InputError
from finegraph.labelling import LabelStore, PairNumbers
from finegraph.labelling.edits.comparing import check_comparable
from finegraph.labelling.store.values import pair_text
from finegraph.web.label.json_routes import JsonRouter, only_for
from finegraph.web.label.live_order import LiveOrder, Pair
from finegraph.web.label.photo_routes import PhotoNumbers
from finegraph.web.label.request_bodies import Compare
from finegraph.workflows.label import LabelSession, SessionPhoto

Json = dict[str, Any]
Of = Literal["classes", "photos"]
Shown = Annotated[list[Annotated[str, Query(max_length=40, pattern="^[0-9]{1,15}-[0-9]{1,15}$")]], Query(max_length=20)]
"""Pairs of classes by their numbers, `3-17`."""
MAX_SHOWN = 300
"""How many classes of an order are listed."""
_PHOTOS_PER_CLASS = 3
"""How many photos of a class are shown when classes are compared."""
_DRAWS = 20


class LiveOrders:
    """The orders of all kinds of a store."""

    def __init__(self, store: LabelStore) -> None:
        self._store, self._lock = store, threading.Lock()
        self._orders: dict[int, LiveOrder] = {}

    def of(self, kind: str) -> LiveOrder:
        """The order of a kind.

        Raises:
            UnknownNameError: there is no such kind.
            InputError: its labels have no order.
        """
        entry = self._store.kind_entry(kind)
        check_comparable(entry)
        with self._lock:
            return self._orders.setdefault(entry.id, LiveOrder(self._store, entry.id))


def compare_routes(session: LabelSession) -> APIRouter:
    """The routes of a session by which people compare."""
    router = JsonRouter(prefix="/api", dependencies=[Depends(only_for(session.store))])
    store, photos = session.store, PhotoNumbers(session)
    orders = LiveOrders(store)

    @router.get("/compare/pair")
    def pair(kind: str, person: str, of: Of = "classes", shown: Shown = []) -> Json:  # noqa: B006 - FastAPI copies it
        """The next pair for a person; `pair` is null if they have compared all."""
        live = orders.of(kind)
        only = session.classes_with_photos() if of == "photos" else None
        numbers = live.next_pair(kind, person, of, [_parse_pair(text) for text in shown], only)
        if numbers is None:
            return {"kind": kind, "of": of, "pair": None, "seen": 0}
        sides = [_side(live, number) for number in numbers]
        if of == "classes":
            text = pair_text(person, *numbers)
            return {"kind": kind, "of": of, "pair": sides, "seen": live.version_of(text)}
        drawn, text = _draw(sides, person, live)
        for side, (number, photo) in zip(sides, drawn, strict=True):
            side |= {"photo": number, "key": photo.key}
        return {"kind": kind, "of": of, "pair": sides, "seen": live.version_of(text)}

    def _side(live: LiveOrder, number: int) -> Json:
        """The shown parts of a class."""
        fine = live.name_of(number)
        return {
            "fine": fine,
            "number": number,
            "photos": [name for name, _ in photos.of_class(fine, _PHOTOS_PER_CLASS)],
        }

    def _draw(sides: Iterable[Json], person: str, live: LiveOrder) -> tuple[list[tuple[str, SessionPhoto]], str]:
        """A random photo of each of two classes; a pair that the person has not compared yet, if there is one."""
        listed = [photos.of_class(side["fine"]) for side in sides]
        for _ in range(_DRAWS):
            drawn = [random.choice(candidates) for candidates in listed]
            text = pair_text(person, drawn[0][1].key, drawn[1][1].key)
            if not live.was_answered(text):
                break
        return drawn, text

    @router.post("/compare")
    def compare(body: Compare) -> Json:
        meant = PairNumbers(kind=body.numbers.kind, one=body.numbers.one, two=body.numbers.two)
        one, two = body.one, body.two
        if body.of == "photos":
            first, second = photos.photo(one), photos.photo(two)
            one, two = first.key, second.key
            meant = PairNumbers(kind=meant.kind, one=session.class_of(first), two=session.class_of(second))
        options: Json = {"person": body.person, "edit_id": body.edit, "seen": body.seen}
        result = store.compare(body.kind, one, two, body.outcome, photos=body.of == "photos", numbers=meant, **options)
        return {**result.to_dict(), "names": False}

    @router.get("/compare/order")
    def order(kind: str, of: Of = "classes", limit: Annotated[int, Query(ge=1, le=10_000)] = MAX_SHOWN) -> Json:
        """The order of the classes that were compared, the one with most first; `total` counts all."""
        ranking = orders.of(kind).order(kind, of)
        return {
            **ranking.to_dict(),
            "order": [ranked.to_dict() for ranked in ranking.order[:limit]],
            "total": len(ranking.order),
        }

    return router


def _parse_pair(text: str) -> Pair:
    """Two numbers.

    Raises:
        InputError: they are none.
    """
    one, _, two = text.partition("-")
    if not (one.isascii() and two.isascii() and one.isdigit() and two.isdigit()):
        raise InputError(f"shown: expected two numbers of classes, such as 3-17, got {text[:50]!r}")
    return int(one), int(two)
