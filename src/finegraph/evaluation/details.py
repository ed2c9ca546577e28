"""The details of single photos that a report shows beyond `samples.csv`.

That is the five most probable labels, the truth of each kind, and for some photos, the gallery, why the first answer
rather than the second.

    details.safetensors    arrays only; docs/evaluation.md has every name

The gallery is drawn by a hash of the photo's name, so that it is the same for every model: the first photos in that
order, and the first of those that are answered wrongly. Explaining is the slow part, so it is done for these alone.
Cost: 48 bytes per photo and 4 per kind; of the gallery its features or its scores, whichever are fewer, are held until
the end. Features are scored again then, some photos at a time.
"""

from __future__ import annotations

import hashlib
import heapq
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped, UInt
from numpy.typing import NDArray
from torch import Tensor

from finegraph.data.dataset import MISSING
from finegraph.data.samples import Samples
from finegraph.evaluation.judgements import Indices, has_label
from finegraph.evaluation.metrics import Numbers
from finegraph.graph import LabelGraph
from finegraph.inference import Posterior

TOP = 5
GALLERY = 200
"""How many photos of the gallery are drawn from all, and how many more from those that are answered wrongly."""
NOT_KNOWN = -1
_MAX_EXPLAINED = 2**22
"""The largest number of scores that are explained at a time."""
MANY_KINDS, MIN_EXPLAINED = 16, 24
"""Explaining takes longer the more kinds overlap, up to a fifth of a second per photo with 312 of them. Above this
number of kinds fewer photos are explained, in proportion, but at least this number."""


@dataclass(frozen=True, eq=False)
class Details:
    """The details of each photo, in the order of the samples.

    Attributes:
        sample: the number of the photo in the list of samples.
        top_labels: (photo, place) the most probable fine labels, best first.
        top_probabilities: (photo, place) their probabilities.
        kinds_true: (photo, kind) the true label of each kind, `NOT_KNOWN` where it is not known; of several parents the
            one that is answered, or else the heaviest.
        gallery: the numbers of the photos that are explained, in the order in which they were drawn.
        parts: (gallery photo, source) what the fine label itself, each kind and each number adds to the log odds of the
            first answer against the second; NaN if there is no second, or with many kinds not explained.
    """

    sample: Int[Indices, " photo"]
    top_labels: Int[Indices, "photo place"]
    top_probabilities: Float[Numbers, "photo place"]
    kinds_true: Int[Indices, "photo kind"]
    gallery: Int[Indices, " sample"]
    parts: Float[Numbers, "sample _"]

    def arrays(self) -> dict[str, Shaped[NDArray[Any], " ..."]]:
        """Everything by its name."""
        return {field.name: np.ascontiguousarray(getattr(self, field.name)) for field in fields(self)}


def draw_order(paths: Samples | list[str]) -> UInt[NDArray[np.uint64], " photo"]:
    """For each photo a number that looks random and depends on the last two parts of its path alone."""
    names = paths if isinstance(paths, list) else [os.fspath(sample.path) for sample in paths]
    return np.array([_draw(name) for name in names], dtype=np.uint64)


def _draw(path: str) -> int:
    name = "/".join(PurePath(path).parts[-2:]).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big")


PhotoFeatures = tuple[Float[Tensor, "batch view feature"], Float[Tensor, "batch view coarse_feature"] | None]
"""The features of photos, and those for coarse labels, if there are any."""
ScoreAgain = Callable[
    [Float[Tensor, "batch view feature"], Float[Tensor, "batch view coarse_feature"] | None], Posterior
]
"""Gives the posterior of features."""


class _Kept(NamedTuple):
    """A photo of the gallery so far; the heap gives away the one with the largest key.

    Attributes:
        reversed_key: the smaller, the later the photo was drawn.
        number: the number of the photo.
        parts: its features, or the scores of fine labels, of coarse labels and of numbers.
    """

    reversed_key: int
    number: int
    parts: tuple[Tensor | None, ...]


class DetailCollector:
    """Takes in posteriors batch by batch, and gives the details.

    Args:
        graph: the label graph.
        order: what `draw_order` gave for all samples.
        gallery: how many photos are drawn of each sort.
    """

    def __init__(self, graph: LabelGraph, order: UInt[NDArray[np.uint64], " photo"], gallery: int = GALLERY) -> None:
        self.graph, self.order, self.size = graph, order, gallery
        self._parts: list[dict[str, NDArray[Any]]] = []
        self._any: list[_Kept] = []
        self._wrong: list[_Kept] = []
        self._tensors: Any = None
        self._score_again: ScoreAgain | None = None
        self._heaviest: dict[str, Indices] = {}

    def add(
        self,
        posterior: Posterior,
        log_probs: Float[Tensor, "batch fine"],
        answered: Int[Indices, "batch kind"],
        numbers: Int[Indices, " batch"],
        fine: Int[Indices, " batch"],
        seen: Mapping[str, Int[Indices, " batch"]],
        features: PhotoFeatures | None = None,
        score_again: ScoreAgain | None = None,
    ) -> None:
        """Take in a batch.

        Args:
            posterior: one row per photo, with temperature and views done.
            log_probs: its fine log probabilities.
            answered: the most probable label of each kind.
            numbers: the number of each photo in the list of samples.
            fine: the true fine label of each photo, `MISSING` where it is not known.
            seen: per kind the labels seen on the photos, `MISSING` where none was.
            features: of the photos; kept in place of the scores if they are fewer and can be scored again.
            score_again: gives the posterior of features once more, with temperature and views done.
        """
        self._tensors = posterior.tensors
        kept: tuple[Tensor | None, ...] = (posterior.fine_scores, posterior.coarse_scores, posterior.number_scores)
        if features is not None and score_again is not None and _size(features) < _size(kept):
            kept, self._score_again = features, score_again
        values, labels = log_probs.topk(min(TOP, log_probs.shape[1]), dim=1)
        self._parts.append(
            {
                "sample": numbers.astype(np.int32),
                "top_labels": labels.cpu().numpy().astype(np.int32),
                "top_probabilities": values.double().exp().clamp_max(1.0).float().cpu().numpy(),
                "kinds_true": self._kinds_true(answered, fine, seen),
            }
        )
        wrong = (labels[:, 0].cpu().numpy() != fine) & (fine != MISSING)
        for row, number in enumerate(numbers.tolist()):
            self._keep(self._any, kept, row, number)
            if wrong[row]:
                self._keep(self._wrong, kept, row, number)

    def _keep(self, heap: list[_Kept], parts: tuple[Tensor | None, ...], row: int, number: int) -> None:
        """Keep a photo in the gallery if it is early enough in the order of drawing."""
        key = -int(self.order[number])
        if len(heap) >= self.size and key <= heap[0].reversed_key:
            return
        own = tuple(None if part is None else part[row].clone() for part in parts)
        heapq.heappush(heap, _Kept(key, number, own))
        if len(heap) > self.size:
            heapq.heappop(heap)

    def _kinds_true(self, answered: Indices, fine: Indices, seen: Mapping[str, Indices]) -> NDArray[np.int32]:
        """The true label of each kind."""
        true_labels = np.full((len(fine), len(self.graph.kinds)), NOT_KNOWN, dtype=np.int32)
        known = np.flatnonzero(fine != MISSING)
        for place, name in enumerate(self.graph.kinds):
            kind = self.graph.kind(name)
            known_fine = fine[known]
            some = kind.starts[known_fine + 1] > kind.starts[known_fine]
            rows, known_fine = known[some], known_fine[some]
            true_labels[rows, place] = self._heaviest_of(name)[known_fine]
            answer = answered[rows, place].astype(np.int64)
            right = has_label(kind, known_fine, answer)
            true_labels[rows[right], place] = answer[right]
            if name in seen:
                true_labels[:, place] = np.where(seen[name] == MISSING, true_labels[:, place], seen[name])
        return true_labels

    def _heaviest_of(self, kind: str) -> Indices:
        """`_heaviest` of a kind, found once."""
        if kind not in self._heaviest:
            self._heaviest[kind] = _heaviest(self.graph, kind)
        return self._heaviest[kind]

    def details(self) -> Details:
        """All of it, in the order of the samples."""
        columns = {name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]}
        rows = np.argsort(columns["sample"], kind="stable")
        kept = {one.number: one for one in (*self._any, *self._wrong)}
        gallery = sorted(kept.values(), key=lambda one: -one.reversed_key)
        step = max(1, _MAX_EXPLAINED // (len(self.graph) + 1))
        count = min(len(gallery), self._max_explained())
        parts = [self._explained(gallery[start : min(start + step, count)]) for start in range(0, count, step)]
        empty = np.full((len(gallery) - count, len(self._sources)), np.nan, dtype=np.float32)
        return Details(
            **{name: column[rows] for name, column in columns.items()},
            gallery=np.array([one.number for one in gallery], dtype=np.int32),
            parts=np.concatenate([*parts, empty]),
        )

    @property
    def _sources(self) -> tuple[str, ...]:
        """What the parts of an explanation are of."""
        return ("fine", *self.graph.kinds, *self.graph.numbers)

    def _max_explained(self) -> int:
        """How many photos are explained."""
        return max(MIN_EXPLAINED, 2 * self.size * MANY_KINDS // max(MANY_KINDS, len(self.graph.kinds)))

    def _explained(self, kept: list[_Kept]) -> NDArray[np.float32]:
        """The parts of the log odds of some photos."""
        sources = {name: place for place, name in enumerate(self._sources)}
        parts = np.full((len(kept), len(sources)), np.nan, dtype=np.float32)
        if len(self.graph) < 2:
            return parts
        posterior = self._posterior(kept)
        top = posterior.top(2)
        possible = [row for row, (_, second) in enumerate(top) if second.probability > 0.0]
        if len(possible) < len(kept):  # a second answer that is impossible has no odds
            for row in possible:
                parts[row] = self._explained([kept[row]])[0]
            return parts
        explanations = posterior.explain([first.label for first, _ in top], [second.label for _, second in top])
        for row, photo in enumerate(explanations):
            for part in photo.parts:
                parts[row, sources[part.source]] = part.value
        return parts

    def _posterior(self, kept: list[_Kept]) -> Posterior:
        """The posterior of some photos."""
        parts = [None if own[0] is None else torch.stack(own) for own in zip(*(one.parts for one in kept), strict=True)]
        first, second = parts[:2]
        assert first is not None
        if self._score_again is not None:
            with torch.no_grad():
                return self._score_again(first, second)
        return Posterior(self.graph, first, second, number_scores=parts[2], tensors=self._tensors)


def _size(parts: tuple[Tensor | None, ...]) -> int:
    """How many numbers there are of a photo."""
    return sum(part[0].numel() for part in parts if part is not None)


def _heaviest(graph: LabelGraph, kind: str) -> Indices:
    """The parent with the most weight of each fine label, the first among equals; -1 if there is none."""
    fine, coarse, weight = graph.edges(kind)
    heaviest = np.full(len(graph), NOT_KNOWN, dtype=np.int64)
    order = np.lexsort((-coarse, weight, fine))  # the last of each fine label is written last and stays
    heaviest[fine[order]] = coarse[order]
    return heaviest
