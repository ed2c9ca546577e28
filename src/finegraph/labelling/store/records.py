"""The answers of the store: plain frozen dataclasses with a JSON form (`to_dict`).

The value of a cell has one form everywhere, in Python, in JSON and on the page:

    None                              unknown
    "tofu"                            one label ("yes" and "no" of a binary kind)
    {"one_of": ["a", "b"]}            one of several, equally likely
    {"weights": {"a": 0.7, "b": 0.3}} one of several, with weights
    {"all_of": ["tofu", "pork"]}      all of them; an empty list: known, none of them
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

CellValue = str | dict[str, Any] | None
Mode = Literal["one", "all"]
Target = Literal["cell", "fine", "kind", "label", "note", "photo", "comparison", "graph"]
Outcome = Literal["more", "less", "same", "skip"]
"""What a person says of two things: the first has more, less, the same, or nobody can tell."""


class Record:
    """A dataclass that JSON can hold."""

    def to_dict(self) -> dict[str, Any]:
        """The record as plain JSON data."""
        return {item.name: _plain(getattr(self, item.name)) for item in fields(self)}  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):  # most values; testing for a Mapping takes far longer
        return value
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


@dataclass(frozen=True, kw_only=True)
class KindInfo(Record):
    """A kind: its name, whether cells name one label or all that hold, its labels in order, and its version.

    Attributes:
        number: the number, which stays when the kind is renamed.
        label_numbers: the number of each label, likewise.
        comparable: whether one class can have more of it than another.
    """

    number: int
    name: str
    mode: Mode
    binary: bool
    unknown_prior: str
    labels: tuple[str, ...]
    label_numbers: tuple[int, ...]
    version: int
    comparable: bool = False


@dataclass(frozen=True, kw_only=True)
class CellState(Record):
    """The facts about one cell.

    Attributes:
        fine: the fine label; for photo labels the key of the photo.
        kind: the kind.
        value: the current value; see the module.
        text: the value as it stands in graph files.
        version: the number of the last edit; 0 if it was never edited since the first import.
        by: the person who made the current value.
        at: when.
        votes: the decision of each person.
        disagreement: whether people decided differently and it is not settled.
        resolved: whether a disagreement was settled.
        confidence: the model's mean probability of the current value, if a model was asked.
    """

    fine: str
    kind: str
    value: CellValue
    text: str
    version: int = 0
    by: str | None = None
    at: str | None = None
    votes: dict[str, CellValue]
    disagreement: bool = False
    resolved: bool = False
    confidence: float | None = None


@dataclass(frozen=True, kw_only=True)
class ClassRow(Record):
    """One fine label with its note and its cells by kind; its number stays when it is renamed."""

    number: int
    fine: str
    position: int
    version: int
    note: str
    note_version: int
    cells: dict[str, CellState]
    removed: bool = False


@dataclass(frozen=True, kw_only=True)
class ClassPage(Record):
    """A page of the classes that match a query: there are `total`, these begin at `offset`."""

    rows: tuple[ClassRow, ...]
    total: int
    offset: int
    version: int


@dataclass(frozen=True, kw_only=True)
class Edit(Record):
    """One line of the log.

    Attributes:
        number: its place in the log; the version of what it changed.
        batch: the action that it belongs to.
        action: what was done, such as `decide` or `merge_labels`.
        person: the name of the person.
        at: when.
        target: what was changed.
        fine: the fine label, by its present name.
        kind: the kind, likewise.
        label: the label, likewise.
        photo: the photo.
        before: the value before; of cells as everywhere, else names or text.
        after: the value after.
        text: a sentence.
        undoes: the edit that it undid.
        undone: whether it is undone now.
    """

    number: int
    batch: int
    action: str
    person: str
    at: str
    target: Target
    fine: str | None
    kind: str | None
    label: str | None
    photo: str | None
    before: Any
    after: Any
    text: str
    undoes: int | None
    undone: bool


@dataclass(frozen=True, kw_only=True)
class Batch(Record):
    """One action: one or many edits that are undone together.

    Attributes:
        number: its number.
        action: what was done.
        person: the name of the person.
        at: when.
        count: how many edits it has.
        text: a sentence.
        undoes: the action that it undid as a whole or in part.
        undone: whether all of it is undone now.
        can_undo: whether it can be undone.
        is_undo: whether undoing it would be a redo; False for the undo of an undo.
        version: the version of the store after it.
    """

    number: int
    action: str
    person: str
    at: str
    count: int
    text: str
    undoes: int | None
    undone: bool
    can_undo: bool
    is_undo: bool
    version: int


@dataclass(frozen=True, kw_only=True)
class EditResult(Record):
    """What an acknowledged action did; it is on the disk.

    Attributes:
        batch: its number.
        edits: how many things it changed.
        version: the version of the store that it made.
        person: the name of the person.
        at: when.
        action: what was done.
        text: a sentence.
        cells: the cells it changed as they were right after it; at most 1,000.
        note_version: the version of the note, if it changed one.
        repeated: whether this was the answer to a repeated call; nothing was done again.
    """

    batch: int
    edits: int
    version: int
    person: str
    at: str
    action: str
    text: str
    cells: tuple[CellState, ...]
    note_version: int | None = None
    repeated: bool = False


@dataclass(frozen=True, kw_only=True)
class Numbers(Record):
    """The numbers behind names: of the class, the kind and the labels of a value.

    They hold after a rename: as long as a number exists, it counts instead of the name.
    """

    fine: int | None = None
    kind: int | None = None
    labels: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PairNumbers(Record):
    """The numbers behind the names of a comparison: of the kind and of two classes; see `Numbers`.

    For two photos, `one` and `two` are their classes, if these are known.
    """

    kind: int | None = None
    one: int | None = None
    two: int | None = None


@dataclass(frozen=True, kw_only=True)
class PairAnswer(Record):
    """What one person said of two things.

    Attributes:
        kind: what was compared.
        one: the first thing: a class, or the key of a photo.
        two: the second.
        outcome: what holds of the first.
        person: who said so.
        at: when.
        photos: whether they are photos.
        one_class: the class of the first; None for a photo whose class is unknown.
        two_class: the class of the second.
        version: the number of the last edit.
    """

    kind: str
    one: str
    two: str
    outcome: Outcome
    person: str
    at: str
    photos: bool
    one_class: str | None
    two_class: str | None
    version: int


@dataclass(frozen=True, kw_only=True)
class Decision(Record):
    """A decision: the cell, its value, the version that the person saw, and the numbers behind the names."""

    fine: str
    kind: str
    value: CellValue
    seen: int | None
    numbers: Numbers | None = None

    def to_dict(self) -> dict[str, Any]:
        """The decision as plain JSON data."""
        plain = super().to_dict()
        if self.numbers is None:  # left out, so that the digests by which repeated decisions are recognised stay valid
            del plain["numbers"]
        return plain


@dataclass(frozen=True, kw_only=True)
class Conflict(Record):
    """A change by somebody else: both values, the person, and the current version."""

    what: str
    fine: str | None = None
    kind: str | None = None
    label: str | None = None
    photo: str | None = None
    yours: Any = None
    theirs: Any = None
    version: int = 0
    by: str | None = None
    at: str | None = None


@dataclass(frozen=True, kw_only=True)
class ExampleChange(Record):
    """A cell that a change of the structure would change."""

    fine: str
    kind: str
    before: CellValue
    after: CellValue


@dataclass(frozen=True, kw_only=True)
class Preview(Record):
    """What a change of the structure would do.

    Attributes:
        text: a sentence.
        cells: how many cells would change.
        examples: the first of them.
        warnings: what would be lost or is doubtful.
        digest: identifies exactly these changes.
    """

    text: str
    cells: int
    examples: tuple[ExampleChange, ...]
    warnings: tuple[str, ...]
    digest: str


@dataclass(frozen=True, kw_only=True)
class LiveFinding(Record):
    """A finding of the graph check in the live state, and all classes, the kind and the label that it concerns."""

    rule: str
    severity: str
    message: str
    hint: str | None
    kind: str | None
    fine: tuple[str, ...]
    label: str | None


@dataclass(frozen=True, kw_only=True)
class Change(Record):
    """One difference between two states."""

    what: str
    fine: str | None = None
    kind: str | None = None
    label: str | None = None
    before: Any = None
    after: Any = None
    text: str


@dataclass(frozen=True, kw_only=True)
class Diff(Record):
    """All differences between two states, and how many there are of each sort."""

    changes: tuple[Change, ...]
    counts: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class ImportPreview(Diff):
    """What importing a file would change; `digest` identifies exactly these changes."""

    digest: str


@dataclass(frozen=True)
class PhotoLabel:
    """The label of one photo in one kind, and the class of the photo if it is known."""

    photo: str
    fine: str | None
    kind: str
    value: CellValue


@dataclass(frozen=True, kw_only=True)
class Suggestion(Record):
    """A value for a cell that somebody may accept.

    Attributes:
        number: its number, by which it is accepted.
        fine: the fine label.
        kind: the kind.
        value: what is suggested.
        text: the same as it stands in graph files.
        source: `model`, `similar` or `name`.
        score: how sure it is, 0 to 1.
        reason: why, in a sentence.
        contradicts: whether the cell has another value now.
        current: the value of the cell now.
        seen: the version of the cell now.
    """

    number: int
    fine: str
    kind: str
    value: CellValue
    text: str
    source: str
    score: float
    reason: str
    contradicts: bool
    current: CellValue
    seen: int


@dataclass(frozen=True, kw_only=True)
class SuggestionPage(Record):
    """Some suggestions of `total`."""

    rows: tuple[Suggestion, ...]
    total: int


@dataclass(frozen=True, kw_only=True)
class KindProgress(Record):
    """The progress of a kind."""

    kind: str
    known: int
    unknown: int
    total: int
    disagreements: int
    low_confidence: int


@dataclass(frozen=True, kw_only=True)
class PersonProgress(Record):
    """What a person has decided: cells and comparisons in all, today, and by kind."""

    person: str
    decisions: int
    today: int
    kinds: dict[str, int]
    last: str | None


@dataclass(frozen=True, kw_only=True)
class Progress(Record):
    """The progress of the labelling, by kind and by person."""

    kinds: tuple[KindProgress, ...]
    people: tuple[PersonProgress, ...]
    classes: int
