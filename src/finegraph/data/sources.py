"""From the name of a source to its samples, and to the label graph that it implies.

photos/                 a folder per class, with or without train, val and test folders above
images.csv              a manifest
cub:FOLDER              CUB-200-2011 as it comes
cars:FOLDER             Stanford Cars as it comes
grocery:FOLDER          the Grocery Store data set as it comes
cub+orders:FOLDER       the same photos as cub:FOLDER; in the graph, the sizes of birds are in rising order
cars+numbers:FOLDER     the same photos as cars:FOLDER; in the graph, years are numbers
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from finegraph.data.layouts.cars import read_cars
from finegraph.data.layouts.cub import read_cub
from finegraph.data.layouts.folders import read_folders
from finegraph.data.layouts.grocery import read_grocery
from finegraph.data.layouts.manifest import read_manifest
from finegraph.data.samples import Samples
from finegraph.errors import DataError, near_matches, near_paths
from finegraph.graph.builders import (
    graph_from_cars,
    graph_from_cub,
    graph_from_folders,
    graph_from_grocery,
    graph_from_manifest,
)
from finegraph.graph.label_graph import LabelGraph

LAYOUTS: dict[str, tuple[Callable[[Path], Samples], Callable[[Path], LabelGraph]]] = {
    "folder": (read_folders, graph_from_folders),
    "manifest": (read_manifest, graph_from_manifest),
    "cub": (read_cub, graph_from_cub),
    "cars": (read_cars, lambda folder: graph_from_cars()),
    "grocery": (read_grocery, graph_from_grocery),
    "cub+orders": (read_cub, lambda folder: graph_from_cub(folder, ordered=True)),
    "cars+numbers": (read_cars, lambda folder: graph_from_cars(numbers=True)),
}
"""Each layout with what reads its samples and its graph; what follows a plus sign changes the graph alone."""


_MAX_HEADER = 1 << 20


def read_samples(source: str | os.PathLike[str]) -> Samples:
    """The samples of a source.

    Args:
        source: a folder with a folder per class, a manifest (.csv), or `LAYOUT:PATH` with a layout such as `cub`,
            `cars` or `grocery`; `folder:PATH` and `manifest:PATH` work too.

    Raises:
        DataFileError: faults of its files, all of them at once.
        DataError: there is no such source, or it has no photos.
        MissingExtraError: the layout needs a package that is not installed.
    """
    layout, path = parse_source(source)
    samples = LAYOUTS[layout][0](path)
    if not len(samples):
        raise DataError("; ".join((f"{os.fspath(source)}: expected photos, found none", *samples.notes)))
    return samples


def source_graph(source: str | os.PathLike[str]) -> LabelGraph:
    """The label graph that a source implies: its folders, columns, attributes or table of classes."""
    layout, path = parse_source(source)
    return LAYOUTS[layout][1](path)


def names_layout(source: str) -> bool:
    """Whether a name says how a folder is laid out, as `cub:FOLDER` does."""
    layout, mark, place = source.partition(":")
    return bool(mark and place) and layout in LAYOUTS and not os.path.exists(source)


def photo_layout(layout: str) -> str:
    """The layout of the photos alone: `cub` for `cub+orders`."""
    return layout.partition("+")[0]


def is_manifest(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a manifest, by its header, rather than another CSV file such as a graph."""
    if not os.fspath(path).lower().endswith(".csv"):
        return False
    try:
        with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
            header = {cell.strip().strip('"') for cell in file.readline(_MAX_HEADER).split(",")}
    except OSError:
        return False
    return {"path", "label"} <= header and "fine" not in header


def parse_source(source: str | os.PathLike[str]) -> tuple[str, Path]:
    """The layout of a source and its path.

    Raises:
        DataError: neither a known layout, nor a folder, nor a manifest.
    """
    text = os.fspath(source)
    layout, mark, place = text.partition(":")
    if names_layout(text):
        return layout, Path(place)
    path = Path(text)
    if path.is_dir():
        return "folder", path
    if path.is_file():
        if path.suffix.lower() == ".csv":
            return "manifest", path
        raise DataError(f"{text}: expected a folder of photos or a manifest (.csv), got another file")
    raise DataError(f"{text}: there is no such file or folder{_hint(text, layout if mark else '')}")


def _hint(text: str, layout: str) -> str:
    """What may have been meant by a source that is not there."""
    base, plus, ending = layout.partition("+")
    changed = [name for name in LAYOUTS if "+" in name]
    endings = [name.partition("+")[2] for name in changed if photo_layout(name) == base]
    if plus and base in LAYOUTS and not near_matches(ending, endings):
        there = " and ".join(f"{name}:PATH" for name in changed)
        return f"; {base!r} has no {ending!r}; with orders or numbers there are {there}"
    if layout and (near := near_matches(layout, LAYOUTS)):
        return "; did you mean " + " or ".join(f"{name}:..." for name in near) + "?"
    if near_by := near_paths(text):
        return near_by
    return "; a source is a folder, a manifest (.csv), or one of " + ", ".join(f"{name}:PATH" for name in LAYOUTS)
