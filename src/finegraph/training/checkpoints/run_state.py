"""The state of a run that a checkpoint holds, as tensors and JSON.

Weights, statistics and momentum are tensors; the step and what the epoch has summed up so far are numbers. Rates, the
order of photos, their views and dropout follow from the step and the seed, so they need no saving.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from finegraph.data.samples import Sample, Samples
from finegraph.errors import CheckpointError, SettingsError
from finegraph.graph import LabelGraph
from finegraph.graph.formats.json_writer import canonical_json
from finegraph.graph.graph_files import graph_from_json
from finegraph.nn import Network
from finegraph.training.batches import PhotoPairs
from finegraph.training.optimizer import load_optimizer, optimizer_tensors

_NETWORK = "network."
_ROWS = ("head.fine", "head.coarse")
"""The layers of a head with a row for each label."""


@dataclass
class RunProgress:
    """How far a run is.

    Attributes:
        step: how many steps were taken.
        epochs: how many epochs ended; after the last step of one and before its validation it is not counted yet.
        loss_sum: the loss summed over the samples of this epoch so far.
        loss_count: how many samples that are.
        seconds: how long training took so far.
        best_epoch: the best epoch so far; None before the first.
        best_figures: its validation metrics.
        bad_files: photos that could not be read and were reported.
        processes: how many trained.
        groups: how many groups they formed, each with all labels; 1 if labels are not sharded.
    """

    step: int = 0
    epochs: int = 0
    loss_sum: float = 0.0
    loss_count: int = 0
    seconds: float = 0.0
    best_epoch: int | None = None
    best_figures: dict[str, float] = field(default_factory=dict)
    bad_files: list[str] = field(default_factory=list)
    processes: int = 1
    groups: int = 1


def data_digest(
    train: Samples, val: Samples | None, graph: LabelGraph, pairs: PhotoPairs | None = None
) -> dict[str, str]:
    """Digests of the training data, by name: a run resumes only with the data it began with.

    Photos count by the last two parts of their paths, so that a folder may be moved.
    """
    compared = {} if pairs is None else {"comparisons": hashlib.sha256(repr(pairs.pairs).encode()).hexdigest()}
    return {
        **compared,
        "the graph": graph.digest,
        "the list of photos to train on": _list_digest(train),
        "the list of photos to validate on": _list_digest(() if val is None else val),
    }


def _list_digest(samples: Iterable[Sample]) -> str:
    digest = hashlib.sha256()
    for sample in samples:
        place = "/".join(sample.path.parts[-2:])
        digest.update(repr((place, sample.label, sample.box, sorted(sample.kinds.items()))).encode())
        if sample.values:  # lists without values have the digest that they always had
            digest.update(repr(sorted(sample.values.items())).encode())
    return digest.hexdigest()


def capture(
    network: Network,
    optimizer: torch.optim.Optimizer,
    progress: RunProgress,
    data: Mapping[str, str],
    *,
    graph: bool = False,
) -> tuple[dict[str, Shaped[Tensor, " ..."]], dict[str, Any]]:
    """The tensors and the JSON of a checkpoint.

    Args:
        network: what is trained.
        optimizer: what trains it.
        progress: how far the run is.
        data: digests of the photos and of the graph.
        graph: whether the links of the graph are learnt along, and kept.
    """
    tensors = {_NETWORK + name: tensor for name, tensor in network.state_dict().items()}
    tensors.update(optimizer_tensors(network, optimizer))
    state: dict[str, Any] = {"progress": asdict(progress), "data": dict(data), "scaling": network.design.scaling}
    if graph:
        state["graph"] = canonical_json(network.graph)
    return tensors, state


def split_rows(
    tensors: Mapping[str, Shaped[Tensor, " ..."]],
) -> tuple[dict[str, Shaped[Tensor, " ..."]], dict[str, Shaped[Tensor, " ..."]], dict[str, Shaped[Tensor, " ..."]]]:
    """What `capture` gives of a network whose labels are sharded: rows of fine labels, of coarse ones, and the rest.

    The count of steps that an optimizer keeps is a single number, and so one of the rest.
    """
    parts: tuple[dict[str, Tensor], ...] = ({}, {}, {})
    for name, tensor in tensors.items():
        layers = [place for place, layer in enumerate(_ROWS) if f".{layer}." in name and tensor.ndim]
        parts[layers[0] if layers else -1][name] = tensor
    return parts[0], parts[1], parts[2]


def restore(
    network: Network,
    optimizer: torch.optim.Optimizer,
    tensors: Mapping[str, Shaped[Tensor, " ..."]],
    state: Mapping[str, Any],
    data: Mapping[str, str],
) -> RunProgress:
    """Restore a checkpoint; returns how far the run was.

    Raises:
        SettingsError: the photos or the graph are not those of the run.
        CheckpointError: the checkpoint is of another network, or of another version.
    """
    try:
        progress, before = RunProgress(**state["progress"]), state["data"]
        changed = [name for name in sorted({*before, *data}) if before.get(name) != data.get(name)]
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"the checkpoint is not one of this version of training: {error}") from error
    if changed:
        raise SettingsError(
            f"data: {' and '.join(changed)} changed since this run began, so it cannot go on exactly; restore what it "
            "began with, or start a new run"
        )
    load_network(network, tensors, state)
    load_optimizer(network, optimizer, tensors)
    return progress


def load_network(network: Network, tensors: Mapping[str, Shaped[Tensor, " ..."]], state: Mapping[str, Any]) -> None:
    """Load the weights of a checkpoint into a network.

    Args:
        network: the network, as it was built; a scaling that was fitted since is added, and links that were learnt.
        tensors: the tensors of the checkpoint.
        state: its JSON.

    Raises:
        CheckpointError: they are of another network.
    """
    if state.get("scaling") != network.design.scaling:
        network.expect_scaling(state.get("scaling"))
    if "graph" in state:
        network.head.relink(graph_from_json(state["graph"]))
    saved = {name.removeprefix(_NETWORK): tensor for name, tensor in tensors.items() if name.startswith(_NETWORK)}
    expected_state = network.state_dict()
    differ = [
        name for name in {**expected_state, **saved} if _shape(expected_state.get(name)) != _shape(saved.get(name))
    ]
    if differ:
        name = differ[0]
        raise CheckpointError(
            f"the checkpoint is of another network: {name} has {_shape(saved.get(name))} there and "
            f"{_shape(expected_state.get(name))} here"
            + (f", and {len(differ) - 1} more differ" if len(differ) > 1 else "")
        )
    network.load_state_dict(saved)


def _shape(tensor: Tensor | None) -> str:
    return "no weights" if tensor is None else f"shape {tuple(tensor.shape)}"
