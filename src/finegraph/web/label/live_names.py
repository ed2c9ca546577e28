"""Suggestions from the names of classes, as the classes that are decided by now teach them; see `live_answer`.

Unlike those that the store keeps, they may name labels that do not exist yet, and they change while people decide: what
is learnt is where the labels of each kind stand, which is then looked up in the name of each class that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from finegraph.labelling import CellState, LabelStore
from finegraph.labelling.suggestions.name_parts import LabelPlace, learn_places
from finegraph.web.label.live_answer import LiveAnswer

Json = dict[str, Any]


class LiveNames:
    """What names say of the cells of a store that are unknown."""

    def __init__(self, store: LabelStore) -> None:
        # People sweep through the classes while this runs, and what it learns changes slowly: it rests for long.
        self._answer: LiveAnswer[Mapping[str, LabelPlace]] = LiveAnswer(
            store, lambda: learn_places(*store.columns()), {}, what="learning from names", rest=20.0
        )

    def of_cells(self, cells: Iterable[CellState], wait: float = 0.0) -> tuple[int, list[Json]]:
        """The version that was learnt from, and a suggestion for each unknown cell whose class has a label in its name.

        Suggestions have the form of those of the store. `wait` is how many seconds to wait to learn from later edits.
        """
        version, places = self._answer.get(wait)
        return version, list(_suggested(places, cells))


def _suggested(places: Mapping[str, LabelPlace], cells: Iterable[CellState]) -> Iterator[Json]:
    for cell in cells:
        if cell.value is None and cell.kind in places:
            proposal = places[cell.kind].propose(cell.fine)
            if proposal is not None:
                yield {
                    **vars(proposal),
                    "number": None,
                    "text": proposal.value,
                    "contradicts": False,
                    "current": None,
                    "seen": cell.version,
                }


def with_named(kept: Iterable[Json], named: Iterable[Json]) -> list[Json]:
    """Suggestions of the store and from names, each value of a cell once, in the order of the store."""
    found = {(one["fine"], one["kind"], one["text"]): one for one in (*named, *kept)}
    return sorted(found.values(), key=lambda one: (not one["contradicts"], -one["score"]))
