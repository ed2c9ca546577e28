"""A classifier with a very small network, for tests that are about anything but the network."""

import numpy as np
import torch
from PIL import Image
from torch import nn

from finegraph.data.transforms import ViewSettings
from finegraph.graph import LabelGraph
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.nn.backbones import build
from finegraph.nn.backbones.backbone import Backbone
from finegraph.nn.backbones.preprocessing import Preprocessing
from finegraph.nn.network import NetworkDesign, build_network

VIEWS = ViewSettings(size=24, resize=32)
TABLE = {
    "mapo tofu @ A": {"dish": "mapo tofu", "restaurant": "A", "with": ["tofu", "pork"], "spicy": True},
    "mapo tofu @ B": {"dish": "mapo tofu", "restaurant": "B", "with": ["tofu"], "spicy": True},
    "kung pao @ A": {"dish": "kung pao", "restaurant": "A", "with": ["pork"], "spicy": False},
    "kung pao @ B": {"dish": "kung pao", "restaurant": "B", "with": ["peanut"], "spicy": False},
    "egg rice @ B": {"dish": "egg rice", "restaurant": "B", "with": ["peanut", "pork"], "spicy": False},
}


class TinyBackbone(Backbone):
    """One convolution; with a branch for training if asked for."""

    feature_size = 12
    min_size = 8

    def __init__(self, auxiliary=False):
        super().__init__()
        self.preprocessing = Preprocessing(size=24, resize=32)
        self.convolution = nn.Conv2d(3, 12, 5, stride=3)
        self.norm = nn.BatchNorm2d(12)
        self.dropout = nn.Dropout(0.5)
        if auxiliary:
            self.auxiliary_sizes = (4,)
            self.branch = nn.Linear(12, 4)

    def forward(self, images):
        self._check(images)
        return self.dropout(torch.relu(self.norm(self.convolution(images))).mean(dim=(2, 3)))


class OtherBackbone(TinyBackbone):
    """Larger views, more features, and other numbers made of pixels."""

    feature_size = 20

    def __init__(self):
        super().__init__()
        self.preprocessing = Preprocessing(size=28, resize=36, mean=(0.5, 0.4, 0.3), std=(0.1, 0.2, 0.3))
        self.convolution = nn.Conv2d(3, 20, 3, stride=2)
        self.norm = nn.BatchNorm2d(20)


def register(monkeypatch):
    """Let networks called `tiny` (also `branched`, with a branch for training, and `other`) be built during a test."""
    monkeypatch.setitem(build.BACKBONES, "tiny", lambda dropout, auxiliary: TinyBackbone())
    monkeypatch.setitem(build.BACKBONES, "branched", lambda dropout, auxiliary: TinyBackbone(auxiliary))
    monkeypatch.setitem(build.BACKBONES, "other", lambda dropout, auxiliary: OtherBackbone())


def classifier(
    table=TABLE, *, seed=0, network="tiny", coarse_network=None, head="bipartite", scaling=None, views=VIEWS, **parts
):
    """A classifier with random weights that make clear answers; call `register` first."""
    graph = table if isinstance(table, LabelGraph) else LabelGraph.from_table(table)
    design = NetworkDesign(network=network, coarse_network=coarse_network, head=head, scaling=scaling)
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    built = build_network(graph, design)
    with torch.no_grad():
        for name, parameter in built.named_parameters():
            if "head" in name:
                nn.init.normal_(parameter, std=1.5)
        for buffer in () if built.scaling is None else built.scaling.buffers():
            nn.init.normal_(buffer)
            if not buffer.ndim:
                buffer.abs_()  # a compression
    torch.set_rng_state(state)
    return PhotoClassifier(built.eval(), views, **parts)


def picture(seed=0, width=50, height=40):
    """A picture of noise in large grains, so that every view of it is another."""
    grains = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(grains).resize((width, height), Image.Resampling.BILINEAR)


def saved_run(folder, monkeypatch):
    """A run folder with a model in it, in a folder."""
    register(monkeypatch)
    classifier().save(folder / "run" / "model")
    return folder / "run"


def photo_folders(folder):
    """A folder per class, two photos in each, in a folder."""
    for number, label in enumerate(TABLE):
        (folder / "photos" / label).mkdir(parents=True)
        for seed in (0, 1):
            picture(10 * number + seed).save(folder / "photos" / label / f"{seed}.png")
    return folder / "photos"
