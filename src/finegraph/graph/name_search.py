"""Substring search over a million names, fast enough to run while somebody types.

All names are concatenated, with case folded, into one array of bytes. The positions of the first two bytes of a query
are found in one pass over it, and each further byte narrows them down. Matching bytes of UTF-8 is exact: no
character is a part of another. Cost: one pass over the bytes of all names, then over the matches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from finegraph.graph.label_graph import LabelGraph

_END = b"\xff"
"""Separates names; never a byte of UTF-8."""


class NameSearch:
    """Names prepared for substring search.

    Example:
        >>> NameSearch(["Kung pao @ B", "mapo tofu @ A", "TOFU soup"]).holding("tofu")
        (2, ['TOFU soup', 'mapo tofu @ A'])
    """

    def __init__(self, names: Sequence[str]) -> None:
        folded = [name.casefold().encode("utf-8", "surrogatepass") for name in names]
        self._names = names
        sizes = np.fromiter((len(one) + 1 for one in folded), np.int64, len(folded))
        self._ends = np.cumsum(sizes)
        self._starts = self._ends - sizes
        self._bytes = np.frombuffer(_END.join(folded) + 2 * _END, np.uint8)

    def holding(self, text: str, limit: int | None = None) -> tuple[int, list[str]]:
        """How many names contain a text, and the first of them; those that begin with it come first.

        Args:
            text: what to look for, ignoring case. All names contain the empty text.
            limit: how many names are listed; all by default.
        """
        wanted = text.casefold().strip().encode("utf-8", "surrogatepass")
        if not wanted:
            return len(self._names), list(self._names if limit is None else self._names[:limit])
        found = self._bytes[:-1] == wanted[0]
        if len(wanted) > 1:
            found &= self._bytes[1:] == wanted[1]
        place = np.flatnonzero(found)
        for step, byte in enumerate(wanted[2:], start=2):
            place = place[place + step < len(self._bytes)]
            place = place[self._bytes[place + step] == byte]
        owner = np.searchsorted(self._ends, place, side="right")
        new = np.ones(len(owner), bool)
        new[1:] = owner[1:] != owner[:-1]
        owner, place = owner[new], place[new]
        begins = place == self._starts[owner]
        listed = np.concatenate([owner[begins][:limit], owner[~begins][:limit]])[:limit]
        return len(owner), [self._names[number] for number in listed.tolist()]


def label_search(graph: LabelGraph, kind: str | None = None) -> NameSearch:
    """A search over the fine labels of a graph, or over the labels of a kind; made once and kept with the graph."""
    key = (NameSearch, kind)
    if key not in graph.derived:
        graph.derived[key] = NameSearch(graph.fine if kind is None else graph.labels(kind))
    found = graph.derived[key]
    assert isinstance(found, NameSearch)
    return found
