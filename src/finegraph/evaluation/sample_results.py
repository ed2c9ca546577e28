"""The results of single photos, as columns, and as the table `samples.csv`.

About 50 bytes per photo, 9 more per kind and 40 per number, however many fine labels there are. In the table, photos
stand in the order of the samples; one that could not be read has the reason in its column `error`, and no answers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from numpy.typing import NDArray

from finegraph.data.samples import Samples
from finegraph.evaluation.judgements import Indices, Judgements, judge_fine
from finegraph.evaluation.metrics import Numbers
from finegraph.evaluation.number_metrics import VALUE_COLUMNS
from finegraph.evaluation.sure import FINE_LEVEL, NOTHING, Statements
from finegraph.files.csv_table import csv_text, defused
from finegraph.graph import LabelGraph
from finegraph.graph.formats.text_file import write_text
from finegraph.inference.answers import interval_words

COLUMNS = (
    "path",
    "label",
    "predicted",
    "probability",
    "right",
    "rank",
    "log_prob",
    "inconsistent",
    "sure_kind",
    "sure_label",
    "sure_probability",
    "sure_right",
    "unknown_score",
    "error",
)
"""The columns of the table; then follow `predicted:KIND`, `probability:KIND` and `right:KIND` for every kind, and
`true:NUMBER`, `mean:NUMBER`, `median:NUMBER`, `low:NUMBER` and `high:NUMBER` for every number."""
_KIND_COLUMNS = ("predicted", "probability", "right")
_JUDGED = {1: "yes", 0: "no"}


@dataclass(frozen=True, eq=False)
class SampleResults:
    """The results for each photo, in columns.

    Attributes:
        sample: the number of the photo in the list of samples.
        fine: the true fine label, `MISSING` where it is not known.
        predicted: the most probable fine label.
        probability: its probability.
        rank: the place of the true one, from 1; 0 where it is not known.
        log_prob: the log probability of the true one; NaN where it is not known.
        kinds_predicted: (photo, kind) the most probable label of each kind.
        kinds_probability: (photo, kind) its probability.
        kinds_right: (photo, kind) whether it is right.
        inconsistent: whether these contradict the most probable fine label.
        statements: the sure answers.
        unknown: per score, how little the photo looks like the known classes.
        values: (photo, number, 5) the true value, NaN where it is not known, and the prediction; see `VALUE_COLUMNS`.
    """

    sample: Int[Indices, " photo"]
    fine: Int[Indices, " photo"]
    predicted: Int[Indices, " photo"]
    probability: Float[Numbers, " photo"]
    rank: Int[Indices, " photo"]
    log_prob: Float[Numbers, " photo"]
    kinds_predicted: Int[Indices, "photo kind"]
    kinds_probability: Float[Numbers, "photo kind"]
    kinds_right: Int[Judgements, "photo kind"]
    inconsistent: Bool[NDArray[np.bool_], " photo"]
    statements: Statements
    unknown: dict[str, Float[Numbers, " photo"]]
    values: Float[NDArray[np.float64], "photo number 5"]

    def __len__(self) -> int:
        return len(self.sample)

    @property
    def right(self) -> Int[Judgements, " photo"]:
        """Whether the most probable fine label is right."""
        return judge_fine(self.predicted, self.fine)

    def arrays(self) -> dict[str, Shaped[NDArray[Any], " ..."]]:
        """The columns by name, without values and scores of unknown photos; sure answers as `sure_level` and so on."""
        columns = {name: np.ascontiguousarray(getattr(self, name)) for name in _ARRAYS}
        return {**columns, **{f"sure_{name}": column for name, column in self.statements._asdict().items()}}

    @staticmethod
    def join(parts: Sequence[SampleResults]) -> SampleResults:
        """All parts, in the order of the samples."""
        order = np.argsort(np.concatenate([part.sample for part in parts]), kind="stable")

        def joined(arrays: Sequence[Any]) -> Any:
            return np.concatenate(arrays)[order]

        statements = zip(*(part.statements for part in parts), strict=True)
        return SampleResults(
            **{name: joined([getattr(part, name) for part in parts]) for name in _ARRAYS},
            statements=Statements(*map(joined, statements)),
            unknown={name: joined([part.unknown[name] for part in parts]) for name in parts[0].unknown},
            values=joined([part.values for part in parts]),
        )


_ARRAYS = tuple(field.name for field in fields(SampleResults) if field.name not in ("statements", "unknown", "values"))


def write_samples(
    path: str | os.PathLike[str],
    results: SampleResults,
    samples: Samples,
    graph: LabelGraph,
    *,
    score: str | None = None,
    bad: Mapping[str, str] | None = None,
) -> None:
    """Write the table; cells that a spreadsheet would take for a formula are defused.

    Args:
        path: the file.
        results: of the photos that could be read.
        samples: all photos.
        graph: the label graph.
        score: which of the scores of unknown photos stands in the table.
        bad: the paths of the photos that could not be read, each with the reason.

    Raises:
        GraphFileError: the file cannot be written.
    """
    more = [f"{column}:{kind}" for kind in graph.kinds for column in _KIND_COLUMNS]
    more += [f"{column}:{number}" for number in graph.numbers for column in VALUE_COLUMNS]
    table = [[*COLUMNS, *map(defused, more)]]
    rows = _Rows(results, graph, score)
    place_of = {number: place for place, number in enumerate(results.sample.tolist())}
    for number, sample in enumerate(samples):
        first = [defused(os.fspath(sample.path)), defused(sample.label or "")]
        if number in place_of:
            table.append([*first, *rows.cells(place_of[number])])
        else:
            reason = defused((bad or {}).get(os.fspath(sample.path), ""))
            table.append([*first, *[""] * (len(COLUMNS) - 3), reason, *[""] * len(more)])
    write_text(os.fspath(path), csv_text(table))


class _Rows:
    """The cells of photos that could be read; names are defused once, numbers need no defusing."""

    def __init__(self, results: SampleResults, graph: LabelGraph, score: str | None) -> None:
        self.results = results
        self.right = results.right
        self.unknown = None if score is None else results.unknown[score]
        self.kinds = [defused(name) for name in (*graph.kinds, *graph.numbers)]
        self.labels = [[defused(label) for label in graph.labels(name)] for name in graph.kinds]
        self.fine = [defused(label) for label in graph.fine]

    def cells(self, place: int) -> list[str]:
        """The cells after the path and the label."""
        results = self.results
        cells = [
            self.fine[results.predicted[place]],
            _number(results.probability[place]),
            _JUDGED.get(int(self.right[place]), ""),
            str(results.rank[place]) if results.rank[place] else "",
            _number(results.log_prob[place]),
            _JUDGED[int(results.inconsistent[place])],
            *self._sure(place),
            "" if self.unknown is None else _number(self.unknown[place]),
            "",
        ]
        for kind in range(len(self.labels)):
            cells.append(self.labels[kind][results.kinds_predicted[place, kind]])
            cells.append(_number(results.kinds_probability[place, kind]))
            cells.append(_JUDGED.get(int(results.kinds_right[place, kind]), ""))
        return cells + [_number(value) for value in results.values[place].reshape(-1)]

    def _sure(self, place: int) -> list[str]:
        """The sure answer: kind, label, probability, whether it is right."""
        level, label, probability, right, low, high = (column[place] for column in self.results.statements)
        if level == NOTHING:
            return ["", "", "", ""]
        kind = "" if level == FINE_LEVEL else self.kinds[level - 1]
        return [kind, self._stated(level, label, low, high), _number(probability), _JUDGED.get(int(right), "")]

    def _stated(self, level: int, label: int, low: float, high: float) -> str:
        """The label of a statement, or its range."""
        if level == FINE_LEVEL:
            return self.fine[label]
        if level > len(self.labels):
            return defused(interval_words(low, high))
        labels = self.labels[level - 1]
        return labels[label] if np.isnan(low) else f"{labels[int(low)]} to {labels[int(high)]}"


def _number(value: float) -> str:
    """A number with six digits; nothing if there is none."""
    return "" if np.isnan(value) else f"{value:.6g}"
