"""Clues about a cell of a label table from the other cells, without looking at any photo.

For every fine label i and every coarse label c there are three numbers; larger ones favour the link:

    frequency   log of how often other fine labels have c; smoothed, so that a label none of them has stays possible
    related     sum over the known cells c' of i in other kinds of log p(c' | c) / p(c'): what occurs together
    words       the same for the words in the name of i, and whether the words of c are among them

Fine label i is left out of all counts, so that a cell never supports itself. Probabilities are shrunk towards those of
all fine labels, with the weight of one fine label. The caller chooses how far to trust each clue: kinds are far from
independent of each other. Cost: coarse x (cells and words of a fine label), for each fine label.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from finegraph.graph.kind import BINARY_LABELS, FloatArray, IntArray
from finegraph.graph.kind_columns import GROUP_SEPARATOR
from finegraph.graph.label_graph import LabelGraph
from finegraph.graph.names import words_of

_PRIOR_LABELS = 1.0
"""The weight of the overall frequencies, in fine labels, when a conditional frequency is estimated."""


@dataclass(frozen=True, eq=False, kw_only=True)
class CellClues:
    """The clues of all cells, all kinds side by side.

    Attributes:
        starts: where the labels of each kind start among all coarse labels, followed by the total number.
        known: whether a fine label has exactly one known parent of a kind.
        parents: the index of that parent among all coarse labels; -1 if there is none.
        frequency: how often other fine labels have a label.
        related: the clue from other cells of the fine label.
        words: the clue from its name.
        named: 1 if the name contains the words of the label, else 0.
    """

    starts: Int[IntArray, " place"]
    known: Bool[NDArray[np.bool_], "fine kind"]
    parents: Int[IntArray, "fine kind"]
    frequency: Float[FloatArray, "fine coarse"]
    related: Float[FloatArray, "fine coarse"]
    words: Float[FloatArray, "fine coarse"]
    named: Float[FloatArray, "fine coarse"]

    def columns(self, kind: int) -> slice:
        """The columns of the labels of a kind."""
        return slice(int(self.starts[kind]), int(self.starts[kind + 1]))


def cell_clues(graph: LabelGraph, kinds: Sequence[str] | None = None) -> CellClues:
    """The clues of the cells of a graph.

    Args:
        graph: the label graph.
        kinds: the kinds to look at; by default all.

    Example:
        >>> rows = {"tofu soup": {"tofu": True}, "tofu stew": {"tofu": True}, "beef stew": {"tofu": False}}
        >>> graph = LabelGraph.from_table({**rows, "tofu rice": {"tofu": None}, "beef rice": {"tofu": None}})
        >>> clues = cell_clues(graph)
        >>> [graph.labels("tofu")[row.argmax()] for row in clues.words[3:]]
        ['yes', 'no']
    """
    names = tuple(graph.kinds if kinds is None else kinds)
    sizes = [len(graph.labels(kind)) for kind in names]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    parents = np.full((len(graph), len(names)), -1, dtype=np.int64)
    for number, name in enumerate(names):
        kind = graph.kind(name)
        one = kind.row_sizes == 1
        parents[one, number] = starts[number] + kind.coarse[kind.starts[:-1][one]]
    known = parents >= 0
    table = np.zeros((len(graph), int(starts[-1])))
    rows, columns = np.nonzero(known)
    table[rows, parents[rows, columns]] = 1.0
    kind_of = np.repeat(np.arange(len(names)), sizes)
    word_table, vocabulary = _word_table(graph.fine)
    return CellClues(
        starts=starts,
        known=known,
        parents=parents,
        frequency=_frequency(table, known, starts),
        related=_related(table, parents, kind_of),
        words=_words(table, word_table, known, kind_of),
        named=_named(graph, names, word_table, vocabulary),
    )


def _frequency(table: FloatArray, known: NDArray[np.bool_], starts: IntArray) -> FloatArray:
    """Log frequencies among the other fine labels, smoothed as suits the known cells best."""
    found = np.zeros_like(table)
    for kind in range(known.shape[1]):
        part = slice(starts[kind], starts[kind + 1])
        others = table[:, part].sum(axis=0) - table[:, part]
        share = _smoothing(others[table[:, part] > 0], int(known[:, kind].sum()), others.shape[1])
        mass = others + share
        found[:, part] = np.log(mass / mass.sum(axis=1, keepdims=True))
    return found


def _smoothing(own: FloatArray, known: int, labels: int) -> float:
    """What to add to every count to make each known label most probable given all others."""
    best, found = -math.inf, 1.0
    for share in np.geomspace(0.02, 2.0, 15).tolist():
        likelihood = float(np.log((own + share) / (known - 1 + labels * share)).sum()) if len(own) else 0.0
        if likelihood > best + 1e-9:
            best, found = likelihood, share
    return found if len(own) else 1.0


def _related(table: FloatArray, parents: IntArray, kind_of: IntArray) -> FloatArray:
    """The clue from the known cells of other kinds."""
    together = table.T @ table
    # How many fine labels have a label and a known cell in each kind.
    kind_count = parents.shape[1]
    with_kind = np.stack([together[:, kind_of == kind].sum(axis=1) for kind in range(kind_count)], axis=1)
    known_in = np.array([table[:, kind_of == kind].sum() for kind in range(kind_count)])
    found = np.zeros_like(table)
    for fine, row in enumerate(parents):
        cells = row[row >= 0]
        if len(cells) == 0:
            continue
        own = table[fine]
        kinds = kind_of[cells]
        share = (together[cells, cells] - 1.0 + _PRIOR_LABELS / 2) / (known_in[kinds] - 1.0 + _PRIOR_LABELS)
        both = together[:, cells] - own[:, None]
        ratio = (both + _PRIOR_LABELS * share) / (with_kind[:, kinds] - own[:, None] + _PRIOR_LABELS) / share
        log_ratio = np.log(ratio)
        log_ratio[kind_of[:, None] == kinds] = 0.0
        found[fine] = log_ratio.sum(axis=1)
    return found


def _words(table: FloatArray, word_table: NDArray[np.bool_], known: NDArray[np.bool_], kind_of: IntArray) -> FloatArray:
    """The clue from words that several names have."""
    found = np.zeros_like(table)
    if not word_table.shape[1]:
        return found
    words = word_table.astype(np.float64)
    together = table.T @ words
    counts = table.sum(axis=0)
    in_kind = known.T.astype(np.float64) @ words
    sizes = known.sum(axis=0)
    for fine in range(len(table)):
        places = np.flatnonzero(word_table[fine])
        if not len(places):
            continue
        own, knows = table[fine], known[fine].astype(np.float64)
        others = in_kind[:, places] - knows[:, None]
        share = (others + _PRIOR_LABELS / 2) / (sizes - knows + _PRIOR_LABELS)[:, None]
        both = together[:, places] - own[:, None]
        ratio = (both + _PRIOR_LABELS * share[kind_of]) / (counts - own + _PRIOR_LABELS)[:, None] / share[kind_of]
        found[fine] = np.where(others[kind_of] > 0, np.log(ratio), 0.0).sum(axis=1)
    return found


def _word_table(names: Sequence[str]) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Which names have which words; words of a single name are left out."""
    lists = [words_of(name) for name in names]
    counts: dict[str, int] = {}
    for words in lists:
        for word in set(words):
            counts[word] = counts.get(word, 0) + 1
    place = {word: number for number, word in enumerate(sorted(word for word, count in counts.items() if count > 1))}
    table = np.zeros((len(names), len(place)), dtype=bool)
    for row, words in enumerate(lists):
        table[row, [place[word] for word in words if word in place]] = True
    return table, place


def _named(
    graph: LabelGraph, kinds: Sequence[str], word_table: NDArray[np.bool_], vocabulary: dict[str, int]
) -> FloatArray:
    """Whether a name contains all words of a label; for `yes`, the words of its kind."""
    lists = [set(words_of(name)) for name in graph.fine]
    columns = []
    for kind in kinds:
        for label in graph.labels(kind):
            text = kind.partition(GROUP_SEPARATOR)[2] or kind if label == BINARY_LABELS[1] else label
            words = set() if graph.labels(kind) == BINARY_LABELS and label == "no" else set(words_of(text))
            columns.append([bool(words) and words <= own for own in lists])
    return np.array(columns, dtype=np.float64).reshape(-1, len(graph)).T
