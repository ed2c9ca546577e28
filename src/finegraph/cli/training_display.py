"""What is seen of training: a bar with loss, rate and time left on a terminal, lines elsewhere, and the result.

In a job of several processes only the first one speaks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from shlex import quote
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any

from finegraph.cli.progress import Progress, progress
from finegraph.cli.terminal import console, count, print_table, printable

if TYPE_CHECKING:
    from finegraph.workflows.train import TrainResult
    from finegraph.workflows.training_data import TrainingData


class TrainingDisplay:
    """Shows how a run goes, on standard error."""

    def __init__(self, *, quiet: bool = False) -> None:
        """Make a display; a quiet one shows progress but no words."""
        self.speaks = os.environ.get("RANK", "0") == "0"
        self._quiet = quiet
        self._to = console(stderr=True)
        self._stack = ExitStack()
        self._shown: tuple[str, Progress] | None = None
        self._steps: _StepBar | None = None
        self._columns: tuple[str, ...] = ()

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
        held = f", {count(len(data.val), 'photo')} to validate on" if data.val is not None else ""
        kinds = ", ".join(f"{name} {len(data.graph.labels(name)):,}" for name in data.graph.kinds[:6])
        more = f" and {len(data.graph.kinds) - 6} more kinds" if len(data.graph.kinds) > 6 else ""
        self.note(f"{count(len(data.train), 'photo')} of {count(len(data.train.labels), 'label')} to train on{held}")
        self.note(f"{count(len(data.graph), 'fine label')}" + (f"; {kinds}{more}" if kinds else "; no kinds"))
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

    def epoch(self, row: Mapping[str, float]) -> None:
        """An epoch ended."""
        shown = {
            "epoch": f"{row['epoch']:.0f}",
            "train loss": f"{row['train_loss']:.4f}",
            **({"val top-1": f"{row['val_top1']:.1%}"} if "val_top1" in row else {}),
            **({"val nll": f"{row['val_nll']:.4f}"} if "val_nll" in row else {}),
            "time": _clock(row["seconds"]),
        }
        if not self._columns:
            self._columns = tuple(shown)
            self.note("  ".join(name.rjust(10) for name in shown))
        self.note("  ".join(shown.get(name, "").rjust(10) for name in self._columns))

    def note(self, text: str) -> None:
        """Something worth a line."""
        if not self._quiet and self.speaks:
            self._to.print(printable(text))


class _StepBar:
    """Steps with loss, rate and time left."""

    def __init__(self, to: Any, start: int) -> None:
        self._to, self._start, self._began, self._last = to, start, monotonic(), monotonic()
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


def print_result(result: TrainResult) -> None:
    """The end of a run for people."""
    to = console()
    if not result.finished:
        to.print(f"stopped and saved; go on with: finegraph train --run {printable(quote(result.run))} --resume")
        return
    if result.figures:
        rows = [
            (_NAMES.get(name, name.removeprefix("kinds.")), _figure(name, value))
            for name, value in result.figures.items()
        ]
        print_table(to, ("on validation photos", ""), rows, right=(1,))
    if result.bad:
        to.print(f"left out as they cannot be read: {count(len(result.bad), 'photo')}")
        for line in result.bad[:20]:
            to.print("  " + printable(line))
    if result.strengths:
        weight = {f"{value:.3g}" for value in result.strengths["kind_weight"].values()}
        kinds = f", weight of each kind {' / '.join(sorted(weight))}" if weight else ""
        to.print(f"strength of the prior {result.strengths['l2']:.3g}{kinds}")
    to.print(f"{count(result.photos, 'photo')} in {_clock(result.seconds)}; model: {printable(result.model or '')}")
    run = printable(quote(result.run))
    judged = result.report is not None and result.to_evaluate == result.validated_on  # the report is of these photos
    split = "" if result.to_evaluate in (None, "test") else f" --split {quote(result.to_evaluate)}"
    evaluate = "" if result.to_evaluate is None or judged else f"finegraph evaluate {run}{printable(split)}   or: "
    to.print(f"next: {evaluate}finegraph predict {run} PHOTO")


_NAMES = {"top1": "top-1", "nll": "negative log-likelihood"}


def _figure(name: str, value: float) -> str:
    return f"{value:.4f}" if name == "nll" else f"{value:.1%}"


def _clock(seconds: float) -> str:
    """A time as people write it."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s"
    return f"{whole // 60}:{whole % 60:02d} min" if whole < 3600 else f"{whole // 3600}:{whole % 3600 // 60:02d} h"
