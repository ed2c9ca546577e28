"""A classifier as a program of `torch.export`: the same inputs and outputs as the ONNX file.

The program is traced from the package's own posterior, so it is not a second version of the formulas. The batch may
have any size; evidence has a row per image and must be given, also where nothing is known. Its texts are in the file
`metadata.json` inside. Loading needs torch alone.
"""

from __future__ import annotations

import io
import json
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Shaped, UInt8
from torch import Tensor, nn
from torch.export import Dim

from finegraph.errors import ExportError
from finegraph.graph.number import MAX_VALUE
from finegraph.inference import Posterior
from finegraph.inference.numbers.number_tensors import NumberTable, NumberTensors
from finegraph.model.export import export_names as names
from finegraph.model.export.metadata import metadata_of
from finegraph.model.export.tracing import quiet, traced_mean, traced_quantiles
from finegraph.model.photo_classifier import PhotoClassifier

METADATA = "metadata.json"
_TRACED = 3
"""How many images the program is traced with; a number that no layer has for a size of its own."""


class Answers(nn.Module):
    """A classifier as a module with tensors in and a mapping of tensors out."""

    def __init__(self, classifier: PhotoClassifier) -> None:
        super().__init__()
        self.network, self.temperature = classifier.network, classifier.temperature

    def forward(
        self,
        images: UInt8[Tensor, "batch height width channel"],
        *,
        fine_evidence: Float[Tensor, "batch fine"],
        evidence: Float[Tensor, "batch coarse"] | None = None,
        number_ranges: Float[Tensor, "batch number 2"] | None = None,
        number_estimates: Float[Tensor, "batch number 2"] | None = None,
    ) -> dict[str, Shaped[Tensor, " ..."]]:
        """All answers about images; see `export_names.py` for the inputs and outputs."""
        features, coarse_features = self.network.features(images.permute(0, 3, 1, 2))
        plain = self.network.of_features(features, coarse_features)
        if self.temperature != 1.0:
            plain = plain.tempered(self.temperature)
        length = features.norm(dim=1, keepdim=True).clamp_min(names.SMALLEST_NORM)
        on_numbers = None
        if number_ranges is not None and number_estimates is not None:
            on_numbers = number_evidence(plain.tensors.numbers, number_ranges, number_estimates)
        return {**_answers(plain, fine_evidence, evidence, on_numbers), names.EMBEDDING: features / length}


class NumberEvidence(NamedTuple):
    """Evidence on numbers on their inner scales, as `Posterior.with_evidence` takes it, and whether it is usable."""

    known: Float[Tensor, "batch number 4"]
    usable: Bool[Tensor, " batch"]


def number_evidence(
    table: NumberTable, ranges: Float[Tensor, "batch number 2"], estimates: Float[Tensor, "batch number 2"]
) -> NumberEvidence:
    """Ranges and estimates, in the units of the numbers, on their inner scales.

    Args:
        table: the numbers of the graph.
        ranges: per number the least and the greatest possible value.
        estimates: per number a value and its standard deviation.
    """
    rows, usable = [], torch.ones_like(ranges[:, 0, 0], dtype=torch.bool)
    for each in table.numbers:
        number, (low, high) = each.number, ranges[:, each.place].double().unbind(dim=1)
        value, spread = estimates[:, each.place].double().unbind(dim=1)
        nothing = spread == torch.inf
        good = (low <= high) & (_in_range(low) | (low == -torch.inf)) & (_in_range(high) | (high == torch.inf))
        good = good & (spread > 0) & (nothing | _in_range(value))
        if number.scale == "log":
            good = good & (high > 0) & (nothing | (value > 0))
        value = torch.where(good & ~nothing, value, 1.0)
        deviation = spread / number.width
        if number.scale == "log":
            deviation = deviation / value
        good = good & (deviation >= 1.0 / MAX_VALUE)
        precision = torch.where(good, deviation, torch.inf).square().reciprocal()
        low, high = torch.where(good, low, -torch.inf), torch.where(good, high, torch.inf)
        rows.append(torch.stack([_inner(each, value), precision, _inner(each, low), _inner(each, high)], dim=1))
        usable = usable & good
    return NumberEvidence(torch.stack(rows, dim=1), usable)


def _in_range(value: Float[Tensor, " batch"]) -> Bool[Tensor, " batch"]:
    return value.abs() <= MAX_VALUE


def _inner(number: NumberTensors, value: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """Values on the inner scale; those of fine labels to the last digit, whatever logarithm is used."""
    scaled = value.clamp_min(0.0).log() if number.number.scale == "log" else value
    inner = (scaled - number.number.centre) / number.number.width
    known = torch.from_numpy(number.number.values.copy()).to(value)
    same = torch.where(value.unsqueeze(1) == known, number.fine_value, -torch.inf).amax(dim=1)
    return torch.where(same > -torch.inf, same, inner)


def _answers(
    plain: Posterior, fine_evidence: Tensor, evidence: Tensor | None, on_numbers: NumberEvidence | None
) -> dict[str, Tensor]:
    """The log probabilities given likelihoods and evidence on numbers."""
    likelihood = fine_evidence if evidence is None else torch.cat([fine_evidence, evidence], dim=1)
    usable = (likelihood >= 0) & (likelihood < torch.inf)
    log = torch.where(usable, likelihood, 0.0).double().log()
    given = plain.with_evidence(log, None if on_numbers is None else on_numbers.known)
    scores = given.joint_scores().scores
    possible = usable.all(dim=1) & (scores.amax(dim=1) > -torch.inf)
    if on_numbers is not None:
        possible = possible & on_numbers.usable
    # A row without a possible label would become NaN; it is put back to minus infinity below.
    fine = torch.log_softmax(torch.where(possible.unsqueeze(1), scores, 0.0), dim=1)
    fine = fine.masked_fill(~possible.unsqueeze(1), -torch.inf)
    found = {names.LOG_PROBS: fine.float(), names.POSSIBLE: possible}
    kinds = [given.kind_log_probs(kind, fine) for kind in plain.graph.kinds]
    if kinds:
        found[names.KIND_LOG_PROBS] = torch.cat(kinds, dim=1).float()
    if plain.graph.numbers:
        # Where nothing is possible, any weights do.
        weights = torch.where(possible.unsqueeze(1), fine, 0.0)
        values = [(number, given.value(number.name, weights)) for number in plain.tensors.numbers.numbers]
        found[names.NUMBER_MEANS] = torch.stack([traced_mean(*pair) for pair in values], dim=1).float()
        quantiles = [traced_quantiles(*pair, names.QUANTILES) for pair in values]
        found[names.NUMBER_QUANTILES] = torch.stack(quantiles, dim=1).float()
    return found


def torch_bytes(classifier: PhotoClassifier) -> bytes:
    """The content of the file of a classifier as `torch.export` makes it.

    Raises:
        ExportError: the network cannot be traced.
    """
    size, graph = classifier.views.size, classifier.graph
    coarse = sum(len(graph.labels(kind)) for kind in graph.kinds)
    batch = {0: Dim("batch")}
    inputs: dict[str, Any] = {names.FINE_EVIDENCE: torch.ones(_TRACED, len(graph))}
    if coarse:
        inputs[names.EVIDENCE] = torch.ones(_TRACED, coarse)
    if count := len(graph.numbers):
        nothing = {names.NUMBER_RANGES: names.NO_RANGE, names.NUMBER_ESTIMATES: names.NO_ESTIMATE}
        inputs |= {
            name: torch.tensor(pair, dtype=torch.float64).repeat(_TRACED, count, 1) for name, pair in nothing.items()
        }
    images = torch.zeros(_TRACED, size, size, 3, dtype=torch.uint8)
    shapes = {names.IMAGES: batch, **dict.fromkeys(inputs, batch)}
    try:
        with quiet(), torch.no_grad():
            program = torch.export.export(Answers(classifier).eval(), (images,), inputs, dynamic_shapes=shapes)
    except Exception as error:  # tracing fails in any way where it fails
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ExportError(
            f"the network {classifier.network.design.network} cannot be traced by torch: {first}"
        ) from error
    content = io.BytesIO()
    with quiet():
        torch.export.save(program, content, extra_files={METADATA: json.dumps(metadata_of(classifier))})
    return content.getvalue()
