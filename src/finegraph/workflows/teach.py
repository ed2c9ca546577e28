"""Teaching a trained model by example, and taking lessons back."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from finegraph.data.photo_decoding import open_photo
from finegraph.errors import DataError, InputError, near_matches, unknown_name
from finegraph.graph import LabelGraph
from finegraph.graph.kind_columns import GROUP_SEPARATOR
from finegraph.graph.number_cells import number_cell
from finegraph.model import PhotoClassifier
from finegraph.model.teaching.answer_changes import AnswerChange, answer_changes
from finegraph.model.teaching.lesson import Lesson
from finegraph.model.teaching.taught_photos import photo_digest, taught_photos
from finegraph.nn import BipartiteHead, SoftmaxHead
from finegraph.workflows.labels.labelled_list import LabelledRow, read_labelled_list
from finegraph.workflows.predict import photos_of

_AT_ONCE = 32
"""How many photos of a list go through the network before their lessons are kept."""


@dataclass(frozen=True, kw_only=True)
class TeachResult:
    """What a lesson did.

    Attributes:
        lesson: what was taught, or taken back.
        new_labels: by kind, the coarse labels that came with it; `fine` for the label itself.
        changes: how the answers to its photos changed.
        repeated: whether it had been taught, or taken back, before, so that nothing changed now.
        near: by kind, for each new coarse label the known ones that look like it: it may be one of them, misspelt.
    """

    lesson: Lesson
    new_labels: dict[str, tuple[str, ...]]
    changes: tuple[AnswerChange, ...]
    repeated: bool = False
    near: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON data."""
        return {
            "lesson": self.lesson.to_dict(),
            "new_labels": {kind: list(labels) for kind, labels in self.new_labels.items()},
            "changes": [change.to_dict() for change in self.changes],
            "repeated": self.repeated,
            "near": {
                kind: {label: list(known) for label, known in labels.items()} for kind, labels in self.near.items()
            },
        }


def teach_photos(
    model: str | os.PathLike[str],
    label: str,
    photos: Sequence[str | os.PathLike[str]] = (),
    *,
    parents: Sequence[str] = (),
    new: bool = False,
    person: str = "",
    lesson_id: str | None = None,
) -> TeachResult:
    """Teach a model what photos show; the lesson is kept in its folder.

    Args:
        model: a model folder or a run folder.
        label: the fine label.
        photos: files; of a folder, all photos in it are taken. None for a new label without a photo yet.
        parents: the coarse labels of a new label, as `kind=label`, and values of its numbers; see `parse_parents`.
        new: whether the label may be new although nothing is known of its coarse labels.
        person: the name of the person who teaches.
        lesson_id: see `PhotoClassifier.teach`.

    Raises:
        ModelFolderError: there is no model, or it is damaged.
        InputError: the model cannot be taught this, or knows a label that is said to be new.
        DataError: a photo that cannot be read.
        LessonError: the lesson cannot be kept.
    """
    files = photos_of(photos) if photos else []
    for file in files:  # a slip of the pen shows at once, not after the photos before it
        open_photo(file).close()
    classifier = PhotoClassifier.load(model)
    if new and label in classifier.graph.fine:
        raise InputError(
            f"label {label!r}: the model knows it already; leave --new out, or give the new label a new name"
        )
    row = parse_parents(classifier.graph, parents) if parents or new else None
    before = ModelState.of(classifier)
    lesson = classifier.teach(label, files, parents=row, person=person, lesson_id=lesson_id)
    return taught(classifier, lesson, before)


@dataclass(frozen=True, kw_only=True)
class TaughtList:
    """What became of the rows of a list.

    Attributes:
        lessons: what was taught now, one lesson per photo.
        known: how many rows the model was taught before.
        open: how many rows have no label yet.
    """

    lessons: tuple[Lesson, ...]
    known: int
    open: int

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON data."""
        lessons = [lesson.to_dict() for lesson in self.lessons]
        return {"lessons": lessons, "known": self.known, "open": self.open}


def teach_list(
    model: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    person: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> TaughtList:
    """Teach a model all rows of a list that have a label; see `read_labelled_list` for the file.

    Each photo is a lesson of its own. A photo that the model was taught with this label, by its last lesson, is not
    taught again: what was interrupted continues where it stopped.

    Args:
        model: a model folder or a run folder.
        path: a CSV file with columns `path` and `label`.
        person: the name of the person who teaches.
        progress: called with how many of how many photos are done.

    Raises:
        ModelFolderError: there is no model, or it is damaged.
        InputError: the model cannot be taught.
        DataFileError: all faults of the file at once; nothing was taught.
        LessonError: a lesson cannot be kept; those before it are.
    """
    classifier = PhotoClassifier.load(model)
    teaching = classifier.teaching
    listed = read_labelled_list(path, classifier.graph)
    if not listed.rows:
        raise DataError(f"{os.fspath(path)}: expected rows with a label, got none; fill in the column label")
    last = {photo.sha256: one.label for one in classifier.lessons if not one.forgotten for photo in one.photos}
    todo: dict[str, LabelledRow] = {}
    for row in listed.rows:
        digest = photo_digest(row.photo)
        if last.get(digest) != row.label:
            todo[digest] = row
    rows, lessons = list(todo.values()), []
    for start in range(0, len(rows), _AT_ONCE):
        some = rows[start : start + _AT_ONCE]
        photos = taught_photos(classifier.current_pipeline(), [row.photo for row in some], teaching.statistics.views)
        for row, photo in zip(some, photos, strict=True):
            kept = classifier.keep_lesson(row.label, [photo], person=person, lesson_id=secrets.token_hex(8))
            lessons.append(kept)
            if progress is not None:
                progress(len(lessons), len(rows))
    return TaughtList(lessons=tuple(lessons), known=len(listed.rows) - len(rows), open=listed.open)


def forget_lesson(model: str | os.PathLike[str], lesson_id: str, *, person: str = "") -> TeachResult:
    """Take a lesson back.

    Args:
        model: a model folder or a run folder.
        lesson_id: of the lesson.
        person: the name of the person who takes it back.

    Raises:
        ModelFolderError: there is no model, or it is damaged.
        UnknownNameError: there is no such lesson.
        InputError: the model cannot be taught.
        LessonError: it cannot be written down.
    """
    classifier = PhotoClassifier.load(model)
    before = ModelState.of(classifier)
    return taught(classifier, classifier.forget(lesson_id, person=person), before)


def list_lessons(model: str | os.PathLike[str]) -> tuple[Lesson, ...]:
    """The lessons of a model, in order, also those that were forgotten."""
    classifier = PhotoClassifier.load(model)
    return classifier.teaching.lessons


@dataclass(frozen=True)
class ModelState:
    """What a classifier is before a lesson."""

    head: BipartiteHead | SoftmaxHead
    graph: LabelGraph
    lessons: tuple[Lesson, ...]

    @classmethod
    def of(cls, classifier: PhotoClassifier) -> ModelState:
        """The state that it is in now."""
        return cls(classifier.network.head, classifier.graph, classifier.lessons)


def taught(classifier: PhotoClassifier, lesson: Lesson, before: ModelState) -> TeachResult:
    """What a lesson did to a classifier that was in another state before."""
    now, graph = classifier.graph, before.graph
    fine = tuple(label for label in now.fine[len(graph) :] if label not in graph.fine) if now != graph else ()
    new = {"fine": fine} if fine else {}
    for kind in now.kinds if now != graph else ():
        if labels := tuple(new_label for new_label in now.labels(kind) if new_label not in graph.labels(kind)):
            new[kind] = labels
    near = {
        kind: {label: tuple(found) for label in labels if (found := near_matches(label, graph.labels(kind)))}
        for kind, labels in new.items()
        if kind != "fine"
    }
    near = {kind: found for kind, found in near.items() if found}
    repeated = any((known.id, known.forgotten) == (lesson.id, lesson.forgotten) for known in before.lessons)
    changes = answer_changes(lesson, before.head, classifier.network.head, classifier.temperature)
    return TeachResult(lesson=lesson, new_labels=new, changes=tuple(changes), repeated=repeated, near=near)


def parse_parents(graph: LabelGraph, texts: Sequence[str]) -> dict[str, object]:
    """The coarse labels and values of a fine label, from texts like `dish=ramen` and `price=12.5`.

    A label may be new. The same kind several times means one of its labels; of a group, such as ingredients, all of
    them. A value is written as in graph files: `12.5`, `12.5 +- 1.5` or `10..15`.

    Raises:
        InputError: a text that is not of this form.
        UnknownNameError: a kind that the graph does not have.
        GraphError: a value that is none.
    """
    groups = {name.partition(GROUP_SEPARATOR)[0] for name in graph.kinds if GROUP_SEPARATOR in name} - set(graph.kinds)
    names = (*graph.kinds, *sorted(groups), *graph.numbers)
    parents: dict[str, list[str]] = {}
    for text in texts:
        places = [place for place, sign in enumerate(text) if sign == "="]
        parts = [(text[:place], text[place + 1 :]) for place in places]
        named = next((part for part in parts if part[0] in names), None)
        if not parts:
            raise InputError(f"{text!r}: expected kind=label" + (" or number=value" if graph.numbers else ""))
        if named is None:
            raise unknown_name("kind", parts[0][0], names)
        if not named[1].strip():
            what = "number" if named[0] in graph.numbers else "kind"
            raise InputError(
                f"{what} {named[0]!r}: expected a {'value' if what == 'number' else 'label'} behind the '=', got "
                f"nothing; leave the {what} out if it is unknown"
            )
        parents.setdefault(named[0], []).append(named[1])
    return {kind: _parent(graph, kind, given, kind in groups) for kind, given in parents.items()}


def _parent(graph: LabelGraph, name: str, given: list[str], group: bool) -> object:
    """What is given of one kind, group of kinds or number, as `LabelGraph.from_table` takes it."""
    if name not in graph.numbers:
        return given if group else given[0] if len(given) == 1 else set(given)
    if len(given) > 1:
        raise InputError(f"number {name!r}: expected one value, got {len(given)}; a range is written as 10..15")
    number = graph.number(name)
    return number_cell(given[0].strip(), number.scale, f"number {name!r}", number.unit)
