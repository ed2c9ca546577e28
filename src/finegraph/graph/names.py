"""Valid names of fine labels, coarse labels and kinds.

A name is shown to people and written to files, so it must survive both: no white space at its ends, no control
characters, and no two names that differ only in how Unicode composes their letters. Nothing is repaired; a bad name is
reported.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

RESERVED_KINDS = frozenset({"fine", "path", "label", "split", "x", "y", "width", "height"})
"""Columns of graph and manifest files; a kind may not be called like one of them."""


def name_fault(name: object) -> str | None:
    """Why `name` cannot be a name, or None when it can."""
    if not isinstance(name, str):
        return f"a name must be text, got {type(name).__name__}"
    if not name:
        return "a name must not be empty"
    if name != name.strip():
        return "a name must not begin or end with white space"
    return control_fault(name)


def control_fault(text: str) -> str | None:
    """Which control character makes the text unusable as a name, or None when there is none."""
    if text.isprintable():  # true of nearly all names, and quick
        return None
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cs"):
            return f"a name must not contain the control character U+{ord(character):04X}"
    return None


def kind_name_fault(name: object) -> str | None:
    """Why `name` cannot be the name of a kind, or None when it can."""
    if isinstance(name, str) and name in RESERVED_KINDS:
        return "this name is taken by a column of the file forms; choose another for the kind"
    return name_fault(name)


def fold(name: str) -> str:
    """The name as it is compared when case and white space do not count."""
    return " ".join(name.casefold().split())


def unicode_twins(names: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of different names that read the same, because Unicode composes their letters in two ways."""
    first: dict[str, str] = {}
    twins = []
    for name in names:
        form = name if name.isascii() else unicodedata.normalize("NFC", name)
        other = first.setdefault(form, name)
        if other != name:
            twins.append((other, name))
    return twins
