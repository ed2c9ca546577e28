"""Kinds that are summed as one: a composite kind has one group per combination of groups that occurs.

With many fine labels and a few small kinds most combinations occur often. Then it is cheaper to sum over the fine
labels once for the composite kind, and from its few groups to those of its members, than once for each member: six
binary kinds become one with at most 64 groups. Nothing is lost, and sums of sums have smaller rounding errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from finegraph.inference.sums.layout import KindGroups


@dataclass(frozen=True, eq=False)
class Composite:
    """Some kinds as one.

    Attributes:
        groups: the groups of the composite kind.
        member_columns: (group, member) the group column of each member.
    """

    groups: KindGroups
    member_columns: NDArray[np.int64]


def composites_of(kinds: Sequence[KindGroups], fine_count: int, max_cost: float) -> list[Composite]:
    """The kinds in composites, in order of their group columns.

    Args:
        kinds: the kinds.
        fine_count: how many fine labels there are.
        max_cost: the share of the row additions that composites may leave; there are none if they leave more.
    """
    found: list[Composite] = []
    open_members: list[KindGroups] = []
    key, count, start, cost = np.zeros(fine_count, np.int64), 1, 0, 0
    for kind in sorted(kinds, key=lambda kind: kind.count):
        new_key = np.unique(key * kind.count + kind.group, return_inverse=True)[1]
        new_count, members = int(new_key.max()) + 1, len(open_members)
        if members and (fine_count + new_count * (members + 1)) * members >= (fine_count + count * members) * (
            members + 1
        ):
            found.append(_composite(open_members, key, start))
            start += count
            cost += fine_count + count * members
            open_members = []
            new_key = np.unique(kind.group, return_inverse=True)[1]
            new_count = int(new_key.max()) + 1
        open_members.append(kind)
        key, count = new_key, new_count
    cost += fine_count + count * len(open_members)
    found.append(_composite(open_members, key, start))
    return found if cost <= max_cost * fine_count * len(kinds) else []


def _composite(members: list[KindGroups], group: NDArray[np.int64], start: int) -> Composite:
    """The composite of some kinds, whose combinations are numbered by `group`."""
    example = np.unique(group, return_index=True)[1]
    columns = np.stack([kind.columns[kind.group[example]] for kind in members], axis=1)
    return Composite(KindGroups(-1, len(example), start + np.arange(len(example)), group), columns)
