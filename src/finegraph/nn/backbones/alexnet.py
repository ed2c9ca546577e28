"""AlexNet: five convolutions and two wide fully-connected layers.

The one-column form of "One weird trick for parallelizing convolutional neural networks" (Krizhevsky 2014), with the
layer names of torchvision. Nearly all of its 57 million parameters sit in the two wide layers, so its files are
large while a photo costs only 0.7 billion multiplications.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from finegraph.nn.backbones.backbone import Backbone, dropout_rate
from finegraph.nn.backbones.preprocessing import Preprocessing


class AlexNet(Backbone):
    """AlexNet up to the 4096 features after its second wide layer."""

    feature_size = 4096
    preprocessing = Preprocessing(size=224, resize=256)
    min_size = 63
    replaced = ("classifier.6.",)

    def __init__(self, *, dropout: float | None = None) -> None:
        """Make an untrained network.

        Args:
            dropout: the rate before each of the two wide layers, in training; usually 0.5.
        """
        super().__init__()
        rate = dropout_rate(dropout, 0.5)
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, stride=4, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(64, 192, 5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(192, 384, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(6)
        self.classifier = nn.Sequential(
            nn.Dropout(rate),
            nn.Linear(256 * 6 * 6, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(rate),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
        )

    def forward(self, images: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch feature"]:
        """The features of normalised images."""
        self._check(images)
        features: Tensor = self.classifier(torch.flatten(self.avgpool(self.features(images)), 1))
        return features
