"""Samples of CUB-200-2011, from its folder as published.

    images.txt               number and path below images/
    image_class_labels.txt   number of the photo, number of its class in classes.txt
    train_test_split.txt     number of the photo, 1 for training, 0 for testing
    bounding_boxes.txt       number of the photo, x, y, width, height
    attributes/image_attribute_labels.txt   what people saw on each photo, and how sure they were (may be missing)

Every photo must stand in each of the first four. The last has the photo labels. Each of its lines says: photo,
attribute, present (1) or not (0), how sure (1 not visible, 2 guessing, 3 probably, 4 definitely), seconds. A group of
attributes ("bill shape") gives a photo a label when one choice of it was seen with more certainty than all others; if
two tie, the photo has no label of that kind. The published file has lines with fields too many, in which one cannot
tell which is which. They are left out and counted.

Cost: linear in the files. The last has 3.7 million lines; it is read in pieces and parsed by numpy, which takes seconds
and little memory.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from finegraph.data.samples import Box, Sample, Samples
from finegraph.errors import DataFileError, InputError
from finegraph.graph.builders.cub import attribute_file, read_attributes, read_fine_labels
from finegraph.graph.builders.text_files import SourceFaults, read_lines
from finegraph.graph.faults import FaultList

_SPLITS = {"1": "train", "0": "test"}
_ATTRIBUTE_LABELS = Path("attributes") / "image_attribute_labels.txt"
_FIELDS = 5
_PIECE = 2**22
"""Bytes that are parsed at a time."""
_MAX_CERTAIN = 4


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
    classes = read_fine_labels(path, faults.of(path)) or []
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
            message = f"photo {number} is already on line {rows[number][0]}"
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


def read_photo_attributes(
    folder: Path, photos: Collection[str], certainty: int, source_faults: SourceFaults
) -> tuple[dict[str, dict[str, str]], list[str]]:
    """The labels seen on each photo: number of the photo -> kind -> label; and notes on lines that were left out.

    Args:
        folder: the folder of the data set.
        photos: the numbers of the photos.
        certainty: how sure people must have been, 1 to 4.
        source_faults: where faults are noted.
    """
    if not isinstance(certainty, int) or not 1 <= certainty <= _MAX_CERTAIN:
        raise InputError(f"certainty must be 1 (not visible) to {_MAX_CERTAIN} (definitely), got {certainty!r}")
    path = folder / _ATTRIBUTE_LABELS
    if not path.is_file():
        return {}, []
    place = attribute_file(folder, source_faults.of(folder))
    named = read_attributes(place, source_faults.of(place)) if place else None
    if not named:
        return {}, []
    table, odd = _read_table(path, source_faults.of(path))
    notes = []
    if odd:
        many = f"{len(odd)} lines do not have {_FIELDS} fields and were left out, the first is line {odd[0]}"
        notes.append(f"{path}: {many if len(odd) > 1 else f'line {odd[0]} has not {_FIELDS} fields and was left out'}")
    faults = source_faults.of(path)
    known = np.isin(table[:, 0], np.array([int(number) for number in photos if number.isdecimal()], dtype=np.int64))
    if not known.all():
        number = table[np.flatnonzero(~known)[0], 0]
        faults.add("unknown-photo", f"there is no photo {number} in images.txt", value=str(number))
    if len(table) and (table[:, 1].min() < 1 or table[:, 1].max() > len(named)):
        faults.add("bad-attribute", f"expected attributes from 1 to {len(named)}, as in attributes.txt")
        return {}, notes
    return _labels(table[(table[:, 2] == 1) & (table[:, 3] >= certainty)], named), notes


def _labels(seen: NDArray[np.int64], named: list[tuple[str, str]]) -> dict[str, dict[str, str]]:
    """The labels of each photo, from the rows (photo, attribute, present, certainty) that are sure enough."""
    groups = {group: number for number, group in enumerate(dict.fromkeys(group for group, _ in named))}
    group_of = np.array([groups[group] for group, _ in named], dtype=np.int64)
    attribute = seen[:, 1] - 1
    group = group_of[attribute]
    order = np.lexsort((attribute, -seen[:, 3], group, seen[:, 0]))
    photo, group, attribute, sure = seen[order, 0], group[order], attribute[order], seen[order, 3]
    same = (photo[1:] == photo[:-1]) & (group[1:] == group[:-1])
    first = np.concatenate([[True], ~same]) if len(photo) else np.zeros(0, dtype=bool)
    tied = np.concatenate([same & (sure[1:] == sure[:-1]), [False]]) if len(photo) else first
    labels: dict[str, dict[str, str]] = {}
    for number, chosen in zip(photo[first & ~tied].tolist(), attribute[first & ~tied].tolist(), strict=True):
        kind, label = named[chosen]
        labels.setdefault(str(number), {})[kind] = label
    return labels


def _read_table(path: Path, faults: FaultList) -> tuple[NDArray[np.int64], list[int]]:
    """The rows (photo, attribute, present, certainty), and the lines with too many or too few fields."""
    tables, odd, line = [np.zeros((0, 4), dtype=np.int64)], list[int](), 0
    for piece in _pieces(path):
        bytes_ = np.frombuffer(piece, dtype=np.uint8)
        blank = bytes_ <= ord(" ")
        starts_field = ~blank & np.concatenate([[True], blank[:-1]])
        ends = np.flatnonzero(bytes_ == ord("\n"))
        fields = np.diff(np.cumsum(starts_field)[ends], prepend=0)
        for bad in np.flatnonzero((fields != _FIELDS) & (fields > 0)).tolist():
            odd.append(line + bad + 1)
        good = piece if (fields == _FIELDS).all() else _without(piece, ends, fields)
        numbers = _numbers(good)
        if len(numbers) != _FIELDS * np.count_nonzero(fields == _FIELDS) or not np.isfinite(numbers).all():
            message = "expected nothing but numbers on the lines from here on"
            faults.add("bad-number", message, line=line + len(numbers) // _FIELDS + 1)
            break
        tables.append(numbers.reshape(-1, _FIELDS)[:, :4].astype(np.int64))
        line += len(ends)
    return np.concatenate(tables), odd


def _numbers(text: bytes) -> NDArray[np.float64]:
    """The numbers in a text, up to the first thing that is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the caller sees by their count where they stop
        try:
            return np.fromstring(text, dtype=np.float64, sep=" ")
        except ValueError:
            return np.zeros(0)


def _pieces(path: Path) -> Iterator[bytes]:
    """The file in pieces of whole lines."""
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            piece += file.readline()
            yield piece if piece.endswith(b"\n") else piece + b"\n"


def _without(piece: bytes, ends: NDArray[np.int64], fields: NDArray[np.int64]) -> bytes:
    """The lines of a piece that have the right number of fields."""
    starts = np.concatenate([[0], ends[:-1] + 1])
    kept = np.flatnonzero(fields == _FIELDS)
    return b"".join(piece[starts[i] : ends[i] + 1] for i in kept.tolist())
