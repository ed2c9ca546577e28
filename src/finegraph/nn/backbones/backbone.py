"""The interface of all networks: photos in, one feature vector per photo out.

The feature is the input of the network's last fully-connected layer. That layer itself is left out: a head replaces it.
Dropout before it belongs to the network and is active in training only.

Modules are named as in common weight files, so `load_weights` needs no table of renamings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from finegraph.errors import InputError, ShapeError
from finegraph.nn.backbones.preprocessing import Preprocessing


class Backbone(nn.Module):
    """A network without its last layer.

    Example:
        >>> import torch
        >>> from finegraph.nn.backbones import build_backbone
        >>> network = build_backbone("efficientnet_lite0").eval()
        >>> network(torch.zeros(2, 3, 64, 64)).shape, network.feature_size
        (torch.Size([2, 1280]), 1280)
    """

    feature_size: int
    """The number of columns of the features."""
    preprocessing: Preprocessing
    """How photos become the input of the network."""
    auxiliary_sizes: tuple[int, ...] = ()
    """The sizes of the auxiliary features, each of which needs a head of its own in training."""
    auxiliary_weight: float = 0.3
    """The weight of the loss of each auxiliary head; the main loss has weight 1."""
    min_size: int = 32
    """The smallest height and width that the layers accept."""
    replaced: tuple[str, ...] = ()
    """Layers of weight files that heads replace, by prefix; they are not loaded."""
    inner: ClassVar[str] = ""
    """The prefix of this module's names relative to weight files, if it wraps another library's network."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = False
        self.fixed_statistics = False
        self._frozen_layers: tuple[nn.Module, ...] = ()

    @property
    def layers(self) -> tuple[nn.Module, ...]:
        """The layers with weights, or blocks of layers, in order from the photo to the features."""
        return tuple(layer for layer in layers_in(self) if any(True for _ in layer.parameters()))

    @property
    def parts(self) -> tuple[Backbone, ...]:
        """The networks whose features these are: itself, or the members of a joined network; see `joined.py`."""
        return (self,)

    @property
    def block_sizes(self) -> tuple[int, ...]:
        """The sizes of the features of the parts."""
        return tuple(part.feature_size for part in self.parts)

    def join(self, features: Sequence[Float[Tensor, "*batch _"]]) -> Float[Tensor, "*batch feature"]:
        """The features of this network from those of its parts, in their order."""
        return features[0]

    def forward(self, images: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch feature"]:
        """The features of normalised images."""
        raise NotImplementedError

    def forward_with_auxiliary(
        self, images: Float[Tensor, "batch channel height width"]
    ) -> tuple[Float[Tensor, "batch feature"], tuple[Float[Tensor, "batch _"], ...]]:
        """The features, and the auxiliary features in the order of `auxiliary_sizes`, for a training step."""
        return self(images), ()

    def freeze(self) -> Backbone:
        """Freeze the network: no gradients, and evaluation mode whatever `train` is called with. Returns itself."""
        self.requires_grad_(False)
        self.frozen = True
        return self.eval()

    def unfreeze(self) -> Backbone:
        """Undo `freeze`; call `train` to train."""
        self.requires_grad_(True)
        self.frozen = False
        return self

    def freeze_first(self, share: float) -> Backbone:
        """Freeze a share of the layers, starting at the photo. Returns itself.

        These layers detect edges and textures, which a few photos of one domain need not change, at the largest sizes.
        Without their gradients a step is a third to a half cheaper.
        """
        for part in self.parts:
            layers = part.layers
            part._frozen_layers = layers[: round(share * len(layers))]
            for layer in part._frozen_layers:
                layer.requires_grad_(False)
        return self.train(self.training)

    def fix_statistics(self) -> Backbone:
        """Train weights, but normalise batches with the saved averages, which do not change. Returns itself.

        The features of a photo then do not depend on the rest of the batch. Small batches, and equal results on one
        and on several processes, need this.
        """
        self.fixed_statistics = True
        return self.train(self.training)

    def train(self, mode: bool = True) -> Backbone:
        """As in torch, except for layers that `freeze` and `fix_statistics` keep in evaluation mode."""
        super().train(mode and not self.frozen)
        for layer in self._frozen_layers:
            layer.eval()
        if self.fixed_statistics:
            for module in self.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.eval()
        return self

    def _check(self, images: Tensor) -> None:
        """Raise a clear error for input that would otherwise fail deep inside a network or give wrong features."""
        min_size = self.min_size
        if images.ndim != 4 or images.shape[1] != 3 or images.shape[2] < min_size or images.shape[3] < min_size:
            raise ShapeError(
                f"images: expected shape (batch, 3, height, width) with height and width at least {min_size}, "
                f"got {tuple(images.shape)}"
            )
        if not images.is_floating_point():
            raise InputError(
                f"images: expected normalised floating-point numbers, got {images.dtype}; "
                "use the network's preprocessing.normalise first"
            )


def layers_in(module: nn.Module) -> Iterator[nn.Module]:
    """The layers of a module; lists of layers are flattened."""
    for child in module.children():
        if isinstance(child, nn.Sequential | nn.ModuleList):
            yield from layers_in(child)
        else:
            yield child


def dropout_rate(rate: float | None, usual: float) -> float:
    """The requested dropout rate, or the usual rate of the network."""
    if rate is None:
        return usual
    if not 0 <= rate < 1:
        raise InputError(f"dropout: expected a rate of at least 0 and below 1, got {rate}")
    return rate
