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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as tensor_bytes
from torch import Tensor

from finegraph._version import __version__
from finegraph.data.transforms import ViewSettings
from finegraph.errors import InputError, ModelFolderError
from finegraph.files.folder_swap import replace_folder
from finegraph.graph.formats.json_writer import canonical_json
from finegraph.model.answering.unknown import UnknownRule
from finegraph.model.folder.find_model import CONFIG, MODEL_FORMAT, is_model_folder
from finegraph.model.folder.model_card import model_card
from finegraph.model.folder.model_reader import (
    CARD,
    CHECKED,
    FILES,
    GRAPH,
    PREPROCESSING,
    WEIGHTS,
    checksum,
    empty_network,
    format_version,
    mismatches,
    preprocessing_entries,
)
from finegraph.nn.network import Network


def write_model(
    folder: str | os.PathLike[str],
    *,
    network: Network,
    views: ViewSettings,
    temperature: float,
    unknown: UnknownRule | None,
    about: Mapping[str, Any],
) -> None:
    """Write a model folder; see `PhotoClassifier` for the parts.

    Raises:
        ModelFolderError: the folder cannot be written, or holds something that is no model.
        InputError: a part cannot be saved.
    """
    target = Path(os.path.realpath(folder))
    _check_target(target)
    facts = _plain_facts(about)
    files = {
        WEIGHTS: tensor_bytes(weights_of(network)),
        PREPROCESSING: _json(preprocessing_entries(network, views)),
        GRAPH: canonical_json(network.graph).encode(),
    }
    config: dict[str, object] = {
        "format": MODEL_FORMAT,
        "version": format_version(network.design),
        "finegraph": __version__,
        "design": network.design.to_dict(),
        "temperature": float(temperature),
        "unknown": None if unknown is None else unknown.to_dict(),
        "about": facts,
        "files": {
            name: {"bytes": len(files[name]), "sha256": hashlib.sha256(files[name]).hexdigest()} for name in CHECKED
        },
    }
    config["checksum"] = checksum(config)
    files[CONFIG] = _json(config)
    files[CARD] = model_card(network, views, temperature, unknown, facts).encode()
    try:
        replace_folder(target, files)
    except OSError as error:
        size = sum(map(len, files.values())) / 1e6
        raise ModelFolderError(
            f"{target}: the model ({size:.1f} MB) cannot be written: {error.strerror or error}; "
            "make room, check the rights of the folder, or choose another"
        ) from error


def weights_of(network: Network) -> dict[str, Tensor]:
    """The weights that answers need, on the CPU and in float32; parts that only training needs are left out.

    Raises:
        ModelFolderError: they are not those of the network's design, or not finite.
    """
    own = network.state_dict()
    expected = empty_network(network.graph, network.design).state_dict()
    weights = {name: _plain_tensor(own[name]) for name in expected if name in own}
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
    foreign = [name for name in names if name not in FILES]
    if foreign:
        raise ModelFolderError(
            f"{target}: the earlier model there would be replaced, but the folder also holds {', '.join(foreign[:3])}"
            f"{', ...' if len(foreign) > 3 else ''}; move that away, or choose another place"
        )
