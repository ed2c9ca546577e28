"""The photos of an index as one table, for filters, conditions and hits.

Photos are numbered from 0, in the order of their segments, without those that were removed. Numbers of fine labels are
those of the graph; labels that the graph does not have come after them. Cost: about 80 bytes per photo in memory; paths
and vectors stay in their files and are looked up where they are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from finegraph.graph import LabelGraph
from finegraph.search.segments import GUESSES, NONE, Segment


class Table:
    """The photos that are there.

    Attributes:
        names: the fine labels by number: those of the graph, then others that photos have.
        labels: the number of each photo's fine label, `NONE` where it is not known.
        guess_labels: (photo, guess) the fine labels of the graph that it is held for, `NONE` for no more.
        guess_probs: (photo, guess) with which probability.
        seen: per kind, the number of the label that was seen on each photo, `NONE` for none.
    """

    def __init__(self, segments: Sequence[Segment], graph: LabelGraph) -> None:
        self.segments, self.graph = tuple(segments), graph
        number_of = {name: number for number, name in enumerate(graph.fine)}
        for segment in self.segments:
            for name in segment.names:
                number_of.setdefault(name, len(number_of))
        self.names = tuple(number_of)
        self._starts = np.cumsum([0, *(len(segment.live) for segment in self.segments)])
        labels = [np.array([*(number_of[name] for name in one.names), NONE], np.int32) for one in self.segments]
        self.labels = _joined(
            [
                numbers_of_segment[one.arrays["labels"][one.live]]
                for numbers_of_segment, one in zip(labels, segments, strict=True)
            ]
        )
        self.guess_labels = _joined([one.arrays["guess_labels"][one.live] for one in segments], GUESSES)
        self.guess_probs = _joined([one.arrays["guess_probs"][one.live] for one in segments], GUESSES, np.float32)
        kinds = {kind: None for one in self.segments for kind in one.kinds}
        self.seen = {kind: _joined([_seen(one, kind) for one in self.segments]) for kind in kinds}

    def __len__(self) -> int:
        return int(self._starts[-1])

    def place(self, photo: int) -> tuple[Segment, int]:
        """The segment of a photo, and its row there."""
        number = int(np.searchsorted(self._starts, photo, side="right")) - 1
        segment = self.segments[number]
        return segment, int(segment.live[photo - self._starts[number]])

    def path(self, photo: int) -> str:
        """The path of a photo."""
        segment, row = self.place(photo)
        return segment.path(row)

    def key(self, photo: int) -> bytes:
        """The fingerprint of the content of a photo."""
        segment, row = self.place(photo)
        return bytes(segment.arrays["keys"][row].tobytes())

    def fine(self, guessed: bool = False) -> Int[NDArray[np.int32], " photo"]:
        """The number of each photo's fine label; with `guessed`, of what it is held for where it has none."""
        return np.where(self.labels == NONE, self.guess_labels[:, 0], self.labels) if guessed else self.labels

    def vectors(self, photos: Int[NDArray[np.int64], " place"]) -> Float[NDArray[np.float16], "place axis"]:
        """The vectors of some photos, in ascending order of their numbers."""
        parts = []
        for number, segment in enumerate(self.segments):
            rows = photos[(photos >= self._starts[number]) & (photos < self._starts[number + 1])] - self._starts[number]
            if len(rows):
                parts.append(segment.arrays["vectors"][segment.live[rows]])
        return np.concatenate(parts) if parts else np.zeros((0, 0), np.float16)

    def seen_on(self, photo: int) -> dict[str, int]:
        """The labels of kinds that were seen on a photo, by number."""
        return {kind: int(labels[photo]) for kind, labels in self.seen.items() if labels[photo] != NONE}


def kinds_of(graph: LabelGraph, seen: Mapping[str, int], fine: int) -> dict[str, tuple[str, ...]]:
    """The labels of each kind: what was seen on a photo, else the parents of its fine label; unknown ones not.

    Args:
        graph: the label graph.
        seen: the number of the label that was seen, by kind.
        fine: the number of the fine label; one that the graph does not have for none.
    """
    labels_by_kind: dict[str, tuple[str, ...]] = {}
    for name in graph.kinds:
        kind = graph.kind(name)
        if name in seen:
            labels_by_kind[name] = (kind.labels[seen[name]],)
        elif 0 <= fine < len(graph):
            parents = kind.coarse[kind.starts[fine] : kind.starts[fine + 1]].tolist()
            if parents:
                labels_by_kind[name] = tuple(kind.labels[parent] for parent in parents)
    return labels_by_kind


def values_of(graph: LabelGraph, fine: int) -> dict[str, float]:
    """The value of each number for a fine label; unknown ones are left out."""
    if not 0 <= fine < len(graph):
        return {}
    numbers = [graph.number(name) for name in graph.numbers]
    return {one.name: float(one.values[fine]) for one in numbers if one.known[fine]}


def _seen(segment: Segment, kind: str) -> NDArray[np.int32]:
    """The labels of a kind that were seen on the photos of a segment."""
    if f"kind:{kind}" not in segment.arrays:
        return np.full(len(segment.live), NONE, np.int32)
    return segment.arrays[f"kind:{kind}"][segment.live]


def _joined(parts: list[NDArray[np.int32]], width: int = 0, kind: type = np.int32) -> NDArray[np.int32]:
    """Parts concatenated; an empty array for no parts."""
    return np.concatenate(parts) if parts else np.zeros((0, width) if width else 0, kind)
