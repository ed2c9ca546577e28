"""The plan of an action: for each thing that it changes, a snapshot before and a snapshot after.

A snapshot is a small dict of the row:

    cell   value, by, at, resolved, disagreement, votes (only those that the action changes; False: no vote)
    fine   name, position, removed              kind   name, position, mode, prior, removed
    label  name, position, removed              note   text, by, at            photo  value, fine, by, at
    comparison  value, one, two, at

An action touches each thing once. So its undo is the same plan with the snapshots swapped.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from finegraph.labelling.store.records import Target
from finegraph.labelling.store.values import dump

Snapshot = dict[str, Any]
NO_VOTE = False
_PERSON_AND_TIME = frozenset({"by", "at", "disagreement"})


class Key(NamedTuple):
    """One thing that can be edited. For a comparison, `photo` holds its text; see `pair_text`."""

    target: Target
    fine_id: int | None = None
    kind_id: int | None = None
    label_id: int | None = None
    photo: str | None = None


@dataclass(frozen=True)
class Planned:
    """One edit to come.

    Attributes:
        key: what it changes.
        before: the snapshot before; None if there was nothing.
        after: the snapshot after.
        undoes: the edit that it undoes, if it is an undo.
        redoes: the edit that this edit restores, if it undoes an undo.
    """

    key: Key
    before: Snapshot | None
    after: Snapshot | None
    undoes: int | None = None
    redoes: int | None = None


@dataclass
class Plan:
    """All edits of an action.

    Attributes:
        text: the action in a sentence.
        changes: the edits by key, in order.
        warnings: what would be lost or is doubtful.
        undoes: the action that it undoes, wholly or in part.
        votes: all votes on a cell before, where planning has read them, so that they are not read again.
        names: the names of classes, where planning has read them.
    """

    text: str
    changes: dict[Key, Planned] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    undoes: int | None = None
    votes: dict[Key, dict[str, str | None]] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    def add(
        self,
        key: Key,
        before: Snapshot | None,
        after: Snapshot | None,
        *,
        undoes: int | None = None,
        redoes: int | None = None,
    ) -> None:
        """Add an edit."""
        assert key not in self.changes, "an action touches each thing once"
        self.changes[key] = Planned(key, before, after, undoes, redoes)

    def put(self, key: Key, before: Snapshot | None, after: Snapshot | None) -> None:
        """Add an edit, or replace the one that is already planned for the key."""
        self.changes[key] = Planned(key, before, after)

    def of(self, *targets: Target) -> list[Planned]:
        """The edits of things of the given types."""
        return [change for change in self.changes.values() if change.key.target in targets]

    @property
    def digest(self) -> str:
        """A fingerprint of the changes, without person and time."""
        digest = hashlib.sha256()
        for key, change in sorted(self.changes.items(), key=lambda item: dump(item[0])):
            digest.update(
                dump([key, without_person_and_time(change.before), without_person_and_time(change.after)]).encode()
            )
        return digest.hexdigest()


def without_person_and_time(snapshot: Snapshot | None) -> Snapshot | None:
    """A snapshot without person, time, and what follows from the votes."""
    if snapshot is None:
        return None
    return {name: value for name, value in sorted(snapshot.items()) if name not in _PERSON_AND_TIME}
