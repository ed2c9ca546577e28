"""Several networks as one: photos in, the concatenated features of all of them out.

    pixels -> normalised images -+-> first member  -> features, scaled to one length -+-> features
                                 +-> second member -> features, scaled to one length -+

All members see the same views, at the size of the largest member, so views, engines, servers and exported files need
not know about members. If members normalise pixels differently, one step converts. The cache holds the features of each
member, so that other combinations of networks can use them.

The features of each member get a root mean square of 1 per photo. Otherwise the network with the largest values would
outweigh the others. Cost: the sum of the members' costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from finegraph.errors import InputError
from finegraph.nn.backbones.backbone import Backbone
from finegraph.nn.backbones.preprocessing import Preprocessing

_MIN_LENGTH = 1e-12
"""Lengths below this are raised to it, so that features of 0 stay 0."""


class JoinedBackbone(Backbone):
    """Networks whose features are concatenated.

    Example:
        >>> from finegraph.nn.backbones import build_backbone
        >>> network = build_backbone("efficientnet_lite0+efficientnet_lite2").eval()
        >>> network(torch.zeros(2, 3, 64, 64)).shape, network.block_sizes, network.preprocessing.size
        (torch.Size([2, 2560]), (1280, 1280), 260)
    """

    def __init__(self, members: Mapping[str, Backbone]) -> None:
        """Join networks.

        Args:
            members: the networks by name, in the order of their features; auxiliary branches are not used.
        """
        super().__init__()
        if len(members) < 2:
            raise InputError(f"a joined network has at least two members, got {', '.join(members) or 'none'}")
        self.members = nn.ModuleDict(members)
        self.feature_size, self.min_size = sum(self.block_sizes), max(part.min_size for part in self.parts)
        self.preprocessing = max((part.preprocessing for part in self.parts), key=lambda own: own.size)

    @property
    def parts(self) -> tuple[Backbone, ...]:
        """The members in order."""
        return tuple(member for member in self.members.values() if isinstance(member, Backbone))

    def forward(self, images: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch feature"]:
        """The features of images that were normalised by this network's own preprocessing."""
        self._check(images)
        return self.join([member(self._converted(images, member.preprocessing)) for member in self.parts])

    def join(self, features: Sequence[Float[Tensor, "*batch _"]]) -> Float[Tensor, "*batch feature"]:
        """The features of this network from those of its members, in order."""
        return torch.cat([_scaled_to_one_length(own) for own in features], dim=-1)

    def _converted(self, images: Tensor, own: Preprocessing) -> Tensor:
        """Convert images to the normalisation of a member."""
        mean, std = self.preprocessing.mean, self.preprocessing.std
        if (mean, std) == (own.mean, own.std):
            return images
        factor = [ours / theirs for ours, theirs in zip(std, own.std, strict=True)]
        shift = [(ours - theirs) / size for ours, theirs, size in zip(mean, own.mean, own.std, strict=True)]
        scale, offset = (torch.tensor(own, dtype=images.dtype, device=images.device) for own in (factor, shift))
        return images * scale[:, None, None] + offset[:, None, None]

    def extra_repr(self) -> str:
        """How each member normalises pixels; the features depend on it as well as on the layers."""
        rules = [(part.preprocessing.mean, part.preprocessing.std) for part in self.parts]
        return "; ".join(f"mean={mean}, std={std}" for mean, std in rules)


def _scaled_to_one_length(features: Tensor) -> Tensor:
    """Features with a root mean square of 1."""
    length = torch.linalg.vector_norm(features, dim=-1, keepdim=True).clamp_min(_MIN_LENGTH)
    scaled: Tensor = features * (features.shape[-1] ** 0.5) / length
    return scaled
