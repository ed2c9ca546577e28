"""How well people agree, for pages that stay open.

Counting goes through every decision of every person, and an open page asks again after each edit. So the count is kept:
it is made again only after an edit, and rests three times as long as it took.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from finegraph.labelling import LabelStore

_REST = 3.0

Json = dict[str, Any]


class Agreements:
    """The agreement of a store, by kind; None is all kinds."""

    def __init__(self, store: LabelStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._kept: dict[str | None, tuple[int, float, Json]] = {}

    def of(self, kind: str | None) -> Json:
        """How well people agree, on one kind or on all.

        Raises:
            UnknownNameError: there is no such kind.
        """
        with self._lock:  # whoever asks meanwhile waits for the same count
            version = self._store.version
            seen, until, found = self._kept.get(kind, (-1, 0.0, {}))
            if seen == version or (seen >= 0 and time.monotonic() < until):
                return found
            began = time.monotonic()
            found = self._store.agreement(kind).to_dict()
            now = time.monotonic()
            self._kept[kind] = (version, now + _REST * (now - began), found)
            return found
