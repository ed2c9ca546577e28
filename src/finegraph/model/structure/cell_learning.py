"""Learn the cells of a label graph from photos: empty ones, and filled ones that look wrong.

Cells are latent variables. Given the cells, the effects of coarse labels follow in closed form; given the effects, the
labels of a cell have probabilities. The two steps alternate (expectation-maximisation, with independent cells):

    p(c)    ~  exp(frequency + a photos + b related + d words + e named)          of cell (i, kind), without the table
    row(c)  ~  p(c)                                  unknown cells
    row(c)  ~  p(c) (1 - error)  if the table says c,  p(c) error / (labels - 1)  if not

`photos` is the log likelihood of the photos of i with c as its parent, by effects estimated without i
(left_out_means.py); the other clues come from the table itself (graph/cell_clues.py). Directions of features are far
from independent, and so are kinds, so each clue of each kind has a trust, a to e. Trust is chosen to make the known
cells most likely, each predicted as if it were hidden; so the odds are honest as far as hidden cells are like known
ones. The trusts of a clue are shrunk towards each other, so that kinds with few known cells borrow from the others;
but if dishes "with tomato" often have none, names count little for tomato alone.

`error` is the share of known cells that are wrong. Estimated step by step along with trust it stays far too small: a
few wrong cells cost all clues their trust, and then nothing looks wrong. So cells are learnt with each of several
shares. Without names, the share comes out too large where photos say little; with names, too small, since a wrong cell
may look like a word that means nothing. So both log likelihoods are averaged, and the mean over the shares is taken.
Cells of a fine label are not independent, so for the range in which the share probably is they count by half. Cost:
about 70 rounds of fine^2 x coarse and coarse^2 x fine.

A learnt cell comes with evidence that people can look at: the most similar fine labels that have the label in question.
People believe "photos say tofu: yes" when they see it next to two similar dishes with tofu. Distances are between
class means in scaled features. Cost: fine labels x features for each cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.graph.cell_clues import CellClues, cell_clues
from finegraph.graph.kind import Kind
from finegraph.model.fitting.class_means import Variances
from finegraph.model.fitting.lbfgs import minimise
from finegraph.model.structure.latent_cells import MIN_WEIGHT, LatentCells
from finegraph.model.structure.left_out_means import LeftOutMeans
from finegraph.model.teaching.class_statistics import ClassStatistics

Trust = dict[str, Tensor]
"""Per clue, how much it counts for each kind."""
CLUES = ("photos", "related", "words", "named")
"""The clues about a cell besides the frequencies of its labels."""
_ROUNDS, _MIN_CHANGE = 8, 0.01
"""The maximum number of rounds, and the change of a weight below which they stop."""
_USUAL_TRUST = {"related": 0.3, "words": 0.5, "named": 2.0}
_USUAL_DIRECTIONS = 30.0
_TRUST_FACTOR = 4.0
"""The prior of trust: centred at these values (for photos, as if this many directions were independent). A factor of 4
is one standard deviation, both of what the kinds share and of a single kind around that."""
_USUAL_ERROR, _ERROR_CELLS = 0.03, 10.0
"""The prior share of wrong cells, and how many cells it counts as."""
_ERRORS = (0.002, 0.008, 0.032, 0.128)
"""The shares of wrong cells that are tried, each this many times the last."""
_ERROR_CLUES = ("photos", "related")
"""The clues by which it is estimated beside all of them."""
_ERROR_STEPS, _RANGE_WEIGHT = 121, 0.5
"""How many shares the log likelihood is interpolated for, and how much it counts for their range."""
_ERROR_RANGE, _NO_ERROR = 0.9, 0.004
"""How probable the range of the share is, and below which share it begins at 0."""
_PRIOR_SHARE = 2.0
"""How many photos the learnt probabilities of a cell count as, per photo of its fine label."""
_MIN_PRIOR = 1e-4
"""Less probable labels are not candidates while a head is fitted by descent."""


@dataclass(frozen=True, kw_only=True)
class LearntCell:
    """One cell: what photos, other cells and names say of it, without the table and with it.

    Attributes:
        fine: the fine label.
        kind: the kind.
        label: the most probable label if the cell were empty.
        probability: how probable it is then.
        table: the label in the table; None if the cell is empty.
        table_probability: its probability if the cell were empty; None if it is.
        posterior: how probable the label is given the table, too, of which a share of cells is wrong.
        table_posterior: the same of the label in the table; None if the cell is empty.
        photos: how many photos the fine label has.
        evidence: cells are sorted by this: for a filled cell the odds against the table, divided by the number of other
            labels, since a slip may hit any of them; for an empty one its odds.
    """

    fine: str
    kind: str
    label: str
    probability: float
    table: str | None
    table_probability: float | None
    posterior: float
    table_posterior: float | None
    photos: int
    evidence: float

    @property
    def odds(self) -> float:
        """The odds of the label against the one in the table, given the table; against all others if it is empty."""
        against = 1.0 - self.posterior if self.table_posterior is None else self.table_posterior
        return self.posterior / max(against, 1e-12)

    @property
    def odds_if_empty(self) -> float:
        """The same if the cell were empty: what photos, other cells and the name say alone."""
        against = 1.0 - self.probability if self.table_probability is None else self.table_probability
        return self.probability / max(against, 1e-12)

    @property
    def contradicts(self) -> bool:
        """Whether the table says something else."""
        return self.table is not None and self.table != self.label

    @property
    def source(self) -> str:
        """The sources of evidence; photos are one if there are some."""
        return "photos" if self.photos else "other cells and the name"

    @property
    def words(self) -> str:
        """The evidence in words."""
        odds = f"{self.odds:,.0f}" if self.odds >= 10 else f"{self.odds:.1f}"
        text = f"{self.fine}: {self.source} say {self.kind}: {self.label}, odds {odds} to 1"
        return f"{text}; the table says {self.table}" if self.contradicts else text


@dataclass(frozen=True, eq=False, kw_only=True)
class LearntGraph:
    """A graph and what was learnt about its cells.

    Attributes:
        graph: the graph as it was given.
        kinds: the kinds that were learnt.
        weights: per kind, the probability of each label for each fine label, given the table.
        beliefs: the same without the cell's own entry in the table.
        trust: per clue, how much it counts for each kind.
        error: the estimated share of known cells that are wrong.
        error_range: the range in which that probably is; from 0 if none may be wrong.
        rounds: the number of rounds.
        photos: how many photos each fine label has.
        latent_places: per kind, the cells that are latent: unknown ones, and doubtful ones, which given the table are
            more probably wrong than right.
    """

    graph: LabelGraph
    kinds: tuple[str, ...]
    weights: dict[str, Float[Tensor, "fine _"]]
    beliefs: dict[str, Float[Tensor, "fine _"]]
    trust: dict[str, dict[str, float]]
    error: float
    error_range: tuple[float, float]
    rounds: int
    photos: Float[Tensor, " fine"]
    latent_places: dict[str, Bool[Tensor, " fine"]]

    def doubtful(self, kind: str) -> Bool[Tensor, " fine"]:
        """The filled cells of a kind that are latent, since they are more probably wrong than right."""
        return self.latent_places[kind] & ~torch.from_numpy(self.graph.kind(kind).unknown.copy())

    def filled(self) -> LabelGraph:
        """The graph with learnt weights in its unknown and its doubtful cells; all others stay unchanged."""
        graph = self.graph
        for name, places in self.latent_places.items():
            if bool(places.any()):
                graph = graph.with_kind(_filled(graph.kind(name), self.weights[name].numpy(), places.numpy()))
        return graph

    def latent(self) -> LatentCells | None:
        """The latent cells, to be learnt further while a head is fitted by descent; None if there are none.

        What the table says of a doubtful one is a part of its prior.
        """
        places = {name: own for name, own in self.latent_places.items() if bool(own.any())}
        prior = {}
        for name in places:
            kept = torch.where(self.weights[name] >= _MIN_PRIOR, self.weights[name], 0.0)
            prior[name] = kept / kept.sum(dim=1, keepdim=True).clamp_min(1e-300)
        strength = 1.0 + _PRIOR_SHARE * self.photos
        return LatentCells(places=places, prior=prior, strength=strength) if places else None

    def moved_to(self, graph: LabelGraph) -> LearntGraph:
        """The same with the weights of the latent cells taken from another graph."""
        weights, beliefs = dict(self.weights), dict(self.beliefs)
        for name, places in self.latent_places.items():
            own = torch.from_numpy(graph.kind(name).matrix())
            unknown = torch.from_numpy(self.graph.kind(name).unknown.copy())
            weights[name] = torch.where(places[:, None], own, weights[name])
            beliefs[name] = torch.where(unknown[:, None], own, beliefs[name])
        return replace(self, weights=weights, beliefs=beliefs)

    def cells(self) -> list[LearntCell]:
        """All cells that are empty or have one label, those with the most evidence first.

        Filled cells are sorted by how probably the table is wrong, empty ones by how sure their label is.
        """
        found = []
        for name in self.kinds:
            kind = self.graph.kind(name)
            best = self.beliefs[name].argmax(dim=1)
            for fine in np.flatnonzero(kind.row_sizes <= 1).tolist():
                row, label = self.beliefs[name][fine], int(best[fine])
                given = self.weights[name][fine]
                own = None if kind.unknown[fine] else int(kind.coarse[kind.starts[fine]])
                right = max(1.0 - float(row[label]) if own is None else float(row[own]), 1e-12)
                others = 1 if own is None else max(len(kind.labels) - 1, 1)
                found.append(
                    LearntCell(
                        fine=self.graph.fine[fine],
                        kind=name,
                        label=kind.labels[label],
                        probability=float(row[label]),
                        table=None if own is None else kind.labels[own],
                        table_probability=None if own is None else float(row[own]),
                        posterior=float(given[label]),
                        table_posterior=None if own is None else float(given[own]),
                        photos=int(self.photos[fine]),
                        evidence=(1.0 - right) / right / others,
                    )
                )
        return sorted(found, key=lambda cell: -cell.evidence)


def learn_cells(
    graph: LabelGraph,
    counts: Float[Tensor, " fine"],
    means: Float[Tensor, "fine feature"],
    variances: Variances,
    *,
    kinds: Sequence[str] | None = None,
    clues: Sequence[str] = CLUES,
) -> LearntGraph:
    """Learn the cells of a graph.

    Args:
        graph: the label graph.
        counts: how many photos each fine label has; may be 0.
        means: the mean of their scaled features.
        variances: the variance of class means due to each kind, to the class itself, and to noise.
        kinds: the kinds to learn; by default those that class means depend on.
        clues: which clues to use besides frequencies; by default all.

    Raises:
        InputError: there is nothing to learn from, or the graph is too large.
    """
    names = tuple(variances.kinds if kinds is None else kinds)
    if not names:
        raise InputError("the label graph has no kinds, so there are no cells to learn")
    if unknown := [clue for clue in clues if clue not in CLUES]:
        raise InputError(f"clues: expected some of {', '.join(CLUES)}, got {unknown[0]!r}")
    problem = _Problem(graph, names, counts, means, variances, tuple(clues))
    error, error_range = problem.likely_error()
    found = problem.settle(error, tuple(clues))
    rows, beliefs, trust, rounds = found.rows, found.beliefs, found.trust, found.rounds
    parts = problem.split(torch.from_numpy(np.arange(problem.coarse_count)))
    return LearntGraph(
        graph=graph,
        kinds=names,
        weights={name: rows[:, part] for name, part in zip(names, parts, strict=True)},
        beliefs={name: beliefs[:, part] for name, part in zip(names, parts, strict=True)},
        trust={clue: dict(zip(names, own.tolist(), strict=True)) for clue, own in trust.items()},
        error=error,
        error_range=error_range,
        rounds=rounds,
        photos=counts,
        latent_places=dict(zip(names, problem.latent(found).t(), strict=True)),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Found:
    """The result with a share of wrong cells; `log_posterior` is that of the trust, given the known cells."""

    rows: Tensor
    beliefs: Tensor
    trust: Trust
    rounds: int
    log_posterior: float


class _Problem:
    """The data that stays the same from round to round."""

    def __init__(
        self,
        graph: LabelGraph,
        names: tuple[str, ...],
        counts: Tensor,
        means: Tensor,
        variances: Variances,
        clues: tuple[str, ...],
    ) -> None:
        self.clues = clues
        self.label_counts = [len(graph.labels(name)) for name in names]
        self.coarse_count = sum(self.label_counts)
        kept = replace(variances, kinds={name: variances.kinds.get(name, 0.0) for name in names})
        self.means = LeftOutMeans(counts, means, kept, self.label_counts)
        self.table: CellClues = cell_clues(graph, names)
        self.known = torch.from_numpy(self.table.known)
        self.parents = torch.from_numpy(self.table.parents)
        starts = torch.from_numpy(self.table.starts)
        self.places = (self.parents - starts[:-1]).clamp_min(0)
        self.fixed = torch.zeros(len(graph), self.coarse_count, dtype=torch.float64)
        self.is_fixed = torch.zeros(len(graph), len(names), dtype=torch.bool)
        for number, name in enumerate(names):  # a cell with several parents is a decision too, and stays
            kind = graph.kind(name)
            several = torch.from_numpy(kind.row_sizes > 1)
            self.is_fixed[:, number] = several
            matrix = torch.from_numpy(kind.matrix())
            self.fixed[:, starts[number] : starts[number + 1]] = torch.where(several[:, None], matrix, 0.0)

    def likely_error(self) -> tuple[float, tuple[float, float]]:
        """The share of known cells that are wrong, and the range in which it probably is."""
        without_names = tuple(clue for clue in self.clues if clue in _ERROR_CLUES)
        sets = {self.clues, without_names or self.clues}
        found = np.array([[self.settle(error, clues).log_posterior for error in _ERRORS] for clues in sets])
        places = np.linspace(math.log(_ERRORS[0]), math.log(_ERRORS[-1]), _ERROR_STEPS)
        values = _between(places, np.log(_ERRORS), found.mean(axis=0))
        mean = float(_probs_of_errors(values, places) @ places)
        wide = _probs_of_errors(_RANGE_WEIGHT * values, places).cumsum()
        ends = np.searchsorted(wide, [(1.0 - _ERROR_RANGE) / 2.0, (1.0 + _ERROR_RANGE) / 2.0])
        low, high = np.exp(places[ends]).tolist()
        return math.exp(mean), (low if low >= _NO_ERROR else 0.0, high)

    def settle(self, error: float, clues: tuple[str, ...]) -> _Found:
        """Weights of cells and trust in turns, with a share of wrong cells, until nothing changes."""
        rows = self.start()
        trust = {clue: torch.full((len(self.label_counts),), self.usual_trust(clue)).double() for clue in clues}
        rounds, change, loss = 0, math.inf, 0.0
        while rounds < _ROUNDS and change >= _MIN_CHANGE:
            rounds += 1
            clue_scores = self.clues_of(rows, clues)
            trust, loss = self.fit_trust(clue_scores, trust, error)
            beliefs = self.beliefs(clue_scores, trust)
            now = self.rows(beliefs, error)
            change = float((now - rows).abs().max())
            rows = now
        return _Found(rows=rows, beliefs=beliefs, trust=trust, rounds=rounds, log_posterior=-loss)

    def latent(self, found: _Found) -> Tensor:
        """Which cells are unknown, or probably wrong."""
        return (~self.known & ~self.is_fixed) | self.probably_wrong(found)

    def probably_wrong(self, found: _Found) -> Tensor:
        """Which known cells are more probably wrong than right."""
        return self.known & (self.table_probs(self.split(found.rows)) < 0.5)

    def split(self, values: Tensor) -> tuple[Tensor, ...]:
        return torch.split(values, self.label_counts, dim=values.ndim - 1)

    def start(self) -> Tensor:
        """The initial rows: the table, and frequencies in its empty cells."""
        parts = []
        for number, part in enumerate(self.split(torch.from_numpy(self.table.frequency))):
            one_hot = torch.nn.functional.one_hot(self.places[:, number], part.shape[1]).double()
            parts.append(torch.where(self.known[:, number, None], one_hot, torch.softmax(part, dim=1)))
        return self._with_fixed(torch.cat(parts, dim=1))

    def _with_fixed(self, rows: Tensor) -> Tensor:
        fixed = self.is_fixed.repeat_interleave(torch.tensor(self.label_counts), dim=1)
        return torch.where(fixed, self.fixed, rows)

    def usual_trust(self, clue: str) -> float:
        return min(1.0, _USUAL_DIRECTIONS / self.means.feature_count) if clue == "photos" else _USUAL_TRUST[clue]

    def clues_of(self, rows: Tensor, clues: tuple[str, ...]) -> dict[str, Tensor]:
        """The score of every clue for all cells; that of photos is relative to the best label."""
        clue_scores = {clue: torch.from_numpy(getattr(self.table, clue)) for clue in clues if clue != "photos"}
        if "photos" in clues:
            clue_scores["photos"] = self.means.log_likelihoods(rows)
        return clue_scores

    def log_beliefs(self, clue_scores: dict[str, Tensor], trust: Trust) -> list[Tensor]:
        total = torch.from_numpy(self.table.frequency)
        for clue, values in clue_scores.items():
            total = total + self._per_label(trust[clue]) * values
        return [torch.log_softmax(part, dim=1) for part in self.split(total)]

    def _per_label(self, values: Tensor) -> Tensor:
        """A value per kind, repeated for each of its labels."""
        return values.repeat_interleave(torch.tensor(self.label_counts))

    def beliefs(self, clue_scores: dict[str, Tensor], trust: Trust) -> Tensor:
        """How probable each label is if its cell were empty.

        Clues were right at most as often as there are known cells, so once in more than that they are not believed: a
        few names that mislead are no mistakes of the table, however sure all clues together are.
        """
        sure = torch.cat([part.exp() for part in self.log_beliefs(clue_scores, trust)], dim=1)
        usual = torch.cat([part.softmax(dim=1) for part in self.split(torch.from_numpy(self.table.frequency))], dim=1)
        return sure + (usual - sure) / (2.0 + float(self.known.sum()))

    def table_probs(self, beliefs: Sequence[Tensor]) -> Tensor:
        """The probability of the label in the table, for known cells."""
        found = [part.gather(1, self.places[:, [number]])[:, 0] for number, part in enumerate(beliefs)]
        return torch.stack(found, dim=1)

    def fit_trust(self, clue_scores: dict[str, Tensor], start: Trust, error: float) -> tuple[Trust, float]:
        """The trust that makes the known cells most likely, each predicted as if it were hidden."""
        if not clue_scores or not bool(self.known.any()):
            return start, 0.0
        names = tuple(clue_scores)
        centre = torch.tensor([math.log(self.usual_trust(clue)) for clue in names], dtype=torch.float64)
        others = self._other_labels()

        def loss(place: Tensor) -> tuple[float, Tensor]:
            with torch.enable_grad():
                place = place.detach().requires_grad_(True)
                shared, own = place.view(len(names), -1).tensor_split([1], dim=1)
                trust = dict(zip(names, (shared + own).exp(), strict=True))
                probs = self.table_probs([part.exp() for part in self.log_beliefs(clue_scores, trust)])
                likelihood = ((1.0 - error) * probs + error * (1.0 - probs) / others)[self.known].log().sum()
                away = torch.cat([shared - centre[:, None], own], dim=1) / math.log(_TRUST_FACTOR)
                total = 0.5 * away.square().sum() - likelihood
                (grad,) = torch.autograd.grad(total, place)
            return float(total.detach()), grad

        logs = torch.stack([start[clue].log() for clue in names])
        shared = logs.mean(dim=1, keepdim=True)
        first = torch.cat([shared, logs - shared], dim=1).flatten()
        found = minimise(loss, first, tolerance=1e-4, max_iter=50)
        shared, own = found.point.view(len(names), -1).tensor_split([1], dim=1)
        return dict(zip(names, (shared + own).exp(), strict=True)), loss(found.point)[0]

    def _other_labels(self) -> Tensor:
        """How many other labels a wrong cell of each kind may hold."""
        return torch.tensor([max(count - 1, 1) for count in self.label_counts], dtype=torch.float64)

    def rows(self, beliefs: Tensor, error: float) -> Tensor:
        """The weights of all cells, given the table."""
        parts = []
        for number, part in enumerate(self.split(beliefs)):
            labels = part.shape[1]
            one_hot = torch.nn.functional.one_hot(self.places[:, number], labels).double()
            likelihood = one_hot * (1.0 - error) + (1.0 - one_hot) * error / max(labels - 1, 1)
            both = part * likelihood
            both = both / both.sum(dim=1, keepdim=True).clamp_min(1e-300)
            parts.append(torch.where(self.known[:, number, None], both, part))
        return self._with_fixed(torch.cat(parts, dim=1))


def _between(
    places: NDArray[np.float64], known: NDArray[np.float64], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """A curve through known values: a parabola through the highest one and its neighbours, else straight lines."""
    found = np.interp(places, known, values)
    best = int(values.argmax())
    if 0 < best < len(known) - 1:
        near = slice(best - 1, best + 2)
        inside = (places >= known[best - 1]) & (places <= known[best + 1])
        found[inside] = np.polyval(np.polyfit(known[near], values[near], 2), places[inside])
    return found


def _probs_of_errors(values: NDArray[np.float64], places: NDArray[np.float64]) -> NDArray[np.float64]:
    """How probable shares of wrong cells are by their log likelihoods; places are the logarithms of the shares."""
    prior = _ERROR_CELLS * (_USUAL_ERROR * places + (1.0 - _USUAL_ERROR) * np.log1p(-np.exp(places)))
    probs = np.exp(values + prior - (values + prior).max())
    return np.asarray(probs / probs.sum())


def _filled(kind: Kind, weights: np.ndarray, places: np.ndarray) -> Kind:
    """The kind with weights in some of its rows."""
    matrix = kind.matrix()
    kept = np.where(weights >= MIN_WEIGHT, weights, 0.0)[places]
    matrix[places] = kept / kept.sum(axis=1, keepdims=True)
    return kind.with_matrix(matrix)


def alike_with_label(
    graph: LabelGraph, statistics: ClassStatistics, cells: Sequence[LearntCell], count: int = 3
) -> list[tuple[str, ...]]:
    """For each cell, the fine labels with its label whose photos look most like those of its own, nearest first.

    Args:
        graph: the label graph.
        statistics: the class statistics of its fine labels.
        cells: the cells.
        count: the maximum number of fine labels per cell.
    """
    seen = statistics.counts > 0
    means = statistics.means
    found: list[tuple[str, ...]] = []
    for cell in cells:
        fine, kind = graph.fine_index(cell.fine), graph.kind(cell.kind)
        label = graph.label_index(cell.kind, cell.label)
        one = np.flatnonzero(kind.row_sizes == 1)
        having = one[kind.coarse[kind.starts[:-1][one]] == label]
        rows = torch.from_numpy(having[having != fine])
        rows = rows[seen[rows]]
        if not len(rows) or not bool(seen[fine]):
            found.append(())
            continue
        near = torch.linalg.vector_norm(means[rows] - means[fine], dim=1).argsort(stable=True)[:count]
        found.append(tuple(graph.fine[row] for row in rows[near].tolist()))
    return found
