"""Small photos, small networks, and what goes with them."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

import finegraph as fg
from finegraph.data.samples import Sample, Samples
from finegraph.data.transforms import ViewSettings
from finegraph.nn.backbones import Backbone
from finegraph.nn.backbones.preprocessing import Preprocessing
from finegraph.nn.network import Network, NetworkDesign

GRAPH = fg.LabelGraph.from_parents(["a", "b", "c"], {"kind": [0, 0, 1]})
VIEWS = ViewSettings(size=32, resize=40)


class Tiny(Backbone):
    """A network of a few layers with one of each operation, which counts the photos that it sees."""

    feature_size = 6
    preprocessing = Preprocessing(size=32, resize=40)

    def __init__(self, seed=0, dropout=0.2):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)
            self.norm = nn.BatchNorm2d(4)
            self.fc = nn.Linear(8 * 4 * 4, 6)
            nn.init.normal_(self.norm.running_mean)
        self.drop = nn.Dropout(dropout)
        self.seen = 0

    def forward(self, images):
        self.seen += len(images)
        x = nn.functional.relu6(self.norm(self.conv(images)), inplace=True)
        x = nn.functional.max_pool2d(nn.functional.pad(x, (0, 1, 0, 1)), 3, 2, ceil_mode=True)
        x = nn.functional.adaptive_avg_pool2d(torch.cat([x + x, 0.5 * x], dim=1), 4)
        return self.drop(self.fc(x.flatten(1)))


def tiny_network(backbone=None, coarse=None):
    """A network around one or two backbones."""
    backbone = backbone or Tiny()
    sizes = {} if coarse is None else {"coarse_features": coarse.feature_size}
    return Network(NetworkDesign(), backbone, fg.BipartiteHead(backbone.feature_size, GRAPH, **sizes), coarse)


def photo(seed, width=64, height=48):
    """A picture with smooth waves of colour, another one for each seed."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width] / max(width, height)
    waves = [np.sin(rng.uniform(2, 9) * x + rng.uniform(2, 9) * y + rng.uniform(0, 6)) for _ in range(3)]
    return Image.fromarray((127 + 120 * np.stack(waves, axis=2)).astype(np.uint8))


def save_photos(folder: Path, count=6, **options):
    """Some photos as samples."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        photo(number).save(folder / f"{number:03}.png", **options)
    return samples_in(folder)


def samples_in(folder: Path):
    """All photos of a folder as samples."""
    return Samples(Sample(path, "a", "train") for path in folder.iterdir())
