"""The environment of a run: versions, and the commits of the user's own folders.

    runs/NAME/starts.jsonl    one JSON object for each time the run was started or resumed: `time` (UTC), `finegraph`,
                              `python`, `torch` (versions), and `commits`, which may be empty

A commit is that of the Git repository which holds the working folder, or the photos. `changed` says whether tracked
files differ from it. If there is no Git or no commit, there is no entry. Cost: two calls of git per folder.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from finegraph._version import __version__
from finegraph.files.line_file import Line, LineFile, cut_lines
from finegraph.training.records.run_folder import RunFolder

_T = TypeVar("_T", "Commit", "Start")
_SECONDS = 20.0
"""How long git may take; a folder that takes longer has no commit here."""


@dataclass(frozen=True, kw_only=True)
class Commit:
    """The state of a folder of the user.

    Attributes:
        folder: the repository.
        commit: the full name of the commit.
        changed: whether tracked files differ from it.
    """

    folder: str
    commit: str
    changed: bool

    def __str__(self) -> str:
        """The commit, marked where files were changed since."""
        return f"{self.commit}{' with changes' if self.changed else ''} ({self.folder})"


@dataclass(frozen=True, kw_only=True)
class Start:
    """One start of a run.

    Attributes:
        time: when, in UTC.
        finegraph: the version of finegraph.
        python: the version of Python.
        torch: the version of torch.
        commits: of the working folder and of the photos, if they are in Git repositories.
    """

    time: str
    finegraph: str
    python: str
    torch: str
    commits: tuple[Commit, ...] = ()


def add_start(run: RunFolder, photos: Path) -> Start:
    """Write down a start of a run; its lock should be held.

    Args:
        run: the run folder.
        photos: the folder of the photos.

    Raises:
        RunFolderError: the line cannot be written.
    """
    commits = [folder_commit(folder) for folder in (Path.cwd(), photos)]
    start = Start(
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        finegraph=__version__,
        python=platform.python_version(),
        torch=version("torch"),
        commits=tuple(dict.fromkeys(commit for commit in commits if commit is not None)),
    )
    cut_lines(run.starts_file, lambda line: Line.BEFORE if _parse(line) is not None else Line.BROKEN)
    file = LineFile(run.starts_file)
    try:
        file.add(json.dumps(asdict(start), ensure_ascii=False))
        file.sync()
    finally:
        file.close()
    return start


def read_starts(run: RunFolder) -> list[Start]:
    """The starts of a run, the first one first; none of a run of an earlier version. Damaged lines are left out."""
    try:
        lines = run.starts_file.read_bytes().splitlines()
    except OSError:
        return []
    return [start for start in map(_parse, lines) if start is not None]


def folder_commit(folder: Path) -> Commit | None:
    """The commit of the Git repository that a folder is in; None if there is none, or no git."""
    names = _git(folder, "rev-parse", "--show-toplevel", "HEAD")
    if names is None or len(names) != 2:
        return None
    status = _git(folder, "-c", "core.fsmonitor=false", "status", "--porcelain", "--untracked-files=no")
    return None if status is None else Commit(folder=names[0], commit=names[1], changed=bool(status))


def _git(folder: Path, *arguments: str) -> list[str] | None:
    """The lines that git prints, without taking locks of the repository; None if it fails."""
    try:
        done = subprocess.run(
            ["git", "-C", os.fspath(folder), *arguments],
            capture_output=True,
            check=True,
            timeout=_SECONDS,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return os.fsdecode(done.stdout).splitlines()


def _parse(line: bytes) -> Start | None:
    """A line of the file, whatever else a later version has added to it; None if it is damaged."""
    try:
        entry = json.loads(line)
        commits = tuple(_named(Commit, commit) for commit in entry["commits"])
        return _named(Start, {**entry, "commits": commits})
    except (ValueError, TypeError, KeyError):
        return None


def _named(kind: type[_T], entries: dict[str, Any]) -> _T:
    """An object from the entries that are its fields."""
    return kind(**{field.name: entries[field.name] for field in fields(kind)})
