"""The folder of a study: its files, and how it resumes after an interruption.

    study.toml       the study, resolved: written first, and not changed once there is a cell
    data.json        what identifies the photos and the graph
    cells/*.json     one file per cell that is done, with its own checksum: the truth of which the rest is made
    results.csv      one row per cell, split, number of views and metric; results.json has the same and all about it
    summary.*        means, intervals and differences to softmax; tables.md and figures/ (plots) are made of it
    runs/            with tune = "all": the training runs of cells

A cell is written in one step, after it is done: a study that is killed has whole cells and nothing else. A file that
is no longer as it was written is refused by its name.
"""

from __future__ import annotations

import base64
import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from finegraph.errors import RunFolderError, SettingsError
from finegraph.files.csv_table import csv_text, defused
from finegraph.files.durable import is_temporary, make_folder, reason_of, remove_stale, write_new
from finegraph.files.folder_lock import LOCK_FILE, FolderLock
from finegraph.files.sealed_json import seal, unseal
from finegraph.files.toml_text import toml_text
from finegraph.graph.formats.text_file import write_text
from finegraph.workflows.studies.grid import Cell
from finegraph.workflows.studies.spec import Study, study_of

COLUMNS = ("head", "kinds", "amount", "seed", "split", "views", "box", "metric", "value")
FREE = ("title",)
"""Settings that may change within a study."""
_STUDY, _DATA, _CELLS = "study.toml", "data.json", "cells"


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """What a cell gave.

    Attributes:
        cell: which one.
        rows: split, views, metric and value.
        tried: how many settings were tried.
        chosen: the strengths that were chosen.
        photos: how many photos it was fitted on.
        seconds: how long it took with everything.
        per_photo: by split, views and metric, a value per photo; kept if there is one draw only.
        bad: the photos that could not be read, with the reason of each.
    """

    cell: Cell
    rows: list[tuple[str, int, str, float]]
    tried: int
    chosen: list[dict[str, Any]]
    photos: int
    seconds: float
    per_photo: dict[tuple[str, int, str], Float[NDArray[np.float64], " photo"]] = field(default_factory=dict)
    bad: dict[str, str] = field(default_factory=dict)


class StudyFolder:
    """The folder of a study on the disk."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def cells(self) -> Path:
        """The files of cells."""
        return self.path / _CELLS

    @property
    def runs(self) -> Path:
        """The training runs of cells."""
        return self.path / "runs"

    @property
    def plots(self) -> Path:
        """The plots; the folder keeps its first name, `figures`."""
        return self.path / "figures"

    def lock(self) -> FolderLock:
        """Make the folder, and let no other process run a study in it.

        Raises:
            RunFolderError: another process has it, it holds other things than a study, or it cannot be written.
        """
        try:
            names = sorted(os.listdir(self.path)) if self.path.exists() else []
            make_folder(self.path)
        except OSError as error:
            raise RunFolderError(f"{self.path}: cannot hold a study: {reason_of(error)}") from error
        empty = () if self.begun else (_CELLS, _DATA)  # what a start leaves that ended before its first cell
        other = [name for name in names if name not in (LOCK_FILE, *empty) and not is_temporary(name)]
        if other and _STUDY not in names:
            few = ", ".join(other[:3]) + (", ..." if len(other) > 3 else "")
            raise RunFolderError(
                f"{self.path}: expected a new folder, or one where a study was begun, but there is something else in "
                f"it ({few}); choose another folder"
            )
        return FolderLock(
            self.path, noun="study", purpose="a study", instead=", or choose another folder", error=RunFolderError
        )

    def open(self, study: Study, facts: Mapping[str, Any]) -> None:
        """Begin the study, or continue it.

        Raises:
            SettingsError: another study was begun here; what differs is in the message.
            RunFolderError: the folder holds something else, or cannot be written.
        """
        try:
            make_folder(self.cells)
            remove_stale(self.cells)
            remove_stale(self.path)
            self._begin(study)
            self._same_data(facts)
        except OSError as error:
            raise RunFolderError(f"{self.path}: cannot hold a study: {reason_of(error)}") from error

    def _begin(self, study: Study) -> None:
        file = self.path / _STUDY
        if self.begun:
            self.refuse_another(study)
        else:
            file.unlink(missing_ok=True)
            write_new(file, toml_text(study.to_dict(), file).encode())

    @property
    def begun(self) -> bool:
        """Whether there is something that belongs to one study and no other: a cell, or a part of one."""
        return any(place.is_dir() and any(place.iterdir()) for place in (self.cells, self.runs))

    def refuse_another(self, study: Study, free: Sequence[str] = FREE) -> None:
        """Refuse a folder that has another study; nothing is written.

        Args:
            study: the one that is asked for.
            free: settings that may differ.

        Raises:
            SettingsError: what differs is in the message.
            RunFolderError: what the folder says of its study cannot be read.
        """
        file = self.path / _STUDY
        if not file.is_file() or not self.begun:
            return
        try:
            values = tomllib.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:  # of TOML or of UTF-8
            raise RunFolderError(
                f"{file}: expected the study that was begun here, got no TOML: {error}; bring the file back, or choose "
                "another folder"
            ) from error
        was, now = study_of(values, str(file)).to_dict(), study.to_dict()
        names = [name for name in dict.fromkeys([*was, *now]) if was.get(name) != now.get(name) and name not in free]
        if names:
            listed = "; ".join(f"{name} was {was.get(name)!r}, now {now.get(name)!r}" for name in names)
            raise SettingsError(
                f"{self.path}: another study was begun in this folder: {listed}; put the old file back to continue "
                "it, or choose another folder"
            )

    def _same_data(self, facts: Mapping[str, Any]) -> None:
        file = self.path / _DATA
        if not file.is_file() or not self.begun:
            file.unlink(missing_ok=True)
            write_new(file, seal(dict(facts)))
            return
        was = self._unsealed(file)
        names = [name for name in was if was[name] != facts.get(name)]
        if names:
            listed = "; ".join(f"{name} was {str(was[name])[:12]}, now {str(facts.get(name))[:12]}" for name in names)
            raise SettingsError(
                f"{self.path}: the data are not those that the study began with: {listed}; restore them, or choose "
                "another folder"
            )

    def has(self, cell: Cell) -> bool:
        """Whether a cell is done."""
        return self._file(cell).is_file()

    def add(self, result: CellResult) -> None:
        """Keep what a cell gave."""
        content = {
            "cell": result.cell.to_dict(),
            "rows": [list(row) for row in result.rows],
            "tried": result.tried,
            "chosen": result.chosen,
            "photos": result.photos,
            "seconds": result.seconds,
            "per_photo": [[*key, _packed(values)] for key, values in result.per_photo.items()],
            "bad": result.bad,
        }
        try:
            write_new(self._file(result.cell), seal(content))
        except FileExistsError:
            raise RunFolderError(f"{self._file(result.cell)}: this cell is done already") from None

    def read(self, cell: Cell) -> CellResult:
        """What a cell gave.

        Raises:
            RunFolderError: the file is not as it was written.
        """
        content = self._unsealed(self._file(cell))
        if content["cell"] != cell.to_dict():
            raise RunFolderError(
                f"{self._file(cell)}: expected the cell {cell.text}, found another one; remove the file to have it "
                "made again"
            )
        return CellResult(
            cell=Cell(**content["cell"]),
            rows=[(split, views, metric, value) for split, views, metric, value in content["rows"]],
            tried=content["tried"],
            chosen=content["chosen"],
            photos=content["photos"],
            seconds=content["seconds"],
            per_photo={
                (split, views, metric): _unpacked(packed) for split, views, metric, packed in content["per_photo"]
            },
            bad=content.get("bad", {}),
        )

    def _file(self, cell: Cell) -> Path:
        return self.cells / f"{cell.name}.json"

    def _unsealed(self, file: Path) -> dict[str, Any]:
        try:
            return unseal(file.read_bytes())
        except ValueError as error:
            raise RunFolderError(f"{file}: {error}; remove the file to have it made again") from error

    def write_results(self, results: Sequence[CellResult], about: Mapping[str, Any]) -> None:
        """Write `results.csv` and `results.json` of all cells so far, each in one step."""
        rows = result_rows(results)
        self.write_table("results.csv", COLUMNS, rows)
        cells = [
            {**result.cell.to_dict(), "photos": result.photos, "tried": result.tried, "chosen": result.chosen,
             "seconds": result.seconds}
            for result in results
        ]  # fmt: skip
        self.write_json("results.json", {"format": "finegraph.study", "version": 1, **about, "cells": cells,
                                         "rows": rows})  # fmt: skip

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a JSON file in one step."""
        write_text(str(self.path / name), json.dumps(content, indent=1, allow_nan=False) + "\n")

    def write_table(self, name: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
        """Write a CSV file in one step; None is an empty cell."""
        cells = ([_csv_cell(row[column]) for column in columns] for row in rows)
        write_text(str(self.path / name), csv_text([columns, *cells]))


def result_rows(results: Sequence[CellResult]) -> list[dict[str, Any]]:
    """All results, one row per value."""
    return [
        {"head": result.cell.head, "kinds": result.cell.kinds, "amount": result.cell.amount, "seed": result.cell.seed,
         "split": split, "views": views, "box": result.cell.box, "metric": metric, "value": value}
        for result in results
        for split, views, metric, value in result.rows
    ]  # fmt: skip


def _csv_cell(value: Any) -> str:
    """A value as a cell: yes and no for truth, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return defused(value) if isinstance(value, str) else repr(value)


def _packed(values: NDArray[np.float64]) -> str:
    """Numbers as text; float32 is enough for what was computed in float32."""
    return base64.b64encode(values.astype("<f4").tobytes()).decode("ascii")


def _unpacked(text: str) -> NDArray[np.float64]:
    return np.frombuffer(base64.b64decode(text), "<f4").astype(np.float64)
