"""The tasks of a Label Studio file: which person chose which labels; the rest is ignored.

Only results of `choices` controls are read. Comments, ratings, boxes and everything else that a project asks for are
ignored, and so are skipped annotations. The file may have been edited by hand, so each part is checked before use; a
fault names its task. Cost: linear in the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from finegraph.errors import InputError


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
        raise InputError(f"{where}: a result of {kind!r} is no list of choices")
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
