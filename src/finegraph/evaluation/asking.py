"""How many questions settle how many photos.

A photo is settled once its best fine label has a probability of at least 1 - risk. Until then the question with the
largest expected gain (`Posterior.questions`) is asked, and answered as the graph says of the true class: the parent,
"one of these" if there are several, nothing if it is unknown. Whether a number is above a value is answered by the
value of the true class. No question is asked twice; of a number one may ask about several values. Cost: a pass over
the edges for each question to each photo, so of many photos, or with large graphs, only some are asked about.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int, UInt
from numpy.typing import NDArray
from torch import Tensor

from finegraph.data.dataset import MISSING
from finegraph.evaluation.judgements import Indices
from finegraph.graph import LabelGraph
from finegraph.inference import Posterior
from finegraph.inference.answers import NO_GAIN, rounding_of
from finegraph.inference.numbers.known_values import Known, both_known, known_values
from finegraph.inference.sums.graph_tensors import graph_tensors

MAX_PHOTOS, MAX_NUMBERS = 2_000, 50_000_000
"""The largest number of photos that are asked about, and of their links to labels."""


DEFAULT_QUESTIONS = 3
"""How many questions an evaluation asks about a photo by default."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What asking the best questions does. The entry n of a list is that after n questions at most.

    Attributes:
        risk: how often a settled answer may be wrong.
        photos: how many photos were asked about.
        settled: the share of them that is settled.
        right: the share of right fine labels among the settled ones.
        top1: the share of right fine labels among all of them.
        first: for each kind and number, the share of photos that are first asked about it.
    """

    risk: float
    photos: int
    settled: tuple[float, ...]
    right: tuple[float | None, ...]
    top1: tuple[float, ...]
    first: dict[str, float]


def photos_to_ask(
    graph: LabelGraph, order: UInt[NDArray[np.uint64], " photo"], fine: Int[Indices, " photo"]
) -> Int[Indices, " sample"]:
    """The numbers of the photos that are asked about: all with a fine label, or some if they are too many.

    Args:
        graph: the label graph.
        order: for each photo a number that looks random; those with the smallest are taken.
        fine: the true fine labels, `MISSING` where not known.
    """
    links = len(graph) + sum(len(graph.edges(kind)[0]) for kind in graph.kinds)
    count = min(MAX_PHOTOS, max(1, MAX_NUMBERS // links))
    labelled = np.flatnonzero(fine != MISSING)
    return labelled[np.argsort(order[labelled], kind="stable")[:count]]


class QuestionCollector:
    """Takes in posteriors batch by batch, asks about their photos, and gives the metrics.

    Args:
        graph: the label graph.
        risk: how often a settled answer may be wrong.
        count: how many questions are asked about a photo at most.
        photos: the numbers of the photos to ask about; None for all with a fine label.
    """

    def __init__(
        self, graph: LabelGraph, risk: float, count: int, photos: Int[Indices, " photo"] | None = None
    ) -> None:
        self.graph, self.risk, self.count, self._photos = graph, risk, count, photos
        self._settled: list[NDArray[np.bool_]] = [np.zeros((0, count + 1), dtype=bool)]
        self._right = list(self._settled)
        self._columns = graph_tensors(graph).columns
        self._first = np.zeros(len(graph.kinds) + len(graph.numbers), dtype=np.int64)

    def add(self, posterior: Posterior, fine: Int[Indices, " batch"], numbers: Int[Indices, " batch"]) -> None:
        """Ask about the photos of a batch.

        Args:
            posterior: one sample per photo, without evidence.
            fine: the true fine label of each, `MISSING` where it is not known.
            numbers: the number of each photo.
        """
        chosen = fine != MISSING
        if self._photos is not None:
            chosen &= np.isin(numbers, self._photos)
        rows = np.flatnonzero(chosen)
        if len(rows):
            settled, right = self._ask(posterior.some(rows.tolist()), fine[rows])
            self._settled.append(settled)
            self._right.append(right)

    def _ask(self, posterior: Posterior, fine: Indices) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """For each photo and number of questions, whether it is settled, and whether its best label is right."""
        photos, kinds, asks = len(fine), len(self.graph.kinds), len(self._first)
        settled = np.zeros((photos, self.count + 1), dtype=bool)
        right = np.zeros_like(settled)
        asked = torch.zeros(photos, asks, dtype=torch.bool)
        evidence = torch.zeros(photos, len(self.graph) + posterior.tensors.coarse_count, dtype=torch.float64)
        known = torch.tensor(Known(), dtype=torch.float64).repeat(photos, len(self.graph.numbers), 1)
        left = np.arange(photos)
        for step in range(self.count + 1):
            now = posterior.some(left.tolist(), evidence[left])
            if self.graph.numbers:
                now = now.with_evidence(None, known[left].to(now.fine_scores.device))
            log_probs, best = now.log_probs().max(dim=1)
            sure = (log_probs.double().exp() >= 1.0 - self.risk - rounding_of(log_probs.dtype)).cpu().numpy()
            settled[left[sure], step:] = True
            right[left, step:] = (best.cpu().numpy() == fine[left])[:, None]
            left = left[~sure]
            if step == self.count or not len(left) or not asks:
                break
            effects = now.some(np.flatnonzero(~sure).tolist()).expected_effects(self.risk)
            best_gain, place = effects.gain.cpu().masked_fill(asked[left], -1.0).max(dim=1)
            worth = (best_gain > NO_GAIN).numpy()
            above = effects.above.cpu()[torch.from_numpy(worth)]
            left, place = left[worth], place[torch.from_numpy(worth)]
            if step == 0:
                self._first += np.bincount(place.numpy(), minlength=asks)
            for row, (photo, chosen) in enumerate(zip(left.tolist(), place.tolist(), strict=True)):
                if chosen < kinds:
                    self._tell(evidence[photo], int(fine[photo]), chosen)
                    asked[photo, chosen] = True
                else:
                    number = chosen - kinds
                    answered = self._tell_limit(
                        known[photo, number], int(fine[photo]), number, float(above[row, number])
                    )
                    asked[photo, chosen] = not answered
        return settled, right

    def _tell_limit(self, known: Tensor, fine: int, place: int, above: float) -> bool:
        """Put into the evidence on a number whether that of a class is above a value; False if it is unknown."""
        number = self.graph.number(self.graph.numbers[place])
        value = float(number.values[fine])
        if np.isnan(value):
            return False
        limit = known_values(number, f"{'>' if value > above else '<='} {above!r}", 1)[0]
        known[:] = both_known(known, limit)
        return True

    def _tell(self, evidence: Tensor, fine: int, number: int) -> None:
        """Put what the graph says of a class in one kind into its evidence; nothing if it is unknown."""
        kind = self.graph.kind(self.graph.kinds[number])
        parents = kind.coarse[kind.starts[fine] : kind.starts[fine + 1]]
        if not len(parents):
            return
        columns = self._columns[kind.name]
        kind_evidence = evidence[len(self.graph) + columns.start : len(self.graph) + columns.stop]
        kind_evidence[:] = -torch.inf
        kind_evidence[parents.tolist()] = 0.0

    def metrics(self) -> Asked | None:
        """The metrics of all photos so far; None if there were none."""
        settled, right = np.concatenate(self._settled), np.concatenate(self._right)
        photos = len(settled)
        if not photos:
            return None
        right_of_settled = [
            float(right_now[done].mean()) if done.any() else None
            for done, right_now in zip(settled.T, right.T, strict=True)
        ]
        return Asked(
            risk=self.risk,
            photos=photos,
            settled=tuple(settled.mean(axis=0).tolist()),
            right=tuple(right_of_settled),
            top1=tuple(right.mean(axis=0).tolist()),
            first={
                name: int(times) / photos
                for name, times in zip((*self.graph.kinds, *self.graph.numbers), self._first, strict=True)
            },
        )
