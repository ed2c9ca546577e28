"""Answers that are read from the whole store: the graph check, suggestions from names, and agreement.

With 100,000 classes each takes seconds, and open pages ask again after every edit. So `LiveAnswer` finds an answer in a
thread of its own, starts again only after edits, and rests some times as long as it took. An answer may be that much
out of date; its version says of which state it is.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

from finegraph.errors import FinegraphError
from finegraph.labelling import CellState, LabelStore, LiveFinding
from finegraph.labelling.suggestions.name_parts import LabelPlace, learn_places

Answer = TypeVar("Answer")
PATIENCE = 0.1
"""The seconds that a background question waits for a newer answer."""
_FIRST_WAIT = 1.0
"""The seconds that the first question waits for an answer; enough for small stores."""
_LOG = logging.getLogger("finegraph.web")


class LiveAnswer(Generic[Answer]):
    """The answer to one question to a store, as up to date as its cost allows; may be used by several threads.

    Args:
        store: whose edits make the answer old.
        find: finds it.
        none: the answer until there is one.
        what: what is done, for the log: "the graph check".
        rest: how many times as long as it took it is not asked again.
    """

    def __init__(self, store: LabelStore, find: Callable[[], Answer], none: Answer, *, what: str, rest: float) -> None:
        self._store, self._find, self._what, self._rest = store, find, what, rest
        self._lock = threading.Lock()
        self._found: tuple[int, Answer] = (-1, none)
        self._running = False
        self._not_before = 0.0
        self._done = threading.Event()

    def get(self, wait: float = 0.0) -> tuple[int, Answer]:
        """The version that was looked at (-1: none yet), and the answer.

        Args:
            wait: how many seconds to wait for a newer answer if this one is old.
        """
        version = self._store.version
        with self._lock:
            stale = self._found[0] != version and not self._running and time.monotonic() >= self._not_before
            first = self._found[0] == -1
            if stale:
                self._running = True
                self._done.clear()
                threading.Thread(target=self._look, args=(version,), daemon=True).start()
        if stale:
            self._done.wait(_FIRST_WAIT if first else wait)
        with self._lock:
            return self._found

    def _look(self, version: int) -> None:
        began = time.monotonic()
        found: tuple[int, Answer] | None = None
        try:
            found = (version, self._find())
        except FinegraphError as error:  # the store is closing, or the graph has no classes left
            _LOG.warning("%s could not run: %s", self._what, error)
        except Exception:  # a fault of ours: logged in full; the next question tries again
            _LOG.exception("%s failed", self._what)
        with self._lock:
            if found is not None:
                self._found = found
            self._running = False
            self._not_before = time.monotonic() + self._rest * (time.monotonic() - began)
        self._done.set()


MAX_CLASSES = 20
"""The number of classes that are shown with a finding."""
Found = tuple[tuple[LiveFinding, ...], Mapping[str, tuple[LiveFinding, ...]]]


class LiveCheck:
    """The findings of a store, as up to date as their cost allows."""

    def __init__(self, store: LabelStore) -> None:
        self.answer: LiveAnswer[Found] = LiveAnswer(
            store, lambda: _by_class(store.findings()), ((), {}), what="the graph check", rest=3.0
        )

    def of_class(self, fine: str) -> tuple[int, tuple[LiveFinding, ...]]:
        """The version that was checked, and what was found in it of one class."""
        version, found = self.of_classes([fine])
        return version, found[fine]

    def of_classes(self, names: Iterable[str]) -> tuple[int, dict[str, tuple[LiveFinding, ...]]]:
        """The version that was checked, and what was found in it of each of some classes."""
        version, (_, by_class) = self.answer.get(PATIENCE)
        return version, {fine: by_class.get(fine, ()) for fine in names}

    def findings(self) -> tuple[int, tuple[LiveFinding, ...]]:
        """The version that was checked (-1: none yet) and what was found in it, each with its first classes."""
        version, (found, _) = self.answer.get(PATIENCE)
        return version, found


def _by_class(findings: Iterable[LiveFinding]) -> Found:
    """Findings with the first of their classes, all of them and those of each class."""
    shown: list[LiveFinding] = []
    numbers: dict[str, tuple[int, ...]] = {}
    same: dict[tuple[int, ...], tuple[int, ...]] = {}  # most classes have the same findings as many others
    for number, finding in enumerate(findings):
        shown.append(replace(finding, fine=finding.fine[:MAX_CLASSES]))
        for fine in finding.fine:
            own = (*numbers.get(fine, ()), number)
            numbers[fine] = same.setdefault(own, own)
    lists = {own: tuple(shown[number] for number in own) for own in same}
    return tuple(shown), {fine: lists[own] for fine, own in numbers.items()}


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


_AGREEMENT_REST = 3.0


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
        with self._lock:  # concurrent callers wait for the same count
            version = self._store.version
            seen, until, found = self._kept.get(kind, (-1, 0.0, {}))
            if seen == version or (seen >= 0 and time.monotonic() < until):
                return found
            began = time.monotonic()
            found = self._store.agreement(kind).to_dict()
            now = time.monotonic()
            self._kept[kind] = (version, now + _AGREEMENT_REST * (now - began), found)
            return found
