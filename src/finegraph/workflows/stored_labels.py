"""Reading a graph from wherever it is: a graph file, or a store of label decisions.

A store is a `.db` file or a database URL; `menu.db@120` is the store as it was at version 120. A store may also know
labels of single photos. They are given to the samples; and where photos of a class show what the class excludes,
whoever said so, the links of that kind become weights, since training cannot learn from what is impossible. Cost:
linear in the cells.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from finegraph.data.samples import Samples
from finegraph.data.sources import parse_source
from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.graph.columns import GROUP_SEPARATOR
from finegraph.graph.image_labels import count_image_labels

if TYPE_CHECKING:
    from finegraph.labelling import PhotoLabel

_VERSION = re.compile(r"(.+\.db)@([0-9]+)", re.IGNORECASE)


def is_store(place: str | os.PathLike[str]) -> bool:
    """Whether a name is that of a store of label decisions rather than of a graph file."""
    text = os.fspath(place)
    return "://" in text or text.lower().endswith(".db") or _VERSION.fullmatch(text) is not None


def read_graph_of(place: str | os.PathLike[str]) -> LabelGraph:
    """The graph in a graph file or a store.

    Raises:
        GraphFileError: the graph file has faults.
        LabelStoreError: the store cannot be opened.
    """
    return read_stored(place).graph


@dataclass(frozen=True, kw_only=True)
class StoredLabels:
    """A graph, and the labels of single photos that came with it.

    Attributes:
        graph: the labels of the classes.
        photos: by the key of the photo, then by kind; none where the graph came from a file.
    """

    graph: LabelGraph
    photos: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def on(self, samples: Samples, source: str) -> Samples:
        """The samples with the labels of single photos; where both say something, the store holds."""
        if not self.photos:
            return samples
        folder = source_folder(source)
        labelled = []
        for sample in samples:
            own = self.photos.get(photo_key(sample.path, folder))
            labelled.append(replace(sample, kinds={**sample.kinds, **own}) if own else sample)
        return Samples(labelled, samples.source, samples.notes)

    def graph_for(self, graph: LabelGraph, train: Samples) -> LabelGraph:
        """A graph with weights in those kinds where the photos to train on show what their class excludes.

        Args:
            graph: this graph, or some of its kinds.
            train: the photos to train on.
        """
        if not any(sample.kinds for sample in train):
            return graph
        known = set(graph.fine)
        fine = [sample.label if sample.label in known else None for sample in train]
        seen = {kind: [sample.kinds.get(kind) for sample in train] for kind in graph.kinds}
        seen = {kind: labels for kind, labels in seen.items() if any(labels)}
        counts = count_image_labels(graph, fine, seen)
        against = {found.kind for found in graph.contradictions(counts)}
        return graph.with_image_labels({kind: counts[kind] for kind in graph.kinds if kind in against})


def read_stored(place: str | os.PathLike[str]) -> StoredLabels:
    """The graph of a graph file or a store, and what a store knows of single photos.

    Raises:
        GraphFileError: the graph file has faults.
        LabelStoreError: the store cannot be opened.
        InputError: the store has no such version.
    """
    text = os.fspath(place)
    if not is_store(text):
        return StoredLabels(graph=LabelGraph.read(text))
    from finegraph.labelling import LabelStore

    at = _VERSION.fullmatch(text)
    with LabelStore.open(at[1] if at else text, write=False) as store:
        version = int(at[2]) if at else None
        if version is not None and not 1 <= version <= store.version:
            raise InputError(f"{text}: there is no such version; the store has versions 1 to {store.version}")
        graph, labels = store.graph(version), store.photo_labels()
    photos: dict[str, dict[str, str]] = {}
    for label in labels:
        photos.setdefault(label.photo, {}).update(_kinds_of(graph, label))
    return StoredLabels(graph=graph, photos=photos)


def _kinds_of(graph: LabelGraph, label: PhotoLabel) -> dict[str, str]:
    """What an image-level label says of the kinds of the graph; several possible labels say nothing of one photo."""
    if isinstance(label.value, str):
        return {label.kind: label.value}
    if isinstance(label.value, dict) and "all_of" in label.value:
        members = [name for name in graph.kinds if name.startswith(label.kind + GROUP_SEPARATOR)]
        held = {label.kind + GROUP_SEPARATOR + one for one in label.value["all_of"]}
        return {name: "yes" if name in held else "no" for name in members}
    return {}


def source_folder(source: str) -> Path:
    """The folder that the keys of photos are relative to: that of the source, or that of the manifest."""
    path = parse_source(source)[1]
    return path if path.is_dir() else path.parent


def photo_key(path: Path, folder: Path) -> str:
    """What a photo is called in a store: its path within the source where it is there, else its path."""
    for one, base in ((path, folder), (path.absolute(), folder.absolute())):
        if one.is_relative_to(base):
            return one.relative_to(base).as_posix()
    return path.as_posix()
