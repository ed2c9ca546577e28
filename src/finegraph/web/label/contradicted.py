"""The classes whose photos contradict their labels, as a list like any other: the surest first.

The store answers it with one query. Only what a model sees on photos counts, not what a name suggests. Cost: linear in
the suggestions of the model.
"""

from __future__ import annotations

from typing import Any

from finegraph.labelling import LabelStore


class Contradicted:
    """Lists of the contradicted classes of a store."""

    def __init__(self, store: LabelStore) -> None:
        self._store = store

    def page(self, kind: str | None, search: str, offset: int, limit: int) -> dict[str, Any]:
        """Some of the classes that are contradicted in a kind, or in any, with their cells of it."""
        return self._store.classes(
            kind=kind,
            show="contradicted",
            search=search,
            order="attention",
            offset=offset,
            limit=limit,
            kinds=None if kind is None else (kind,),
        ).to_dict()
