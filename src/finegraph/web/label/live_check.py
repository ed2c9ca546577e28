"""The graph check of the live state, beside the work: it never makes a person wait.

The check reads the whole graph, which for 100,000 classes takes seconds. So it runs in a thread of its own, starts
again only after edits, and rests at least three times as long as it took. What is shown may be that much old; `version`
says of which state it is.
"""

from __future__ import annotations

import logging
import threading
import time

from finegraph.errors import FinegraphError
from finegraph.labelling import LabelStore, LiveFinding

_REST = 3.0
_FIRST_WAIT = 1.0
"""How long the first question waits for an answer; small graphs are checked by then."""
_LOG = logging.getLogger("finegraph.web")


class LiveCheck:
    """The findings of a store, up to date as soon as it goes."""

    def __init__(self, store: LabelStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._found: tuple[int, tuple[LiveFinding, ...]] = (-1, ())
        self._running = False
        self._not_before = 0.0
        self._done = threading.Event()

    def findings(self) -> tuple[int, tuple[LiveFinding, ...]]:
        """The version that was checked (-1: none yet) and what was found in it."""
        version = self._store.version
        with self._lock:
            stale = self._found[0] != version and not self._running and time.monotonic() >= self._not_before
            first = self._found[0] == -1
            if stale:
                self._running = True
                self._done.clear()
                threading.Thread(target=self._check, args=(version,), daemon=True).start()
        if stale:
            self._done.wait(_FIRST_WAIT if first else 0.1)
        with self._lock:
            return self._found

    def _check(self, version: int) -> None:
        began = time.monotonic()
        found: tuple[LiveFinding, ...] | None = None
        try:
            found = self._store.findings()
        except FinegraphError as error:  # the store is closing, or the graph has no classes left
            _LOG.warning("the graph check could not run: %s", error)
        except Exception:  # a fault: said in full, and the next question tries again
            _LOG.exception("the graph check failed")
        with self._lock:
            if found is not None:
                self._found = (version, found)
            self._running = False
            self._not_before = time.monotonic() + _REST * (time.monotonic() - began)
        self._done.set()
