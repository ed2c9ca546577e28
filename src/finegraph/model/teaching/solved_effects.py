"""Effects of the label graph, solved once, and again in a moment when few fine labels have changed.

`solve_effects` (fitting/class_means.py) solves V B = M - mu_0 for the fine labels with photos. A lesson changes the
count and the mean of a few of them, adds some, and moves mu_0. With C the labels that changed and N those that are new
to the system, the border of the old system V_0 gives

    B   = B_0 + W Z                  W = V_0^-1 [columns of C, K between old labels and N, ones]
    B_N and Z                        from a system of as many rows as C and N have labels

so effects change by a product with as many columns as labels changed. Cost: fine x features per changed label, where
solving again costs fine^2 x features. The result is that of solving again up to rounding in float64, and depends on
where it starts and on counts and means alone, not on the way between them.
"""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from finegraph.model.fitting.class_means import LinkMatrices, MeanComponents
from finegraph.model.teaching.class_statistics import ClassStatistics


class SolvedEffects:
    """The effects of one state, ready to be changed."""

    def __init__(self, links: LinkMatrices, start: ClassStatistics) -> None:
        """Solve for the effects.

        Args:
            links: the links of the graph.
            start: what photos show, and the strengths.
        """
        self.links, self.start, variances = links, start, start.variances
        self.seen: Int[Tensor, " seen"] = start.counts.nonzero()[:, 0]
        own_variance = links.own_variance(variances)
        self._rows = {name: _rows(links.designs[name], self.seen) for name in links.names}
        covariance = torch.diag(own_variance[self.seen] + variances.noise / start.counts[self.seen])
        for name, rows in self._rows.items():
            covariance += variances.of(name) * (rows @ rows.t())
        self._inverse = torch.cholesky_inverse(torch.linalg.cholesky(covariance))
        means = start.means[self.seen]
        self._means, self._centre = means, means.mean(dim=0)
        self._force = self._inverse @ (means - self._centre)
        self._ones = self._inverse.sum(dim=1, keepdim=True)
        self._coarse = {name: variances.of(name) * (rows.t() @ self._force) for name, rows in self._rows.items()}

    def effects(self) -> MeanComponents:
        """The effects as they were solved."""
        fine = torch.zeros_like(self.start.sums)
        fine[self.seen] = self.links.own_variance(self.start.variances)[self.seen, None] * self._force
        return MeanComponents(centre=self._centre, fine=fine, coarse=self._coarse)

    def changed(self, links: LinkMatrices, now: ClassStatistics, labels: Int[Tensor, " row"]) -> MeanComponents:
        """The effects of another state.

        Args:
            links: of the same graph, or of one with more fine labels behind its own, and more coarse labels behind
                those of each kind.
            now: the statistics of that graph, with the same strengths. No label that had photos is without any.
            labels: the fine labels whose counts or sums are others than at the start, the new ones with photos among
                them.
        """
        variances, own_variance = now.variances, links.own_variance(now.variances)
        place = torch.full((len(now.counts),), -1)
        place[self.seen] = torch.arange(len(self.seen))
        old, new = labels[place[labels] >= 0], labels[place[labels] < 0]
        at = place[old]
        means = now.sums[labels] / now.counts[labels, None]
        shift = means[place[labels] >= 0] - self._means[at]
        added = means[place[labels] < 0]
        total = len(self.seen) + len(new)
        centre = (self._centre * len(self.seen) + shift.sum(dim=0) + added.sum(dim=0)) / total

        # W: what each change does to all labels that were there.
        rows = {name: _rows(links.designs[name], new) for name in links.names}
        between = torch.zeros(len(self.seen), len(new), dtype=torch.float64)
        among = torch.diag(own_variance[new] + variances.noise / now.counts[new])
        for name, own_rows in rows.items():
            known = own_rows[:, : self._rows[name].shape[1]]
            between += variances.of(name) * (self._rows[name] @ known.t())
            among += variances.of(name) * (own_rows @ own_rows.t())
        ways = torch.cat([self._inverse[at].t(), self._inverse @ between], dim=1)

        # The border: X = [change of the diagonal times B_C, B_N].
        one = self._ones
        first = self._force[at] + ways[at, : len(old)] @ shift + one[at] * (self._centre - centre)
        moved = between.t() @ self._force + (between.t() @ ways[:, : len(old)]) @ shift
        moved = moved + (between.t() @ one) * (self._centre - centre)
        less = variances.noise / now.counts[old] - variances.noise / self.start.counts[old]
        top = torch.cat([torch.eye(len(old), dtype=torch.float64), torch.zeros(len(old), len(new)).double()], dim=1)
        top = top + less[:, None] * ways[at]
        bottom = -between.t() @ ways
        bottom[:, len(old) :] += among
        solution = torch.linalg.solve(
            torch.cat([top, bottom]), torch.cat([less[:, None] * first, added - centre - moved])
        )
        weights = torch.cat([shift - solution[: len(old)], -solution[len(old) :], (self._centre - centre)[None]])
        ways = torch.cat([ways, one], dim=1)

        fine = torch.addmm(self._force, ways, weights).mul_(own_variance[self.seen, None])
        if len(fine) < len(now.counts):
            known, fine = fine, torch.zeros_like(now.sums)
            fine[self.seen] = known
            fine[new] = own_variance[new, None] * solution[len(old) :]
        coarse = {}
        for name, own_rows in rows.items():
            before, strength = self._coarse[name], variances.of(name)
            after = torch.zeros(own_rows.shape[1], before.shape[1], dtype=torch.float64)
            after[: len(before)] = torch.addmm(before, strength * (self._rows[name].t() @ ways), weights)
            coarse[name] = after.addmm_(strength * own_rows.t(), solution[len(old) :])
        return MeanComponents(centre=centre, fine=fine, coarse=coarse)


def _rows(matrix: Tensor, wanted: Tensor) -> Tensor:
    """Some rows of a sparse matrix, as a dense one."""
    return matrix.index_select(0, wanted).to_dense()
