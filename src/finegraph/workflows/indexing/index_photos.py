"""From the arguments of a user to the photos of an index.

photo.jpg               one photo, without a label
photos/                 the photos in a folder, without labels; or a folder per class, with labels
images.csv, cub:FOLDER  any source of data, with what it says of each photo

The same photo may be named twice, as long as nothing contradicts itself. Cost: listing folders; no photo is opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from finegraph.data.samples import Box, Sample, Samples
from finegraph.data.sources import LAYOUTS, read_samples
from finegraph.errors import DataError, PhotoFileError, unknown_name
from finegraph.graph.builders.folders import is_photo, passed_over
from finegraph.model.folder.find_model import MODEL_OF_RUN, find_model
from finegraph.training.records.run_folder import RunFolder
from finegraph.training.settings import TrainSettings

Identity = tuple[str, Box | None]


def read_photos(sources: Sequence[str | os.PathLike[str]], *, split: str | None = None, boxes: bool = False) -> Samples:
    """The photos of files, folders and sources of data.

    Args:
        sources: what the user named.
        split: only photos of this part of the data; None for all.
        boxes: whether the model looks at boxes, so that two boxes of a photo are two photos.

    Raises:
        DataError: there is no such file, there are no photos, or one has two labels.
        UnknownNameError: no photo is in such a split.
    """
    if not sources:
        raise DataError("expected photos to index: files, folders or a source of data; got none")
    photos: dict[Identity, Sample] = {}
    for source in sources:
        for sample in _of_source(os.fspath(source)):
            if split is None or sample.split == split:
                _put(photos, sample, boxes)
    named = ", ".join(os.fspath(source) for source in sources)
    if not photos:
        splits = sorted(
            {sample.split for source in sources for sample in _of_source(os.fspath(source)) if sample.split}
        )
        raise unknown_name("split", split, splits, f"in {named}")
    return Samples(photos.values(), named)


def roots_of(sources: Sequence[str | os.PathLike[str]]) -> list[str]:
    """The folder of each source, absolute: that which is named, or that of the file which is named."""
    folders = []
    for named in sources:
        source = os.fspath(named)
        layout, mark, place = source.partition(":")
        path = Path(place if mark and layout in LAYOUTS and not os.path.exists(source) else source)
        folders.append(os.path.abspath(path if path.is_dir() else path.parent))
    return folders


def identity_of(sample: Sample, boxes: bool) -> Identity:
    """The identity of a photo in an index: its absolute path, and its box if the model uses boxes."""
    return os.path.abspath(sample.path), sample.box if boxes else None


def _put(photos: dict[Identity, Sample], sample: Sample, boxes: bool) -> None:
    """Add a photo; if it was named before, a known label replaces an unknown one."""
    identity = identity_of(sample, boxes)
    named = photos.get(identity)
    if named is None or named.label is None:
        photos[identity] = sample
    elif sample.label is not None and sample.label != named.label:
        raise DataError(
            f"{sample.path}: this photo is named twice, as {named.label!r} and as {sample.label!r}; name it once"
        )


def _of_source(source: str) -> Iterable[Sample]:
    layout, mark, _ = source.partition(":")
    path = Path(source)
    if (mark and layout in LAYOUTS and not path.exists()) or path.suffix.lower() == ".csv":
        return read_samples(source)
    if path.is_dir():
        return _of_folder(path)
    if not os.path.lexists(path):  # opening a broken link raises the error
        if os.sep in source or path.suffix:
            raise PhotoFileError(source, "there is no such file")
        return read_samples(source)  # its error says what a source may be
    return [Sample(path)]


def _of_folder(folder: Path) -> Iterable[Sample]:
    """The photos of a folder: those in it, or of a folder per class."""
    with os.scandir(folder) as entries:
        visible = [entry for entry in entries if not entry.name.startswith(".")]
    if any(entry.is_dir() for entry in visible):
        return read_samples(folder)
    photos = [Sample(folder / entry.name) for entry in visible if is_photo(entry)]
    if not photos:
        others = "".join(f"; {note}" for note in passed_over(entry.name for entry in visible))
        raise DataError(f"{folder}: expected photos, or a folder per class; got a folder without photos{others}")
    return photos


def stored_features(model: str | os.PathLike[str]) -> str | Literal[False] | None:
    """The folder of stored features, None for that of the user, False for none.

    Only the features of a network that was not trained itself are ever wanted again, by the next run or evaluation.
    """
    path = find_model(model)
    folder = RunFolder(path.absolute().parent)
    if path.name != MODEL_OF_RUN or not folder.config_file.is_file():
        return False
    settings = TrainSettings.from_dict(folder.read_config(), str(folder.config_file))
    return settings.cache if settings.tune == "head" else False
