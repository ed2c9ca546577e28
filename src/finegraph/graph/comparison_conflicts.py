"""Conflicts among comparisons: pairs compared both ways, circles, groups without a link, and against known values.

"A more than B", "B more than C", "C more than A" is a circle. Only the majority of each pair counts here, so that one
slip against many votes makes no circle; a pair with as many votes either way may stand in a circle in both directions,
as long as the circle has a majority too. Circles are looked for in the strongly connected components of the graph of
these; each component is shown by one shortest circle. Cost: linear in the pairs, times the items in components with
circles.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from finegraph.graph.comparisons import Comparison


@dataclass(frozen=True)
class DividedPair:
    """Two things that were compared both ways: `votes` votes say that `more` has more, `against` the opposite."""

    more: str
    less: str
    votes: int
    against: int


@dataclass(frozen=True)
class AgainstKnown:
    """Two things whose known values say the opposite of the majority: `votes` votes say that `more` has more."""

    more: str
    less: str
    votes: int
    more_value: float
    less_value: float


@dataclass(frozen=True)
class Conflicts:
    """The conflicts among the comparisons of one kind.

    Attributes:
        divided: pairs that were compared both ways, the most divided first.
        circles: things each of which has more than the next, and the last more than the first.
        groups: the things that comparisons link, largest group first; values cannot be compared across groups.
        known: pairs whose known values contradict the comparisons, the one with most votes first.
    """

    divided: tuple[DividedPair, ...]
    circles: tuple[tuple[str, ...], ...]
    groups: tuple[tuple[str, ...], ...]
    known: tuple[AgainstKnown, ...] = ()


def find_conflicts(kind: str, comparisons: Iterable[Comparison], known: Mapping[str, float] | None = None) -> Conflicts:
    """Find the conflicts among the comparisons of one kind.

    Args:
        kind: which comparisons count.
        comparisons: of any kinds.
        known: the values that some things have already.
    """
    values = known or {}
    votes: dict[tuple[str, str], int] = {}
    neighbours: dict[str, dict[str, None]] = {}
    for one in comparisons:
        if one.kind == kind:
            neighbours.setdefault(one.more, {})[one.less] = None
            neighbours.setdefault(one.less, {})[one.more] = None
            if not one.same:
                votes[one.more, one.less] = votes.get((one.more, one.less), 0) + 1
    divided: list[DividedPair] = []
    against_known: list[AgainstKnown] = []
    majority: dict[str, list[str]] = {name: [] for name in neighbours}
    not_less: dict[str, list[str]] = {name: [] for name in neighbours}
    for (more, less), count in votes.items():
        against = votes.get((less, more), 0)
        if count >= against:
            not_less[more].append(less)
        if count > against:
            majority[more].append(less)
            if more in values and less in values and values[more] < values[less]:
                against_known.append(AgainstKnown(more, less, count, values[more], values[less]))
        if against and (count > against or (count == against and more < less)):
            divided.append(DividedPair(more, less, count, against))
    divided.sort(key=lambda one: (one.votes - one.against, -one.votes))
    against_known.sort(key=lambda one: -one.votes)
    circles = (_shortest_circle(part, majority, not_less) for part in _strong_parts(not_less) if len(part) > 1)
    groups = sorted(_groups(neighbours), key=len, reverse=True)
    return Conflicts(tuple(divided), tuple(filter(None, circles)), tuple(groups), tuple(against_known))


def _groups(neighbours: Mapping[str, Iterable[str]]) -> list[tuple[str, ...]]:
    """The things that are linked to each other, directly or through others."""
    groups: list[tuple[str, ...]] = []
    seen: set[str] = set()
    for start in neighbours:
        if start in seen:
            continue
        group = {start: None}
        todo = [start]
        while todo:
            for other in neighbours[todo.pop()]:
                if other not in group:
                    group[other] = None
                    todo.append(other)
        seen.update(group)
        groups.append(tuple(group))
    return groups


def _strong_parts(graph: Mapping[str, Sequence[str]]) -> list[set[str]]:
    """The strongly connected components of a directed graph (Kosaraju's method)."""
    finished: dict[str, None] = {}
    seen: set[str] = set()
    for start in graph:
        stack = [(start, iter(graph[start]))] if start not in seen else []
        seen.add(start)
        while stack:
            here, onward = stack[-1]
            following = next((other for other in onward if other not in seen), None)
            if following is None:
                finished[here] = None
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(graph[following])))
    backward: dict[str, list[str]] = {name: [] for name in graph}
    for name, others in graph.items():
        for other in others:
            backward[other].append(name)
    parts: list[set[str]] = []
    taken: set[str] = set()
    for start in reversed(finished):
        part, todo = set(), [start] if start not in taken else []
        while todo:
            here = todo.pop()
            if here not in taken:
                taken.add(here)
                part.add(here)
                todo += backward[here]
        if part:
            parts.append(part)
    return parts


def _shortest_circle(
    part: set[str], majority: Mapping[str, Sequence[str]], not_less: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """A shortest circle within a strongly connected component; empty if all its pairs have as many votes either way.

    The last step, back to the start, is a majority: so no pair alone is a circle.
    """
    best: tuple[str, ...] = ()
    for start in sorted(part):
        before: dict[str, str | None] = {start: None}
        todo = deque([start])
        while todo and not (best and len(best) == 3):
            here = todo.popleft()
            if start in majority[here]:
                path: list[str] = []
                step: str | None = here
                while step is not None:
                    path.append(step)
                    step = before[step]
                if not best or len(path) < len(best):
                    best = tuple(reversed(path))
                break
            for other in not_less[here]:
                if other in part and other not in before:
                    before[other] = here
                    todo.append(other)
    return best
