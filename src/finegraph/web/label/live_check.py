"""The graph check of the live state, beside the work: it never makes a person wait.

The check reads the whole graph, which for 100,000 classes takes seconds. So it runs in a thread of its own, starts
again only after edits, and rests at least three times as long as it took. What is shown may be that much old; `version`
says of which state it is. A finding may concern very many classes: it is shown with the first of them, and kept under
each, so that asking for one class costs the same whatever was found.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from finegraph.errors import FinegraphError
from finegraph.labelling import LabelStore, LiveFinding

_REST = 3.0
_FIRST_WAIT = 1.0
"""How long the first question waits for an answer; small graphs are checked by then."""
MOST_CLASSES = 20
"""With how many of its classes a finding is shown."""
_LOG = logging.getLogger("finegraph.web")


class LiveCheck:
    """The findings of a store, up to date as soon as it goes."""

    def __init__(self, store: LabelStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._found: tuple[int, tuple[LiveFinding, ...]] = (-1, ())
        self._by_class: Mapping[str, tuple[LiveFinding, ...]] = {}
        self._running = False
        self._not_before = 0.0
        self._done = threading.Event()

    def of_class(self, fine: str) -> tuple[int, tuple[LiveFinding, ...]]:
        """The version that was checked, and what was found in it of one class."""
        version, found = self.of_classes([fine])
        return version, found[fine]

    def of_classes(self, names: Iterable[str]) -> tuple[int, dict[str, tuple[LiveFinding, ...]]]:
        """The version that was checked, and what was found in it of each of some classes."""
        self.findings()
        with self._lock:
            return self._found[0], {fine: self._by_class.get(fine, ()) for fine in names}

    def findings(self) -> tuple[int, tuple[LiveFinding, ...]]:
        """The version that was checked (-1: none yet) and what was found in it, each with its first classes."""
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
        found: tuple[tuple[LiveFinding, ...], Mapping[str, tuple[LiveFinding, ...]]] | None = None
        try:
            found = _by_class(self._store.findings())
        except FinegraphError as error:  # the store is closing, or the graph has no classes left
            _LOG.warning("the graph check could not run: %s", error)
        except Exception:  # a fault: said in full, and the next question tries again
            _LOG.exception("the graph check failed")
        with self._lock:
            if found is not None:
                self._found, self._by_class = (version, found[0]), found[1]
            self._running = False
            self._not_before = time.monotonic() + _REST * (time.monotonic() - began)
        self._done.set()


def _by_class(
    findings: Iterable[LiveFinding],
) -> tuple[tuple[LiveFinding, ...], Mapping[str, tuple[LiveFinding, ...]]]:
    """Findings with the first of their classes, all of them and those of each class."""
    shown: list[LiveFinding] = []
    numbers: dict[str, tuple[int, ...]] = {}
    same: dict[tuple[int, ...], tuple[int, ...]] = {}  # most classes have the same findings as many others
    for number, finding in enumerate(findings):
        shown.append(replace(finding, fine=finding.fine[:MOST_CLASSES]))
        for fine in finding.fine:
            own = (*numbers.get(fine, ()), number)
            numbers[fine] = same.setdefault(own, own)
    lists = {own: tuple(shown[number] for number in own) for own in same}
    return tuple(shown), {fine: lists[own] for fine, own in numbers.items()}
