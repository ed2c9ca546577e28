"""The training loop, on one screen.

Each step takes one batch; at the end of an epoch, or of every few, the head may be fitted again and the network is
validated; a row of metrics is written, and all is saved. A network that starts with a fitted head is validated before
the first step too. That is epoch 0, and if no epoch is better, it is the result. Training can stop at any step and
resumes bit for bit as if it had not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import closing, nullcontext
from pathlib import Path
from time import monotonic

from torch import Tensor

from finegraph.errors import DataError, JobError, NonFiniteError, PhotoFileError
from finegraph.nn import Network
from finegraph.training.batches import batch_numbers, read_batches, steps_per_epoch
from finegraph.training.checkpoints.checkpoint import CheckpointFolder
from finegraph.training.checkpoints.run_state import RunProgress, capture, data_digest, restore, split_rows
from finegraph.training.checkpoints.shard_files import ShardFolder
from finegraph.training.distributed import Ranks
from finegraph.training.guard import StopRequest, check_answers, check_weights, non_finite, stop_request
from finegraph.training.optimizer import make_optimizer, optimizer_tensors, rate_factor, set_rates
from finegraph.training.records.metric_log import MetricLog
from finegraph.training.step import Stepper
from finegraph.training.training_run import Judgement, Run, Validation, Watcher, is_better

__all__ = ["Judgement", "Run", "Validation", "Watcher", "train"]

_LOOKED_AT = 4
"""How many photos of the last step a network must answer with finite numbers before it is saved."""
_PATIENCE = 2.0
"""In a job of several processes, a signal within this many seconds of the first counts as the same one."""


def train(run: Run, *, resume: bool = False) -> bool:
    """Train to the end.

    Args:
        run: what to train.
        resume: whether to go on from the last checkpoint.

    Returns:
        Whether it came to the end; False if it was asked to stop, and saved.

    Raises:
        NonFiniteError: a number became NaN or infinite.
        PhotoFileError: a photo cannot be read, if the settings say that this is an error.
        DataError: there is nothing to train on.
        SettingsError: the photos or the graph are not those that the run began with.
    """
    return _Training(run, resume).go()


def shard_folder(network: Network, path: Path, ranks: Ranks) -> ShardFolder | None:
    """The checkpoints of a network whose labels are sharded; None for others."""
    head = network.shared_head
    return None if head is None else ShardFolder(path, head.graph, head.shard, ranks, writes=head.groups.rank == 0)


class _Training:
    """A run under way."""

    def __init__(self, run: Run, resume: bool) -> None:
        if not len(run.dataset):
            raise DataError("expected photos to train on, got none")
        self.run, self.recipe = run, run.settings.numbers()
        self.optimizer = make_optimizer(run.network, self.recipe)
        judged = None if run.validation is None else run.validation.photos
        self.data = data_digest(run.dataset.samples, judged, run.network.graph, run.pairs)
        self.per_epoch = steps_per_epoch(len(run.dataset), self.recipe.batch_size)
        self.total = self.recipe.epochs * self.per_epoch
        self.checkpoints = CheckpointFolder(run.folder.checkpoints)
        self.shards = shard_folder(run.network, run.folder.checkpoints, run.ranks)
        shared = run.network.shared_head
        self.groups = 1 if shared is None else shared.groups.size
        self.progress = self._resume() if resume else RunProgress(processes=run.ranks.size, groups=self.groups)
        self._agree()
        self.bad_files = set(self.progress.bad_files)
        self.log = self._open_log(resume) if run.ranks.first else None
        self.photos: list[str] = []
        self.pixels: Tensor | None = None

    def go(self) -> bool:
        """Take all steps that are left."""
        run, recipe, progress = self.run, self.recipe, self.progress
        take_step = Stepper(
            network=run.network,
            optimizer=self.optimizer,
            settings=run.settings,
            recipe=recipe,
            ranks=run.ranks,
            names=[str(sample.path) for sample in run.dataset.samples],
            pairs=run.pairs,
        )
        numbers = batch_numbers(run.settings.seed, len(run.dataset), recipe.batch_size, progress.step, self.total)
        batches = read_batches(run.dataset, numbers, run.ranks, run.settings.workers or 1, run.pairs)
        signals = stop_request(_PATIENCE if run.ranks.size > 1 else 0.0)
        run.network.train()
        with self.log or nullcontext(), closing(batches), signals as request:
            stopped = (self._at_start() and self._judge_start(request)) or (self._at_end() and self._end_epoch(request))
            saved = clock = monotonic()
            for batch in () if stopped else batches:
                rate = set_rates(self.optimizer, rate_factor(recipe, progress.step, self.per_epoch))
                result = take_step(progress.step, batch, request)
                clock, progress.seconds = monotonic(), progress.seconds + monotonic() - clock
                progress.step += 1
                progress.loss_sum += result.loss
                progress.loss_count += result.count
                self.photos = take_step.photos(batch)
                if len(batch.sample):
                    self.pixels = batch.images[:_LOOKED_AT].to(take_step.device)
                self._tell(result.loss / max(result.count, 1), rate)
                self._name_bad(result.bad)
                stopped = result.stop
                if self._at_end():
                    stopped = self._end_epoch(request)
                    saved = monotonic()
                elif stopped or self._is_due(monotonic() - saved):
                    self._save(best=False)
                    saved = monotonic()
                if stopped:
                    break
        return progress.epochs == recipe.epochs

    def _at_start(self) -> bool:
        """Whether there is a fitted head that has not been validated yet."""
        fitted = self.recipe.start == "fitted" and self.run.validation is not None
        return fitted and self.progress.step == 0 and self.progress.best_epoch is None

    def _judge_start(self, request: StopRequest) -> bool:
        """Validate the network before the first step, as epoch 0; returns whether to stop."""
        judged = self._judge(request)
        if judged is not None:
            self._add_row(judged, epoch=0, train_loss=None)
        return judged is None or self.run.ranks.any(request.asked)

    def _judge(self, request: StopRequest) -> Judgement | None:
        """The metrics of the current network; empty without validation photos, None if asked to stop."""
        run = self.run
        if run.validation is None:
            return Judgement({})
        judged = run.validation.judge(run.network, lambda: run.ranks.any(request.asked))
        run.network.train()
        if judged is not None:
            self._name_bad(judged.bad)
        return judged

    def _at_end(self) -> bool:
        """Whether all steps of an epoch were taken that has not ended yet."""
        return self.progress.step == (self.progress.epochs + 1) * self.per_epoch

    def _end_epoch(self, request: StopRequest) -> bool:
        """Fit the head again, validate, write a row of metrics, save; returns whether to stop."""
        run, progress = self.run, self.progress
        if not progress.loss_count:
            raise DataError(
                f"epoch {progress.epochs + 1}: none of the {len(run.dataset):,} photos could be used; they cannot be "
                "read, or have no label"
            )
        due = self._is_judged(progress.epochs + 1)
        if due and run.refit is not None:
            for note in run.refit():
                if self.log is not None:
                    self.log.note(note, step=progress.step)
                    run.watcher.note(note)
            run.network.train()
        judged = self._judge(request) if due else Judgement({})
        if judged is None:  # the epoch ends when the run continues
            self._save(best=False)
            return True
        self._add_row(judged, epoch=progress.epochs + 1, train_loss=progress.loss_sum / progress.loss_count)
        return run.ranks.any(request.asked)

    def _is_judged(self, epoch: int) -> bool:
        """Whether an epoch ends with a new fit and validation; the last one does, and one before which none did."""
        never = not self.progress.best_figures
        return never or epoch == self.recipe.epochs or epoch % self.recipe.judge_every == 0

    def _add_row(self, judged: Judgement, *, epoch: int, train_loss: float | None) -> None:
        """End an epoch with its metrics."""
        run, progress = self.run, self.progress
        for name, value in judged.metrics.items():
            if not math.isfinite(value):
                raise non_finite(progress.step, f"the validation metric {name}", judged.layer, judged.photos)
        progress.epochs = epoch
        rate = set_rates(self.optimizer, rate_factor(self.recipe, max(progress.step - 1, 0), self.per_epoch))
        metrics = {f"val_{name}": value for name, value in judged.metrics.items()}
        row = {"epoch": epoch, "step": progress.step, "train_loss": train_loss, "rate": rate, **metrics}
        row["seconds"] = progress.seconds
        progress.loss_sum, progress.loss_count = 0.0, 0
        best = is_better(judged.metrics, progress.best_figures, run.settings.best_by)
        if best:
            progress.best_epoch, progress.best_figures = progress.epochs, dict(judged.metrics)
        if self.log is not None:
            self.log.epoch(row)
            run.watcher.epoch(row)
        self._save(best=best)

    def _is_due(self, seconds: float) -> bool:
        """Whether to save again after this many seconds; processes that save together must agree."""
        due = seconds >= 60 * self.run.settings.checkpoint_minutes
        return due if self.shards is None else self.run.ranks.any(due)

    def _save(self, *, best: bool) -> None:
        """Save a checkpoint; a network with NaN in it is never saved.

        One process saves for all, unless each has rows of its own.
        """
        if self.log is not None:
            self.log.sync()
        if self.shards is None and self.log is None:
            return
        self._check_finite()
        tensors, state = capture(
            self.run.network, self.optimizer, self.progress, self.data, graph=bool(self.run.settings.learn)
        )
        if self.shards is None:
            self.checkpoints.save(self.progress.step, tensors, state, best=best)
        else:
            self.shards.save(self.progress.step, *split_rows(tensors), state, best=best)

    def _check_finite(self) -> None:
        """Raise if the network has NaN or infinity in it; processes that save together all raise what one found."""
        network, step, fault = self.run.network, self.progress.step, None
        try:
            check_weights(network, step, self.photos)
            check_answers(network, self.pixels, step, self.photos[:_LOOKED_AT])
        except NonFiniteError as error:
            fault = error
        faults = [fault] if self.shards is None else self.run.ranks.gather(fault)
        for one in faults:
            if one is not None:
                raise one

    def _resume(self) -> RunProgress:
        """Restore the last checkpoint; start from the beginning if there is none."""
        run, checkpoint = self.run, self.checkpoints.last() if self.shards is None else self.shards.last()
        progress, notes = RunProgress(processes=run.ranks.size, groups=self.groups), []
        if checkpoint is not None:
            progress = restore(run.network, self.optimizer, checkpoint.tensors, checkpoint.state, self.data)
            notes = list(checkpoint.notes)
        notes.append(f"going on from step {progress.step:,} of {self.total:,}")
        if progress.processes != run.ranks.size:
            notes.append(
                f"before there were {progress.processes} processes, now {run.ranks.size}: the result will differ a "
                "little from that of an unbroken run"
            )
        elif progress.groups != self.groups:
            notes.append(
                f"before the processes formed {progress.groups} groups, now {self.groups}: the result will differ a "
                "little from that of an unbroken run"
            )
        progress.processes, progress.groups = run.ranks.size, self.groups
        if run.ranks.first:
            for note in notes:
                run.watcher.note(note)
        return progress

    def _agree(self) -> None:
        """Check that all processes start from the same state; they may be on different machines."""
        run = self.run
        states = run.ranks.gather((self.progress.step, self.data))
        if any(one != states[0] for one in states):
            raise JobError(
                "expected all processes of this job to see the same photos, graph and checkpoints; they do not. Let "
                "all machines have the same files, and the run folder in a place that they share"
            )
        state = {**run.network.state_dict(), **optimizer_tensors(run.network, self.optimizer)}
        # Rows that are sharded differ between the processes of a group.
        parts = (state,) if self.shards is None else split_rows({f".{name}": one for name, one in state.items()})
        run.ranks.copy_first([one for one in parts[-1].values() if one.is_floating_point()])
        if run.network.shared_head is not None:
            for rows in parts[:-1]:
                for one in rows.values():
                    run.network.shared_head.groups.copy_first([one])

    def _open_log(self, resume: bool) -> MetricLog:
        """The log of a new run, or that of an old one up to where it continues."""
        log = MetricLog(self.run.folder, tensorboard=self.run.settings.tensorboard)
        if resume:
            log.rewind(self.progress.step, self.progress.epochs)
        return log

    def _tell(self, loss: float, rate: float) -> None:
        """Report a step."""
        progress = self.progress
        if self.log is not None:
            self.log.step(progress.step, progress.epochs + 1, loss, rate)
            self.run.watcher.step(progress.step, self.total, loss, rate)

    def _name_bad(self, errors: Iterable[PhotoFileError]) -> None:
        """Name each photo that cannot be read once."""
        for error in errors:
            if error.path not in self.bad_files:
                self.bad_files.add(error.path)
                self.progress.bad_files.append(error.path)
                if self.log is not None:
                    self.log.note(f"left out: {error}", step=self.progress.step)
                    self.run.watcher.note(f"left out: {error}")
