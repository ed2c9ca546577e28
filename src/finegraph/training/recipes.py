"""Recipes: the defaults of training the whole network.

fitted  starts from the fitted head, moves the backbone a little, and fits the head again after each epoch
short   starts from a new head; a few epochs of one cycle with label smoothing
paper   what the paper's networks were fine-tuned with: Caffe's rates and steps, kinds with weight 1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The numbers of fine-tuning; each has the name of its setting, which says what it is."""

    epochs: int
    batch_size: int
    lr: float
    new_rate: float
    momentum: float
    weight_decay: float
    schedule: Literal["one_cycle", "steps"]
    drop_every: int
    warmup: float
    label_smoothing: float
    view_share: float
    nesterov: bool
    decay_vectors: bool
    scale_rates: bool
    fixed_statistics: bool
    optimizer: Literal["sgd", "adamw"] = "sgd"
    start: Literal["fitted", "new"] = "new"
    refit: bool = False
    frozen_share: float = 0.0
    layer_decay: float = 1.0
    train_scale: float = 1.0
    judge_every: int = 1
    kind_weight: float | None = None


RECIPES = {
    "fitted": Recipe(
        epochs=2,
        batch_size=16,
        lr=3e-4,
        new_rate=0.0,
        momentum=0.9,
        weight_decay=0.01,
        schedule="one_cycle",
        drop_every=20,
        warmup=0.1,
        label_smoothing=0.0,
        view_share=0.3,
        nesterov=False,
        decay_vectors=False,
        scale_rates=True,
        fixed_statistics=True,
        optimizer="adamw",
        start="fitted",
        refit=True,
        train_scale=0.7,
        judge_every=2,
    ),
    "short": Recipe(
        epochs=8,
        batch_size=32,
        lr=0.01,
        new_rate=5.0,
        momentum=0.9,
        weight_decay=5e-4,
        schedule="one_cycle",
        drop_every=20,
        warmup=0.2,
        label_smoothing=0.1,
        view_share=0.3,
        nesterov=True,
        decay_vectors=False,
        scale_rates=True,
        fixed_statistics=False,
    ),
    "paper": Recipe(
        epochs=100,
        batch_size=128,
        lr=0.001,
        new_rate=10.0,
        momentum=0.9,
        weight_decay=5e-4,
        schedule="steps",
        drop_every=20,
        warmup=0.0,
        label_smoothing=0.0,
        view_share=1.0,
        nesterov=False,
        decay_vectors=True,
        scale_rates=False,
        fixed_statistics=False,
        kind_weight=1.0,
    ),
}
