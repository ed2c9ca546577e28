"""The graph check of the live state, beside the work; see `live_answer`.

A finding may concern very many classes: it is shown with the first of them, and kept under each, so that asking for one
class costs the same whatever was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from finegraph.labelling import LabelStore, LiveFinding
from finegraph.web.label.live_answer import PATIENCE, LiveAnswer

MOST_CLASSES = 20
"""With how many of its classes a finding is shown."""
Found = tuple[tuple[LiveFinding, ...], Mapping[str, tuple[LiveFinding, ...]]]


class LiveCheck:
    """The findings of a store, up to date as soon as it goes."""

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
        shown.append(replace(finding, fine=finding.fine[:MOST_CLASSES]))
        for fine in finding.fine:
            own = (*numbers.get(fine, ()), number)
            numbers[fine] = same.setdefault(own, own)
    lists = {own: tuple(shown[number] for number in own) for own in same}
    return tuple(shown), {fine: lists[own] for fine, own in numbers.items()}
