"""`finegraph teach`."""

from __future__ import annotations

import getpass
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from finegraph.cli.exit_codes import UsageError
from finegraph.cli.failures import CONTINUES, interruptible
from finegraph.cli.terminal import console, count, percent, print_json, print_table, printable
from finegraph.errors import UnknownNameError

if TYPE_CHECKING:
    from rich.console import Console

    from finegraph.model.teaching.answer_changes import AnswerChange
    from finegraph.model.teaching.lesson import Lesson
    from finegraph.workflows.teach import TeachResult

_SHOWN = 10
_MIN_MOVE = 0.0005
"""Smaller changes of a probability show no difference in the printed digits."""


def teach(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder or a model folder.")],
    label: Annotated[str | None, typer.Argument(metavar="LABEL", help="The fine label that the photos show.")] = None,
    photos: Annotated[list[Path] | None, typer.Argument(metavar="PHOTO", help="Photos, or folders of photos.")] = None,
    parent: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND=LABEL",
            help="A coarse label of a new label, such as restaurant=C, or a value of it, such as price=12.5, "
            "price=12.5 +- 1.5 or price=10..15; repeat it for more.",
        ),
    ] = None,
    new: Annotated[
        bool, typer.Option("--new", help="The label is new, and none of its coarse labels is known.")
    ] = False,
    rows: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="CSV",
            help="Teach all photos of a list, by its columns path and label, as suggest-photos -o writes it; rows "
            "without a label and those that were taught before are passed over.",
        ),
    ] = None,
    person: Annotated[str | None, typer.Option(metavar="NAME", help="Who teaches; by default your login.")] = None,
    forget: Annotated[str | None, typer.Option(metavar="LESSON", help="Take a lesson back, by its id.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the lessons that hold.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Teach a model what photos show, without training it again.

    Its answers follow at once. The lesson is kept in the model folder and can be taken back. LABEL may be new: say with
    --parent which coarse labels it has; then photos may be left out. The head of the model must have been fitted in
    closed form: finegraph train does so with --fit prototypes, with --fit auto where that is the better fit, as with
    few photos, and after --tune all.
    """
    asked = {"LABEL": label, "--from": rows, "--forget": forget, "--list": listed}
    given = [name for name, value in asked.items() if value]
    if len(given) != 1:
        names = ", ".join(list(asked)[:-1]) + " and --list"
        raise UsageError(f"expected one of {names}, got {' and '.join(given) or 'none'}", context)
    if not label and (parent or new):
        raise UsageError(f"--parent and --new are about a new LABEL, not about {given[0]}", context)
    who = _login() if person is None else person
    if listed:
        _list(model, as_json=as_json)
    elif rows is not None:
        _teach_rows(model, rows, who, as_json=as_json)
    else:
        _teach_or_forget(model, label, photos or (), parent or (), new, forget, who, as_json=as_json)


def _list(model: Path, *, as_json: bool) -> None:
    from finegraph.workflows.teach import list_lessons

    lessons = list_lessons(model)
    if as_json:
        print_json({"lessons": [lesson.to_dict() for lesson in lessons]})
    else:
        _print_lessons(console(), [lesson for lesson in lessons if not lesson.forgotten])


def _teach_rows(model: Path, rows: Path, person: str, *, as_json: bool) -> None:
    from finegraph.cli.progress import progress
    from finegraph.workflows.teach import teach_list

    with interruptible(f"each photo that was taught is kept; {CONTINUES}"), progress("photos") as shown:
        result = teach_list(model, rows, person=person, progress=shown)
    if as_json:
        print_json(result.to_dict())
        return
    out, labels = console(), Counter(lesson.label for lesson in result.lessons)
    out.print(f"Taught: {count(len(result.lessons), 'photo')} of {count(len(labels), 'label')}")
    if result.known:
        out.print(f"Taught before: {count(result.known, 'photo')}")
    if result.open:
        out.print(f"Without a label: {count(result.open, 'photo')}")
    if labels:
        out.print()
        print_table(out, ("label", "photos"), [(name, str(number)) for name, number in labels.items()], right=(1,))


def _teach_or_forget(
    model: Path,
    label: str | None,
    photos: Sequence[Path],
    parents: Sequence[str],
    new: bool,
    forget: str | None,
    person: str,
    *,
    as_json: bool,
) -> None:
    from finegraph.workflows.teach import forget_lesson, teach_photos

    run = quote(str(model))
    with interruptible(f"a lesson is kept whole or not at all; finegraph teach {run} --list shows which are"):
        try:
            if forget is not None:
                result = forget_lesson(model, forget, person=person)
            else:
                result = teach_photos(model, label or "", photos, parents=parents, new=new, person=person)
        except UnknownNameError as error:
            if forget is not None:
                raise UnknownNameError(f"{error}\nfinegraph teach {run} --list shows the lessons.") from error
            if parents or new:
                raise
            raise UnknownNameError(
                f"{error}\nGive each of them with --parent KIND=LABEL, or --new if none is known."
            ) from error
    if as_json:
        print_json(result.to_dict())
    else:
        _print_result(console(), result, 0 if forget is not None else _named(photos) - len(result.lesson.photos))


def _named(photos: Sequence[Path]) -> int:
    """How many photos the arguments name."""
    from finegraph.workflows.predict import photos_of

    return len(photos_of(photos)) if photos else 0


def _print_result(out: Console, result: TeachResult, copies: int) -> None:
    """The lessons taught or taken back, and how answers changed."""
    lesson = result.lesson
    what = "Forgotten" if lesson.forgotten else "Taught"
    if result.repeated:
        what = f"{what} before, so nothing changes"
    shown = f" from {count(len(lesson.photos), 'photo')}" if lesson.photos else ", without a photo"
    out.print(printable(f"{what}: {lesson.label}{shown}   (lesson {lesson.id})"))
    if copies > 0:
        out.print(f"{count(copies, 'more file')} with the same content: a photo counts once")
    if result.repeated:
        return
    for kind, labels in result.new_labels.items():
        noun = "fine label" if kind == "fine" else kind
        near = result.near.get(kind, {})
        names = [name + (f" (near {', '.join(map(repr, near[name]))})" if name in near else "") for name in labels]
        out.print(printable(f"New {noun}: {', '.join(names)}"))
    if result.near:
        out.print(printable(f"If a known label was meant, take the lesson back: --forget {lesson.id}"))
    if result.changes:
        out.print()
        _print_changes(out, result)


def _print_changes(out: Console, result: TeachResult) -> None:
    """How the answers to photos changed; of a single photo those about relatives of the label, too."""
    if len(result.changes) == 1:
        _print_change(out, result.lesson.label, result.changes[0])
        return
    rows = [
        (
            change.photo,
            f"{percent(change.label_before)} -> {percent(change.label_after)}",
            f"{change.before[0].label}, {percent(change.before[0].probability)}",
            f"{change.after[0].label}, {percent(change.after[0].probability)}",
        )
        for change in result.changes[:_SHOWN]
    ]
    print_table(out, ("photo", "this label", "taken for before", "taken for now"), rows)
    if len(result.changes) > _SHOWN:
        out.print(f"and {count(len(result.changes) - _SHOWN, 'more photo')}")


def _print_change(out: Console, label: str, change: AnswerChange) -> None:
    """The label of the lesson and its relatives for one photo: before and now, as `predict` says them."""
    rows = [(label, percent(change.label_before), percent(change.label_after), "")]
    for relative in change.relatives:
        if abs(relative.after - relative.before) >= _MIN_MOVE:
            shares = ", ".join(f"{kind} {name}" for kind, name in relative.shares.items())
            rows.append((relative.label, percent(relative.before), percent(relative.after), shares))
    print_table(out, (change.photo, "before", "now", "shared with it"), rows, right=(1, 2))


def _print_lessons(out: Console, lessons: Sequence[Lesson]) -> None:
    """The lessons as a table."""
    if not lessons:
        out.print("It was taught nothing yet.")
        return
    rows = [(lesson.id, lesson.at, lesson.person, lesson.label, str(len(lesson.photos))) for lesson in lessons]
    print_table(out, ("lesson", "at", "person", "label", "photos"), rows, right=(4,))


def _login() -> str:
    """The login name; empty if unknown."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""
