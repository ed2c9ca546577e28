"""A small network, a few made-up photos, and whole training runs on them that take a moment."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import signal
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from finegraph.nn.backbones.backbone import Backbone, dropout_rate
from finegraph.nn.backbones.build import BACKBONES
from finegraph.nn.backbones.preprocessing import Preprocessing
from finegraph.training.checkpoints.checkpoint import CheckpointFolder
from finegraph.training.distributed import Ranks
from finegraph.training.records.run_folder import RunFolder
from finegraph.training.settings import TrainSettings
from finegraph.workflows.training.training_data import make_network, make_views, read_training_data
from finegraph.workflows.training.tune_all import tune_all

CLASSES = {"red small": "red", "red large": "red", "blue small": "blue", "blue large": "blue", "grey": "grey"}
COLOURS = {"red": (200, 40, 40), "blue": (40, 40, 200), "grey": (120, 120, 120)}


class Tiny(Backbone):
    """Two convolutions with normalisation between them, and dropout, which makes chance matter."""

    min_size = 16

    def __init__(self, dropout: float | None = None, auxiliary: bool = False, size: int = 12) -> None:
        super().__init__()
        self.feature_size = size
        self.preprocessing = Preprocessing(size=32, resize=36)
        self.first = nn.Conv2d(3, 8, 5, stride=4)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, size, 3)
        self.dropout = nn.Dropout(dropout_rate(dropout, 0.2))
        if auxiliary:
            self.auxiliary_sizes = (8,)

    def forward(self, images: Tensor) -> Tensor:
        return self.forward_with_auxiliary(images)[0]

    def forward_with_auxiliary(self, images: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        self._check(images)
        middle = self.norm(self.first(images)).relu()
        features = self.dropout(self.second(middle).relu().mean(dim=(2, 3)))
        return features, (middle.mean(dim=(2, 3)),) if self.auxiliary_sizes else ()


def register() -> None:
    """Let `tiny`, `tiny_narrow` with fewer features, and `tiny_auxiliary` be names of networks."""
    BACKBONES["tiny"] = lambda dropout, auxiliary: Tiny(dropout)
    BACKBONES["tiny_narrow"] = lambda dropout, auxiliary: Tiny(dropout, size=7)
    BACKBONES["tiny_auxiliary"] = lambda dropout, auxiliary: Tiny(dropout, auxiliary)


def make_photos(folder: Path, per_class: int = 7, val: int = 2, *, gaps: bool = False) -> Path:
    """A manifest of photos of coloured squares, small and large, beside `graph.csv`; returns its path.

    Args:
        folder: where to put them; it is made.
        per_class: photos of each class to train on.
        val: photos of each class to validate on.
        gaps: leave some labels out: of the class, of the colour, and of both.
    """
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    lines = ["path,label,split,colour"]
    for label, colour in CLASSES.items():
        for number in range(per_class + val):
            pixels = random.integers(0, 60, (48, 48, 3)).astype(np.uint8) + 90
            side = 34 if "large" in label else 14
            top, left = random.integers(0, 48 - side, 2)
            pixels[top : top + side, left : left + side] = np.array(COLOURS[colour]) + random.integers(-20, 20, 3)
            name = f"{label.replace(' ', '-')}-{number}.png"
            Image.fromarray(pixels).save(folder / name)
            seen = "" if gaps and number in (1, 3) else label, "" if gaps and number in (2, 3) else colour
            lines.append(f"{name},{seen[0]},{'train' if number < per_class else 'val'},{seen[1]}")
    (folder / "graph.csv").write_text("fine,colour\n" + "".join(f"{one},{two}\n" for one, two in CLASSES.items()))
    manifest = folder / "images.csv"
    manifest.write_text("\n".join(lines) + "\n")
    return manifest


class Watcher:
    """Remembers what it is told; calls `on_step` with the number of steps taken, and `on_epoch` with the row."""

    def __init__(self, on_step=None, on_epoch=None):
        self.losses, self.rows, self.notes = [], [], []
        self._on_step, self._on_epoch = on_step, on_epoch

    def step(self, done, total, loss, rate):
        self.losses.append(loss)
        if self._on_step is not None:
            self._on_step(done)

    def epoch(self, row):
        self.rows.append(row)
        if self._on_epoch is not None:
            self._on_epoch(row)

    def note(self, text):
        self.notes.append(text)


@dataclasses.dataclass
class Tuned:
    """A run that came to its end, or was stopped."""

    network: nn.Module
    metrics: dict[str, float] | None
    folder: RunFolder
    watcher: Watcher


def settings_for(manifest, **changes):
    """Settings for a run of a few steps, with normalisation and dropout at work."""
    usual = {
        "network": "tiny",
        "weights": "none",
        "tune": "all",
        "recipe": "short",
        "epochs": 3,
        "batch_size": 8,
        "lr": 0.02,
    }
    places = {"data": os.fspath(manifest), "graph": os.fspath(manifest.parent / "graph.csv")}
    return TrainSettings.from_dict({**places, **usual, **changes})


def tune(manifest, path, *, resume=False, watcher=None, ranks=None, alter=None, **changes):
    """Train in a run folder; `alter` may change the network before."""
    settings, watcher, ranks = settings_for(manifest, **changes), watcher or Watcher(), ranks or Ranks()
    data = read_training_data(settings)
    torch.manual_seed(settings.seed)
    network = make_network(settings, data.graph, ranks)
    network.to(torch.float64 if settings.precision == "float64" else torch.float32)
    if alter is not None:
        alter(network)
    if ranks.first and not resume:
        RunFolder.create(path).write_config(settings.resolve().to_dict())
    ranks.wait()
    folder = RunFolder.open(path)
    views = make_views(settings, network)
    tuned = tune_all(
        network, data, views, settings, ranks, folder, watcher, resume=resume, progress=lambda name: lambda *_: None
    )
    return Tuned(network, None if tuned is None else tuned.metrics, folder, watcher)


def last(path):
    """The last checkpoint of a run; None if there is none."""
    return CheckpointFolder(RunFolder.open(path).checkpoints).last()


def best(path):
    """The best checkpoint of a run; None if there is none."""
    return CheckpointFolder(RunFolder.open(path).checkpoints).best()


def metrics(path):
    """The rows of `metrics.csv` without times."""
    with RunFolder.open(path).metrics_file.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        {name: float(cell) for name, cell in row.items() if cell and name not in ("time", "seconds")} for row in rows
    ]


def steps_logged(path):
    """The steps in the log of a run."""
    events = [json.loads(line) for line in (path / "log.jsonl").read_text().splitlines()]
    return [event["step"] for event in events if event["event"] == "step"]


def same(path, other):
    """Assert that two runs came to the same, to the last bit."""
    one, two = last(path), last(other)
    assert one.step == two.step
    assert one.tensors.keys() == two.tensors.keys()
    for name, tensor in one.tensors.items():
        assert torch.equal(tensor, two.tensors[name]), name
    states = [{**each.state["progress"], "seconds": 0.0} for each in (one, two)]
    assert states[0] == states[1]
    assert metrics(path) == metrics(other) != []
    assert steps_logged(path) == steps_logged(other) == list(range(1, one.step + 1))
    assert best(path).step == best(other).step


def asks_at(step, number=signal.SIGTERM):
    """A watcher that sends this process a signal after so many steps."""
    return Watcher(lambda done: os.kill(os.getpid(), number) if done == step else None)


def in_forward(step, act):
    """Something that happens in the middle of a step."""

    def alter(network):
        calls = []

        def hook(module, inputs):
            if module.training:
                calls.append(None)
                if len(calls) == step:
                    act(network)

        network.backbone.second.register_forward_pre_hook(hook)

    return alter
