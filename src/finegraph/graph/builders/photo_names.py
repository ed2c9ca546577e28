"""Which files in a folder are photos, by their names, and the note about the others.

What can be decoded depends on what is installed, so the endings that count do too. A name is all that is looked at: a
link that leads nowhere or a pipe with the name of a photo counts as one; opening it raises the error.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from importlib.util import find_spec

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
"""The endings of the names of photos, in small letters; other files do not make a folder a fine label."""


def is_photo(entry: os.DirEntry[str]) -> bool:
    """Whether what is in a folder, and is not hidden, has the name of a photo and is no folder itself."""
    return _suffix(entry.name) in PHOTO_SUFFIXES and not entry.is_dir()


def passed_over(names: Iterable[str]) -> list[str]:
    """What to say of files that do not count as photos: how many there are of each ending.

    Example:
        >>> passed_over(["notes.txt", "list.TXT", "README"])
        ['2 .txt files and 1 file without an ending are no photos and are passed over']
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
        more = [f"{len(others) - _SHOWN} more endings"] if len(others) > _SHOWN else []
        shown = [*others[:_SHOWN], *more]
        listed = " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]
        one = sum(counts.values()) == 1
        notes.append(f"{listed} {'is no photo and is' if one else 'are no photos and are'} passed over")
    return notes


_SHOWN = 5


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()
