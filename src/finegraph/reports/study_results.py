"""The summary of a study, as a report shows it: a table per place of measurement, a curve over amounts, and times.

Read from `summary.csv`: one row per head, set of kinds, amount, split, views, box and metric, with mean and interval
over draws, and the difference from softmax. The title is that of `study.toml`, the units of numbers are those of
`summary.json`. Cost: linear in the rows.
"""

from __future__ import annotations

import csv
import json
import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from finegraph.errors import RunFolderError
from finegraph.evaluation.study_metrics import KIND, TIMES

TEXT = ("head", "kinds", "amount", "split", "views", "box", "metric", "interval", "verdict")
NUMBERS = ("mean", "sd", "low", "high", "difference", "difference_low", "difference_high")
NEEDED = ("head", "kinds", "amount", "split", "metric", "mean")
_EARLIER: dict[str, str] = {"no difference": "cannot tell"}
"""Verdicts as earlier versions wrote them, and what they are called now."""


@dataclass(frozen=True)
class StudyRow:
    """One row of the summary; a number is None if the cell is empty."""

    text: dict[str, str]
    numbers: dict[str, float | None]

    @property
    def method(self) -> str:
        """The head with its kinds."""
        kinds = self.text["kinds"]
        return f"{self.text['head']} ({kinds})" if kinds else self.text["head"]

    @property
    def place(self) -> str:
        """Where it was measured, in words."""
        views, box = self.text["views"], self.text["box"]
        return ", ".join(
            [self.text["split"]] + [f"{views} views"] * (views not in ("", "1")) + ["with box"] * (box == "yes")
        )


@dataclass(frozen=True)
class StudyResults:
    """A study.

    Attributes:
        name: of its folder.
        rows: of its summary.
        title: what the study calls itself; the name if it does not.
        units: of its numbers, by name.
    """

    name: str
    rows: tuple[StudyRow, ...]
    title: str
    units: dict[str, str] = field(default_factory=dict)

    def of(self, metric: str, place: str | None = None) -> list[StudyRow]:
        """The rows of a metric, at one place or anywhere."""
        return [row for row in self.rows if row.text["metric"] == metric and place in (None, row.place)]

    def places(self) -> list[str]:
        """Where the accuracy was measured, in the order of the file."""
        return list(dict.fromkeys(row.place for row in self.of("top1")))

    def metrics(self, place: str) -> list[str]:
        """The metrics measured there, without times; kinds, of which there may be very many, last."""
        at_place = (row.text["metric"] for row in self.rows if row.place == place)
        metrics = [metric for metric in dict.fromkeys(at_place) if metric not in TIMES]
        return sorted(metrics, key=lambda metric: metric.startswith(KIND))


def is_study(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder is that of a study."""
    return (Path(folder) / "summary.csv").is_file() and (Path(folder) / "results.csv").is_file()


def read_study_results(folder: str | os.PathLike[str]) -> StudyResults:
    """Read the summary of a study.

    Raises:
        RunFolderError: the file cannot be read or has not the columns.
    """
    path = Path(folder) / "summary.csv"
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = csv.DictReader(file)
            missing = [name for name in NEEDED if name not in (lines.fieldnames or ())]
            if missing:
                raise RunFolderError(f"{path}: expected the columns {', '.join(NEEDED)}, without {', '.join(missing)}")
            rows = [_row(line) for line in lines]
    except (OSError, UnicodeError, ValueError, csv.Error) as error:
        raise RunFolderError(f"{path}: the summary of the study cannot be read: {error}") from error
    name = Path(folder).absolute().name
    units = _units(Path(folder) / "summary.json")
    return StudyResults(name, tuple(rows), _title(Path(folder) / "study.toml") or name, units)


def _title(path: Path) -> str:
    """What a study calls itself, or else the photos it is about; empty if its file is not there."""
    try:
        settings = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path}: the settings of the study cannot be read: {error}") from error
    return str(settings.get("title") or settings.get("data") or "")


def _units(path: Path) -> dict[str, str]:
    """The units of numbers; none of a study of an earlier version, or whose file is not there."""
    try:
        about = json.loads(path.read_text("utf-8"))
        return {str(name): str(unit) for name, unit in about["data"].get("numbers", {}).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise RunFolderError(f"{path}: the summary of the study cannot be read: {error}") from error


def _row(line: dict[str, str]) -> StudyRow:
    text = {name: _plain(line.get(name) or "") for name in TEXT}
    text["verdict"] = _EARLIER.get(text["verdict"], text["verdict"])
    return StudyRow(text, {name: float(line[name]) if line.get(name) else None for name in NUMBERS})


def _plain(cell: str) -> str:
    """A cell without the apostrophe that keeps spreadsheets from computing it."""
    return cell[1:] if cell[:1] == "'" and cell[1:2] in ("=", "+", "-", "@") else cell


def amounts(rows: Sequence[StudyRow]) -> list[str]:
    """The amounts of training photos, from few to all."""
    return sorted(dict.fromkeys(row.text["amount"] for row in rows), key=lambda text: (_amount(text), text))


def _amount(text: str) -> float:
    try:
        return float(text.rstrip("%"))
    except ValueError:
        return float("inf")


def amount_axis(steps: Sequence[str]) -> str:
    """What amounts are: photos per class, shares of the photos, or some of both."""
    shares = [step.endswith("%") for step in steps if step != "all"]
    if shares and all(shares):
        return "share of the training photos"
    return "photos per class, or share" if any(shares) else "training photos per class"


def amount_words(amount: str) -> str:
    """An amount of training photos, as people read it."""
    if amount == "all":
        return "all photos"
    if amount.endswith("%"):
        return f"{amount} of the photos"
    return f"{amount} photo{'' if amount == '1' else 's'} per class"
