"""finegraph beside other libraries for structured labels, on the same features of the same photos.

    python benchmarks/other_libraries.py --data grocery:FOLDER                       5 photos per class, 3 draws
    python benchmarks/other_libraries.py --data grocery:FOLDER --photos 1 5 --json results.json

Every method sees the same features (one view of each photo) and chooses one strength out of six on the same
validation photos, but for finegraph's default, which looks at none. The kinds must form a tree, since the others take
nothing else: each kind has to be a refinement of the next one. The table also shows how often the most probable labels
of the levels, each taken by itself, do not belong together, and the processor seconds of the last fit.

    pip install "finegraph[bench]"       hierarchicalsoftmax and hiclass; what is missing is left out
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from options import parser_of
from rich.console import Console
from rich.table import Table
from torch import Tensor

from finegraph.data.dataset import targets_of
from finegraph.data.samples import Samples
from finegraph.data.sources import read_samples, source_graph
from finegraph.data.splits import choose_splits, draw_per_label
from finegraph.graph import LabelGraph
from finegraph.model.features import extract_features
from finegraph.model.fitting import FitSettings, fit_head
from finegraph.model.fitting.feature_scales import FeatureScales
from finegraph.model.fitting.prototypes import fit_prototypes
from finegraph.nn import NetworkDesign, build_network
from finegraph.training.settings import TrainSettings
from finegraph.workflows.training.training_data import make_views

STRENGTHS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
"""Strengths of the prior on the weights that every method but finegraph's default chooses among."""


@dataclass(frozen=True)
class Part:
    """Features of photos and their fine labels."""

    features: Tensor
    fine: Tensor


@dataclass(frozen=True)
class Answer:
    """What a method answers about photos: a label for each level, fine first, and log probabilities if it has any."""

    levels: list[NDArray[np.intp]]
    log_probs: Tensor | None = None


Fit = Callable[[Part, float], Callable[[Tensor], Answer]]


class Tree:
    """The levels of a label graph that is a tree: fine labels first, then each kind, the finest first."""

    def __init__(self, graph: LabelGraph) -> None:
        self.graph = graph
        self.kinds = sorted(graph.kinds, key=lambda kind: -len(graph.labels(kind)))
        self.parents = [graph.parents(kind) for kind in self.kinds]
        finer = [np.arange(len(graph)), *self.parents]
        for below, above, kind in zip(finer, self.parents, self.kinds, strict=False):
            if len({pair[0] for pair in set(zip(below, above, strict=True))}) < len(
                set(zip(below, above, strict=True))
            ):
                sys.exit(
                    f"{kind}: not a tree; a label below it has two parents, which the other libraries cannot express"
                )

    def levels_of(self, fine: NDArray[np.intp]) -> list[NDArray[np.intp]]:
        """The labels of all levels that follow from fine labels."""
        return [fine, *(parents[fine] for parents in self.parents)]


# ---- the methods ----------------------------------------------------------------------------------------------------


def finegraph_default(tree: Tree) -> Fit:
    """The closed form, which chooses its strengths on training photos alone."""

    def fit(train: Part, strength: float) -> Callable[[Tensor], Answer]:
        fitted = fit_prototypes(train.features, train.fine, tree.graph)
        return lambda features: _of_posterior(tree, fitted.head(fitted.scaling(features)))

    return fit


def finegraph_descent(tree: Tree) -> Fit:
    """The joint loss by descent."""

    def fit(train: Part, strength: float) -> Callable[[Tensor], Answer]:
        head = fit_head(train.features, train.fine, tree.graph, FitSettings(l2=strength)).head
        return lambda features: _of_posterior(tree, head(features))

    return fit


def _of_posterior(tree: Tree, posterior: object) -> Answer:
    log_probs = posterior.log_probs()  # type: ignore[attr-defined]
    kinds = [posterior.kind_log_probs(kind, log_probs).argmax(1).numpy() for kind in tree.kinds]  # type: ignore[attr-defined]
    return Answer([log_probs.argmax(1).numpy(), *kinds], log_probs)


def softmax(tree: Tree) -> Fit:
    """One softmax over the fine labels; coarse labels are the parents of its answer."""

    def fit(train: Part, strength: float) -> Callable[[Tensor], Answer]:
        head = fit_head(train.features, train.fine, tree.graph, FitSettings(head="softmax", l2=strength)).head

        def answer(features: Tensor) -> Answer:
            log_probs = head(features).log_probs()
            return Answer(tree.levels_of(log_probs.argmax(1).numpy()), log_probs)

        return answer

    return fit


def independent_heads(tree: Tree) -> Fit:
    """A softmax for each level, as multi-task networks have; scikit-learn's."""
    from sklearn.linear_model import LogisticRegression

    def fit(train: Part, strength: float) -> Callable[[Tensor], Answer]:
        heads = [
            LogisticRegression(C=1 / (strength * len(train.fine)), max_iter=300).fit(train.features.numpy(), labels)
            for labels in tree.levels_of(train.fine.numpy())
        ]

        def answer(features: Tensor) -> Answer:
            pixels = features.numpy()
            log_probs = torch.full((len(features), len(tree.graph)), -torch.inf, dtype=torch.float64)
            log_probs[:, heads[0].classes_] = torch.from_numpy(heads[0].predict_log_proba(pixels)).double()
            return Answer([head.predict(pixels) for head in heads], log_probs)

        return answer

    return fit


def hierarchical_softmax(tree: Tree) -> Fit:
    """The package hierarchicalsoftmax: a softmax among the children of each node, one linear layer for all."""
    from hierarchicalsoftmax import HierarchicalSoftmaxLoss, SoftmaxNode
    from hierarchicalsoftmax.inference import leaf_probabilities

    root = SoftmaxNode("root")
    nodes: dict[tuple[int, int], SoftmaxNode] = {}
    for fine in range(len(tree.graph)):
        parent = root
        for level, labels in reversed(list(enumerate(tree.levels_of(np.array([fine]))))):
            place = (level, int(labels[0]))
            nodes.setdefault(
                place, SoftmaxNode(f"{level}:{labels[0]}", parent=parent) if place not in nodes else parent
            )
            parent = nodes[place]
    root.set_indexes()
    leaves = [nodes[0, fine] for fine in range(len(tree.graph))]
    ids = torch.tensor([root.node_to_id[leaf] for leaf in leaves])
    order = [list(root.leaves).index(leaf) for leaf in leaves]

    def fit(train: Part, strength: float) -> Callable[[Tensor], Answer]:
        torch.manual_seed(0)
        layer = torch.nn.Linear(train.features.shape[1], root.layer_size)
        loss_of = HierarchicalSoftmaxLoss(root=root)
        optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=150, line_search_fn="strong_wolfe")

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = loss_of(layer(train.features), ids[train.fine]) + strength / 2 * layer.weight.square().sum()
            loss.backward()
            return loss

        optimizer.step(closure)

        def answer(features: Tensor) -> Answer:
            with torch.no_grad():
                found = leaf_probabilities(layer(features), root)[:, order].double()
            probabilities = found / found.sum(1, keepdim=True)
            kinds = []
            for kind, parents in zip(tree.kinds, tree.parents, strict=True):
                sums = torch.zeros(len(features), len(tree.graph.labels(kind)), dtype=torch.float64)
                kinds.append(
                    sums.index_add_(1, torch.from_numpy(parents.astype(np.int64)), probabilities).argmax(1).numpy()
                )
            return Answer([probabilities.argmax(1).numpy(), *kinds], probabilities.log())

        return answer

    return fit


def hiclass(tree: Tree) -> Fit:
    """The package hiclass: a classifier at each parent, asked from the top down."""
    from hiclass import LocalClassifierPerParentNode
    from sklearn.linear_model import LogisticRegression

    def fit(train: Part, strength: float) -> Callable[[Tensor], Answer]:
        local = LogisticRegression(C=1 / (strength * len(train.fine)), max_iter=300)
        levels = tree.levels_of(train.fine.numpy())
        named = np.array([[f"{level}:{label}" for label in labels] for level, labels in enumerate(levels)]).T[:, ::-1]
        model = LocalClassifierPerParentNode(local_classifier=local).fit(train.features.numpy(), named)

        def answer(features: Tensor) -> Answer:
            found = model.predict(features.numpy())[:, ::-1]
            return Answer([np.array([int(name.split(":")[1]) for name in column]) for column in found.T])

        return answer

    return fit


METHODS: dict[str, Callable[[Tree], Fit]] = {
    "softmax": softmax,
    "independent heads (scikit-learn)": independent_heads,
    "hierarchicalsoftmax": hierarchical_softmax,
    "HiClass, classifier per parent": hiclass,
    "finegraph, descent": finegraph_descent,
    "finegraph, default (no validation photos)": finegraph_default,
}


# ---- measuring ------------------------------------------------------------------------------------------------------


def measure(tree: Tree, fit: Fit, train: Part, val: Part, test: Part, tune: bool) -> dict[str, float]:
    """Choose a strength on the validation photos, fit, and measure on the test photos."""
    strengths = STRENGTHS if tune else STRENGTHS[:1]
    best = (
        max(strengths, key=lambda strength: _right(fit(train, strength)(val.features).levels[0], val))
        if tune
        else strengths[0]
    )
    began = time.process_time()
    fitted = fit(train, best)
    seconds = time.process_time() - began
    with torch.no_grad():
        answer = fitted(test.features)
    truth = tree.levels_of(test.fine.numpy())
    implied = tree.levels_of(answer.levels[0])
    contradicts = np.any([found != follows for found, follows in zip(answer.levels, implied, strict=True)], axis=0)
    row = {"top1": 100 * _right(answer.levels[0], test)}
    for kind, found, right in zip(tree.kinds, answer.levels[1:], truth[1:], strict=True):
        row[kind] = 100 * float((found == right).mean())
    row["contradictions"] = 100 * float(contradicts.mean())
    if answer.log_probs is not None:
        row["nll"] = -float(answer.log_probs.gather(1, test.fine[:, None]).mean())
    return {**row, "seconds": seconds, "strength": best}


def _right(found: NDArray[np.intp], part: Part) -> float:
    return float((found == part.fine.numpy()).mean())


def main() -> None:
    """Measure and print."""
    options = _options()
    torch.set_num_threads(options.threads)
    samples = read_samples(options.data)
    tree = Tree(source_graph(options.data))
    network = build_network(tree.graph, NetworkDesign(), weights="default").eval()
    views = make_views(TrainSettings(data=options.data, on_bad_file="skip"), network)
    train, val = choose_splits(samples)
    if val is None:
        sys.exit("the source has no split `val` to choose strengths on")

    def part(photos: Samples, scale: float = 1.0) -> Part:
        found = extract_features(network, photos, views, cache=options.cache, on_bad_file="skip")
        return Part(found.fine / scale, targets_of(found.samples, tree.graph)[0])

    rows = []
    for photos in options.photos:
        for draw in range(options.draws):
            chosen = part(draw_per_label(train, photos, draw))
            scale = FeatureScales.of(chosen.features).fine
            parts = [Part(one.features / scale, one.fine) for one in (chosen, part(val), part(samples.split("test")))]
            for name, method in METHODS.items():
                try:
                    fit = method(tree)
                except ImportError as error:
                    print(f"{name}: left out, {error}", file=sys.stderr)
                    continue
                row = measure(tree, fit, *parts, tune="default" not in name)
                rows.append({"method": name, "photos": photos, "draw": draw, **row})
    if options.json is not None:
        options.json.write_text(json.dumps(result_file(options, tree.kinds, rows), indent=1) + "\n", encoding="utf-8")
    Console(width=130).print(table_of(rows, tree.kinds))


def result_file(options: argparse.Namespace, kinds: list[str], rows: list[dict]) -> dict[str, object]:
    """All measurements, as docs/result_tables.py reads them."""
    metrics = {"top1": ("top-1", 1), **{kind: (kind, 1) for kind in kinds}, "contradictions": ("levels disagree", 1)}
    last = {"nll": ("nll", 2), "seconds": ("fit, s", 1)}  # of the largest amount only: a table has to fit on a page
    cells = [(photos, metric) for photos in options.photos for metric in metrics]
    cells += [(options.photos[-1], metric) for metric in last]
    metrics |= last
    source = options.data.partition(":")[0]
    amounts = " ".join(map(str, options.photos))
    words = f"--data {source}:FOLDER --photos {amounts} --draws {options.draws}"
    return {
        "command": f"python benchmarks/other_libraries.py {words}",
        "columns": ["method", *(f"{_amount(photos)}: {metrics[metric][0]}" for photos, metric in cells)],
        "decimals": [None, *(metrics[metric][1] for _, metric in cells)],
        "cells": cells,
        "measurements": rows,
    }


def _amount(photos: int) -> str:
    return "1 photo" if photos == 1 else f"{photos} photos"


def table_of(rows: list[dict], kinds: list[str]) -> Table:
    """Means over the draws, a row per method and amount of photos."""
    table = Table(title="test photos, means over the draws")
    for heading in (
        "photos per class",
        "method",
        "top-1 %",
        *(f"{kind} %" for kind in kinds),
        "contradictions %",
        "nll",
        "fit, s",
    ):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for photos in dict.fromkeys(row["photos"] for row in rows):
        for method in dict.fromkeys(row["method"] for row in rows):
            found = [row for row in rows if row["method"] == method and row["photos"] == photos]
            cells = []
            for name, digits in (
                ("top1", 1),
                *((kind, 1) for kind in kinds),
                ("contradictions", 1),
                ("nll", 2),
                ("seconds", 1),
            ):
                values = [row[name] for row in found if name in row]
                cells.append(f"{np.mean(values):.{digits}f}" if values else "")
            table.add_row(str(photos), method, *cells)
        table.add_section()
    return table


def _options() -> argparse.Namespace:
    parser = parser_of(__doc__, draws=3)
    parser.add_argument("--photos", type=int, nargs="+", default=[5], help="photos per class")
    parser.add_argument("--data", required=True, help="photos whose kinds form a tree, as for `finegraph train`")
    return parser.parse_args()


if __name__ == "__main__":
    main()
