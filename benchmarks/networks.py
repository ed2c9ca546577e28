"""What more networks buy, and what they cost: accuracy over draws of few photos, and the time of a photo.

    python benchmarks/networks.py --data grocery:FOLDER              the three qualities on the test photos
    python benchmarks/networks.py --data grocery:FOLDER --on val     while choosing defaults
    python benchmarks/networks.py --data grocery:FOLDER --networks efficientnet_lite0 efficientnet_lite2
    python benchmarks/networks.py --data grocery:FOLDER --only-times --timed 12 --networks efficientnet_lite0 vgg16

All networks see the same draws; each row gives the mean difference to the first network with a 95 % interval (Student's
t over the draws; for all photos, of which there is one draw, a bootstrap over test photos). Heads are fitted in closed
form, which looks at no photos but those to train on. The time is what a core computes for one photo, from its file to
the answer, on a busy machine too: the smallest of several turns that alternate between the networks.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from accuracy import interval
from options import parser_of
from rich.console import Console
from rich.progress import track
from rich.table import Table

from finegraph.data.dataset import targets_of
from finegraph.data.samples import Samples
from finegraph.data.sources import read_samples, source_graph
from finegraph.data.splits import choose_splits, draw_per_label
from finegraph.data.transforms import ViewSettings
from finegraph.evaluation.metrics import calibration
from finegraph.graph import LabelGraph
from finegraph.model.features import Features, extract_features
from finegraph.model.features.extract import FeatureExtractor
from finegraph.model.fitting.prototypes import fit_prototypes
from finegraph.nn import Network, NetworkDesign, build_network
from finegraph.training.settings import QUALITIES, TrainSettings
from finegraph.workflows.training.training_data import make_views
from finegraph.workflows.training.tune_head import training_features

TURNS = 5


@dataclass(frozen=True)
class Timed:
    """A network whose time is measured."""

    name: str
    network: Network
    views: ViewSettings


@dataclass(frozen=True)
class Compared(Timed):
    """A network with the features that it gives."""

    train: Features
    train_fine: torch.Tensor
    test: torch.Tensor
    test_fine: torch.Tensor


def main() -> None:
    """Measure and print."""
    options = _options()
    torch.set_num_threads(options.threads)
    out = Console(width=max(Console().width, 110))
    samples = read_samples(options.data)
    graph = source_graph(options.data)
    train, val = choose_splits(samples)
    judged = val if options.on == "val" else samples.split("test")
    if judged is None:
        sys.exit("the source has no split `val` to choose defaults on")
    if options.only_times:
        print_times(out, [bare(name, graph, options) for name in options.networks], judged[: options.timed])
        return
    networks = [compared(name, graph, train, judged, options) for name in options.networks]
    results = []
    for count in options.photos:
        draws = options.draws if count else 1
        for draw in track(range(draws), f"{count or 'all'} photos per class", console=out, transient=True):
            drawn = draw_per_label(train, count, draw) if count else train
            for one in networks:
                results.append({"photos": count, "draw": draw, "network": one.name, **measure(one, graph, drawn)})
    out.print(_table(options, results, len(judged)))
    if options.json is not None:
        rows = [{name: value for name, value in row.items() if name != "right"} for row in results]
        options.json.write_text(json.dumps(rows, indent=1))
    if options.timed:
        print_times(out, networks, judged[: options.timed])


def bare(name: str, graph: LabelGraph, options: argparse.Namespace) -> Timed:
    """A network with random weights, to measure its time."""
    network = build_network(graph, NetworkDesign(network=name)).eval()
    return Timed(name, network, make_views(TrainSettings(data=options.data, size=options.size), network))


def print_times(out: Console, networks: Sequence[Timed], photos: Samples) -> None:
    """Sizes and times of networks, a line each."""
    seconds = times(networks, photos)
    first = seconds[networks[0].name]
    for one in networks:
        size = sum(weight.numel() for weight in one.network.backbone.parameters()) / 1e6
        taken = seconds[one.name]
        out.print(
            f"{one.name}: {size:.1f} million parameters, view {one.views.size} px; "
            f"{1000 * taken:.1f} ms of one core per photo, {taken / first:.2f} times the first"
        )


def compared(name: str, graph: LabelGraph, train: Samples, judged: Samples, options: argparse.Namespace) -> Compared:
    """A network, and its features of all photos."""
    network = build_network(graph, NetworkDesign(network=name), weights="default").eval()
    settings = TrainSettings(data=options.data, size=options.size, train_views=options.train_views, on_bad_file="skip")
    views = make_views(settings, network)
    found = [
        training_features(network, train, views, settings, options.cache, lambda stage: lambda done, total: None),
        extract_features(network, judged, views, cache=options.cache, on_bad_file="skip"),
    ]
    fine = [targets_of(one.samples, graph)[0] for one in found]
    return Compared(name, network, views, found[0], fine[0], found[1].fine, fine[1])


def measure(one: Compared, graph: LabelGraph, drawn: Samples) -> dict[str, object]:
    """Fit a head to the photos of a draw and measure it."""
    place = {sample: number for number, sample in enumerate(one.train.samples)}
    rows = [place[sample] for sample in drawn if sample in place]
    sizes = one.network.backbone.block_sizes
    views = None if one.train.views is None else one.train.views[rows]
    fit = fit_prototypes(one.train.fine[rows], one.train_fine[rows], graph, block_sizes=sizes, views=views)
    with torch.inference_mode():
        log_probs = fit.head(fit.scaling(one.test)).log_probs()
    right = (log_probs.argmax(dim=1) == one.test_fine).numpy()
    calibrated = calibration(log_probs.max(dim=1).values.exp().numpy(), right.astype(np.int8))
    return {
        "top1": 100 * float(right.mean()),
        "nll": -float(log_probs.gather(1, one.test_fine[:, None]).mean()),
        "ece": 100 * float(calibrated.error or 0.0),
        "right": right,
    }


def times(networks: Sequence[Timed], photos: Samples) -> dict[str, float]:
    """Seconds that one core computes per photo, from the file to the answer; the smallest of some turns."""
    taken: dict[str, list[float]] = {one.name: [] for one in networks}
    extractors = {one.name: FeatureExtractor(one.network, one.views, threads=1) for one in networks}
    for _ in range(TURNS + 1):
        for one in networks:
            began = time.process_time()
            one.network.of_features(extractors[one.name].features(photos).fine)
            taken[one.name].append((time.process_time() - began) / len(photos))
    return {name: min(values[1:]) for name, values in taken.items()}  # in the first turn engines are made


def _table(options: argparse.Namespace, results: list[dict], judged: int) -> Table:
    """A row per amount of photos and network."""
    table = Table(
        title=f"{options.data}: {judged:,} {options.on} photos; views of each training photo: {options.train_views}"
    )
    for heading in ("photos per class", "draws", "network", "top-1 %", "difference", "95 % interval", "nll", "ece %"):
        table.add_column(heading, justify="left" if heading == "network" else "right")
    for count in options.photos:
        rows = {
            name: [row for row in results if row["photos"] == count and row["network"] == name]
            for name in options.networks
        }
        first = rows[options.networks[0]]
        for name, own in rows.items():
            found = None if own is first else interval(own, first, "top1")
            means = {metric: np.mean([row[metric] for row in own]) for metric in ("top1", "nll", "ece")}
            table.add_row(
                str(count or "all") if own is first else "",
                str(len(own)) if own is first else "",
                name,
                f"{means['top1']:.2f}",
                "" if found is None else f"{means['top1'] - np.mean([row['top1'] for row in first]):+.2f}",
                "" if found is None else f"{found.low:+.2f} to {found.high:+.2f}",
                f"{means['nll']:.3f}",
                f"{means['ece']:.1f}",
            )
        table.add_section()
    return table


def _options() -> argparse.Namespace:
    parser = parser_of(__doc__, draws=10)
    parser.add_argument("--data", required=True, help="the photos, as for `finegraph train`")
    parser.add_argument("--networks", nargs="+", default=list(QUALITIES.values()), help="by default the qualities")
    parser.add_argument("--size", type=int)
    parser.add_argument("--photos", type=int, nargs="+", default=[1, 2, 5, 0], help="photos per class; 0 for all")
    parser.add_argument("--on", choices=("test", "val"), default="test")
    parser.add_argument("--train-views", type=int, default=1, help="views of each training photo")
    parser.add_argument("--only-times", action="store_true", help="sizes and times of networks; weights do not matter")
    parser.add_argument("--timed", type=int, default=66, help="photos to measure the time on; 0 for none")
    return parser.parse_args()


if __name__ == "__main__":
    main()
