"""Suggesting kinds that a graph does not have, and saying which of those that it has add nothing.

Each suggestion is judged by photos that took no part: what it would change, with intervals. Nothing that exists is
changed: what is accepted goes to a new graph file, a column for each kind, which people edit in a spreadsheet or open
on the labelling page. A place without a model, such as a graph file, has names alone: those of a million fine labels,
too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from finegraph.errors import InputError, unknown_name
from finegraph.graph import LabelGraph
from finegraph.graph.group_names import TREE
from finegraph.graph.kind import BINARY_LABELS
from finegraph.graph.kind_columns import GROUP_SEPARATOR
from finegraph.model.structure.suggested_groups import MIN_STABILITY
from finegraph.model.structure.suggested_kinds import (
    SuggestedKind,
    kind_by_confusions,
    kinds_by_looks,
    kinds_by_names,
    news,
    with_suggested,
)
from finegraph.progress_types import ShowStage
from finegraph.workflows.labels.graph_sources import is_store, read_graph_of
from finegraph.workflows.structure.kept_structure import example_photos, keep_structure, photos_by_label, tree_part
from finegraph.workflows.structure.kind_effects import KindEffect, PhotoJudge, effect_of, held_out_confusions
from finegraph.workflows.structure.seen_photos import LabelledPhotos, SeenPhotos, see_photos

ALL = "all"
"""Accepts every suggestion."""
PHOTOS = 4
"""How many photos are named of each suggested label."""
MAX_LISTED = 1000
"""How many labels of a suggested kind are listed."""


@dataclass(frozen=True, kw_only=True)
class SuggestedLabel:
    """A label of a suggested kind.

    Attributes:
        label: its name.
        fine: the fine labels that have it.
        stability: how much of it is found again when photos are drawn again; None for names.
        photos: photos of these, of different fine labels first.
    """

    label: str
    fine: tuple[str, ...]
    stability: float | None
    photos: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class KindSuggestion:
    """A suggested kind with what it would change.

    Attributes:
        number: its place in the list, from 1.
        name: what it is called.
        source: where it comes from: names, looks or confusions.
        reason: the same in words.
        stability: how much of its groups is found again when photos are drawn again; None for names.
        labels: its labels with two fine labels and more, the largest first, as far as they are listed.
        shared: how many such labels there are.
        single: how many labels have one fine label alone.
        columns: the kinds and numbers that it adds.
        effect: what it would change; None if no photos could be judged.
    """

    number: int
    name: str
    source: str
    reason: str
    stability: float | None
    labels: tuple[SuggestedLabel, ...]
    shared: int
    single: int
    columns: tuple[str, ...]
    effect: KindEffect | None

    @property
    def stable(self) -> bool:
        """Whether at least half of its groups are found again; names are stable."""
        return self.stability is None or self.stability >= MIN_STABILITY

    def to_dict(self) -> dict[str, Any]:
        """The suggestion as JSON can hold it."""
        return {**asdict(self), "effect": None if self.effect is None else self.effect.to_dict()}


@dataclass(frozen=True, kw_only=True)
class PresentKind:
    """A kind, or a group of kinds, that the graph has, and what having it changes."""

    name: str
    effect: KindEffect

    def to_dict(self) -> dict[str, Any]:
        """The kind as JSON can hold it."""
        return {"name": self.name, "effect": self.effect.to_dict()}


@dataclass(frozen=True, kw_only=True)
class GraphSuggestions:
    """What a graph might have, and what it might do without.

    Attributes:
        suggestions: kinds that it does not have.
        present: the kinds that it has, those that harm most first.
        judged: which photos were judged; None if none could be.
        now: what the graph as it is reaches on these: log_likelihood, top1, sure, sure_wrong, sure_labels.
        accepted: the names of accepted suggestions.
        output: the graph file that was written; None if nothing was accepted.
        data: where the photos are; None if that is not known.
        notes: what could not be done, and why.
    """

    suggestions: tuple[KindSuggestion, ...]
    present: tuple[PresentKind, ...] = ()
    judged: str | None = None
    now: dict[str, float | None] | None = None
    accepted: tuple[str, ...] = ()
    output: str | None = None
    data: str | None = None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON can hold it."""
        return {
            **{name: getattr(self, name) for name in ("judged", "now", "output", "data")},
            "suggestions": [one.to_dict() for one in self.suggestions],
            "present": [one.to_dict() for one in self.present],
            "accepted": list(self.accepted),
            "notes": list(self.notes),
        }


def suggest_graph(
    model: str | os.PathLike[str],
    *,
    graph: str | os.PathLike[str] | None = None,
    accept: Sequence[str] = (),
    output: str | os.PathLike[str] | None = None,
    risk: float = 0.05,
    seed: int = 0,
    progress: ShowStage | None = None,
) -> GraphSuggestions:
    """Suggest kinds for a graph, and judge those that it has.

    Args:
        model: a run folder; or a model folder, of which no photos are known; or whatever else has a graph, of which
            names alone are known.
        graph: the graph to suggest kinds for, if not that of the model.
        accept: which suggestions are accepted, by number or name; "all" for all.
        output: the graph file to write with these; it must not exist.
        risk: how often a sure answer may be wrong.
        seed: of the draws that say how stable groups are.
        progress: given the name of a stage, its progress callback.

    Raises:
        ModelFolderError: there is no model, or it is damaged.
        InputError: what was given does not go together, or there is no such suggestion.
    """
    if bool(accept) != (output is not None):
        raise InputError("accept and output: expected both or none; what is accepted is written to a new file")
    if output is not None and Path(output).exists():
        raise InputError(f"{os.fspath(output)}: exists already; nothing is overwritten, so give another name")
    given = None if graph is None else read_graph_of(graph)
    if not _has_model(model):
        own = read_graph_of(model) if given is None else given
        note = f"{os.fspath(model)} has no model, so only names are used."
        by_names = kinds_by_names(own)
        found = GraphSuggestions(suggestions=_listed(by_names, own), notes=(note,))
        return _with_accepted(found, own, by_names, accept, output)
    stage = progress or (lambda name: lambda done, total: None)
    seen = see_photos(model, given, progress=stage)
    suggested, notes = suggested_kinds(seen, seed)
    judge = PhotoJudge(seen, risk)
    now, effects = None, None
    present: list[PresentKind] = []
    if judge.words is not None:
        report_stage = stage("graphs judged")
        columns = _columns(seen.graph)
        total = 1 + len(suggested) + len(columns)
        base = judge.answers(seen.graph)
        now, effects = base.summary(), []
        for number, one in enumerate(suggested, start=1):
            report_stage(number, total)
            effects.append(effect_of(judge.answers(one.on(seen.graph)), base))
        for number, (name, own_kinds) in enumerate(columns.items(), start=1 + len(suggested)):
            report_stage(number, total)
            rest = [kind for kind in (*seen.graph.kinds, *seen.graph.numbers) if kind not in own_kinds]
            present.append(PresentKind(name=name, effect=effect_of(base, judge.answers(seen.graph.only(rest)))))
        report_stage(total, total)
    result = GraphSuggestions(
        suggestions=_listed(suggested, seen.graph, seen.train, effects),
        present=tuple(sorted(present, key=lambda one: one.effect.log_likelihood.mean)),
        judged=judge.words,
        now=now,
        data=seen.data,
        notes=(*seen.notes, *notes),
    )
    result = _with_accepted(result, seen.graph, suggested, accept, output)
    if seen.run is not None:
        parts: dict[str, Any] = {"suggested": result.to_dict()}
        looks = [one.kinds[0].parents for one in reversed(suggested) if one.source == "looks"]
        if looks and not any(name.startswith(f"{TREE} ") for name in seen.graph.kinds):  # a tree of training stays
            parts["tree"] = tree_part(seen.graph, looks, None if seen.train is None else seen.train.samples)
        keep_structure(seen.run, parts)
    return result


def suggested_kinds(seen: SeenPhotos, seed: int = 0) -> tuple[list[SuggestedKind], tuple[str, ...]]:
    """All suggestions for a graph by what a model has seen, and notes on what failed.

    Args:
        seen: what a model has seen.
        seed: of the draws that say how stable groups are.
    """
    notes: list[str] = []
    found = kinds_by_names(seen.graph)
    try:
        photos = None if seen.train is None else (seen.train.features, seen.train.targets)
        found += kinds_by_looks(seen.graph, seen.statistics, photos=photos, seed=seed)
    except InputError as error:
        notes.append(f"No groups by looks: {error}.")
    mixed = held_out_confusions(seen)
    if mixed is not None:
        found += kind_by_confusions(seen.graph, *mixed, seed=seed)
    else:
        notes.append("No confused sets: no photos can be held out.")
    return sorted(news(found), key=lambda one: not one.stable), tuple(notes)  # what is mostly chance comes last


def _has_model(place: str | os.PathLike[str]) -> bool:
    path = Path(place)
    return not is_store(place) and any((path / name).is_file() for name in ("config.toml", "config.json"))


def _columns(graph: LabelGraph) -> dict[str, tuple[str, ...]]:
    """The kinds and numbers of a graph by column: a group of binary kinds is one."""
    found: dict[str, list[str]] = {}
    for name in (*graph.kinds, *graph.numbers):
        group, mark, _ = name.partition(GROUP_SEPARATOR)
        found.setdefault(group if mark and group not in graph.kinds else name, []).append(name)
    return {name: tuple(own) for name, own in found.items()}


def _listed(
    suggested: Sequence[SuggestedKind],
    graph: LabelGraph,
    train: LabelledPhotos | None = None,
    effects: Sequence[KindEffect] | None = None,
) -> tuple[KindSuggestion, ...]:
    """Suggestions as they are shown."""
    by_fine = {} if train is None else photos_by_label(train.samples)
    found = []
    for place, one in enumerate(suggested):
        members = members_of(one, graph)
        several = [entry for entry in members if len(entry[1]) > 1]
        several.sort(key=lambda entry: -len(entry[1]))
        labels = tuple(
            SuggestedLabel(label=label, fine=fine, stability=stability, photos=example_photos(fine, by_fine, PHOTOS))
            for label, fine, stability in several[:MAX_LISTED]
        )
        found.append(
            KindSuggestion(
                number=place + 1,
                name=one.name,
                source=one.source,
                reason=one.reason,
                stability=one.stability,
                labels=labels,
                shared=len(several),
                single=len(members) - len(several),
                columns=one.columns,
                effect=None if effects is None else effects[place],
            )
        )
    return tuple(found)


def members_of(one: SuggestedKind, graph: LabelGraph) -> list[tuple[str, tuple[str, ...], float | None]]:
    """The labels of a suggested kind, each with its fine labels and its stability.

    Args:
        one: the kind.
        graph: the graph that it was suggested for.
    """

    def named(rows: NDArray[np.int64]) -> tuple[str, ...]:
        return tuple(graph.fine[row] for row in rows.tolist())

    if one.number is not None:
        values, place = np.unique(one.number.values, return_inverse=True)
        return [
            (f"{value:g}", named(rows), None)
            for value, rows in zip(values.tolist(), _rows_of(place.reshape(-1), len(values)), strict=True)
            if not np.isnan(value)
        ]
    if len(one.kinds) > 1:
        yes = BINARY_LABELS.index("yes")
        return [
            (kind.name.partition(GROUP_SEPARATOR)[2], named(np.flatnonzero(kind.parents == yes)), None)
            for kind in one.kinds
        ]
    kind = one.kinds[0]
    rows, stable = _rows_of(kind.parents, len(kind.labels)), one.label_stability
    return [
        (label, named(own), stable[place] if place < len(stable) else None)
        for place, (label, own) in enumerate(zip(kind.labels, rows, strict=True))
    ]


def _rows_of(groups: NDArray[np.int64], count: int) -> list[NDArray[np.int64]]:
    """The rows of each group; -1 is none."""
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.searchsorted(groups[order], np.arange(count + 1)))[1:-1]


def _with_accepted(
    result: GraphSuggestions,
    graph: LabelGraph,
    suggested: Sequence[SuggestedKind],
    accept: Sequence[str],
    output: str | os.PathLike[str] | None,
) -> GraphSuggestions:
    """The result with what was accepted, which is written."""
    if output is None:
        return result
    names = [one.name for one in suggested]
    chosen: dict[str, SuggestedKind] = {}
    for word in accept:
        if word == ALL:
            chosen |= dict(zip(names, suggested, strict=True))
        elif word.isdecimal() and 1 <= int(word) <= len(suggested):
            chosen[names[int(word) - 1]] = suggested[int(word) - 1]
        elif word in names:
            chosen[word] = suggested[names.index(word)]
        else:
            raise unknown_name("suggestion", word, (*names, ALL))
    try:
        with_suggested(graph, list(chosen.values())).write(output)
    except OSError as error:
        raise InputError(f"{os.fspath(output)}: cannot be written: {error.strerror}") from error
    return replace(result, accepted=tuple(chosen), output=os.fspath(output))
