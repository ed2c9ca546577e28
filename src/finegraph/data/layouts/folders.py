"""Samples of a folder per class.

    photos/ramen/001.jpg              label "ramen", no split
    photos/train/noodles/ramen/1.jpg  label "ramen", split "train"; the folders between are kinds of the graph

The lowest folders are the fine labels, as in `graph_from_folders`, which reads the same layout. Hidden files and
folders without photos are passed over, and so are files that are not called like photos, which are counted by their
endings; a link that leads back is a fault. Cost: two listings of each folder; no photo is opened.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Literal

from finegraph.data.samples import Sample, Samples
from finegraph.errors import DataFileError, InputError
from finegraph.graph.builders.folders import check_clashes, check_leaves, find_leaves, has_splits, is_photo, passed_over
from finegraph.graph.builders.text_files import SourceFaults


def read_folders(
    root: str | os.PathLike[str],
    fine: Literal["name", "path"] = "name",
    splits: Collection[str] = ("train", "val", "test"),
) -> Samples:
    """The samples of the folders under `root`.

    Args:
        root: the folder with the folders of the classes in it, at any depth.
        fine: what a fine label is called: the "name" of its folder, or the "path" from `root` (or the split) on.
        splits: names of folders that part the photos, when all the top folders with photos are called so.

    Raises:
        DataFileError: folders that cannot be read or understood, all of them at once.
        GraphError: one name for fine labels in several places.
    """
    if fine not in ("name", "path"):
        raise InputError(f"fine must be 'name' or 'path', got {fine!r}")
    root = Path(root)
    faults = SourceFaults(f"the folder {root}", DataFileError)
    others: list[str] = []
    leaves = find_leaves(root, faults, others)
    split = has_splits(leaves, splits)
    check_leaves({parts[1:] if split else parts: root.joinpath(*parts) for parts in reversed(leaves)}, faults)
    faults.raise_if_any()
    if fine == "name":
        check_clashes(sorted({parts[1:] if split else parts for parts in leaves}))
    samples = []
    for parts in leaves:
        folder = root.joinpath(*parts)
        label = parts[-1] if fine == "name" else "/".join(parts[1:] if split else parts)
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if not entry.name.startswith(".") and is_photo(entry)]
        samples += [Sample(folder / name, label, parts[0] if split else None) for name in names]
    return Samples(samples, str(root), passed_over(others))
