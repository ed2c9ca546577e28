"""The order of one kind while people compare, and the next pair to compare.

Answers are kept in memory, and only new ones are read. An order of few classes is fitted for each question. With many
classes a fit takes a tenth of a second or more, so the next pair is chosen by the last fit, which may lack a few
answers, while a new fit runs in a background thread; pairs answered meanwhile are not asked again. One in ten questions
has been answered by somebody else, which shows how far people agree. Cost of a pair: see `comparison_choice`.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from finegraph.graph.comparison_choice import telling_pair
from finegraph.graph.comparison_fit import ComparisonFit
from finegraph.graph.kind import FloatArray
from finegraph.graph.number import Number
from finegraph.labelling import ClassOrder, LabelStore
from finegraph.labelling.class_order import Classes, Counted, KindAnswers, order_of

Pair = tuple[int, int]
QUICK_FIT_CLASSES = 150
"""The number of compared classes up to which a fit takes a few milliseconds."""
_REPEATED_SHARE = 0.1
"""The share of questions that somebody else has already answered."""


@dataclass(frozen=True)
class _Fitted:
    """A fit with the version of its answers and its classes."""

    version: int
    classes: Classes
    fit: ComparisonFit | None


class LiveOrder:
    """The comparisons of one kind; safe to use from several threads.

    Args:
        store: the store.
        kind: the number of the kind.
        seed: the seed of random choices; by default from the system.
    """

    def __init__(self, store: LabelStore, kind: int, seed: int | None = None) -> None:
        self._store, self._kind = store, kind
        self._lock = threading.RLock()
        self._answers = KindAnswers(kind)
        self._classes: Classes | None = None
        self._seen = 0
        self._fits: dict[Counted, _Fitted] = {}
        self._orders: dict[Counted, ClassOrder] = {}
        self._running = False
        self._rng = np.random.default_rng(seed)

    def next_pair(
        self,
        name: str,
        person: str,
        counted: Counted,
        shown: Collection[Pair] = (),
        only: Collection[int] | None = None,
    ) -> Pair | None:
        """The numbers of the two classes whose comparison is most informative, in the order in which to show them.

        Args:
            name: the current name of the kind.
            person: the person to ask; pairs that they have answered are not asked again.
            counted: whether classes or photos are compared; two classes can be asked again with other photos.
            shown: pairs that the person already sees; their classes are avoided where possible.
            only: the classes to choose from; by default all.
        """
        with self._lock:
            classes = self._refresh(name)
            fit, place = self._fitted(name, counted, wait=False).fit, classes.place
            repeat = self._rng.random() < _REPEATED_SHARE
            answered, others = self._answered(person, place, counted, others=repeat)
            shown_pairs = {
                _sorted(place[first], place[second]) for first, second in shown if first in place and second in place
            }
            if fit is None:
                fit = _prior_fit(name, *classes.prior())
            chosen = (
                set(range(len(classes.ids))) if only is None else {place[number] for number in only if number in place}
            )
            resting = {place for pair in shown_pairs for place in pair}
            places = self._choose(fit, chosen - resting, answered, others) or self._choose(
                fit, chosen, answered | shown_pairs, others
            )
            return None if places is None else (classes.ids[places[0]], classes.ids[places[1]])

    def _choose(self, fit: ComparisonFit, chosen: Collection[int], barred: set[Pair], others: set[Pair]) -> Pair | None:
        """The most informative pair of some classes, by their positions; a pair in `others` is preferred."""
        repeated = {pair for pair in others - barred if pair[0] in chosen and pair[1] in chosen}
        if repeated:
            return telling_pair(fit, fit.prior_mean, fit.prior_spread, self._rng, among=repeated)
        return telling_pair(fit, fit.prior_mean, fit.prior_spread, self._rng, barred=barred, chosen=chosen)

    def _answered(
        self, person: str, place: Mapping[int, int], counted: Counted, *, others: bool
    ) -> tuple[set[Pair], set[Pair]]:
        """The pairs of classes that a person has answered, and those that one other person has, if these are wanted."""
        answered: set[Pair] = set()
        theirs: dict[Pair, int] = {}
        if counted == "photos":
            return answered, set()
        for answer in self._answers.kept.values():
            if answer.photos or not (others or answer.person == person):
                continue
            first, second = place.get(answer.one or 0), place.get(answer.two or 0)
            if first is not None and second is not None:
                pair = _sorted(first, second)
                if answer.person == person:
                    answered.add(pair)
                elif answer.outcome != "skip":
                    theirs[pair] = theirs.get(pair, 0) + 1
        return answered, {pair for pair, count in theirs.items() if count == 1 and pair not in answered}

    def version_of(self, pair: str) -> int:
        """The version of an answer; 0 if there never was one."""
        with self._lock:
            return self._answers.versions.get(pair, 0)

    def was_answered(self, pair: str) -> bool:
        """Whether there is an answer now."""
        with self._lock:
            return pair in self._answers.kept

    def name_of(self, number: int) -> str:
        """The name of a class that `next_pair` gave."""
        with self._lock:
            assert self._classes is not None, "asked after a pair was found"
            return self._classes.names[number]

    def order(self, name: str, counted: Counted) -> ClassOrder:
        """The order of the classes by the current answers."""
        with self._lock:
            classes = self._refresh(name)
            fitted = self._fitted(name, counted, wait=True)
            known = self._orders.get(counted)
            if known is None or known.version != fitted.version or known.kind != name or fitted.classes is not classes:
                known = order_of(self._answers, self._store.kind_entry(name), classes, fitted.fit, counted)
                self._orders[counted] = known
            return known

    def _refresh(self, name: str) -> Classes:
        """Read new answers, and the classes again if anything else was edited."""
        changes = self._store.changes(self._seen)
        others = changes.more or any(edit["target"] != "comparison" for edit in changes.edits)
        if self._classes is None or others:
            self._classes = self._store.classes_with_values(name)
            self._fits, self._orders = {}, {}
        self._store.read_new(self._answers)
        self._seen = changes.version
        return self._classes

    def _fitted(self, name: str, counted: Counted, *, wait: bool) -> _Fitted:
        """The fit of the current answers; without `wait`, an older one if fitting takes long."""
        known = self._fits.get(counted)
        if known is not None and known.version == self._answers.version:
            return known
        quick = known is None or known.fit is None or len(known.fit.items) <= QUICK_FIT_CLASSES
        if quick or wait:
            return self._fit(name, counted)
        assert known is not None, "the first fit is waited for"
        if not self._running:
            self._running = True
            threading.Thread(target=self._fit_later, args=(name, counted), daemon=True).start()
        return known

    def _fit(self, name: str, counted: Counted) -> _Fitted:
        assert self._classes is not None, "read before"
        tally = self._answers.tally(self._classes.place, counted)
        fitted = _Fitted(self._answers.version, self._classes, self._classes.fit(name, tally))
        self._fits[counted] = fitted
        return fitted

    def _fit_later(self, name: str, counted: Counted) -> None:
        """Fit a copy of the answers, so that the lock is free meanwhile."""
        try:
            with self._lock:
                classes, version = self._classes, self._answers.version
                copy = KindAnswers(self._kind, version, dict(self._answers.kept))
            assert classes is not None, "read before"
            fitted = _Fitted(version, classes, classes.fit(name, copy.tally(classes.place, counted)))
            with self._lock:
                if self._classes is classes:
                    self._fits[counted] = fitted
        finally:
            self._running = False


def _sorted(one: int, two: int) -> Pair:
    return (one, two) if one < two else (two, one)


def _prior_fit(name: str, mean: FloatArray, spread: FloatArray) -> ComparisonFit:
    """The fit to no comparisons, which is the prior."""
    unknown = Number(name, np.full(len(mean), np.nan), np.zeros(len(mean)))
    return ComparisonFit(unknown, np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros((0, 0)), mean, spread)
