"""Finds the model folder for the path that a user names.

A model folder is named as it is; a run folder has its model in `model`. Anything else is explained, with the models
that are near. Cost: a few looks at names in one or two folders.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from finegraph.errors import ModelFolderError, near_matches

CONFIG = "config.json"
MODEL_FORMAT = "finegraph.model"
MODEL_OF_RUN = "model"
"""Where a run folder has its model."""
_RUN_FILES = ("config.toml", "log.jsonl", "checkpoints")
_MAX_HINTS = 3


def find_model(folder: str | os.PathLike[str]) -> Path:
    """The model folder in a run folder, or the model folder itself.

    Raises:
        ModelFolderError: there is none.
    """
    path = Path(folder)
    if not path.is_dir():
        if path.exists():
            raise ModelFolderError(f"{path}: expected a model folder or a run folder, got a file{_of_file(path)}")
        raise ModelFolderError(f"{path}: there is no such folder{_near_folder(path)}")
    for place in (path, path / MODEL_OF_RUN):
        if (place / CONFIG).exists():
            return place
    if any((path / name).exists() for name in _RUN_FILES):
        raise ModelFolderError(f"{path}: this run has no folder {MODEL_OF_RUN!r} yet; finish its training first")
    raise ModelFolderError(
        f"{path}: expected a model folder, which has a {CONFIG}, or a run folder with one in {MODEL_OF_RUN!r}, "
        f"got another folder{_models_in(path)}"
    )


def is_model_folder(path: Path) -> bool:
    """Whether a folder has the config of a model, of whatever version."""
    try:
        content = json.loads((path / CONFIG).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("format") == MODEL_FORMAT


def _of_file(path: Path) -> str:
    return f"; did you mean {str(path.parent)!r}?" if (path.parent / CONFIG).exists() else ""


def _near_folder(path: Path) -> str:
    """Folders with nearly that name."""
    try:
        names = [entry.name for entry in os.scandir(path.parent) if entry.is_dir()]
    except OSError:
        return f", nor the folder {str(path.parent)!r}" if not path.parent.exists() else ""
    return _did_you_mean([path.parent / name for name in near_matches(path.name, names)])


def _models_in(path: Path) -> str:
    """The runs and models in a folder."""
    try:
        inner = sorted(entry.name for entry in os.scandir(path) if entry.is_dir())
    except OSError:
        return ""
    return _did_you_mean(
        [path / name for name in inner if any((path / name / end / CONFIG).exists() for end in ("", MODEL_OF_RUN))]
    )


def _did_you_mean(paths: list[Path]) -> str:
    return "; did you mean " + " or ".join(repr(str(path)) for path in paths[:_MAX_HINTS]) + "?" if paths else ""
