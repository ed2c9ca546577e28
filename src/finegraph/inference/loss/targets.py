"""What was observed of a batch, in the form that the loss needs."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

FROM_FINE = -2
"""In place of a label of a kind: what the graph says of the sample's fine label."""


class Targets(NamedTuple):
    """What was observed of each sample. Slots are those of `slots.py`.

    Attributes:
        fine: (batch) the fine label; anything where it was not observed.
        column: (batch, slot) the coarse column of the label of each slot.
        weight: (batch, 1 + slot) the weight of the fine label, then of each slot; 0 where it was not observed. One row
            where all samples have the same weights, None where all are 1.
        kind: per slot, the number of its kind in the plan.
        weighted: per stack of weighted kinds, (kind, batch, label) the weight of each label.
    """

    fine: Tensor
    column: Tensor
    weight: Tensor | None
    kind: list[int]
    weighted: list[Tensor]

    def part(self, samples: slice) -> Targets:
        """The targets of some of the samples."""
        weight = self.weight if self.weight is None or len(self.weight) == 1 else self.weight[samples]
        weighted = [target[:, samples] for target in self.weighted]
        return Targets(self.fine[samples], self.column[samples], weight, self.kind, weighted)
