"""The groups of one kind, as the ways of summing see them; see `kind_tensors.py` for what a group is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class KindGroups:
    """Which group of a kind each fine label is in.

    Attributes:
        label_count: how many labels the kind has; they are its first groups.
        columns: the group column of each group, in `Plan`'s count.
        group: the group of each fine label, counted within the kind.
    """

    label_count: int
    columns: NDArray[np.int64]
    group: NDArray[np.int64]

    @property
    def count(self) -> int:
        """How many groups there are."""
        return len(self.columns)

    @property
    def plain(self) -> bool:
        """Whether every fine label has one known parent."""
        return self.count == self.label_count

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """How many fine labels each group has."""
        return np.bincount(self.group, minlength=self.count)

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """The fine labels sorted by group."""
        narrow = self.group.astype(np.uint16) if self.count <= 1 << 16 else self.group  # sorted in linear time
        return np.argsort(narrow, kind="stable")
