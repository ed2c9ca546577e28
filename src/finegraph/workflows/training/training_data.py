"""The training data of a run, by its settings: the photos of both splits, the graph, the network and its views."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from finegraph.data.dataset import training_targets
from finegraph.data.measured_values import measured_values
from finegraph.data.samples import Samples
from finegraph.data.sources import names_layout, parse_source, photo_layout, read_samples, source_graph
from finegraph.data.transforms import ViewSettings
from finegraph.errors import DataError, SettingsError, near_matches
from finegraph.graph import LabelGraph
from finegraph.graph.comparisons import Comparison
from finegraph.graph.faults import first_few
from finegraph.nn import Network, NetworkDesign, build_network
from finegraph.training.batches import PhotoPair, PhotoPairs
from finegraph.training.distributed import Ranks
from finegraph.training.settings import TrainSettings
from finegraph.workflows.graph_comparisons import ComparedKind, FittedComparisons, photo_names, with_comparisons
from finegraph.workflows.labels.graph_sources import StoredLabels, read_stored
from finegraph.workflows.training.held_out import ChooseParts, new_parts
from finegraph.workflows.training.shared_labels import check_shared, head_part


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """The photos and the graph of a run.

    Attributes:
        train: the photos to train on.
        val: the photos to validate on, if there are any.
        graph: their labels.
        held_out: whether the latter were held out of the photos to train on, rather than being a split of the source.
        splits: all splits of the source.
        counted: kinds whose links became weights, since photos show what their classes exclude.
        notes: what was odd in the source, such as files that were passed over.
        compared: what the comparisons of each kind say, if there are any.
        pairs: the training photos that were compared.
    """

    train: Samples
    val: Samples | None
    graph: LabelGraph
    held_out: bool = False
    splits: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    compared: tuple[ComparedKind, ...] = ()
    pairs: PhotoPairs | None = None


def read_training_data(
    settings: TrainSettings, stored: StoredLabels | None = None, choose: ChooseParts = new_parts
) -> TrainingData:
    """Read the photos' list and the graph that settings name.

    Args:
        settings: what to read.
        stored: what was read from a label store, if the settings name one; by default it is read now.
        choose: which photos are trained on and which are validated on; by default those of a new run.

    Raises:
        SettingsError: the settings name no photos.
        DataError: the photos' list has faults, values that no number can have in any split among them, or there is
            nothing in it to train on.
        UnknownNameError: labels that the graph does not have, all of them at once.
        GraphFileError: all faults of the comparisons.
    """
    if not settings.data:
        raise SettingsError("data: expected the photos to train on: a folder per class, a manifest, or LAYOUT:FOLDER")
    samples = read_samples(settings.data)
    if stored is None:
        stored = (
            StoredLabels(graph=source_graph(settings.data)) if settings.graph is None else read_stored(settings.graph)
        )
    samples, graph = stored.on(samples, settings.data), stored.graph
    if not uses_photo_labels(settings):
        samples = samples.without_kinds()
    if settings.box:
        samples.require_boxes()
    parts = choose(samples, settings)
    train = parts.train
    fitted = None
    if settings.comparisons is not None:
        fitted = _with_comparisons(graph, samples, train, settings)
        graph = fitted.graph
    if settings.kinds is not None:
        graph = graph.only(settings.kinds)
    if not len(train):
        which = f" with a label in {settings.data}" if settings.photos_per_label else f" in {settings.data}"
        raise DataError(f"expected photos to train on, found none{which}")
    measured_values(samples, graph)  # also of splits that are evaluated later; raises for all values at once
    training_targets(Samples([*train, *(parts.val or ())], samples.source), graph)  # raises for labels and values
    store_graph = stored.graph_for(graph, train)
    counted = tuple(name for name in graph.kinds if store_graph.kind(name) != graph.kind(name))
    names = {*graph.kinds, *graph.numbers}
    return TrainingData(
        train=train,
        val=parts.val,
        graph=store_graph,
        held_out=parts.held_out,
        splits=samples.splits,
        counted=counted,
        notes=(*samples.notes, *_left_out(samples, stored.graph)),
        compared=() if fitted is None else tuple(kind for kind in fitted.kinds if kind.name in names),
        pairs=None if fitted is None else _photo_pairs(fitted, graph, train, settings.data),
    )


def _left_out(samples: Samples, graph: LabelGraph) -> list[str]:
    """A note about photo labels and values of kinds that the graph does not have, such as a misspelt column."""
    known = (*graph.kinds, *graph.numbers)
    unknown = [name for name in (*samples.kinds, *samples.numbers) if name not in known]
    if not unknown:
        return []
    what = f"labels and values of {first_few(unknown, len(unknown))}"
    near = near_matches(unknown[0], known)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return [f"{what} on photos are left out, since the graph has no such kind or number{hint}"]


def _with_comparisons(
    graph: LabelGraph, samples: Samples, train: Samples, settings: TrainSettings
) -> FittedComparisons:
    """A graph with what comparisons make of it; photos that are not trained on may be named, and do not count."""
    assert settings.comparisons is not None
    paths = {sample.path for sample in train}
    numbers = photo_names(samples, settings.data)
    labels = {name: samples[number].label for name, number in numbers.items()}
    silent = [name for name, number in numbers.items() if samples[number].path not in paths]
    fitted = with_comparisons(graph, settings.comparisons, labels, silent)
    compared = {one.kind for one in fitted.comparisons}
    if not compared & {kind.name for kind in fitted.kinds}:
        raise DataError(
            f"{settings.comparisons}: expected comparisons of fine labels, or of training photos of different fine "
            "labels; it has none"
        )
    return fitted


def _photo_pairs(fitted: FittedComparisons, graph: LabelGraph, train: Samples, source: str) -> PhotoPairs | None:
    """The training photos that were compared, by a number of the graph; None if there are none."""
    numbers = photo_names(train, source)

    def pair(one: Comparison) -> PhotoPair:
        return PhotoPair(one.kind, numbers[one.more], numbers[one.less], one.same)

    pairs = [pair(one) for one in fitted.comparisons if one.photos and one.kind in graph.numbers]
    if not pairs:
        return None
    scales = {name: fitted.scales.get(name, graph.number(name).width) for name in {one.number for one in pairs}}
    return PhotoPairs(tuple(pairs), scales)


def photos_digest(photos: Samples) -> str:
    """What changes when photos are added, removed, renamed or labelled otherwise, but not when all of them move."""
    digest = hashlib.sha256()
    for sample in photos:
        box = None if sample.box is None else tuple(sample.box)
        digest.update(repr((sample.path.parts[-2:], sample.label, box)).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]


def uses_photo_labels(settings: TrainSettings) -> bool:
    """Whether photo labels count; the paper's runs on CUB take those of the classes alone."""
    if settings.photo_labels is None:
        return photo_layout(parse_source(settings.data)[0]) != "cub"
    return settings.photo_labels == "use"


def with_whole_paths(settings: TrainSettings) -> TrainSettings:
    """The settings with paths that hold wherever they are read from: a run may be read from another folder."""
    paths: dict[str, Any] = {
        name: value if value in (None, "", "default", "none") or "://" in value else _whole(value)
        for name, value in (
            ("data", settings.data),
            ("graph", settings.graph),
            ("comparisons", settings.comparisons),
            ("weights", settings.weights),
            ("coarse_weights", settings.coarse_weights),
            ("cache", settings.cache),
        )
    }
    return replace(settings, **paths)


def _whole(place: str) -> str:
    """A path, or a folder with its layout, that holds wherever it is read from."""
    if names_layout(place):
        layout, path = parse_source(place)
        return f"{layout}:{path.absolute()}"
    return str(Path(place).absolute())


def make_network(settings: TrainSettings, graph: LabelGraph, ranks: Ranks | None = None) -> Network:
    """The network that settings name, with pretrained backbones and a new head.

    Args:
        settings: the settings.
        graph: the label graph.
        ranks: this process among those that may share the labels of the head out; by default it is the only one.

    Raises:
        SettingsError: the labels are to be sharded, and the graph, the network or the device stands against it.
    """
    share = settings.shard_labels and settings.tune == "all"
    if share:
        check_shared(settings, graph, ranks or Ranks())
    design = NetworkDesign(network=settings.network, head=settings.head, coarse_network=settings.coarse_network)
    return build_network(
        graph,
        design,
        weights=_weights(settings.weights),
        coarse_weights=_weights(settings.coarse_weights),
        dropout=settings.dropout,
        # With a fitted head new layers are not trained, and untrained auxiliary heads would only disturb.
        auxiliary=settings.tune == "all" and settings.auxiliary and settings.numbers().start == "new",
        make_head=partial(head_part, graph, ranks or Ranks(), settings.shard_groups) if share else None,
    )


def make_views(settings: TrainSettings, network: Network) -> ViewSettings:
    """How photos are cut for a network: at its own size, unless the settings name another."""
    preprocessing = network.backbone.preprocessing
    if settings.size is not None:
        preprocessing = preprocessing.at(settings.size)
    return ViewSettings(
        resize=preprocessing.resize,
        size=preprocessing.size,
        keep_shape=settings.keep_shape,
        box=settings.box,
        interpolation=preprocessing.interpolation,
    )


def _weights(name: str) -> str | None:
    return None if name == "none" else name
