"""What a kind changes: answers to photos that took no part, with it and without it, compared photo by photo.

The photos are those that training was validated on. Without such photos, training photos are taken out of the class
means fold by fold, those that look alike together; the suggestion has then seen them, and the result says so. Only
variances and effects are fitted again for each graph, so all of them share one scaling and one sharpness.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from finegraph.evaluation.intervals import MeanInterval, paired_bootstrap_interval, verdict
from finegraph.evaluation.sure import judge_statements
from finegraph.graph import LabelGraph
from finegraph.inference import Posterior
from finegraph.model.fitting.alike_folds import TensorFold, alike_folds
from finegraph.model.structure.graph_statistics import head_posterior, held_out_probs, statistics_for, without_photos
from finegraph.workflows.structure.seen_photos import LabelledPhotos, SeenPhotos

FOLDS = 5
MAX_PHOTOS = 4000
"""How many photos are judged at the most."""
_AT_ONCE = 256


@dataclass(frozen=True, kw_only=True)
class GraphAnswers:
    """What a graph answers, photo by photo.

    Attributes:
        log_probs: of the right fine label.
        right: whether the best fine label is right.
        sure: whether there is a sure answer.
        sure_right: whether that is right; False where there is none.
        named: how many fine labels the sure answer leaves open; all of them where there is none.
    """

    log_probs: Float[NDArray[np.float64], " photo"]
    right: Bool[NDArray[np.bool_], " photo"]
    sure: Bool[NDArray[np.bool_], " photo"]
    sure_right: Bool[NDArray[np.bool_], " photo"]
    named: Float[NDArray[np.float64], " photo"]

    def summary(self) -> dict[str, float | None]:
        """The means."""
        stated = int(self.sure.sum())
        return {
            "log_likelihood": float(self.log_probs.mean()),
            "top1": float(self.right.mean()),
            "sure": float(self.sure.mean()),
            "sure_wrong": None if not stated else 1.0 - float(self.sure_right.sum()) / stated,
            "sure_labels": None if not stated else float(self.named[self.sure].mean()),
        }


@dataclass(frozen=True, kw_only=True)
class KindEffect:
    """What having a kind changes against not having it; each with its 95 % interval.

    Attributes:
        log_likelihood: the mean log probability of the right fine label.
        top1: the share of photos whose best fine label is right.
        sure: the share of photos with a sure answer.
        named: how many fine labels a photo is left with after its sure answer; all of them if there is none.
        sure_wrong: the share of sure answers that are wrong, with the kind; None if there are none.
    """

    log_likelihood: MeanInterval
    top1: MeanInterval
    sure: MeanInterval
    named: MeanInterval
    sure_wrong: float | None

    @property
    def words(self) -> str:
        """Whether it helps: by the likelihood of photos that took no part, and by how much sure answers leave open."""
        found, shorter = verdict(self.log_likelihood), verdict(self.named, more_is_better=False) == "better"
        if found == "better":
            return "helps"
        if shorter:
            return "shortens sure answers" + (", makes others less likely" if found == "worse" else "")
        return "harms" if found == "worse" else "adds nothing that shows"

    def to_dict(self) -> dict[str, Any]:
        """The effect as JSON can hold it."""
        return {**asdict(self), "verdict": self.words}


def effect_of(with_kind: GraphAnswers, without: GraphAnswers) -> KindEffect:
    """Compare answers to the same photos."""
    return KindEffect(
        log_likelihood=paired_bootstrap_interval(with_kind.log_probs, without.log_probs),
        top1=paired_bootstrap_interval(with_kind.right, without.right),
        sure=paired_bootstrap_interval(with_kind.sure, without.sure),
        named=paired_bootstrap_interval(with_kind.named, without.named),
        sure_wrong=with_kind.summary()["sure_wrong"],
    )


class PhotoJudge:
    """Answers with one graph or another to the same photos."""

    def __init__(self, seen: SeenPhotos, risk: float = 0.05) -> None:
        """Choose the photos.

        Args:
            seen: what a model has seen.
            risk: how often a sure answer may be wrong.
        """
        self.seen, self.risk = seen, risk
        self.validation = seen.judged is not None and len(seen.judged) > 0
        photos = seen.judged if self.validation else seen.train
        self.folds: list[TensorFold] = []
        if photos is not None:
            photos = _some(photos)
        if photos is not None and not self.validation:
            self.folds = alike_folds(photos.features, photos.targets, FOLDS)
            if not self.folds:  # one photo of each class: none can be held out
                photos = None
        self.photos = photos

    @property
    def words(self) -> str | None:
        """Which photos are judged; None if there are none."""
        if self.photos is None:
            return None
        if self.validation:
            return f"{len(self.photos):,} validation photos"
        return (
            f"{len(self.photos):,} training photos that are held out in turn, though they took part in finding groups"
        )

    def answers(self, graph: LabelGraph) -> GraphAnswers:
        """The answers with a graph of the same fine labels, variances and effects being fitted to it."""
        assert self.photos is not None
        statistics = self.seen.statistics
        if graph != self.seen.graph:
            statistics = statistics_for(graph, self.seen.graph, statistics)
        features, targets, warm = self.photos.features, self.photos.targets, self.seen.temperature
        fitted = [(statistics, torch.arange(len(targets)))] if self.validation else []
        fitted += [(without_photos(statistics, features[held], targets[held]), held) for _, held in self.folds]
        parts, order = [], []
        for own, asked in fitted:
            head = own.solve(graph)
            for rows in torch.split(asked, _AT_ONCE):
                parts.append(self._part(graph, head_posterior(head, features[rows], warm), rows))
                order.append(rows)
        place = np.argsort(torch.cat(order).numpy(), kind="stable")
        return GraphAnswers(**{name: _joined(parts, name)[place] for name in GraphAnswers.__dataclass_fields__})

    def _part(self, graph: LabelGraph, posterior: Posterior, rows: torch.Tensor) -> GraphAnswers:
        assert self.photos is not None
        fine = self.photos.targets[rows]
        log_probs = posterior.log_probs().double()
        stated = posterior.answer(self.risk)
        judged = judge_statements(graph, stated, fine.numpy(), {})
        return GraphAnswers(
            log_probs=log_probs.gather(1, fine[:, None])[:, 0].clamp_min(-50.0).numpy(),
            right=(log_probs.argmax(dim=1) == fine).numpy(),
            sure=np.array([one is not None for one in stated]),
            sure_right=np.asarray(judged.right == 1),
            named=np.array([float(len(graph) if one is None else one.compatible) for one in stated]),
        )


def held_out_confusions(seen: SeenPhotos) -> tuple[Float[Tensor, "row fine"], Int[Tensor, " row"]] | None:
    """How probable each fine label is on training photos that are held out in turn, and their labels.

    None if the photos are gone, or no class has two.
    """
    if seen.train is None:
        return None
    photos = _some(seen.train)
    folds = alike_folds(photos.features, photos.targets, FOLDS)
    if not folds:
        return None
    probs, rows = held_out_probs(
        seen.graph, seen.statistics, photos.features, photos.targets, folds, temperature=seen.temperature
    )
    return probs, photos.targets[rows]


def _some(photos: LabelledPhotos) -> LabelledPhotos:
    """At most this many of the photos, evenly from all."""
    if len(photos) <= MAX_PHOTOS:
        return photos
    rows = torch.linspace(0, len(photos) - 1, MAX_PHOTOS).long()
    samples = type(photos.samples)([photos.samples[number] for number in rows.tolist()], photos.samples.source)
    return LabelledPhotos(samples=samples, features=photos.features[rows], targets=photos.targets[rows])


def _joined(parts: Iterable[GraphAnswers], name: str) -> NDArray[Any]:
    return np.concatenate([getattr(part, name) for part in parts])
