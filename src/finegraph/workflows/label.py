"""A session of labelling: a store with the photos of its classes and suggestions for them.

Nothing is printed here. `labels/label_stores.py` decides which store is meant; `labels/label_files.py` imports and
exports files.
"""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from finegraph.data.roots import paths_outside, root_of
from finegraph.data.samples import Box, Samples
from finegraph.data.sources import read_samples
from finegraph.errors import InputError, UnknownNameError, unknown_name
from finegraph.files.closing import Closing
from finegraph.labelling import LabelStore
from finegraph.labelling.store.checks import photo_fault
from finegraph.labelling.store.renames import Rename, present_names
from finegraph.progress_types import ShowProgress
from finegraph.workflows.labels.graph_sources import source_folder, stored_photo_key, with_present_names
from finegraph.workflows.labels.label_stores import open_store
from finegraph.workflows.labels.label_suggestions import SuggestionCounts, make_suggestions

_MAX_BAD = 3


@dataclass(frozen=True, kw_only=True)
class SessionPhoto:
    """A photo that may be shown.

    Attributes:
        key: what it is called in the store and on the page.
        path: the file.
        root: the folder that it must lie in, wherever links lead.
        fine: its class, if it is known.
        box: where the object is; None for the whole photo.
    """

    key: str
    path: Path
    root: str
    fine: str | None
    box: Box | None


@dataclass
class LabelSession(Closing):
    """A store with the photos of its classes.

    Attributes:
        store: the decisions.
        name: what to call it.
        samples: the photos, if there are any.
        source: where they came from.
        notes: messages to show once.
        suggested: how many suggestions were made.
        began: the edit up to which the photos have the present names of their classes.
        outside: the files of photos that are links out of their folder; they are not shown.
    """

    store: LabelStore
    name: str
    samples: Samples | None = None
    source: str | None = None
    notes: tuple[str, ...] = ()
    suggested: SuggestionCounts = field(default_factory=SuggestionCounts)
    began: int = 0
    outside: frozenset[Path] = frozenset()
    _renames: list[Rename] = field(default_factory=list)
    _renaming: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def _folder(self) -> Path:
        """The folder that the keys of photos are relative to."""
        return source_folder(self.source or "")

    @cached_property
    def _photos(self) -> tuple[dict[str, SessionPhoto], dict[str, list[SessionPhoto]]]:
        """The photos by key, and by class."""
        by_key: dict[str, SessionPhoto] = {}
        by_fine: dict[str, list[SessionPhoto]] = {}
        if self.samples is None or self.source is None:
            return by_key, by_fine
        for sample in self.samples:
            key = stored_photo_key(sample.path, self._folder)
            if key not in by_key and photo_fault(key) is None and sample.path not in self.outside:
                root = root_of(sample.path, (self._folder,))
                photo = SessionPhoto(key=key, path=sample.path, root=root, fine=sample.label, box=sample.box)
                by_key[key] = photo
                if sample.label is not None:
                    by_fine.setdefault(sample.label, []).append(photo)
        return by_key, by_fine

    def photos(self, fine: str, limit: int | None = None) -> tuple[SessionPhoto, ...]:
        """The photos of a class, also under a name that it had when the session began; none if it has none."""
        return tuple(self._of_class(fine)[:limit])

    def photo_count(self, fine: str) -> int:
        """How many photos a class has."""
        return len(self._of_class(fine))

    def _of_class(self, fine: str) -> list[SessionPhoto]:
        by_fine = self._photos[1]
        if fine in by_fine or not by_fine:
            return by_fine.get(fine, [])
        names = {now: old for old, now in present_names(self._since(), (fine,)).items() if old in by_fine}
        return by_fine[names[fine]] if fine in names else []

    def classes_with_photos(self) -> set[int]:
        """The numbers of the classes that have photos."""
        old = present_names(self._since(), self.store.columns()[0]) if self._since() else {}
        names = {old.get(name, name) for name in self._photos[1]}
        return self.store.class_ids(names)

    def class_of(self, photo: SessionPhoto) -> int | None:
        """The number of the class that shows a photo; None if it has none."""
        for name in (photo.fine, *(rename.new for rename in reversed(self._since()))):
            if name is not None and any(one.key == photo.key for one in self._of_class(name)):
                with contextlib.suppress(UnknownNameError):
                    return self.store.one_class(name).number
        return None

    def _since(self) -> list[Rename]:
        """The classes that were renamed since the session began."""
        with self._renaming:
            last = self._renames[-1].number if self._renames else self.began
            self._renames += self.store.renames(last)
            return list(self._renames)

    def photo(self, key: str) -> SessionPhoto:
        """A photo by its key.

        Raises:
            UnknownNameError: no sample has it, so nothing else can be asked for.
        """
        by_key = self._photos[0]
        if key not in by_key:
            raise unknown_name("photo", key, tuple(by_key)[:1000])
        return by_key[key]

    def photo_at(self, path: Path) -> SessionPhoto | None:
        """The photo of a file, if it is one of those that can be labelled."""
        return self._photos[0].get(stored_photo_key(path, self._folder))

    def close(self) -> None:
        """Close the store."""
        self.store.close()


def open_session(
    graph: str | os.PathLike[str],
    *,
    data: str | None = None,
    model: str | os.PathLike[str] | None = None,
    database: str | None = None,
    progress: ShowProgress | None = None,
) -> LabelSession:
    """Open the store of a graph with its photos, and make suggestions.

    Args:
        graph: a graph file (its store is beside it, or in `database`), or a store itself.
        data: a source of photos; see `finegraph.data.read_samples`.
        model: a run folder or a model folder, for suggestions; it needs photos.
        database: the URL of the database to use in place of the file beside the graph.
        progress: called with the number of photos done and the total.

    Raises:
        GraphFileError: the graph file has faults.
        LabelStoreError: the store cannot be opened, or another process writes to it.
        DataError: the photos' list has faults.
        InputError: a model without photos.
    """
    if model is not None and data is None:
        raise InputError("suggestions of a model need photos to ask it about; name a source of photos too")
    samples = None if data is None else read_samples(data)
    store, notes = open_store(graph, database)
    try:
        began, known = store.version, set(store.columns()[0])
        outside: frozenset[Path] = frozenset()
        if samples is not None:
            samples = with_present_names(samples, present_names(store.renames(version=began), known))
        suggested = make_suggestions(store, model=model, samples=samples, progress=progress)
        store.rehearse()
        if suggested.bad:
            first = "; ".join(str(error) for error in suggested.bad[:_MAX_BAD])
            notes = (*notes, f"{len(suggested.bad)} photos could not be read: {first}")
        if samples is not None:
            folder = source_folder(str(data))
            odd = sum(photo_fault(stored_photo_key(sample.path, folder)) is not None for sample in samples)
            if odd:
                notes = (
                    *notes,
                    f"{odd} photos are left out: their file names hold control characters or are not UTF-8",
                )
            outside = paths_outside((sample.path for sample in samples), folder)
            if outside:
                notes = (*notes, f"{len(outside)} photos are left out: they are links that lead out of {folder}")
            strangers = sum(sample.label is not None and sample.label not in known for sample in samples)
            if strangers:
                notes = (*notes, f"{strangers} photos are of classes that the graph does not have")
    except BaseException:
        store.close()
        raise
    name = Path(os.fspath(graph)).stem if "://" not in os.fspath(graph) else "labels"
    return LabelSession(
        store=store,
        name=name,
        samples=samples,
        source=data,
        notes=notes,
        suggested=suggested,
        began=began,
        outside=outside,
    )
