"""The best suggestion of each class for one kind, for lists.

A list shows a hundred classes at a time; asking the store for each would cost more than the list itself. So the
suggestions of a kind are read once and kept for a while. What is kept may have been followed meanwhile: the page shows
a suggestion only where its cell has another value. Cost: one query per kind and half minute, linear in its suggestions.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from finegraph.labelling import LabelStore

MOST = 20_000
"""The most suggestions of a kind that lists show."""
_KEPT_SECONDS = 30.0

Json = dict[str, Any]


class BestSuggestions:
    """The best suggestions of a store, by kind and class."""

    def __init__(self, store: LabelStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, int, dict[str, Json]]] = {}

    def of_kind(self, kind: str) -> dict[str, Json]:
        """The best suggestion of each class that has one."""
        version = self._store.version
        with self._lock:
            read, seen, found = self._kept.get(kind, (0.0, -1, {}))
            if seen == version or (seen >= 0 and time.monotonic() - read < _KEPT_SECONDS):
                return found
            found = {}
            for one in self._store.suggestions(kind=kind, limit=MOST).rows:
                found.setdefault(one.fine, one.to_dict())
            self._kept[kind] = (time.monotonic(), version, found)
            return found
