"""The folder of one evaluation in a run.

    RUN/evaluations/NAME/result.json        the metrics; docs/evaluation.md has every name
                         samples.csv        what was answered to each photo
                         calibration.json   what was fitted, if something was
                         graph.json, details.json, *.safetensors   what a report needs; see report_details.py

It is written when it is complete, in one step, and never replaces another.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from dataclasses import asdict
from pathlib import Path

from finegraph.data.samples import Samples
from finegraph.errors import GraphFileError, InputError, RunFolderError
from finegraph.evaluation import CalibrationFit, Evaluation
from finegraph.evaluation.sample_results import write_samples
from finegraph.files.folder_swap import temporary_folder
from finegraph.graph.formats.text_file import write_text
from finegraph.model.answering.unknown import DEFAULT_SCORE
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.workflows.evaluation.report_details import FoundDetails, write_details

_NAME = re.compile(r"\w[\w.+=-]*")


def check_evaluation_name(evaluations: Path, name: str) -> None:
    """Raise if an evaluation cannot have a name.

    Raises:
        InputError: it is not a name for a folder.
        RunFolderError: it is taken.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            "expected a name for the evaluation of letters, digits and any of '_.+=-', beginning with a letter or "
            f"digit, got {name!r}"
        )
    if (evaluations / name).exists():
        raise _taken(evaluations / name)


def default_name(split: str, views: int, box: bool | None, was_calibrated: bool) -> str:
    """A name made of the split and what is special: `test`, `test-10views-box`."""
    parts = [re.sub(r"[^\w.+=-]+", "_", split).lstrip(".+=-") or "photos"]
    parts += ["10views"] * (views == 10)
    parts += [] if box is None else ["box" if box else "nobox"]
    parts += ["calibrated"] * was_calibrated
    return "-".join(parts)


def write_evaluation(
    evaluations: Path,
    name: str | None,
    stem: str,
    evaluation: Evaluation,
    samples: Samples,
    classifier: PhotoClassifier,
    fit: CalibrationFit | None,
    details: FoundDetails | None = None,
) -> Path:
    """Write an evaluation under a temporary name, then give it its own.

    Args:
        evaluations: the folder of all evaluations of a run; made if it is not there.
        name: what the evaluation is called; None for `stem`, with a number if that is taken.
        stem: the default name.
        evaluation: the metrics and the results of single photos.
        samples: the photos.
        classifier: what was evaluated.
        fit: what was fitted, if something was.
        details: what a report needs, if it is wanted.

    Returns:
        Its folder.

    Raises:
        RunFolderError: the name is taken, or the folder cannot be written.
    """
    try:
        with temporary_folder(evaluations) as temporary:
            result = evaluation.result
            write_samples(
                temporary / "samples.csv",
                evaluation.samples,
                samples,
                classifier.graph,
                score=DEFAULT_SCORE if classifier.unknown is None else classifier.unknown.score,
                bad={bad_photo.path: bad_photo.reason for bad_photo in result.bad_photos},
            )
            if fit is not None:
                content = {"split": result.calibrated_on, **asdict(fit)}
                write_text(str(temporary / "calibration.json"), json.dumps(content, indent=2, allow_nan=False) + "\n")
            if details is not None:
                write_details(temporary, details, classifier.graph)
            result.write(temporary / "result.json")
            return _renamed(temporary, evaluations, name, stem)
    except (OSError, GraphFileError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise RunFolderError(f"{evaluations}: the evaluation cannot be written: {reason}") from error


def _renamed(temporary: Path, evaluations: Path, name: str | None, stem: str) -> Path:
    """Give a folder its name, or without one the default name with the first number that is free."""
    for number in itertools.count(1):
        target = evaluations / (name or (stem if number == 1 else f"{stem}-{number}"))
        if not target.exists():
            try:
                os.rename(temporary, target)
                return target
            except OSError:
                if not target.exists():  # else another process was quicker
                    raise
        if name is not None:
            raise _taken(target)
    raise AssertionError("numbers do not end")


def _taken(folder: Path) -> RunFolderError:
    return RunFolderError(f"{folder}: there is an evaluation of this name already; choose another name")
