"""The photos of an index as one table, for filters, conditions and hits.

Photos are numbered from 0, in the order of their segments, without those that were removed. Numbers of fine labels are
those of the graph; labels that the graph does not have come after them. For each label there is a list of the photos
that may have it, so that a filter looks at these alone; lists are made when they are first asked for.

Cost: about 20 bytes per photo in memory, and 4 for each kind of which labels were seen; paths, guesses and vectors stay
in their files and are looked up where they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from finegraph.graph import LabelGraph
from finegraph.model.features.keys import PhotoKeys
from finegraph.search.nearest import Numbers
from finegraph.search.segments import NONE, Segment

_KEYS = 2**16
Pairs = Iterator[tuple[Int[NDArray[np.int32], " item"], Int[NDArray[np.int32], " item"]]]


class PhotoLists:
    """For each number the photos that have it, ascending.

    Args:
        pairs: gives numbers and the photos that have them, in parts, photos ascending; it is called twice.
        count: how many numbers there are.
    """

    def __init__(self, pairs: Callable[[], Pairs], count: int) -> None:
        sizes = np.zeros(count, np.int64)
        for numbers, _ in pairs():
            sizes += np.bincount(numbers, minlength=count)
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        self._photos = np.empty(int(self._starts[-1]), np.int32)
        free = self._starts[:-1].copy()
        for numbers, photos in pairs():
            order, own = np.argsort(numbers, kind="stable"), np.bincount(numbers, minlength=count)
            ordered = numbers[order]
            places = free[ordered] + np.arange(len(ordered)) - (np.cumsum(own) - own)[ordered]
            self._photos[places] = photos[order]
            free += own

    def sizes(self, numbers: Int[NDArray[np.int64], " place"]) -> Int[NDArray[np.int64], " place"]:
        """How many photos each of some numbers has."""
        sizes: NDArray[np.int64] = self._starts[numbers + 1] - self._starts[numbers]
        return sizes

    def of(self, numbers: Iterable[int]) -> list[Int[NDArray[np.int32], " _"]]:
        """The photos of each of some numbers."""
        return [self._photos[self._starts[number] : self._starts[number + 1]] for number in numbers]


class Table:
    """The photos of an index that were not removed.

    Attributes:
        names: the fine labels by number: those of the graph, then others that photos have.
        labels: the number of each photo's fine label, `NONE` where it is not known.
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
        kinds = {kind: None for one in self.segments for kind in one.kinds}
        self.seen = {kind: _joined([_seen(one, kind) for one in self.segments]) for kind in kinds}
        self.forget()

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

    def fine(
        self, guessed: bool = False, photos: Int[Numbers, " place"] | None = None
    ) -> Int[NDArray[np.int32], " place"]:
        """The number of the fine label of each photo, or of some.

        Args:
            guessed: whether photos without one have the label that the model assumes.
            photos: ascending or not; None for all.
        """
        labels = self.labels if photos is None else self.labels[photos]
        unknown = np.flatnonzero(labels == NONE) if guessed else np.zeros(0, np.int64)
        if not len(unknown):
            return labels
        labels = labels.copy()
        # Ascending, so that each segment is read once.
        own = unknown if photos is None else unknown[np.argsort(photos[unknown])]
        labels[own] = self.guesses(own if photos is None else photos[own])[0][:, 0]
        return labels

    def guesses(
        self, photos: Int[Numbers, " photo"]
    ) -> tuple[Int[NDArray[np.int32], "photo place"], Float[NDArray[np.float32], "photo place"]]:
        """The fine labels assumed for some photos, `NONE` for no more, and with which probability.

        Args:
            photos: ascending.
        """
        rows = list(self._rows(photos))
        if not rows:
            return np.zeros((0, 1), np.int32), np.zeros((0, 1), np.float32)
        return (
            np.concatenate([segment.arrays["guess_labels"][own] for segment, own in rows]),
            np.concatenate([segment.arrays["guess_probs"][own] for segment, own in rows]),
        )

    def vectors(self, photos: Int[Numbers, " place"]) -> Float[NDArray[np.float16], "place axis"]:
        """The vectors of some photos, in ascending order of their numbers."""
        rows = list(self._rows(photos))
        for segment, own in rows:
            segment.expect(own)
        return np.concatenate([segment.read(own) for segment, own in rows]) if rows else np.zeros((0, 0), np.float16)

    def seen_on(self, photo: int) -> dict[str, int]:
        """The labels of kinds that were seen on a photo, by number."""
        return {kind: int(labels[photo]) for kind, labels in self.seen.items() if labels[photo] != NONE}

    # ---- lists ------------------------------------------------------------------------------------------------------

    @cached_property
    def by_label(self) -> PhotoLists:
        """For each fine label the photos that have it or are assumed to."""
        return PhotoLists(self._labels_and_guesses, len(self.names))

    @cached_property
    def by_seen(self) -> dict[str, PhotoLists]:
        """For each kind, and each of its labels, the photos that it was seen on."""
        return {
            kind: PhotoLists(lambda seen=seen: _known(seen), len(self.graph.labels(kind)))  # type: ignore[misc]
            for kind, seen in self.seen.items()
        }

    @cached_property
    def _by_key(self) -> PhotoLists:
        """For the first two bytes of each fingerprint the photos that have it."""
        return PhotoLists(self._key_beginnings, _KEYS)

    def copies(self, keys: bytes | PhotoKeys) -> Int[Numbers, " place"]:
        """The photos with the content of a photo; by all its keys, those with the content of any part of it.

        Cost: that of a few hundred photos; with all keys, a microsecond more for each photo with a box.
        """
        wanted = keys if isinstance(keys, bytes) else keys.whole
        found = []
        for photo in self._by_key.of([int.from_bytes(wanted[:2], "little")])[0].tolist():
            segment, row = self.place(photo)
            if segment.arrays["keys"][row].tobytes() == wanted and (isinstance(keys, bytes) or not segment.box(row)):
                found.append(photo)
        if isinstance(keys, PhotoKeys):
            for segment, start in zip(self.segments, self._starts.tolist(), strict=False):
                found += [start + place for place in segment.boxed_copies(keys)]
        return np.array(sorted(found), np.int64)

    def _labels_and_guesses(self) -> Pairs:
        for segment, start in zip(self.segments, self._starts.tolist(), strict=False):
            own = self.labels[start : start + len(segment.live)]
            guesses = segment.arrays["guess_labels"][segment.live]
            numbers = np.concatenate([own[:, np.newaxis], np.where(guesses == own[:, np.newaxis], NONE, guesses)], 1)
            rows, places = np.nonzero(numbers != NONE)
            yield numbers[rows, places], (rows + start).astype(np.int32)
            segment.forget()

    def _key_beginnings(self) -> Pairs:
        for segment, start in zip(self.segments, self._starts.tolist(), strict=False):
            beginnings = segment.arrays["keys"][segment.live, :2].astype(np.int32)
            photos = np.arange(start, start + len(segment.live), dtype=np.int32)
            yield beginnings[:, 0] + 256 * beginnings[:, 1], photos
            segment.forget()

    # ---- files ------------------------------------------------------------------------------------------------------

    def _rows(self, photos: Numbers) -> Iterator[tuple[Segment, Numbers]]:
        """The segments of some ascending photos, and their rows there."""
        bounds = np.searchsorted(photos, self._starts)
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            segment = self.segments[number]
            yield segment, segment.live[photos[bounds[number] : bounds[number + 1]] - self._starts[number]]

    def forget(self) -> None:
        """Let the memory of the mapped files go; what is used again is read again."""
        for segment in self.segments:
            segment.forget()


def photo_kinds(graph: LabelGraph, seen: Mapping[str, int], fine: int) -> dict[str, tuple[str, ...]]:
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


def ordered_labels(graph: LabelGraph, kinds: Mapping[str, tuple[str, ...]], fine: int) -> dict[str, tuple[str, ...]]:
    """The labels of each ordered kind: those that are known of a photo, else the parents of a fine label.

    Args:
        graph: the label graph.
        kinds: the known labels of each kind.
        fine: the number of the fine label, which may be a guess.
    """
    ordered = [name for name in graph.kinds if graph.kind(name).ordered]
    guessed = photo_kinds(graph, {}, fine) if any(name not in kinds for name in ordered) else {}
    return {name: labels for name in ordered if (labels := kinds.get(name) or guessed.get(name))}


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


def _known(seen: NDArray[np.int32]) -> Pairs:
    """The labels that were seen on photos, and the photos."""
    photos = np.flatnonzero(seen != NONE).astype(np.int32)
    yield seen[photos], photos


def _joined(parts: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    """Parts concatenated; an empty array for no parts."""
    return np.concatenate(parts) if parts else np.zeros(0, np.int32)
