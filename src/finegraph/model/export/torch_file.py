"""A classifier as a program of `torch.export`: the same inputs and outputs as the ONNX file.

The program is traced from the package's own posterior, so it is not a second version of the formulas. The batch may
have any size; evidence has a row per image and must be given, as ones where nothing is known. Its texts are in the file
`metadata.json` inside. Loading needs torch alone.
"""

from __future__ import annotations

import io
import json
from typing import Any

import torch
from jaxtyping import Float, Shaped, UInt8
from torch import Tensor, nn
from torch.export import Dim

from finegraph.errors import ExportError
from finegraph.inference import Posterior
from finegraph.model.export import export_names as names
from finegraph.model.export.metadata import metadata_of
from finegraph.model.export.tracing import quiet, traced_quantiles
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
    ) -> dict[str, Shaped[Tensor, " ..."]]:
        """All answers about images; see `export_names.py` for what goes in and out."""
        features, coarse_features = self.network.features(images.permute(0, 3, 1, 2))
        plain = self.network.of_features(features, coarse_features)
        if self.temperature != 1.0:
            plain = plain.tempered(self.temperature)
        length = features.norm(dim=1, keepdim=True).clamp_min(names.SMALLEST_NORM)
        return {**_answers(plain, fine_evidence, evidence), names.EMBEDDING: features / length}


def _answers(plain: Posterior, fine_evidence: Tensor, evidence: Tensor | None) -> dict[str, Tensor]:
    """The log probabilities given likelihoods."""
    likelihood = fine_evidence if evidence is None else torch.cat([fine_evidence, evidence], dim=1)
    usable = (likelihood >= 0) & (likelihood < torch.inf)
    log = torch.where(usable, likelihood, 0.0).double().log()
    given = plain.with_evidence(log)
    scores = given.joint_scores().scores
    possible = usable.all(dim=1) & (scores.amax(dim=1) > -torch.inf)
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
        found[names.NUMBER_MEANS] = torch.stack([value.mean for _, value in values], dim=1).float()
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
