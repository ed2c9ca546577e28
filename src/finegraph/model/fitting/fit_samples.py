"""The samples that a head is fitted to, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from finegraph.errors import InputError, ShapeError, TargetError, unknown_name
from finegraph.graph import LabelGraph

NOT_OBSERVED = -100
"""Marks a label that was not observed, as in `joint_loss`."""


class FitSamples(NamedTuple):
    """Samples in the form that fitting needs.

    Attributes:
        columns: the features of each sample and the column of the bias; a second matrix for the features of the coarse
            labels if they have their own.
        target: the fine label of each sample, -100 if not observed.
        kind_targets: per kind the photo label of each sample, -100 if there is none; per number the measured value,
            NaN if there is none.
        weight: the weight of each sample; they sum to 1.
    """

    columns: tuple[Float[Tensor, "batch column"], ...]
    target: Int[Tensor, " batch"]
    kind_targets: Mapping[str, Int[Tensor, " batch"] | Float[Tensor, " batch"]]
    weight: Float[Tensor, " batch"]

    def split(self, size: int) -> list[FitSamples]:
        """The samples, `size` at a time."""
        return [
            FitSamples(
                tuple(columns[start : start + size] for columns in self.columns),
                self.target[start : start + size],
                {name: labels[start : start + size] for name, labels in self.kind_targets.items()},
                self.weight[start : start + size],
            )
            for start in range(0, len(self.target), size)
        ]


def sample_weights(
    features: Shaped[Tensor, " ..."],
    targets: Shaped[Tensor, " ..."],
    kind_targets: Mapping[str, Shaped[Tensor, " ..."]],
    sample_weight: Shaped[Tensor, " ..."] | None,
    numbers: Sequence[str] = (),
) -> Float[Tensor, " batch"]:
    """The weight of each sample; they sum to 1, and are 0 if nothing was observed. Raises if samples are invalid.

    Args:
        features: the features of the samples.
        targets: their fine labels.
        kind_targets: their photo labels and measured values.
        sample_weight: the weight of each; by default all are equal.
        numbers: the names in `kind_targets` that are numbers.
    """
    check_features("features", features)
    observed = torch.zeros(len(features), dtype=torch.bool, device=features.device)
    for name, labels in {"targets": targets, **kind_targets}.items():
        measured = name in numbers
        if labels.shape != (len(features),) or labels.dtype.is_floating_point != measured:
            what = "measured values as floating-point numbers" if measured else "label indices"
            raise ShapeError(
                f"{name}: expected {what}, one for each of {len(features)} samples, got {labels.dtype} "
                f"of shape {tuple(labels.shape)}"
            )
        observed |= ~labels.isnan() if measured else labels != NOT_OBSERVED
    weight = observed.to(features.dtype) if sample_weight is None else sample_weight.to(features) * observed
    if weight.shape != observed.shape or not bool((torch.isfinite(weight) & (weight >= 0)).all()):
        raise InputError(f"sample_weight: expected {len(features)} finite numbers of at least 0")
    total = float(weight.sum())
    if total <= 0:
        raise TargetError("there is no sample with an observed label and a weight above 0; nothing can be fitted")
    return weight / total


def check_features(what: str, features: Shaped[Tensor, " ..."]) -> None:
    """Raise if features are not a matrix of finite numbers."""
    if features.ndim != 2 or features.dtype not in (torch.float32, torch.float64) or features.shape[1] < 1:
        raise ShapeError(
            f"{what}: expected a float32 or float64 matrix (samples, features) with at least one column, got "
            f"{features.dtype} of shape {tuple(features.shape)}"
        )
    if not bool(torch.isfinite(features).all()):
        raise InputError(f"{what}: expected finite numbers, got NaN or infinity; clean the features first")
    if features.numel() and not bool(torch.isfinite((largest := features.abs().max()).square())):
        name = str(features.dtype).removeprefix("torch.")
        raise InputError(
            f"{what}: numbers as large as {float(largest):.0e} overflow in {name} when they are squared; divide the "
            "features by their standard deviation first"
        )


def check_coarse_features(coarse_features: Shaped[Tensor, " ..."], features: Shaped[Tensor, " ..."]) -> None:
    """Raise if the features of coarse labels do not match those of fine labels."""
    check_features("coarse features", coarse_features)
    if len(coarse_features) != len(features) or coarse_features.dtype != features.dtype:
        raise ShapeError(
            f"coarse features: expected {len(features)} rows of {features.dtype}, as the features have, got "
            f"{len(coarse_features)} of {coarse_features.dtype}"
        )


def check_used(kind_weights: Mapping[str, float], kind_targets: Mapping[str, Shaped[Tensor, " ..."]]) -> None:
    """Raise if photo labels would be ignored."""
    for name in kind_targets:
        if name not in kind_weights:
            raise unknown_name("kind", name, tuple(kind_weights), "in kind_targets")
        if kind_weights[name] == 0:
            raise InputError(
                f"kind_targets: labels of the kind {name!r} are given but its weight in the loss is 0, so they would "
                "be ignored; give the kind a weight, or leave its labels out"
            )


def check_fine(seen: Int[Tensor, " batch"], graph: LabelGraph) -> None:
    """Raise if a target is not a fine label of the graph."""
    wrong = seen[((seen < 0) | (seen >= len(graph))) & (seen != NOT_OBSERVED)]
    if len(wrong):
        raise TargetError(
            f"targets: got label {int(wrong[0])}, expected 0 to {len(graph) - 1}, or {NOT_OBSERVED} where it was not "
            "observed"
        )
