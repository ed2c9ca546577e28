"""What the label graph buys: a bipartite against a softmax head on real photos, over many draws of few photos.

    python benchmarks/accuracy.py --data grocery:FOLDER                      some ten minutes on two cores
    python benchmarks/accuracy.py --data grocery:FOLDER --on val             while choosing defaults
    python benchmarks/accuracy.py --data cub:FOLDER --photos 1 2 5 10
    python benchmarks/accuracy.py --data grocery:FOLDER --head auto          what `train` fits by default, instead
    python benchmarks/accuracy.py --data grocery:FOLDER --head auto --train-views 3      with three views of each photo

Both heads see the same features of the same draws and choose among equally many settings on the same validation photos
(`finegraph.model.fitting.selection.default_grid`); `auto` and the closed form do not look at them. Draws
are paired: each row gives the mean difference with a 95 % interval (Student's t over the draws). Draws share their test
photos, so the interval covers the chance of the draw, not that of the test set; for all photos, of which there is one
draw, the interval is a bootstrap over test photos instead.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from options import parser_of
from rich.console import Console
from rich.progress import track
from rich.table import Table

from finegraph.data.dataset import targets_of
from finegraph.data.samples import Samples
from finegraph.data.sources import read_samples, source_graph
from finegraph.data.splits import choose_splits, draw_per_label
from finegraph.evaluation.intervals import MeanInterval, paired_bootstrap_interval, paired_interval
from finegraph.evaluation.judgements import judge_kind
from finegraph.evaluation.metrics import calibration
from finegraph.graph import LabelGraph
from finegraph.inference import Posterior
from finegraph.model.features import extract_features
from finegraph.model.fitting import FitSettings, fit_head
from finegraph.model.fitting.feature_scales import FeatureScales
from finegraph.model.fitting.prototypes import fit_prototypes
from finegraph.model.fitting.selection import default_grid, grid_settings, search
from finegraph.model.fitting.solver_choice import choose_solver
from finegraph.nn import NetworkDesign, build_network
from finegraph.training.settings import TrainSettings
from finegraph.workflows.training.training_data import make_views
from finegraph.workflows.training.tune_head import training_features

METRICS = ("top1", "top5", "kinds", "nll", "ece")


@dataclass(frozen=True)
class Part:
    """Photos with their features and fine labels; `views` where features are the mean of several."""

    features: torch.Tensor
    fine: torch.Tensor
    views: torch.Tensor | None = None

    def at(self, places: list[int]) -> Part:
        """Some of them."""
        return Part(self.features[places], self.fine[places], None if self.views is None else self.views[places])

    def scaled(self, scale: float) -> Part:
        """The same with features divided by a number."""
        return Part(self.features / scale, self.fine, None if self.views is None else self.views / scale)


def main() -> None:
    """Measure and print."""
    options = _options()
    torch.set_num_threads(options.threads)
    out = Console(width=max(Console().width, 110))
    samples = read_samples(options.data)
    graph = source_graph(options.data) if options.graph is None else LabelGraph.read(options.graph)
    network = build_network(graph, NetworkDesign(network=options.network), weights="default").eval()
    settings = TrainSettings(data=options.data, size=options.size, train_views=options.train_views, on_bad_file="skip")
    views = make_views(settings, network)
    train, val = choose_splits(samples)
    if val is None:
        sys.exit("the source has no split `val` to choose settings on")

    def part(photos: Samples) -> Part:
        found = extract_features(network, photos, views, cache=options.cache, on_bad_file="skip")
        return Part(found.fine, targets_of(found.samples, graph)[0])

    train_found = training_features(
        network, train, views, settings, options.cache, lambda stage: lambda done, total: None
    )
    train_part = Part(train_found.fine, targets_of(train_found.samples, graph)[0], train_found.views)
    val_part = part(val)
    test_part = val_part if options.on == "val" else part(samples.split("test"))
    scale = FeatureScales.of(train_found.fine).fine
    train_part, val_part, test_part = (one.scaled(scale) for one in (train_part, val_part, test_part))
    place_of = {sample: place for place, sample in enumerate(train_found.samples)}
    results = []
    for count in options.photos:
        draws = options.draws if count else 1
        for draw in track(range(draws), f"{count or 'all'} photos per class", console=out, transient=True):
            drawn = draw_per_label(train_found.samples, count, draw) if count else train_found.samples
            chosen = train_part.at([place_of[sample] for sample in drawn])
            for head in ("softmax", options.head):
                results.append({"photos": count, "draw": draw, **measure(head, graph, chosen, val_part, test_part)})
    if options.json is not None:
        rows = [{name: value for name, value in row.items() if name != "right"} for row in results]
        options.json.write_text(json.dumps(rows, indent=1))
    out.print(_table(options, results, graph, len(test_part.fine)))


Answers = Callable[[torch.Tensor], Posterior]


def measure(head: str, graph: LabelGraph, train: Part, val: Part, test: Part) -> dict[str, object]:
    """Fit a head and measure it on the test photos."""
    if head in ("auto", "prototypes"):
        fitted, chosen = _without_validation(head, graph, train)
    else:
        fitted, chosen = _by_descent(head, graph, train, val)
    with torch.inference_mode():
        posterior = fitted(test.features)
        log_probs = posterior.log_probs()
        right = log_probs.argmax(dim=1) == test.fine
        five = (log_probs.topk(min(5, len(graph)), dim=1).indices == test.fine[:, None]).any(dim=1)
        kinds = []
        for kind in graph.kinds:
            answer = posterior.kind_log_probs(kind, log_probs).argmax(dim=1).numpy()
            judged = judge_kind(graph.kind(kind), answer, test.fine.numpy())
            kinds.append(float(judged[judged >= 0].mean()))
    nll = -log_probs.gather(1, test.fine[:, None])
    calibrated = calibration(log_probs.max(dim=1).values.exp().numpy(), right.numpy().astype(np.int8))
    return {
        "head": head,
        **chosen,
        "top1": 100 * float(right.float().mean()),
        "top5": 100 * float(five.float().mean()),
        "kinds": 100 * float(np.mean(kinds)) if kinds else math.nan,
        "nll": float(nll.mean()),
        "ece": 100 * float(calibrated.error or 0.0),
        "right": right.numpy(),
    }


def _by_descent(head: str, graph: LabelGraph, train: Part, val: Part) -> tuple[Answers, dict[str, object]]:
    """A head fitted by descent with the strengths that suit the validation photos best, and these."""
    tried = grid_settings(FitSettings(head=head), default_grid(head, graph))
    both = torch.cat([train.features, val.features])
    count = len(train.fine)
    folds = [(np.arange(count), np.arange(count, len(both)))]
    found = search(both, torch.cat([train.fine, val.fine]), graph, tried, folds)
    best = found.settings[found.best]
    chosen = {"l2": best.l2, "coarse_ratio": best.coarse_ratio, "kind_weight": best.kind_weight}
    return fit_head(train.features, train.fine, graph, best).head, {"tried": len(tried), **chosen}


def _without_validation(head: str, graph: LabelGraph, train: Part) -> tuple[Answers, dict[str, object]]:
    """A head fitted without validation photos, and what was chosen."""
    fit = fit_prototypes(train.features, train.fine, graph, views=train.views)
    chosen = {"tried": 0, "covariance": fit.covariance, "shrinkage": fit.shrinkage, "variances": asdict(fit.variances)}
    if head == "auto":
        choice = choose_solver(train.features, train.fine, graph, fit.strengths, FitSettings(), views=train.views)
        chosen |= {"solver": choice.solver, "reason": choice.reason}
        if choice.solver == "descent":
            return fit_head(train.features, train.fine, graph, choice.settings).head, chosen
    return lambda features: fit.head(fit.scaling(features)), chosen


def _table(options: argparse.Namespace, results: list[dict], graph: LabelGraph, tests: int) -> Table:
    """A row per amount of photos, metrics of both heads and their paired difference."""
    kinds = ", ".join(graph.kinds[:4]) + (", ..." if len(graph.kinds) > 4 else "")
    heads = ("softmax", options.head)
    settings = {row["head"]: row["tried"] for row in results}
    title = f"{options.data}: {tests:,} {options.on} photos, kinds {kinds}; settings tried: {settings}"
    title += f"; views of each training photo: {options.train_views}"
    table = Table(title=title)
    for heading in ("photos per class", "draws", "metric", *heads, "difference", "95 % interval"):
        table.add_column(heading, justify="left" if heading == "metric" else "right")
    for count in options.photos:
        rows = {head: [row for row in results if row["photos"] == count and row["head"] == head] for head in heads}
        for metric in METRICS:
            soft, own = (np.array([row[metric] for row in rows[head]]) for head in heads)
            found = interval(rows[options.head], rows["softmax"], metric)
            digits = 3 if metric == "nll" else 2
            table.add_row(
                str(count or "all") if metric == "top1" else "",
                str(len(soft)) if metric == "top1" else "",
                {
                    "top1": "top-1 %",
                    "top5": "top-5 %",
                    "kinds": "kinds, mean %",
                    "nll": "nll",
                    "ece": "calibration error %",
                }[metric],
                f"{soft.mean():.{digits}f}",
                f"{own.mean():.{digits}f}",
                f"{(own - soft).mean():+.{digits}f}",
                "" if found is None else f"{found.low:+.{digits}f} to {found.high:+.{digits}f}",
            )
        table.add_section()
    return table


def interval(rows: list[dict], others: list[dict], metric: str) -> MeanInterval | None:
    """A 95 % interval of the mean difference of a metric: over draws, or over photos where there is one draw.

    Args:
        rows: what each draw gave with one head.
        others: the same draws with the other head.
        metric: which metric; of one draw, only top-1 is known photo by photo.
    """
    if len(rows) > 1:
        return paired_interval([row[metric] for row in rows], [row[metric] for row in others])
    if metric != "top1":
        return None
    return paired_bootstrap_interval(100.0 * rows[0]["right"], 100.0 * others[0]["right"])


def _options() -> argparse.Namespace:
    parser = parser_of(__doc__, draws=10)
    parser.add_argument("--data", required=True, help="the photos, as for `finegraph train`")
    parser.add_argument("--graph", type=Path, help="a graph file; by default what the source implies")
    parser.add_argument("--network", default="efficientnet_lite0")
    parser.add_argument("--size", type=int)
    parser.add_argument(
        "--head", choices=("bipartite", "prototypes", "auto"), default="bipartite", help="what softmax is beside"
    )
    parser.add_argument("--photos", type=int, nargs="+", default=[1, 2, 5, 0], help="photos per class; 0 for all")
    parser.add_argument("--on", choices=("test", "val"), default="test")
    parser.add_argument("--train-views", type=int, default=1, help="views of each training photo, for either head")
    return parser.parse_args()


if __name__ == "__main__":
    main()
