"""`finegraph study`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from finegraph.cli.exit_codes import INTERRUPTED
from finegraph.cli.failures import CONTINUES, interruptible
from finegraph.cli.progress import progress
from finegraph.cli.shared_options import FormerOutput, Json
from finegraph.cli.terminal import console, count, print_json, print_table, printable
from finegraph.errors import DataError, PhotoFileError
from finegraph.progress_types import ShowProgress

if TYPE_CHECKING:
    from rich.console import Console

    from finegraph.workflows.studies.spec import Study
    from finegraph.workflows.study import StudyOutcome

_SECONDS_BETWEEN_LINES = 10.0


def study(
    file: Annotated[
        Path, typer.Argument(metavar="STUDY.toml", help="What to compare; see studies/ and docs/study.md.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="The folder for results; by default a folder in runs/ named after the file.",
        ),
    ] = None,
    out: FormerOutput = None,
    data: Annotated[
        str | None, typer.Option(metavar="SOURCE", help="The photos, in place of those that the file names.")
    ] = None,
    graph: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The graph file, in place of the one that the file names.")
    ] = None,
    list_cells: Annotated[bool, typer.Option("--list", help="List the cells and which are done; run nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Compare heads over kinds, amounts of photos and seeds.

    Writes every result, a summary with paired intervals, tables and plots. Running it again continues where it stopped.
    """
    from finegraph.workflows.studies.spec import read_study

    read = read_study(file, data=data, graph=None if graph is None else str(graph))
    folder = output or out or Path("runs") / f"study-{file.stem}"
    if list_cells:
        _list(read, folder, as_json)
        return
    from finegraph.workflows.study import run_study

    try:
        with interruptible(f"the cells that are done are kept; {CONTINUES}"), StudyDisplay(quiet=as_json) as display:
            outcome = run_study(read, folder, display)
    except PhotoFileError as error:
        raise DataError(
            f'{error}\nMend, replace or remove the photo, or have such photos left out with on_bad_file = "skip" in '
            f"{file}. `finegraph data check` lists all."
        ) from error
    if as_json:
        rows = outcome.summary.rows if outcome.summary is not None else []
        rivals = outcome.summary.rivals if outcome.summary is not None else []
        print_json({"folder": str(outcome.folder), "finished": outcome.finished, "cells": outcome.cells,
                    "total": outcome.total, **outcome.about, "rows": rows, "rivals": rivals})  # fmt: skip
    else:
        _print(console(), read, outcome)
    if not outcome.finished:
        raise typer.Exit(INTERRUPTED)


def _list(read: Study, folder: Path, as_json: bool) -> None:
    """The cells of a study and which are done."""
    from finegraph.workflows.studies.grid import plan
    from finegraph.workflows.studies.study_folder import FREE, StudyFolder

    place = StudyFolder(folder)
    place.refuse_another(read, (*FREE, "data", "graph"))  # photos need not be named to look at a list
    cells = [(cell, place.has(cell)) for cell in plan(read)]
    if as_json:
        listed = [{**cell.to_dict(), "done": done} for cell, done in cells]
        print_json({"folder": str(folder), "study": read.to_dict(), "cells": listed})
        return
    out = console()
    rows = [
        (cell.head, cell.kinds, cell.amount, str(cell.seed), "yes" if cell.box else "no", "done" if done else "")
        for cell, done in cells
    ]
    print_table(out, ("head", "kinds", "amount", "seed", "box", ""), rows, right=(2, 3))
    done = sum(done for _, done in cells)
    out.print(f"{count(len(cells), 'cell')}, {done:,} done in {printable(str(folder))}; {_settings(read)}")


def _settings(read: Study) -> str:
    return "the whole network is trained" if read.tune == "all" else f"{read.settings} settings tried for every head"


def _print(out: Console, read: Study, outcome: StudyOutcome) -> None:
    """The study for people."""
    if outcome.summary is None:
        out.print(f"stopped after {outcome.cells:,} of {count(outcome.total, 'cell')}; the same command continues")
        return
    from finegraph.workflows.studies.markdown_tables import by_method, difference_text, mean_text, place_text

    facts = outcome.about["data"]
    out.print(
        f"{printable(read.title or read.data)}: {facts['train']:,} photos to draw from, {facts['fine']:,} fine labels"
    )
    out.print(outcome.about["budget"])
    top1 = [row for row in outcome.summary.rows if row["metric"] == "top1"]
    for place in dict.fromkeys((row["split"], row["views"], row["box"]) for row in top1):
        at_place = [row for row in top1 if (row["split"], row["views"], row["box"]) == place]
        rows = []
        for name, listed in by_method(at_place).items():
            cells = {row["amount"]: row for row in listed}
            texts = []
            for amount in read.amounts:
                row = cells.get(amount)
                texts += [mean_text(row, interval=False), difference_text(row, interval=False)]
            rows.append((name, *texts))
        headings = [text for amount in read.amounts for text in (_heading(amount), "")]
        out.print(f"\ntop-1 % on {printable(place_text(*place))}, and the difference to softmax")
        right = tuple(range(1, len(headings), 2))
        print_table(out, ("head (kinds)", *headings), rows, right=right)
        _print_values(out, read, outcome, place)
    out.print("better and worse: the 95 % interval of the paired difference leaves 0 out; cannot tell: it holds 0")
    out.print(f"report.html, tables.md, plots and all results: {printable(str(outcome.folder))}")


def _print_values(out: Console, read: Study, outcome: StudyOutcome, place: tuple[str, int, bool]) -> None:
    """How well numbers and ordered kinds are predicted at a place."""
    from finegraph.evaluation.study_metrics import more_is_better, value_tables
    from finegraph.workflows.studies.grid import amount_text, largest
    from finegraph.workflows.studies.markdown_tables import by_method, difference_text, mean_text, place_text

    assert outcome.summary is not None
    amount = largest(read.amounts)
    wanted = (*place, amount)
    at_place = [
        row for row in outcome.summary.rows if (row["split"], row["views"], row["box"], row["amount"]) == wanted
    ]
    tables = value_tables((row["metric"] for row in at_place), outcome.about["data"]["numbers"])
    for about, columns in tables.items():
        headings: list[str] = []
        for metric, heading in columns.items():
            headings += [heading, ""] if more_is_better(metric) is False else [heading]
        rows = []
        for name, listed in by_method(row for row in at_place if row["metric"] in columns).items():
            cells = {row["metric"]: row for row in listed}
            texts: list[str] = []
            for metric in columns:
                row = cells.get(metric)
                texts.append(mean_text(row, interval=False))
                if more_is_better(metric) is False:
                    texts.append(difference_text(row, interval=False))
            rows.append((name, *texts))
        title = printable(f"{about}, on {place_text(*place)}, {amount_text(amount)}")
        out.print(f"\n{title}, and the difference to softmax")
        right = tuple(number for number, heading in enumerate(headings, start=1) if heading)
        print_table(out, ("head (kinds)", *headings), rows, right=right)


def _heading(amount: str) -> str:
    return amount if amount == "all" or amount.endswith("%") else f"{amount} per class"


class StudyDisplay:
    """Shows how a study goes, on standard error."""

    def __init__(self, *, quiet: bool = False) -> None:
        """Make a display; a quiet one shows progress but no words."""
        self._quiet = quiet
        self._to = console(stderr=True)
        self._stack = ExitStack()
        self._stage: tuple[str, ShowProgress] | None = None
        self._bar: Any = None
        self._task: Any = None
        self._last = monotonic() - _SECONDS_BETWEEN_LINES
        self._cell = ""

    def __enter__(self) -> StudyDisplay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def stage(self, name: str, done: int, total: int) -> None:
        """Some of a stage is done."""
        if self._bar is not None:  # inside a cell, its bar stays
            self._show(f"{self._cell}: {name} {done:,} of {total:,}")
            return
        if self._stage is None or self._stage[0] != name:
            self._stack.close()
            self._stage = name, self._stack.enter_context(progress(name))
        self._stage[1](done, total)
        if done >= total:
            self._stack.close()
            self._stage = None

    def cell(self, text: str, done: int, total: int, seconds_left: float | None) -> None:
        """A cell begins."""
        self._cell = text
        left = "" if seconds_left is None else f", {_duration(seconds_left)} left"
        if not self._to.is_terminal:
            now = monotonic()
            if now - self._last >= _SECONDS_BETWEEN_LINES or done == total:
                self._last = now
                self._to.print(printable(f"{done:,} of {total:,} cells{left}: {text}"))
            return
        if done == 0 and self._bar is None:
            return  # features come first, with a bar of their own
        self._start_bar()
        self._bar.update(self._task, completed=done, total=total, left=left, text=printable(text))

    def step(self, done: int, total: int, loss: float, rate: float) -> None:
        """A step of training was taken."""
        self._show(f"{self._cell}: step {done:,} of {total:,}, loss {loss:.3f}")

    def epoch(self, row: Mapping[str, float | None]) -> None:
        """An epoch ended."""

    def note(self, text: str) -> None:
        """Something worth a line."""
        if not self._quiet:
            self._to.print(printable(text))

    def _show(self, text: str) -> None:
        """Something within a cell: beside the bar, or as a line now and then."""
        if self._to.is_terminal:
            self._start_bar()
            self._bar.update(self._task, text=printable(text))
        elif monotonic() - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = monotonic()
            self._to.print(printable(text))

    def _start_bar(self) -> None:
        """The bar of cells."""
        if self._bar is not None:
            return
        from rich import progress as parts

        self._stack.close()
        self._stage = None
        columns = (
            parts.TextColumn("cells"),
            parts.BarColumn(bar_width=24),
            parts.MofNCompleteColumn(),
            parts.TextColumn("{task.fields[left]}", markup=False),
            parts.TextColumn("{task.fields[text]}", markup=False),
        )
        self._bar = self._stack.enter_context(parts.Progress(*columns, console=self._to, transient=True))
        self._task = self._bar.add_task("cells", total=None, left="", text="")


def _duration(seconds: float) -> str:
    """A time as people say it."""
    whole = round(seconds)
    if whole < 90:
        return f"{whole} s"
    return f"{round(whole / 60)} min" if whole < 5400 else f"{whole // 3600} h {whole % 3600 // 60} min"
