"""Groups of fine labels that look alike: a tree over fine labels under a Chinese-restaurant prior, one move at a time.

The class mean of fine label i is x_i. The means of a group scatter around a common centre:

    x_i | group  ~  N(centre, (own + noise_i) I),     centre ~ N(0, between I),     groups ~ Chinese restaurant (alpha)

Centres are integrated out, so a group of known members has a likelihood in closed form. First, groups are merged in
pairs, the pair with the largest gain first, as long as that increases the posterior. Then fine labels move one at a
time to the most probable group given all others, or to a new one, until none moves (the moves of Srivastava and
Salakhutdinov, 2013, taken greedily). Then `own` and `between` are fitted to the groups, and the steps repeat.

Cells of the label graph may be evidence, too (group_cells.py): their log likelihoods are added to those of looks.

Directions of features are not independent, so log likelihoods are scaled by `share`, the share of effectively
independent directions, as estimated on held-out photos when the head was fitted. The next level groups the groups in
the same way: a nested restaurant. Cost: fine^2 per merge and fine x groups x features per round of moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from finegraph.errors import InputError
from finegraph.model.structure.group_cells import GroupCells

MAX_LABELS = 4000
"""How many fine labels can be grouped."""
_TURNS, _SWEEPS = 6, 30
"""The maximum number of rounds of groups and variances, and of sweeps over all labels."""
_VARIANCES = np.geomspace(1e-3, 1.0, 13)
"""The first candidates for own and between, as shares of the variance of the class means."""


@dataclass(frozen=True, kw_only=True)
class Move:
    """A move of a fine label from one group to another.

    Attributes:
        item: the index of the fine label.
        to: a member of the group it moved to; its own index for a new group.
        gain: the gain in log posterior.
    """

    item: int
    to: int
    gain: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Level:
    """One level of groups.

    Attributes:
        groups: the group of each fine label, numbered from 0 in the order of their first members.
        own: the variance of members around the centre of their group, per direction.
        between: the variance of the centres.
        alpha: the concentration of the prior: large values favour many groups.
        log_posterior: the log joint density of the groups and the class means.
        moves: the moves after the groups were merged, in order.
    """

    groups: Int[NDArray[np.int64], " fine"]
    own: float
    between: float
    alpha: float
    log_posterior: float
    moves: tuple[Move, ...] = ()

    @property
    def count(self) -> int:
        """How many groups there are."""
        return int(self.groups.max()) + 1 if len(self.groups) else 0


def group_labels(
    means: Float[Tensor, "fine feature"],
    noise: Float[Tensor, " fine"],
    *,
    share: float = 1.0,
    levels: int = 3,
    start: Int[NDArray[np.int64], " fine"] | None = None,
    cells: GroupCells | None = None,
    min_gain: float = 0.0,
    progress: Callable[[int, int], None] | None = None,
) -> list[Level]:
    """Groups at several levels, the smallest groups first; fewer levels if no further groups are found.

    Args:
        means: the class mean of each fine label; all of them have photos.
        noise: the variance of each mean due to the number of photos, per direction.
        share: the share of effectively independent directions.
        levels: the maximum number of levels.
        start: initial groups of the first level; by default groups are merged from single labels.
        cells: what cells of the label graph say of groups; by default nothing.
        min_gain: the gain in log posterior from which a fine label leaves its group.
        progress: called with the number of levels done.

    Raises:
        InputError: there are too many fine labels.

    Example:
        >>> means = torch.tensor([[0.0, 0.0], [0.1, 0.0], [5.0, 5.0], [5.1, 5.0]], dtype=torch.float64)
        >>> level, *_ = group_labels(means, torch.full((4,), 0.01, dtype=torch.float64))
        >>> level.groups.tolist()
        [0, 0, 1, 1]
    """
    if len(means) > MAX_LABELS:
        raise InputError(f"groups: expected at most {MAX_LABELS:,} fine labels with photos, got {len(means):,}")
    shown = (means - means.mean(dim=0)).double() if len(means) else means.double()
    variance, found = noise.double(), []
    of_label = np.arange(len(means))
    for number in range(levels):
        search = _Search(shown, variance, share, cells, min_gain)
        level = search.run(start if number == 0 else None)
        if progress is not None:
            progress(number + 1, levels)
        if level.count >= len(shown) or level.count < 2:
            break
        of_label = level.groups[of_label]
        whole = Level(
            groups=of_label,
            own=level.own,
            between=level.between,
            alpha=level.alpha,
            log_posterior=level.log_posterior,
            moves=level.moves if number == 0 else (),
        )
        found.append(whole)
        precision = 1.0 / (level.own + variance)
        index = torch.from_numpy(level.groups)
        total = torch.zeros(level.count, dtype=torch.float64).index_add_(0, index, precision)
        sums = torch.zeros(level.count, shown.shape[1], dtype=torch.float64)
        sums.index_add_(0, index, shown * precision[:, None])
        shown, variance = sums / total[:, None], 1.0 / total
        cells = None if search.cells is None else search.cells.joined(level.groups).without_crossing()
    return found


class _Search:
    """Groups of one level."""

    def __init__(
        self, shown: Tensor, noise: Tensor, share: float, cells: GroupCells | None = None, min_gain: float = 0.0
    ) -> None:
        self.shown, self.noise, self.share, self.min_gain = shown, noise, share, max(min_gain, 1e-9)
        self.cells = cells if cells is not None and cells.has_evidence else None
        self.features = shown.shape[1]
        spread = float(shown.square().sum() / max(shown.numel(), 1)) or 1.0
        self.spread = spread
        excess = max(spread - float(noise.mean()), 0.1 * spread) if len(noise) else spread
        self.own, self.between, self.alpha = 0.3 * excess, 0.7 * excess, 1.0
        self.moves: list[Move] = []

    def run(self, start: NDArray[np.int64] | None) -> Level:
        """Merge, then alternate between groups and variances."""
        count = len(self.shown)
        groups = np.arange(count) if start is None else _numbered(np.asarray(start))
        if count > 1:
            if start is not None:  # keep the given groups, so that labels that did not move before do not move now
                self._fit(groups)
            before: NDArray[np.int64] | None = None
            for _ in range(_TURNS):
                if start is None:  # merged again with the variances of the previous round
                    groups = self._join(np.arange(count))
                    self.moves.clear()
                groups = self._move(groups)
                self._fit(groups)
                if before is not None and np.array_equal(before, groups):
                    break
                before = groups
        return Level(
            groups=groups,
            own=self.own,
            between=self.between,
            alpha=self.alpha,
            log_posterior=self._log_posterior(groups),
            moves=tuple(self.moves),
        )

    # ---- the probability of groups -----------------------------------------------------------------------------------

    def _marginal(self, precision: Tensor | float, squares: Tensor | float) -> Tensor:
        """The part of the log likelihood of groups that depends on their members.

        Args:
            precision: the sum of the precisions of the members.
            squares: the squared length of the precision-weighted sum of their means.
        """
        wide = 1.0 + self.between * torch.as_tensor(precision, dtype=torch.float64)
        return 0.5 * self.share * (self.between * torch.as_tensor(squares) / wide - self.features * wide.log())

    def _log_posterior(self, groups: NDArray[np.int64]) -> float:
        """The log joint density of groups and class means."""
        precision, sums, sizes = self._sums(groups)
        rest = 1.0 / self._precisions()
        base = -0.5 * self.share * float((self.features * rest.log() + self.shown.square().sum(dim=1) / rest).sum())
        tables = sum(math.lgamma(size) for size in sizes.tolist()) + len(sizes) * math.log(self.alpha)
        tables += math.lgamma(self.alpha) - math.lgamma(self.alpha + len(groups))
        if self.cells is not None:
            of_groups = self.cells.joined(groups)
            base += float(self.cells.log_likelihood(of_groups.binary, of_groups.crossing).sum())
        return base + float(self._marginal(precision, sums.square().sum(dim=1)).sum()) + tables

    def _cells_of(self, groups: NDArray[np.int64]) -> tuple[Tensor, Tensor] | None:
        """The cells of each group; None if cells say nothing."""
        if self.cells is None:
            return None
        of_groups = self.cells.joined(groups)
        return of_groups.binary, of_groups.crossing

    def _with_cells(self, counts: tuple[Tensor, Tensor] | None, *more: tuple[Tensor, Tensor] | None) -> Tensor | float:
        """How likely the cells of groups are, if others are added to them."""
        if self.cells is None or counts is None:
            return 0.0
        binary, crossing = counts
        for one in more:
            assert one is not None
            binary, crossing = binary + one[0], crossing + one[1]
        return self.cells.log_likelihood(binary, crossing)

    def _precisions(self) -> Tensor:
        return 1.0 / (self.own + self.noise)

    def _sums(self, groups: NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor]:
        """The precision, the precision-weighted sum of means, and the size of each group."""
        index, count = torch.from_numpy(groups), int(groups.max()) + 1
        own = self._precisions()
        precision = torch.zeros(count, dtype=torch.float64).index_add_(0, index, own)
        sums = torch.zeros(count, self.features, dtype=torch.float64).index_add_(0, index, self.shown * own[:, None])
        return precision, sums, torch.bincount(index, minlength=count).double()

    # ---- merging -----------------------------------------------------------------------------------------------------

    def _join(self, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        """Merge the two groups with the largest gain, as long as there is one."""
        precision, sums, sizes = self._sums(groups)
        gram = sums @ sums.t()
        member = groups.copy()
        cells = self._cells_of(groups)
        alone = self._marginal(precision, gram.diagonal()) + torch.lgamma(sizes) + self._with_cells(cells)
        gains = self._gains(gram, precision, sizes, alone)
        if cells is not None:
            gains = gains + self._with_cells((cells[0][:, None], cells[1][:, None]), cells)
        gains.fill_diagonal_(-math.inf)
        while True:
            best = int(gains.argmax())
            first, second = divmod(best, len(gains))
            if not float(gains[first, second]) > 0.0:
                return _numbered(member)
            gram[first] += gram[second]
            gram[:, first] += gram[:, second]
            precision[first] += precision[second]
            sizes[first] += sizes[second]
            member[member == second] = first
            own = None
            if cells is not None:
                for part in cells:
                    part[first] += part[second]
                own = (cells[0][first], cells[1][first])
            alone[first] = self._marginal(precision[first], gram[first, first]) + torch.lgamma(sizes[first])
            alone[first] += self._with_cells(own)
            together = precision[first] + precision
            joined = self._marginal(together, gram[first, first] + 2.0 * gram[first] + gram.diagonal())
            row = joined + torch.lgamma(sizes[first] + sizes) - alone[first] - alone - math.log(self.alpha)
            row = row + self._with_cells(cells, own)
            gone = gains[first] == -math.inf
            row[gone] = -math.inf
            gains[first], gains[:, first] = row, row
            gains[first, first] = -math.inf
            gains[second], gains[:, second] = -math.inf, -math.inf

    def _gains(self, gram: Tensor, precision: Tensor, sizes: Tensor, alone: Tensor) -> Tensor:
        """The gain of merging each pair of groups."""
        lengths = gram.diagonal()
        joined = self._marginal(precision[:, None] + precision, lengths[:, None] + lengths + 2.0 * gram)
        return joined + torch.lgamma(sizes[:, None] + sizes) - alone[:, None] - alone - math.log(self.alpha)

    # ---- moving ------------------------------------------------------------------------------------------------------

    def _move(self, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        """Move labels one at a time to their most probable group, until none moves."""
        own, weighted = self._precisions(), self.shown * self._precisions()[:, None]
        for _ in range(_SWEEPS):
            precision, sums, sizes = self._sums(groups)
            lengths = sums.square().sum(dim=1)
            cells = self._cells_of(groups)
            moved = False
            for item in range(len(groups)):
                here = int(groups[item])
                sums[here] -= weighted[item]
                precision[here] -= own[item]
                sizes[here] -= 1.0
                lengths[here] = sums[here].square().sum()
                single = None
                if cells is not None and self.cells is not None:
                    single = (self.cells.binary[item], self.cells.crossing[item])
                    for part, one in zip(cells, single, strict=True):
                        part[here] -= one
                along = sums @ weighted[item]
                size = weighted[item].square().sum()
                with_item = self._marginal(precision + own[item], lengths + 2.0 * along + size)
                scores = with_item - self._marginal(precision, lengths) + sizes.clamp_min(1e-300).log()
                scores = scores + self._with_cells(cells, single) - self._with_cells(cells)
                scores[sizes < 0.5] = -math.inf
                alone = float(self._marginal(own[item], size) + self._with_cells(single)) + math.log(self.alpha)
                best = int(scores.argmax())
                stays = alone if sizes[here] < 0.5 else float(scores[here])
                target, value = (best, float(scores[best])) if float(scores[best]) > alone else (here, alone)
                if target != here and value > stays + self.min_gain:
                    moved = True
                    other = int(np.flatnonzero(groups == target)[0])
                    self.moves.append(Move(item=item, to=other, gain=value - stays))
                elif target == here and sizes[here] > 0.5 and alone > stays + self.min_gain:
                    moved = True  # to a group of its own
                    self.moves.append(Move(item=item, to=item, gain=alone - stays))
                    empty = (sizes < 0.5).nonzero()[:, 0]
                    if not len(empty):
                        sums = torch.cat([sums, torch.zeros_like(sums[:1])])
                        precision, sizes, lengths = (
                            torch.cat([one, one.new_zeros(1)]) for one in (precision, sizes, lengths)
                        )
                        if cells is not None:
                            cells = (
                                torch.cat([cells[0], torch.zeros_like(cells[0][:1])]),
                                torch.cat([cells[1], torch.zeros_like(cells[1][:1])]),
                            )
                        target = len(sizes) - 1
                    else:
                        target = int(empty[0])
                else:
                    target = here
                groups = groups if groups[item] == target else _with(groups, item, target)
                sums[target] += weighted[item]
                precision[target] += own[item]
                sizes[target] += 1.0
                if cells is not None and single is not None:
                    for part, one in zip(cells, single, strict=True):
                        part[target] += one
                lengths[target] = sums[target].square().sum()
            if not moved:
                break
        return _numbered(groups)

    # ---- variances ---------------------------------------------------------------------------------------------------

    def _fit(self, groups: NDArray[np.int64]) -> None:
        """Fit the variances and alpha to the groups."""
        self.alpha = likely_alpha(len(groups), int(groups.max()) + 1)
        if self.cells is not None:
            self.cells = self.cells.fitted(groups)
        grid = _VARIANCES * self.spread * 2.0
        for _ in range(3):
            for name in ("own", "between"):
                best, values = -math.inf, grid if _ == 0 else getattr(self, name) * np.geomspace(0.5, 2.0, 9)
                kept = getattr(self, name)
                for value in values.tolist():
                    setattr(self, name, value)
                    found = self._log_posterior(groups)
                    if found > best + 1e-9:
                        best, kept = found, value
                setattr(self, name, kept)


def likely_alpha(count: int, groups: int) -> float:
    """The most likely concentration alpha for a number of items and groups, from 0.1 to 100.

    The expected number of groups is sum_i alpha / (alpha + i).
    """
    low, high = math.log(0.1), math.log(100.0)
    steps = np.arange(count)
    for _ in range(40):
        middle = (low + high) / 2.0
        alpha = math.exp(middle)
        low, high = (middle, high) if float((alpha / (alpha + steps)).sum()) < groups else (low, middle)
    return math.exp((low + high) / 2.0)


def shared_members(
    one: Int[NDArray[np.int64], " fine"], other: Int[NDArray[np.int64], " fine"]
) -> tuple[Int[NDArray[np.int64], " pair"], Int[NDArray[np.int64], " pair"], Int[NDArray[np.int64], " pair"]]:
    """The groups of two groupings that share members: the one, the other, and how many they share.

    In order of the one, then of the other. There are at most as many pairs as members, so this takes no table of groups
    x groups.

    Args:
        one: the group of each fine label, from 0.
        other: its group in another grouping, from 0.
    """
    width = int(other.max()) + 1 if len(other) else 1
    pairs, counts = np.unique(one.reshape(-1).astype(np.int64) * width + other.reshape(-1), return_counts=True)
    return pairs // width, pairs % width, counts


def adjusted_rand(one: ArrayLike, other: ArrayLike) -> float:
    """The adjusted Rand index of two groupings: 1 if they are the same, about 0 by chance."""
    first, second = np.unique(one, return_inverse=True)[1], np.unique(other, return_inverse=True)[1]

    def pairs(counts: NDArray[np.int64]) -> float:
        return float((counts * (counts - 1.0) / 2.0).sum())

    both, total = pairs(shared_members(first, second)[2]), pairs(np.array([len(first)]))
    rows, columns = pairs(np.bincount(first)), pairs(np.bincount(second))
    expected = rows * columns / total if total else 0.0
    highest = (rows + columns) / 2
    return 1.0 if highest == expected else (both - expected) / (highest - expected)


def _numbered(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Groups numbered in the order of their first members."""
    _, first, place = np.unique(groups, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[place.reshape(-1)]


def _with(groups: NDArray[np.int64], item: int, group: int) -> NDArray[np.int64]:
    changed = groups.copy()
    changed[item] = group
    return changed
