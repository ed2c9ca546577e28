"""The photos of a study: its splits, draws of them, the sets of kinds, and the features of every photo once.

Draws depend on the seed and the names of photos alone, and a larger draw contains the smaller ones
(`finegraph.data.splits`). Labels of kinds are those of the graph; photo labels are not used. Features
come from the stored ones if they are there: a second study on the same photos starts at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from finegraph.data.dataset import targets_of
from finegraph.data.measured_values import measured_values
from finegraph.data.samples import Sample, Samples
from finegraph.data.sources import read_samples, source_graph
from finegraph.data.splits import choose_splits, draw_per_label, hold_out
from finegraph.data.transforms import ViewSettings
from finegraph.errors import SettingsError, unknown_name
from finegraph.graph import LabelGraph
from finegraph.graph.kind_columns import GROUP_SEPARATOR
from finegraph.model.features import Features, default_cache_folder, extract_features
from finegraph.model.fitting.feature_scales import FeatureScales
from finegraph.model.fitting.selection import LabelledFeatures
from finegraph.nn import Network, NetworkDesign, build_network
from finegraph.nn.backbones.build import TIMM, member_names
from finegraph.nn.backbones.weights import default_weights
from finegraph.training.settings import TrainSettings
from finegraph.workflows.studies.spec import ALL, EVERY_KIND, TEST, Study
from finegraph.workflows.training.training_data import make_views
from finegraph.workflows.training.tune_head import training_features

Stage = Callable[[str, int, int], None]
"""Is stage the name of a stage, how much of it is done, and of how much."""
MENUS = ("small", "full")
_TEST_SEED = 1
"""Another than that of photos held out to choose settings on: the two have nothing to do with each other."""


@dataclass(frozen=True)
class PhotoMatrices:
    """Photos as matrices.

    Attributes:
        fine: the features of the first network, a row per photo; with ten views (photo, view, feature).
        coarse: those of the second network if there is one.
        target: the number of the fine label of each photo.
        block_sizes: how many features each of the first network's members has; None for one network.
        views: of training photos, the features of each view, whose mean `fine` is; None if there is one.
        measured: per number the values measured on these photos, NaN where there is none; only judged by.
    """

    fine: Float[Tensor, "batch *view feature"]
    coarse: Float[Tensor, "batch *view coarse_feature"] | None
    target: Int[Tensor, " batch"]
    block_sizes: tuple[int, ...] | None = None
    views: Float[Tensor, "batch view feature"] | None = None
    measured: dict[str, Float[NDArray[np.float64], " batch"]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.target)

    def at(self, places: list[int]) -> PhotoMatrices:
        """Some of the photos."""
        coarse, views = (None if one is None else one[places] for one in (self.coarse, self.views))
        measured = {name: values[places] for name, values in self.measured.items()}
        target = self.target[places]
        return replace(self, fine=self.fine[places], coarse=coarse, target=target, views=views, measured=measured)

    def labelled(self, *, two: bool = False) -> LabelledFeatures:
        """What a head is fitted to.

        Args:
            two: whether coarse labels have the features of the second network.
        """
        coarse = self.coarse if two else None
        return LabelledFeatures(self.fine, self.target, coarse, views=self.views, block_sizes=self.block_sizes)

    def divided(self, scales: FeatureScales) -> PhotoMatrices:
        """The same with the features divided by one number for each network."""
        coarse = None if self.coarse is None else self.coarse / scales.coarse
        views = None if self.views is None else self.views / scales.fine
        return replace(self, fine=self.fine / scales.fine, coarse=coarse, views=views)


@dataclass(frozen=True, kw_only=True)
class StudyData:
    """What a study learns from and is measured on; no photo is opened yet.

    Attributes:
        source: where the photos are listed.
        graph: with the kinds that some set has, in the order of the graph.
        sets: the kinds of each set.
        train: the photos to draw from, all with a fine label.
        val: the photos to choose settings on.
        splits: the photos to measure on, by split, with the values that were measured on them.
    """

    source: str
    graph: LabelGraph
    sets: dict[str, tuple[str, ...]]
    train: Samples
    val: Samples
    splits: dict[str, Samples]

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Groups of kinds such as ingredients, by name."""
        return kind_groups(self.graph)

    def facts(self) -> dict[str, Any]:
        """What identifies the data: other data under the same name give other facts."""
        splits = {f"split {name}": len(part) for name, part in self.splits.items()}
        photos = _digest((self.train, self.val, *self.splits.values()))
        counts = {"train": len(self.train), "val": len(self.val), **splits}
        return {"graph": self.graph.digest, **counts, "photos": photos, "values": _value_digest(self)}

    def draw(self, amount: str, seed: int) -> Samples:
        """The photos of an amount."""
        if amount == ALL:
            return self.train
        if not amount.endswith("%"):
            return draw_per_label(self.train, int(amount), seed)
        by_label: dict[str | None, list[Sample]] = {}
        for sample in self.train:
            by_label.setdefault(sample.label, []).append(sample)
        share = float(amount[:-1]) / 100
        kept: list[Sample] = []
        for label_photos in by_label.values():  # at least one photo of each class: none would make it another task
            kept += draw_per_label(Samples(label_photos), max(1, int(share * len(label_photos) + 0.5)), seed)
        return Samples(kept, self.train.source, self.train.notes)


def read_study_data(study: Study, stage: Stage) -> StudyData:
    """List the photos of a study and read its graph.

    Raises:
        SettingsError: no photos to choose settings on, or kinds that the graph does not have.
        DataError: the photos' list has faults.
        UnknownNameError: there is no such network, kind or split.
        MissingExtraError: the weights of a network are not installed.
    """
    _check_networks(study)
    source, graph_file = _source(study, stage)
    samples = _with_test(read_samples(source), study)
    graph = source_graph(source) if graph_file is None else LabelGraph.read(graph_file)
    sets = {name: _members(name, wanted, graph) for name, wanted in study.kinds.items()}
    used = {kind for members in sets.values() for kind in members}
    graph = graph.only([kind for kind in (*graph.kinds, *graph.numbers) if kind in used])
    train, val = choose_splits(samples, study.train_split, study.val_split, study.val_share)
    train = _labelled(train).without_kinds()  # what a photo shows is not part of a study, but for values to judge by
    if val is None or not len(_labelled(val)):
        raise SettingsError(
            f"{study.data}: a study chooses settings on validation photos, and there is no split for them; "
            "name one as val_split, or hold some out with val_share = 0.2"
        )
    splits = {}
    for name in study.splits:
        part = val if name == "val" and name not in samples.splits else samples.split(name)
        splits[name] = _with_values(_labelled(part), graph)
    val = _labelled(val).without_kinds()
    for part in (train, val, *splits.values()):
        targets_of(part, graph)  # labels that the graph does not have show now, and values that it cannot have
        if True in study.box:
            part.require_boxes()
    measured_values(Samples([sample for part in splits.values() for sample in part], samples.source), graph)
    return StudyData(source=source, graph=graph, sets=sets, train=train, val=val, splits=splits)


def kind_groups(graph: LabelGraph) -> dict[str, tuple[str, ...]]:
    """The groups of kinds of a graph: kinds called `GROUP: MEMBER`, by the name of the group."""
    groups: dict[str, list[str]] = {}
    for kind in graph.kinds:
        name, mark, _ = kind.partition(GROUP_SEPARATOR)
        if mark and name not in graph.kinds:
            groups.setdefault(name, []).append(kind)
    return {name: tuple(kinds) for name, kinds in groups.items()}


def _members(name: str, wanted: tuple[str, ...], graph: LabelGraph) -> tuple[str, ...]:
    """The kinds and then the numbers of a set, in the order of the graph."""
    every = (*graph.kinds, *graph.numbers)
    if not every:
        raise SettingsError(f"kinds.{name}: the graph has no kinds; name a graph file as graph")
    groups = kind_groups(graph)
    members: set[str] = set()
    for kind_name in wanted:
        if kind_name == EVERY_KIND:
            members.update(every)
        elif kind_name in every:
            members.add(kind_name)
        elif kind_name in groups:
            members.update(groups[kind_name])
        else:
            single = [kind for kind in graph.kinds if not any(kind in group for group in groups.values())]
            raise unknown_name("kind", kind_name, (*single, *groups, *every), f"in kinds.{name}")
    return tuple(kind for kind in every if kind in members)


def _check_networks(study: Study) -> None:
    """Refuse networks that are not there, before photos are drawn or read."""
    for name in (study.network, study.second_network)[: 2 if study.two_networks else 1]:
        for member in member_names(name):
            if study.weights == "default" and not member.startswith(TIMM):  # timm says itself what is missing
                default_weights(member)


def _with_test(samples: Samples, study: Study) -> Samples:
    """The photos with some of those to train on held out as `test`, if that is asked for and there is none."""
    if not study.test_share or TEST in samples.splits:
        return samples
    training = samples.split(study.train_split) if samples.splits else samples
    rest, held = hold_out(training, study.test_share, _TEST_SEED)
    marked = [replace(one, split=study.train_split) for one in rest] + [replace(one, split=TEST) for one in held]
    others = [one for one in samples if samples.splits and one.split != study.train_split]
    return Samples([*marked, *others], samples.source, samples.notes)


def _labelled(samples: Samples) -> Samples:
    return samples.only(lambda sample: sample.label is not None)


def _with_values(samples: Samples, graph: LabelGraph) -> Samples:
    """The photos with the values measured on them, and without their own labels."""

    def only_numbers(sample: Sample) -> Sample:
        kinds = {name: text for name, text in sample.kinds.items() if name in graph.numbers}
        return replace(sample, kinds=kinds, values={n: one for n, one in sample.values.items() if n in graph.numbers})

    return Samples(map(only_numbers, samples), samples.source, samples.notes)


def _value_digest(data: StudyData) -> str:
    """What changes when other values were measured on photos."""
    digest = hashlib.sha256()
    for part in data.splits.values():
        for name, values in measured_values(part, data.graph).items():
            digest.update(name.encode("utf-8", "surrogateescape") + values.tobytes())
    return digest.hexdigest()


def _digest(parts: Iterable[Samples]) -> str:
    """What changes when photos are replaced, renamed, or labelled or cut otherwise; none of them is opened."""
    digest = hashlib.sha256()
    for part in parts:
        for sample in part:
            try:
                size = sample.path.stat().st_size
            except OSError:
                size = -1  # opening it raises the error
            box = None if sample.box is None else tuple(sample.box)
            digest.update(repr((sample.path.parts[-2:], sample.label, box, size)).encode("utf-8", "surrogateescape"))
        digest.update(b"\n")
    return digest.hexdigest()


def _source(study: Study, stage: Stage) -> tuple[str, str | None]:
    """Where the photos and the graph file are; the drawn menu is made in the cache folder, once."""
    layout, mark, size = study.data.partition(":")
    if layout != "menu" or not mark:
        return study.data, study.graph
    if size not in MENUS:
        raise SettingsError(f"data: expected menu:small or menu:full, got {study.data!r}")
    from finegraph.workflows.menu import DRAWINGS, write_menu

    folder = Path(default_cache_folder()) / f"menu-{size}-{DRAWINGS}"
    if not (folder / "images.csv").is_file():
        write_menu(folder, size=size, progress=lambda done, total: stage("drawing photos", done, total))
    return str(folder / "images.csv"), study.graph or str(folder / "graph.csv")


# ---- features -------------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class StudyFeatures:
    """The features of all photos of a study, for one choice of box.

    Attributes:
        train: of the photos to draw from.
        places: where each of these stands.
        val: of those to choose settings on.
        splits: by split and number of views.
        scales: what features were divided by.
        notes: what was odd.
        bad: the photos that could not be read, with the reason of each.
    """

    train: PhotoMatrices
    places: dict[Sample, int]
    val: PhotoMatrices
    splits: dict[tuple[str, int], PhotoMatrices]
    scales: FeatureScales
    notes: list[str] = field(default_factory=list)
    bad: dict[str, str] = field(default_factory=dict)

    def drawn(self, samples: Samples) -> PhotoMatrices:
        """The features of a draw; photos that could not be read are not in it."""
        return self.train.at([self.places[sample] for sample in samples if sample in self.places])


def study_network(study: Study, graph: LabelGraph) -> tuple[Network, ViewSettings]:
    """The pretrained network or networks of a study, and how photos are cut for them."""
    second = study.second_network if study.two_networks else None
    weights = None if study.weights == "none" else study.weights
    torch.manual_seed(0)  # if there are no weights to load, the same random ones each time
    design = NetworkDesign(network=study.network, coarse_network=second)
    network = build_network(graph, design, weights=weights, coarse_weights=weights, auxiliary=False).eval()
    return network, make_views(TrainSettings(data=study.data, size=study.size), network)


def study_features(study: Study, data: StudyData, box: bool, stage: Stage) -> StudyFeatures:
    """The features of all photos of a study."""
    network, views = study_network(study, data.graph)
    views = replace(views, box=box)
    on_bad_file = cast(Literal["error", "skip"], study.on_bad_file)
    notes: list[str] = []
    bad: dict[str, str] = {}

    def part(samples: Samples, count: int, what: str) -> PhotoMatrices:
        extracted = extract_features(
            network,
            samples,
            views,
            view="centre" if count == 1 else "ten",
            on_bad_file=on_bad_file,
            progress=lambda done, total: stage(f"features of {what}", done, total),
        )
        return part_of(extracted)

    def part_of(extracted: Features) -> PhotoMatrices:
        notes.extend(extracted.notes)
        bad.update((error.path, error.reason) for error in extracted.bad)
        target, _ = targets_of(extracted.samples, data.graph)
        return PhotoMatrices(
            extracted.fine,
            extracted.coarse,
            target,
            network.backbone.block_sizes,
            extracted.views,
            measured_values(extracted.samples, data.graph),
        )

    settings = TrainSettings(data=study.data, train_views=study.train_views, on_bad_file=on_bad_file)
    found = training_features(
        network,
        data.train,
        views,
        settings,
        None,
        lambda what: lambda done, total: stage(f"{what} of training photos", done, total),
    )
    train = part_of(found)
    scales = FeatureScales.of(train.fine, train.coarse)
    splits = {}
    for name, samples in data.splits.items():
        for count in study.views:
            ten = " (ten views)" if count == 10 else ""
            splits[name, count] = part(samples, count, f"{name}{ten}").divided(scales)
    return StudyFeatures(
        train=train.divided(scales),
        places={sample: place for place, sample in enumerate(found.samples)},
        val=part(data.val, 1, "validation photos").divided(scales),
        splits=splits,
        scales=scales,
        notes=list(dict.fromkeys(notes)),
        bad=bad,
    )
