"""Suggestions in the store: stored beside the cells, listed with the current state, accepted as one action.

They follow from photos, models and names and can be rebuilt, so they are not part of the log; accepting them is. A
suggestion that equals the value of its cell is not listed. Contradictions come first. A suggestion that is made again
keeps its number, and numbers are never reused. Accepting may add labels that a kind does not have yet, in the same
action.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.errors import InputError, refuse_unknown
from finegraph.labelling.edits.decisions import plan_decisions
from finegraph.labelling.edits.structure import new_label, plan_new_row
from finegraph.labelling.store.catalogue import Catalogue, KindEntry, LabelEntry
from finegraph.labelling.store.checks import check_names
from finegraph.labelling.store.current_rows import check_number, chunks, fine_ids, next_number, short
from finegraph.labelling.store.log import confidence, count_known
from finegraph.labelling.store.plan import Plan
from finegraph.labelling.store.records import Decision, Suggestion, SuggestionPage
from finegraph.labelling.store.renames import present_decisions
from finegraph.labelling.store.sealed_rows import add_rows, forget_rows, write_rows
from finegraph.labelling.store.sql_tables import beliefs, cells, fine, kinds, meta, suggestions
from finegraph.labelling.store.values import dump, value_text
from finegraph.labelling.suggestions.proposals import SOURCES, Proposal

_ROWS_PER_INSERT = 20_000
_MIN_PROBABILITY = 0.001
"""Probabilities below this are not kept."""
_LAST_NUMBER = "suggestion"
"""The row of `meta` with the last number of a suggestion."""
_NUMBERS = sa.select(suggestions.c.number, suggestions.c.kind_id, suggestions.c.fine_id, suggestions.c.value)
_SAME = (cells.c.kind_id == suggestions.c.kind_id) & (cells.c.fine_id == suggestions.c.fine_id)
_TABLES = (
    suggestions.outerjoin(cells, _SAME)
    .join(fine, fine.c.id == suggestions.c.fine_id)
    .join(kinds, kinds.c.id == suggestions.c.kind_id)
)
_CONTRADICTS = sa.case((cells.c.value.is_not(None), 0), else_=1)


def keep_suggestions(connection: Connection, catalogue: Catalogue, source: str, proposals: Iterable[Proposal]) -> int:
    """Replace all suggestions of a source; returns how many there are now."""
    refuse_unknown("source", [source], SOURCES)
    of_source = suggestions.c.source == source
    known = {(row.kind_id, row.fine_id, row.value): row.number for row in connection.execute(_NUMBERS.where(of_source))}
    number = first = _next_suggestion(connection)
    forget_rows(connection, suggestions, of_source)
    listed = list(proposals)
    ids = fine_ids(connection, {proposal.fine for proposal in listed})
    rows = []
    for proposal in listed:
        kind = catalogue.kind(proposal.kind)
        value = kind.encode(proposal.value)
        old_number = known.pop((kind.id, ids[proposal.fine], value), None)
        rows.append(
            {
                "number": number if old_number is None else old_number,
                "kind_id": kind.id,
                "fine_id": ids[proposal.fine],
                "value": value,
                "source": source,
                "score": float(proposal.score),
                "reason": proposal.reason,
            }
        )
        number += old_number is None
    for start in range(0, len(rows), _ROWS_PER_INSERT):
        add_rows(connection, suggestions, rows[start : start + _ROWS_PER_INSERT])
    if number > first:
        write_rows(connection, meta, [{"key": _LAST_NUMBER, "value": str(number - 1)}])
    return len(rows)


def _next_suggestion(connection: Connection) -> int:
    """A number that no suggestion ever had: a page that shows a deleted one must not accept another by its number."""
    kept = connection.scalar(sa.select(meta.c.value).where(meta.c.key == _LAST_NUMBER))
    return max(next_number(connection, suggestions.c.number), int(kept or 0) + 1)


def keep_beliefs(
    connection: Connection, catalogue: Catalogue, model_beliefs: Mapping[str, Mapping[str, Mapping[str, float]]]
) -> None:
    """Replace the beliefs of a model, by kind, class and label, and update the confidence of all cells."""
    forget_beliefs(connection)
    ids = fine_ids(connection, {name for by_class in model_beliefs.values() for name in by_class})
    for name, by_class in model_beliefs.items():
        kind = catalogue.kind(name)
        kept = {}
        for fine_label, probabilities in by_class.items():
            # Where several labels can hold, a small probability is a statement too: the label does not hold.
            min_probability = _MIN_PROBABILITY if kind.mode == "one" else 0.0
            numbers = {str(kind.ids[label]): round(p, 6) for label, p in probabilities.items() if p >= min_probability}
            kept[ids[fine_label]] = dump(numbers)
        add_rows(connection, beliefs, [{"kind_id": kind.id, "fine_id": n, "probabilities": p} for n, p in kept.items()])
        query = sa.select(cells.c.fine_id, cells.c.value).where(cells.c.kind_id == kind.id, cells.c.value.is_not(None))
        confidences = [
            {"the_fine": row.fine_id, "sure": confidence(kind, row.value, kept[row.fine_id])}
            for row in connection.execute(query)
            if row.fine_id in kept
        ]
        if confidences:
            of_cell = (cells.c.kind_id == kind.id) & (cells.c.fine_id == sa.bindparam("the_fine"))
            connection.execute(sa.update(cells).where(of_cell).values(confidence=sa.bindparam("sure")), confidences)


def forget_beliefs(connection: Connection) -> None:
    """Delete the beliefs of a model, and with them the confidence of all cells."""
    forget_rows(connection, beliefs, sa.true())
    connection.execute(sa.update(cells).where(cells.c.confidence.is_not(None)).values(confidence=None))


def make_anew(connection: Connection) -> None:
    """Delete suggestions and beliefs, and count the known cells of all classes again."""
    forget_rows(connection, suggestions, sa.true())
    forget_beliefs(connection)
    count_known(connection)


def has_beliefs(connection: Connection) -> bool:
    """Whether the beliefs of a model are stored."""
    return connection.scalar(sa.select(beliefs.c.fine_id).limit(1)) is not None


def read_beliefs(
    connection: Connection, catalogue: Catalogue, names: Collection[str], kind: str | None
) -> dict[str, dict[str, dict[str, float]]]:
    """The beliefs of a model about some classes; see `LabelStore.beliefs`."""
    chosen = catalogue.kinds if kind is None else (catalogue.kind(kind),)
    by_class: dict[str, dict[str, dict[str, float]]] = {}
    query = sa.select(beliefs, fine.c.name.label("fine_name")).join(fine, fine.c.id == beliefs.c.fine_id)
    of_kinds = query.where(beliefs.c.kind_id.in_([entry.id for entry in chosen]), fine.c.removed == 0)
    for part in chunks(set(names)):
        for row in connection.execute(of_kinds.where(fine.c.name.in_(part))):
            entry = catalogue.by_id[row.kind_id]
            numbers = {int(number): p for number, p in json.loads(row.probabilities).items()}
            probabilities = {label.name: numbers[label.id] for label in entry.labels if label.id in numbers}
            by_class.setdefault(row.fine_name, {})[entry.name] = probabilities
    return by_class


def read_suggestions(
    connection: Connection,
    catalogue: Catalogue,
    *,
    kind: str | None,
    fine_label: str | None,
    source: str | None,
    contradicting: bool,
    least: float,
    offset: int,
    limit: int,
) -> SuggestionPage:
    """A page of suggestions; see `LabelStore.suggestions`."""
    if offset < 0 or not 0 < limit <= _ROWS_PER_INSERT:
        raise InputError(
            f"expected an offset of 0 or more and 1 to {_ROWS_PER_INSERT} suggestions, got {short(offset)} and "
            f"{short(limit)}"
        )
    check_number("offset", offset)
    filters: dict[str, Any] = {}
    if kind is not None:
        filters["kind_id"] = catalogue.kind(kind).id
    if fine_label is not None:
        filters["fine_id"] = fine_ids(connection, [fine_label])[fine_label]
    if source is not None:
        refuse_unknown("source", [source], SOURCES)
        filters["source"] = source
    page, count = _listing(frozenset(filters), contradicting)
    filters = {f"the_{name}": value for name, value in filters.items()} | {"least": least}
    selected = connection.execute(page, {**filters, "count": limit, "left_out": offset})
    rows = tuple(_suggestion(catalogue, row) for row in selected)
    total = len(rows)
    if offset or total == limit:  # otherwise these are all
        total = int(connection.scalar(count, filters) or 0)
    return SuggestionPage(rows=rows, total=total)


@cache
def _listing(columns: frozenset[str], contradicting: bool) -> tuple[sa.Select[Any], sa.Select[Any]]:
    """A page of suggestions with given values in some columns, and their total; built once."""
    differs = sa.or_(cells.c.value.is_(None), cells.c.value != suggestions.c.value)
    where = [fine.c.removed == 0, kinds.c.removed == 0, differs, suggestions.c.score >= sa.bindparam("least")]
    where += [suggestions.c[name] == sa.bindparam(f"the_{name}") for name in sorted(columns)]
    if contradicting:
        where.append(cells.c.value.is_not(None))
    order = (_CONTRADICTS, suggestions.c.score.desc(), suggestions.c.number)
    page = (
        _columns()
        .where(*where)
        .order_by(*order)
        .limit(sa.bindparam("count", type_=sa.Integer))
        .offset(sa.bindparam("left_out", type_=sa.Integer))
    )
    return page, sa.select(sa.func.count()).select_from(_TABLES).where(*where)


def best_suggestions(
    connection: Connection, catalogue: Catalogue, kind: str, names: Collection[str]
) -> dict[str, Suggestion]:
    """The best suggestion for one kind of each class that has one; see `LabelStore.best_suggestions`."""
    differs = sa.or_(cells.c.value.is_(None), cells.c.value != suggestions.c.value)
    of_kind = suggestions.c.kind_id == catalogue.kind(kind).id
    order = (suggestions.c.score.desc(), suggestions.c.number)
    best: dict[str, Suggestion] = {}
    for part in chunks(names):
        ids = sa.select(fine.c.id).where(fine.c.name.in_(part), fine.c.removed == 0)
        query = _columns().where(of_kind, suggestions.c.fine_id.in_(ids), differs).order_by(*order)
        for row in connection.execute(query):
            best.setdefault(row.fine_name, _suggestion(catalogue, row))
    return best


def _columns() -> sa.Select[Any]:
    current = (cells.c.value.label("current"), cells.c.version.label("seen"), fine.c.name.label("fine_name"))
    return sa.select(suggestions, *current).select_from(_TABLES)


def _suggestion(catalogue: Catalogue, row: sa.Row[Any]) -> Suggestion:
    kind = catalogue.by_id[row.kind_id]
    value = kind.value(row.value)
    return Suggestion(
        number=row.number,
        fine=row.fine_name,
        kind=kind.name,
        value=value,
        text=value_text(value),
        source=row.source,
        score=row.score,
        reason=row.reason,
        contradicts=row.current is not None,
        current=kind.value(row.current),
        seen=row.seen or 0,
    )


def accepted(
    connection: Connection, catalogue: Catalogue, numbers: Sequence[int], seen: Mapping[int, int] | None
) -> list[Decision]:
    """The decisions that accepting suggestions makes.

    Args:
        connection: a connection to the store.
        catalogue: its kinds.
        numbers: the suggestions.
        seen: by suggestion, the version of the cell that the person saw; by default the current one.

    Raises:
        InputError: an unknown suggestion, or two for one cell.
    """
    by_number: dict[int, Suggestion] = {}
    for number in numbers:
        check_number("suggestion", number)
    for part in chunks(set(numbers)):
        query = _columns().where(suggestions.c.number.in_(part), fine.c.removed == 0, kinds.c.removed == 0)
        by_number.update((row.number, _suggestion(catalogue, row)) for row in connection.execute(query))
    missing = [number for number in numbers if number not in by_number]
    if missing or not numbers:
        what = f"there is no suggestion number {missing[0]} any more" if missing else "expected at least one suggestion"
        raise InputError(f"{what}; look at the list again")
    chosen = [by_number[number] for number in dict.fromkeys(numbers)]
    versions = seen or {}
    return [
        Decision(
            fine=suggestion.fine,
            kind=suggestion.kind,
            value=suggestion.value,
            seen=versions.get(suggestion.number, suggestion.seen),
        )
        for suggestion in chosen
    ]


def plan_named(connection: Connection, catalogue: Catalogue, decisions: Sequence[Decision], person: str) -> Plan:
    """The plan of decisions and of the new labels that they name, all or none; see `plan_decisions`.

    Only a single label in a kind of mode "one" may be new.
    """
    decisions = present_decisions(connection, catalogue, decisions)
    plan, kinds, count = Plan(""), {kind.id: kind for kind in catalogue.all_kinds}, 0
    for decision in decisions:
        kind = kinds[catalogue.kind(decision.kind).id]
        if kind.mode == "one" and isinstance(decision.value, str) and decision.value not in kind.ids:
            key, snapshot = new_label(connection, catalogue.kind(decision.kind), decision.value, count)
            plan_new_row(plan, key, snapshot)
            kinds[kind.id] = _with_label(
                kind, LabelEntry(key.label_id or 0, decision.value, snapshot["position"], False, 0)
            )
            count += 1
    check_names(plan)
    with_new_labels = replace(catalogue, all_kinds=tuple(kinds.values()))
    decided = plan_decisions(connection, with_new_labels, decisions, person)
    decided.changes = {**plan.changes, **decided.changes}
    return decided


def added_labels(plan: Plan) -> str:
    """The labels that a plan adds, as the end of its sentence; empty if it adds none."""
    names = [change.after["name"] for change in plan.of("label") if change.after is not None]
    if not names:
        return ""
    return f" and added {f'the label {names[0]!r}' if len(names) == 1 else f'{len(names)} labels'}"


def _with_label(kind: KindEntry, label: LabelEntry) -> KindEntry:
    return replace(kind, all_labels=(*kind.all_labels, label))
