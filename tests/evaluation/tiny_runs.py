"""A small network, coloured photos and a run of both, so that whole evaluations take a moment."""

import numpy as np
import torch
from PIL import Image
from torch import nn

import finegraph as fg
from finegraph.data.dataset import targets_of
from finegraph.data.sources import read_samples
from finegraph.data.transforms import ViewSettings
from finegraph.model.features import extract_features
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.nn import NetworkDesign, build_network
from finegraph.nn.backbones import Backbone
from finegraph.nn.backbones.build import BACKBONES
from finegraph.nn.backbones.preprocessing import Preprocessing
from finegraph.training.records.run_folder import RunFolder
from finegraph.training.settings import TrainSettings

NAME = "colours"
SPLITS = {"train": 5, "val": 4, "test": 3}
COLOURS = {"red": (190, 60, 60), "blue": (60, 60, 190)}
GRAPH = fg.LabelGraph.from_table(
    {
        f"{size} {colour}": {"colour": colour, "size": size, "framed": None if size == "small" else {"yes", "no"}}
        for colour in COLOURS
        for size in ("small", "large")
    }
)


class Colours(Backbone):
    """One fixed convolution and a mean."""

    min_size = 16

    def __init__(self):
        super().__init__()
        self.feature_size = 10
        self.preprocessing = Preprocessing(size=32, resize=36)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.first = nn.Conv2d(3, 10, 5, stride=4)

    def forward(self, images):
        self._check(images)
        return self.first(images).relu().mean(dim=(2, 3))


def register(monkeypatch):
    """Let the network have a name."""
    monkeypatch.setitem(BACKBONES, NAME, lambda dropout, auxiliary: Colours())


def paint(path, colour, side, random):
    """A square of a colour on grey, with noise."""
    pixels = random.integers(90, 150, (48, 48, 3))
    top, left = random.integers(0, 48 - side, 2)
    pixels[top : top + side, left : left + side] = np.array(colour) + random.integers(-40, 40, 3)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.astype(np.uint8)).save(path)
    return left, top


def make_photos(folder):
    """A manifest of photos with boxes; returns its path."""
    random = np.random.default_rng(0)
    rows = ["path,label,split,x,y,width,height,size"]
    for label in GRAPH.fine:
        size, colour = label.split()
        side = {"small": 12, "large": 30}[size]
        for split, count in SPLITS.items():
            for number in range(count):
                name = f"{split}-{size}-{colour}-{number}.png"
                left, top = paint(folder / name, COLOURS[colour], side, random)
                seen = "large" if number == 0 and split == "test" else ""
                rows.append(f"{name},{label},{split},{left},{top},{side},{side},{seen}")
    manifest = folder / "images.csv"
    manifest.write_text("\n".join(rows) + "\n")
    return manifest


def make_foreign(folder):
    """A folder per class of photos of none of the classes."""
    random = np.random.default_rng(1)
    for number in range(5):
        paint(folder / "green" / f"{number}.png", (20, 230, 20), 40, random)
    return folder


def make_classifier(manifest):
    """A classifier with a head fitted to the training photos; `register` must be called first."""
    network = build_network(GRAPH, NetworkDesign(network=NAME)).eval()
    views = ViewSettings(resize=36, size=32)
    train = extract_features(network, read_samples(manifest).split("train"), views, cache=False, engine="torch")
    fine, _ = targets_of(train.samples, GRAPH)
    # Least squares instead of training: quick, and good enough to be right now and then.
    features = torch.cat([train.fine, torch.ones(len(fine), 1)], dim=1).double()
    wanted = 6.0 * torch.nn.functional.one_hot(fine).double()
    solution = torch.linalg.lstsq(features.T @ features + 1e-3 * torch.eye(11), features.T @ wanted).solution.T
    with torch.no_grad():
        network.head.fine.weight.copy_(solution[:, :-1])
        network.head.fine.bias.copy_(solution[:, -1])
        network.head.coarse.weight.normal_(0, 0.3, generator=torch.Generator().manual_seed(0))
    return PhotoClassifier(network.requires_grad_(False), views)


def make_run(folder, manifest, **settings):
    """A run folder with a trained model."""
    run = RunFolder.create(folder)
    values = {"data": str(manifest), "network": NAME, "tune": "all", **settings}
    run.write_config(TrainSettings.from_dict(values).to_dict())
    make_classifier(manifest).save(run.model)
    return run.path
