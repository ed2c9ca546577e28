"""Suggestions for cells, computed: from a model, from similar classes, and from names. Pure numpy, no database.

Each proposal has a reason. From a model: what the photos of all classes say of the cell, or else its mean probability
over the photos of the class. From similar classes: the labels of the nearest classes by mean features. From names: a
label whose words occur in the name of the class; its score is learnt from decided classes, (right + 1) / (all + 2).
Cost: linear in the cells, except for similar classes;
see `neighbours`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from finegraph.graph.kind import BINARY_LABELS
from finegraph.labelling.store.current_rows import search_form
from finegraph.labelling.store.graph_columns import Part, StoreColumn
from finegraph.labelling.store.records import CellValue
from finegraph.labelling.suggestions.neighbours import nearest

Source = Literal["model", "similar", "name"]
SOURCES: tuple[Source, ...] = ("model", "similar", "name")
Floats = NDArray[np.floating]
_WORDS = re.compile(r"\w+")
_MIN_SCORE, _MIN_CONTRADICTING_SCORE = 0.5, 0.6
"""The lowest score of a proposal, and of one that contradicts a decision."""
_MIN_NAME_CONTRADICTING_SCORE = 0.8
_NEIGHBOURS = 5


@dataclass(frozen=True)
class Proposal:
    """A value for a cell, with its score (0 to 1) and its reason."""

    fine: str
    kind: str
    value: CellValue
    source: Source
    score: float
    reason: str


def _value(column: StoreColumn, labels: Sequence[int]) -> CellValue:
    names = [column.labels[label] for label in sorted(labels)]
    return {"all_of": names} if column.mode == "all" else names[0]


def _named(names: Sequence[str]) -> str:
    quoted = [repr(name) for name in names]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " and " + quoted[-1]


# ---- from a model ----------------------------------------------------------------------------------------------------


def from_model(
    fine: Sequence[str],
    columns: Sequence[StoreColumn],
    beliefs: Mapping[str, Float[Floats, "fine _"]],
    photos: Sequence[int],
    alike: Mapping[tuple[str, str], Sequence[str]] | None = None,
) -> Iterator[Proposal]:
    """The labels that a model sees on the photos of the classes.

    Args:
        fine: the classes.
        columns: the kinds with their present cells.
        beliefs: per kind, how probable each label is for each class (fine x label): as learnt from the photos of all
            classes, or else the mean over its own photos.
        photos: how many photos each class has.
        alike: where it was learnt, by class and kind: classes with the label that look most like it.
    """
    for column in columns:
        if column.name not in beliefs:
            continue
        table = np.asarray(beliefs[column.name], dtype=np.float64)
        for row, name in enumerate(fine):
            if photos[row] and np.isfinite(table[row]).all():
                proposed = (_label_set if column.mode == "all" else _single_label)(
                    column, column.cells[row], table[row]
                )
                if proposed is not None:
                    labels, score, text = proposed
                    count = f"{photos[row]} photo{'s' if photos[row] != 1 else ''}"
                    if alike is None:
                        reason = f"on {count} of the class the model finds {text} on average"
                    else:
                        reason = _learnt_reason(count, text, score, alike.get((name, column.name), ()))
                    yield Proposal(name, column.name, _value(column, labels), "model", score, reason)


def _learnt_reason(count: str, text: str, score: float, alike: Sequence[str]) -> str:
    """The reason for a cell that was learnt."""
    odds = score / max(1.0 - score, 1e-9)
    shown = "more than 1,000" if odds > 1000 else f"{odds:,.{0 if odds >= 10 else 1}f}"
    looks = f"; the nearest with it: {_named(list(alike))}" if alike else ""
    return f"{count}, other cells and the name say {text}: odds {shown} to 1{looks}"


def _single_label(column: StoreColumn, cell: Part | None, seen: Floats) -> tuple[list[int], float, str] | None:
    best = int(seen.argmax())
    score, current = float(seen[best]), [label for label, _ in cell or ()]
    if best in current or score < (_MIN_SCORE if cell is None else _MIN_CONTRADICTING_SCORE):
        return None
    text = f"{column.labels[best]!r} with {score:.0%}"
    if current:
        text += f", and {_named([column.labels[label] for label in current])} with {float(seen[current].sum()):.0%}"
    return [best], min(score, 1.0), text


def _label_set(column: StoreColumn, cell: Part | None, seen: Floats) -> tuple[list[int], float, str] | None:
    chosen = {int(label) for label in np.flatnonzero(seen >= _MIN_SCORE)}
    certainty = np.maximum(seen, 1.0 - seen)
    current = None if cell is None else {label for label, _ in cell}
    differing = list(range(len(seen))) if current is None else sorted(chosen ^ current)
    if not differing or float(certainty[differing].min()) < _MIN_CONTRADICTING_SCORE:
        return None
    shown = [label for label in differing if label in chosen] or differing
    text = ", ".join(f"{column.labels[label]!r} with {float(seen[label]):.0%}" for label in shown[:4])
    return sorted(chosen), float(certainty[differing].min()), text


# ---- from similar classes --------------------------------------------------------------------------------------------


def from_similar(
    fine: Sequence[str], columns: Sequence[StoreColumn], features: Float[Floats, "fine feature"]
) -> Iterator[Proposal]:
    """The labels of the visually nearest classes, for unknown cells.

    Args:
        fine: the classes.
        columns: the kinds with their present cells.
        features: the mean features of the photos of each class (fine x feature); rows of NaN if there are none.
    """
    given = np.asarray(features, dtype=np.float32)
    seen = np.flatnonzero(np.isfinite(given).all(axis=1))
    if len(seen) < 2:
        return
    unit = given[seen]
    unit -= unit.mean(axis=0)
    unit /= np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-12)
    wanted = [place for place, row in enumerate(seen.tolist()) if any(column.cells[row] is None for column in columns)]
    for place, others, alike in nearest(unit, np.array(wanted, dtype=np.int64), _NEIGHBOURS):
        near = zip(others.tolist(), alike.tolist(), strict=True)
        neighbours = [(int(seen[other]), cosine) for other, cosine in near if cosine > 0]
        for column in columns:
            if column.cells[seen[place]] is None:
                shared = _shared(fine, column, neighbours)
                if shared is not None:
                    yield Proposal(fine[seen[place]], column.name, shared[0], "similar", shared[1], shared[2])


def _shared(
    fine: Sequence[str], column: StoreColumn, neighbours: Sequence[tuple[int, float]]
) -> tuple[CellValue, float, str] | None:
    """The labels that most of the known neighbours have, weighted by their cosine."""
    known = [(row, alike, column.cells[row]) for row, alike in neighbours if column.cells[row] is not None]
    if len(known) < 2:
        return None
    total = sum(alike for _, alike, _ in known)
    shares = np.zeros(len(column.labels))
    for _, alike, cell in known:
        for label, weight in cell or ():
            shares[label] += alike * (
                1.0 if column.mode == "all" else 1.0 / len(cell or ()) if weight is None else weight
            )
    shares /= total
    if column.mode == "all":
        chosen = [int(label) for label in np.flatnonzero(shares >= _MIN_SCORE)]
        score = float(np.maximum(shares, 1.0 - shares).min())
    else:
        chosen = [int(shares.argmax())]
        score = float(shares[chosen[0]])
    if score < _MIN_CONTRADICTING_SCORE:
        return None
    having = [fine[row] for row, _, cell in known if {label for label, _ in cell or ()} & set(chosen)] or [
        fine[known[0][0]]
    ]
    labels = _named([column.labels[label] for label in chosen]) if chosen else "none of the labels"
    reason = f"looks most like {_named(having[:3])}, which {'has' if len(having) == 1 else 'have'} {labels}"
    return _value(column, chosen), score * min(1.0, total / len(known) + 0.5), reason


# ---- from names ------------------------------------------------------------------------------------------------------


def name_words(name: str) -> tuple[str, ...]:
    """The words of a name, in the form that is compared."""
    return tuple(_WORDS.findall(search_form(name)))


def from_names(fine: Sequence[str], columns: Sequence[StoreColumn]) -> Iterator[Proposal]:
    """Labels whose words occur in the name of a class."""
    words = [name_words(name) for name in fine]
    for column in columns:
        triggers = _triggers(column)
        matches = [_matches(name_words, triggers) for name_words in words]
        trust = _trust(column, matches)
        for row, labels in enumerate(matches):
            yield from _from_name(fine[row], column, column.cells[row], labels, trust)


def _triggers(column: StoreColumn) -> dict[str, list[tuple[tuple[str, ...], int]]]:
    """The words of each label, by the first of them; in a yes/no kind, the name of the kind stands for yes."""
    if column.mode == "one" and column.labels == BINARY_LABELS:
        entries = [(name_words(column.name.rpartition(": ")[2]), BINARY_LABELS.index("yes"))]
    else:
        entries = [(name_words(label), place) for place, label in enumerate(column.labels)]
    triggers: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    for label_words, label in entries:
        if label_words and any(len(word) > 1 for word in label_words):  # "A" stands in too many names to mean anything
            triggers.setdefault(label_words[0], []).append((label_words, label))
    return triggers


def _matches(words: tuple[str, ...], triggers: Mapping[str, list[tuple[tuple[str, ...], int]]]) -> dict[int, int]:
    """The labels whose words occur in a name in sequence, with the number of their words."""
    matches: dict[int, int] = {}
    for place, word in enumerate(words):
        for label_words, label in triggers.get(word, ()):
            if words[place : place + len(label_words)] == label_words:
                matches[label] = len(label_words)
    return matches


def _trust(column: StoreColumn, matches: Sequence[Mapping[int, int]]) -> dict[int, tuple[int, int]]:
    """For each label: how many decided classes have its words in their name and also the label, and out of how many."""
    counts: dict[int, tuple[int, int]] = {}
    for cell, labels in zip(column.cells, matches, strict=True):
        if cell is not None:
            current = {label for label, _ in cell}
            for label in labels:
                right, all_of = counts.get(label, (0, 0))
                counts[label] = right + (label in current), all_of + 1
    return counts


def _from_name(
    fine: str,
    column: StoreColumn,
    cell: Part | None,
    labels: Mapping[int, int],
    trust: Mapping[int, tuple[int, int]],
) -> Iterator[Proposal]:
    """The proposal for one cell, if there is one."""
    current = {label for label, _ in cell or ()}
    min_score = _MIN_SCORE if cell is None else _MIN_NAME_CONTRADICTING_SCORE
    scores = {label: (right + 1) / (count + 2) for label in labels for right, count in [trust.get(label, (0, 0))]}
    good = [label for label in labels if scores[label] >= min_score and label not in current]
    if column.mode == "one" and len(good) > 1:
        longest = max(labels[label] for label in good)
        good = [label for label in good if labels[label] == longest]
    if not good or (column.mode == "one" and len(good) > 1):
        return
    label = max(good, key=lambda candidate: scores[candidate])
    right, count = trust.get(label, (0, 0))
    text = column.name.rpartition(": ")[2] if column.labels == BINARY_LABELS else column.labels[label]
    reason = f"its name contains {text!r}"
    if count:
        reason += f"; {right} of {count} decided classes with it in their name have the label"
    chosen = sorted({*current, *good}) if column.mode == "all" else good
    yield Proposal(fine, column.name, _value(column, chosen), "name", min(scores[label] for label in good), reason)
