"""`finegraph teach`."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from finegraph.cli.exit_codes import UsageError
from finegraph.cli.failures import interruptible
from finegraph.cli.terminal import console, count, print_json, print_table, printable

if TYPE_CHECKING:
    from rich.console import Console

    from finegraph.model.teaching.lesson import Lesson
    from finegraph.workflows.teach import TeachResult

_SHOWN = 10


def teach(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder or a model folder.")],
    label: Annotated[str | None, typer.Argument(metavar="LABEL", help="The fine label that the photos show.")] = None,
    photos: Annotated[list[Path] | None, typer.Argument(metavar="PHOTO", help="Photos, or folders of photos.")] = None,
    parent: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND=LABEL", help="A coarse label of a new label, such as restaurant=C; repeat it for more."
        ),
    ] = None,
    new: Annotated[
        bool, typer.Option("--new", help="The label is new, and none of its coarse labels is known.")
    ] = False,
    person: Annotated[str | None, typer.Option(metavar="NAME", help="Who teaches; by default your login.")] = None,
    forget: Annotated[str | None, typer.Option(metavar="LESSON", help="Take a lesson back, by its id.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the lessons that hold.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Teach a model what photos show, without training it again.

    Its answers follow at once. The lesson is kept in the model folder and can be taken back. LABEL may be new: say with
    --parent which coarse labels it has; then photos may be left out. The model must have been trained with --fit
    prototypes.
    """
    from finegraph.workflows.teach import forget_lesson, list_lessons, teach_photos

    asked = [name for name, wanted in (("LABEL", label), ("--forget", forget), ("--list", listed)) if wanted]
    if len(asked) != 1:
        raise UsageError(f"expected one of LABEL, --forget and --list, got {' and '.join(asked) or 'none'}", context)
    who = _login() if person is None else person
    if listed:
        lessons = list_lessons(model)
        if as_json:
            print_json({"lessons": [lesson.to_dict() for lesson in lessons]})
        else:
            _print_lessons(console(), [lesson for lesson in lessons if not lesson.forgotten])
        return
    with interruptible("a lesson is kept whole or not at all; finegraph teach RUN --list shows which are"):
        if forget is not None:
            result = forget_lesson(model, forget, person=who)
        else:
            result = teach_photos(model, label or "", photos or (), parents=parent or (), new=new, person=who)
    if as_json:
        print_json(result.to_dict())
    else:
        _print_result(console(), result)


def _print_result(out: Console, result: TeachResult) -> None:
    """What was taught or taken back, and how answers changed."""
    lesson = result.lesson
    what = "Forgotten" if lesson.forgotten else "Taught"
    shown = f" from {count(len(lesson.photos), 'photo')}" if lesson.photos else ", without a photo"
    out.print(printable(f"{what}: {lesson.label}{shown}   (lesson {lesson.id})"))
    for kind, labels in result.new_labels.items():
        noun = "fine label" if kind == "fine" else kind
        out.print(printable(f"New {noun}: {', '.join(labels)}"))
    if result.changes:
        out.print()
        rows = [
            (
                change.photo,
                f"{change.before[0].label}, {_percent(change.before[0].probability)}",
                f"{change.after[0].label}, {_percent(change.after[0].probability)}",
                f"{_percent(change.label_before)} -> {_percent(change.label_after)}",
            )
            for change in result.changes[:_SHOWN]
        ]
        print_table(out, ("photo", "before", "now", lesson.label), rows)
        if len(result.changes) > _SHOWN:
            out.print(f"and {count(len(result.changes) - _SHOWN, 'more photo')}")


def _print_lessons(out: Console, lessons: Sequence[Lesson]) -> None:
    """The lessons as a table."""
    if not lessons:
        out.print("It was taught nothing yet.")
        return
    rows = [(lesson.id, lesson.at, lesson.person, lesson.label, str(len(lesson.photos))) for lesson in lessons]
    print_table(out, ("lesson", "at", "person", "label", "photos"), rows, right=(4,))


def _percent(probability: float) -> str:
    return f"{100 * probability:.1f} %"


def _login() -> str:
    """The login name; empty if unknown."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""
