"""Gathering the metrics of an evaluation batch by batch.

A `Collector` takes posteriors and the truth, and keeps of each photo what the metrics need: 50 bytes and 9 per kind.
Probabilities of all fine labels are never kept, so a graph of 100,000 labels needs no more memory than one of ten.
`compute_result` makes the metrics of what was kept: linear in photos x kinds, and a sort per kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from finegraph.data.dataset import MISSING
from finegraph.errors import InputError, ShapeError, TargetError
from finegraph.evaluation import metrics
from finegraph.evaluation.asking import QuestionCollector
from finegraph.evaluation.details import DetailCollector, PhotoFeatures, ScoreAgain
from finegraph.evaluation.judgements import UNJUDGED, Indices, judge_kind
from finegraph.evaluation.metrics import calibration
from finegraph.evaluation.number_metrics import NumberCollector
from finegraph.evaluation.results import EvaluationResult
from finegraph.evaluation.sample_results import SampleResults
from finegraph.evaluation.sure import judge_statements, sure_metrics
from finegraph.graph import LabelGraph
from finegraph.inference import Posterior
from finegraph.model.answering.predictions import probabilities
from finegraph.model.answering.unknown import unknown_scores


class Collector:
    """Takes in posteriors and the truth, and gives the metrics.

    Args:
        graph: the label graph.
        risk: the share of sure answers that may be wrong.
        temperature: what the scores are divided by first.
        views: how many samples in a row are views of one photo, whose probabilities are averaged.
        scores: which scores of unknown photos to keep, by name.
        name_of: what to call a sample in messages.
        details: takes in what a report shows of single photos.
        questions: asks about photos, to see how many questions settle them.
        score_again: gives the posterior of features once more; details then keep the features of photos if they are
            fewer than the scores.

    Example:
        >>> graph = LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "x"}, "c": {"dish": "y"}})
        >>> collector = Collector(graph)
        >>> collector.add(Posterior(graph, torch.eye(3)), torch.tensor([0, 0, 2]))
        >>> result = collector.result()
        >>> f"{result.top1:.2f} {result.kinds['dish']:.2f} {result.mistake_severity}"
        '0.67 1.00 0.0'
    """

    def __init__(
        self,
        graph: LabelGraph,
        risk: float = 0.05,
        *,
        temperature: float = 1.0,
        views: int = 1,
        scores: Sequence[str] = (),
        name_of: Callable[[int], str] = "sample {}".format,
        details: DetailCollector | None = None,
        questions: QuestionCollector | None = None,
        score_again: ScoreAgain | None = None,
    ) -> None:
        if not 0.0 <= risk < 1.0:
            raise InputError(f"risk must be at least 0 and below 1, got {risk}")
        self.graph, self.risk, self.temperature, self.views = graph, risk, temperature, views
        self._scores, self._name_of, self._details = tuple(scores), name_of, details
        self._questions, self._values, self._score_again = questions, NumberCollector(graph), score_again
        self._parts: list[SampleResults] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(
        self,
        posterior: Posterior,
        fine: Int[Tensor, " batch"],
        kind_targets: Mapping[str, Int[Tensor, " batch"] | Float[Tensor, " batch"]] | None = None,
        sample_numbers: Int[Tensor, " batch"] | None = None,
        features: PhotoFeatures | None = None,
    ) -> None:
        """Take in a batch.

        Args:
            posterior: of the network itself, without temperature; with several views, of the single views.
            fine: the true fine label of each photo, `MISSING` (-100) where it is not known.
            kind_targets: per kind the label seen on each photo, `MISSING` where none was. Where there is one it is the
                truth of its kind; else the parents of the fine label are. Per number the measured value, NaN where
                there is none.
            sample_numbers: the number of each photo in the list of samples; by default they are counted.
            features: what `score_again` takes: (photo, view, feature), and those for coarse labels, if there are any.

        Raises:
            ShapeError: there is not one target per photo.
            TargetError: a target is no label of the graph.
            InputError: the posterior of a photo is not a number.
        """
        count = len(fine)
        if fine.shape != (count,) or len(posterior) != count * self.views:
            raise ShapeError(
                f"expected one fine label for each of {len(posterior) // self.views} photos, got {tuple(fine.shape)}"
            )
        _check_labels("fine", fine, len(self.graph))
        given = kind_targets or {}
        seen = {
            name: self._seen(name, labels, count) for name, labels in given.items() if name not in self.graph.numbers
        }
        measured = {name: given[name].cpu().double().numpy() for name in given if name in self.graph.numbers}
        numbers = torch.arange(self._count, self._count + count) if sample_numbers is None else sample_numbers
        with torch.no_grad():
            self._parts.append(self._part(posterior, fine, seen, measured, numbers.cpu().numpy(), features))
        self._count += count

    def _seen(self, name: str, labels: Tensor, count: int) -> Indices:
        """Photo labels, checked."""
        size = len(self.graph.labels(name))
        if labels.shape != (count,):
            raise ShapeError(
                f"kind_targets[{name!r}]: expected {count} labels, one per photo, got {tuple(labels.shape)}"
            )
        _check_labels(f"kind_targets[{name!r}]", labels, size)
        return labels.cpu().numpy()

    def _part(
        self,
        raw: Posterior,
        fine: Tensor,
        seen: Mapping[str, Indices],
        measured: Mapping[str, NDArray[np.float64]],
        numbers: Indices,
        features: PhotoFeatures | None,
    ) -> SampleResults:
        """The parts of a batch to keep."""
        unknown = {name: unknown_scores(raw, name, views=self.views).cpu().numpy() for name in self._scores}
        posterior = self._combined(raw)
        log_probs = posterior.log_probs()
        self._refuse_nan(log_probs, numbers)
        target = fine.to(log_probs.device)
        best, predicted = log_probs.max(dim=1)
        truth = log_probs.gather(1, target.clamp_min(0).unsqueeze(1)).squeeze(1).double()
        marginals = posterior.marginals()
        columns = posterior.tensors.columns
        kinds = [marginals.coarse[:, columns[name]].max(dim=1) for name in self.graph.kinds]
        truth_numbers, predicted_numbers = fine.cpu().numpy(), predicted.cpu().numpy().astype(np.int32)
        labels = _columns([best_label.indices for best_label in kinds], len(fine)).astype(np.int32)
        right = np.full(labels.shape, UNJUDGED, dtype=np.int8)
        values = {name: posterior.value(name, log_probs) for name in self.graph.numbers}
        value_rows = self._values.add(posterior, log_probs, values, truth_numbers, seen, measured)
        stated = posterior.answer(self.risk, marginals, list(values.values()))
        if self._details is not None:
            again = None if self._score_again is None else self._features_again
            self._details.add(posterior, log_probs, labels, numbers, truth_numbers, seen, features, again)
        if self._questions is not None:
            self._questions.add(posterior, truth_numbers, numbers)
        for place, name in enumerate(self.graph.kinds):
            right[:, place] = judge_kind(self.graph.kind(name), labels[:, place], truth_numbers, seen.get(name))
        return SampleResults(
            sample=numbers,
            fine=truth_numbers,
            predicted=predicted_numbers,
            probability=probabilities(best).float().cpu().numpy(),
            rank=metrics.truth_rank(log_probs, target).cpu().numpy().astype(np.int32),
            log_prob=torch.where(target == MISSING, torch.nan, truth).cpu().numpy(),
            kinds_predicted=labels,
            kinds_probability=_columns([probabilities(best_label.values).float() for best_label in kinds], len(fine)),
            kinds_right=right,
            inconsistent=metrics.inconsistent(self.graph, predicted_numbers, labels),
            statements=judge_statements(self.graph, stated, truth_numbers, seen, measured),
            unknown=unknown,
            values=value_rows,
        )

    def _combined(self, raw: Posterior) -> Posterior:
        """A posterior of the network with temperature and views done."""
        posterior = raw if self.temperature == 1.0 else raw.tempered(self.temperature)
        return posterior if self.views == 1 else posterior.mean_views(self.views)

    def _features_again(self, fine: Tensor, coarse: Tensor | None) -> Posterior:
        """The posterior of features once more, with temperature and views done."""
        assert self._score_again is not None
        return self._combined(self._score_again(fine, coarse))

    def _refuse_nan(self, log_probs: Tensor, numbers: Indices) -> None:
        """Raise if a posterior is no distribution; such a photo has no answer, right or wrong."""
        amiss = log_probs.isnan().any(dim=1).cpu().numpy()
        if amiss.any():
            raise InputError(
                f"{self._name_of(int(numbers[amiss][0]))}: the network gives scores that are not numbers (NaN); "
                "its weights are broken, evaluate another checkpoint"
            )

    def samples(self) -> SampleResults:
        """The results for each photo, in the order of their numbers.

        Raises:
            InputError: there were no photos.
        """
        if not self._count:
            raise InputError("there is nothing to evaluate: expected at least one photo that can be read, got none")
        self._parts = [SampleResults.join(self._parts)]
        return self._parts[0]

    def result(self) -> EvaluationResult:
        """The metrics of all photos so far.

        Raises:
            InputError: there were no photos.
        """
        result = compute_result(self.graph, self.samples(), self.risk, temperature=self.temperature, views=self.views)
        asked = None if self._questions is None else self._questions.metrics()
        return replace(result, questions=asked, numbers=self._values.numbers(), orders=self._values.orders())


def _check_labels(what: str, labels: Tensor, count: int) -> None:
    """Raise if a label is not one of `count`."""
    wrong = labels[((labels < 0) | (labels >= count)) & (labels != MISSING)]
    if len(wrong):
        raise TargetError(f"{what}: got label {int(wrong[0])}, expected 0 to {count - 1}, or {MISSING} for not known")


def _columns(columns: Sequence[Tensor], count: int) -> NDArray[Any]:
    """Tensors side by side, also if there are none."""
    return torch.stack(list(columns), dim=1).cpu().numpy() if columns else np.zeros((count, 0), dtype=np.float32)


def compute_result(
    graph: LabelGraph, samples: SampleResults, risk: float, *, temperature: float = 1.0, views: int = 1
) -> EvaluationResult:
    """The metrics of an evaluation.

    Args:
        graph: the label graph.
        samples: what is known of each photo.
        risk: the risk at which the sure answers were asked for.
        temperature: what the scores were divided by.
        views: how many views of each photo were averaged.
    """
    right = samples.right
    kinds_right = {name: samples.kinds_right[:, place] for place, name in enumerate(graph.kinds)}
    calibrations = {"fine": calibration(samples.probability, right)}
    for place, name in enumerate(graph.kinds):
        calibrations[name] = calibration(samples.kinds_probability[:, place], kinds_right[name])
    classes = metrics.per_class_accuracy(graph, samples.predicted, samples.fine)
    mistakes = metrics.mistakes(graph, samples.predicted, samples.fine)
    return EvaluationResult(
        graph=graph.digest,
        photos=len(samples),
        labelled=int((samples.fine != MISSING).sum()),
        views=views,
        temperature=temperature,
        top1=metrics.top_accuracy(samples.rank, 1),
        top5=metrics.top_accuracy(samples.rank, 5),
        kinds={name: metrics.accuracy(kind_right) for name, kind_right in kinds_right.items()},
        kind_photos={name: int((kind_right != UNJUDGED).sum()) for name, kind_right in kinds_right.items()},
        full_path=metrics.full_path_accuracy(right, samples.kinds_right),
        inconsistency=float(samples.inconsistent.mean()) if len(samples) else None,
        mistake_severity=mistakes.differing,
        mistakes=mistakes,
        mean_per_class=float(np.mean([share for share, _ in classes.values()])) if classes else None,
        per_class={label: share for label, (share, _) in classes.items()},
        class_photos={label: count for label, (_, count) in classes.items()},
        nll=metrics.negative_log_likelihood(samples.log_prob),
        calibration=calibrations,
        sure=sure_metrics(graph, samples.statements, risk),
    )
