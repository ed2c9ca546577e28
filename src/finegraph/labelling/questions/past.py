"""The store as it was at an earlier version, and all comparisons, now or then.

For each thing edited since, the log has the snapshot before its first edit after that version; everything else is as it
is now. Kinds and labels have the names of that version. Classes of comparisons have their current names; the class of a
photo is known if it was known at the time of the comparison. Cost: linear in the edits since, and in the comparisons.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.errors import InputError
from finegraph.graph.comparisons import Comparison
from finegraph.labelling.edits.undo import key_of
from finegraph.labelling.questions.queries import store_version
from finegraph.labelling.store.catalogue import Catalogue, KindEntry, LabelEntry
from finegraph.labelling.store.current_rows import comparison_snapshot, short
from finegraph.labelling.store.plan import Key, Snapshot
from finegraph.labelling.store.records import PairAnswer, PhotoLabel
from finegraph.labelling.store.sql_tables import batches, comparisons, edits, fine, photo_labels
from finegraph.labelling.store.values import parse_pair


@dataclass(frozen=True)
class Past:
    """A state of the store.

    Attributes:
        catalogue: the kinds and labels of that version.
        snapshots: the things edited since, as they were; a thing that did not exist has an empty snapshot.
    """

    catalogue: Catalogue
    snapshots: Mapping[Key, Snapshot] = field(default_factory=dict)

    @classmethod
    def read(cls, connection: Connection, catalogue: Catalogue, version: int | None) -> Past:
        """The state at a version; None for the current one.

        Raises:
            InputError: there is no such version yet, or it lies inside an action.
        """
        if version is None or (last := store_version(connection)) == 0:
            return cls(catalogue)
        if not 1 <= version <= last:
            raise InputError(f"there is no version {short(version)}; versions go from 1 to {last}")
        _refuse_mid_action(connection, version)
        snapshots = _first_snapshots(connection, version)
        kinds = [_kind_at_version(kind, snapshots) for kind in catalogue.all_kinds]
        kinds.sort(key=lambda kind: (kind.position, kind.id))
        return cls(Catalogue(f"{catalogue.structure}@{version}", tuple(kinds)), snapshots)

    def fine(self, connection: Connection) -> dict[int, tuple[int, int, str, bool]]:
        """By number, each class: its position, its number, its name, and whether it is removed."""
        query = sa.select(fine.c.id, fine.c.position, fine.c.name, fine.c.removed)
        classes = {row.id: (row.position, row.id, row.name, bool(row.removed)) for row in connection.execute(query)}
        for key, snapshot in self.snapshots.items():
            if key.target == "fine" and key.fine_id is not None:
                classes[key.fine_id] = (snapshot["position"], key.fine_id, snapshot["name"], bool(snapshot["removed"]))
        return classes


def _refuse_mid_action(connection: Connection, version: int) -> None:
    """Raise if a version lies inside an action: the store never was in that state."""
    of_edit = edits.join(batches, batches.c.number == edits.c.batch)
    action = connection.execute(sa.select(batches).select_from(of_edit).where(edits.c.number == version)).one()
    if version != action.last:
        before = action.last - action.size
        raise InputError(
            f"version {version} lies inside an action ({action.text}); name the last edit before it, {before}, or its "
            f"own last one, {action.last}"
        )


def _first_snapshots(connection: Connection, version: int) -> dict[Key, Snapshot]:
    """The things edited after a version, as they were at that version."""
    query = sa.select(edits).where(edits.c.number > version, edits.c.target != "graph").order_by(edits.c.number)
    snapshots: dict[Key, Snapshot] = {}
    for row in connection.execute(query):
        key = key_of(row)
        if key not in snapshots:
            snapshots[key] = {"value": None} if row.before is None else json.loads(row.before)
    return snapshots


def _kind_at_version(kind: KindEntry, snapshots: Mapping[Key, Snapshot]) -> KindEntry:
    entries = [_label_at_version(kind, label, snapshots) for label in kind.all_labels]
    entries.sort(key=lambda label: (label.position, label.id))
    snapshot = snapshots.get(Key("kind", kind_id=kind.id))
    if snapshot is None:
        return replace(kind, all_labels=tuple(entries))
    return replace(
        kind,
        name=snapshot["name"],
        position=snapshot["position"],
        mode=snapshot["mode"],
        prior=snapshot["prior"],
        removed=bool(snapshot["removed"]),
        all_labels=tuple(entries),
    )


def _label_at_version(kind: KindEntry, label: LabelEntry, snapshots: Mapping[Key, Snapshot]) -> LabelEntry:
    snapshot = snapshots.get(Key("label", kind_id=kind.id, label_id=label.id))
    if snapshot is None:
        return label
    return replace(label, name=snapshot["name"], position=snapshot["position"], removed=bool(snapshot["removed"]))


def read_photo_labels(connection: Connection, catalogue: Catalogue, version: int | None = None) -> list[PhotoLabel]:
    """All photo labels, now or at an earlier version, in the order of the photos."""
    past = Past.read(connection, catalogue, version)
    names = past.fine(connection)
    values = {(row.photo, row.kind_id): (row.value, row.fine_id) for row in connection.execute(sa.select(photo_labels))}
    for key, snapshot in past.snapshots.items():
        if key.target == "photo" and key.photo is not None and key.kind_id is not None:
            values[key.photo, key.kind_id] = (snapshot["value"], snapshot.get("fine"))
    labels = []
    for (photo, kind_id), (value, fine_id) in sorted(values.items(), key=lambda item: item[0]):
        kind = past.catalogue.by_id[kind_id]
        if value is not None and not kind.removed:
            # The photos of a removed class keep their labels, but cannot name the class.
            label = names[fine_id][2] if fine_id is not None and not names[fine_id][3] else None
            labels.append(PhotoLabel(photo, label, kind.name, kind.value(value)))
    return labels


def read_answers(connection: Connection, catalogue: Catalogue, version: int | None = None) -> list[PairAnswer]:
    """All comparisons, now or at an earlier version, kind by kind, without those of removed classes and kinds."""
    past = Past.read(connection, catalogue, version)
    names = {number: name for number, (_, _, name, removed) in past.fine(connection).items() if not removed}
    rows: dict[tuple[int, str], tuple[Snapshot, int]] = {}
    for row in connection.execute(sa.select(comparisons)):
        rows[row.kind_id, row.pair] = comparison_snapshot(row), row.version
    for key, snapshot in past.snapshots.items():
        if key.target == "comparison" and key.kind_id is not None and key.photo is not None:
            rows[key.kind_id, key.photo] = snapshot, 0
    answers = []
    for (kind_id, pair), (snapshot, number) in rows.items():
        kind = past.catalogue.by_id[kind_id]
        if snapshot["value"] is not None and not kind.removed:
            answer = _answer(kind, pair, snapshot, number, names)
            if answer is not None:
                answers.append((kind.position, answer))
    answers.sort(key=lambda entry: (entry[0], entry[1].photos, entry[1].one, entry[1].two, entry[1].person))
    return [answer for _, answer in answers]


def _answer(
    kind: KindEntry, pair: str, snapshot: Snapshot, version: int, names: Mapping[int, str]
) -> PairAnswer | None:
    """One comparison with current names; None if one of its classes was removed."""
    person, *things = parse_pair(pair)
    if any(isinstance(thing, int) and thing not in names for thing in things):
        return None
    one, two = (thing if isinstance(thing, str) else names[thing] for thing in things)
    return PairAnswer(
        kind=kind.name,
        one=one,
        two=two,
        outcome=snapshot["value"],
        person=person,
        at=snapshot["at"] or "",
        photos=isinstance(things[0], str),
        one_class=names.get(snapshot.get("one") or 0),
        two_class=names.get(snapshot.get("two") or 0),
        version=version,
    )


def as_comparisons(answers: Iterable[PairAnswer]) -> list[Comparison]:
    """Answers in the form of a file of comparisons, without skipped ones."""
    listed = []
    for answer in answers:
        if answer.outcome != "skip":
            more, less = (answer.two, answer.one) if answer.outcome == "less" else (answer.one, answer.two)
            listed.append(Comparison(answer.kind, more, less, answer.person, answer.outcome == "same", answer.photos))
    return listed
