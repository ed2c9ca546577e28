"""Queries for classes and cells: pages of them, by words, by state or by label.

The database answers with indexes; only the scan of names for a search grows with the number of classes, by a few
milliseconds per 100,000. Pages by offset shift when the list changes, so a caller that works through a list asks for
the numbers of its classes once, and then for the classes by number.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from finegraph.errors import InputError
from finegraph.labelling.store.catalogue import Catalogue, KindEntry
from finegraph.labelling.store.current_rows import (
    check_number,
    chunks,
    load_cells,
    load_few,
    load_votes,
    search_form,
    short,
    unknown_fine,
)
from finegraph.labelling.store.records import CellState, ClassPage, ClassRow
from finegraph.labelling.store.renames import present_fine
from finegraph.labelling.store.sql_tables import LOW_CONFIDENCE, cells, edits, fine, notes, photo_labels, suggestions
from finegraph.labelling.store.values import value_text

_MAX_JOINT_CLASSES, _MAX_JOINT_KINDS = 8, 400
"""The largest number of classes, and of kinds, whose cells are read in one query."""
Show = Literal["all", "unknown", "known", "disagreement", "low_confidence", "noted", "suggested", "contradicted"]
Order = Literal["graph", "name", "attention"]
SHOWN: tuple[str, ...] = get_args(Show)
ORDERS: tuple[str, ...] = get_args(Order)
MAX_ROWS = 1000
"""The largest number of classes on a page."""
# Adding 0 keeps the database from using the index of kinds where another index finds the few rows directly.
_KIND = cells.c.kind_id + sa.literal_column("0")
DISAGREES = cells.c.disagreement == sa.literal_column("1")
DOUBTFUL = cells.c.confidence < sa.literal_column(str(LOW_CONFIDENCE))
# Statements that nearly every request uses, built once.
_VERSION = sa.select(sa.func.max(edits.c.number))
_ONE_CLASS = sa.select(fine).where(fine.c.name == sa.bindparam("the_name"), fine.c.removed == 0)
_NOTES = sa.select(notes).where(notes.c.fine_id.in_(sa.bindparam("the_fines", expanding=True)))


def store_version(connection: Connection) -> int:
    """The number of the last edit."""
    return int(connection.scalar(_VERSION) or 0)


@dataclass(frozen=True, kw_only=True)
class ClassFilter:
    """Which classes a list has, and in which order; see `LabelStore.classes`."""

    search: str = ""
    kind: str | None = None
    show: Show = "all"
    label: str | None = None
    order: Order = "graph"


def find_classes(
    connection: Connection,
    catalogue: Catalogue,
    wanted: ClassFilter,
    *,
    offset: int,
    limit: int,
    kinds: Sequence[str] | None,
) -> ClassPage:
    """A page of classes; see `LabelStore.classes`."""
    if offset < 0 or not 0 < limit <= MAX_ROWS:
        raise InputError(
            f"expected an offset of 0 or more and 1 to {MAX_ROWS} classes, got {short(offset)} and {short(limit)}"
        )
    check_number("offset", offset)
    where = _conditions(connection, catalogue, wanted)
    total = int(connection.scalar(sa.select(sa.func.count()).select_from(fine).where(*where)) or 0)
    query = _with_order(sa.select(fine).where(*where), catalogue, wanted)
    rows = list(connection.execute(query.limit(limit).offset(offset)))
    return ClassPage(
        rows=tuple(class_rows(connection, _listed_kinds(catalogue, kinds), rows)),
        total=total,
        offset=offset,
        version=store_version(connection),
    )


def class_numbers(connection: Connection, catalogue: Catalogue, wanted: ClassFilter) -> array[int]:
    """The numbers of all classes that match, in order; see `LabelStore.class_numbers`."""
    where = _conditions(connection, catalogue, wanted)
    query = _with_order(sa.select(fine.c.id).where(*where), catalogue, wanted)
    return array("q", connection.scalars(query))


def classes_of(
    connection: Connection, catalogue: Catalogue, numbers: Sequence[int], kinds: Sequence[str] | None
) -> list[ClassRow]:
    """Classes by number, in that order, including removed ones; see `LabelStore.numbered_classes`."""
    rows: dict[int, Row[Any]] = {}
    for part in chunks(numbers):
        rows.update((row.id, row) for row in connection.execute(sa.select(fine).where(fine.c.id.in_(part))))
    return class_rows(
        connection, _listed_kinds(catalogue, kinds), [rows[number] for number in numbers if number in rows]
    )


def _filter_kinds(catalogue: Catalogue, kind: str | None) -> list[KindEntry]:
    """The kinds that a filter applies to."""
    return [catalogue.kind(kind)] if kind is not None else list(catalogue.kinds)


def _listed_kinds(catalogue: Catalogue, kinds: Sequence[str] | None) -> list[KindEntry]:
    """The kinds whose cells are listed."""
    return [catalogue.kind(name) for name in kinds] if kinds is not None else list(catalogue.kinds)


def _conditions(connection: Connection, catalogue: Catalogue, wanted: ClassFilter) -> list[sa.ColumnElement[bool]]:
    """The conditions of a query for classes."""
    kind, show = wanted.kind, wanted.show
    if show not in SHOWN:
        raise InputError(f"show: expected one of {', '.join(SHOWN)}, got {show!r}")
    state = _state(catalogue, show, kind, _filter_kinds(catalogue, kind))
    where = [fine.c.removed == 0, *_words(wanted.search), *state]
    if wanted.label is not None:
        where.append(fine.c.id.in_(_with_label(connection, catalogue, kind, wanted.label)))
    return where


def _with_order(query: sa.Select[Any], catalogue: Catalogue, wanted: ClassFilter) -> sa.Select[Any]:
    """A query for classes with its order."""
    chosen, show, order = _filter_kinds(catalogue, wanted.kind), wanted.show, wanted.order
    if order not in ORDERS:
        raise InputError(f"order: expected one of {', '.join(ORDERS)}, got {order!r}")
    if show == "contradicted" and order == "attention":
        sure = _contradicted(chosen, sa.func.max(suggestions.c.score).label("score"))
        best = sure.group_by(suggestions.c.fine_id).subquery()
        query = query.join(best, best.c.fine_id == fine.c.id).order_by(best.c.score.desc())
    return query.order_by(*_order(order, chosen, ranked=show != "contradicted"))


def _words(search: str) -> list[sa.ColumnElement[bool]]:
    """The words of a search, each of which must occur in the name."""
    return [fine.c.folded.contains(word, autoescape=True) for word in search_form(search).split()]


def _state(
    catalogue: Catalogue, show: Show, kind: str | None, chosen: Sequence[KindEntry]
) -> list[sa.ColumnElement[bool]]:
    """The condition of a filter on classes."""
    ids = [entry.id for entry in chosen]
    of_kinds = _KIND.in_(ids)
    if show == "all":
        return []
    if show == "noted":
        return [fine.c.id.in_(sa.select(notes.c.fine_id).where(notes.c.text != ""))]
    if show == "contradicted":
        return [fine.c.id.in_(_contradicted(chosen))]
    if show == "suggested":
        return [fine.c.id.in_(_suggested().where(suggestions.c.kind_id.in_(ids)))]
    if show in ("disagreement", "low_confidence"):
        doubt = DISAGREES if show == "disagreement" else DOUBTFUL
        return [fine.c.id.in_(sa.select(cells.c.fine_id).where(of_kinds, doubt))]
    if kind is None:
        known = fine.c.known >= len(catalogue.kinds)
    else:
        known_cell = (cells.c.kind_id == ids[0]) & (cells.c.fine_id == fine.c.id) & cells.c.value.is_not(None)
        known = sa.exists().where(known_cell)
    return [known if show == "known" else ~known]


def _suggested() -> sa.Select[tuple[int]]:
    """Classes with a suggestion that differs from the value of their cell."""
    same_cell = (cells.c.kind_id == suggestions.c.kind_id) & (cells.c.fine_id == suggestions.c.fine_id)
    differs = sa.or_(cells.c.value.is_(None), cells.c.value != suggestions.c.value)
    return sa.select(suggestions.c.fine_id).select_from(suggestions.outerjoin(cells, same_cell)).where(differs)


def _contradicted(chosen: Sequence[KindEntry], *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Classes with a cell that the model contradicts, in some kinds."""
    same_cell = (cells.c.kind_id == suggestions.c.kind_id) & (cells.c.fine_id == suggestions.c.fine_id)
    of_kinds = suggestions.c.kind_id.in_([entry.id for entry in chosen])
    return (
        sa.select(suggestions.c.fine_id, *columns)
        .select_from(suggestions.join(cells, same_cell))
        .where(suggestions.c.source == "model", of_kinds, cells.c.value != suggestions.c.value)
    )


def _with_label(connection: Connection, catalogue: Catalogue, kind: str | None, label: str) -> sa.Select[tuple[int]]:
    """The classes whose cell of a kind names a label."""
    if kind is None:
        raise InputError("a label is looked for in a kind; name the kind too")
    entry = catalogue.kind(kind)
    number = entry.label(label).id
    # In the stored text a number follows [ or a comma, and precedes a comma or ].
    texts = [cells.c.value.contains(f"{left}{number}{right}") for left in "[," for right in ",]"]
    return sa.select(cells.c.fine_id).where(cells.c.kind_id == entry.id, sa.or_(*texts))


def _order(order: Order, chosen: Sequence[KindEntry], *, ranked: bool = True) -> list[Any]:
    """The order of a list; `ranked` is False if all of it needs attention for the same reason."""
    if order == "name":
        return [fine.c.folded, fine.c.id]
    if order == "graph" or not ranked:
        return [fine.c.position, fine.c.id]
    ids = [entry.id for entry in chosen]
    of_kinds = _KIND.in_(ids)
    unknown = fine.c.known < len(ids)
    if len(ids) == 1:  # `fine.known` counts all kinds, so it cannot tell whether this one is known
        known = sa.select(cells.c.fine_id).where(cells.c.kind_id == ids[0], cells.c.value.is_not(None))
        unknown = fine.c.id.not_in(known)
    rank = sa.case(
        (fine.c.id.in_(_contradicted(chosen)), 0),
        (fine.c.id.in_(sa.select(cells.c.fine_id).where(of_kinds, DISAGREES)), 1),
        (fine.c.id.in_(sa.select(cells.c.fine_id).where(of_kinds, DOUBTFUL)), 2),
        (unknown, 3),
        else_=4,
    )
    return [rank, fine.c.position, fine.c.id]


# ---- rows and cells --------------------------------------------------------------------------------------------------


def class_rows(connection: Connection, wanted: Sequence[KindEntry], rows: Sequence[Row[Any]]) -> list[ClassRow]:
    """Classes with their notes and cells."""
    ids = [row.id for row in rows]
    class_notes: dict[int, Row[Any]] = {}
    for part in chunks(ids):
        class_notes.update((note.fine_id, note) for note in connection.execute(_NOTES, {"the_fines": part}))
    names = {row.id: row.name for row in rows}
    by_kind = _states_by_kind(connection, wanted, names)
    return [
        ClassRow(
            number=row.id,
            fine=row.name,
            position=row.position,
            version=row.version,
            note=class_notes[row.id].text if row.id in class_notes else "",
            note_version=class_notes[row.id].version if row.id in class_notes else 0,
            cells={name: states[row.id] for name, states in by_kind.items()},
            removed=bool(row.removed),
        )
        for row in rows
    ]


def _states_by_kind(
    connection: Connection, wanted: Sequence[KindEntry], names: Mapping[int, str]
) -> dict[str, dict[int, CellState]]:
    """The cells of some classes in some kinds; those of a few classes are read in one query."""
    if len(wanted) < 2 or not names or len(names) > _MAX_JOINT_CLASSES or len(wanted) > _MAX_JOINT_KINDS:
        return {kind.name: cell_states(connection, kind, names) for kind in wanted}
    rows, votes_by_cell = load_few(connection, [kind.id for kind in wanted], names)
    return {
        kind.name: {
            number: cell_state(kind, name, rows.get((kind.id, number)), votes_by_cell.get((kind.id, number), {}))
            for number, name in names.items()
        }
        for kind in wanted
    }


def cell_states(connection: Connection, kind: KindEntry, names: Mapping[int, str]) -> dict[int, CellState]:
    """The cells of some classes, given by number and name, in a kind."""
    rows, votes_by_class = load_cells(connection, kind.id, names), load_votes(connection, kind.id, names)
    return {
        number: cell_state(kind, name, rows.get(number), votes_by_class.get(number, {}))
        for number, name in names.items()
    }


def cell_state(kind: KindEntry, name: str, row: Row[Any] | None, person_votes: Mapping[str, str | None]) -> CellState:
    """A cell for callers."""
    value = kind.value(row.value) if row is not None else None
    votes = {person: kind.value(vote) for person, vote in sorted(person_votes.items())}
    if row is None:
        return CellState(fine=name, kind=kind.name, value=None, text="", votes=votes)
    return CellState(
        fine=name,
        kind=kind.name,
        value=value,
        text=value_text(value),
        version=row.version,
        by=row.by,
        at=row.at,
        votes=votes,
        disagreement=bool(row.disagreement),
        resolved=bool(row.resolved),
        confidence=row.confidence,
    )


def one_class(connection: Connection, catalogue: Catalogue, name: str, number: int | None = None) -> ClassRow:
    """One class by its number, or by its name if the number is missing or no longer exists."""
    name = present_fine(connection, name, number)
    row = connection.execute(_ONE_CLASS, {"the_name": name}).first()
    if row is None:
        raise unknown_fine(connection, name)
    return class_rows(connection, catalogue.kinds, [row])[0]


def photo_cells(
    connection: Connection, catalogue: Catalogue, photos: Collection[str]
) -> dict[str, dict[str, CellState]]:
    """The photo labels of some photos, by photo and kind; photos without labels are left out."""
    by_photo: dict[str, dict[str, CellState]] = {}
    for part in chunks(set(photos)):
        for row in connection.execute(sa.select(photo_labels).where(photo_labels.c.photo.in_(part))):
            kind = catalogue.by_id[row.kind_id]
            if not kind.removed:
                by_photo.setdefault(row.photo, {})[kind.name] = photo_state(kind, row)
    return by_photo


def photo_state(kind: KindEntry, row: Row[Any]) -> CellState:
    """A photo label for callers."""
    value = kind.value(row.value)
    shared = {"version": row.version, "by": row.by, "at": row.at, "votes": {}}
    return CellState(fine=row.photo, kind=kind.name, value=value, text=value_text(value), **shared)


def label_counts(connection: Connection, kind: KindEntry) -> dict[str, int]:
    """How many classes name each label of a kind."""
    counts = dict.fromkeys(kind.names, 0)
    living = sa.select(fine.c.id).where(fine.c.removed == 0)
    query = sa.select(cells.c.value, sa.func.count()).where(
        cells.c.kind_id == kind.id, cells.c.value.is_not(None), cells.c.fine_id.in_(living)
    )
    for value, count in connection.execute(query.group_by(cells.c.value)):
        cell = kind.cell(value)
        for label in cell.labels if cell else ():
            counts[label] += count
    return counts
