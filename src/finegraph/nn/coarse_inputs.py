"""What the layers of coarse labels and numbers take, in a whole head and in one whose labels are sharded.

one feature     the features of the fine labels
two features    another tensor, one layer for all coarse labels and one for all numbers
one per kind    a mapping from each kind and number to a tensor, and a layer for each
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from finegraph.errors import InputError, ShapeError, unknown_name
from finegraph.graph import LabelGraph

CoarseFeatures = Float[Tensor, "batch coarse_feature"] | Mapping[str, Float[Tensor, "batch _"]] | None
CoarseSizes = int | Mapping[str, int] | None
"""The number of columns of such features; None for those of the fine labels."""


def check_sizes(sizes: CoarseSizes, graph: LabelGraph) -> None:
    """Raise unless sizes are positive, and given for exactly the kinds and numbers of the graph if by name."""
    given = sizes.values() if isinstance(sizes, Mapping) else [sizes]
    if any(size is not None and size < 1 for size in given):
        raise InputError(f"coarse_features: expected sizes of at least 1, got {sizes!r}")
    if not isinstance(sizes, Mapping):
        return
    names = (*graph.kinds, *graph.numbers)
    for name in sizes:
        if name not in names:
            raise unknown_name("kind", name, names)
    for name in names:
        if name not in sizes:
            what = _word(name, graph)
            raise InputError(f"coarse_features: the {what} {name!r} is missing; give every {what} a size")


def check_columns(what: str, features: Float[Tensor, " ..."], size: int) -> None:
    """Raise unless features are a matrix with this many columns."""
    if features.ndim != 2 or features.shape[1] != size:
        raise ShapeError(f"{what}: expected shape (batch, {size}), got {tuple(features.shape)}")


def common_input(
    features: Float[Tensor, "batch feature"], coarse_features: CoarseFeatures, size: int | None
) -> Float[Tensor, "batch _"]:
    """The input of the layers of all coarse labels and of all numbers, checked.

    Args:
        features: the features of the fine labels.
        coarse_features: other features for coarse labels and numbers.
        size: how many columns these have; None for a head with one feature.
    """
    if size is None:
        if coarse_features is not None:
            raise InputError("this head uses one feature for fine and coarse labels; it takes no coarse features")
        return features
    if not isinstance(coarse_features, Tensor):
        raise InputError(
            f"this head needs coarse features too: a tensor of shape (batch, {size}), "
            f"got {type(coarse_features).__name__}"
        )
    check_columns("coarse features", coarse_features, size)
    return coarse_features


def inputs_by_name(
    coarse_features: CoarseFeatures, sizes: Mapping[str, int], graph: LabelGraph
) -> list[Float[Tensor, "batch _"]]:
    """The inputs of the layers of each kind, then of each number, checked.

    Args:
        coarse_features: features by kind and number.
        sizes: how many columns these have.
        graph: the label graph.
    """
    names = (*graph.kinds, *graph.numbers)
    if not isinstance(coarse_features, Mapping):
        raise InputError(f"this head needs features per kind: a mapping from each of {names} to a tensor")
    for name in coarse_features:
        if name not in names:
            raise unknown_name("kind", name, names, "in the coarse features")
    for name in names:
        if name not in coarse_features:
            what = _word(name, graph)
            raise InputError(f"coarse features: the {what} {name!r} is missing; give features for every {what}")
        check_columns(f"coarse features of {name!r}", coarse_features[name], sizes[name])
    return [coarse_features[name] for name in names]


def layers_of(layer: nn.Module) -> list[nn.Linear]:
    """The layers of coarse labels or numbers: one, or one for each."""
    layers = layer if isinstance(layer, nn.ModuleList) else [layer]
    return [one for one in layers if isinstance(one, nn.Linear)]


def stacked_weights(coarse: nn.Module) -> Float[Tensor, "coarse _"]:
    """The weights of all coarse labels, kind after kind; all must have features of one size."""
    layers = layers_of(coarse)
    if not isinstance(coarse, nn.ModuleList):
        return layers[0].weight
    sizes = {layer.in_features for layer in layers}
    if len(sizes) > 1:
        raise ShapeError(
            f"the coarse weights have different feature sizes per kind, {sorted(sizes)}: they do not stack"
        )
    return torch.cat([layer.weight for layer in layers])


def _word(name: str, graph: LabelGraph) -> str:
    return "number" if name in graph.numbers else "kind"
