"""The display of training: a bar with loss, rate and time left on a terminal, lines elsewhere, and the result.

In a job of several processes only the first one prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from shlex import quote
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any

from finegraph.cli.next_commands import model_commands, opener, own_command, print_next, resume_command
from finegraph.cli.process import is_first
from finegraph.cli.progress import progress
from finegraph.cli.terminal import console, count, print_left_out, print_table, printable
from finegraph.progress_types import ShowProgress

if TYPE_CHECKING:
    from rich.console import Console

    from finegraph.workflows.train import TrainResult
    from finegraph.workflows.training.training_data import TrainingData

MAX_NAMED = 20
"""How many photos that could not be read are named."""


class TrainingDisplay:
    """Shows how a run goes, on standard error."""

    def __init__(self, *, quiet: bool = False) -> None:
        """Make a display; a quiet one shows progress but no words."""
        self.prints = is_first()
        self._quiet = quiet
        self._to = console(stderr=True)
        self._stack = ExitStack()
        self._shown: tuple[str, ShowProgress] | None = None
        self._steps: _StepBar | None = None
        self._columns: tuple[str, ...] = ()
        self.folder: str | None = None
        """The run folder, once it is there."""

    def __enter__(self) -> TrainingDisplay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        self._stack.close()
        self._shown, self._steps = None, None

    def data(self, data: TrainingData, folder: str) -> None:
        """The photos were listed, and the run folder made."""
        self.folder = folder
        held = f", {count(len(data.val), 'photo')} to validate on" if data.val is not None and not data.held_out else ""
        kinds = ", ".join(f"{name} {len(data.graph.labels(name)):,}" for name in data.graph.kinds[:6])
        more = f" and {count(len(data.graph.kinds) - 6, 'more kind')}" if len(data.graph.kinds) > 6 else ""
        self.note(f"{count(len(data.train), 'photo')} of {count(len(data.train.labels), 'label')} to train on{held}")
        if data.held_out and data.val is not None:
            self.note(
                f"{count(len(data.val), 'photo')} of {count(len(data.val.labels), 'label')} held out to judge it on, "
                "copies kept together; --val-share 0 trains on all"
            )
        elif data.val is None and not data.splits:
            self.note("no photos are held out to judge it on: no class has three, or none are wanted")
        words = [f"{kinds}{more}" if kinds else "no kinds"]
        if numbers := data.graph.numbers:
            words.append(f"number{'s' if len(numbers) > 1 else ''} " + ", ".join(numbers[:6]))
            words[-1] += f" and {len(numbers) - 6} more" if len(numbers) > 6 else ""
        self.note("; ".join([count(len(data.graph), "fine label"), *words]))
        for note in data.notes:
            self.note(note)
        self.note(f"run folder: {folder}")

    def stage(self, name: str, done: int, total: int) -> None:
        """Some of a stage is done."""
        if self._shown is None or self._shown[0] != name:
            self._close()
            self._shown = name, self._stack.enter_context(progress(name))
        self._shown[1](done, total)
        if done >= total:
            self._close()

    def step(self, done: int, total: int, loss: float, rate: float) -> None:
        """A step was taken."""
        if self._steps is None:
            self._close()
            self._steps = self._stack.enter_context(_StepBar(self._to, done - 1))
        self._steps.update(done, total, loss, rate)

    def epoch(self, row: Mapping[str, float | None]) -> None:
        """An epoch ended; epoch 0, before the first step, has no loss."""
        known = {name: value for name, value in row.items() if value is not None}
        shown = {
            "epoch": f"{known['epoch']:.0f}",
            "train loss": f"{known['train_loss']:.4f}" if "train_loss" in known else "start",
            **({"val top-1": f"{known['val_top1']:.1%}"} if "val_top1" in known else {}),
            **({"val nll": f"{known['val_nll']:.4f}"} if "val_nll" in known else {}),
            "time": _clock(known["seconds"]),
        }
        if not self._columns:
            self._columns = tuple(shown)
            self.note("  ".join(name.rjust(10) for name in shown))
        self.note("  ".join(shown.get(name, "").rjust(10) for name in self._columns))

    def note(self, text: str) -> None:
        """Something worth a line."""
        if not self._quiet and self.prints:
            self._to.print(printable(text))


class _StepBar:
    """Steps with loss, rate and time left."""

    def __init__(self, out: Any, start: int) -> None:
        self._to, self._start, self._began, self._last = out, start, monotonic(), monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> _StepBar:
        if self._to.is_terminal:
            from rich import progress as parts

            self._bar = parts.Progress(
                parts.TextColumn("steps"),
                parts.BarColumn(),
                parts.MofNCompleteColumn(),
                parts.TextColumn("loss {task.fields[loss]}  rate {task.fields[rate]}", markup=False),
                parts.TimeRemainingColumn(),
                console=self._to,
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("steps", total=None, loss="", rate="")
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, total: int, loss: float, rate: float) -> None:
        """Show a step."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, loss=f"{loss:.3f}", rate=f"{rate:.2g}")
        elif monotonic() - self._last >= 10.0:
            self._last = monotonic()
            speed = (done - self._start) / (self._last - self._began)
            left = _clock((total - done) / speed)
            self._to.print(
                f"step {done:,} of {total:,}, loss {loss:.3f}, rate {rate:.2g}, {speed:.2g} steps/s, {left} left"
            )


def print_result(result: TrainResult, *, report: bool = True) -> None:
    """The end of a run for people.

    Args:
        result: what the run gave.
        report: whether a report was asked for.
    """
    out = console()
    if not result.finished:
        out.print(printable(f"stopped and saved; continue with: {resume_command(result.run)}"), soft_wrap=True)
        return
    if result.metrics:
        rows = [
            (printable(_metric_name(name)), _metric(name, value, result.units))
            for name, value in result.metrics.items()
        ]
        judged = f"on the {count(result.held_out, 'photo')} held out" if result.held_out else "on validation photos"
        print_table(out, (judged, ""), rows, right=(1,))
    print_left_out(out, result.bad, MAX_NAMED)
    if result.strengths:
        out.print(printable(_strengths(result.strengths)))
    if result.worth is not None:
        out.print(printable(result.worth.words))
    _print_calibration(out, result)
    out.print(f"{count(result.photos, 'photo')} in {_clock(result.seconds)}; model: {printable(result.model or '')}")
    if report:
        _print_report(out, result)
    print_next(out, _next(result))


def _strengths(strengths: dict[str, Any]) -> str:
    """What the head was fitted with, in a line."""
    if "variances" in strengths:
        return f"class means in closed form, shrinkage {strengths['shrinkage']:.3g}{_because(strengths)}"
    weight = {f"{value:.3g}" for value in strengths["kind_weight"].values()}
    kinds = f", weight of each kind {' / '.join(sorted(weight))}" if weight else ""
    return f"by descent, strength of the prior {strengths['l2']:.3g}{kinds}{_because(strengths)}"


def _because(strengths: dict[str, Any]) -> str:
    return f"; chosen because {strengths['reason']}" if "reason" in strengths else ""


def _print_calibration(out: Console, result: TrainResult) -> None:
    """The calibration of the model, or why there is none."""
    if result.calibration is not None:
        fit = result.calibration.temperature
        out.print(
            f"calibrated on these photos: temperature {fit.temperature:.3g}, negative log-likelihood "
            f"{fit.nll_before:.4f} -> {fit.nll_after:.4f}"
        )
    elif result.calibration_fault is not None:
        out.print(printable(f"not calibrated: {result.calibration_fault}"))
    elif result.validated_on is None:
        fitted = (result.strengths or {}).get("calibrated_on")
        sure = "not calibrated: no photos were held out, so probabilities may be too sure and"
        sure = sure if fitted is None else f"calibrated on {fitted};"
        out.print(printable(f"{sure} no photo is marked as none of the classes; {_HOLD_OUT}"))


_HOLD_OUT = "hold some out with --val-share 0.2, or 0.5 of classes of two photos"


def _print_report(out: Console, result: TrainResult) -> None:
    """Where the report is, or why there is none."""
    if result.report is not None:
        out.print(f"report: {printable(result.report)}")
    elif result.report_fault is not None:
        run, split = quote(result.run), quote(result.validated_on or "")
        console(stderr=True).print(
            printable(
                f"no report: {result.report_fault}; the model is complete, try again with: "
                f"finegraph evaluate {run} --split {split}, then finegraph report {run}"
            )
        )
    else:
        console(stderr=True).print(f"no report: there are no validation photos to judge the model on; {_HOLD_OUT}")


def _next(result: TrainResult) -> list[tuple[str, str]]:
    """What to do with a new model."""
    commands = []
    if result.report is not None:
        commands.append((f"{opener()}{quote(result.report)}", "the report of the validation photos, in a browser"))
    evaluate = f"{own_command()} evaluate {quote(result.run)}"
    if result.to_evaluate is None:
        commands.append((f"{evaluate} --data OTHER_PHOTOS", "how good it is, on photos that it was not trained on"))
    else:
        held_out = result.held_out and result.to_evaluate == result.validated_on
        which = "photos held out" if held_out else f"photos of {result.to_evaluate}"
        commands.append((evaluate, f"how good it is, on the {which}: accuracy per kind, sure answers"))
    commands += [*_graph_commands(result.run), *model_commands(result.run)]
    if result.worth is not None:  # lessons add to what class means were fitted from
        teach = f"{own_command()} teach {quote(result.run)}"
        suggest = f"{own_command()} suggest-photos {quote(result.run)}"
        commands.append((f"{teach} LABEL PHOTO", "correct it: it learns what a photo shows, at once"))
        commands.append((f"{suggest} UNLABELLED_PHOTOS", "which photos to label next"))
    return commands


def _graph_commands(run: str) -> list[tuple[str, str]]:
    """What to do about a graph that was learnt along."""
    from finegraph.reports.run_results import read_structure

    learnt, program = read_structure(Path(run)) or {}, own_command()
    found = []
    if "cells" in learnt:
        found.append((f"{program} graph learn {quote(run)}", "empty and doubtful cells with odds, to accept"))
    if "added" in learnt or "tree" in learnt:
        what = "what each suggested kind changes; accepted ones can be named and corrected with finegraph label"
        found.append((f"{program} graph suggest {quote(run)}", what))
    return found


_NUMBERS = "numbers."
_NAMES = {"top1": "top-1", "nll": "negative log-likelihood"}


def _metric_name(name: str) -> str:
    """The name of a metric for people."""
    if name.startswith(_NUMBERS):
        return f"{name.removeprefix(_NUMBERS)}, mean error"
    return _NAMES.get(name, name.removeprefix("kinds."))


def _metric(name: str, value: float, units: Mapping[str, str]) -> str:
    """A metric for people: errors of numbers in their units, the others as shares."""
    if name.startswith(_NUMBERS):
        from finegraph.model.answering.predictions import in_digits

        return f"{in_digits(value)} {printable(units.get(name.removeprefix(_NUMBERS), ''))}".strip()
    return f"{value:.4f}" if name == "nll" else f"{value:.1%}"


def _clock(seconds: float) -> str:
    """A time as people write it."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s"
    return f"{whole // 60}:{whole % 60:02d} min" if whole < 3600 else f"{whole // 3600}:{whole % 3600 // 60:02d} h"
