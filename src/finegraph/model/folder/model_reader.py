"""The model folder: what it holds, and how it is read.

    config.json              format and version, the design of the network, temperature, rule for unknown photos, facts
                             for the card, and the size and SHA-256 of the other files; a checksum of all this
    model.safetensors        the weights
    preprocessing.json       how photos are cut and scaled, and how each backbone turns pixels into numbers
    graph.json               the label graph
    statistics.safetensors   of a head that was fitted in closed form: counts and sums that lessons add to
    lessons.jsonl, .json     what the model was taught since (teaching/lesson.py); they grow, the other files stay
    README.md                a card for people; not read, but each lesson has it say what was taught

Version 2 is version 1 with networks that are joined from several: the design names them, and their preprocessing stands
below that of the whole. Models of one network are written as version 1, which older finegraphs read. Version 3 has
statistics, so it can be taught; older finegraphs would not see its lessons.

Only JSON and tensors are read, nothing that could run code. Every file is checked against its digest before it is used,
so damage is found and never loaded. Whatever is wrong raises `ModelFolderError` with the file and what to do. Cost: one
read of each file; the network is made without memory first, so no weights are drawn that would be overwritten.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Shaped
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from torch import Tensor

from finegraph.data.transforms import ViewSettings
from finegraph.errors import FinegraphError, InputError, MissingExtraError, ModelFolderError
from finegraph.files.checked_file import damage_of
from finegraph.graph import LabelGraph
from finegraph.graph.graph_files import graph_from_json
from finegraph.graph.kind_worth import KindWorth, kind_worth
from finegraph.model.answering.unknown import UnknownRule
from finegraph.model.folder.find_model import CONFIG, MODEL_FORMAT, find_model
from finegraph.model.folder.model_card import update_card
from finegraph.model.teaching.class_statistics import ClassStatistics
from finegraph.model.teaching.teaching import LOG, Teaching, taught_graph
from finegraph.nn.backbones import Backbone
from finegraph.nn.backbones.build import PLUS, TIMM
from finegraph.nn.backbones.joined import JoinedBackbone
from finegraph.nn.backbones.preprocessing import Preprocessing
from finegraph.nn.network import Network, NetworkDesign, build_network

VERSION = 3
"""The newest version that is read; all before it are read too."""
WEIGHTS, PREPROCESSING, GRAPH, CARD = "model.safetensors", "preprocessing.json", "graph.json", "README.md"
CHECKED = (WEIGHTS, PREPROCESSING, GRAPH)
"""The files whose digests stand in the config."""
STATISTICS = "statistics.safetensors"
FILES = (CONFIG, *CHECKED, CARD)
OPTIONAL_FILES = (STATISTICS, f"{LOG}.jsonl", f"{LOG}.json")
ENTRIES = ("format", "version", "finegraph", "design", "temperature", "unknown", "about", "files", "checksum")
"""The entries of the config, in order."""
STATISTICS_ENTRY = "statistics"
"""The further entry of version 3: the strengths of the fit."""
_AGAIN = "copy the folder again from where it was made, or train again"
_MAX_NAMES = 3
_MEMBERS = "members"


@dataclass(frozen=True)
class ModelParts:
    """What a model folder holds; see `PhotoClassifier`."""

    network: Network
    views: ViewSettings
    temperature: float
    unknown: UnknownRule | None
    about: dict[str, Any]
    teaching: Teaching | None = None


def read_model_graph(folder: str | os.PathLike[str]) -> LabelGraph:
    """The label graph of a model folder, or of the model of a run folder, with what was taught; no weights are read.

    Raises:
        ModelFolderError: there is no model, or its graph is damaged.
    """
    path = find_model(folder)
    config = _read_config(path / CONFIG)
    graph = _read_graph(path / GRAPH, _read_checked(path / GRAPH, config["files"]))
    if STATISTICS_ENTRY not in config:
        return graph
    return taught_graph(path, graph, config["files"][STATISTICS]["sha256"])


def read_kind_worth(folder: str | os.PathLike[str]) -> KindWorth | None:
    """What each kind is worth to a model; None where its head was not fitted in closed form. No weights are read.

    Raises:
        ModelFolderError: there is no model, or its config is damaged.
    """
    facts = _read_config(find_model(folder) / CONFIG).get(STATISTICS_ENTRY)
    return (
        None
        if facts is None
        else kind_worth(read_model_graph(folder), facts["kinds"], facts["own"], facts.get("numbers"))
    )


def read_model(folder: str | os.PathLike[str]) -> ModelParts:
    """Read a model folder, or the model of a run folder.

    Raises:
        ModelFolderError: there is no model, it is damaged, or another version of finegraph made it.
        MissingExtraError: its network needs a package that is not installed.
    """
    path = find_model(folder)
    config = _read_config(path / CONFIG)
    data = {name: _read_checked(path / name, config["files"]) for name in CHECKED}
    graph = _read_graph(path / GRAPH, data[GRAPH])
    try:
        design = NetworkDesign.from_dict(config["design"])
        unknown = None if config["unknown"] is None else UnknownRule.from_dict(config["unknown"])
        network = empty_network(graph, design)
    except MissingExtraError:
        raise
    except (FinegraphError, TypeError, AttributeError) as error:
        raise ModelFolderError(f"{path / CONFIG}: {error}; {_AGAIN}") from error
    views = _set_preprocessing(network, path / PREPROCESSING, data[PREPROCESSING])
    _load(network, path / WEIGHTS, data[WEIGHTS])
    teaching = _read_teaching(path, config, network)
    if teaching is not None:
        network = network.with_head(teaching.head)
    return ModelParts(network, views, float(config["temperature"]), unknown, config["about"], teaching)


def _read_teaching(path: Path, config: Mapping[str, Any], network: Network) -> Teaching | None:
    """The statistics of the fit and the lessons since; None for models that cannot be taught."""
    if STATISTICS_ENTRY not in config:
        return None
    data = _read_checked(path / STATISTICS, config["files"])
    try:
        statistics = ClassStatistics.from_parts(load_tensors(data), config[STATISTICS_ENTRY], network.graph)
        if statistics.sums.shape[1] != network.head.features:
            raise InputError(f"expected {network.head.features} features, got {statistics.sums.shape[1]}")
    except (SafetensorError, InputError, ValueError, KeyError) as error:
        raise ModelFolderError(f"{path / STATISTICS}: {error}; {_AGAIN}") from error
    return Teaching(
        path,
        network.graph,
        statistics,
        network.head,
        hashlib.sha256(data).hexdigest(),
        on_change=lambda lessons: update_card(path / CARD, lessons),
    )


def empty_network(graph: LabelGraph, design: NetworkDesign) -> Network:
    """A network without the parts that only training needs, and without numbers in its weights."""
    names = (design.network, design.coarse_network or "")
    # The networks of timm compute with tensors while they are made, so they need real ones.
    with nullcontext() if any(name.startswith(TIMM) for name in names) else torch.device("meta"):
        return build_network(graph, design, auxiliary=False)


def checksum(config: Mapping[str, object]) -> str:
    """The SHA-256 of all entries of a config but the checksum itself, however the file is laid out."""
    rest = {name: value for name, value in config.items() if name != "checksum"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def preprocessing_entries(network: Network, views: ViewSettings) -> dict[str, object]:
    """The content of the preprocessing file."""
    coarse = network.coarse_backbone
    return {
        "views": asdict(views),
        "network": _entry(network.backbone),
        "coarse_network": None if coarse is None else _entry(coarse),
    }


def _entry(backbone: Backbone) -> dict[str, object]:
    """How a backbone, and each member of a joined one, turns pixels into numbers."""
    defaults: dict[str, object] = asdict(backbone.preprocessing)
    if isinstance(backbone, JoinedBackbone):
        defaults[_MEMBERS] = [asdict(one.preprocessing) for one in backbone.parts]
    return defaults


def _set_entry(backbone: Backbone, entry: Mapping[str, Any]) -> None:
    """Give a backbone, and each member of a joined one, the preprocessing that it was trained with."""
    if isinstance(backbone, JoinedBackbone):
        for part, part_entry in zip(backbone.parts, entry[_MEMBERS], strict=True):
            part.preprocessing = Preprocessing.from_dict(part_entry)
        entry = {name: value for name, value in entry.items() if name != _MEMBERS}
    backbone.preprocessing = Preprocessing.from_dict(entry)


def format_version(design: NetworkDesign, *, statistics: bool) -> int:
    """The oldest version of the format that can hold a design, and statistics if there are any."""
    if statistics:
        return 3
    joined = any(PLUS in name for name in (design.network, design.coarse_network or ""))
    return 2 if joined or design.scaling not in (None, "whitened") else 1


def mismatches(expected: Mapping[str, Shaped[Tensor, " ..."]], got: Mapping[str, Shaped[Tensor, " ..."]]) -> list[str]:
    """How weights differ from what a network has, in at most three sentences with a few names each."""
    missing = [name for name in expected if name not in got]
    foreign = sorted(name for name in got if name not in expected)  # a file lists them in any order
    wrong = [name for name in expected if name in got and _form(got[name]) != _form(expected[name])]
    faults = []
    if missing:
        faults.append(f"{len(missing)} of {len(expected)} weights are missing ({_few(missing)})")
    if foreign:
        faults.append(f"{len(foreign)} are not of this network ({_few(foreign)})")
    if wrong:
        forms = [f"{name}: expected {_form(expected[name])}, got {_form(got[name])}" for name in wrong]
        faults.append(f"{len(wrong)} have another form ({_few(forms)})")
    return faults


def _read_config(path: Path) -> dict[str, Any]:
    """The config, checked."""
    config = _parse(path, _read(path))
    if config.get("format") != MODEL_FORMAT:
        raise ModelFolderError(f"{path}: expected the format {MODEL_FORMAT!r}, got {config.get('format')!r}")
    version = config.get("version")
    if type(version) is int and version > VERSION:
        raise ModelFolderError(
            f"{path}: this model was saved by a newer finegraph ({config.get('finegraph')!r}), in version {version} of "
            f"the format; this one reads versions 1 to {VERSION}. Update finegraph"
        )
    if type(version) is not int or version < 1:
        raise ModelFolderError(f"{path}: expected version 1 to {VERSION} of the format, got {version!r}; {_AGAIN}")
    entries = ENTRIES if version < 3 else (*ENTRIES, STATISTICS_ENTRY)
    missing = [name for name in entries if name not in config]
    foreign = [name for name in config if name not in entries]
    if missing or foreign:
        what = f"{_few(missing)} missing" if missing else f"{_few(foreign)} unknown"
        raise ModelFolderError(f"{path}: expected the entries {', '.join(entries)}; {what}; {_AGAIN}")
    if config["checksum"] != checksum(config):
        raise ModelFolderError(
            f"{path}: the content does not match its checksum: the file is damaged, or was edited after it was saved; "
            f"{_AGAIN}. To change settings, load the model in Python and save it again"
        )
    _check_values(path, config)
    return config


def _check_values(path: Path, config: Mapping[str, Any]) -> None:
    """Refuse a config that is whole but not of our making."""
    temperature, files = config["temperature"], config["files"]
    checked = (*CHECKED, *((STATISTICS,) if STATISTICS_ENTRY in config else ()))
    good = (
        type(temperature) in (int, float)
        and 0 < temperature < float("inf")
        and isinstance(config["about"], dict)
        and isinstance(config["design"], dict)
        and all(isinstance(part, str) or part is None for part in config["design"].values())
        and isinstance(files, dict)
        and all(isinstance(files.get(name), dict) and {"bytes", "sha256"} <= set(files[name]) for name in checked)
        and isinstance(config.get(STATISTICS_ENTRY, {}), dict)
    )
    if not good:
        raise ModelFolderError(f"{path}: the entries have not the form of version {config['version']}; {_AGAIN}")


def _read_checked(path: Path, files: Mapping[str, Mapping[str, Any]]) -> bytes:
    """The bytes of a file whose digest stands in the config."""
    data, entry = _read(path), files[path.name]
    if damage := damage_of(data, size=entry["bytes"], sha256=entry["sha256"]):
        raise ModelFolderError(f"{path}: {damage}; {_AGAIN}")
    return data


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ModelFolderError(
            f"{path}: the file is missing; a model folder holds {', '.join(FILES)}; {_AGAIN}"
        ) from None
    except OSError as error:
        raise ModelFolderError(
            f"{path}: the file cannot be read: {error.strerror or error}; check its rights"
        ) from error


def _parse(path: Path, data: bytes) -> dict[str, Any]:
    """A JSON object."""
    try:
        content = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelFolderError(f"{path}: expected JSON, got something else ({error}); {_AGAIN}") from error
    if not isinstance(content, dict):
        raise ModelFolderError(f"{path}: expected a JSON object, got {type(content).__name__}; {_AGAIN}")
    return content


def _read_graph(path: Path, data: bytes) -> LabelGraph:
    try:
        return graph_from_json(data.decode("utf-8"), str(path))
    except (FinegraphError, UnicodeDecodeError) as error:
        raise ModelFolderError(f"{error}; {_AGAIN}") from error


def _set_preprocessing(network: Network, path: Path, data: bytes) -> ViewSettings:
    """Give the backbones the preprocessing that they were trained with; the settings of the views."""
    content = _parse(path, data)
    try:
        views = content["views"]
        if set(views) != {field.name for field in fields(ViewSettings)}:
            raise InputError(f"expected other settings of views than {', '.join(sorted(views)) or 'none'}")
        _set_entry(network.backbone, content["network"])
        if network.coarse_backbone is not None:
            _set_entry(network.coarse_backbone, content["coarse_network"])
        return ViewSettings(**views)
    except (FinegraphError, KeyError, TypeError, ValueError) as error:
        raise ModelFolderError(f"{path}: the entries do not fit the network ({error}); {_AGAIN}") from error


_DOUBT = "head.doubt_factor"
"""Only heads with a doubt have it."""


def _load(network: Network, path: Path, data: bytes) -> None:
    """Put the weights of a file into a network that has none."""
    try:
        tensors = load_tensors(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise ModelFolderError(f"{path}: expected a file of weights ({error}); {_AGAIN}") from error
    if _DOUBT in tensors:
        network.head.doubt = 1.0  # makes room for it
    faults = mismatches(network.state_dict(), tensors)
    if faults:
        raise ModelFolderError(
            f"{path}: these are not the weights of the network that {CONFIG} names: {'; '.join(faults)}; {_AGAIN}"
        )
    try:
        network.load_state_dict(tensors, assign=True)
    except FinegraphError as error:  # the graph that the weights were made for is another
        raise ModelFolderError(f"{path}: {error}; {_AGAIN}") from error


def _form(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


def _few(names: list[str]) -> str:
    return ", ".join(names[:_MAX_NAMES]) + (", ..." if len(names) > _MAX_NAMES else "")
