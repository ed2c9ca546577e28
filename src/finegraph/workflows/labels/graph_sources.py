"""Reading a graph from any source: a graph file, a store of label decisions, a source of photos, a model or a run.

A source implies a graph: its folders, the columns of its manifest, or what its layout says of the classes.

A store is a `.db` file or a database URL; `menu.db@120` is the store as it was after edit 120, also in what it said of
single photos. That is given to the samples; and if photos of a class show a label that the class excludes,
the links of that kind become weights, since training cannot learn from what is impossible.

A run that is trained from a store names the very edit (`at_version`), without any password, and keeps a copy of what it
read (`keep_labels`). So it can be resumed and evaluated when the store has changed or is gone. Cost: linear in the
cells.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from finegraph.data.samples import Samples
from finegraph.data.sources import is_manifest, names_layout, parse_source, source_graph
from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.graph.formats.json_writer import canonical_json
from finegraph.graph.graph_files import graph_from_json
from finegraph.graph.kind import BINARY_LABELS
from finegraph.graph.kind_columns import GROUP_SEPARATOR
from finegraph.graph.kind_worth import KindWorth
from finegraph.graph.photo_labels import count_photo_labels
from finegraph.training.records.run_folder import RunFolder, read_kept, write_kept

if TYPE_CHECKING:
    from finegraph.labelling import PhotoLabel
    from finegraph.labelling.store.graph_columns import StoreColumn

_VERSION = re.compile(r"(.+\.db|[^/]+://[^/]*/.*)@([0-9]+)", re.IGNORECASE | re.DOTALL)
"""A store and an edit. In a URL the edit stands after the name of the database, so that no host is taken for one."""
_LABELS_FORMAT = {"format": "finegraph.labels", "version": 1}


_HISTORY_PAGE = 1000
"""How many edits of a store are read at once."""


def is_store(place: str | os.PathLike[str]) -> bool:
    """Whether a name is that of a store of label decisions rather than of a graph file."""
    text = os.fspath(place)
    return "://" in text or text.lower().endswith(".db") or _VERSION.fullmatch(text) is not None


def is_graph_file(place: str | os.PathLike[str]) -> bool:
    """Whether a name is that of a graph file, which may be missing, rather than of anything else that has a graph."""
    text = os.fspath(place)
    if is_store(text) or names_layout(text) or is_manifest(text):
        return False
    return os.path.isfile(text) or (text.lower().endswith((".csv", ".json")) and not os.path.isdir(text))


def read_graph_of(place: str | os.PathLike[str]) -> LabelGraph:
    """The graph of any source; see `read_stored`.

    Raises:
        GraphFileError: the graph file has faults.
        LabelStoreError: the store cannot be opened.
    """
    return read_stored(place).graph


@dataclass(frozen=True, kw_only=True)
class StoredLabels:
    """A graph, and the photo labels that came with it.

    Attributes:
        graph: the labels of the classes.
        photos: by the key of the photo, then by kind; none if the graph came from a file.
        renamed: what former names of classes mean now; photos still have these.
    """

    graph: LabelGraph
    photos: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)

    def on(self, samples: Samples, source: str) -> Samples:
        """The samples under the present names of their classes, with the photo labels of the store."""
        samples = with_present_names(samples, self.renamed)
        if not self.photos:
            return samples
        folder = source_folder(source)
        labelled = []
        for sample in samples:
            photo_labels = self.photos.get(stored_photo_key(sample.path, folder))
            labelled.append(replace(sample, kinds={**sample.kinds, **photo_labels}) if photo_labels else sample)
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
        counts = count_photo_labels(graph, fine, seen)
        against = {contradiction.kind for contradiction in graph.contradictions(counts)}
        return graph.with_photo_labels({kind: counts[kind] for kind in graph.kinds if kind in against})


def read_stored(place: str | os.PathLike[str]) -> StoredLabels:
    """The graph of any source, and the photo labels of a store.

    Args:
        place: a graph file (.csv, .json), a store (.db, `menu.db@120`, a database URL), a source of photos (a folder
            per class, a manifest, `cub:FOLDER`, ...), a model folder or a run folder.

    Raises:
        GraphFileError: the graph file has faults.
        DataError: the source has faults.
        ModelFolderError: the model is damaged, or the run has none yet.
        LabelStoreError: the store cannot be opened, or is damaged.
        InputError: the store has no such version.
    """
    text = os.fspath(place)
    if is_graph_file(text):
        return StoredLabels(graph=LabelGraph.read(text))
    if not is_store(text):
        return StoredLabels(graph=_model_graph(text) if _has_model(text) else source_graph(text))
    from finegraph.labelling import LabelStore
    from finegraph.labelling.store.graph_columns import stored_graph
    from finegraph.labelling.store.renames import present_names

    place_of, at = split_version(text)
    with LabelStore.open(place_of, write=False) as store, store.one_state():
        store.check()
        last = store.version
        version = last if at is None else at
        if not 1 <= version <= last:
            raise InputError(f"{shown_source(text)}: there is no such version; the store has versions 1 to {last}")
        (fine, columns), labels = store.columns(version), store.photo_labels(version)
        renamed = present_names(store.renames(version=version), fine)
    photos: dict[str, dict[str, str]] = {}
    by_name = {column.name: column for column in columns}
    for label in labels:
        photos.setdefault(label.photo, {}).update(_kinds_of(by_name[label.kind], label))
    return StoredLabels(graph=stored_graph(fine, columns), photos=photos, renamed=renamed)


def _has_model(place: str) -> bool:
    """Whether a folder is that of a model or a run, rather than one of photos."""
    return any(os.path.isfile(os.path.join(place, name)) for name in ("config.json", "config.toml"))


def _model_graph(place: str) -> LabelGraph:
    """The graph of a model folder or of the model of a run."""
    from finegraph.model.folder.model_reader import read_model_graph  # imported here, since it loads torch

    return read_model_graph(place)


def worth_of(place: str | os.PathLike[str]) -> KindWorth | None:
    """What each kind is worth to the model of a model folder or a run folder; None where there is none to say it."""
    text = os.fspath(place)
    if is_store(text) or not _has_model(text):
        return None
    from finegraph.model.folder.model_reader import read_kind_worth  # which loads torch

    return read_kind_worth(text)


def with_present_names(samples: Samples, renamed: Mapping[str, str]) -> Samples:
    """The samples under the present names of their classes."""
    if not renamed:
        return samples
    return Samples(
        (replace(sample, label=renamed.get(sample.label or "", sample.label)) for sample in samples),
        samples.source,
        samples.notes,
    )


def split_version(place: str) -> tuple[str, int | None]:
    """The store and the edit of a name such as `menu.db@120`; None if it names no edit."""
    at = _VERSION.fullmatch(place)
    return (at[1], int(at[2])) if at else (place, None)


def _kinds_of(column: StoreColumn, label: PhotoLabel) -> dict[str, str]:
    """What a photo label says of the kinds of the graph; several possible labels say nothing of one photo."""
    if isinstance(label.value, str):
        return {label.kind: label.value}
    if isinstance(label.value, dict) and "all_of" in label.value:
        held = set(label.value["all_of"])
        return {label.kind + GROUP_SEPARATOR + one: "yes" if one in held else "no" for one in column.labels}
    return {}


# ---- what a run keeps ------------------------------------------------------------------------------------------------


def named_edit(place: str) -> int:
    """The edit that the name of a store names, or else the last one there is."""
    name, version = split_version(place)
    if version is not None:
        return version
    from finegraph.labelling import LabelStore

    with LabelStore.open(name, write=False) as store:
        return store.version


def at_version(place: str, version: int) -> str:
    """The name of a store as it was after an edit: `menu.db@120`."""
    return f"{split_version(place)[0]}@{version}"


def shown_source(place: str) -> str:
    """The name of a graph file or a store that may be written down: without the password that a URL may have."""
    if "://" not in place:
        return place
    from finegraph.labelling.store.database import without_password

    store, version = split_version(place)
    return without_password(store) + ("" if version is None else f"@{version}")


def keep_labels(run: RunFolder, stored: StoredLabels) -> None:
    """Write what was read from a store into a run folder; an existing copy stays.

    Raises:
        RunFolderError: it cannot be written.
    """
    photos = {photo: dict(kinds) for photo, kinds in stored.photos.items()}
    renamed = {"renamed": dict(stored.renamed)} if stored.renamed else {}
    content = {"graph": canonical_json(stored.graph), "photos": photos, **renamed}
    write_kept(run.labels_file, _LABELS_FORMAT, content)


def kept_labels(run: RunFolder) -> StoredLabels | None:
    """What a run was trained from, if it was a store; None if the run has no copy.

    Raises:
        RunFolderError: the copy is damaged, or of a later version.
    """
    content = read_kept(run.labels_file, _LABELS_FORMAT, "the labels that this run was trained from")
    if content is None:
        return None
    graph, photos, renamed = content.get("graph"), content.get("photos"), content.get("renamed", {})
    assert isinstance(graph, str), "sealed by `keep_labels`"
    assert isinstance(photos, dict), "sealed by `keep_labels`"
    assert isinstance(renamed, dict), "sealed by `keep_labels`"
    return StoredLabels(graph=graph_from_json(graph), photos=photos, renamed=renamed)


def labels_of_run(run: Path, graph: str) -> StoredLabels:
    """What a run was trained from: its copy, or else what its settings name."""
    return kept_labels(RunFolder(run)) or read_stored(graph)


def source_folder(source: str) -> Path:
    """The folder that the keys of photos are relative to: that of the source, or that of the manifest."""
    path = parse_source(source)[1]
    return path if path.is_dir() else path.parent


def stored_photo_key(path: Path, folder: Path) -> str:
    """The key of a photo in a store: its path relative to the source if it lies there, else its whole path."""
    for one, base in ((path, folder), (path.absolute(), folder.absolute())):
        if one.is_relative_to(base):
            return one.relative_to(base).as_posix()
    return path.as_posix()


def accepted_in_store(place: str | os.PathLike[str]) -> list[dict[str, str]]:
    """The suggestions that people accepted in a store and did not undo: fine, kind and label of each, oldest first.

    Args:
        place: a store; of anything else there are none.
    """
    text = os.fspath(place)
    if not is_store(text):
        return []
    from finegraph.labelling import LabelStore

    found: list[dict[str, str]] = []
    place_of, at = split_version(text)
    with LabelStore.open(place_of, write=False) as store, store.one_state():
        before = None if at is None else at + 1
        while page := store.history(target="cell", before=before, limit=_HISTORY_PAGE):
            for edit in page:
                if edit.action != "accept" or edit.undone or edit.fine is None or edit.kind is None:
                    continue
                if isinstance(edit.after, str):
                    found.append({"fine": edit.fine, "kind": edit.kind, "label": edit.after})
                elif isinstance(edit.after, dict):  # a group of binary kinds
                    having = edit.after.get("all_of", ())
                    found += [
                        {"fine": edit.fine, "kind": f"{edit.kind}{GROUP_SEPARATOR}{label}", "label": BINARY_LABELS[1]}
                        for label in having
                    ]
            before = page[-1].number
    return found[::-1]
