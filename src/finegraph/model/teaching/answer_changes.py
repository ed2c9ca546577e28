"""How the answers to the photos of a lesson change by it: of the label itself, and of its relatives.

Relatives are the labels that were or are among the most probable ones of the photo, and the siblings of the label: fine
labels that share a coarse label with it (yes and no of binary kinds make none). Those whose probability changed most
are listed. The features are those that `predict` answers by, so both say the same. Cost: two posteriors of the photos,
and a look at all fine labels for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from finegraph.graph import LabelGraph
from finegraph.inference import Answer
from finegraph.model.teaching.lesson import Lesson, TaughtPhoto
from finegraph.nn import BipartiteHead, SoftmaxHead

RELATIVES = 5
"""How many relatives are listed of a photo."""
_AT_ONCE = 1 << 22
"""How many probabilities are held of several photos at a time."""


class LabelChange(NamedTuple):
    """How probable a fine label was and is for a photo.

    Attributes:
        label: the fine label.
        before: how probable it was; 0 if it was not known.
        after: how probable it is now; 0 if it is known no more.
        shares: the coarse labels that it has in common with the label of the lesson, by kind.
    """

    label: str
    before: float
    after: float
    shares: dict[str, str]


@dataclass(frozen=True)
class AnswerChange:
    """The answers to one photo.

    Attributes:
        photo: its name.
        before: the most probable fine labels before the lesson.
        after: the same after it.
        label_before: how probable the label of the lesson was; 0 if it was not known.
        label_after: how probable it is now; 0 if it is known no more.
        relatives: the labels beside it whose probability changed most, the most changed first.
    """

    photo: str
    before: tuple[Answer, ...]
    after: tuple[Answer, ...]
    label_before: float
    label_after: float
    relatives: tuple[LabelChange, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The change as JSON data."""
        return {
            **asdict(self),
            "before": [answer._asdict() for answer in self.before],
            "after": [answer._asdict() for answer in self.after],
            "relatives": [relative._asdict() for relative in self.relatives],
        }


def answer_changes(
    lesson: Lesson,
    before: BipartiteHead | SoftmaxHead,
    after: BipartiteHead | SoftmaxHead,
    temperature: float,
    top: int = 5,
) -> list[AnswerChange]:
    """How the answers to the photos of a lesson change.

    Args:
        lesson: what was taught, or taken back.
        before: the head without it.
        after: the head now.
        temperature: of the classifier.
        top: how many labels to list.
    """
    compared = _Compared(lesson.label, before, after, temperature, top)
    size = max(1, _AT_ONCE // len(compared.names))
    parts = [lesson.photos[start : start + size] for start in range(0, len(lesson.photos), size)]
    return [change for photos in parts for change in compared.changes(photos)]


class _Compared:
    """Two heads that are asked about the same photos.

    Attributes:
        names: the fine labels that either of them knows.
    """

    def __init__(
        self,
        label: str,
        before: BipartiteHead | SoftmaxHead,
        after: BipartiteHead | SoftmaxHead,
        temperature: float,
        top: int,
    ) -> None:
        """Prepare to compare; the arguments are those of `answer_changes`."""
        self.names = tuple(dict.fromkeys((*before.graph.fine, *after.graph.fine)))
        self._place = {name: number for number, name in enumerate(self.names)}
        self._label, self._heads, self._temperature, self._top = label, (before, after), temperature, top
        graphs = (after.graph, before.graph)
        self._graph = next((graph for graph in graphs if label in self._place and label in graph.fine), None)
        self._siblings = self._find_siblings()

    def changes(self, photos: Sequence[TaughtPhoto]) -> list[AnswerChange]:
        """How the answers to some photos changed."""
        rows = [photo.features if photo.answered is None else photo.answered for photo in photos]
        features = torch.from_numpy(np.stack(rows))
        (old, old_probs), (new, new_probs) = (self._answers(head, features) for head in self._heads)
        own, changes = self._place.get(self._label), []
        for row, photo in enumerate(photos):
            was, now = old_probs[row], new_probs[row]
            listed = {answer.label for answer in (*old[row], *new[row])}
            label_before, label_after = (0.0, 0.0) if own is None else (float(was[own]), float(now[own]))
            relatives = self._relatives(listed, was, now)
            changes.append(
                AnswerChange(photo.name, tuple(old[row]), tuple(new[row]), label_before, label_after, relatives)
            )
        return changes

    def _answers(
        self, head: BipartiteHead | SoftmaxHead, features: Float[Tensor, "batch feature"]
    ) -> tuple[list[list[Answer]], Float[NDArray[np.float64], "batch label"]]:
        """The best answers of a head, and how probable each label is; 0 if the head does not know it."""
        with torch.no_grad():
            posterior = head(features.to(head.fine.weight)).tempered(self._temperature)
        probs = np.zeros((len(features), len(self.names)))
        probs[:, [self._place[name] for name in head.graph.fine]] = posterior.log_probs().exp().cpu().numpy()
        return posterior.top(min(self._top, len(head.graph))), probs

    def _find_siblings(self) -> Bool[NDArray[np.bool_], " label"]:
        """Which labels share a coarse label with that of the lesson."""
        siblings = np.zeros(len(self.names), dtype=bool)
        if self._graph is None:
            return siblings
        for name, parents in _parents(self._graph, self._label).items():
            fine, coarse, _ = self._graph.edges(name)
            near = np.unique(fine[np.isin(coarse, list(parents))])
            siblings[[self._place[self._graph.fine[number]] for number in near]] = True
        siblings[self._place[self._label]] = False
        return siblings

    def _relatives(
        self,
        listed: set[str],
        was: Float[NDArray[np.float64], " label"],
        now: Float[NDArray[np.float64], " label"],
    ) -> tuple[LabelChange, ...]:
        """The labels beside that of the lesson whose probability changed most."""
        wanted = self._siblings.copy()
        wanted[[self._place[name] for name in listed if name != self._label]] = True
        numbers = np.flatnonzero(wanted)
        most = numbers[np.argsort(-np.abs(now[numbers] - was[numbers]), kind="stable")[:RELATIVES]]
        return tuple(
            LabelChange(self.names[one], float(was[one]), float(now[one]), self._shared(self.names[one]))
            for one in most.tolist()
        )

    def _shared(self, other: str) -> dict[str, str]:
        """The coarse labels that a fine label has in common with that of the lesson, by kind."""
        if self._graph is None or other not in self._graph.fine:
            return {}
        theirs = _parents(self._graph, other)
        common = {name: own & theirs.get(name, set()) for name, own in _parents(self._graph, self._label).items()}
        return {name: self._graph.labels(name)[min(both)] for name, both in common.items() if both}


def _parents(graph: LabelGraph, label: str) -> dict[str, set[int]]:
    """The numbers of the coarse labels of a fine label by kind, binary kinds left out."""
    number = graph.fine_index(label)
    kinds = [graph.kind(name) for name in graph.kinds]
    return {
        kind.name: set(kind.coarse[kind.starts[number] : kind.starts[number + 1]].tolist())
        for kind in kinds
        if not kind.binary
    }
