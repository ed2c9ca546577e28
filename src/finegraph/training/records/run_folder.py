"""The run folder: the place of all files of a run.

    runs/NAME/config.toml      the resolved settings, written once
              starts.jsonl     versions and commits, a line for each time it was started or resumed
              labels.json      what was read from a label store, if the run was trained from one
              photos.json      which photos are trained on and which are held out, if the run chose them
              log.jsonl        what happened, line by line
              metrics.csv      a row per epoch
              checkpoints/     what is needed to go on
              evaluations/     results, one folder each
              features/        of the training photos, if the whole network was trained; may be deleted
              model/           the trained model

A folder with a `config.toml` is a run. Things are added to it and nothing is overwritten. Nothing here needs torch.
"""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finegraph._version import __version__
from finegraph.errors import RunFolderError, near_matches
from finegraph.files.durable import is_temporary, make_folder, reason_of, remove_stale, write_new
from finegraph.files.folder_lock import LOCK_FILE, FolderLock
from finegraph.files.sealed_json import seal, unseal
from finegraph.files.toml_text import toml_text

_CONFIG = "config.toml"
_LABELS = "labels.json"
_PHOTOS = "photos.json"
_STARTS = "starts.jsonl"


@dataclass(frozen=True)
class RunFolder:
    """A run on the disk; make one by `create` or `open`.

    Attributes:
        path: the folder.

    Example:
        >>> import tempfile
        >>> run = RunFolder.create(tempfile.mkdtemp() + "/menu")
        >>> with run.lock():
        ...     run.write_config({"seed": 0, "lr": 0.001})
        >>> RunFolder.open(run.path).read_config()
        {'seed': 0, 'lr': 0.001}
    """

    path: Path

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> RunFolder:
        """Make the folder of a new run, and those above it.

        An empty folder is taken, also one where another start ended before it wrote anything.

        Raises:
            RunFolderError: there is a run or something else already, or the folder cannot be made.
        """
        run = cls(Path(path))
        try:
            make_folder(run.path)
            names = sorted(name for name in os.listdir(run.path) if not _is_leftover(name))
        except OSError as error:
            raise RunFolderError(f"{run.path}: cannot make the folder of a run: {reason_of(error)}") from error
        if _CONFIG in names:
            raise RunFolderError(
                f"{run.path}: expected a new name, but this run exists already; resume it, or choose another name"
            )
        if names:
            few = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            raise RunFolderError(
                f"{run.path}: expected a new or empty folder for a run, but there is something else in it ({few}); "
                "choose another name"
            )
        return run

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RunFolder:
        """The folder of a run that exists. Reading it needs no lock.

        Raises:
            RunFolderError: there is no run.
        """
        run = cls(Path(path))
        if run.config_file.is_file():
            return run
        if not run.path.exists():
            near = near_matches(run.path.name, _runs_in(run.path.parent))
            hint = f"; did you mean {' or '.join(repr(str(run.path.parent / name)) for name in near)}?" if near else ""
            raise RunFolderError(f"{run.path}: expected the folder of a run, but there is no such folder{hint}")
        if not run.path.is_dir():
            raise RunFolderError(f"{run.path}: expected the folder of a run, got a file")
        inside = [str(run.path / name) for name in _runs_in(run.path)[:3]]
        hint = f"; there are runs in it: {', '.join(inside)}" if inside else ""
        if (run.path.parent / _CONFIG).is_file():
            hint = f"; the run is {run.path.parent}"
        raise RunFolderError(f"{run.path}: this is no folder of a run, it has no {_CONFIG}{hint}")

    @property
    def config_file(self) -> Path:
        """The resolved settings."""
        return self.path / _CONFIG

    @property
    def starts_file(self) -> Path:
        """What the run was made with, one JSON object for each start."""
        return self.path / _STARTS

    @property
    def labels_file(self) -> Path:
        """The labels that were read from a label store."""
        return self.path / _LABELS

    @property
    def photos_file(self) -> Path:
        """Which photos are trained on and which are held out."""
        return self.path / _PHOTOS

    @property
    def log_file(self) -> Path:
        """What happened, one JSON object per line."""
        return self.path / "log.jsonl"

    @property
    def metrics_file(self) -> Path:
        """One row per epoch."""
        return self.path / "metrics.csv"

    @property
    def checkpoints(self) -> Path:
        """The folder for `CheckpointFolder`."""
        return self.path / "checkpoints"

    @property
    def evaluations(self) -> Path:
        """The folder with one folder per evaluation."""
        return self.path / "evaluations"

    @property
    def model(self) -> Path:
        """The model folder."""
        return self.path / "model"

    @property
    def tensorboard(self) -> Path:
        """The folder of TensorBoard's files, if they are asked for."""
        return self.path / "tensorboard"

    def lock(self, take: bool = True) -> AbstractContextManager[object]:
        """Take the right to train in this run, as a context manager.

        What a process that died left half written is removed.

        Args:
            take: False in the ranks that do not write; they do nothing.

        Raises:
            RunFolderError: another living process trains in it.
        """
        if not take:
            return nullcontext()
        lock = FolderLock(
            self.path, noun="run", purpose="training", instead=", or train under another name", error=RunFolderError
        )
        try:
            remove_stale(self.path)
            remove_stale(self.checkpoints)
        except OSError as error:
            lock.close()
            raise RunFolderError(
                f"{self.path}: what an interrupted process left cannot be removed: {reason_of(error)}"
            ) from error
        return lock

    def remove_if_unused(self) -> None:
        """Remove the folder of a run that holds nothing but what it began with, so that its name can be used again."""
        if {name for name in os.listdir(self.path) if not _is_leftover(name)} <= {_CONFIG, _STARTS, _LABELS, _PHOTOS}:
            shutil.rmtree(self.path)

    def write_config(self, settings: Mapping[str, object]) -> None:
        """Write the settings as `config.toml`, once.

        Args:
            settings: values by name, in tables if they are nested. TOML has no null: what is None is left out.

        Raises:
            RunFolderError: there are settings already, or these cannot be written.
        """
        text = f"# The settings of this run, by finegraph {__version__}.\n{toml_text(settings, self.config_file)}"
        data = text.encode("utf-8")
        try:
            write_new(self.config_file, data)
        except FileExistsError:
            raise RunFolderError(
                f"{self.config_file}: the settings of this run are written already and never change; "
                "resume it, or choose another name"
            ) from None
        except OSError as error:
            raise RunFolderError(
                f"{self.config_file}: cannot be written: {reason_of(error)}; it needs {len(data):,} bytes"
            ) from error

    def read_config(self) -> dict[str, Any]:
        """The settings as `write_config` wrote them; tuples are lists, and what was None is not there.

        Raises:
            RunFolderError: the file cannot be read.
        """
        try:
            return tomllib.loads(self.config_file.read_text("utf-8"))
        except OSError as error:
            raise RunFolderError(f"{self.config_file}: cannot be read: {reason_of(error)}") from error
        except ValueError as error:  # no TOML, or no UTF-8
            raise RunFolderError(
                f"{self.config_file}: expected the settings of this run as TOML: {error}; restore the file"
            ) from error


def _runs_in(folder: Path) -> list[str]:
    """The names of the runs in a folder."""
    try:
        return sorted(name for name in os.listdir(folder) if (folder / name / _CONFIG).is_file())
    except OSError:
        return []


def _is_leftover(name: str) -> bool:
    """Whether a name is a trace of an interrupted start, or of one that is under way."""
    return name == LOCK_FILE or is_temporary(name)


def write_kept(path: Path, form: Mapping[str, object], content: Mapping[str, object]) -> None:
    """Write a file of a run; one that is there stays.

    Args:
        path: the file.
        form: its format and version.
        content: the rest.

    Raises:
        RunFolderError: it cannot be written.
    """
    data = seal({**form, **content})
    try:
        with suppress(FileExistsError):
            write_new(path, data)
    except OSError as error:
        raise RunFolderError(f"{path}: cannot be written: {reason_of(error)}; it needs {len(data):,} bytes") from error


def read_kept(path: Path, form: Mapping[str, object], what: str) -> dict[str, Any] | None:
    """The content of a file of a run; None if there is none.

    Args:
        path: the file.
        form: the format and version that it must have.
        what: what it holds, for messages.

    Raises:
        RunFolderError: the file is damaged, or of a later version.
    """
    try:
        content = unseal(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunFolderError(f"{path}: cannot be read: {reason_of(error)}") from error
    except ValueError as error:
        raise RunFolderError(f"{path}: expected {what}: {error}") from error
    if {name: content.get(name) for name in form} != form:
        raise RunFolderError(f"{path}: expected {form}, got another form; a later finegraph may read it")
    return content
