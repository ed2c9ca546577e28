"""Every error that finegraph raises on purpose.

    FinegraphError                  catch this one to catch them all
    ├── InputError                  an argument is wrong (also a ValueError)
    │   ├── ShapeError              a tensor or array has the wrong shape or size
    │   ├── UnknownNameError        a kind or a label that the graph does not have
    │   ├── TargetError             a training target outside the graph
    │   ├── SettingsError           a setting of a run that is wrong, or that may not change when it is resumed
    │   └── EvidenceError           evidence that cannot be used, or that has probability 0
    ├── GraphError                  the labels and how they relate (also a ValueError)
    │   ├── EmptyGraphError         a graph without fine labels
    │   ├── SeveralParentsError     an operation that needs one parent per fine label met a kind with several
    │   ├── GraphFileError          a graph file with faults; `.faults` lists all of them
    │   └── GraphMismatchError      weights made for another graph
    ├── DataError                   photos and the files that list them (also a ValueError)
    │   ├── DataFileError           a source of samples with faults; `.faults` lists all of them
    │   └── PhotoFileError          a photo that cannot be read; `.path` and `.reason`
    │       └── PhotoTooLargeError  a photo with more pixels than may be decoded; `.pixels`
    ├── WeightsError                a weight file that cannot be read or is of another network
    ├── CheckpointError             a checkpoint that cannot be saved, or that is damaged (`.damaged`) or cannot be read
    ├── RunFolderError              a run folder that is taken, missing, in use, or cannot be written
    ├── ModelFolderError            a model folder that is damaged, of another version, or may not be written
    │   └── LessonError             the lessons of a model cannot be kept or are damaged; `.reason`
    ├── IndexFolderError            a search index that is missing, damaged, in use, or of another model
    ├── SearchEngineError           the server that holds the photos of an index cannot be reached or refuses
    ├── ExportError                 an exported file that cannot be made or written, or that answers differently
    ├── NonFiniteError              training met NaN or infinity; names the step, the layer and the photos
    ├── LabelStoreError             a store of label decisions that cannot be opened, is of another version or in use
    │   ├── DamagedStoreError       a store that is not as it was written; `.damage` lists what
    │   └── NoRoomError             the disk of the store is full
    ├── ConflictError               an edit of something that somebody else changed; `.conflicts` has both values
    ├── JobError                    another process of a job of several ended, or they do not agree
    └── MissingExtraError           an optional dependency is not installed (also an ImportError)

Messages say what was expected, what came, and what to do. They never dump tensors and never mention command-line flags.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, Protocol


class FinegraphError(Exception):
    """The root of all errors that finegraph raises on purpose."""


class InputError(FinegraphError, ValueError):
    """An argument is wrong."""


class ShapeError(InputError):
    """A tensor or array has the wrong shape or size."""


class UnknownNameError(InputError):
    """A kind or a label that the graph does not have."""


class TargetError(InputError):
    """A training target outside the graph."""


class SettingsError(InputError):
    """A setting of a run that is wrong, or that may not change when the run is resumed."""


class EvidenceError(InputError):
    """Evidence that cannot be used, or that has probability 0."""


class GraphError(FinegraphError, ValueError):
    """The labels and how they relate are wrong."""


class EmptyGraphError(GraphError):
    """A graph without fine labels."""


class SeveralParentsError(GraphError):
    """An operation that needs one parent per fine label met a kind with several."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One finding in a graph, a graph file or a source of photos.

    Attributes:
        rule: a short stable name of the fault, such as `duplicate-fine`.
        message: what is wrong and why.
        line: the line of the file, counted from 1.
        column: the name of the column or kind; in a JSON file the place, such as `kinds[2].parents[17]`.
        value: what stands there; a long one is cut.
        hint: what to do, such as a name that was probably meant.
        severity: an `error` keeps the graph from being read; a `warning` is legal but doubtful.
    """

    rule: str
    message: str
    line: int | None = None
    column: str | None = None
    value: str | None = None
    hint: str | None = None
    severity: Literal["error", "warning"] = "error"

    def text(self, path: str = "") -> str:
        """The finding on one line, as compilers print theirs."""
        place = path if self.line is None else f"{path}:{self.line}" if path else f"line {self.line}"
        parts = [place] if place else []
        if self.severity == "warning":
            parts.append("warning")
        if self.column is not None:
            parts.append(f"column {self.column!r}")
        if self.value is not None:
            parts.append(f"value {self.value!r}")
        return ": ".join([*parts, self.message]) + (f"; {self.hint}" if self.hint else "")


class GraphFileError(GraphError):
    """A graph file with faults. All of them are in `faults`, in the order of the file."""

    def __init__(self, message: str, faults: Sequence[Fault] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults)


class GraphMismatchError(GraphError):
    """Weights made for another graph."""


class DataError(FinegraphError, ValueError):
    """Photos, or the files that list them, are wrong."""


class DataFileError(DataError):
    """A source of samples with faults. All of them are in `faults`, file by file."""

    def __init__(self, message: str, faults: Sequence[Fault] = ()) -> None:
        super().__init__(message)
        self.faults = tuple(faults)


class PhotoFileError(DataError):
    """A photo that cannot be read.

    Attributes:
        path: the file.
        reason: why it cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str], reason: str | None = None) -> None:
        # With one argument it is the whole text: so data loaders make an error of a worker process again.
        self.path = os.fspath(path)
        self.reason = self.path if reason is None else reason
        super().__init__(self.path if reason is None else f"{self.path}: {reason}")

    def __reduce__(self) -> tuple[type[PhotoFileError], tuple[str, str | None]]:
        return PhotoFileError, (self.path, None if self.reason == self.path else self.reason)


class PhotoTooLargeError(PhotoFileError):
    """A photo with more pixels than may be decoded, as its header says.

    Attributes:
        pixels: how many it has.
    """

    def __init__(self, path: str | os.PathLike[str], reason: str, pixels: int) -> None:
        super().__init__(path, reason)
        self.pixels = pixels


ImageFileError, ImageTooLargeError = PhotoFileError, PhotoTooLargeError
"""The former names."""


class WeightsError(FinegraphError):
    """A weight file that cannot be read, or that is of another network."""


class CheckpointError(FinegraphError):
    """A checkpoint that cannot be saved, or that is damaged or cannot be read.

    Attributes:
        damaged: whether what was saved is no longer there as it was saved: cut, altered or lost. An earlier checkpoint
            can take its place then.
    """

    def __init__(self, message: str, *, damaged: bool = False) -> None:
        super().__init__(message)
        self.damaged = damaged


class RunFolderError(FinegraphError):
    """A run folder that is taken, missing, in use by another process, or cannot be written."""


class ModelFolderError(FinegraphError):
    """A model folder that cannot be read, is damaged or of another version, or that may not be written."""


class LessonError(ModelFolderError):
    """The lessons of a model cannot be read or written, or are damaged.

    Attributes:
        reason: what is wrong, without the place.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class IndexFolderError(FinegraphError):
    """A search index that is missing, damaged, of another version, in use, or made with another model."""


class SearchEngineError(FinegraphError):
    """The server that holds the photos of an index cannot be reached, or refuses what it is asked."""


class ExportError(FinegraphError):
    """An exported file that cannot be made or written, or whose answers are not those of the model."""


class NonFiniteError(FinegraphError):
    """Training met NaN or infinity."""


class LabelStoreError(FinegraphError):
    """A store of label decisions that cannot be opened, is of another version, in use, or did not answer in time."""


class DamagedStoreError(LabelStoreError):
    """A store that is not as it was written.

    Attributes:
        damage: what is damaged, a sentence for each.
    """

    def __init__(self, message: str, damage: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.damage = tuple(damage)


class NoRoomError(LabelStoreError):
    """The disk of the store is full. Nothing was changed, and nothing that was acknowledged is lost."""


class Conflict(Protocol):
    """Something that somebody else has changed since it was read, with both values."""

    @property
    def what(self) -> str:
        """What it is: a cell, a note, a photo label, a preview."""

    @property
    def fine(self) -> str | None:
        """The fine label that it is of."""

    @property
    def kind(self) -> str | None:
        """The kind that it is of."""

    @property
    def photo(self) -> str | None:
        """The photo that it is of."""

    @property
    def yours(self) -> Any:
        """The value that was asked for."""

    @property
    def theirs(self) -> Any:
        """The value that is there now."""

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON data."""


class ConflictError(FinegraphError):
    """An edit of something that somebody else has changed since it was read. Nothing was changed.

    Attributes:
        conflicts: what was changed, with both values.
    """

    def __init__(self, message: str, conflicts: Sequence[Conflict] = ()) -> None:
        super().__init__(message)
        self.conflicts = tuple(conflicts)


class JobError(FinegraphError):
    """Another process of a job of several ended or cannot be reached, or they do not agree on what to do."""


class MissingExtraError(FinegraphError, ImportError):
    """An optional dependency is not installed."""


def near_matches(name: str, choices: Iterable[str], max_count: int = 3) -> list[str]:
    """The choices that look most like `name`, the nearest first; case and white space count little."""
    by_fold: dict[str, str] = {}
    for choice in choices:
        by_fold.setdefault(" ".join(choice.casefold().split()), choice)
    found = get_close_matches(" ".join(name.casefold().split()), by_fold, n=max_count, cutoff=0.7)
    return [by_fold[fold] for fold in found]


def near_paths(path: str | os.PathLike[str]) -> str:
    """What may have been meant by a path that is not there, as the end of a sentence; empty if nothing is near."""
    folder, name = os.path.split(os.fspath(path).rstrip(os.sep))
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return f"; the folder {folder!r} does not exist either" if not os.path.exists(folder) else ""
    near = near_matches(name, names)
    return "; did you mean " + " or ".join(repr(os.path.join(folder, match)) for match in near) + "?" if near else ""


def unknown_name(what: str, name: object, choices: Sequence[str], where: str = "") -> UnknownNameError:
    """The error for a name that is none of `choices`, with at most three near matches."""
    place = f" {where}" if where else ""
    near = near_matches(name, choices) if isinstance(name, str) else []
    if near:
        hint = "did you mean " + " or ".join(repr(match) for match in near) + "?"
    elif len(choices) <= 8:
        hint = "there are: " + ", ".join(repr(choice) for choice in choices) if choices else "there are none"
    else:
        hint = f"there are {len(choices)}, the first is {choices[0]!r}"
    return UnknownNameError(f"unknown {what} {name!r}{place}; {hint}")


def refuse_unknown(noun: str, given: Iterable[str], known: Sequence[str], where: str = "") -> None:
    """Raise if a name that is given is not among those that are known; `noun` and `where` as for `unknown_name`."""
    for name in given:
        if name not in known:
            raise unknown_name(noun, name, known, where)
