"""Several networks side by side, as one: photos in, the features of all of them in a row out.

    pixels -> normalised images -+-> first member  -> features, brought to one length -+-> features
                                 +-> second member -> features, brought to one length -+

All members see the same views, at the size of the largest of them; so views, engines, servers and exported files need
to know nothing of members. Where members scale pixels differently, one step converts. Stored features are those of each
member, so that the next choice of networks finds them.

Each member's features get a root mean square of 1, photo by photo: without that the network with the largest numbers
would outweigh the others. Cost: the sum of the members'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from finegraph.errors import InputError
from finegraph.nn.backbones.backbone import Backbone
from finegraph.nn.backbones.preprocessing import Preprocessing

_SMALLEST = 1e-12
"""Features of at most this length are left as they are: all of them 0."""


class JoinedBackbone(Backbone):
    """Networks whose features stand side by side.

    Example:
        >>> from finegraph.nn.backbones import build_backbone
        >>> network = build_backbone("efficientnet_lite0+efficientnet_lite2").eval()
        >>> network(torch.zeros(2, 3, 64, 64)).shape, network.block_sizes, network.preprocessing.size
        (torch.Size([2, 2560]), (1280, 1280), 260)
    """

    def __init__(self, members: Mapping[str, Backbone]) -> None:
        """Join networks.

        Args:
            members: the networks by name, in the order of their features; auxiliary branches take no part.
        """
        super().__init__()
        if len(members) < 2:
            raise InputError(f"a joined network has at least two members, got {', '.join(members) or 'none'}")
        self.members = nn.ModuleDict(members)
        self.feature_size, self.smallest = sum(self.block_sizes), max(one.smallest for one in self.parts)
        self.preprocessing = max((one.preprocessing for one in self.parts), key=lambda own: own.size)

    @property
    def parts(self) -> tuple[Backbone, ...]:
        """The members in order."""
        return tuple(one for one in self.members.values() if isinstance(one, Backbone))

    def forward(self, images: Float[Tensor, "batch channel height width"]) -> Float[Tensor, "batch feature"]:
        """The features of images that were normalised by this network's own preprocessing."""
        self._check(images)
        return self.join([member(self._converted(images, member.preprocessing)) for member in self.parts])

    def join(self, features: Sequence[Float[Tensor, "*batch _"]]) -> Float[Tensor, "*batch feature"]:
        """Features of the members, in their order, as those of this network."""
        return torch.cat([_of_one_length(own) for own in features], dim=-1)

    def _converted(self, images: Tensor, own: Preprocessing) -> Tensor:
        """Images as a member normalises them."""
        mean, std = self.preprocessing.mean, self.preprocessing.std
        if (mean, std) == (own.mean, own.std):
            return images
        factor = [ours / theirs for ours, theirs in zip(std, own.std, strict=True)]
        shift = [(ours - theirs) / size for ours, theirs, size in zip(mean, own.mean, own.std, strict=True)]
        by, plus = (torch.tensor(one, dtype=images.dtype, device=images.device) for one in (factor, shift))
        return images * by[:, None, None] + plus[:, None, None]

    def extra_repr(self) -> str:
        """What decides the features beside the layers: how each member normalises pixels."""
        rules = [(one.preprocessing.mean, one.preprocessing.std) for one in self.parts]
        return "; ".join(f"mean={mean}, std={std}" for mean, std in rules)


def _of_one_length(features: Tensor) -> Tensor:
    """Features with a root mean square of 1."""
    length = torch.linalg.vector_norm(features, dim=-1, keepdim=True).clamp_min(_SMALLEST)
    scaled: Tensor = features * (features.shape[-1] ** 0.5) / length
    return scaled
