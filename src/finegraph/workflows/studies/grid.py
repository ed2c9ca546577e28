"""The cells of a study: what is fitted once, and measured on every split and with every number of views.

A cell is a head, a set of kinds, an amount, a seed, and whether photos are cut to their boxes. Amounts come first, so
that a study that is stopped early has whole rows; the heads of one draw follow each other, so that what both share is
at hand. If nothing is left to chance (all photos, the last layer alone) there is one draw, not one per seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from finegraph.workflows.studies.spec import ALL, WITHOUT_KINDS, Study

_COST = {"softmax": 1.0, "softmax-marginal": 1.3, "independent": 1.8, "bipartite": 1.5, "bipartite-two": 2.5,
         "prototypes": 0.7, "prototypes-without-graph": 0.6, "auto": 0.2, "sklearn-logistic": 2.0,
         "sklearn-discriminant": 1.0}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One thing to fit.

    Attributes:
        head: see `finegraph.workflows.studies.spec.HEADS`.
        kinds: the name of the set; empty for heads without kinds.
        amount: photos per class, a share, or all.
        seed: of the draw.
        box: whether photos are cut to their boxes.
    """

    head: str
    kinds: str
    amount: str
    seed: int
    box: bool

    @property
    def name(self) -> str:
        """The cell as the name of a file."""
        parts = [self.head, self.kinds.replace(" ", "_"), self.amount.replace("%", "pc"), str(self.seed)]
        return "~".join([*parts, "box"] if self.box else parts)

    @property
    def text(self) -> str:
        """The cell as people read it."""
        amount = amount_text(self.amount)
        kinds = f" ({self.kinds})" if self.kinds else ""
        return f"{self.head}{kinds}, {amount}, seed {self.seed}" + (", box" if self.box else "")

    def to_dict(self) -> dict[str, Any]:
        """The cell by column."""
        return asdict(self)


def plan(study: Study) -> list[Cell]:
    """All cells, in the order in which they run."""
    cells = []
    for box in study.box:
        for amount in study.amounts:
            for seed in seeds_of(study, amount):
                for head in study.heads:
                    for kinds in ("",) if head in WITHOUT_KINDS else study.kinds:
                        cells.append(Cell(head=head, kinds=kinds, amount=amount, seed=seed, box=box))
    return [cell for cell in cells if not any(_fits(cell, table) for table in study.skip)]


def _fits(cell: Cell, table: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether a cell is in all lists of a table."""
    chosen = {"heads": cell.head, "kinds": cell.kinds, "amounts": cell.amount}
    return all(chosen[name] in listed for name, listed in table.items())


def seeds_of(study: Study, amount: str) -> tuple[int, ...]:
    """The seeds of an amount: a single one if nothing is drawn."""
    return study.seeds[:1] if amount == ALL and study.tune == "head" else study.seeds


def largest(amounts: Sequence[str]) -> str:
    """The amount shown in tables with room for one: all photos, or else the last amount."""
    return ALL if ALL in amounts else amounts[-1]


def amount_text(amount: str) -> str:
    """An amount as people read it."""
    if amount == ALL:
        return "all photos"
    if amount.endswith("%"):
        return f"{amount} of the photos"
    return f"{amount} photo{'' if amount == '1' else 's'} per class"


class Estimate:
    """How long the rest will take: as long as cells of the same head and kinds took, by their photos.

    Before there is one, other heads and the table of costs are used.
    """

    def __init__(self, cells: Sequence[Cell], photos: Mapping[str, int]) -> None:
        """Estimate cells.

        Args:
            cells: all of them.
            photos: how many photos each amount has.
        """
        self._work: dict[Cell, float] = {cell: max(photos[cell.amount], 1) ** 0.9 for cell in cells}
        self._left = dict.fromkeys(cells)  # in their order
        self._done: dict[tuple[str, str], list[float]] = {}

    def add(self, cell: Cell, seconds: float) -> None:
        """Note that a cell is done, now or in an earlier run."""
        del self._left[cell]
        totals = self._done.setdefault((cell.head, cell.kinds), [0.0, 0.0])
        totals[0] += seconds
        totals[1] += self._work[cell]

    @property
    def seconds_left(self) -> float | None:
        """The time that is left; None before the first cell."""
        if not self._done:
            return None
        cost = sum(work * _COST.get(head, 2.0) for (head, _), (_, work) in self._done.items())
        usual = sum(seconds for seconds, _ in self._done.values()) / cost
        return sum(self._work[cell] * self._rate(cell, usual) for cell in self._left)

    def _rate(self, cell: Cell, usual: float) -> float:
        """The seconds of a unit of work of a head with its kinds."""
        totals = self._done.get((cell.head, cell.kinds))
        return totals[0] / totals[1] if totals else usual * _COST.get(cell.head, 2.0)
