"""VGG-16: thirteen small convolutions in five stages, then two wide fully-connected layers.

From "Very deep convolutional networks for large-scale image recognition" (Simonyan and Zisserman 2015), without batch
normalisation, with the layer names of torchvision. Strong features, but 134 million parameters and some 15 billion
multiplications per photo: the slowest network here.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from finegraph.nn.backbones.backbone import Backbone, dropout_rate
from finegraph.nn.backbones.preprocessing import Preprocessing

# Channels of the convolutions of each stage; a stage ends by halving height and width.
STAGES = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


class VGG16(Backbone):
    """VGG-16 up to the 4096 features after its second wide layer."""

    feature_size = 4096
    preprocessing = Preprocessing(size=224, resize=256)
    replaced = ("classifier.6.",)

    def __init__(self, *, dropout: float | None = None) -> None:
        """Make an untrained network.

        Args:
            dropout: the rate after each of the two wide layers, in training; usually 0.5.
        """
        super().__init__()
        rate = dropout_rate(dropout, 0.5)
        layers: list[nn.Module] = []
        channels = 3
        for stage in STAGES:
            for out in stage:
                layers += [_convolution(channels, out), nn.ReLU(inplace=True)]
                channels = out
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(7)
        self.classifier = nn.Sequential(
            nn.Linear(channels * 7 * 7, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(rate),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(rate),
        )

    def forward(self, images: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch feature"]:
        """The features of normalised images."""
        self._check(images)
        features: Tensor = self.classifier(torch.flatten(self.avgpool(self.features(images)), 1))
        return features


def _convolution(channels: int, out: int) -> nn.Conv2d:
    convolution = nn.Conv2d(channels, out, 3, padding=1)
    # Without batch normalisation, torch's default initialisation lets the signal vanish over thirteen layers.
    if not convolution.weight.is_meta:  # initialising meta tensors would make torch import its compiler
        nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    assert convolution.bias is not None
    nn.init.zeros_(convolution.bias)
    return convolution
