"""Which score finds photos of none of the classes best.

    python benchmarks/unknown_scores.py --data grocery:FOLDER        about a minute, once features are stored

About a quarter of the classes is kept from training, and the test photos of these are the foreign ones. "fine" keeps
fine classes back, of which close relatives stay; "coarse" keeps back whole classes of one kind, with all their
children. Features are those of the default network, frozen; heads are fitted with their default strengths. Each row is
the mean over draws of the AUROC and of the share of foreign photos that pass where 95 % of the known ones do.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from finegraph.data.dataset import targets_of
from finegraph.data.sources import read_samples, source_graph
from finegraph.evaluation.unknown_metrics import unknown_metrics
from finegraph.graph import LabelGraph
from finegraph.model.answering.unknown import UNKNOWN_SCORES, unknown_scores
from finegraph.model.features import extract_features
from finegraph.model.fitting import FitSettings, fit_head
from finegraph.nn import build_network
from finegraph.training.settings import TrainSettings
from finegraph.workflows.training.training_data import make_views

KEPT = 0.95
Part = tuple[Tensor, Tensor]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="a source of photos with the splits train and test")
    parser.add_argument("--kind", help="the kind whose classes are kept back whole; by default the first")
    parser.add_argument("--draws", type=int, default=4, help="how often classes are drawn")
    parser.add_argument("--share", type=float, default=0.26, help="the share of classes that is kept back")
    parser.add_argument("--cache", help="where features are stored; by default in the user's cache folder")
    options = parser.parse_args()
    graph = source_graph(options.data)
    train, test = _features(options.data, graph, options.cache)
    found: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for back, known in _draws(graph, options.kind or graph.kinds[0], options.draws, options.share):
        for head in ("bipartite", "softmax"):
            for score, pair in _measure(graph, known, head, train, test).items():
                found.setdefault((back, head, score), []).append(pair)
    table = Table("kept back", "head", "score", "AUROC", "pass at 95 % kept")
    for names, pairs in found.items():
        table.add_row(*names, *(f"{mean:.1%}" for mean in np.mean(pairs, axis=0)))
    Console().print(table)


def _features(data: str, graph: LabelGraph, cache: str | None) -> tuple[Part, Part]:
    """Features and fine labels of the training and the test photos."""
    network = build_network(graph, weights="default")
    views = make_views(TrainSettings(data=data), network)
    parts = []
    for split in ("train", "test"):
        samples = read_samples(data).split(split)
        features = extract_features(network, samples, views, cache=cache)
        parts.append((features.fine, targets_of(features.samples, graph)[0]))
    return parts[0], parts[1]


def _draws(graph: LabelGraph, kind: str, draws: int, share: float) -> Iterator[tuple[str, np.ndarray]]:
    """The classes that stay known, draw by draw and for both ways to keep classes back."""
    random = np.random.default_rng(0)
    parents, labels = graph.parents(kind), len(graph.labels(kind))
    for _ in range(draws):
        yield "fine", np.sort(random.permutation(len(graph))[: round(len(graph) * (1 - share))])
        stay = random.permutation(labels)[: round(labels * (1 - share))]
        yield kind, np.flatnonzero(np.isin(parents, stay))


def _measure(
    graph: LabelGraph, known: np.ndarray, head: str, train: Part, test: Part
) -> dict[str, tuple[float, float]]:
    """For each score its AUROC, and the share of foreign photos that passes for known."""
    smaller = LabelGraph([graph.fine[fine] for fine in known], [graph.kind(name).rows(known) for name in graph.kinds])
    number = torch.full((len(graph),), -1)
    number[torch.from_numpy(known)] = torch.arange(len(known))
    features, fine = train
    seen = number[fine] >= 0
    fitted = fit_head(features[seen], number[fine[seen]], smaller, FitSettings(head=head)).head.float()
    with torch.no_grad():
        posterior = fitted(test[0])
    foreign = (number[test[1]] < 0).numpy()
    scores = {name: unknown_scores(posterior, name).numpy() for name in UNKNOWN_SCORES}
    inside, outside = ({name: own[rows] for name, own in scores.items()} for rows in (~foreign, foreign))
    metrics = {name: unknown_metrics(None, name, KEPT, inside, outside) for name in scores}
    return {name: (one.auroc or 0.0, one.fpr_at_kept or 0.0) for name, one in metrics.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
