"""How long fitting a head to stored features takes, beside scikit-learn, and how it grows with the number of classes.

    python benchmarks/fitting.py               200 classes x 5 photos x 28 kinds, with strengths chosen; a minute or so
    python benchmarks/fitting.py --growth      1,000 to 100,000 classes x 2 photos x 256 features; some minutes
    python benchmarks/fitting.py --descent     a step of descent and its memory, for as many classes; half a minute

Features are drawn: class means that depend on the kinds, and noise. Seconds are those of the processor. Every fit
chooses its strengths itself: scikit-learn's LogisticRegression by the same five folds among seven strengths. Growth is
measured each in a process of its own, which tells the most memory it had. A step of descent takes time in proportion to
the photos, so it is measured on some of them, with all classes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from time import perf_counter, process_time

import numpy as np
import torch
from labels import reset_peak, status
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from finegraph.graph import LabelGraph
from finegraph.model.fitting import FitSettings, fit_head
from finegraph.model.fitting.prototypes import fit_prototypes
from finegraph.model.fitting.selection import FOLDS, deal_folds, default_grid, grid_settings, search
from finegraph.model.fitting.solver_choice import L2_PATH, choose_solver

CLASSES, PHOTOS, KINDS, FEATURES = 200, 5, 28, 1280
MEASURED_PHOTOS, MEASURED_STEPS = 256, 14
"""How many photos and steps a step of descent is measured on."""


def main() -> None:
    """Measure and print."""
    options = _options()
    torch.set_num_threads(options.threads)
    if options.one is not None:
        print(json.dumps((_descent_of if options.descent else _growth_of)(options.one)))
    elif options.descent:
        _descent(options)
    elif options.growth:
        _growth(options)
    else:
        _rivals(options)


def drawn(
    classes: int, photos: int, kinds: int, features: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, LabelGraph]:
    """Features and labels to fit to, others to measure on, and the graph."""
    rng = np.random.default_rng(0)
    label_counts = rng.integers(2, 8, kinds) if kinds > 2 else np.array([max(classes // 10, 2), 20])[:kinds]
    parents = np.stack([rng.integers(0, count, classes) for count in label_counts], axis=1)
    names = [f"kind {number}" for number in range(kinds)]
    table = {
        f"class {i}": {name: f"label {label}" for name, label in zip(names, row, strict=True)}
        for i, row in enumerate(parents)
    }
    means = 0.7 * rng.standard_normal((classes, features), dtype=np.float32)
    for kind, count in enumerate(label_counts):
        effects = rng.standard_normal((count, features), dtype=np.float32) * np.float32(0.7 / np.sqrt(kinds))
        means += effects[parents[:, kind]]
    parts = []
    for number in (photos, 2):
        targets = np.repeat(np.arange(classes), number)
        noise = rng.standard_normal((len(targets), features), dtype=np.float32)
        noise *= 4.0
        noise += means[targets]
        parts += [torch.from_numpy(noise), torch.from_numpy(targets)]
    return parts[0], parts[1], parts[2], parts[3], LabelGraph.from_table(table)


def _rivals(options: argparse.Namespace) -> None:
    x, y, test, truth, graph = drawn(CLASSES, PHOTOS, KINDS, FEATURES)
    table = Table(
        title=f"{CLASSES} classes x {PHOTOS} photos x {KINDS} kinds, {FEATURES} features, {options.threads} threads"
    )
    for heading in ("fit, strengths chosen", "CPU seconds", "top-1 %"):
        table.add_column(heading, justify="left" if heading.startswith("fit") else "right")
    start = process_time()
    fit = fit_prototypes(x, y, graph)
    closed = process_time() - start
    choice = choose_solver(x, y, graph, fit.strengths, FitSettings())
    both = process_time() - start
    with torch.inference_mode():
        right = float((fit.head(fit.scaling(test)).log_probs().argmax(dim=1) == truth).float().mean())
    table.add_row("closed form", f"{closed:.1f}", f"{100 * right:.1f}")
    table.add_row(f"auto: the same and the contest ({choice.solver})", f"{both:.1f}", f"{100 * right:.1f}")
    scale = float(x.std())
    start = process_time()
    settings = choice.settings or FitSettings()
    head = fit_head(x / scale, y, graph, settings).head
    one = process_time() - start
    with torch.inference_mode():
        right = float((head(test / scale).log_probs().argmax(dim=1) == truth).float().mean())
    table.add_row("one descent with the strengths that the contest liked best", f"{one:.1f}", f"{100 * right:.1f}")
    for name in ("softmax", "bipartite"):
        start = process_time()
        tried = grid_settings(FitSettings(head=name), default_grid(name, graph))
        found = search(x / scale, y, graph, tried, deal_folds(y.numpy(), FOLDS))
        head = fit_head(x / scale, y, graph, found.settings[found.best]).head
        taken = process_time() - start
        with torch.inference_mode():
            right = float((head(test / scale).log_probs().argmax(dim=1) == truth).float().mean())
        abandoned = int(np.isnan(found.mean_scores).sum())
        words = f"descent, {name}: {len(tried)} settings by {FOLDS} folds, {abandoned} of them abandoned"
        table.add_row(words, f"{taken:.1f}", f"{100 * right:.1f}")
    if not options.no_rival:
        count = len(y) * (1 - 1 / FOLDS)
        rival = GridSearchCV(
            LogisticRegression(max_iter=1000),
            {"C": [1.0 / (l2 * count) for l2 in L2_PATH]},
            scoring="neg_log_loss",
            cv=deal_folds(y.numpy(), FOLDS),
        )
        start = process_time()
        rival.fit((x / scale).numpy(), y.numpy())
        taken = process_time() - start
        right = float((rival.predict((test / scale).numpy()) == truth.numpy()).mean())
        table.add_row(
            f"scikit-learn LogisticRegression, {len(L2_PATH)} strengths", f"{taken:.1f}", f"{100 * right:.1f}"
        )
    Console(width=110).print(table)


def _descent(options: argparse.Namespace) -> None:
    title = f"descent, 2 photos of each class, 256 features, 2 kinds, {options.threads} threads"
    table = Table(title=title)
    for heading in ("classes", "photos measured", "CPU seconds a step", "for all photos", "memory of the fit, MiB"):
        table.add_column(heading, justify="right")
    for classes in options.classes:
        found = _alone(options, "--descent", "--one", str(classes))
        seconds = f"{found['seconds']:.2f}", f"{found['seconds'] * 2 * classes / MEASURED_PHOTOS:,.0f}"
        table.add_row(f"{classes:,}", f"{MEASURED_PHOTOS:,}", *seconds, f"{found['memory']:,.0f}")
    Console(width=110).print(table)


def _descent_of(classes: int) -> dict[str, float]:
    """The CPU seconds of a step, and the memory of a fit of so many steps that it remembers as many as it may."""
    x, y, _, _, graph = drawn(classes, 1, 2, 256)
    some = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))[:MEASURED_PHOTOS]
    x, y = x[some] / 4, y[some]
    # A photo of which a label of a kind alone is known lets all classes take part.
    y[0] = -100
    seen = torch.full_like(y, -100)
    seen[0] = 0
    reset_peak()
    before, start = status("VmRSS"), process_time()
    settings = FitSettings(max_iter=MEASURED_STEPS, tolerance=0.0)
    fit = fit_head(x, y, graph, settings, kind_targets={graph.kinds[0]: seen})
    seconds = (process_time() - start) / (fit.iterations + 1)
    return {"seconds": seconds, "memory": status("VmHWM") - before}


def _alone(options: argparse.Namespace, *words: str) -> dict[str, float]:
    """What a process of its own measures."""
    command = [sys.executable, __file__, *words, "--threads", str(options.threads)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def _growth(options: argparse.Namespace) -> None:
    table = Table(title=f"closed form, strengths chosen: 2 photos, 256 features, 2 kinds, {options.threads} threads")
    for heading in ("classes", "seconds", "CPU seconds", "peak memory, MiB", "of that before fitting"):
        table.add_column(heading, justify="right")
    for classes in options.classes:
        found = _alone(options, "--one", str(classes))
        seconds = f"{found['seconds']:.1f}", f"{found['cpu']:.1f}"
        table.add_row(f"{classes:,}", *seconds, f"{found['peak']:,.0f}", f"{found['before']:,.0f}")
    Console(width=110).print(table)


def _growth_of(classes: int) -> dict[str, float]:
    x, y, _, _, graph = drawn(classes, 2, 2, 256)
    reset_peak()
    before, start, cpu = status("VmRSS"), perf_counter(), process_time()
    fit_prototypes(x, y, graph)
    taken = {"seconds": perf_counter() - start, "cpu": process_time() - cpu}
    return {**taken, "peak": status("VmHWM"), "before": before}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--growth", action="store_true", help="how it grows with the number of classes")
    parser.add_argument("--descent", action="store_true", help="a step of descent by the number of classes")
    parser.add_argument(
        "--classes", type=int, nargs="+", default=[1000, 10_000, 100_000], help="for --growth and --descent"
    )
    parser.add_argument("--no-rival", action="store_true", help="leave scikit-learn out, which takes the longest")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
