"""What numbers and orders buy: heat, portion and price of drawn dishes, told by heads with and without them.

    python benchmarks/number_accuracy.py                        some minutes on two cores; the small menu is drawn first
    python benchmarks/number_accuracy.py --on val                       while choosing defaults
    python benchmarks/number_accuracy.py --menu FOLDER --seed 1         another menu

All heads are fitted in closed form to the same features of the same draws, so differences are paired; intervals are
Student's t over the draws, and with all photos, of which there is one draw, a bootstrap over test photos.

    softmax     class means without any graph; values are expectations under its probabilities
    kinds       the label graph without numbers and orders
    numbers     the whole graph
    measured    the same, and what is on the plate was measured on training photos (menu.grams)

Errors are mean absolute ones: heat in steps from mild to hot, the usual weight of a dish in grams, its price in EUR and
what is on the plate of the photo in grams, which differs by 38 % from day to day. Told is the expected value, of heat
the expected place. Evidence is the true answer to "is it at most 7 EUR?", about the median of the menu (`--limit`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from finegraph.cli.process import prepare_process
from finegraph.data.dataset import targets_of
from finegraph.data.menu import Menu
from finegraph.data.samples import Samples
from finegraph.data.sources import read_samples
from finegraph.evaluation.intervals import MeanInterval, paired_bootstrap_interval, paired_interval
from finegraph.graph import LabelGraph
from finegraph.inference import Posterior
from finegraph.model.features import extract_features
from finegraph.model.fitting.prototypes import PrototypeSettings, fit_prototypes
from finegraph.nn import NetworkDesign, build_network
from finegraph.training.settings import TrainSettings
from finegraph.workflows.menu import write_menu
from finegraph.workflows.training.training_data import make_views

HEADS = ("softmax", "kinds", "numbers", "measured")
METRICS = {
    "top1": "top-1 %",
    "heat": "heat, steps",
    "portion": "usual weight, g",
    "price": "price, EUR",
    "plate": "on the plate, g",
    "evidence": "top-1 %, told if <= {limit:g} EUR",
}
NEEDED = {"heat": 15.0, "portion": 15.0}
"""By how many percent errors of these must be lower than those of softmax, with 1 and 3 photos."""
Part = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Features, fine labels and what is on the plate."""
Answers = Callable[[torch.Tensor], Posterior]


def main() -> None:
    """Measure and print."""
    options = _options()
    prepare_process()
    torch.set_num_threads(options.threads)
    graph, train, test = _photos(options)
    out = Console(width=max(Console().width, 130))
    rows = []
    for count in options.photos:
        for draw in track(
            range(options.draws if count else 1), f"{count or 'all'} photos", console=out, transient=True
        ):
            own = _drawn(train, len(graph), count, np.random.default_rng(draw))
            for head, answer in fitted(graph, own).items():
                rows.append({"photos": count, "head": head, **measure(graph, answer, test, options.limit)})
    out.print(_table(options, rows, len(test[1])))
    if options.json is not None:
        plain = [
            {name: float(np.mean(value)) if name in METRICS else value for name, value in row.items()} for row in rows
        ]
        options.json.write_text(json.dumps(plain, indent=1))


def fitted(graph: LabelGraph, train: Part) -> dict[str, Answers]:
    """All heads, fitted to some photos."""
    features, fine, grams = train
    plain = graph.only([name for name in graph.kinds if not graph.kind(name).ordered])
    fits = {
        "softmax": fit_prototypes(features, fine, graph, PrototypeSettings(head="softmax")),
        "kinds": fit_prototypes(features, fine, plain),
        "numbers": fit_prototypes(features, fine, graph),
        "measured": fit_prototypes(features, fine, graph, measured={"portion": grams}),
    }
    return {name: lambda x, fit=fit: fit.head(fit.scaling(x)) for name, fit in fits.items()}


def measure(graph: LabelGraph, answer: Answers, test: Part, limit: float) -> dict[str, np.ndarray]:
    """What a head tells of each test photo: whether it is right, and its errors."""
    features, fine, grams = test
    with torch.no_grad():
        posterior = answer(features)
        if posterior.graph != graph:  # without numbers, its probabilities tell values as those of softmax do
            posterior = Posterior(graph, posterior.log_probs())
        log_probs = posterior.log_probs()
        cheap = torch.tensor(graph.values("price"))[fine] <= limit
        given = posterior.given(price=[f"<= {limit}" if one else f"> {limit}" for one in cheap.tolist()])
        heat = torch.tensor(graph.parents("heat")).double()
        portion = posterior.value("portion", log_probs).mean
        errors = {
            "heat": (log_probs.double().exp() @ heat - heat[fine]).abs(),
            "portion": (portion - torch.tensor(graph.values("portion"))[fine]).abs(),
            "price": (posterior.value("price", log_probs).mean - torch.tensor(graph.values("price"))[fine]).abs(),
            "plate": (portion - grams).abs(),
        }
        right = {"top1": log_probs, "evidence": given.log_probs()}
    found = {name: 100.0 * (one.argmax(dim=1) == fine).numpy() for name, one in right.items()}
    return found | {name: one.numpy() for name, one in errors.items()}


def _table(options: argparse.Namespace, rows: list[dict], tests: int) -> Table:
    """A row per amount of photos and metric, and the difference of the head with numbers to two others."""
    title = f"the small drawn menu, seed {options.seed}: {tests} {options.on} photos, {options.draws} draws"
    table = Table(title=title)
    for heading in ("photos", "metric", *HEADS, "numbers - softmax", "in %", "numbers - kinds", "needed"):
        table.add_column(heading, justify="left" if heading == "metric" else "right")
    for count in options.photos:
        for metric, words in METRICS.items():
            own = {
                head: [row[metric] for row in rows if (row["photos"], row["head"]) == (count, head)] for head in HEADS
            }
            means = {head: float(np.mean([one.mean() for one in values])) for head, values in own.items()}
            share = 100 * (means["numbers"] / means["softmax"] - 1)
            needed = f"-{NEEDED[metric]:.0f} %" if metric in NEEDED and count else ""
            needed = needed or ("not below kinds" if metric == "top1" else "")
            digits = 1 if metric in ("top1", "evidence", "portion", "plate") else 3
            table.add_row(
                str(count or "all") if metric == "top1" else "",
                words.format(limit=options.limit),
                *(f"{means[head]:.{digits}f}" for head in HEADS),
                _words(means["numbers"] - means["softmax"], _interval(own["numbers"], own["softmax"]), digits),
                "" if metric in ("top1", "evidence") else f"{share:+.1f}",
                _words(means["numbers"] - means["kinds"], _interval(own["numbers"], own["kinds"]), digits),
                needed,
            )
        table.add_section()
    return table


def _interval(one: list[np.ndarray], two: list[np.ndarray]) -> MeanInterval | None:
    """A 95 % interval of a mean difference: over draws, or over photos where there is one draw."""
    if len(one) > 1:
        return paired_interval([part.mean() for part in one], [part.mean() for part in two])
    return paired_bootstrap_interval(one[0], two[0])


def _words(difference: float, found: MeanInterval | None, digits: int) -> str:
    around = "" if found is None else f" ({found.low:+.{digits}f} to {found.high:+.{digits}f})"
    return f"{difference:+.{digits}f}{around}"


def _photos(options: argparse.Namespace) -> tuple[LabelGraph, Part, Part]:
    """The graph, and both splits; what is on the plates is known to who drew them."""
    files = write_menu(options.menu, "small", seed=options.seed, numbers=True, workers=1)
    menu, graph = Menu("small", options.seed), LabelGraph.read(files.graph)
    samples = read_samples(files.manifest).without_kinds()
    network = build_network(graph, NetworkDesign(network="efficientnet_lite0"), weights="default").eval()
    views = make_views(TrainSettings(data=files.manifest), network)
    grams = {photo.path: menu.grams(photo) for photo in menu.photos}

    def part(photos: Samples) -> Part:
        found = extract_features(network, photos, views, cache=options.cache)
        plates = [grams[one.path.relative_to(options.menu).as_posix()] for one in found.samples]
        return found.fine, targets_of(found.samples, graph)[0], torch.tensor(plates, dtype=torch.float64)

    return graph, part(samples.split("train")), part(samples.split(options.on))


def _drawn(train: Part, fine_count: int, photos: int, random: np.random.Generator) -> Part:
    """So many photos of each fine label; 0 for all."""
    if not photos:
        return train
    rows: list[int] = []
    for label in range(fine_count):
        own = np.flatnonzero(train[1].numpy() == label)
        rows += random.permutation(own)[:photos].tolist()
    return train[0][rows], train[1][rows], train[2][rows]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--menu", type=Path, default=Path("build/numbers-menu"), help="where the menu is drawn")
    parser.add_argument("--seed", type=int, default=0, help="of the menu")
    parser.add_argument("--photos", type=int, nargs="+", default=[1, 3, 0], help="photos per fine label; 0 for all")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--on", choices=("test", "val", "wild"), default="test")
    parser.add_argument("--limit", type=float, default=7.0, metavar="EUR", help="what is known to be the price at most")
    parser.add_argument("--cache", type=Path, help="where features are stored; by default in the user's cache")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write all metrics of all draws")
    return parser.parse_args()


if __name__ == "__main__":
    main()
