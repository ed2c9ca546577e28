"""Backbones and a head in one module: photos in, a posterior over the label graph out.

    pixels -> backbone -> features -> scaling (if the head was fitted in closed form) ----> head -> posterior
           -> coarse backbone (BGL_m only) -> coarse features ---------------------------^

It takes pixels from 0 to 255, and each backbone normalises them itself. So two backbones may have different
architectures; both see the same views. Auxiliary heads exist only for training.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from jaxtyping import Float, UInt8
from torch import Tensor, nn

from finegraph.errors import InputError, refuse_unknown, unknown_name
from finegraph.graph import LabelGraph
from finegraph.inference import Posterior
from finegraph.nn.backbones import Backbone, build_backbone
from finegraph.nn.backbones.build import DEFAULT_BACKBONE
from finegraph.nn.heads import BipartiteHead, SoftmaxHead
from finegraph.nn.scaling import BlockScaling, FeatureScaling, Scaling
from finegraph.nn.sharded_head import ShardedHead

HEADS = ("bipartite", "softmax")
SCALINGS = ("whitened", "whitened_blocks", "compressed", "compressed_blocks")


@dataclass(frozen=True, kw_only=True)
class NetworkDesign:
    """What a network consists of: enough to build it again and load its weights.

    Attributes:
        network: the backbone by name; see `finegraph.nn.backbones.build`.
        head: `bipartite` (BGL) or `softmax` (SM).
        coarse_network: the backbone of the coarse labels by name, which makes a bipartite head BGL_m; None for BGL_1.
        scaling: the step between backbone and head: `whitened` for a `FeatureScaling`, `whitened_blocks` for a
            `BlockScaling` with a block for each network that the backbone joins, `compressed` and `compressed_blocks`
            for the same with a compression; None for unscaled features.
    """

    network: str = DEFAULT_BACKBONE
    head: str = "bipartite"
    coarse_network: str | None = None
    scaling: str | None = None

    def __post_init__(self) -> None:
        if self.head not in HEADS:
            raise unknown_name("head", self.head, HEADS)
        if self.coarse_network is not None and self.head == "softmax":
            raise InputError(
                f"a softmax head has no coarse scores and so no use for the coarse network {self.coarse_network!r}; "
                "leave it out, or choose the bipartite head"
            )
        if self.scaling is not None and self.scaling not in SCALINGS:
            raise unknown_name("scaling", self.scaling, SCALINGS)
        if self.scaling is not None and self.coarse_network is not None:
            raise InputError("scaling: features are scaled for heads with one feature; leave out the coarse network")

    def to_dict(self) -> dict[str, str | None]:
        """The design as a JSON object. Without a scaling the entry is left out, as in files of earlier versions."""
        values: dict[str, str | None] = asdict(self)
        return values if self.scaling is not None else {n: v for n, v in values.items() if n != "scaling"}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> NetworkDesign:
        """The inverse of `to_dict`."""
        refuse_unknown("setting", values, [field.name for field in fields(cls)], "of the network")
        return cls(**values)


class Network(nn.Module):
    """One or two backbones and a head.

    Example:
        >>> import torch
        >>> graph = LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "x"}, "c": {"dish": "y"}})
        >>> network = build_network(graph).eval()
        >>> network(torch.zeros(2, 3, 64, 64, dtype=torch.uint8)).log_probs("dish").shape
        torch.Size([2, 2])
    """

    head: BipartiteHead | SoftmaxHead

    def __init__(
        self,
        design: NetworkDesign,
        backbone: Backbone,
        head: BipartiteHead | SoftmaxHead | ShardedHead,
        coarse_backbone: Backbone | None = None,
        scaling: Scaling | None = None,
    ) -> None:
        """Combine the parts; `build_network` makes them.

        Args:
            design: the names of the parts.
            backbone: the network of the fine labels, and of the coarse labels if there is no other.
            head: the head, which takes the features of the backbones.
            coarse_backbone: the network of the coarse labels, for BGL_m.
            scaling: the step between backbone and head; None if there is none.

        Raises:
            InputError: the labels of the head are sharded, and there are auxiliary heads.
        """
        super().__init__()
        self.design = design
        self.backbone, self.coarse_backbone, self.scaling = backbone, coarse_backbone, scaling
        if isinstance(head, ShardedHead):
            if backbone.auxiliary_sizes:
                raise InputError(
                    "a sharded head goes with a backbone without auxiliary branches; build it without them"
                )
            self.share_head(head)
            self.auxiliary_heads = nn.ModuleList()
        else:
            self.head = head
            self.auxiliary_heads = nn.ModuleList(type(head)(size, head.graph) for size in backbone.auxiliary_sizes)

    @property
    def graph(self) -> LabelGraph:
        """The label graph of the head."""
        return self.head.graph

    @property
    def shared_head(self) -> ShardedHead | None:
        """The head, where processes that train share its labels out; None for a head that answers by itself."""
        head: object = self.head
        return head if isinstance(head, ShardedHead) else None

    def share_head(self, head: ShardedHead) -> None:
        """Take a head of which this process holds a part; until a head is put back, the network has no posterior."""
        self.head = head  # type: ignore[assignment]

    @property
    def auxiliary_weight(self) -> float:
        """The weight of the loss of each auxiliary head; the main loss has weight 1."""
        return self.backbone.auxiliary_weight

    def features(
        self, pixels: UInt8[Tensor, "batch channel height width"]
    ) -> tuple[Float[Tensor, "batch feature"], Float[Tensor, "batch coarse_feature"] | None]:
        """The features of the backbone, and those of the coarse backbone if there is one."""
        return self.backbone(self._images(self.backbone, pixels)), self._coarse_features(pixels)

    @property
    def feature_sizes(self) -> tuple[int, ...]:
        """The number of columns of the features that the head takes: of one backbone or of both."""
        both = (self.backbone, self.coarse_backbone)
        return tuple(backbone.feature_size for backbone in both if backbone is not None)

    def head_features(
        self, pixels: UInt8[Tensor, "batch channel height width"]
    ) -> tuple[Float[Tensor, "batch feature"], Float[Tensor, "batch coarse_feature"] | None]:
        """The features that the head takes."""
        features, coarse_features = self.features(pixels)
        return self.scaled(features), coarse_features

    def scaled(self, features: Float[Tensor, "batch feature"]) -> Float[Tensor, "batch feature"]:
        """The features of the backbone as the head takes them."""
        if self.scaling is None:
            return features
        scaled: Tensor = self.scaling(features)
        return scaled

    def of_features(
        self,
        features: Float[Tensor, "batch feature"],
        coarse_features: Float[Tensor, "batch coarse_feature"] | None = None,
    ) -> Posterior:
        """The posterior of features: scaling and head alone."""
        features = self.scaled(features)
        posterior: Posterior = self.head(features) if coarse_features is None else self.head(features, coarse_features)
        return posterior

    def put_head(self, head: BipartiteHead | SoftmaxHead, scaling: Scaling | None = None) -> None:
        """Replace the head by one that was fitted to the features of this network, with the scaling that it needs."""
        self.head, self.scaling = head, scaling
        self.design = replace(self.design, scaling=None if scaling is None else _name_of(scaling))

    def take_graph(self, graph: LabelGraph) -> None:
        """Replace the head by a new one of the same type for another graph with the same fine labels."""
        head = self.head
        if isinstance(head, BipartiteHead):
            new: BipartiteHead | SoftmaxHead = BipartiteHead(head.features, graph, coarse_features=head.coarse_features)
        else:
            new = SoftmaxHead(head.features, graph)
        self.put_head(new.to(head.fine.weight), self.scaling)

    def with_head(self, head: BipartiteHead | SoftmaxHead) -> Network:
        """A network with the same backbones and scaling and another head of the same type; this one is unchanged."""
        network = Network(self.design, self.backbone, head, self.coarse_backbone, self.scaling)
        return network.train(self.training)

    def expect_scaling(self, name: str | None) -> None:
        """Add an empty scaling with the name that a design has for it, so that saved weights can be loaded."""
        scaling = _new_scaling(name, self.backbone)
        self.scaling = None if scaling is None else scaling.to(self.head.fine.weight.device)
        self.design = replace(self.design, scaling=name)

    def forward(self, pixels: UInt8[Tensor, "batch channel height width"]) -> Posterior:
        """The posterior of each photo."""
        return self.of_features(*self.features(pixels))

    def forward_with_auxiliary(
        self, pixels: UInt8[Tensor, "batch channel height width"]
    ) -> tuple[Posterior, tuple[Posterior, ...]]:
        """The posterior, and those of the auxiliary heads, for a training step.

        Auxiliary branches are those of the backbone of the fine labels; their bipartite heads have one feature.
        """
        features, auxiliary = self.backbone.forward_with_auxiliary(self._images(self.backbone, pixels))
        posterior = self.of_features(features, self._coarse_features(pixels))
        return posterior, tuple(head(own) for head, own in zip(self.auxiliary_heads, auxiliary, strict=True))

    def _coarse_features(self, pixels: Tensor) -> Tensor | None:
        if self.coarse_backbone is None:
            return None
        features: Tensor = self.coarse_backbone(self._images(self.coarse_backbone, pixels))
        return features

    def _images(self, backbone: Backbone, pixels: Tensor) -> Tensor:
        """The normalised input of a backbone, in the precision of the weights."""
        return backbone.preprocessing.normalise(pixels).to(self.head.fine.weight.dtype)

    def parameter_groups(
        self, lr: float, new_rate: float = 1.0, *, scaled: bool = True, layer_decay: float = 1.0
    ) -> list[dict[str, Any]]:
        """Parameters with learning rates for an optimizer.

        Args:
            lr: the rate of the backbones.
            new_rate: the rate of the heads, which are new, as a multiple of `lr`.
            scaled: whether the rates of heads are scaled so that they mean the same for every head and graph; see
                `BipartiteHead.parameter_groups`. The paper does not scale them.
            layer_decay: the rate of each layer of a backbone, as a multiple of that of the next layer.
        """
        groups = [
            {"params": weights, "lr": lr * layer_decay**place}
            for place, weights in enumerate(self._trained_layers(deep=layer_decay != 1.0))
            if weights
        ]
        for head in (self.head, *self.auxiliary_heads):
            assert isinstance(head, BipartiteHead | SoftmaxHead | ShardedHead)
            own = head.parameter_groups(lr * new_rate)
            groups.extend(own if scaled else [{**group, "lr": lr * new_rate} for group in own])
        return groups

    def _trained_layers(self, *, deep: bool) -> list[list[nn.Parameter]]:
        """The trained weights of the backbones by their distance from the features; all at distance 0 if not `deep`."""
        backbones = [part for own in (self.backbone, self.coarse_backbone) if own is not None for part in own.parts]
        distances = {
            weight: place
            for part in backbones
            for place, layer in enumerate(reversed(part.layers))
            for weight in layer.parameters()
        }
        layers: list[list[nn.Parameter]] = [[] for _ in range(max(distances.values(), default=0) + 1)]
        for part in backbones:
            for weight in part.parameters():
                if weight.requires_grad:
                    layers[distances.get(weight, 0) if deep else 0].append(weight)
        return layers


def build_network(
    graph: LabelGraph,
    design: NetworkDesign | None = None,
    *,
    weights: str | os.PathLike[str] | None = None,
    coarse_weights: str | os.PathLike[str] | None = None,
    dropout: float | None = None,
    auxiliary: bool = True,
    make_head: Callable[[Backbone, Backbone | None], ShardedHead] | None = None,
) -> Network:
    """A network for a label graph, with an untrained head.

    Args:
        graph: the label graph.
        design: the parts; by default the default network with a bipartite head.
        weights: the weights of the backbone: None for untrained, "default" for ImageNet weights, or a file.
        coarse_weights: the weights of the coarse backbone, likewise.
        dropout: the dropout rate in training; None for the usual rate of each backbone.
        auxiliary: whether to build the auxiliary branches of a backbone that has them; only training uses them.
        make_head: makes the head for one backbone or two, where processes that train share its labels out; by default
            it is an ordinary one.
    """
    design = design or NetworkDesign()
    backbone = build_backbone(design.network, weights, dropout=dropout, auxiliary=auxiliary)
    coarse = None
    if design.coarse_network is not None:
        coarse = build_backbone(design.coarse_network, coarse_weights, dropout=dropout, auxiliary=False)
    head: BipartiteHead | SoftmaxHead | ShardedHead
    if make_head is not None:
        head = make_head(backbone, coarse)
    elif design.head == "softmax":
        head = SoftmaxHead(backbone.feature_size, graph)
    else:
        size = None if coarse is None else coarse.feature_size
        head = BipartiteHead(backbone.feature_size, graph, coarse_features=size)
    return Network(design, backbone, head, coarse, _new_scaling(design.scaling, backbone))


def _new_scaling(name: str | None, backbone: Backbone) -> Scaling | None:
    """An empty scaling by its name in a design, for the features of a backbone."""
    if name is None:
        return None
    compressed = name.startswith("compressed")
    if not name.endswith("_blocks"):
        return FeatureScaling(backbone.feature_size, compressed=compressed)
    return BlockScaling([FeatureScaling(size, compressed=compressed) for size in backbone.block_sizes])


def _name_of(scaling: Scaling) -> str:
    """The name of a scaling in a design."""
    name = "compressed" if scaling.compressed else "whitened"
    return f"{name}_blocks" if isinstance(scaling, BlockScaling) else name
