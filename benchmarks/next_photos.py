"""Does choosing what to label next beat chance? `python benchmarks/next_photos.py`, on the drawn menu.

Two photos of two thirds of the fine labels are labelled; of the others the graph alone is known. From unlabelled
photos, many of some labels and few of others, photos are chosen by `next_photos` or at random, taught with their true
labels, and the model is judged on other photos. Random choices are drawn several times.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace

import numpy as np
import torch

from finegraph.cli.process import prepare_process
from finegraph.data.menu import Menu
from finegraph.data.transforms import ViewSettings
from finegraph.graph import LabelGraph
from finegraph.model import PhotoClassifier
from finegraph.model.features.photos import photo_inputs
from finegraph.model.fitting.prototypes import fit_prototypes
from finegraph.model.teaching.class_statistics import ClassStatistics
from finegraph.model.teaching.next_photos import next_photos
from finegraph.nn.network import build_network

LABELLED, POOL, TEST = 2, 4, 2


def features_of(menu: Menu, photos_per_label: int, size: int) -> tuple[LabelGraph, torch.Tensor]:
    """The labels that have enough photos, and the features of some of each: (label, photo, feature)."""
    graph = menu.graph()
    enough = Counter(photo.label for photo in menu.photos)
    kept = np.array([number for number, label in enumerate(graph.fine) if enough[label] >= photos_per_label])
    graph = LabelGraph([graph.fine[one] for one in kept], [graph.kind(name).rows(kept) for name in graph.kinds])
    classifier = PhotoClassifier(
        build_network(graph, weights="default").eval(), ViewSettings(size=size, resize=size + size // 8)
    )
    by_label: dict[str, list[object]] = {}
    for photo in menu.photos:
        by_label.setdefault(photo.label, []).append(photo)
    extractor = classifier.pipeline(engine="auto").extractor
    rows = []
    for label in graph.fine:
        pictures = [menu.draw(photo) for photo in by_label[label][:photos_per_label]]  # type: ignore[arg-type]
        for batch in extractor.batches(photo_inputs(pictures, None), len(pictures)):
            rows.append(batch.fine[:, 0].float().cpu())
    return graph, torch.stack(rows)


def judge(
    statistics: ClassStatistics, graph: LabelGraph, scaled: torch.Tensor, targets: torch.Tensor
) -> tuple[float, float]:
    """Top-1 in percent and the mean log probability of the right label."""
    with torch.no_grad():
        log_probs = statistics.solve(graph)(scaled.float()).log_probs()
    right = log_probs.gather(1, targets[:, None])[:, 0]
    return 100 * float((log_probs.argmax(dim=1) == targets).double().mean()), float(right.mean())


def taught(statistics: ClassStatistics, scaled: torch.Tensor, targets: torch.Tensor) -> ClassStatistics:
    """The statistics with more photos."""
    counts, sums = statistics.counts.clone(), statistics.sums.clone()
    counts.index_add_(0, targets, torch.ones(len(targets), dtype=torch.float64))
    sums.index_add_(0, targets, scaled.double())
    return replace(statistics, counts=counts, sums=sums)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--menus", type=int, default=2, help="How many menus, each with a seed of its own.")
    parser.add_argument("--draws", type=int, default=20, help="How many random choices per menu.")
    parser.add_argument("--counts", type=int, nargs="+", default=[10, 20, 40], help="How many photos are labelled.")
    parser.add_argument("--size", type=int, default=128, help="Width and height of what the network sees.")
    options = parser.parse_args()
    prepare_process()
    torch.set_num_threads(1)
    gains: dict[int, list[tuple[float, float, float, float, float]]] = {count: [] for count in options.counts}
    for seed in range(options.menus):
        menu = Menu("small", seed)
        graph, features = features_of(menu, LABELLED + POOL + TEST, options.size)
        labels = torch.arange(len(graph))
        random = np.random.default_rng(seed)
        known = labels[random.permutation(len(graph))[: 2 * len(graph) // 3]].sort().values
        fit = fit_prototypes(features[known, :LABELLED].flatten(0, 1), known.repeat_interleave(LABELLED), graph)
        start = ClassStatistics.of_fit(fit, features[known, :LABELLED].flatten(0, 1), known.repeat_interleave(LABELLED))
        sizes = random.integers(1, POOL + 1, len(graph))  # many of some labels, few of others
        pool = torch.cat([features[i, LABELLED : LABELLED + n] for i, n in enumerate(sizes)])
        truth = torch.cat([torch.full((int(n),), i) for i, n in enumerate(sizes)])
        test = fit.scaling(features[:, -TEST:].flatten(0, 1))
        judged = labels.repeat_interleave(TEST)
        scaled = fit.scaling(pool)
        with torch.no_grad():
            probs = start.solve(graph)(scaled.float()).log_probs().exp()
        none = judge(start, graph, test, judged)
        for count in options.counts:
            chosen = torch.tensor([one.number for one in next_photos(graph, start, scaled, probs, count)])
            ours = judge(taught(start, scaled[chosen], truth[chosen]), graph, test, judged)
            for _ in range(options.draws):
                rows = torch.from_numpy(random.permutation(len(pool))[:count])
                by_chance = judge(taught(start, scaled[rows], truth[rows]), graph, test, judged)
                gains[count].append((none[0], ours[0], by_chance[0], ours[1], by_chance[1]))
    print(
        "| photos labelled | top-1 before | chosen | at random (mean, best draw) | log likelihood, chosen | at random |"
    )
    print("|---|---|---|---|---|---|")
    for count, rows in gains.items():
        table = np.array(rows)
        before, ours, chance, ours_log, chance_log = table.mean(axis=0)
        best = table[:, 2].reshape(options.menus, -1).max(axis=1).mean()
        print(f"| {count} | {before:.1f} | {ours:.1f} | {chance:.1f}, {best:.1f} | {ours_log:.3f} | {chance_log:.3f} |")


if __name__ == "__main__":
    main()
