"""Evidence on a list of photos: the same for all, or one value per photo; it can be cut into batches.

Evidence takes every form that `Posterior.given` takes. All of it is checked before the first photo is opened: names,
shapes, and whether any fine label agrees with it. Cost: one row of scores per photo that has evidence of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from finegraph.errors import EvidenceError, InputError
from finegraph.graph import LabelGraph
from finegraph.inference import Posterior
from finegraph.inference.evidence import FINE, evidence_tensors, log_likelihood

CONTRADICTED = 1 / 20
"""Evidence contradicts a photo if something that it rules out is more than 20 times as probable as all it leaves."""


class Surprise(NamedTuple):
    """How probable evidence was by a photo alone.

    Attributes:
        probability: that all of it holds, by the photo alone; see `Posterior.log_prob_of`.
        contradicts: whether the photo contradicts it: by the photo alone, the best fine label, or the best label of
            a kind that the evidence is on, is more than 20 times as probable as what is left. That a label is rare
            is no contradiction: if a photo says nothing about the restaurants, none of 50 contradicts it.
    """

    probability: float
    contradicts: bool


class Given:
    """Evidence on a list of photos.

    Args:
        graph: the label graph.
        evidence: per kind, or for `"fine"`, a label, a set of labels, likelihoods, or a list with one per photo.
        photos: the names of the photos, for messages.

    Raises:
        EvidenceError: evidence that cannot be used, or that no fine label agrees with.
        UnknownNameError: a kind or a label that the graph does not have.
    """

    def __init__(self, graph: LabelGraph, evidence: Mapping[str, object] | None, photos: Sequence[str]) -> None:
        if evidence is not None and not isinstance(evidence, Mapping):
            raise InputError(
                f"given: expected a mapping from kinds to labels, such as {{'restaurant': 'B'}}, "
                f"got {type(evidence).__name__}"
            )
        self.graph = graph
        self.same: dict[str, object] = {}
        self.each: dict[str, Sequence[object]] = {}
        for kind, value in (evidence or {}).items():
            rows = _rows(graph, kind, value, len(photos))
            if rows is None:
                self.same[kind] = value
            else:
                self.each[kind] = rows
        if self.each:
            for number, photo in enumerate(photos):
                self._check(self._of_photo(number), f"{photo}: ")
        elif self.same:
            self._check(self.same, "")

    def apply(self, posterior: Posterior, numbers: Sequence[int]) -> Posterior:
        """The posterior of some of the photos, by number, given their evidence."""
        if not self.same and not self.each:
            return posterior
        chosen = {kind: [rows[number] for number in numbers] for kind, rows in self.each.items()}
        return posterior.given({**self.same, **chosen})

    def surprise(self, posterior: Posterior, numbers: Sequence[int]) -> list[Surprise | None]:
        """How probable the evidence was by the photos alone; None for photos without evidence.

        Args:
            posterior: that of some of the photos, before they are given what is known.
            numbers: which photos these are.
        """
        known = [
            {kind: value for kind, value in self._of_photo(number).items() if value is not None} for number in numbers
        ]
        kinds = sorted({kind for each in known for kind in each})
        if not kinds:
            return [None] * len(known)
        values = {kind: [each.get(kind) for each in known] for kind in kinds}
        fine = posterior.log_probs()
        together = posterior.log_prob_of(values).exp()
        contradicted = together < CONTRADICTED * fine.amax(dim=1).exp()
        # An exact value or a narrow range of a number is improbable without contradicting anything; what it rules out
        # shows in the fine labels.
        for kind in (kind for kind in kinds if kind not in self.graph.numbers):
            best = (fine if kind == FINE else posterior.kind_log_probs(kind, fine)).amax(dim=1).exp()
            kind_probability = together if len(kinds) == 1 else posterior.log_prob_of({kind: values[kind]}).exp()
            contradicted |= kind_probability < CONTRADICTED * best
        pairs = zip(together.tolist(), contradicted.tolist(), strict=True)
        return [Surprise(*pair) if each else None for each, pair in zip(known, pairs, strict=True)]

    def _of_photo(self, number: int) -> dict[str, object]:
        return {**self.same, **{kind: rows[number] for kind, rows in self.each.items()}}

    def _check(self, evidence: Mapping[str, object], where: str) -> None:
        """Raise where evidence on one photo cannot be used."""
        for kind, value in evidence.items():
            try:
                evidence_tensors(self.graph, {kind: [value]}, 1)
            except InputError as error:
                raise type(error)(where + str(error)) from None
        try:
            one = Posterior(self.graph, torch.zeros(1, len(self.graph)))
            one.given({kind: [value] for kind, value in evidence.items()})
        except EvidenceError:
            raise EvidenceError(
                f"{where}no fine label of the graph agrees with what is given, that the {_in_words(evidence)}; "
                "correct what is given, or the graph"
            ) from None


def _rows(graph: LabelGraph, kind: str, value: object, count: int) -> Sequence[object] | None:
    """One value per photo, or None if the value is the same for all."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "OUS":
        value = value.tolist()
    if kind in graph.numbers:
        if isinstance(value, Tensor | np.ndarray):
            value = value.tolist()
        if isinstance(value, tuple):  # an interval
            return None
    if isinstance(value, Tensor | np.ndarray):
        if value.ndim < 2:
            return None
        log_likelihood(graph, kind, value, count)  # raises for a wrong shape
        return list(torch.as_tensor(value)) if count == len(value) else None
    if not isinstance(value, Sequence) or isinstance(value, str):
        return None
    if len(value) != count:
        raise EvidenceError(
            f"evidence on {kind!r}: a list gives one value per photo, expected {count}, got {len(value)}; "
            "use a set for one of several labels"
        )
    return value


def _in_words(evidence: Mapping[str, object]) -> str:
    """Evidence as short text for a message."""
    parts = []
    for kind, value in evidence.items():
        if isinstance(value, AbstractSet):
            text = " or ".join(sorted(map(repr, value)))
        elif isinstance(value, tuple):
            text = " to ".join("any" if end is None else f"{end:g}" for end in value)
        else:
            plain = isinstance(value, str | bool | int | float)
            text = repr(value) if plain else "as likely as stated"
        if value is not None:
            parts.append(f"{kind} is {text[:80]}")
    return " and the ".join(parts)
