"""Several runs on the same photos: which photos all of them answered, and how much they differ.

Differences are paired, photo by photo, so that hard photos cancel; their intervals are a bootstrap over photos with a
fixed seed. Cost: linear in the photos, and the bootstrap of each metric.

Runs whose graphs list the same fine labels in another order are brought into one order first (`in_order_of`): a
baseline that was trained without a graph lists its labels by name, the other run as its graph file does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from finegraph.data.dataset import MISSING
from finegraph.errors import InputError
from finegraph.evaluation.intervals import (
    MeanInterval,
    bootstrap_interval,
    paired_bootstrap_interval,
    share_interval,
    verdict,
)
from finegraph.graph import LabelGraph
from finegraph.reports.run_results import RunResults

PER_PHOTO = frozenset(
    (
        *("sample", "fine", "predicted", "probability", "rank", "log_prob", "inconsistent"),
        *("top_labels", "top_probabilities"),
        *("kinds_predicted", "kinds_probability", "kinds_right", "kinds_true"),
        *("sure_level", "sure_label", "sure_probability", "sure_right", "sure_low", "sure_high"),
    )
)
"""The arrays with a row per photo."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric of all runs.

    Attributes:
        name: what it is.
        values: its mean and interval in each run; None if a run has none.
        differences: of each run from the baseline, with interval; None for the baseline itself.
        verdicts: whether each difference is better, worse or none.
        percent: whether it is a share.
        more_is_better: whether larger is better.
        infinite: how many photos of each run have an infinite value; such a run has no mean.
    """

    name: str
    values: tuple[MeanInterval | None, ...]
    differences: tuple[MeanInterval | None, ...]
    verdicts: tuple[str | None, ...]
    percent: bool = True
    more_is_better: bool = True
    infinite: tuple[int, ...] = ()


def on_common_photos(runs: Sequence[RunResults]) -> list[RunResults]:
    """The runs with the photos alone that all of them answered, in the same order; one run alone stays as it is.

    A photo that is listed several times, with a box for each object, counts once for each.

    Raises:
        InputError: they have not the same fine labels, or no photo in common, or other true labels.
    """
    first = runs[0]
    if len(runs) == 1:
        return [first]
    for run in runs[1:]:
        if set(run.graph.fine) != set(first.graph.fine):
            raise InputError(
                f"expected runs with the same fine labels, but {run.name!r} has {len(run.graph):,} and {first.name!r} "
                f"{len(first.graph):,} of them, or other ones; report on them one by one"
            )
    main = widest_graph(runs)
    runs = [in_order_of(run, runs[main].graph.fine) for run in runs]
    places = [{photo: place for place, photo in enumerate(photo_keys(run))} for run in runs]
    common = [photo for photo in places[0] if all(photo in place for place in places[1:])]
    if not common:
        raise InputError("the runs were evaluated on different photos; evaluate them on the same ones to compare them")
    chosen = [_chosen(run, [place[photo] for photo in common]) for run, place in zip(runs, places, strict=True)]
    for run in chosen[1:]:
        if (run.arrays["fine"] != chosen[0].arrays["fine"]).any():
            raise InputError(
                f"the photos of {run.name!r} and {first.name!r} have other true labels; evaluate both again"
            )
    return chosen


def photo_keys(run: RunResults) -> list[tuple[str, int]]:
    """The path of each photo that was answered, and how many photos of that path are listed before it."""
    listed: list[tuple[str, int]] = []
    before = Counter[str]()
    for path in run.about["photos"]:
        listed.append((path, before[path]))
        before[path] += 1
    return [listed[number] for number in run.arrays["sample"].tolist()]


def _chosen(run: RunResults, rows: list[int]) -> RunResults:
    arrays = {name: array[rows] if name in PER_PHOTO else array for name, array in run.arrays.items()}
    return replace(run, arrays=arrays)


def widest_graph(runs: Sequence[RunResults]) -> int:
    """The place of the run whose graph has the most kinds; the first of several."""
    return max(range(len(runs)), key=lambda number: (len(runs[number].graph.kinds), -number))


def baseline_of(runs: Sequence[RunResults]) -> int:
    """The run that the others are compared with: the first with a softmax head, or else the first."""
    heads = [run.head for run in runs]
    return heads.index("softmax") if "softmax" in heads and len(set(heads)) > 1 else 0


def compare_runs(runs: Sequence[RunResults], baseline: int) -> list[Metric]:
    """The metrics of runs that answered the same photos."""
    known = runs[0].arrays["fine"] != MISSING
    in_five = [(run.arrays["rank"] >= 1) & (run.arrays["rank"] <= 5) for run in runs]
    metrics = [
        _metric("top 1", [_shares(run.right, known) for run in runs], baseline),
        _metric("top 5", [_shares(each, known) for each in in_five], baseline),
    ]
    for kind in dict.fromkeys(kind for run in runs for kind in run.graph.kinds):
        metrics.append(_metric(kind, [kind_shares(run, kind) for run in runs], baseline))
    loss = [_losses(run, known) for run in runs]
    metrics.append(_metric("negative log-likelihood", loss, baseline, percent=False, more_is_better=False))
    contrary = [run.arrays["inconsistent"].astype(np.float64) for run in runs]
    metrics.append(_metric("inconsistent answers", contrary, baseline, more_is_better=False))
    return metrics


Values = Float[NDArray[np.float64], " photo"] | None


def _metric(
    name: str, values: Sequence[Values], baseline: int, *, percent: bool = True, more_is_better: bool = True
) -> Metric:
    """One metric, where NaN stands for photos that cannot be judged."""
    means, differences, verdicts = [], [], []
    base = values[baseline]
    infinite = [0 if run_values is None else int(np.isinf(run_values).sum()) for run_values in values]
    for number, run_values in enumerate(values):
        judged = None if run_values is None or infinite[number] else run_values[~np.isnan(run_values)]
        means.append(None if judged is None or not len(judged) else _interval(judged, percent))
        difference = None
        finite = not infinite[number] and not infinite[baseline]
        if run_values is not None and base is not None and number != baseline and finite:
            both = ~(np.isnan(run_values) | np.isnan(base))
            difference = paired_bootstrap_interval(run_values[both], base[both]) if both.any() else None
        differences.append(difference)
        verdicts.append(None if difference is None else verdict(difference, more_is_better=more_is_better))
    return Metric(
        name=name,
        values=tuple(means),
        differences=tuple(differences),
        verdicts=tuple(verdicts),
        percent=percent,
        more_is_better=more_is_better,
        infinite=tuple(infinite),
    )


def _interval(judged: NDArray[np.float64], percent: bool) -> MeanInterval:
    """The interval of a mean; a share that is 0 or 1 has one too, which a bootstrap would not show."""
    if percent and (judged == judged[0]).all() and judged[0] in (0.0, 1.0):
        return share_interval(int(judged.sum()), len(judged))
    return bootstrap_interval(judged)


def _shares(right: NDArray[np.bool_], known: NDArray[np.bool_]) -> Values:
    return np.where(known, right.astype(np.float64), np.nan)


def kind_shares(run: RunResults, kind: str) -> Values:
    """Whether each photo's label of a kind was answered rightly, NaN where that is not known; None without the kind."""
    if kind not in run.graph.kinds:
        return None
    right = run.arrays["kinds_right"][:, run.graph.kinds.index(kind)].astype(np.float64)
    return np.where(right < 0, np.nan, right)


def _losses(run: RunResults, known: NDArray[np.bool_]) -> Values:
    """Minus the log probability of the truth, infinite where the truth was found impossible."""
    return np.where(known, -run.arrays["log_prob"], np.nan)


def in_order_of(run: RunResults, fine: Sequence[str]) -> RunResults:
    """The same run with the same fine labels, in an order.

    Args:
        run: the run.
        fine: all its fine labels, in the order that is wanted.
    """
    if run.graph.fine == tuple(fine):
        return run
    order = np.array([run.graph.fine_index(label) for label in fine])  # where each label was
    place = np.argsort(order)  # where each label is now

    def moved(numbers: NDArray[np.integer]) -> NDArray[np.integer]:
        return np.where(numbers < 0, numbers, place[np.maximum(numbers, 0)]).astype(numbers.dtype)

    arrays = {
        **run.arrays,
        **{name: moved(run.arrays[name]) for name in ("fine", "predicted", "top_labels")},
    }
    is_fine, labels = run.arrays["sure_level"] == 0, run.arrays["sure_label"]
    arrays["sure_label"] = np.where(is_fine, moved(np.where(is_fine, labels, -1)), labels).astype(labels.dtype)
    about = dict(run.about)
    if about.get("training") is not None:
        counts = about["training"]["fine"]
        about["training"] = {**about["training"], "fine": [counts[number] for number in order]}
    kinds = [run.graph.kind(name).rows(order) for name in run.graph.kinds]
    numbers = [run.graph.number(name).rows(order) for name in run.graph.numbers]
    return replace(run, graph=LabelGraph(fine, kinds, numbers), arrays=arrays, about=about)
