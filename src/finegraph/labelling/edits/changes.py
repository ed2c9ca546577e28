"""Changes of the structure: of classes, kinds and labels.

Each is a small dataclass with the name of the action. `change_from_dict` reads the JSON form,
`{"change": "rename_label", "kind": "dish", "name": "ramen", "to": "ramen soup"}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, get_args

from finegraph.errors import InputError, refuse_unknown, unknown_name
from finegraph.labelling.store.records import Mode, Record


@dataclass(frozen=True, kw_only=True)
class AddFine(Record):
    """Adds a class at the end."""

    name: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class RenameFine(Record):
    """Renames a class."""

    name: str
    to: str


@dataclass(frozen=True, kw_only=True)
class RemoveFine(Record):
    """Removes a class; undo brings it back with its cells."""

    name: str


@dataclass(frozen=True, kw_only=True)
class AddKind(Record):
    """Adds a kind with its labels; its mode is `all` if several labels can hold at once.

    Its type is `ordered` if the labels are in rising order, or that of a column of numbers in a graph file: `number`,
    `log number`, `number, EUR`. The labels of numbers are values, and there need not be any.
    """

    name: str
    labels: tuple[str, ...]
    mode: Mode = "one"
    type: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The change as plain JSON data."""
        plain = super().to_dict()
        if not self.type:  # left out, so that the digests by which repeated changes are recognised stay valid
            del plain["type"]
        return plain


@dataclass(frozen=True, kw_only=True)
class RenameKind(Record):
    """Renames a kind."""

    name: str
    to: str


@dataclass(frozen=True, kw_only=True)
class RemoveKind(Record):
    """Removes a kind; undo brings it back with its cells."""

    name: str


@dataclass(frozen=True, kw_only=True)
class MergeKinds(Record):
    """Merges several kinds into one: labels of the same name become one label, cells are combined."""

    kinds: tuple[str, ...]
    into: str


@dataclass(frozen=True, kw_only=True)
class SplitKind(Record):
    """Moves labels of a kind to new kinds; the kind is removed if no label is left."""

    name: str
    into: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class AddLabel(Record):
    """Adds a label to a kind, at the end."""

    kind: str
    name: str


@dataclass(frozen=True, kw_only=True)
class RenameLabel(Record):
    """Renames a label."""

    kind: str
    name: str
    to: str


@dataclass(frozen=True, kw_only=True)
class RemoveLabel(Record):
    """Removes a label; cells that name nothing else become unknown."""

    kind: str
    name: str


@dataclass(frozen=True, kw_only=True)
class MergeLabels(Record):
    """Merges several labels of a kind into one, which may be one of them or new."""

    kind: str
    labels: tuple[str, ...]
    into: str


@dataclass(frozen=True, kw_only=True)
class SplitLabel(Record):
    """Gives classes with a label more specific ones; classes that are not named keep it."""

    kind: str
    name: str
    into: Mapping[str, tuple[str, ...]]


StructureChange = (
    AddFine
    | RenameFine
    | RemoveFine
    | AddKind
    | RenameKind
    | RemoveKind
    | MergeKinds
    | SplitKind
    | AddLabel
    | RenameLabel
    | RemoveLabel
    | MergeLabels
    | SplitLabel
)


def change_name(change: StructureChange) -> str:
    """The name of the action, such as `rename_label`."""
    return _name_of(type(change))


def _name_of(change_type: type[Any]) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", change_type.__name__).lower()


CHANGES: dict[str, type[StructureChange]] = {_name_of(form): form for form in get_args(StructureChange)}


def change_from_dict(content: Mapping[str, Any]) -> StructureChange:
    """A change from its JSON form.

    Raises:
        InputError: an unknown change, or fields that are missing, unknown or of the wrong type.
    """
    name = content.get("change")
    if not isinstance(name, str) or name not in CHANGES:
        raise unknown_name("change", name, tuple(CHANGES))
    change_type = CHANGES[name]
    known = {field.name: field for field in fields(change_type)}
    given = {key: value for key, value in content.items() if key != "change"}
    refuse_unknown("field", given, tuple(known), f"of {name}")
    for key, field in known.items():
        if key not in given and field.default is MISSING:
            raise InputError(f"{name}: the field {key!r} is missing")
    return change_type(**{key: _checked_field(name, key, value) for key, value in given.items()})


def _checked_field(change: str, key: str, value: Any) -> Any:
    """A field of the right type: text, a list of texts, or lists of texts by name."""
    if key == "mode":
        if value not in ("one", "all"):
            raise InputError(f"{change}: mode is 'one' or 'all', got {value!r}")
        return value
    if key in ("labels", "kinds"):
        return _texts(change, key, value)
    if key == "into" and change in ("split_kind", "split_label"):
        if not isinstance(value, Mapping):
            raise InputError(f"{change}: 'into' must give a list by new name, got {type(value).__name__}")
        if not value:
            what = "class" if change == "split_label" else "label"
            raise InputError(f"splitting: give at least one {what} to a new name")
        return {name: _texts(change, key, names) for name, names in value.items()}
    if not isinstance(value, str):
        raise InputError(f"{change}: {key!r} must be text, got {type(value).__name__}")
    return value


def _texts(change: str, key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise InputError(f"{change}: {key!r} must be a list of names, got {type(value).__name__}")
    return tuple(value)
