"""The minimum-norm split of joint scores between fine labels and kinds, for any number of labels.

    alpha = (I + G G')^-1 (s - mu),     beta = G' alpha,     s = mu + alpha + G beta

with G the weights of all kinds side by side and mu the constant that makes alpha smallest. In the system for the coarse
labels, (I + G' G) beta = G' (s - mu), the block of a kind in which every fine label has one parent is diagonal. So the
largest such kind A is eliminated, Q = I - G_A (I + G_A' G_A)^-1 G_A', and S = I + G_R' Q G_R remains for the rest R.

If there are few labels, S is factorised once per graph. If there are many, the blocks of the largest kinds of the rest
are replaced by their diagonals, which is exact for nested kinds. The result is factorised once and serves as the
preconditioner of conjugate gradients. Either way, each solution is refined until its residual is 1e-12 of the first.

Numbers add dense columns V to G, such as the values of all fine labels. There are few, so they are eliminated at the
end: with M = I + G G' of the kinds, their parts are gamma = (I + V' M^-1 V)^-1 V' M^-1 s. M^-1 V is computed once.

Cost: linear in the edges, a few passes with a factor and about a dozen without.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from finegraph.graph import LabelGraph
from finegraph.inference.sums.graph_tensors import graph_tensors

_PRECISION = 1e-12
_MAX_STEPS = 2000
MAX_TOGETHER = 1 << 20
"""The largest number of values to gather at once. Kinds are bundled up to it, since small kinds one by one would spend
more time in Python than in the sums."""
MAX_FACTOR = 2048
"""The largest number of labels to factorise."""
_MAX_CELLS = 1 << 22
"""The largest size of the matrix between the labels that are factorised and the others."""
_MAX_PAIRS = 1 << 22
"""The largest number of pairs of entries to build at once."""
_PAIR_COST, _CELL_COST = 10.0, 0.2
"""The measured cost of a pair of sparse entries, and of a cell of a dense product, in nanoseconds."""


@dataclass(frozen=True, eq=False)
class Links:
    """The edges of one or more kinds as tensors.

    Attributes:
        fine: the fine label of each edge; None if every fine label has one edge, in order.
        coarse: the coarse label of each edge.
        weight: the weight of each edge in float64; None if all are 1.
        count: the number of coarse labels.
    """

    fine: Int[Tensor, " edge"] | None
    coarse: Int[Tensor, " edge"]
    weight: Float[Tensor, " edge"] | None
    count: int

    def to_fine(self, values: Float[Tensor, "column coarse"], fine_count: int) -> Float[Tensor, "column fine"]:
        """G values: the sum over the parents of each fine label."""
        parts = values.gather(1, self.coarse.expand(len(values), -1))
        if self.weight is not None:
            parts.mul_(self.weight)
        if self.fine is None:
            return parts
        return values.new_zeros(len(values), fine_count).scatter_add_(1, self.fine.expand(len(values), -1), parts)

    def to_coarse(self, values: Float[Tensor, "column fine"]) -> Float[Tensor, "column coarse"]:
        """G' values: the sum over the children of each coarse label."""
        parts = values if self.fine is None else values.gather(1, self.fine.expand(len(values), -1))
        parts = parts if self.weight is None else parts * self.weight
        return values.new_zeros(len(values), self.count).scatter_add_(1, self.coarse.expand(len(values), -1), parts)

    @property
    def single(self) -> bool:
        """Whether no fine label has several edges."""
        return self.fine is None or bool((self.fine.diff() > 0).all())

    @cached_property
    def fine_places(self) -> Int[Tensor, " edge"]:
        """The fine label of each edge, also if `fine` is None."""
        return torch.arange(len(self.coarse)) if self.fine is None else self.fine

    @cached_property
    def weights(self) -> Float[Tensor, " edge"]:
        """The weight of each edge, also if `weight` is None."""
        return torch.ones(1, dtype=torch.float64).expand(len(self.coarse)) if self.weight is None else self.weight


def links_of(graph: LabelGraph, kind: str) -> Links:
    """The edges of a kind. Unknown parents have none."""
    tensors = graph_tensors(graph).kind(kind)
    if tensors.plain:
        return Links(None, tensors.group, None, tensors.label_count)
    fine, coarse, weight = (torch.from_numpy(array) for array in graph.edges(kind))
    return Links(fine, coarse, weight, tensors.label_count)


def combined_links(kinds: Sequence[Links]) -> Links:
    """Combine kinds into one, with the labels of each after those of the previous one."""
    if len(kinds) == 1:
        return kinds[0]
    starts = np.cumsum([0, *(kind.count for kind in kinds)]).tolist()
    ones = all(kind.weight is None for kind in kinds)
    return Links(
        torch.cat([kind.fine_places for kind in kinds]),
        torch.cat([kind.coarse + start for kind, start in zip(kinds, starts[:-1], strict=True)]),
        None if ones else torch.cat([kind.weights for kind in kinds]),
        starts[-1],
    )


@dataclass(frozen=True, eq=False)
class Split:
    """A minimum-norm split.

    Attributes:
        constant: the constant part of all scores.
        fine: the parts of the fine labels.
        coarse: for each kind, the parts of its labels.
        dense: the coefficients of the dense columns.
    """

    constant: Float[Tensor, "column 1"]
    fine: Float[Tensor, "column fine"]
    coarse: list[Float[Tensor, "column _"]]
    dense: Float[Tensor, "column _"]


class _Solution(NamedTuple):
    """alpha = (I + G G')^-1 of some rows, and G' alpha for the kinds, in their inner order, and the dense columns."""

    fine: Float[Tensor, "column fine"]
    coarse: Float[Tensor, "column coarse"]
    dense: Float[Tensor, "column _"]


class MinimumNorm:
    """Splits joint scores between some kinds; the factorisation is prepared once."""

    def __init__(self, kinds: Sequence[Links], fine_count: int, dense: Float[Tensor, "_ fine"] | None = None) -> None:
        """Prepare the factorisation.

        Args:
            kinds: the edges of each kind.
            fine_count: the number of fine labels.
            dense: a few further columns of G, each as a row in float64.
        """
        self.fine_count, self._counts = fine_count, [kind.count for kind in kinds]
        order = sorted(range(len(kinds)), key=lambda number: (kinds[number].count, number))
        wide = next((number for number in reversed(order) if kinds[number].single), None)
        self._order = [number for number in order if number != wide]
        if wide is not None:
            self._order.append(wide)
        self._wide = None if wide is None else _Eliminated(kinds[wide])
        rest = [kinds[number] for number in self._order if number != wide]
        self._rest = _Bundles(rest, fine_count) if rest else None
        self._preconditioner = _Preconditioner(rest, self._wide, fine_count) if rest else None
        self._dense = None if dense is None or not len(dense) else _Dense(dense, *self._solve_kinds(dense))
        self._ones = self._solve(torch.ones(1, fine_count, dtype=torch.float64))

    def split(self, scores: Float[Tensor, "column fine"]) -> Split:
        """Split each row of scores, in float64, between fine labels, kinds and dense columns."""
        solution, ones = self._solve(scores), self._ones
        constant = solution.fine.sum(dim=1, keepdim=True) / ones.fine.sum()
        fine, coarse, dense = (part - constant * own for part, own in zip(solution, ones, strict=True))
        return Split(constant, fine, self._by_kind(coarse), dense)

    def weights_of(self, rows: Float[Tensor, "row fine"]) -> Float[Tensor, "row fine"]:
        """The weight of each joint score for fine labels without a score of their own.

        The split gives such a label the constant and the parts of its parents. That is a weighted sum of the joint
        scores, and these are its weights. They are solved for once, however many scores they are then used for.

        Args:
            rows: for each such label, the product of its row of G with that of each fine label.
        """
        solution, ones = self._solve(rows).fine, self._ones.fine
        return solution + (1.0 - solution.sum(dim=1, keepdim=True)) * (ones / ones.sum())

    def _by_kind(self, coarse: Float[Tensor, "column coarse"]) -> list[Float[Tensor, "column _"]]:
        """The parts of each kind in the order in which the kinds were given."""
        parts = torch.split(coarse, [self._counts[number] for number in self._order], dim=1)
        return [part for _, part in sorted(zip(self._order, parts, strict=True), key=lambda pair: pair[0])]

    def _without_wide(self, values: Float[Tensor, "column fine"]) -> Float[Tensor, "column fine"]:
        """Q values."""
        return values if self._wide is None else values - self._wide.part(values)

    def _solve(self, right: Float[Tensor, "column fine"]) -> _Solution:
        """(I + G G')^-1 of each row of `right`, and G' of that."""
        fine, coarse = self._solve_kinds(right)
        if self._dense is None:
            return _Solution(fine, coarse, fine[:, :0])
        dense = self._dense.parts(fine)
        return _Solution(fine - dense @ self._dense.fine, coarse - dense @ self._dense.coarse, dense)

    def _solve_kinds(
        self, right: Float[Tensor, "column fine"]
    ) -> tuple[Float[Tensor, "column fine"], Float[Tensor, "column coarse"]]:
        """The same for the kinds alone, without the dense columns."""
        parts = []
        if self._rest is not None:
            solution = self._solve_rest(self._rest, self._rest.to_coarse(self._without_wide(right)))
            right = right - self._rest.to_fine(solution)
            parts.append(solution)
        if self._wide is not None:
            coarse = self._wide.scaled_sums(right)
            right = right - self._wide.links.to_fine(coarse, self.fine_count)
            parts.append(coarse)
        return right, torch.cat([right[:, :0], *parts], dim=1)

    def _solve_rest(self, rest: _Bundles, right: Float[Tensor, "column coarse"]) -> Float[Tensor, "column coarse"]:
        """S^-1 of each row, by conjugate gradients that start from the preconditioner's solution."""
        assert self._preconditioner is not None

        def system_times(values: Float[Tensor, "column coarse"]) -> Float[Tensor, "column coarse"]:
            return values + rest.to_coarse(self._without_wide(rest.to_fine(values)))

        solution = self._preconditioner.solve(right)
        goal = (right * solution).sum(dim=1, keepdim=True) * _PRECISION**2
        residual = right - system_times(solution)
        direction = self._preconditioner.solve(residual)
        size = (residual * direction).sum(dim=1, keepdim=True)
        tiny = torch.finfo(right.dtype).tiny
        for _ in range(_MAX_STEPS):
            if bool((size <= goal).all()):
                break
            product = system_times(direction)
            step = size / (direction * product).sum(dim=1, keepdim=True).clamp_min(tiny)
            solution += step * direction
            residual -= step * product
            scaled = self._preconditioner.solve(residual)
            new_size = (residual * scaled).sum(dim=1, keepdim=True)
            direction = scaled + new_size / size.clamp_min(tiny) * direction
            size = new_size
        return solution


class _Dense:
    """Dense columns V and their solutions for the kinds alone: M^-1 V and G' M^-1 V."""

    def __init__(
        self,
        columns: Float[Tensor, "column fine"],
        fine: Float[Tensor, "column fine"],
        coarse: Float[Tensor, "column coarse"],
    ) -> None:
        self.columns, self.fine, self.coarse = columns, fine, coarse
        system = columns @ fine.T
        self._factor = torch.linalg.cholesky(0.5 * (system + system.T) + torch.eye(len(columns), dtype=fine.dtype))

    def parts(self, solved: Float[Tensor, "column fine"]) -> Float[Tensor, "column _"]:
        """(I + V' M^-1 V)^-1 V' of solutions for the kinds alone."""
        return torch.cholesky_solve(self.columns @ solved.T, self._factor).T


class _Eliminated:
    """The kind that is eliminated, since its block of the system is diagonal."""

    def __init__(self, links: Links) -> None:
        self.links = links
        weight = None if links.weight is None else links.weight**2
        self.diagonal = torch.bincount(links.coarse, weight, links.count).double().add_(1.0)

    def scaled_sums(self, values: Float[Tensor, "column fine"]) -> Float[Tensor, "column coarse"]:
        """(I + G' G)^-1 G' values of this kind alone."""
        return self.links.to_coarse(values).div_(self.diagonal)

    def part(self, values: Float[Tensor, "column fine"]) -> Float[Tensor, "column fine"]:
        """(I - Q) values: the part that this kind explains."""
        return self.links.to_fine(self.scaled_sums(values), values.shape[1])


class _Bundles:
    """The sums of several kinds side by side, in as few passes as memory allows.

    Many fine labels share their labels in all small kinds. Such kinds are summed by the combinations of their labels,
    with one gather or scatter over the fine labels.
    """

    def __init__(self, kinds: Sequence[Links], fine_count: int) -> None:
        """Combine kinds.

        Args:
            kinds: the edges of each kind, the smallest kind first.
            fine_count: the number of fine labels.
        """
        self.fine_count = fine_count
        self._combined, rest = None, list(kinds)
        if len(kinds) * fine_count > MAX_TOGETHER:
            self._combined, taken = _combinations(kinds, fine_count)
            rest = rest[taken:]
        self._bundles = _bundles(rest, MAX_TOGETHER)
        self._sizes = [bundle.count for bundle in ([self._combined] if self._combined else []) + self._bundles]

    @property
    def _all(self) -> list[_Combined | Links]:
        return [*([self._combined] if self._combined else []), *self._bundles]

    def to_fine(self, values: Float[Tensor, "column coarse"]) -> Float[Tensor, "column fine"]:
        """G values."""
        total: Tensor | None = None
        for bundle, part in zip(self._all, torch.split(values, self._sizes, dim=1), strict=True):
            summed = bundle.to_fine(part, self.fine_count)
            total = summed if total is None else total.add_(summed)
        assert total is not None
        return total

    def to_coarse(self, values: Float[Tensor, "column fine"]) -> Float[Tensor, "column coarse"]:
        """G' values."""
        return torch.cat([bundle.to_coarse(values) for bundle in self._all], dim=1)


@dataclass(frozen=True, eq=False)
class _Combined:
    """Kinds with one parent per fine label, by the combinations of labels that occur.

    Attributes:
        to_combinations: from fine labels to combinations.
        to_labels: from combinations, in place of fine labels, to the labels of the kinds side by side.
    """

    to_combinations: Links
    to_labels: Links

    @property
    def count(self) -> int:
        """The number of coarse labels."""
        return self.to_labels.count

    def to_fine(self, values: Float[Tensor, "column coarse"], fine_count: int) -> Float[Tensor, "column fine"]:
        """G values."""
        return self.to_combinations.to_fine(self.to_labels.to_fine(values, self.to_combinations.count), fine_count)

    def to_coarse(self, values: Float[Tensor, "column fine"]) -> Float[Tensor, "column coarse"]:
        """G' values."""
        return self.to_labels.to_coarse(self.to_combinations.to_coarse(values))


def _combinations(kinds: Sequence[Links], fine_count: int) -> tuple[_Combined | None, int]:
    """Combine the first kinds as long as few combinations occur; also return how many kinds were combined."""
    key, count, taken = torch.zeros(fine_count, dtype=torch.int64), 1, 0
    for kind in kinds:
        if kind.fine is not None or kind.weight is not None:
            break
        found, new_key = torch.unique(key * kind.count + kind.coarse, return_inverse=True)
        if 8 * len(found) > fine_count:
            break
        key, count, taken = new_key, len(found), taken + 1
    if taken < 2:
        return None, 0
    example = torch.zeros(count, dtype=torch.int64).scatter_(0, key, torch.arange(fine_count))
    members = combined_links([Links(None, kind.coarse[example], None, kind.count) for kind in kinds[:taken]])
    return _Combined(Links(None, key, None, count), members), taken


def _bundles(kinds: Sequence[Links], max_edges: int) -> list[Links]:
    """Combine kinds in order; several kinds together have at most `max_edges` edges."""
    groups: list[list[Links]] = []
    edges = 0
    for kind in kinds:
        if not groups or edges + len(kind.coarse) > max_edges:
            groups.append([])
            edges = 0
        groups[-1].append(kind)
        edges += len(kind.coarse)
    return [combined_links(group) for group in groups]


class _Preconditioner:
    """S, factorised, with the blocks of its largest kinds replaced by their diagonals if it is large.

    The labels of factorised kinds come first, then the others.
    """

    def __init__(self, kinds: Sequence[Links], wide: _Eliminated | None, fine_count: int) -> None:
        sizes = np.cumsum([kind.count for kind in kinds])
        total = int(sizes[-1])
        fits = (sizes <= MAX_FACTOR) & ((total - sizes) * sizes <= _MAX_CELLS)
        self.factorised = int(sizes[fits][-1]) if fits.any() else 0
        entries = _Entries.of(combined_links(kinds), fine_count)
        system = _products(entries, self.factorised, total)
        system[: self.factorised].diagonal().add_(1.0)
        diagonal = entries.squares(total).add_(1.0)
        spread = entries.row_sums(total) - entries.squares(total)
        if wide is not None:
            taken = entries.summed_by(wide)
            system -= _products(taken, self.factorised, total)
            diagonal -= taken.squares(total)
            spread += taken.row_sums(total) - taken.squares(total)
        own, self.coupling = system[: self.factorised], system[self.factorised :]
        self.diagonal = diagonal[self.factorised :]
        factor, failed = torch.linalg.cholesky_ex(own - self.coupling.T @ (self.coupling / self.diagonal[:, None]))
        if bool(failed):
            # Adding the off-diagonal row sums to the diagonal makes the matrix positive definite for certain.
            self.diagonal = self.diagonal + spread[self.factorised :]
            factor = torch.linalg.cholesky(own - self.coupling.T @ (self.coupling / self.diagonal[:, None]))
        self.factor = factor

    def solve(self, right: Float[Tensor, "column coarse"]) -> Float[Tensor, "column coarse"]:
        """The inverse of each row."""
        own, other = right[:, : self.factorised], right[:, self.factorised :] / self.diagonal
        if self.factorised:
            own = torch.cholesky_solve((own - other @ self.coupling).T, self.factor).T
            other = other - (own @ self.coupling.T) / self.diagonal
        return torch.cat([own, other], dim=1)


@dataclass(frozen=True, eq=False)
class _Entries:
    """A sparse matrix: entries sorted by row, each cell once.

    Attributes:
        row: the row of each entry.
        column: its column.
        value: its value.
        rows: the number of rows.
    """

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    value: NDArray[np.float64]
    rows: int

    @staticmethod
    def of(links: Links, fine_count: int) -> _Entries:
        """The weights of the edges, with a row per fine label and a column per coarse label."""
        fine, coarse, weight = links.fine_places.numpy(), links.coarse.numpy(), links.weights.numpy()
        order = np.argsort(fine, kind="stable")
        return _Entries(fine[order], coarse[order], weight[order], fine_count)

    def summed_by(self, wide: _Eliminated) -> _Entries:
        """The rows summed over the children of each label of a kind, divided by the roots of its diagonal."""
        links, columns = wide.links, int(self.column.max(initial=0)) + 1
        owner, weight = np.full(self.rows, -1), np.zeros(self.rows)
        owner[links.fine_places.numpy()] = links.coarse.numpy()
        weight[links.fine_places.numpy()] = links.weights.numpy()
        known = owner[self.row] >= 0
        cell = owner[self.row[known]] * columns + self.column[known]
        value = self.value[known] * weight[self.row[known]]
        order = np.argsort(cell, kind="stable")
        cell, value = cell[order], value[order]
        first = np.flatnonzero(np.diff(cell, prepend=-1))
        sums = np.add.reduceat(value, first) if len(first) else value
        row = cell[first] // columns
        return _Entries(row, cell[first] % columns, sums / np.sqrt(wide.diagonal.numpy()[row]), links.count)

    def squares(self, columns: int) -> Float[Tensor, " coarse"]:
        """For each column the sum of its squared entries."""
        return torch.from_numpy(np.bincount(self.column, self.value**2, columns).astype(np.float64))

    def row_sums(self, columns: int) -> Float[Tensor, " coarse"]:
        """For each column the sum, over its entries, of the entry times the sum of its row."""
        rows = np.bincount(self.row, self.value, self.rows)
        sums = np.bincount(self.column, self.value * rows[self.row], columns)
        return torch.from_numpy(sums.astype(np.float64))


def _products(entries: _Entries, first: int, columns: int) -> Float[Tensor, "coarse _"]:
    """The first columns of X' X: the products of all columns of X with its first ones.

    Args:
        entries: the matrix X.
        first: the number of columns of the result.
        columns: the number of columns of X.
    """
    inner = entries.column < first
    sizes = np.bincount(entries.row[inner], minlength=entries.rows)
    pairs = int(sizes[entries.row].sum())
    if pairs * _PAIR_COST > entries.rows * first * columns * _CELL_COST:
        return _dense_products(entries, first, columns)
    starts = np.cumsum(sizes) - sizes
    column, value = entries.column[inner], entries.value[inner]
    total = np.zeros(columns * first)
    ends = np.cumsum(sizes[entries.row])
    cuts = np.unique([0, *np.searchsorted(ends, np.arange(_MAX_PAIRS, pairs, _MAX_PAIRS)), len(ends)]).tolist()
    for start, stop in itertools.pairwise(cuts):
        row = entries.row[start:stop]
        repeats = sizes[row]
        left = np.repeat(np.arange(start, stop), repeats)
        step = np.arange(len(left)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        right = np.repeat(starts[row], repeats) + step
        cell = entries.column[left] * first + column[right]
        total += np.bincount(cell, entries.value[left] * value[right], columns * first)
    return torch.from_numpy(total.reshape(columns, first))


def _dense_products(entries: _Entries, first: int, columns: int) -> Float[Tensor, "coarse _"]:
    """The same by dense matrix products over blocks of rows."""
    total = torch.zeros(columns, first, dtype=torch.float64)
    step = max(1, _MAX_PAIRS // max(columns, 1))
    for start in range(0, entries.rows, step):
        low, high = np.searchsorted(entries.row, [start, start + step])
        dense = torch.zeros(min(step, entries.rows - start), columns, dtype=torch.float64)
        place = torch.from_numpy(entries.row[low:high] - start), torch.from_numpy(entries.column[low:high])
        dense.index_put_(place, torch.from_numpy(entries.value[low:high]), accumulate=True)
        total += dense.T @ dense[:, :first]
    return total
