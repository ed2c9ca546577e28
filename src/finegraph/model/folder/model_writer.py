"""Writing a model folder, in one step.

All files are written into a new folder beside the target and brought to the disk; then that folder takes the place of
the target. A crash at any moment leaves the old model or the new one, never a part. Only an earlier model is replaced;
a folder that holds anything else is left alone. What will be read is checked before it is written: the weights must be
those of the design, and finite.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Shaped
from safetensors.torch import save as tensor_bytes
from torch import Tensor

from finegraph._version import __version__
from finegraph.data.transforms import ViewSettings
from finegraph.errors import InputError, LessonError, ModelFolderError
from finegraph.files.durable import is_temporary
from finegraph.files.folder_swap import locked_folder, replace_folder
from finegraph.graph.formats.json_writer import canonical_json
from finegraph.model.answering.unknown import UnknownRule
from finegraph.model.folder.find_model import CONFIG, MODEL_FORMAT, is_model_folder
from finegraph.model.folder.model_card import model_card
from finegraph.model.folder.model_reader import (
    CARD,
    CHECKED,
    FILES,
    GRAPH,
    OPTIONAL_FILES,
    PREPROCESSING,
    STATISTICS,
    STATISTICS_ENTRY,
    WEIGHTS,
    checksum,
    empty_network,
    format_version,
    mismatches,
    preprocessing_entries,
)
from finegraph.model.teaching.class_statistics import ClassStatistics
from finegraph.model.teaching.lesson import Lesson
from finegraph.model.teaching.teaching import Teaching, kept_lessons
from finegraph.nn.network import Network


def write_model(
    folder: str | os.PathLike[str],
    *,
    network: Network,
    views: ViewSettings,
    temperature: float,
    unknown: UnknownRule | None,
    about: Mapping[str, Any],
    statistics: ClassStatistics | None = None,
    teaching: Teaching | None = None,
) -> None:
    """Write a model folder; see `PhotoClassifier` for the parts.

    What was taught is written as it is kept: the model as it was fitted, and the lessons since.

    Raises:
        ModelFolderError: the folder cannot be written, holds something that is no model, or lessons that this model
            does not know.
        InputError: a part cannot be saved.
    """
    if teaching is not None:
        network, statistics = network.with_head(teaching.fitted_head), teaching.statistics
    target = Path(os.path.realpath(folder))
    _check_target(target)
    facts = _plain_facts(about)
    files = {
        WEIGHTS: tensor_bytes(weights_of(network)),
        PREPROCESSING: _json(preprocessing_entries(network, views)),
        GRAPH: canonical_json(network.graph).encode(),
    }
    checked: tuple[str, ...] = CHECKED
    entries: dict[str, object] = {}
    if statistics is not None:
        tensors, facts_of_fit = statistics.to_parts()
        files[STATISTICS] = tensor_bytes({name: _own_memory(tensor) for name, tensor in tensors.items()})
        checked, entries = (*CHECKED, STATISTICS), {STATISTICS_ENTRY: facts_of_fit}
    config: dict[str, object] = {
        "format": MODEL_FORMAT,
        "version": format_version(network.design, statistics=statistics is not None),
        "finegraph": __version__,
        "design": network.design.to_dict(),
        "temperature": float(temperature),
        "unknown": None if unknown is None else unknown.to_dict(),
        "about": facts,
        "files": {
            name: {"bytes": len(files[name]), "sha256": hashlib.sha256(files[name]).hexdigest()} for name in checked
        },
        **entries,
    }
    config["checksum"] = checksum(config)
    files[CONFIG] = _json(config)
    lessons = () if teaching is None else teaching.lessons
    files[CARD] = model_card(network, views, temperature, unknown, facts, lessons=lessons).encode()
    try:
        with locked_folder(target) if target.is_dir() else nullcontext():  # no lesson is added during the swap
            _check_lessons(target, lessons)
            replace_folder(target, files | ({} if teaching is None else teaching.files()))
    except OSError as error:
        size = sum(map(len, files.values())) / 1e6
        raise ModelFolderError(
            f"{target}: the model ({size:.1f} MB) cannot be written: {error.strerror or error}; "
            "make room, check the rights of the folder, or choose another"
        ) from error


def weights_of(network: Network) -> dict[str, Shaped[Tensor, " ..."]]:
    """The weights that answers need, on the CPU and in float32; parts that only training needs are left out.

    Raises:
        ModelFolderError: they are not those of the network's design, or not finite.
    """
    tensors = network.state_dict()
    empty = empty_network(network.graph, network.design)
    empty.head.doubt = network.head.doubt
    expected = empty.state_dict()
    weights = {name: _plain_tensor(tensors[name]) for name in expected if name in tensors}
    faults = mismatches(expected, weights)
    if faults:
        raise ModelFolderError(
            f"this network is not what its design, {network.design}, says, so it could not be loaded again: "
            f"{'; '.join(faults)}. Build it with build_network"
        )
    broken = [name for name, weight in weights.items() if not bool(torch.isfinite(weight).all())]
    if broken:
        raise ModelFolderError(
            f"the weights {', '.join(broken[:3])} hold NaN or infinity: the training went wrong. Nothing was saved; "
            "train again with a smaller learning rate"
        )
    return weights


def _plain_tensor(tensor: Tensor) -> Tensor:
    tensor = tensor.detach().to("cpu")
    tensor = tensor.float() if tensor.is_floating_point() else tensor
    # A memory of its own, laid out plainly: the file holds nothing but numbers in order.
    return tensor.contiguous(memory_format=torch.contiguous_format)


def _plain_facts(about: Mapping[str, Any]) -> dict[str, Any]:
    """The facts as JSON gives them back."""
    try:
        facts: dict[str, Any] = json.loads(json.dumps(dict(about), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"about: expected facts that JSON can hold (text, finite numbers, true and false, None, lists, mappings); "
            f"{error}"
        ) from error
    return facts


def _json(content: object) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _own_memory(tensor: Tensor) -> Tensor:
    """A tensor laid out plainly, in a memory of its own."""
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def _check_lessons(target: Path, lessons: Sequence[Lesson]) -> None:
    """Refuse to replace a model that was taught what the new one does not know."""
    known = {lesson.id for lesson in lessons}
    lost = [lesson for lesson in kept_lessons(target) if lesson not in known]
    if lost:
        raise LessonError(
            f"{target}: the model there was taught {len(lost)} lessons that this one does not know; load it again, or "
            "choose another place"
        )


def _check_target(target: Path) -> None:
    """Refuse a place where something else is."""
    if not target.exists():
        return
    if not target.is_dir():
        raise ModelFolderError(f"{target}: expected a new folder or an earlier model, got a file; choose another place")
    names = sorted(os.listdir(target))
    if names and not is_model_folder(target):
        raise ModelFolderError(
            f"{target}: expected a new folder or an earlier model, got a folder with other files "
            f"({', '.join(names[:3])}{', ...' if len(names) > 3 else ''}); choose another place"
        )
    foreign = [name for name in names if name not in (*FILES, *OPTIONAL_FILES) and not is_temporary(name)]
    if foreign:
        raise ModelFolderError(
            f"{target}: the earlier model there would be replaced, but the folder also holds {', '.join(foreign[:3])}"
            f"{', ...' if len(foreign) > 3 else ''}; move that away, or choose another place"
        )
