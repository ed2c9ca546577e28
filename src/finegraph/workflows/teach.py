"""Teaching a trained model by example, and taking lessons back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from finegraph.data.photo_decoding import open_photo
from finegraph.errors import InputError, UnknownNameError, unknown_name
from finegraph.graph import LabelGraph
from finegraph.graph.kind_columns import GROUP_SEPARATOR
from finegraph.model import PhotoClassifier
from finegraph.model.teaching.lesson import AnswerChange, Lesson, answer_changes
from finegraph.workflows.predict import photos_of


@dataclass(frozen=True, kw_only=True)
class TeachResult:
    """What a lesson did.

    Attributes:
        lesson: what was taught, or taken back.
        new_labels: by kind, the coarse labels that came with it; `fine` for the label itself.
        changes: how the answers to its photos changed.
    """

    lesson: Lesson
    new_labels: dict[str, tuple[str, ...]]
    changes: tuple[AnswerChange, ...]

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON data."""
        return {
            "lesson": self.lesson.to_dict(),
            "new_labels": {kind: list(labels) for kind, labels in self.new_labels.items()},
            "changes": [change.to_dict() for change in self.changes],
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
        parents: the coarse labels of a new label, as `kind=label`; see `parse_parents`.
        new: whether the label may be new although nothing is known of its coarse labels.
        person: the name of the person who teaches.
        lesson_id: see `PhotoClassifier.teach`.

    Raises:
        ModelFolderError: there is no model, or it is damaged.
        InputError: the model cannot be taught this.
        DataError: a photo that cannot be read.
        LessonError: the lesson cannot be kept.
    """
    files = photos_of(photos) if photos else []
    for file in files:  # a slip of the pen shows at once, not after the photos before it
        open_photo(file).close()
    classifier = PhotoClassifier.load(model)
    row = parse_parents(classifier.graph, parents) if parents or new else None
    before, graph = classifier.network.head, classifier.graph
    lesson = classifier.teach(label, files, parents=row, person=person, lesson_id=lesson_id)
    return taught(classifier, lesson, before, graph)


def forget_lesson(model: str | os.PathLike[str], lesson_id: str, *, person: str = "") -> TeachResult:
    """Take a lesson back.

    Args:
        model: a model folder or a run folder.
        lesson_id: of the lesson.
        person: the name of the person who takes it back.

    Raises:
        ModelFolderError: there is no model, or it is damaged.
        InputError: there is no such lesson.
        LessonError: it cannot be written down.
    """
    classifier = PhotoClassifier.load(model)
    before, graph = classifier.network.head, classifier.graph
    return taught(classifier, classifier.forget(lesson_id, person=person), before, graph)


def list_lessons(model: str | os.PathLike[str]) -> tuple[Lesson, ...]:
    """The lessons of a model, in order, also those that were forgotten."""
    classifier = PhotoClassifier.load(model)
    return classifier.teaching.lessons


def taught(classifier: PhotoClassifier, lesson: Lesson, before: Any, graph: LabelGraph) -> TeachResult:
    """What a lesson did to a classifier that had another head and graph before."""
    now = classifier.graph
    fine = tuple(label for label in now.fine[len(graph) :] if label not in graph.fine) if now != graph else ()
    new = {"fine": fine} if fine else {}
    for kind in now.kinds if now != graph else ():
        if labels := tuple(new_label for new_label in now.labels(kind) if new_label not in graph.labels(kind)):
            new[kind] = labels
    changes = answer_changes(lesson, before, classifier.network.head, classifier.temperature)
    return TeachResult(lesson=lesson, new_labels=new, changes=tuple(changes))


def parse_parents(graph: LabelGraph, texts: Sequence[str]) -> dict[str, object]:
    """The coarse labels of a fine label, from texts like `dish=ramen`.

    A label may be new. The same kind several times means one of its labels; of a group, such as ingredients, all of
    them.

    Raises:
        InputError: a text that is not of this form.
        UnknownNameError: a kind that the graph does not have.
    """
    groups = {name.partition(GROUP_SEPARATOR)[0] for name in graph.kinds if GROUP_SEPARATOR in name} - set(graph.kinds)
    parents: dict[str, list[str]] = {}
    for text in texts:
        places = [place for place, sign in enumerate(text) if sign == "="]
        parts = [(text[:place], text[place + 1 :]) for place in places]
        named = next((part for part in parts if part[0] in graph.kinds or part[0] in groups), None)
        if not parts:
            raise InputError(f"{text!r}: expected kind=label")
        if named is None:
            raise _unknown_kind(parts[0][0], (*graph.kinds, *sorted(groups)))
        parents.setdefault(named[0], []).append(named[1])
    return {
        kind: labels if kind in groups else labels[0] if len(labels) == 1 else set(labels)
        for kind, labels in parents.items()
    }


def _unknown_kind(name: str, known: tuple[str, ...]) -> UnknownNameError:
    return unknown_name("kind", name, known)
