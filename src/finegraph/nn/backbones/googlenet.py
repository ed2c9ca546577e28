"""GoogLeNet: nine inception blocks, each of four parallel branches, and two auxiliary branches for training.

From "Going deeper with convolutions" (Szegedy et al. 2015), in the form that torchvision's weights have: batch
normalisation after each convolution, and 3x3 where the paper has 5x5 in the third branch. 5.6 million parameters
without the auxiliary branches, which hold 4.3 million more and are not run in prediction.

Those weights were made for pixels from -1 to 1. The network converts from the ordinary ImageNet normalisation itself,
so that it takes the same input as AlexNet and VGG-16 and can stand beside them in a two-network model.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from finegraph.nn.backbones.backbone import Backbone, dropout_rate
from finegraph.nn.backbones.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Preprocessing

AUXILIARY_SIZE = 1024


class ConvolutionNormRelu(nn.Module):
    """A convolution without bias, batch normalisation and ReLU."""

    def __init__(self, channels: int, out: int, kernel: int, *, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, out, kernel, stride=stride, padding=kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(out, eps=1e-3)

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch _ _ _"]:
        """The activations."""
        return functional.relu(self.bn(self.conv(x)), inplace=True)


class Inception(nn.Module):
    """Four branches side by side: 1x1; 1x1 then 3x3, twice; pooling then 1x1."""

    def __init__(self, channels: int, one: int, second: tuple[int, int], third: tuple[int, int], pooled: int) -> None:
        super().__init__()
        self.branch1 = ConvolutionNormRelu(channels, one, 1)
        self.branch2 = _narrow_then_wide(channels, *second)
        self.branch3 = _narrow_then_wide(channels, *third)
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1), ConvolutionNormRelu(channels, pooled, 1))

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch _ _ _"]:
        """The channels of all branches, one after another."""
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], dim=1)


class Auxiliary(nn.Module):
    """An auxiliary branch: from the middle of the network to features for a head of its own."""

    def __init__(self, channels: int, rate: float) -> None:
        super().__init__()
        self.conv = ConvolutionNormRelu(channels, 128, 1)
        self.fc1 = nn.Linear(128 * 4 * 4, AUXILIARY_SIZE)
        self.dropout = nn.Dropout(rate)

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch feature"]:
        """The auxiliary features."""
        x = torch.flatten(self.conv(functional.adaptive_avg_pool2d(x, 4)), 1)
        features: Tensor = self.dropout(functional.relu(self.fc1(x), inplace=True))
        return features


class GoogLeNet(Backbone):
    """GoogLeNet up to its 1024 averaged features, with two auxiliary features for training."""

    feature_size = 1024
    preprocessing = Preprocessing(size=224, resize=256)
    scale: Tensor
    shift: Tensor

    def __init__(self, *, dropout: float | None = None, auxiliary: bool = True) -> None:
        """Make an untrained network.

        Args:
            dropout: the rate in training of the features and of the auxiliary ones; usually 0.2 and 0.7.
            auxiliary: whether to have the auxiliary branches, which only training uses.
        """
        super().__init__()
        self.conv1 = ConvolutionNormRelu(3, 64, 7, stride=2)
        self.maxpool1 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.conv2 = ConvolutionNormRelu(64, 64, 1)
        self.conv3 = ConvolutionNormRelu(64, 192, 3)
        self.maxpool2 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.inception3a = Inception(192, 64, (96, 128), (16, 32), 32)
        self.inception3b = Inception(256, 128, (128, 192), (32, 96), 64)
        self.maxpool3 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.inception4a = Inception(480, 192, (96, 208), (16, 48), 64)
        self.inception4b = Inception(512, 160, (112, 224), (24, 64), 64)
        self.inception4c = Inception(512, 128, (128, 256), (24, 64), 64)
        self.inception4d = Inception(512, 112, (144, 288), (32, 64), 64)
        self.inception4e = Inception(528, 256, (160, 320), (32, 128), 128)
        self.maxpool4 = nn.MaxPool2d(2, stride=2, ceil_mode=True)
        self.inception5a = Inception(832, 256, (160, 320), (32, 128), 128)
        self.inception5b = Inception(832, 384, (192, 384), (48, 128), 128)
        if auxiliary:
            self.aux1 = Auxiliary(512, dropout_rate(dropout, 0.7))
            self.aux2 = Auxiliary(528, dropout_rate(dropout, 0.7))
        self.dropout = nn.Dropout(dropout_rate(dropout, 0.2))
        self.auxiliary_sizes = (AUXILIARY_SIZE,) * 2 if auxiliary else ()
        self.replaced = ("fc.", "aux1.fc2.", "aux2.fc2.") if auxiliary else ("fc.", "aux1.", "aux2.")
        self._register_input_transform()
        for module in self.modules():
            # Meta tensors are about to be loaded; initialising them would make torch import its compiler.
            if isinstance(module, nn.Conv2d) and not module.weight.is_meta:
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")

    def _register_input_transform(self) -> None:
        """From (pixel - mean) / std to (pixel - 0.5) / 0.5. On the CPU at first, even if parameters are on `meta`."""
        scale = [std / 0.5 for std in IMAGENET_STD]
        shift = [(mean - 0.5) / 0.5 for mean in IMAGENET_MEAN]
        for name, values in (("scale", scale), ("shift", shift)):
            self.register_buffer(name, torch.tensor(values, device="cpu")[:, None, None], persistent=False)

    def forward(self, images: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch feature"]:
        """The features of normalised images; the auxiliary branches are not run."""
        return self._to_features(self._to_branches(images)[1])

    def forward_with_auxiliary(
        self, images: Float[Tensor, "batch channel height width"]
    ) -> tuple[Float[Tensor, "batch feature"], tuple[Float[Tensor, "batch _"], ...]]:
        """The features and those of the auxiliary branches, for a training step."""
        first, second = self._to_branches(images)
        auxiliary = (self.aux1(first), self.aux2(second)) if self.auxiliary_sizes else ()
        return self._to_features(second), auxiliary

    def _to_branches(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The activations that the two auxiliary branches start from."""
        self._check(images)
        x = self.maxpool1(self.conv1(images * self.scale + self.shift))
        x = self.maxpool2(self.conv3(self.conv2(x)))
        x = self.maxpool3(self.inception3b(self.inception3a(x)))
        first = self.inception4a(x)
        return first, self.inception4d(self.inception4c(self.inception4b(first)))

    def _to_features(self, x: Tensor) -> Tensor:
        x = self.maxpool4(self.inception4e(x))
        x = self.inception5b(self.inception5a(x))
        features: Tensor = self.dropout(x.mean(dim=(2, 3)))
        return features


def _narrow_then_wide(channels: int, narrow: int, wide: int) -> nn.Sequential:
    return nn.Sequential(ConvolutionNormRelu(channels, narrow, 1), ConvolutionNormRelu(narrow, wide, 3))
