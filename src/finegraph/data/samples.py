"""Samples: one entry per photo, and the list of them that every source gives.

The list is sorted by path, so that the same photos give the same list whatever layout describes them. It holds names
and numbers only; no photo is opened. Cost: linear in the photos, with one sort.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, overload

from finegraph.errors import DataError, unknown_name

if TYPE_CHECKING:
    from finegraph.graph.formats.column_types import NumberType


class Box(NamedTuple):
    """A rectangle in a photo, in pixels from the upper left corner of the picture as it is seen upright."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One photo and what is known of it.

    Attributes:
        path: the file; it need not exist.
        label: the fine label, None if it is not known.
        split: which part of the data it belongs to, such as `train`; None if the source has no parts.
        box: where the object is; None for the whole photo.
        kinds: labels seen on this photo, by kind. What holds for the whole class belongs to the graph.
        values: what was measured on this photo, by kind of numbers, in the unit of the numbers.
        number_types: the scale and unit that the list gives the values, by kind of numbers.
        line: the line of the list that it was read from; None if it is from no such list.
    """

    path: Path
    label: str | None = None
    split: str | None = None
    box: Box | None = None
    kinds: Mapping[str, str] = field(default_factory=dict, hash=False)
    values: Mapping[str, float] = field(default_factory=dict, hash=False)
    number_types: Mapping[str, NumberType] = field(default_factory=dict, compare=False, repr=False)
    line: int | None = field(default=None, compare=False, repr=False)


class Samples(Sequence[Sample]):
    """Samples in the order of their paths.

    Args:
        samples: in any order.
        source: what they were read from.
        notes: what was odd there but no fault, such as lines that were left out.

    Example:
        >>> photos = Samples([Sample(Path("b.jpg"), "udon", "test"), Sample(Path("a.jpg"), "ramen", "train")])
        >>> [str(sample.path) for sample in photos], photos.split("test").labels
        (['a.jpg', 'b.jpg'], ('udon',))
    """

    def __init__(self, samples: Iterable[Sample], source: str = "", notes: Iterable[str] = ()) -> None:
        self._samples = tuple(sorted(samples, key=_order))
        self.source = source
        self.notes = tuple(notes)

    @overload
    def __getitem__(self, index: int) -> Sample: ...

    @overload
    def __getitem__(self, index: slice) -> Samples: ...

    def __getitem__(self, index: int | slice) -> Sample | Samples:
        if isinstance(index, slice):
            return Samples(self._samples[index], self.source, self.notes)
        return self._samples[index]

    def __len__(self) -> int:
        return len(self._samples)

    def __iter__(self) -> Iterator[Sample]:
        return iter(self._samples)

    def __eq__(self, other: object) -> bool:
        return self._samples == other._samples if isinstance(other, Samples) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._samples)

    def __repr__(self) -> str:
        parts = ", ".join(f"{'no split' if name is None else name}: {n}" for name, n in self.split_counts().items())
        return f"Samples({len(self)} photos of {len(self.labels)} labels{'; ' + parts if parts else ''})"

    @property
    def splits(self) -> tuple[str, ...]:
        """The parts of the data that occur, in the order of their names."""
        return tuple(sorted({sample.split for sample in self if sample.split is not None}))

    @property
    def labels(self) -> tuple[str, ...]:
        """The fine labels that occur, in the order of their names."""
        return tuple(sorted({sample.label for sample in self if sample.label is not None}))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that some photo has a label of, in the order of their names."""
        return tuple(sorted({kind for sample in self for kind in sample.kinds}))

    @property
    def numbers(self) -> tuple[str, ...]:
        """The kinds of numbers that some photo has a value of, in the order of their names."""
        return tuple(sorted({number for sample in self for number in sample.values}))

    def without_kinds(self) -> Samples:
        """The same samples without photo labels and values: what holds for their classes is all that is known."""
        return Samples((replace(sample, kinds={}, values={}) for sample in self), self.source, self.notes)

    def require_boxes(self) -> None:
        """Raise if photos are to be cut to their boxes and none has one."""
        if len(self) and not any(sample.box is not None for sample in self):
            raise DataError(
                f"{self.source or 'the photos'}: expected boxes to cut photos to, but none has one; leave boxes out, "
                "or add the columns x, y, width and height to the manifest"
            )

    def split(self, name: str) -> Samples:
        """The samples of one part of the data.

        Raises:
            UnknownNameError: no sample is in such a part.
        """
        if name not in self.splits:
            raise unknown_name("split", name, self.splits, f"in {self.source}" if self.source else "")
        return self.only(lambda sample: sample.split == name)

    def only(self, wanted: Callable[[Sample], bool]) -> Samples:
        """The samples for which `wanted` says yes."""
        return Samples(filter(wanted, self), self.source, self.notes)

    def counts(self) -> dict[str, int]:
        """How many samples each fine label has, in the order of the labels."""
        counts = Counter(sample.label for sample in self if sample.label is not None)
        return {label: counts[label] for label in sorted(counts)}

    def split_counts(self) -> dict[str | None, int]:
        """How many samples each part of the data has; the key None is for those in no part."""
        counts = Counter(sample.split for sample in self)
        return {split: counts[split] for split in sorted(counts, key=lambda name: (name is None, name or ""))}


def _order(sample: Sample) -> tuple[object, ...]:
    """What samples are sorted by: the path, then whatever tells two samples of one photo apart."""
    return sample.path.as_posix(), sample.box or (), sample.split or "", sample.label or ""
