"""From the results of single photos to the metrics of an evaluation. Linear in photos x kinds, and a sort per kind."""

from __future__ import annotations

import numpy as np

from finegraph.data.dataset import MISSING
from finegraph.evaluation import metrics
from finegraph.evaluation.calibration_error import calibration
from finegraph.evaluation.judgements import UNJUDGED
from finegraph.evaluation.results import EvaluationResult
from finegraph.evaluation.sample_results import SampleResults
from finegraph.evaluation.sure import sure_metrics
from finegraph.graph import LabelGraph


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
        kinds={name: metrics.accuracy(own) for name, own in kinds_right.items()},
        kind_photos={name: int((own != UNJUDGED).sum()) for name, own in kinds_right.items()},
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
