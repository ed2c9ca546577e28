"""Answers that are read from the whole store: the graph check, suggestions from names, and agreement.

With 100,000 classes each takes seconds, and open pages ask again after every edit. So `LiveAnswer` computes an answer
in a background thread, again only after edits, and then pauses for a multiple of the time it took. An answer may be out
of date by that much; its version tells which state of the store it describes.
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
    """One answer from a store, as up to date as its cost allows; safe to use from several threads.

    Args:
        store: the store; its edits make the answer stale.
        find: computes the answer.
        none: the answer until the first is computed.
        what: the name of the computation in the log, such as "the graph check".
        rest: the pause after each computation, as a multiple of its duration.
    """

    def __init__(self, store: LabelStore, find: Callable[[], Answer], none: Answer, *, what: str, rest: float) -> None:
        self._store, self._find, self._what, self._rest = store, find, what, rest
        self._lock = threading.Lock()
        self._latest: tuple[int, Answer] = (-1, none)
        self._running = False
        self._not_before = 0.0
        self._done = threading.Event()

    def get(self, wait: float = 0.0) -> tuple[int, Answer]:
        """The version of the store that the answer describes (-1: none yet), and the answer.

        Args:
            wait: how many seconds to wait for a newer answer if this one is stale.
        """
        version = self._store.version
        with self._lock:
            stale = self._latest[0] != version and not self._running and time.monotonic() >= self._not_before
            first = self._latest[0] == -1
            if stale:
                self._running = True
                self._done.clear()
                threading.Thread(target=self._compute, args=(version,), daemon=True).start()
        if stale:
            self._done.wait(_FIRST_WAIT if first else wait)
        with self._lock:
            return self._latest

    def _compute(self, version: int) -> None:
        began = time.monotonic()
        latest: tuple[int, Answer] | None = None
        try:
            latest = (version, self._find())
        except FinegraphError as error:  # the store is closing, or the graph has no classes left
            _LOG.warning("%s could not run: %s", self._what, error)
        except Exception:  # a fault of ours: logged in full; the next question tries again
            _LOG.exception("%s failed", self._what)
        with self._lock:
            if latest is not None:
                self._latest = latest
            self._running = False
            self._not_before = time.monotonic() + self._rest * (time.monotonic() - began)
        self._done.set()


MAX_CLASSES = 20
"""The number of classes that are shown with a finding."""
Findings = tuple[tuple[LiveFinding, ...], Mapping[str, tuple[LiveFinding, ...]]]


class LiveCheck:
    """The findings of a store, as up to date as their cost allows."""

    def __init__(self, store: LabelStore) -> None:
        self.answer: LiveAnswer[Findings] = LiveAnswer(
            store, lambda: _by_class(store.findings()), ((), {}), what="the graph check", rest=3.0
        )

    def of_class(self, fine: str) -> tuple[int, tuple[LiveFinding, ...]]:
        """The version that was checked, and what was found in it of one class."""
        version, findings = self.of_classes([fine])
        return version, findings[fine]

    def of_classes(self, names: Iterable[str]) -> tuple[int, dict[str, tuple[LiveFinding, ...]]]:
        """The version that was checked, and what was found in it of each of some classes."""
        version, (_, by_class) = self.answer.get(PATIENCE)
        return version, {fine: by_class.get(fine, ()) for fine in names}

    def findings(self) -> tuple[int, tuple[LiveFinding, ...]]:
        """The version that was checked (-1: none yet) and what was found in it, each with its first classes."""
        version, (findings, _) = self.answer.get(PATIENCE)
        return version, findings


def _by_class(findings: Iterable[LiveFinding]) -> Findings:
    """Findings with the first of their classes, all of them and those of each class."""
    shown: list[LiveFinding] = []
    numbers: dict[str, tuple[int, ...]] = {}
    groups: dict[tuple[int, ...], tuple[int, ...]] = {}  # shared tuples: most classes have the findings of many others
    for number, finding in enumerate(findings):
        shown.append(replace(finding, fine=finding.fine[:MAX_CLASSES]))
        for fine in finding.fine:
            group = (*numbers.get(fine, ()), number)
            numbers[fine] = groups.setdefault(group, group)
    lists = {group: tuple(shown[number] for number in group) for group in groups}
    return tuple(shown), {fine: lists[group] for fine, group in numbers.items()}


Json = dict[str, Any]


class LiveNames:
    """Suggestions for the unknown cells of a store, from the names of its classes."""

    def __init__(self, store: LabelStore) -> None:
        # The pause is long because what is learnt changes slowly, and people go through the classes meanwhile.
        self._answer: LiveAnswer[Mapping[str, LabelPlace]] = LiveAnswer(
            store, lambda: learn_places(*store.columns()), {}, what="learning from names", rest=20.0
        )

    def of_cells(self, cells: Iterable[CellState], wait: float = 0.0) -> tuple[int, list[Json]]:
        """The version that was learnt from, and a suggestion for each unknown cell whose class has a label in its name.

        Suggestions have the form of those in the store. `wait` is how many seconds to wait for a newer version.
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


def with_named(stored: Iterable[Json], named: Iterable[Json]) -> list[Json]:
    """Suggestions in the store and from names, each value of a cell once, in the order of the store."""
    unique = {
        (suggestion["fine"], suggestion["kind"], suggestion["text"]): suggestion for suggestion in (*named, *stored)
    }
    return sorted(unique.values(), key=lambda suggestion: (not suggestion["contradicts"], -suggestion["score"]))


_AGREEMENT_REST = 3.0


class Agreements:
    """The agreement of a store, by kind; None is all kinds."""

    def __init__(self, store: LabelStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._cache: dict[str | None, tuple[int, float, Json]] = {}

    def of(self, kind: str | None) -> Json:
        """How well people agree, on one kind or on all.

        Raises:
            UnknownNameError: there is no such kind.
        """
        with self._lock:  # concurrent callers wait for the same count
            version = self._store.version
            counted, fresh_until, agreement = self._cache.get(kind, (-1, 0.0, {}))
            if counted == version or (counted >= 0 and time.monotonic() < fresh_until):
                return agreement
            began = time.monotonic()
            agreement = self._store.agreement(kind).to_dict()
            now = time.monotonic()
            self._cache[kind] = (version, now + _AGREEMENT_REST * (now - began), agreement)
            return agreement
