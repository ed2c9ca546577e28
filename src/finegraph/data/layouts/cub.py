"""Samples of CUB-200-2011, from its folder as published.

    images.txt               number and path below images/
    image_class_labels.txt   number of the photo, number of its class in classes.txt
    train_test_split.txt     number of the photo, 1 for training, 0 for testing
    bounding_boxes.txt       number of the photo, x, y, width, height
    attributes/image_attribute_labels.txt   what people saw on each photo, and how sure they were (may be missing)

Every photo must stand in each of the first four. Cost: linear in the files; the last has 3.7 million lines.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

from finegraph.data.layouts.cub_attributes import read_photo_attributes
from finegraph.data.samples import Box, Sample, Samples
from finegraph.errors import DataFileError
from finegraph.graph.builders.cub import read_classes
from finegraph.graph.builders.text_files import SourceFaults, read_lines
from finegraph.graph.faults import FaultList

_SPLITS = {"1": "train", "0": "test"}


def read_cub(folder: str | os.PathLike[str], certainty: int = 3) -> Samples:
    """The samples of a folder with the layout of CUB-200-2011.

    Args:
        folder: the folder with `images.txt` in it, usually called `CUB_200_2011`.
        certainty: how sure people must have been of an attribute for it to become a label of the photo: 4 definitely,
            3 probably, 2 guessing.

    Raises:
        DataFileError: files that are missing or wrong, all faults at once.
    """
    folder = Path(folder)
    faults = SourceFaults(f"the CUB folder {folder}", DataFileError)
    path = folder / "classes.txt"
    classes = read_classes(path, faults.of(path)) or []
    photos = _read_numbered(folder / "images.txt", 1, None, faults)
    labels = _read_numbered(folder / "image_class_labels.txt", 1, photos, faults)
    splits = _read_numbered(folder / "train_test_split.txt", 1, photos, faults)
    boxes = _read_numbered(folder / "bounding_boxes.txt", 4, photos, faults)
    kinds, notes = read_photo_attributes(folder, photos, certainty, faults)
    samples = []
    for number, (line, (place,)) in photos.items():
        label = _label(labels.get(number), classes, faults.of(folder / "image_class_labels.txt"))
        split = _split(splits.get(number), faults.of(folder / "train_test_split.txt"))
        box = _box(boxes.get(number), faults.of(folder / "bounding_boxes.txt"))
        if os.path.isabs(place) or ".." in Path(place).parts:
            hint = "paths are relative to the folder images"
            faults.of(folder / "images.txt").add("bad-path", "leads outside", line=line, value=place, hint=hint)
        samples.append(Sample(folder / "images" / place, label, split, box, kinds.get(number, {})))
    faults.raise_if_any()
    return Samples(samples, str(folder), notes)


_Rows = dict[str, tuple[int, list[str]]]
"""The number of a photo -> the line and the fields that follow."""


def _read_numbered(path: Path, fields: int, photos: _Rows | None, source_faults: SourceFaults) -> _Rows:
    """The fields of each photo, by its number; `photos` are those that must be there."""
    faults = source_faults.of(path)
    rows: _Rows = {}
    for line, text in enumerate(read_lines(path, faults) or [], start=1):
        number, *cells = text.split(None, 1) if fields == 1 else text.split()
        if not number.isdecimal() or len(cells) != fields:
            message = f"expected the number of a photo and {fields} field{'s' if fields > 1 else ''}"
            faults.add("bad-line", message, line=line, value=text)
        elif number in rows:
            message = f"photo {number} stands on line {rows[number][0]} already"
            faults.add("duplicate-photo", message, line=line, value=text)
        elif photos and number not in photos:
            faults.add("unknown-photo", f"there is no photo {number} in images.txt", line=line, value=text)
        else:
            rows[number] = line, [cell.rstrip() for cell in cells]
    if not len(faults) and not rows:
        faults.add("empty-file", "expected one line per photo, got an empty file", line=1)
    missing = [number for number in photos or () if number not in rows]
    if missing and not len(faults):
        more = f" and of {len(missing) - 1} more" if len(missing) > 1 else ""
        faults.add("missing-photo", f"there is no line of photo {missing[0]}{more}, which images.txt lists")
    return rows


def _label(row: tuple[int, list[str]] | None, classes: list[str], faults: FaultList) -> str | None:
    """The fine label of a photo, from the number of its class."""
    if row is None or not classes:
        return None  # a fault already
    line, (number,) = row
    if number.isdecimal() and 1 <= int(number) <= len(classes):
        return classes[int(number) - 1]
    message = f"expected the number of a class, 1 to {len(classes)}, as in classes.txt"
    faults.add("bad-class", message, line=line, value=number)
    return None


def _split(row: tuple[int, list[str]] | None, faults: FaultList) -> str | None:
    """Whether a photo is for training or for testing."""
    if row is None:
        return None
    line, (flag,) = row
    if flag not in _SPLITS:
        faults.add("bad-split", "expected 1 for training or 0 for testing", line=line, value=flag)
    return _SPLITS.get(flag)


def _box(row: tuple[int, list[str]] | None, faults: FaultList) -> Box | None:
    """The box of a photo."""
    if row is None:
        return None
    line, cells = row
    try:
        x, y, width, height = map(float, cells)
    except ValueError:
        x = y = width = height = math.nan
    if not all(map(math.isfinite, (x, y, width, height))) or min(x, y) < 0 or min(width, height) <= 0:
        faults.add("bad-box", "expected x y width height in pixels", line=line, value=" ".join(cells))
        return None
    return Box(x, y, width, height)
