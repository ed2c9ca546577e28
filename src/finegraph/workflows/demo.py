"""The demo: draw a menu, train two heads on three photos of each item, and judge both on photos that they never saw.

Both heads are fitted in the same way, one with the label graph and one without: what differs is what the graph gives.
With few photos that is most, as items of one dish or one restaurant learn from each other; with many it is little. The
photos are drawn, so the metrics say how the method behaves on this menu, not how much it helps on real photos. All
metrics are computed in the run. Nothing is needed from elsewhere; the cost is that of the network on some 1,300 photos.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Literal

from finegraph.errors import RunFolderError
from finegraph.evaluation import EvaluationResult
from finegraph.evaluation.intervals import MeanInterval, paired_bootstrap_interval
from finegraph.graph import LabelGraph
from finegraph.model import PhotoClassifier, Prediction, load
from finegraph.training.settings import TrainSettings
from finegraph.workflows.evaluate import evaluate_run
from finegraph.workflows.menu import write_menu
from finegraph.workflows.report import write_report
from finegraph.workflows.train import TrainWatcher, train_run

HEADS: tuple[Literal["softmax"], Literal["bipartite"]] = ("softmax", "bipartite")
SPLITS = ("test", "wild")
KNOWN = "restaurant"
"""The kind that a guest knows without looking at the plate."""
PHOTOS_PER_LABEL = 3
"""How many photos of each item the demo trains on, as a restaurant that has just begun may have."""
_TRIED, _LISTED = 24, 5
"""How many photos are tried to find one to show, and how far down its list of answers the truth may be."""


@dataclass(frozen=True, kw_only=True)
class HeadComparison:
    """Both heads on the photos of one split.

    Attributes:
        split: its name.
        results: the metrics of each head.
        gain: how much more often the bipartite head is right than softmax, over the same photos.
        fixed: photos that only the bipartite head has right.
        broken: photos that only softmax has right.
    """

    split: str
    results: dict[str, EvaluationResult]
    gain: MeanInterval
    fixed: int
    broken: int


@dataclass(frozen=True, kw_only=True)
class EvidenceExample:
    """One photo, before and after something is known beside it.

    Attributes:
        photo: the file.
        truth: its fine label.
        known: the label of the kind `KNOWN` that is given.
        before: the prediction from the photo alone.
        after: the prediction given that.
    """

    photo: str
    truth: str
    known: str
    before: Prediction
    after: Prediction


@dataclass(frozen=True, kw_only=True)
class Demo:
    """The result of the demo.

    Attributes:
        folder: the folder of it all.
        graph: the menu.
        photos: how many photos each split has.
        comparisons: one per split.
        question: a photo that is examined.
        report: the page with all of it.
        seconds: how long it took.
    """

    folder: str
    graph: LabelGraph
    photos: dict[str, int]
    comparisons: tuple[HeadComparison, ...]
    question: EvidenceExample
    report: str
    seconds: float


def run_demo(out: str | os.PathLike[str], watcher: TrainWatcher, size: str = "small") -> Demo:
    """Draw the menu, train both heads, judge them and write the report.

    Args:
        out: a new folder; photos that an interrupted demo left there are taken.
        watcher: receives the progress.
        size: of the menu.

    Raises:
        RunFolderError: the folder has the runs of a demo already.
    """
    began = monotonic()
    folder = Path(out)
    for head in HEADS:
        if (folder / head).exists():
            raise RunFolderError(f"{folder}: expected a new folder, but a demo was here already; choose another name")
    menu = folder / "menu"
    write_menu(menu, size=size, progress=lambda done, total: watcher.stage("photos drawn", done, total))
    for head in HEADS:
        settings = TrainSettings(
            data=str(menu / "images.csv"),
            graph=str(menu / "graph.csv"),
            tune="head",
            head=head,
            photos_per_label=PHOTOS_PER_LABEL,
        )
        train_run(settings, watcher, run=folder / head)
    comparisons = tuple(_compare(folder, split, watcher) for split in SPLITS)
    model = load(folder / "bipartite")
    report = folder / "report.html"
    write_report([folder / head for head in HEADS], report)
    return Demo(
        folder=str(folder),
        graph=model.graph,
        photos=_counts(menu / "images.csv"),
        comparisons=comparisons,
        question=_question(model, folder / "bipartite" / "evaluations" / "test"),
        report=str(report),
        seconds=monotonic() - began,
    )


def _compare(folder: Path, split: str, watcher: TrainWatcher) -> HeadComparison:
    """Evaluate both heads on a split."""
    evaluations = {
        head: evaluate_run(
            folder / head, split=split, name=split, progress=lambda done, total: watcher.stage(split, done, total)
        )
        for head in HEADS
    }
    results = {head: evaluation for head, evaluation in evaluations.items() if evaluation is not None}
    right = {
        head: {row["path"]: row["right"] == "yes" for row in _rows(evaluation.folder)}
        for head, evaluation in results.items()
    }
    softmax, bipartite = ([right[head][path] for path in right["softmax"]] for head in HEADS)
    return HeadComparison(
        split=split,
        results={head: evaluation.result for head, evaluation in results.items()},
        gain=paired_bootstrap_interval(bipartite, softmax),
        fixed=sum(new and not old for new, old in zip(bipartite, softmax, strict=True)),
        broken=sum(old and not new for new, old in zip(bipartite, softmax, strict=True)),
    )


def _question(model: PhotoClassifier, evaluation: Path) -> EvidenceExample:
    """A photo that the model gets right only once it knows the restaurant; the first photo if there is none such."""
    rows = _rows(evaluation)
    doubtful = [row for row in rows if row["right"] != "yes" and int(row["rank"]) <= _LISTED] or rows
    first = None
    for row in doubtful[:_TRIED]:
        question = _ask(model, row["path"], row["label"])
        if question.after.top[0].label == question.truth:
            return question
        first = first or question
    assert first is not None
    return first


def _ask(model: PhotoClassifier, photo: str, truth: str) -> EvidenceExample:
    """The predictions of a photo, alone and given its restaurant."""
    graph = model.graph
    known = graph.labels(KNOWN)[graph.parents(KNOWN)[graph.fine.index(truth)]]
    before, after = model.predict(photo), model.predict(photo, given={KNOWN: known})
    return EvidenceExample(photo=photo, truth=truth, known=known, before=before, after=after)


def _rows(evaluation: Path) -> list[dict[str, str]]:
    """The table of an evaluation."""
    with (evaluation / "samples.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _counts(manifest: Path) -> dict[str, int]:
    """How many photos each split has."""
    counts: dict[str, int] = {}
    with manifest.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            counts[row["split"]] = counts.get(row["split"], 0) + 1
    return counts
