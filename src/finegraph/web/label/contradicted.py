"""The classes whose photos contradict their labels, as a list like any other.

The store lists contradictions cell by cell; here they become classes, each once, in the same order: the surest first.
The list is kept until the store changes. Cost: linear in the contradictions.
"""

from __future__ import annotations

import threading
from typing import Any

from finegraph.labelling import LabelStore

MOST = 20_000
"""The most contradictions that are looked at."""


class Contradicted:
    """Lists of contradicted classes, per kind, for the present version of a store."""

    def __init__(self, store: LabelStore) -> None:
        self._store, self._version = store, -1
        self._lists: dict[str | None, list[str]] = {}
        self._lock = threading.Lock()

    def names(self, kind: str | None) -> list[str]:
        """The classes that are contradicted in a kind, or in any."""
        version = self._store.version
        with self._lock:
            if version != self._version:
                self._version, self._lists = version, {}
            if kind not in self._lists:
                found = self._store.suggestions(kind=kind, contradicting=True, limit=MOST).rows
                self._lists[kind] = list(dict.fromkeys(one.fine for one in found))
            return self._lists[kind]

    def page(self, kind: str | None, search: str, offset: int, limit: int) -> dict[str, Any]:
        """Some of the classes, in the form of a page of the store."""
        words = search.casefold().split()
        names = [name for name in self.names(kind) if all(word in name.casefold() for word in words)]
        rows = [self._store.one_class(name).to_dict() for name in names[offset : offset + limit]]
        return {"rows": rows, "total": len(names), "offset": offset, "version": self._store.version}
