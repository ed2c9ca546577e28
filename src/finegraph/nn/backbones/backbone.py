"""What every network is to the rest of the package: photos in, one feature vector each out.

The feature is the input of the network's last fully-connected layer. That layer itself is left out: a head takes its
place. Dropout before it, where the network has some, belongs to the network and acts in training only.

Modules are named as in the weight files that people have, so `load_weights` needs no table of renamings.
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
    """What the network expects of a photo."""
    auxiliary_sizes: tuple[int, ...] = ()
    """The sizes of the auxiliary features, each of which wants a head of its own in training."""
    auxiliary_weight: float = 0.3
    """What the loss of each auxiliary head counts, against 1 for the main one."""
    smallest: int = 32
    """The smallest height and width that the layers can take."""
    replaced: tuple[str, ...] = ()
    """Layers of weight files that heads replace, by prefix; they are not loaded."""
    inner: ClassVar[str] = ""
    """Where the names of weight files begin in this module, when it wraps a network of others."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = False
        self.fixed_statistics = False
        self._still: tuple[nn.Module, ...] = ()

    @property
    def layers(self) -> tuple[nn.Module, ...]:
        """The layers that have weights, or blocks of them, in the order from the photo to the features."""
        return tuple(one for one in layers_in(self) if any(True for _ in one.parameters()))

    @property
    def parts(self) -> tuple[Backbone, ...]:
        """The networks whose features these are: itself, or the members of a joined network; see `joined.py`."""
        return (self,)

    @property
    def block_sizes(self) -> tuple[int, ...]:
        """The sizes of the features of the parts."""
        return tuple(one.feature_size for one in self.parts)

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
        """Keep the network as it is: no gradients, and evaluation mode whatever `train` asks. Returns itself."""
        self.requires_grad_(False)
        self.frozen = True
        return self.eval()

    def unfreeze(self) -> Backbone:
        """Undo `freeze`; call `train` to train."""
        self.requires_grad_(True)
        self.frozen = False
        return self

    def freeze_first(self, share: float) -> Backbone:
        """Keep a share of the layers, counted from the photo on, as they are. Returns itself.

        They see edges and textures, which few photos of one kind need not change, at the largest sizes: without their
        gradients a step is a third to a half cheaper.
        """
        for part in self.parts:
            layers = part.layers
            part._still = layers[: round(share * len(layers))]
            for layer in part._still:
                layer.requires_grad_(False)
        return self.train(self.training)

    def fix_statistics(self) -> Backbone:
        """Train weights, but normalise batches with the saved averages, which stay. Returns itself.

        The result of a step then depends on no other photo of the batch: what small batches, and equal results on
        one and on several processes, need.
        """
        self.fixed_statistics = True
        return self.train(self.training)

    def train(self, mode: bool = True) -> Backbone:
        """As in torch, except for what `freeze` and `fix_statistics` keep in evaluation mode."""
        super().train(mode and not self.frozen)
        for layer in self._still:
            layer.eval()
        if self.fixed_statistics:
            for module in self.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.eval()
        return self

    def _check(self, images: Tensor) -> None:
        """Raise our own error for what would otherwise fail deep inside, or give nonsense."""
        smallest = self.smallest
        if images.ndim != 4 or images.shape[1] != 3 or images.shape[2] < smallest or images.shape[3] < smallest:
            raise ShapeError(
                f"images: expected shape (batch, 3, height, width) with height and width at least {smallest}, "
                f"got {tuple(images.shape)}"
            )
        if not images.is_floating_point():
            raise InputError(
                f"images: expected normalised floating-point numbers, got {images.dtype}; "
                "use the network's preprocessing.normalise first"
            )


def layers_in(module: nn.Module) -> Iterator[nn.Module]:
    """The layers of a module; lists of layers count as what is in them."""
    for child in module.children():
        if isinstance(child, nn.Sequential | nn.ModuleList):
            yield from layers_in(child)
        else:
            yield child


def dropout_rate(rate: float | None, usual: float) -> float:
    """The dropout rate asked for, or the network's usual one."""
    if rate is None:
        return usual
    if not 0 <= rate < 1:
        raise InputError(f"dropout: expected a rate of at least 0 and below 1, got {rate}")
    return rate
