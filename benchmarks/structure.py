"""What a label graph learns: hidden cells, wrong cells, groups, sure answers without a graph, and trees.

    python benchmarks/structure.py --data grocery:FOLDER --parts cells wrong sure
    python benchmarks/structure.py --parts cells wrong groups             on the small drawn menu, which is drawn first
    python benchmarks/structure.py --parts groups --seed 6 7 8 9 10 --draws 1     on several menus, one draw of each
    python benchmarks/structure.py --parts tree                           on drawn classes with a known tree; no photos

Draws of photos and of cells are paired: everything that is compared sees the same. Intervals are Student's t over the
draws. Cells are learnt with all clues, and without those of names, which give some labels away.

    cells    30 % of all cells hidden: how many are found, beside the most frequent label and beside what the same head
             says of single photos of known cells; top-1 with the learnt graph and with cells left unknown
    wrong    5 % of all cells wrong: how many of the 20 most doubtful are (there may be fewer than 20)
    groups   without the kind that is asked for: the adjusted Rand index of the groups of each level with its labels, by
             looks alone (no kind known), by cells alone, and by both (all other kinds known)
    sure     without any kind: photos with a sure answer at 5 % risk with groups, and with fine labels alone
    tree     how many classes are with their true siblings, at three distances between parents
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from finegraph.cli.process import prepare_process
from finegraph.data.dataset import targets_of
from finegraph.data.samples import Samples
from finegraph.data.sources import read_samples, source_graph
from finegraph.evaluation.intervals import mean_interval
from finegraph.graph import LabelGraph
from finegraph.graph.kind import Kind
from finegraph.model.features import extract_features
from finegraph.model.fitting.class_means import Variances
from finegraph.model.fitting.prototypes import PrototypeFit, fit_prototypes
from finegraph.model.structure.cell_learning import CLUES, learn_cells
from finegraph.model.structure.group_cells import GroupCells, crossing_candidates
from finegraph.model.structure.label_groups import adjusted_rand, group_labels
from finegraph.model.structure.label_tree import learn_tree
from finegraph.model.structure.suggested_groups import groups_of, with_groups
from finegraph.model.structure.suggested_kinds import kinds_by_names
from finegraph.model.teaching.class_statistics import ClassStatistics
from finegraph.nn import NetworkDesign, build_network
from finegraph.training.settings import TrainSettings
from finegraph.workflows.menu import write_menu
from finegraph.workflows.training.training_data import make_views

WITHOUT_NAMES = ("photos", "related")
Part = tuple[torch.Tensor, torch.Tensor]
Rows = dict[str, list[float]]


def main() -> None:
    """Measure and print."""
    options = _options()
    prepare_process()
    torch.set_num_threads(options.threads)
    rows: Rows = {}
    if set(options.parts) - {"tree"}:
        for seed in options.seed[:1] if options.data else options.seed:
            _photo_parts(rows, options, seed)
    if "tree" in options.parts:
        for draw in range(options.draws):
            _tree(rows, draw)
    _print(options, rows)


def _photo_parts(rows: Rows, options: argparse.Namespace, seed: int) -> None:
    """The parts that look at photos: those that were given, or those of the menu of a seed."""
    graph, train, test = _photos(options, seed)
    for draw in range(options.draws):
        random = np.random.default_rng(draw)
        x, y = _drawn(train, len(graph), options.photos, random)
        if "cells" in options.parts:
            _cells(rows, graph, x, y, test, random)
        if "wrong" in options.parts:
            _wrong(rows, graph, x, y, random)
        if "sure" in options.parts:
            _sure(rows, graph.only([]), x, y, test)
        if "groups" in options.parts:
            for count in (3, 0):
                part = _drawn(train, len(graph), count, np.random.default_rng(draw)) if count else train
                if count or not draw:  # all photos are one draw
                    _groups(rows, graph, *part, options.kind, f"{count or 'all'} photos")


def _add(rows: Rows, name: str, value: float) -> None:
    rows.setdefault(name, []).append(float(value))


# ---- cells -----------------------------------------------------------------------------------------------------------


def hidden(graph: LabelGraph, share: float, random: np.random.Generator) -> tuple[LabelGraph, dict[str, np.ndarray]]:
    """The graph with a share of its cells emptied, and which these are."""
    places = {}
    for name in graph.kinds:
        places[name] = random.random(len(graph)) < share
        graph = _with_parents(graph, name, np.where(places[name], -1, graph.parents(name)))
    return graph, places


def spoilt(graph: LabelGraph, share: float, random: np.random.Generator) -> tuple[LabelGraph, dict[str, np.ndarray]]:
    """The graph with another label in a share of its cells, and which these are."""
    places = {}
    for name in graph.kinds:
        labels = len(graph.labels(name))
        places[name] = (random.random(len(graph)) < share) & (labels > 1)
        other = (graph.parents(name) + random.integers(1, max(labels, 2), len(graph))) % labels
        graph = _with_parents(graph, name, np.where(places[name], other, graph.parents(name)))
    return graph, places


def _with_parents(graph: LabelGraph, name: str, parents: np.ndarray) -> LabelGraph:
    kind = graph.kind(name)
    return graph.with_kind(replace(Kind.from_parents(name, kind.labels, parents), ordered=kind.ordered))


def _cells(
    rows: Rows, graph: LabelGraph, x: torch.Tensor, y: torch.Tensor, test: Part, random: np.random.Generator
) -> None:
    known, places = hidden(graph, 0.3, random)
    fit = fit_prototypes(x, y, known)
    statistics = ClassStatistics.of_fit(fit, x, y)
    fine = test[1].numpy()
    with torch.no_grad():
        posterior = fit.head(fit.scaling(test[0]))
        log_probs = posterior.log_probs()
        said = {name: posterior.log_probs(name).argmax(dim=1).numpy() for name in graph.kinds}
    shown = np.concatenate([(said[name] == graph.parents(name)[fine])[~places[name][fine]] for name in graph.kinds])
    _add(rows, "cells: single photos of known cells right %", 100 * shown.mean())
    frequent = [
        (np.bincount(known.parents(name)[~places[name]]).argmax() == graph.parents(name))[places[name]]
        for name in graph.kinds
    ]
    _add(rows, "cells: hidden cells right, most frequent label %", 100 * np.concatenate(frequent).mean())
    with torch.no_grad():
        own = fit.head(fit.scaling(x))
        seen = torch.zeros(len(graph), len(x), dtype=torch.float64)
        seen[y, torch.arange(len(x))] = 1.0
        means = {name: (seen @ own.log_probs(name).double().exp()).numpy() for name in graph.kinds}
    averaged = [(means[name].argmax(axis=1) == graph.parents(name))[places[name]] for name in graph.kinds]
    _add(rows, "cells: hidden cells right, mean marginals of their photos %", 100 * np.concatenate(averaged).mean())
    for words, clues in (("all clues", CLUES), ("without names", WITHOUT_NAMES), ("without photos", CLUES[1:])):
        learnt = learn_cells(known, statistics.counts, statistics.means, statistics.variances, clues=clues)
        right = [
            (learnt.beliefs[name].argmax(dim=1).numpy() == graph.parents(name))[places[name]] for name in graph.kinds
        ]
        sure = [learnt.beliefs[name].max(dim=1).values.numpy()[places[name]] for name in graph.kinds]
        _add(rows, f"cells: hidden cells right, {words} %", 100 * np.concatenate(right).mean())
        _add(rows, f"cells: how sure of them, {words} %", 100 * np.concatenate(sure).mean())
        if words == "without photos":
            continue
        with torch.no_grad():
            filled = fit_prototypes(x, y, learnt.filled())
            answers = filled.head(filled.scaling(test[0])).log_probs()
        _top1(rows, f"cells: top-1 gained by learnt cells, {words}", answers, log_probs, test[1])


def _top1(rows: Rows, name: str, one: torch.Tensor, other: torch.Tensor, target: torch.Tensor) -> None:
    right = [(log_probs.argmax(dim=1) == target).double().mean() for log_probs in (one, other)]
    _add(rows, f"{name}, points", 100 * float(right[0] - right[1]))
    nll = [-log_probs.gather(1, target[:, None]).mean() for log_probs in (one, other)]
    _add(rows, f"{name}, nll", float(nll[0] - nll[1]))


def _wrong(rows: Rows, graph: LabelGraph, x: torch.Tensor, y: torch.Tensor, random: np.random.Generator) -> None:
    given, places = spoilt(graph, 0.05, random)
    fit = fit_prototypes(x, y, given)
    statistics = ClassStatistics.of_fit(fit, x, y)
    count = sum(int(one.sum()) for one in places.values())
    share = count / sum(int((~given.kind(name).unknown).sum()) for name in given.kinds)
    _add(rows, "wrong: how many cells are wrong", count)
    _add(rows, "wrong: share of cells that are wrong %", 100 * share)
    for words, clues in (("all clues", CLUES), ("without names", WITHOUT_NAMES)):
        learnt = learn_cells(given, statistics.counts, statistics.means, statistics.variances, clues=clues)
        doubtful = [cell for cell in learnt.cells() if cell.table is not None][:20]
        found = sum(bool(places[cell.kind][graph.fine_index(cell.fine)]) for cell in doubtful)
        _add(rows, f"wrong: of the 20 most doubtful, {words}", found)
        _add(rows, f"wrong: estimated share of wrong cells, {words} %", 100 * learnt.error)
        low, high = learnt.error_range
        _add(rows, f"wrong: how often the share is in its range, {words} %", 100 * (low <= share <= high))


# ---- groups ----------------------------------------------------------------------------------------------------------


def _groups(rows: Rows, graph: LabelGraph, x: torch.Tensor, y: torch.Tensor, kind: str, words: str) -> None:
    without = graph.only([name for name in graph.kinds if name != kind])
    by_names = [
        adjusted_rand(one.kinds[0].parents, graph.parents(kind)) for one in kinds_by_names(without) if one.kinds
    ]
    _add(rows, f"groups: best adjusted Rand index with {kind}, from names alone, {words}", max(by_names, default=0.0))
    one_of = [name for name in without.kinds if not without.kind(name).binary]
    asked = (("all other kinds known", without), ("no kind known", graph.only([])))
    for title, own in (*asked, (f"{' and '.join(one_of)} known", graph.only(one_of))):
        fit = fit_prototypes(x, y, own)
        found = groups_of(own, ClassStatistics.of_fit(fit, x, y))
        scores = [adjusted_rand(level.groups, graph.parents(kind)) for level in found]
        _add(rows, f"groups: best adjusted Rand index with {kind}, {title}, {words}", max(scores, default=0.0))
        _add(rows, f"groups: of the first level, {title}, {words}", scores[0] if scores else 0.0)
    seen = np.arange(len(graph))
    cells = GroupCells.of(without, seen, crossing_candidates(without))
    alone = group_labels(torch.zeros(len(graph), 1), torch.ones(len(graph)), share=0.0, cells=cells)
    scores = [adjusted_rand(level.groups, graph.parents(kind)) for level in alone]
    _add(rows, f"groups: best adjusted Rand index with {kind}, cells alone, {words}", max(scores, default=0.0))


def _sure(rows: Rows, graph: LabelGraph, x: torch.Tensor, y: torch.Tensor, test: Part) -> None:
    fit = fit_prototypes(x, y, graph)
    statistics = ClassStatistics.of_fit(fit, x, y)
    grouped = with_groups(graph, groups_of(graph, statistics))
    after = fit_prototypes(x, y, grouped)
    shares = []
    for words, own in (("fine labels alone", fit), ("with groups", after)):
        found = _statements(own, test)
        shares.append(found.share)
        _add(rows, f"sure: photos with a sure answer, {words} %", 100 * found.share)
        _add(rows, f"sure: wrong of these, {words} %", 100 * found.wrong)
        _add(rows, f"sure: mean fine labels that it names, {words}", found.named)
        _add(rows, f"sure: median fine labels that it names, {words}", found.median)
        _add(rows, f"sure: photos with an answer of at most 5 fine labels, {words} %", 100 * found.short)
        _add(rows, f"sure: mean fine labels left over all photos, {words}", found.left)
    _add(rows, "sure: times as many", shares[1] / max(shares[0], 1e-9))
    with torch.no_grad():
        one, other = (own.head(own.scaling(test[0])).log_probs() for own in (after, fit))
    _top1(rows, "sure: top-1 gained by groups", one, other, test[1])


class _Statements(NamedTuple):
    """The share of photos with a sure answer, of these that is wrong, and how many fine labels answers name."""

    share: float
    wrong: float
    named: float
    median: float
    short: float
    left: float


def _statements(fit: PrototypeFit, test: Part) -> _Statements:
    graph = fit.head.graph
    with torch.no_grad():
        answers = fit.head(fit.scaling(test[0])).answer(0.05)
    right = [
        graph.fine_index(one.label) == fine
        if one.kind is None
        else graph.parents(one.kind)[fine] == graph.label_index(one.kind, one.label)
        for one, fine in zip(answers, test[1].tolist(), strict=True)
        if one is not None
    ]
    named = np.array([one.compatible for one in answers if one is not None] or [len(graph)])
    left = np.array([len(graph) if one is None else one.compatible for one in answers])
    wrong = 1.0 - float(np.mean(right)) if right else 0.0
    share = len(right) / len(answers)
    return _Statements(share, wrong, named.mean(), float(np.median(named)), (left <= 5).mean(), left.mean())


def _tree(rows: Rows, draw: int) -> None:
    """120 classes with 4 photos each, 20 parents in 5 families, at three distances between parents."""
    graph = LabelGraph([f"class {number}" for number in range(120)])
    counts = torch.full((120,), 4.0, dtype=torch.float64)
    variances = Variances(own=1.0, kinds={}, noise=1.0)
    for distance in (0.4, 0.7, 1.0):
        random = np.random.default_rng(draw)
        family, parent = random.integers(0, 5, 20), random.integers(0, 20, 120)
        centres = random.normal(0, 1, (5, 64))[family] + random.normal(0, distance, (20, 64))
        means = centres[parent] + random.normal(0, 0.4, (120, 64)) + random.normal(0, 0.5, (120, 64))
        sums = torch.from_numpy(means) * counts[:, None]
        statistics = ClassStatistics(counts=counts, sums=sums, variances=variances, strength=1.0)
        tree = learn_tree(graph, statistics)
        for words, truth in (("parent", parent), ("family", family[parent])):
            shares = [_with_siblings(level, truth) for level in tree.levels]
            _add(
                rows, f"tree: classes with their true {words} at distance {distance} %", 100 * max(shares, default=0.0)
            )


def _with_siblings(groups: np.ndarray, truth: np.ndarray) -> float:
    """The share of classes whose group is that of most of their siblings, and has most of them from one parent."""
    right = 0
    for group in np.unique(groups):
        members = truth[groups == group]
        parent = np.bincount(members).argmax()
        own = groups[truth == parent]
        if np.bincount(own).argmax() == group:
            right += int((members == parent).sum())
    return right / len(groups)


# ---- photos ----------------------------------------------------------------------------------------------------------


def _photos(options: argparse.Namespace, seed: int) -> tuple[LabelGraph, Part, Part]:
    """The graph, and features with fine labels of both splits."""
    if options.data is None:
        menu = write_menu(f"{options.menu}-{seed}", "small", seed=seed, workers=1)
        data, graph = menu.manifest, LabelGraph.read(menu.graph)
    else:
        data, graph = options.data, source_graph(options.data)
    samples = read_samples(data).without_kinds()
    network = build_network(graph, NetworkDesign(network="efficientnet_lite0"), weights="default").eval()
    views = make_views(TrainSettings(data=data, on_bad_file="skip"), network)

    def part(photos: Samples) -> Part:
        found = extract_features(network, photos, views, cache=options.cache, on_bad_file="skip")
        return found.fine, targets_of(found.samples, graph)[0]

    return graph, part(samples.split("train")), part(samples.split(options.on))


def _drawn(train: Part, fine_count: int, photos: int, random: np.random.Generator) -> Part:
    """So many photos of each fine label."""
    chosen = [random.permutation(np.flatnonzero(train[1].numpy() == fine))[:photos] for fine in range(fine_count)]
    rows = torch.from_numpy(np.concatenate(chosen))
    return train[0][rows], train[1][rows]


def _print(options: argparse.Namespace, rows: Rows) -> None:
    seeds = " ".join(map(str, options.seed))
    title = (
        f"{options.data or f'small menus of seeds {seeds}'}: {options.photos} photos per class, {options.draws} draws, "
        f"{options.on}"
    )
    table = Table("what", "mean", "95 % interval", "each draw", title=title)
    for name, values in rows.items():
        found = mean_interval(values) if len(values) > 1 else None
        interval = "" if found is None else f"{found.low:.2f} to {found.high:.2f}"
        table.add_row(name, f"{np.mean(values):.2f}", interval, " ".join(f"{value:.2f}" for value in values))
    Console(width=170).print(table)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="the photos, as for `finegraph train`; by default the small drawn menu")
    parser.add_argument("--menu", type=Path, default=Path("menu-small"), help="where menus are drawn: MENU-SEED")
    parser.add_argument("--seed", type=int, nargs="+", default=[0], help="of the menus; draws of all count alike")
    parser.add_argument("--parts", nargs="+", default=["cells", "wrong"], help="cells, wrong, groups, sure, tree")
    parser.add_argument("--photos", type=int, default=5, help="photos per class")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--kind", default="dish", help="for groups: the kind that is left out")
    parser.add_argument("--on", default="test", help="the split to measure on")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
