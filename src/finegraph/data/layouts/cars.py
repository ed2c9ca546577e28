"""Samples of Stanford Cars, from its folders and devkit as published.

    devkit/cars_meta.mat                  the names of the classes
    devkit/cars_train_annos.mat           box and class of each photo in cars_train/
    cars_test_annos_withlabels.mat        the same of the photos in cars_test/, beside the devkit or in it
    devkit/cars_test_annos.mat            taken if that is missing: boxes only, so the label is None

The files are MATLAB's and need scipy (the extra `mat`). MATLAB counts pixels from 1 and includes the last one, so the
corner (x1, y1) becomes (x1 - 1, y1 - 1), and the width is x2 - x1 + 1. Cost: linear in the photos.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from finegraph.data.samples import Box, Sample, Samples
from finegraph.errors import DataFileError, MissingExtraError
from finegraph.graph.builders.text_files import SourceFaults
from finegraph.graph.faults import FaultList
from finegraph.graph.names import name_fault

_CORNERS = ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2")
_PLACES = ("devkit", ".", "car_devkit/devkit", "car_devkit")
_WITH_LABELS, _WITHOUT_LABELS = "cars_test_annos_withlabels.mat", "cars_test_annos.mat"


def read_cars(folder: str | os.PathLike[str]) -> Samples:
    """The samples of a folder with the layout of Stanford Cars.

    Args:
        folder: the folder with `cars_train`, `cars_test` and `devkit` in it.

    Raises:
        DataFileError: files that are missing or wrong, all faults at once.
        MissingExtraError: scipy is not installed.
    """
    _import_loadmat()  # before anything else, as nothing can be read without it
    folder = Path(folder)
    faults = SourceFaults(f"the Stanford Cars folder {folder}", DataFileError)
    classes = _read_classes(_place(folder, ("cars_meta.mat",), faults), faults)
    train = _place(folder, ("cars_train_annos.mat",), faults)
    test = _place(folder, (_WITH_LABELS, _WITHOUT_LABELS), faults)
    samples = _read_split(folder / "cars_train", train, "train", classes, faults)
    samples += _read_split(folder / "cars_test", test, "test", classes, faults)
    faults.raise_if_any()
    notes = []
    if test is not None and test.name == _WITHOUT_LABELS:
        notes.append(f"{test}: this file has no labels; with {_WITH_LABELS} beside it the test photos have theirs")
    return Samples(samples, str(folder), notes)


def _import_loadmat() -> Any:
    """The function of scipy that reads the files."""
    try:
        from scipy.io import loadmat
    except ImportError:
        raise MissingExtraError(
            "Stanford Cars comes in MATLAB's files, which need scipy; install it with: pip install 'finegraph[mat]'"
        ) from None
    return loadmat


def _place(folder: Path, names: tuple[str, ...], faults: SourceFaults) -> Path | None:
    """Where a file of the devkit lies; the first name that is there wins."""
    for name in names:
        for place in _PLACES:
            if (folder / place / name).is_file():
                return folder / place / name
    hint = f"looked in {', '.join(str(folder / place) for place in _PLACES)}"
    faults.of(folder).add("missing-file", f"there is no {' nor '.join(names)}", hint=hint)
    return None


def _read_table(path: Path, name: str, fields: tuple[str, ...], faults: FaultList) -> Any:
    """The variable of a file, as an array without empty axes; None, with a fault noted, if that fails."""
    try:
        table = np.atleast_1d(_import_loadmat()(str(path), squeeze_me=True)[name])
    except KeyError:
        faults.add("bad-mat-file", f"expected the variable {name!r}, which is not in the file")
        return None
    except Exception as error:  # a broken file can fail in any way inside the reader
        faults.add("bad-mat-file", f"cannot be read as a MATLAB file: {str(error) or type(error).__name__}")
        return None
    missing = [field for field in fields if field not in (table.dtype.names or ())]
    if missing:
        faults.add("bad-mat-file", f"{name!r} has no field {', '.join(missing)}")
        return None
    return table


def _read_classes(path: Path | None, source_faults: SourceFaults) -> list[str]:
    """The names of the classes."""
    if path is None:
        return []
    faults = source_faults.of(path)
    table = _read_table(path, "class_names", (), faults)
    names = [] if table is None else [str(name) for name in table]
    for number, name in enumerate(names, start=1):
        if fault := name_fault(name):
            faults.add("bad-name", f"class number {number}: {fault}", value=name)
    return names


def _read_split(
    photos: Path, path: Path | None, split: str, classes: list[str], source_faults: SourceFaults
) -> list[Sample]:
    """The samples of one list of photos."""
    if path is None:
        return []
    faults = source_faults.of(path)
    table = _read_table(path, "annotations", (*_CORNERS, "fname"), faults)
    if table is None:
        return []
    samples = []
    for number, row in enumerate(table, start=1):
        name = str(row["fname"])
        where = f"photo number {number}"
        if not name or Path(name).name != name:
            faults.add("bad-path", f"{where}: expected the name of a file", value=name)
            continue
        label = _label(row["class"], classes, where, faults) if "class" in table.dtype.names else None
        samples.append(Sample(photos / name, label, split, _box(row, where, faults)))
    return samples


def _label(value: Any, classes: list[str], where: str, faults: FaultList) -> str | None:
    """The fine label, from the number of a class."""
    number = int(value) if np.ndim(value) == 0 and str(value).isdecimal() else 0
    if 1 <= number <= len(classes):
        return classes[number - 1]
    if classes:
        faults.add("bad-class", f"{where}: expected the number of a class, 1 to {len(classes)}", value=str(value))
    return None


def _box(row: Any, where: str, faults: FaultList) -> Box | None:
    """The box, counted from 0."""
    try:
        left, top, right, bottom = (float(row[corner]) for corner in _CORNERS)
    except (TypeError, ValueError):
        left = top = right = bottom = np.nan
    box = Box(left - 1, top - 1, right - left + 1, bottom - top + 1)
    if np.isfinite(box).all() and min(box.x, box.y) >= 0 and min(box.width, box.height) > 0:
        return box
    value = " ".join(str(row[corner]) for corner in _CORNERS)
    faults.add("bad-box", f"{where}: expected the corners x1 y1 x2 y2, counted from 1", value=value)
    return None
