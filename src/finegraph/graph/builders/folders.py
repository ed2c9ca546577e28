"""The label graph of nested folders, and which files in a folder are photos.

    photos/fruit/apple/royal gala/001.jpg         fine label "royal gala", level 1 "fruit", level 2 "apple"

The folders that hold photos are the fine labels, and each level of folders above them is a kind. Folders of one level
with the same name are one coarse label, wherever they lie. Where photos lie less deep than elsewhere, the levels that
are missing are unknown. Folders without photos, and hidden files and folders, are ignored. Links to folders are
followed, but a link that leads back is a fault.

Whether a file is a photo is decided by its name alone: a broken link or a pipe with the name of a photo
counts as one; opening it raises the error. What can be decoded depends on what is installed, and so do the endings that
count. Cost: one listing of each folder; no photo is opened.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from finegraph.errors import EmptyGraphError, GraphError, InputError
from finegraph.graph.builders.text_files import SourceFaults
from finegraph.graph.kind_columns import TableCell, kinds_of_column
from finegraph.graph.label_graph import LabelGraph
from finegraph.graph.names import name_fault

_Parts = tuple[str, ...]
_MAX_CLASHES, _MAX_ENDINGS = 10, 5
"""How many folders with the same name, and how many file endings, a message lists."""
_ALWAYS = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"})
_HEIF = ("pillow_heif", "pip install 'finegraph[heif]'")
_BY_PACKAGE = {
    ".avif": ("PIL._avif", "pip install --upgrade pillow"),
    ".heic": _HEIF,
    ".heif": _HEIF,
    ".hif": _HEIF,
}
"""Endings that need a package, and how to get it."""

PHOTO_SUFFIXES = _ALWAYS | {suffix for suffix, (package, _) in _BY_PACKAGE.items() if find_spec(package) is not None}
"""The endings of photo names, in lower case; other files do not make a folder a fine label."""


def graph_from_folders(
    root: str | os.PathLike[str],
    kinds: Sequence[str] | None = None,
    fine: Literal["name", "path"] = "name",
    splits: Collection[str] = ("train", "val", "test"),
) -> LabelGraph:
    """The graph of the folders under `root`, in the order of their names.

    Args:
        root: the folder with these folders in it.
        kinds: what the levels are called, from the top; by default `level 1`, `level 2`, and so on.
        fine: what a fine label is called: the "name" of its folder, or its "path" below `root`, with `/`, for when
            one name occurs in several places.
        splits: names of folders that are splits rather than a level, such as `train`; they are skipped if all the
            top folders with photos are called so.

    Raises:
        GraphFileError: folders that cannot be read or understood, all of them at once.
        GraphError: one name for fine labels in several places.
        EmptyGraphError: no photos at all.
    """
    if fine not in ("name", "path"):
        raise InputError(f"fine must be 'name' or 'path', got {fine!r}")
    root = Path(root)
    faults = SourceFaults(f"the folder {root}")
    found = find_leaves(root, faults)
    split = has_splits(found, splits)
    folders = {parts[1:] if split else parts: root.joinpath(*parts) for parts in reversed(found)}
    leaves = sorted(folders)
    check_leaves(folders, faults)
    faults.raise_if_any()
    if not leaves:
        endings = " ".join(sorted(PHOTO_SUFFIXES))
        raise EmptyGraphError(f"expected folders with photos under {root}, found none; photos end in {endings}")
    if fine == "name":
        check_clashes(leaves)
    depth = max(map(len, leaves)) - 1
    names = [f"level {level + 1}" for level in range(depth)] if kinds is None else list(kinds)
    if len(names) != depth:
        raise InputError(
            f"expected {depth} names of kinds, one per level of folders above the photos', got {len(names)}"
        )
    columns = []
    for level, name in enumerate(names):
        # The last part of a leaf is the fine label itself, so a shallow leaf has no label at this level.
        cells = [TableCell((parts[level],)) if level < len(parts) - 1 else None for parts in leaves]
        columns += kinds_of_column(name, cells)
    return LabelGraph(["/".join(parts) if fine == "path" else parts[-1] for parts in leaves], columns)


def find_leaves(root: Path, faults: SourceFaults, others: list[str] | None = None) -> list[_Parts]:
    """The folders that hold photos, as the parts of their paths from `root` on, sorted.

    Args:
        root: where to look.
        faults: folders that cannot be read or understood are noted here.
        others: collects the names of files that are not photos.
    """
    leaves: list[_Parts] = []
    # A folder is entered once below each top folder, so that links cannot lead in circles, and yet one split may be a
    # link to another.
    entered: dict[tuple[str, int, int], _Parts] = {}
    waiting: list[_Parts] = [()]
    while waiting:
        parts = waiting.pop()
        path = root.joinpath(*parts)
        try:
            status = path.stat()
            top = parts[0] if parts else ""
            earlier = entered.setdefault((top, status.st_dev, status.st_ino), parts)
            at_root = entered.get(("", status.st_dev, status.st_ino), parts)
            if earlier != parts or at_root != parts:
                other = str(root.joinpath(*(earlier if earlier != parts else at_root)))
                message = f"is a link to {other!r}, which is read already"
                faults.of(path).add("folder-twice", message, hint="remove the link")
                continue
            below, photos, rest = _list_folder(path)
        except OSError as error:
            faults.of(path).add("unreadable-folder", f"cannot be read: {error.strerror or type(error).__name__}")
            continue
        waiting += [(*parts, name) for name in below]
        if photos:
            leaves.append(parts)
        if others is not None:
            others += rest
    return sorted(leaves)


def _list_folder(path: Path) -> tuple[list[str], bool, list[str]]:
    """The folders in a folder, whether it holds photos itself, and the names of its other files."""
    below, photos, others = [], False, []
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                below.append(entry.name)
            elif is_photo(entry):
                photos = True
            else:
                others.append(entry.name)
    return below, photos, others


def has_splits(found: Sequence[_Parts], splits: Collection[str]) -> bool:
    """Whether all the top folders with photos are splits rather than a level."""
    return bool(found) and all(parts and parts[0] in splits for parts in found)


def check_leaves(folders: dict[_Parts, Path], faults: SourceFaults) -> None:
    """Note photos outside the lowest folders, and folders whose names cannot be labels."""
    named: set[_Parts] = set()
    above: set[_Parts] = set()
    for parts in sorted(folders):
        if not parts:
            hint = "move them into the folder of a label"
            faults.of(folders[parts]).add("photo-without-label", "photos lie outside any label", hint=hint)
        for length in range(1, len(parts) + 1):
            labels = parts[:length]
            if labels not in named and (fault := name_fault(labels[-1])):
                path = folders[parts].parents[len(parts) - length - 1] if labels != parts else folders[parts]
                faults.of(path).add("bad-name", fault, value=labels[-1], hint="rename the folder")
            named.add(labels)
            if labels != parts and labels in folders and labels not in above:
                message = f"holds photos, but photos lie also below it, in {str(folders[parts])!r}"
                hint = "photos belong into the lowest folders; move them into one"
                faults.of(folders[labels]).add("photos-above-label", message, hint=hint)
                above.add(labels)


def check_clashes(leaves: list[_Parts]) -> None:
    """Raise if fine labels in several places have one name."""
    places: dict[str, list[str]] = {}
    for parts in leaves:
        places.setdefault(parts[-1], []).append("/".join(parts))
    clashes = [f"  {name!r}: {', '.join(found[:3])}" for name, found in places.items() if len(found) > 1]
    if clashes:
        more = [f"  and {len(clashes) - _MAX_CLASHES} more"] if len(clashes) > _MAX_CLASHES else []
        lines = ["several folders with photos have the same name:", *clashes[:_MAX_CLASHES], *more]
        raise GraphError("\n".join([*lines, "rename them, or take the paths as fine labels with fine='path'"]))


def is_photo(entry: os.DirEntry[str]) -> bool:
    """Whether an entry of a folder has the name of a photo, and is neither hidden nor a folder."""
    return _suffix(entry.name) in PHOTO_SUFFIXES and not entry.is_dir()


def passed_over(names: Iterable[str]) -> list[str]:
    """Notes on files that are not photos: how many there are of each ending.

    Example:
        >>> passed_over(["notes.txt", "list.TXT", "README"])
        ['2 .txt files and 1 file without an ending are not photos and are ignored']
    """
    spelling: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for name in names:
        suffix = os.path.splitext(name)[1]
        spelling.setdefault(suffix.lower(), suffix)
        counts[suffix.lower()] += 1
    notes, others = [], []
    for suffix, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        which = f"{spelling[suffix]} " if suffix else ""
        words = f"{count:,} {which}file{'' if count == 1 else 's'}{'' if suffix else ' without an ending'}"
        if suffix in _BY_PACKAGE:
            notes.append(f"{words} cannot be read: {_BY_PACKAGE[suffix][1]}")
        else:
            others.append(words)
    if others:
        more = [f"{len(others) - _MAX_ENDINGS} more endings"] if len(others) > _MAX_ENDINGS else []
        shown = [*others[:_MAX_ENDINGS], *more]
        listed = " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]
        one = sum(counts.values()) == 1
        notes.append(f"{listed} {'is not a photo and is' if one else 'are not photos and are'} ignored")
    return notes


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()
