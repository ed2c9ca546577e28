"""Label Studio JSON, out and in: one task per class, and one per photo with photo labels.

    {"data": {"fine": "ramen @ A", "note": "..."},
     "annotations": [{"completed_by": "ann", "ground_truth": true,
                      "result": [{"from_name": "dish", "to_name": "fine", "type": "choices",
                                  "value": {"choices": ["ramen"]}}]}]}

A kind is a `choices` control of the same name. The annotation marked `ground_truth` holds the current values, the
others the votes of people. Label Studio has no weights and does not say whether several choices are possible or all
hold, so such a result has `"meta": {"form": "one_of" | "weights" | "all_of", "weights": [...]}`. The first task carries
the kinds, the order of their labels and their modes in `data.finegraph`, which Label Studio keeps. Without that, kinds
are those that occur, and several choices hold together.

Only results of `choices` controls are read. Comments, ratings, boxes and everything else that a project asks for are
ignored, and so are skipped annotations. The file may have been edited by hand, so each part is checked before use; a
fault names its task. Cost: linear in the file and in the cells.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from finegraph.errors import GraphError, InputError
from finegraph.graph import LabelGraph
from finegraph.labelling.store.graph_columns import Part, StoreColumn, stored_graph
from finegraph.labelling.store.records import CellValue, Mode, PhotoLabel
from finegraph.labelling.store.values import cell_of_value, normalised

Values = Mapping[str, CellValue]


@dataclass
class Content:
    """What a Label Studio file holds.

    Attributes:
        fine: the classes.
        columns: the kinds and current values.
        votes: by class, then person, then kind.
        notes: by class.
        photos: photo labels.
        settled: by class, the kinds in which a disagreement was settled.
    """

    fine: tuple[str, ...]
    columns: list[StoreColumn]
    votes: dict[str, dict[str, dict[str, CellValue]]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    photos: list[PhotoLabel] = field(default_factory=list)
    settled: dict[str, list[str]] = field(default_factory=dict)

    @property
    def graph(self) -> LabelGraph:
        """The graph that the classes and kinds make."""
        return stored_graph(self.fine, self.columns)


# ---- out -------------------------------------------------------------------------------------------------------------


def format_tasks(
    fine: Sequence[str],
    columns: Sequence[StoreColumn],
    votes: Mapping[str, Mapping[str, Values]],
    notes: Mapping[str, str],
    photos: Iterable[PhotoLabel],
    settled: Mapping[str, Sequence[str]],
) -> str:
    """A store as Label Studio JSON, a line per task."""
    lines: list[str] = []  # serialised one by one: the tasks of 100,000 classes are millions of objects

    def add(data: dict[str, Any], annotations: list[dict[str, Any]]) -> None:
        lines.append(json.dumps({"data": data, "annotations": annotations}, ensure_ascii=False))

    for row, name in enumerate(fine):
        data: dict[str, Any] = {"fine": name}
        if name in notes:
            data["note"] = notes[name]
        if name in settled:
            data["settled"] = list(settled[name])
        if not lines:
            data["finegraph"] = [
                {"name": c.name, "mode": c.mode, "unknown_prior": c.prior, "labels": list(c.labels)} for c in columns
            ]
        current = {column.name: column.value(row) for column in columns}
        annotations = [_annotation(None, {kind: v for kind, v in current.items() if v is not None}, "fine")]
        annotations += [_annotation(person, values, "fine") for person, values in votes.get(name, {}).items()]
        add(data, annotations)
    by_photo: dict[tuple[str, str | None], dict[str, CellValue]] = {}
    for photo_label in photos:
        by_photo.setdefault((photo_label.photo, photo_label.fine), {})[photo_label.kind] = photo_label.value
    for (photo, label), values in by_photo.items():
        data = {"photo": photo} if label is None else {"photo": photo, "label": label}
        add(data, [_annotation(None, values, "photo")])
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _annotation(person: str | None, values: Values, to_name: str) -> dict[str, Any]:
    """The annotation of a person, or with the current values."""
    who: dict[str, Any] = {"ground_truth": True} if person is None else {"completed_by": person, "ground_truth": False}
    return {**who, "result": [_result(kind, value, to_name) for kind, value in values.items()]}


def _result(kind: str, value: CellValue, to_name: str) -> dict[str, Any]:
    result: dict[str, Any] = {"from_name": kind, "to_name": to_name, "type": "choices"}
    if value is None or isinstance(value, str):
        return {**result, "value": {"choices": [] if value is None else [value]}}
    [(form, content)] = value.items()
    meta: dict[str, Any] = {"form": form}
    if form == "weights":
        meta["weights"] = list(content.values())
    return {**result, "value": {"choices": list(content)}, "meta": meta}


# ---- in --------------------------------------------------------------------------------------------------------------


def parse_tasks(text: str, path: str) -> Content:
    """The content of a Label Studio file.

    Raises:
        InputError: it is not a list of tasks, a task has neither class nor photo, or a part of it is malformed.
        GraphError: the classes and kinds do not make a graph.
    """
    return _Reader(read_tasks(text, path), path).read()


class _Reader:
    """Reads the tasks of a file into a `Content`."""

    def __init__(self, tasks: Sequence[Task], path: str) -> None:
        self.tasks, self.path = tasks, path
        self.kinds: dict[str, dict[str, Any]] = {}
        self.declared = False

    def read(self) -> Content:
        for task in self.tasks:
            for kind in declared_kinds(task, self.path):
                self.kinds[kind["name"]] = {**kind, "labels": dict.fromkeys(kind["labels"])}
                self.declared = True
        if not self.declared:
            self._infer()
        current: dict[str, dict[str, CellValue]] = {}
        votes: dict[str, dict[str, dict[str, CellValue]]] = {}
        notes: dict[str, str] = {}
        photos: list[PhotoLabel] = []
        settled: dict[str, list[str]] = {}
        for task in self.tasks:
            data = task.data
            truth, task_votes = self._answers(task)
            if isinstance(data.get("fine"), str):
                name = data["fine"]
                if name in current:
                    raise self._fault(task, f"the class {name!r} has a task already")
                current[name] = truth
                if task_votes:
                    votes[name] = task_votes
                if data.get("note"):
                    notes[name] = str(data["note"])
                if data.get("settled"):
                    settled[name] = self._settled(task)
            elif isinstance(data.get("photo"), str):
                photos += self._photos(task, truth)
            else:
                raise InputError(
                    f"{self.path}: task number {task.number} names no class ('fine') and no photo ('photo')"
                )
        columns = [self._column(name, [values.get(name) for values in current.values()]) for name in self.kinds]
        return Content(tuple(current), columns, votes, notes, photos, settled)

    def _fault(self, task: Task, text: str) -> InputError:
        return InputError(f"{self.path}: task number {task.number}: {text}")

    def _settled(self, task: Task) -> list[str]:
        """The kinds of a class in which a disagreement was settled."""
        content = task.data["settled"]
        if not isinstance(content, list) or not all(isinstance(kind, str) and kind in self.kinds for kind in content):
            raise self._fault(task, "'settled' is not a list of kinds of this file")
        return content

    def _photos(self, task: Task, truth: Values) -> list[PhotoLabel]:
        """The photo labels of a photo."""
        photo, label = task.data["photo"], task.data.get("label")
        if label is not None and not isinstance(label, str):
            raise self._fault(task, f"expected 'label' to be the class of the photo, got {str(label)[:60]!r}")
        return [PhotoLabel(photo, label, kind, value) for kind, value in truth.items() if value is not None]

    def _infer(self) -> None:
        """Find the kinds and labels that occur, in the order in which they do."""
        for task in self.tasks:
            for annotation in task.annotations:
                for choice in annotation.choices:
                    if not choice.labels:
                        continue  # an unused control does not make a kind
                    new = {"name": choice.kind, "mode": "one", "labels": {}}
                    kind = self.kinds.setdefault(choice.kind, new)
                    kind["labels"].update(dict.fromkeys(choice.labels))
                    if choice.form == "all_of" or (choice.form is None and len(choice.labels) > 1):
                        kind["mode"] = "all"

    def _answers(self, task: Task) -> tuple[dict[str, CellValue], dict[str, dict[str, CellValue]]]:
        """The current values of a task, and what each person said."""
        truth: dict[str, CellValue] | None = None
        votes: dict[str, dict[str, CellValue]] = {}
        last: dict[str, CellValue] = {}
        for annotation in task.annotations:
            known = [choice for choice in annotation.choices if self.declared or choice.kind in self.kinds]
            values = {choice.kind: self._value(choice, task) for choice in known}
            if annotation.truth:
                truth = values
            else:
                last = values
            if annotation.person is not None:
                votes[annotation.person] = values
        return (last if truth is None else truth), votes

    def _value(self, choice: Choice, task: Task) -> CellValue:
        kind = self.kinds.get(choice.kind)
        if kind is None:
            raise self._fault(task, f"there is no kind {choice.kind!r}")
        labels = choice.labels
        if kind["mode"] == "all":
            # Label Studio cannot express "none of them": without our form, no choice means undecided.
            return {"all_of": labels} if labels or choice.form == "all_of" else None
        if not labels:
            return None
        if choice.form == "weights":
            return {"weights": dict(zip(labels, choice.weights, strict=True))}
        return labels[0] if len(labels) == 1 else {"one_of": labels}

    def _column(self, name: str, values: Sequence[CellValue]) -> StoreColumn:
        kind = self.kinds[name]
        mode: Mode = kind["mode"]
        labels = tuple(kind["labels"])
        place = {label: index for index, label in enumerate(labels)}
        cells: list[Part | None] = []
        for value in values:
            cell = cell_of_value(value, mode, f"{self.path}: kind {name!r}")
            if cell is None:
                cells.append(None)
                continue
            for label in cell.labels:
                if label not in place:
                    raise GraphError(f"{self.path}: kind {name!r} has no label {label!r}")
            weights = (None,) * len(cell.labels) if cell.weights is None else normalised(cell.weights) or ()
            cells.append(tuple(sorted(zip((place[label] for label in cell.labels), weights, strict=True))))
        return StoreColumn(
            name=name, mode=mode, prior=kind.get("unknown_prior", "frequency"), labels=labels, cells=cells
        )


class Choice(NamedTuple):
    """One result: the labels chosen in a kind, and the form of the value if the file gives it."""

    kind: str
    labels: list[str]
    form: object
    weights: list[Any]


class Annotation(NamedTuple):
    """The choices of one person or, if `truth` is set, the current values."""

    person: str | None
    truth: bool
    choices: list[Choice]


class Task(NamedTuple):
    """A task: its number in the file, its data and its annotations."""

    number: int
    data: dict[str, Any]
    annotations: list[Annotation]


def read_tasks(text: str, path: str) -> list[Task]:
    """The tasks in the text of a file.

    Raises:
        InputError: it is not a list of tasks, or a part of a task is malformed.
    """
    try:
        tasks = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected the JSON export of Label Studio: {error}") from None
    if not isinstance(tasks, list) or not all(
        isinstance(task, dict) and isinstance(task.get("data"), dict) for task in tasks
    ):
        raise InputError(f"{path}: expected a list of tasks, each with 'data', as Label Studio exports them")
    return [_task(task, number, f"{path}: task number {number}") for number, task in enumerate(tasks)]


def declared_kinds(task: Task, path: str) -> Iterator[dict[str, Any]]:
    """The kinds that a task carries for the whole file.

    Raises:
        InputError: they are malformed.
    """
    where = f"{path}: task number {task.number}"
    for kind in _objects(task.data, "finegraph", where):
        labels = kind.get("labels")
        if (
            not isinstance(kind.get("name"), str)
            or kind.get("mode") not in ("one", "all")
            or not isinstance(kind.get("unknown_prior", ""), str)
            or not isinstance(labels, list)
            or not all(isinstance(label, str) for label in labels)
        ):
            raise InputError(
                f"{where}: expected each kind in 'finegraph' to have a 'name', a 'mode' (one or all) and 'labels', "
                "as finegraph writes them"
            )
        yield kind


def _task(task: Mapping[str, Any], number: int, where: str) -> Task:
    annotations = []
    for annotation in _objects(task, "annotations", where):
        results = _objects(annotation, "result", where)
        if not annotation.get("was_cancelled"):
            choices = [_choice(result, where) for result in results if _is_choice(result)]
            annotations.append(Annotation(_person(annotation), bool(annotation.get("ground_truth")), choices))
    return Task(number, task["data"], annotations)


def _objects(holder: Mapping[str, Any], name: str, where: str) -> list[dict[str, Any]]:
    """A list of JSON objects; empty if there is none."""
    content = holder.get(name)
    if content is None:
        return []
    if not isinstance(content, list) or not all(isinstance(item, dict) for item in content):
        raise InputError(f"{where}: expected {name!r} to be a list of objects, got {str(content)[:60]!r}")
    return content


def _is_choice(result: Mapping[str, Any]) -> bool:
    """Whether a result is that of a `choices` control."""
    value = result.get("value")
    return result.get("type", "choices") == "choices" and isinstance(value, dict) and "choices" in value


def _choice(result: Mapping[str, Any], where: str) -> Choice:
    kind, labels, meta = result.get("from_name"), result["value"]["choices"], result.get("meta") or {}
    if not isinstance(kind, str):
        raise InputError(f"{where}: expected a result to have the name of its control in 'from_name', got {kind!r}")
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise InputError(f"{where}: a result of {kind!r} is not a list of choices")
    if not isinstance(meta, dict):
        raise InputError(f"{where}: expected 'meta' of a result of {kind!r} to be an object, got {str(meta)[:60]!r}")
    weights = meta.get("weights") or []
    if meta.get("form") == "weights" and (not isinstance(weights, list) or len(weights) != len(labels)):
        raise InputError(f"{where}: expected 'weights' of {kind!r} to be a list with one for each of {labels}")
    return Choice(kind, labels, meta.get("form"), weights)


def _person(annotation: Mapping[str, Any]) -> str | None:
    """The author of an annotation: a name as finegraph writes it, or Label Studio's e-mail address or number."""
    author = annotation.get("completed_by")
    if isinstance(author, dict):
        author = author.get("email") or author.get("id")
    if author is None:
        return None
    return author if isinstance(author, str) else f"person {author}"
