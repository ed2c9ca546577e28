"""The definition of a study: a small TOML file, checked all at once.

    data = "grocery:photos"                      # where the photos are
    heads = ["softmax", "bipartite"]             # see HEADS
    amounts = [1, 5, "20%", "all"]               # photos per class, a share of each class, or all of them
    seeds = 5                                    # draws of each amount
    [kinds]                                      # sets of kinds, by name; a group of kinds by its name
    both = ["dish", "ingredient"]

Every fault of the file comes in one error. Nothing here needs torch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from finegraph.data.photo_parts import MAX_VIEWS
from finegraph.errors import FinegraphError, SettingsError, unknown_name
from finegraph.files.toml_text import read_toml
from finegraph.training.settings import TrainSettings, with_current_names

HEADS = {
    "softmax": "one softmax over the fine labels: the baseline",
    "softmax-marginal": "softmax scores, trained with the loss of all kinds; no weights of coarse labels",
    "independent": "a softmax of its own for the fine labels and for each kind",
    "bipartite": "fine and coarse scores joined by the graph, on one feature",
    "bipartite-two": "the same; coarse scores on the features of the second network",
    "ensemble": "the mean of two softmax heads, one on each network",
    "prototypes": "class means in closed form, held together by the graph",
    "prototypes-without-graph": "the same without the graph: a shrunk discriminant",
    "auto": "what `finegraph train` fits as it comes, to one view; it looks at no validation photos",
    "sklearn-logistic": "scikit-learn's LogisticRegression",
    "sklearn-discriminant": "scikit-learn's LinearDiscriminantAnalysis, shrunk, with a temperature",
}
"""Every head that can be compared, with what it is."""
WITHOUT_KINDS = ("softmax", "ensemble", "prototypes-without-graph", "sklearn-logistic", "sklearn-discriminant")
"""Heads that learn nothing from kinds; they run once, not once per set."""
TWO_NETWORKS = ("bipartite-two", "ensemble")
FINE_TUNED = ("softmax", "softmax-marginal", "bipartite", "bipartite-two")
"""Heads that can be trained together with their network."""
ALL = "all"
TEST = "test"
EVERY_KIND = "*"
_SET_NAME = re.compile(r"[\w+. -]{1,60}")
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_OWN = ("data", "graph", "kinds", "train_split", "val_split", "val_share", "photos_per_label", "box", "on_bad_file")
_NETWORK = ("network", "coarse_network", "head", "size")
_NOT_TRAINING = (*_OWN, *_NETWORK, "tune", "seed", "l2", "coarse_ratio", "choose", "photo_labels")
"""Settings of training that a study decides."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study as its file says it, with everything filled in."""

    data: str
    """The photos: as for `finegraph train`, or menu:small, menu:full for drawn ones."""
    heads: tuple[str, ...] = ("softmax", "bipartite")
    """What is compared."""
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {ALL: (EVERY_KIND,)})
    """Sets of kinds by name; * is every kind of the graph."""
    amounts: tuple[str, ...] = (ALL,)
    """Photos per class, a share of each class such as 20%, or all."""
    seeds: tuple[int, ...] = (0,)
    """A draw of photos for each; in TOML a list, or how many."""
    title: str = ""
    """What stands over tables and plots."""
    tune: str = "head"
    """head: the last layer on stored features; all: the whole network."""
    settings: int = 28
    """How many settings each head tries on the validation photos; a multiple of 4. One with tune = "all"."""
    graph: str | None = None
    """The graph file; by default what the photos' source implies."""
    network: str = "efficientnet_lite0"
    """The network."""
    second_network: str = "efficientnet_lite1"
    """The network of coarse labels for bipartite-two, and the other one for ensemble."""
    weights: str = "default"
    """The first weights of both networks: default (ImageNet) or none."""
    size: int | None = None
    """Width and height of the views; by default the network's own."""
    splits: tuple[str, ...] = ("test",)
    """The splits to measure on."""
    views: tuple[int, ...] = (1,)
    """1, 10, or both: how many views of a photo are averaged."""
    train_views: int = 1
    """How many views of each training photo heads are fitted to, on stored features; `finegraph train` uses 3."""
    box: tuple[bool, ...] = (False,)
    """Whether photos are cut to their boxes, in training and after; a list for both."""
    train_split: str = "train"
    """The split to train on."""
    val_split: str | None = None
    """The split to choose settings on; by default `val`."""
    val_share: float = 0.0
    """The share of each class to hold out for that if there is no such split."""
    test_share: float = 0.0
    """The share of each class to hold out as `test` if there is no split of that name."""
    on_bad_file: str = "error"
    """What to do about a photo that cannot be read: error or skip."""
    skip: tuple[Mapping[str, tuple[str, ...]], ...] = ()
    """Cells to leave out: tables with heads, kinds and amounts. A cell that is in all lists of a table is left out."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """With tune = "all": settings of `finegraph train`, such as epochs."""

    def to_dict(self) -> dict[str, Any]:
        """Everything that is set, in the types of TOML and JSON."""
        values: dict[str, Any] = {}
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.name == "skip":
                value = [{name: list(content) for name, content in each.items()} for each in value]
            elif isinstance(value, tuple):
                value = list(value)
            elif isinstance(value, Mapping):
                value = {
                    name: list(content) if isinstance(content, tuple) else content for name, content in value.items()
                }
            if value is not None:
                values[setting.name] = value
        return values

    @property
    def two_networks(self) -> bool:
        """Whether some head needs the second network."""
        return any(head in TWO_NETWORKS for head in self.heads)


def read_study(path: str | os.PathLike[str], *, data: str | None = None, graph: str | None = None) -> Study:
    """Read a study.

    Args:
        path: a TOML file.
        data: photos to take instead of those that the file names.
        graph: a graph file to take instead of the one that the file names.

    Raises:
        SettingsError: the file cannot be read, or has faults; all of them are in the message.
    """
    name = os.fspath(path)
    values = read_toml(path, SettingsError)
    given = {"data": data, "graph": graph}
    return study_of({**values, **{one: value for one, value in given.items() if value is not None}}, name)


def study_of(values: Mapping[str, Any], where: str = "study") -> Study:
    """The study that names and values say.

    Raises:
        SettingsError: with all faults.
    """
    faults: list[str] = []
    read: dict[str, Any] = {}
    known = [setting.name for setting in fields(Study)]
    for name, value in values.items():
        if name not in known:
            faults.append(str(unknown_name("setting", name, known)))
            continue
        try:
            read[name] = _READERS[name](name, value)
        except FinegraphError as error:
            faults += str(error).splitlines()
    if not values.get("data"):
        faults.append(
            "data: expected the photos: a folder per class, a manifest, LAYOUT:FOLDER, menu:small or menu:full"
        )
    if not faults:
        study = Study(**{**read, "settings": 1} if read.get("tune") == "all" and "settings" not in read else read)
        faults = _faults_together(study)
    if faults:
        count = "a fault" if len(faults) == 1 else f"{len(faults)} faults"
        raise SettingsError("\n".join([f"{where}: {count} in the study:", *(f"  {fault}" for fault in faults)]))
    return study


def _faults_together(study: Study) -> list[str]:
    """What is wrong only in view of other settings."""
    faults = []
    if study.tune == "all":
        faults += [
            f'heads: {head!r} cannot be trained with its network; with tune = "all" there are {", ".join(FINE_TUNED)}'
            for head in study.heads
            if head not in FINE_TUNED
        ]
        if study.settings != 1:
            faults.append(f'settings: with tune = "all" each head has 1, its recipe; got {study.settings}')
        try:
            training = with_current_names(study.training)
            TrainSettings.from_dict(training, "[training]")
        except FinegraphError as error:
            training = dict(study.training)
            faults.append(f"training: {error}")
        faults += [f"training: {name} is decided by the study" for name in training if name in _NOT_TRAINING]
    else:
        if study.training:
            faults.append(f'training: {", ".join(study.training)}: no effect with tune = "head"; leave it out')
        if study.settings % 4 or study.settings < 4:
            faults.append(
                f"settings: expected a multiple of 4, so that each head can try as many, got {study.settings}"
            )
    if study.two_networks and study.network == study.second_network:
        faults.append(
            f"second_network: expected another network than {study.network!r}: on the same features two-feature heads "
            "equal one-feature heads"
        )
    for name, known in (("heads", study.heads), ("kinds", ("", *study.kinds)), ("amounts", study.amounts)):
        for one in (one for table in study.skip for one in table.get(name, ())):
            if one not in known:
                faults.append(f"skip: {unknown_name(name, one, known, 'in this study')}")
    if study.train_split in study.splits:
        faults.append(f"splits: {study.train_split!r} is the split to train on; measure on others")
    if study.test_share and TEST not in study.splits:
        faults.append(f"test_share: no effect, as splits has no {TEST!r}; add it there, or leave this out")
    return faults


# ---- one reader per setting -----------------------------------------------------------------------------------------


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise SettingsError(f"{name}: expected text, got {value!r}")
    return value


def _list(name: str, value: Any) -> list[Any]:
    """A list without doubles; one value stands for a list of one."""
    items = value if isinstance(value, list | tuple) else [value]
    if not items:
        raise SettingsError(f"{name}: expected at least one, got an empty list")
    for number, one in enumerate(items):
        if one in items[:number]:
            raise SettingsError(f"{name}: {one!r} is given twice")
    return list(items)


def _texts(name: str, value: Any) -> tuple[str, ...]:
    return tuple(_text(name, text) for text in _list(name, value))


def _heads(name: str, value: Any) -> tuple[str, ...]:
    given = _texts(name, value)
    unknown = [str(unknown_name("head", head, tuple(HEADS))) for head in given if head not in HEADS]
    if unknown:
        raise SettingsError("\n".join(unknown))
    return given


def _kinds(name: str, value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, Mapping) or not value:
        raise SettingsError(f'{name}: expected a table of named sets, such as both = ["dish", "ingredient"]')
    files: dict[str, str] = {}
    for one in value:
        if not _SET_NAME.fullmatch(one):
            raise SettingsError(
                f"{name}: expected at most 60 letters, numbers, spaces, + - . _ in the name of a set, got {one!r}"
            )
        other = files.setdefault(one.replace(" ", "_").casefold(), one)
        if other != one:  # the files of their cells would be the same
            raise SettingsError(f"{name}: {other!r} and {one!r} are too alike; give one of the sets another name")
    return {one: _texts(f"{name}.{one}", members) for one, members in value.items()}


def _amounts(name: str, value: Any) -> tuple[str, ...]:
    return tuple(_amount(name, amount) for amount in _list(name, value))


def _amount(name: str, value: Any) -> str:
    """How much to train on, as text."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return str(value)
    if isinstance(value, str):
        share = _SHARE.fullmatch(value.strip())
        if share and 0.0 < float(share[1]) < 100.0:
            return f"{float(share[1]):g}%"
        if value == ALL or (share and float(share[1]) == 100.0):
            return ALL
        if value.isdecimal() and int(value) >= 1:
            return str(int(value))
    raise SettingsError(f'{name}: expected photos per class (5), a share ("20%") or "all", got {value!r}')


def _seeds(name: str, value: Any) -> tuple[int, ...]:
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise SettingsError(f"{name}: expected at least 1, or a list of seeds, got {value}")
        return tuple(range(value))
    seeds = _list(name, value)
    if not all(isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 2**32 for seed in seeds):
        raise SettingsError(f"{name}: expected how many draws, or a list of whole numbers, got {value!r}")
    return tuple(seeds)


def _choice(*choices: str) -> Any:
    def read(name: str, value: Any) -> str:
        if value not in choices:
            raise SettingsError(f"{name}: expected {' or '.join(choices)}, got {value!r}")
        return str(value)

    return read


def _whole(least: int) -> Any:
    def read(name: str, value: Any) -> int:
        if type(value) is not int or value < least:
            raise SettingsError(f"{name}: expected a whole number of at least {least}, got {value!r}")
        return value

    return read


def _share(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < 1.0:
        raise SettingsError(f"{name}: expected a number of at least 0 and below 1, got {value!r}")
    return float(value)


def _views(name: str, value: Any) -> tuple[int, ...]:
    numbers = _list(name, value)
    if not all(type(number) is int and number in (1, 10) for number in numbers):
        raise SettingsError(f"{name}: expected 1, 10 or [1, 10], got {value!r}")
    return tuple(numbers)


def _train_views(name: str, value: Any) -> int:
    if type(value) is not int or not 1 <= value <= MAX_VIEWS:
        raise SettingsError(f"{name}: expected a whole number from 1 to {MAX_VIEWS}, got {value!r}")
    return value


def _box(name: str, value: Any) -> tuple[bool, ...]:
    choices = _list(name, value)
    if not all(isinstance(choice, bool) for choice in choices):
        raise SettingsError(f"{name}: expected true, false or [false, true], got {value!r}")
    return tuple(choices)


def _skip(name: str, value: Any) -> tuple[dict[str, tuple[str, ...]], ...]:
    readers = {"heads": _texts, "kinds": _texts, "amounts": _amounts}
    tables = []
    for table in _list(name, value) if value != [] else []:
        if not isinstance(table, Mapping) or not table:
            raise SettingsError(f"{name}: expected tables with heads, kinds or amounts, got {table!r}")
        for key in table:
            if key not in readers:
                raise SettingsError(f"{name}: {unknown_name('name', key, tuple(readers))}")
        tables.append({key: readers[key](f"{name}.{key}", content) for key, content in table.items()})
    return tuple(tables)


def _table(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise SettingsError(f"{name}: expected a table, got {value!r}")
    return dict(value)


_READERS: dict[str, Any] = {
    "data": _text,
    "heads": _heads,
    "kinds": _kinds,
    "amounts": _amounts,
    "seeds": _seeds,
    "title": _text,
    "tune": _choice("head", "all"),
    "settings": _whole(1),
    "graph": _text,
    "network": _text,
    "second_network": _text,
    "weights": _choice("default", "none"),
    "size": _whole(32),
    "splits": _texts,
    "views": _views,
    "train_views": _train_views,
    "box": _box,
    "train_split": _text,
    "val_split": _text,
    "val_share": _share,
    "test_share": _share,
    "on_bad_file": _choice("error", "skip"),
    "skip": _skip,
    "training": _table,
}
