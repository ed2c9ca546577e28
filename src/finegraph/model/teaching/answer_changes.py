"""How answers change by a lesson: what was said of its photos before, and what is said now."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from finegraph.inference import Answer
from finegraph.model.teaching.lesson import Lesson
from finegraph.nn import BipartiteHead, SoftmaxHead


@dataclass(frozen=True)
class AnswerChange:
    """The answers to one photo.

    Attributes:
        photo: its name.
        before: the most probable fine labels before the lesson.
        after: the same after it.
        label_before: how probable the label of the lesson was; 0 if it was not known.
        label_after: how probable it is now; 0 if it is known no more.
    """

    photo: str
    before: tuple[Answer, ...]
    after: tuple[Answer, ...]
    label_before: float
    label_after: float

    def to_dict(self) -> dict[str, Any]:
        """The change as JSON data."""
        return {
            **asdict(self),
            "before": [answer._asdict() for answer in self.before],
            "after": [answer._asdict() for answer in self.after],
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
    if not lesson.photos:
        return []
    features = torch.from_numpy(np.stack([photo.features for photo in lesson.photos]))
    sides = []
    for head in (before, after):
        with torch.no_grad():
            posterior = head(features.to(head.fine.weight)).tempered(temperature)
        known = lesson.label in head.graph.fine
        label_probs = posterior.log_probs()[:, head.graph.fine_index(lesson.label)].exp().tolist() if known else None
        sides.append((posterior.top(min(top, len(head.graph))), label_probs or [0.0] * len(lesson.photos)))
    (old, old_own), (new, new_own) = sides
    rows = zip(lesson.photos, old, new, old_own, new_own, strict=True)
    return [AnswerChange(photo.name, tuple(one), tuple(two), was, now) for photo, one, two, was, now in rows]
