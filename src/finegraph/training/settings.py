"""The settings of a training run: one name for each, in a TOML file, on the command line and in Python.

What is not given comes from the recipe (`RECIPES`), then from the defaults here. `resolve` fills everything in, and the
resolved settings are what a run saves: reading them back gives the same run. Nothing here needs torch, so that the
command line can list the settings quickly.
"""

from __future__ import annotations

import dataclasses
import math
import os
import types
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache, wraps
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from finegraph.errors import SettingsError, refuse_unknown
from finegraph.files.toml_text import read_toml
from finegraph.training.recipes import RECIPES, Recipe

DEFAULT_NETWORK = "efficientnet_lite0"
LEARNT = ("cells", "tree")
"""What photos can teach about the graph."""
QUALITIES = {
    "fast": DEFAULT_NETWORK,
    "balanced": "efficientnet_lite0+efficientnet_lite2",
    "best": "efficientnet_lite0+efficientnet_lite1+efficientnet_lite2",
}
"""The networks of each quality; what each costs and gains is in docs/results.md."""


def _setting(
    default: Any, about: str, *, free: bool = False, least: float | None = None, below: float | None = None
) -> Any:
    """A setting: its default, what it is, whether a resumed run may change it, and its range."""
    return field(default=default, metadata={"about": about, "free": free, "least": least, "below": below})


FORMER_NAMES = {"image_labels": "photo_labels", "photos_per_class": "photos_per_label"}
"""Settings that once had another name, which TOML files, command lines and Python may still use."""


def with_current_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings under their current names.

    Raises:
        SettingsError: a setting is given under both of its names.
    """
    for former, name in FORMER_NAMES.items():
        if former in values and name in values:
            raise SettingsError(f"{former} is the former name of {name}, and both are given; keep {name}")
    return {FORMER_NAMES.get(name, name): value for name, value in values.items()}


def _takes_former_names(settings: type[TrainSettings]) -> type[TrainSettings]:
    """Let settings be made by former names too, with a warning."""
    make = settings.__init__

    @wraps(make)
    def __init__(self: TrainSettings, **values: Any) -> None:  # noqa: N807
        for former in FORMER_NAMES.keys() & values.keys():
            warnings.warn(f"{former} is called {FORMER_NAMES[former]} now", DeprecationWarning, stacklevel=2)
        make(self, **with_current_names(values))

    settings.__init__ = __init__  # type: ignore[method-assign]
    return settings


@_takes_former_names
@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """All settings of a run. None means: decided by the recipe, the network or the data."""

    # What to learn from.
    data: str = _setting(
        "", "photos: a folder per class, a manifest (.csv), cub:FOLDER, cars:FOLDER or grocery:FOLDER", free=True
    )
    graph: str | None = _setting(
        None,
        "the graph: a file or a label store (.db); by default the graph that the source of the photos implies",
        free=True,
    )
    comparisons: str | None = _setting(
        None,
        "comparisons (.csv) of fine labels or photos, such as which is hotter; each compared kind becomes a "
        "number of the graph",
        free=True,
    )
    kinds: tuple[str, ...] | None = _setting(None, "the kinds of the graph to use; by default all")
    suggest: bool = _setting(
        False, "add the kinds that names, looks and confusions suggest, for sure answers without a graph"
    )
    learn: tuple[str, ...] | None = _setting(
        None, "what to learn about the graph from photos: cells (the empty ones), tree (groups of fine labels), or both"
    )
    train_split: str = _setting("train", "the split to train on; a source without splits is used whole")
    val_split: str | None = _setting(None, "the split to validate on; by default `val` if there is one")
    val_share: float | None = _setting(
        None,
        "the share of each class to hold out if there is no such split; by default about a fifth if the "
        "source has no splits, otherwise none",
        least=0,
        below=1,
    )
    photos_per_label: int | None = _setting(
        None, "train on this number of photos of each class, drawn by the seed", least=1
    )
    box: bool = _setting(False, "cut photos to their boxes")
    photo_labels: Literal["use", "ignore"] | None = _setting(
        None, "use or ignore photo labels; by default they are used, except in cub:FOLDER, as in the paper"
    )
    on_bad_file: Literal["error", "skip"] = _setting("error", "the reaction to a photo that cannot be read")

    # The network.
    network: str = _setting(
        DEFAULT_NETWORK,
        "the network: efficientnet_lite0..2, alexnet, googlenet, vgg16, timm:NAME, or several joined by +",
    )
    quality: Literal["fast", "balanced", "best"] | None = _setting(
        None, "one, two or three networks side by side, instead of network; more are better and slower"
    )
    coarse_network: str | None = _setting(None, "a second network for the coarse labels (BGL_m)")
    weights: str = _setting("default", "the network's first weights: default (ImageNet), none, or a file")
    coarse_weights: str = _setting("default", "the same for the second network")
    head: Literal["bipartite", "softmax"] = _setting(
        "bipartite", "the last layer: with the label graph, or plain softmax"
    )
    size: int | None = _setting(None, "width and height of the views in pixels; by default the network's own", least=32)
    keep_shape: bool = _setting(False, "resize the shorter side only; by default photos are squeezed to a square")
    dropout: float | None = _setting(None, "the dropout rate; by default the network's own", least=0, below=1)

    # Both ways to train.
    tune: Literal["head", "all"] = _setting("head", "train the last layer on stored features, or the whole network")
    seed: int = _setting(0, "the random seed", least=0, below=2**32)
    kind_weight: float | None = _setting(None, "the weight of each kind in the loss; by default 1 / kinds", least=0)
    laplacian: float = _setting(0.0, "the strength of the prior that ties linked weights", least=0)

    # Tuning the head.
    fit: Literal["auto", "prototypes", "descent"] = _setting(
        "auto",
        "how the head is fitted: as class means in closed form, by descent, or by the better one on held-out photos",
    )
    train_views: int = _setting(
        3,
        "views of each training photo whose features are averaged: the whole photo, then up to four parts of it",
        least=1,
        below=6,
    )
    l2: float | None = _setting(None, "the strength of the prior on the weights of the fine labels", least=0)
    coarse_ratio: float | None = _setting(
        None, "the strength for the coarse labels, as a multiple of l2; by default kinds / 16", least=0
    )
    choose: bool = _setting(False, "choose the strengths by validation (cross-validation without a val split)")

    # Tuning all.
    recipe: Literal["fitted", "short", "paper"] = _setting("fitted", "the defaults of the settings below")
    epochs: int | None = _setting(None, "the number of passes over the photos", least=1)
    batch_size: int | None = _setting(None, "photos per step, over all processes", least=1)
    lr: float | None = _setting(None, "the learning rate of pretrained layers", least=0)
    new_rate: float | None = _setting(None, "the rate of new layers, as a multiple of lr", least=0)
    momentum: float | None = _setting(None, "the momentum of SGD, or the first beta of AdamW", least=0, below=1)
    weight_decay: float | None = _setting(None, "the weight decay", least=0)
    schedule: Literal["one_cycle", "steps"] | None = _setting(None, "the schedule of the learning rate")
    drop_every: int | None = _setting(
        None, "with steps: the number of epochs after which the rate falls to a tenth", least=1
    )
    warmup: float | None = _setting(
        None, "with one_cycle: the share of steps in which the rate rises", least=0, below=1
    )
    label_smoothing: float | None = _setting(
        None, "the share of the fine target that is spread over all labels", least=0, below=1
    )
    view_share: float | None = _setting(
        None, "the smallest share of a photo that a random view shows; 1 for the paper's views", least=0.01
    )
    optimizer: Literal["sgd", "adamw"] | None = _setting(None, "how gradients move the weights")
    start: Literal["fitted", "new"] | None = _setting(
        None, "the head to start from: fitted to stored features, or new; a fitted one is validated as epoch 0"
    )
    refit: bool | None = _setting(None, "fit the head again before each validation")
    judge_every: int | None = _setting(
        None, "the number of epochs between validations, and new fits of the head; the last epoch has both", least=1
    )
    frozen_share: float | None = _setting(
        None, "the share of the pretrained layers that stay fixed, counted from the input", least=0, below=1
    )
    layer_decay: float | None = _setting(
        None, "the rate of each pretrained layer as a multiple of the rate of the next layer", least=0.01
    )
    train_scale: float | None = _setting(
        None, "width and height of training views as a share of size, rounded to a multiple of 32", least=0.1
    )
    nesterov: bool | None = _setting(None, "with sgd: look ahead with the momentum")
    decay_vectors: bool | None = _setting(None, "apply weight decay to biases and normalisation layers too")
    scale_rates: bool | None = _setting(
        None, "divide the head's rate by kinds + 1, so that it is comparable between graphs"
    )
    fixed_statistics: bool | None = _setting(None, "keep the batch statistics of the pretrained network")
    auxiliary: bool = _setting(True, "train GoogLeNet's auxiliary branches too; if not, no weights are needed for them")
    best_by: Literal["top1", "nll"] = _setting(
        "top1", "the validation metric that chooses the best epoch; the other one breaks ties"
    )

    # How to run. None of these changes what is learnt, up to rounding.
    device: str = _setting("auto", "the device: cpu, cuda, or auto", free=True)
    precision: Literal["float32", "float64", "bfloat16"] = _setting(
        "float32", "the precision of the computation; bfloat16 is autocast"
    )
    shard_labels: bool = _setting(
        False,
        "split the labels of the last layer among the processes of a job; each process holds the rows of some of them",
    )
    shard_groups: int = _setting(
        1,
        "with shard_labels: the number of groups of processes; each group holds all labels and takes photos of its own",
        free=True,
        least=1,
    )
    threads: int | None = _setting(None, "threads of torch; by default one per core", free=True, least=1)
    workers: int | None = _setting(
        None, "threads that decode photos; by default as many as torch has", free=True, least=1
    )
    checkpoint_minutes: float = _setting(5.0, "the minutes between checkpoints within an epoch", free=True, least=0)
    cache: str | None = _setting(None, "the cache of features; by default the user's cache folder", free=True)
    tensorboard: bool = _setting(False, "write logs for TensorBoard too", free=True)

    def __post_init__(self) -> None:
        for setting in fields(self):
            object.__setattr__(
                self, setting.name, _checked(setting.name, getattr(self, setting.name), setting.metadata)
            )
        if self.quality is not None and self.network not in (DEFAULT_NETWORK, QUALITIES[self.quality]):
            raise SettingsError(
                f"quality: {self.quality} is the network {QUALITIES[self.quality]}, and network is {self.network}; "
                "give one of the two"
            )
        if self.head == "softmax" and self.coarse_network is not None:
            raise SettingsError(
                "coarse_network: a softmax head has no coarse scores; leave it out, or use head bipartite"
            )
        if self.fit == "prototypes" and self.coarse_network is not None:
            raise SettingsError("coarse_network: class means have one feature; leave it out, or use fit descent")
        refuse_unknown("value", self.learn or (), LEARNT, "of the setting learn")
        if self.head == "softmax" and self.laplacian:
            raise SettingsError("laplacian: this prior ties fine to coarse weights, which a softmax head has none of")
        if self.shard_labels:
            self._check_shared()
        elif self.shard_groups > 1:
            raise SettingsError("shard_groups: no effect without shard_labels; set it too, or leave this one out")

    def _check_shared(self) -> None:
        """Raise if the labels of the last layer are to be sharded, and something else stands against it."""
        against = {
            "head": self.head == "softmax" and "a softmax head cannot be sharded; use head bipartite",
            "comparisons": self.comparisons is not None and "photos that were compared are ranked by a whole head",
            "suggest": self.suggest
            and "suggested kinds change the graph, and processes that share labels out need one",
            "learn": bool(self.learn)
            and "a graph that is learnt changes, and processes that share labels out need one",
        }
        faults = [f"{name}: {fault}" for name, fault in against.items() if fault]
        if faults:
            raise SettingsError(
                f"shard_labels does not go with other settings; leave it or them out: {'; '.join(faults)}"
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "") -> TrainSettings:
        """Settings from names and values; former names are accepted, unknown ones refused with near matches."""
        values = with_current_names(values)
        refuse_unknown("setting", values, [setting.name for setting in fields(cls)], f"in {where}" if where else "")
        return cls(**values)

    def resolve(self) -> TrainSettings:
        """The same settings with what the recipe says filled in, and the network instead of a quality.

        A softmax head learns the fine labels alone.
        """
        values = dataclasses.asdict(RECIPES[self.recipe])
        if self.head == "softmax":
            values["kind_weight"] = 0.0
        missing = {name: value for name, value in values.items() if getattr(self, name) is None}
        network = self.network if self.quality is None else QUALITIES[self.quality]
        return dataclasses.replace(self, **missing, network=network, quality=None)

    def numbers(self) -> Recipe:
        """The numbers of fine-tuning: those of the recipe, unless these settings say otherwise."""
        resolved = self.resolve()
        return Recipe(**{setting.name: getattr(resolved, setting.name) for setting in fields(Recipe)})

    def to_dict(self) -> dict[str, Any]:
        """What is set, by name; what is None is left out, as TOML has no such thing."""
        values = {setting.name: getattr(self, setting.name) for setting in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
            if value is not None
        }

    def changed(self, other: TrainSettings) -> tuple[str, ...]:
        """The names of settings that differ and that a resumed run may not change."""
        return tuple(
            setting.name
            for setting in fields(self)
            if not setting.metadata["free"] and getattr(self, setting.name) != getattr(other, setting.name)
        )


_OF_ALL = (
    "recipe",
    *(one.name for one in fields(Recipe) if one.name != "kind_weight"),
    "auxiliary",
    "best_by",
    "precision",
    "shard_labels",
    "shard_groups",
    "checkpoint_minutes",
    "tensorboard",
)
"""Settings that matter only if the whole network is trained."""


_OF_DESCENT = ("l2", "coarse_ratio", "choose", "kind_weight", "laplacian")
"""Settings that matter only if the last layer is fitted by descent, or the whole network trained."""
_OF_HEAD = ("fit", "train_views", "l2", "coarse_ratio", "choose", "cache")
"""Settings that matter only if the last layer alone is tuned."""
_OF_SCHEDULE = {"drop_every": "steps", "warmup": "one_cycle"}


def check_settings_used(given: Mapping[str, Any]) -> None:
    """Raise if a setting is given that would have no effect, as epochs have none when only the head is tuned."""
    quality, network = given.get("quality"), given.get("network")
    if quality in QUALITIES and network not in (None, QUALITIES[quality]):
        raise SettingsError(
            f"quality: {quality} is the network {QUALITIES[quality]}, and network is {network}; give one of the two"
        )
    tune = given.get("tune", "head")
    recipe = RECIPES[given.get("recipe", TrainSettings.recipe)]
    starts_fitted = given.get("start", recipe.start) == "fitted"
    idle = [name for name in ((*_OF_ALL, "dropout") if tune == "head" else _OF_HEAD) if name in given]
    if idle and tune == "all" and not starts_fitted:
        raise SettingsError(f"{', '.join(idle)}: no effect with start = new; choose start = fitted, or leave it out")
    if idle and tune == "head":
        raise SettingsError(f"{', '.join(idle)}: no effect with tune = head; choose tune = all, or leave it out")
    if tune == "all" and given.get("refit", recipe.refit) and not starts_fitted:
        raise SettingsError("refit: no effect with start = new; choose start = fitted, or leave it out")
    early = [name for name in ("suggest", "learn") if given.get(name)]
    if early and tune == "all" and not starts_fitted:
        raise SettingsError(
            f"{', '.join(early)}: the graph is learnt from a fitted head, and start = new has none; choose start = "
            "fitted, or leave it out"
        )
    idle = [name for name in _OF_DESCENT if name in given and given.get("fit") == "prototypes"]
    if idle:
        raise SettingsError(f"{', '.join(idle)}: no effect with fit = prototypes; use fit = descent, or leave it out")
    schedule = given.get("schedule") or recipe.schedule
    for name, needed in _OF_SCHEDULE.items():
        if name in given and schedule != needed:
            raise SettingsError(
                f"{name}: no effect with schedule = {schedule}; choose schedule = {needed}, or leave it out"
            )


def read_settings(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The settings in a TOML file, as current names and values.

    Raises:
        SettingsError: no such file, or no TOML.
        UnknownNameError: a name that is no setting.
    """
    values = with_current_names(read_toml(path, SettingsError))
    refuse_unknown("setting", values, [setting.name for setting in fields(TrainSettings)], f"in {os.fspath(path)}")
    return values


@cache
def setting_type(name: str) -> tuple[Any, bool]:
    """The type of a setting without its None, and whether it may be None."""
    hint = _hints()[name]
    parts = get_args(hint) if get_origin(hint) in (types.UnionType, Union) else (hint,)
    kept = [part for part in parts if part is not types.NoneType]
    return kept[0], len(kept) < len(parts)


@cache
def _hints() -> dict[str, Any]:
    return get_type_hints(TrainSettings)


def _checked(name: str, value: Any, metadata: Mapping[str, Any]) -> Any:
    """The value of a setting in its own type; anything else is refused."""
    kind, optional = setting_type(name)
    if value is None and optional:
        return None
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        if value not in choices:
            raise SettingsError(f"{name}: expected {' or '.join(choices)}, got {value!r}")
    elif get_origin(kind) is tuple:
        if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
            raise SettingsError(f"{name}: expected a list of names, got {value!r}")
        value = tuple(value)
    elif kind is float and type(value) is int:
        value = float(value)
    elif type(value) is not kind:
        raise SettingsError(f"{name}: expected {_NOUNS[kind]}, got {value!r}")
    least, below = metadata["least"], metadata["below"]
    upper = math.inf if below is None else below
    if least is not None and not least <= value < upper:
        limits = f"a finite number of at least {least}" + (f" and below {below}" if below is not None else "")
        if kind is int:
            limits = f"a whole number of at least {least}"
            if below is not None:
                limits = f"a whole number from {least} to {below - 1}"
        raise SettingsError(f"{name}: expected {limits}, got {value!r}")
    return value


_NOUNS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
