"""The result of an evaluation: one value, one JSON document with a version. docs/evaluation.md explains every name.

All shares are fractions between 0 and 1. A metric over no photo at all is None, in JSON `null`. JSON knows no infinity
and no NaN, and neither does a result.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from finegraph.errors import InputError
from finegraph.evaluation.asking import Asked
from finegraph.evaluation.metrics import Bin, Calibration, Mistakes
from finegraph.evaluation.number_metrics import NumberMetrics, OrderMetrics
from finegraph.evaluation.retrieval import Retrieval
from finegraph.evaluation.sure import Sure
from finegraph.evaluation.temperature import TemperatureFit
from finegraph.evaluation.unknown_metrics import Unknown
from finegraph.graph.formats.text_file import write_text

FORMAT = "finegraph.evaluation"
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class BadPhoto:
    """A photo that could not be read and was left out: its path and the reason."""

    path: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class EvaluationResult:
    """What an evaluation found. docs/evaluation.md has every name with its meaning.

    The first block says what was evaluated, the second how, the rest what came out.
    """

    model: str | None = None
    data: str | None = None
    split: str | None = None
    graph: str
    photos: int
    labelled: int
    bad_photos: tuple[BadPhoto, ...] = ()

    views: int = 1
    box: bool = False
    temperature: float = 1.0
    calibrated_on: str | None = None
    temperature_fit: TemperatureFit | None = None

    top1: float | None
    top5: float | None
    kinds: dict[str, float | None]
    kind_photos: dict[str, int]
    full_path: float | None
    inconsistency: float | None
    mistake_severity: float | None
    mistakes: Mistakes
    mean_per_class: float | None
    per_class: dict[str, float]
    class_photos: dict[str, int]
    nll: float | None
    calibration: dict[str, Calibration]
    sure: Sure
    unknown: Unknown | None = None
    retrieval: Retrieval | None = None
    questions: Asked | None = None
    numbers: dict[str, NumberMetrics] = field(default_factory=dict)
    orders: dict[str, OrderMetrics] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON data, with the name and version of the form."""
        return {"format": FORMAT, "version": VERSION, **asdict(self)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> EvaluationResult:
        """The result that `to_dict` gave.

        Raises:
            InputError: it is no such result, or one of a newer version.
        """
        if not isinstance(content, Mapping) or content.get("format") != FORMAT:
            raise InputError(f"this is no evaluation result: expected an object with the format {FORMAT!r}")
        if content.get("version") != VERSION:
            raise InputError(
                f"the evaluation result has version {content.get('version')!r}, expected {VERSION}; "
                "read it with the version of finegraph that wrote it, or a newer one"
            )
        values = {name: value for name, value in content.items() if name not in ("format", "version")}
        try:
            for name, make in _PARTS.items():
                if values.get(name) is not None:
                    values[name] = make(values[name])
            return cls(**values)
        except (TypeError, AttributeError, KeyError) as error:
            raise InputError(f"the evaluation result has missing or unknown parts: {error}") from None

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the result as JSON, in one step.

        Raises:
            GraphFileError: the file cannot be written.
        """
        text = json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False) + "\n"
        # A file name need not be text at all; what Python makes of such bytes is written as the escape that JSON has.
        write_text(os.fspath(path), text.encode("utf-8", "backslashreplace").decode("utf-8"))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> EvaluationResult:
        """Read a result that `write` wrote.

        Raises:
            InputError: the file holds no such result, or one of a newer version.
        """
        with open(path, encoding="utf-8") as file:
            text = file.read()
        try:
            return cls.from_dict(json.loads(text))
        except (ValueError, RecursionError) as error:  # an InputError is a ValueError too
            raise InputError(f"{os.fspath(path)}: {error}") from None


def _calibration(values: Mapping[str, Any]) -> dict[str, Calibration]:
    """The calibration of the fine label and each kind, from JSON."""
    return {
        name: Calibration(**{**entry, "bins": tuple(Bin(**bin_) for bin_ in entry["bins"])})
        for name, entry in values.items()
    }


_PARTS: dict[str, Callable[[Any], object]] = {
    "bad_photos": lambda values: tuple(BadPhoto(**one) for one in values),
    "temperature_fit": lambda value: TemperatureFit(**value),
    "mistakes": lambda value: Mistakes(**value),
    "calibration": _calibration,
    "sure": lambda value: Sure(**value),
    "unknown": lambda value: Unknown(**value),
    "retrieval": lambda value: Retrieval(**value),
    "questions": lambda value: Asked(
        **{**value, **{name: tuple(value[name]) for name in ("settled", "right", "top1")}}
    ),
    "numbers": lambda values: {name: NumberMetrics(**one) for name, one in values.items()},
    "orders": lambda values: {name: OrderMetrics(**one) for name, one in values.items()},
}
"""The parts that are more than numbers and names, each with what makes it of its JSON form."""
