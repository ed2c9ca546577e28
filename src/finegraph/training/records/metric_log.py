"""The log of a run, written as it happens.

    log.jsonl     one JSON object per line: `time` (UTC), `event` (start, step, epoch, note, rewind), `step`, `epoch`,
                  `loss`, `rates`, and whatever else is known; NaN and infinities as the texts "nan", "inf", "-inf"
    metrics.csv   one row per epoch
    tensorboard/  the same for TensorBoard, when asked for

A run that resumes from a checkpoint first drops what was written after it; so an interrupted run ends with the same
`metrics.csv` as one that was not, except for the times. For this to hold, the row of an epoch is added before the
checkpoint at its last step is saved, and `sync` is called in between. Cost: one small write per line.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from finegraph.errors import InputError, MissingExtraError
from finegraph.files.closing import Closing
from finegraph.files.line_file import Line, LineFile, cut_lines
from finegraph.training.records.metric_table import MetricTable
from finegraph.training.records.run_folder import RunFolder


class MetricLog(Closing):
    """The log and the metrics of a run, in the one process that writes.

    What is there already stays, but for an unfinished last line; a run that continues calls `rewind` first.

    Args:
        run: the run; its lock should be held.
        tensorboard: whether to write files for TensorBoard too.
        clock: the time in seconds since 1970.

    Raises:
        RunFolderError: the files cannot be written, or are not such files.
        MissingExtraError: TensorBoard is asked for and not installed.

    Example:
        >>> import tempfile
        >>> run = RunFolder.create(tempfile.mkdtemp() + "/menu")
        >>> with MetricLog(run) as log:
        ...     log.step(1, epoch=1, loss=2.5, rates=0.01)
        ...     log.epoch({"epoch": 1, "step": 1, "train_loss": 2.5, "val_top1": 0.25})
        >>> run.metrics_file.read_text().splitlines()[0]
        'epoch,step,time,train_loss,val_top1'
    """

    def __init__(self, run: RunFolder, *, tensorboard: bool = False, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._board = _Board(run) if tensorboard else None
        cut_lines(run.log_file, lambda line: _judge(line, None))
        self._log = LineFile(run.log_file)
        self._table = MetricTable(run.metrics_file)
        if run.log_file.stat().st_size == 0:
            self._event("start", 0, 0, {})

    def step(
        self,
        step: int,
        epoch: int,
        loss: float,
        rates: float | Mapping[str, float],
        metrics: Mapping[str, float | None] | None = None,
    ) -> None:
        """Write down a step.

        Args:
            step: how many steps were taken, this one included.
            epoch: the epoch it belongs to.
            loss: its loss.
            rates: the learning rate, or the rates by group.
            metrics: anything else by name.
        """
        more = {name: _number(metric) for name, metric in (metrics or {}).items()}
        by_group = rates if isinstance(rates, Mapping) else {"all": rates}
        written = {name: _number(rate) for name, rate in by_group.items()}
        self._event("step", step, epoch, {"loss": _number(loss), "rates": written, **more})
        if self._board is not None:
            drawn = {f"rate/{name}": rate for name, rate in by_group.items()}
            self._board.draw(step, {"loss": loss, **drawn, **(metrics or {})})

    def epoch(self, row: Mapping[str, float | None]) -> None:
        """Write down an epoch: a row of `metrics.csv` and a line of the log.

        Args:
            row: `epoch`, `step` (the last one of the epoch) and metrics by column; the first row says which columns
                there are, and in later ones those that are missing or None stay empty.

        Raises:
            InputError: `epoch` or `step` is missing or does not follow the row before, or a metric has no column.
        """
        epoch, step = _count(row, "epoch"), _count(row, "step")
        metrics = {name: metric for name, metric in row.items() if name not in ("epoch", "step")}
        written = {name: _number(metric) for name, metric in metrics.items()}
        now = self._now()
        self._table.add(epoch, step, now, written)
        self._event("epoch", step, epoch, written, now)
        if self._board is not None:
            self._board.draw(step, {f"epoch/{name}": metric for name, metric in metrics.items()})

    def note(self, text: str, *, step: int, epoch: int | None = None) -> None:
        """Write down anything worth knowing later.

        Args:
            text: what to say.
            step: the step it belongs to.
            epoch: the epoch it belongs to.
        """
        self._event("note", step, epoch, {"text": text})

    def rewind(self, step: int, epochs: int | None = None) -> int:
        """Drop everything from after a step: to be done whenever a run continues, with 0 if it has no checkpoint.

        Args:
            step: how many steps were taken.
            epochs: how many epochs ended, if the last step of an epoch does not tell.

        Returns:
            How many lines were dropped from both files together.
        """
        dropped = cut_lines(self._log.path, lambda line: _judge(line, step, epochs))
        dropped += self._table.rewind(step, epochs)
        if self._board is not None:
            self._board.purge_step = step + 1
        self._event("rewind", step, None, {"dropped": dropped})
        return dropped

    def sync(self) -> None:
        """Bring everything to the disk: to be done before a checkpoint is saved."""
        self._log.sync()
        self._table.sync()
        if self._board is not None:
            self._board.flush()

    def close(self) -> None:
        """Close the files; doing it twice does no harm."""
        self._log.close()
        self._table.close()
        if self._board is not None:
            self._board.close()

    def _now(self) -> str:
        moment = datetime.fromtimestamp(self._clock(), UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _event(
        self, event: str, step: int, epoch: int | None, more: Mapping[str, object], now: str | None = None
    ) -> None:
        """Add a line to the log."""
        fields = {"time": now or self._now(), "event": event, "step": step, "epoch": epoch}
        clash = sorted(fields.keys() & more.keys())
        if clash:
            raise InputError(f"expected names of metrics other than {', '.join(fields)}, got {', '.join(clash)}")
        self._log.add(json.dumps({**fields, **more}, ensure_ascii=False, allow_nan=False))


class _Board:
    """TensorBoard's writer: imported at once, so that its absence is known, and opened when first used."""

    def __init__(self, run: RunFolder) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingExtraError(
                "logs for TensorBoard need tensorboard, which is not installed; install it with "
                '`pip install "finegraph[track]"`'
            ) from error
        self.purge_step: int | None = None
        self._make: Callable[..., Any] = SummaryWriter
        self._folder = run.tensorboard
        self._writer: Any = None

    def draw(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """Add metrics to the curves of the same names."""
        if self._writer is None:
            # Its readers forget what an interrupted run wrote from this step on.
            self._writer = self._make(str(self._folder), purge_step=self.purge_step)
        for name, metric in metrics.items():
            if metric is not None:
                self._writer.add_scalar(name, float(metric), step)

    def flush(self) -> None:
        """Write out what waits in memory."""
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Write out what waits in memory, and end."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _number(metric: float | None) -> float | int | str | None:
    """The written form of a metric; JSON has no NaN and no infinities, so these are text."""
    if metric is None or (isinstance(metric, int) and not isinstance(metric, bool)):
        return metric
    number = float(metric)
    return number if math.isfinite(number) else str(number)


def _count(row: Mapping[str, float | None], name: str) -> int:
    """The epoch or the step of a row."""
    value = row.get(name)
    if value is None or not float(value).is_integer() or value < 0:
        raise InputError(f"expected {name!r} in the row of an epoch as a whole number, got {value!r}")
    return int(value)


def _judge(line: bytes, step: int | None, epochs: int | None = None) -> Line:
    """Whether a line of the log comes before or after the end of a step."""
    try:
        event = json.loads(line)
        ended = event["event"] == "epoch" and epochs is not None and event["epoch"] > epochs
        return Line.BEFORE if not ended and (step is None or event["step"] <= step) else Line.AFTER
    except (ValueError, TypeError, KeyError, RecursionError):
        return Line.BROKEN
