"""Asking an exported file, or the model itself, about images: the same question and the same form of answer.

An answer is a mapping from the names of outputs to arrays. A file is run as a stranger would run it, from its bytes.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from jaxtyping import Float, Shaped, UInt8
from numpy.typing import NDArray
from torch import Tensor

from finegraph.errors import MissingExtraError
from finegraph.inference import Around
from finegraph.inference.evidence import FINE
from finegraph.model.export import export_names as names
from finegraph.model.features.engines import EngineName
from finegraph.model.photo_classifier import PhotoClassifier

LOWER_QUANTILES, UPPER_QUANTILES = "lower_quantiles", "upper_quantiles"
"""What the model itself also tells: the quantiles of slightly smaller and larger probabilities, for comparisons."""
QUANTILE_SLACK = 1e-4
_QUANTILE_STEPS = {
    names.NUMBER_QUANTILES: 0.0,
    LOWER_QUANTILES: -QUANTILE_SLACK,
    UPPER_QUANTILES: QUANTILE_SLACK,
}
Images = NDArray[np.uint8]
Answers = dict[str, Shaped[NDArray[Any], " ..."]]


class Likelihoods(NamedTuple):
    """Evidence on a batch.

    Attributes:
        fine: a likelihood per fine label.
        coarse: a likelihood per coarse label.
        ranges: per number the least and the greatest possible value; None if nothing is known of numbers.
        estimates: per number a value and its standard deviation; None if nothing is known of numbers.
    """

    fine: Float[NDArray[np.float32], "batch fine"]
    coarse: Float[NDArray[np.float32], "batch coarse"]
    ranges: Float[NDArray[np.float64], "batch number 2"] | None = None
    estimates: Float[NDArray[np.float64], "batch number 2"] | None = None

    def on_numbers(self) -> dict[str, Float[NDArray[np.float64], "batch number 2"]]:
        """The evidence on numbers, by the name of the input."""
        given = {names.NUMBER_RANGES: self.ranges, names.NUMBER_ESTIMATES: self.estimates}
        return {name: value for name, value in given.items() if value is not None}


class Runner(Protocol):
    """Answers about images (batch, height, width, 3)."""

    def __call__(
        self, images: UInt8[Images, "batch height width channel"], given: Likelihoods | None = None
    ) -> Answers:
        """The answers, given evidence if there is any."""


class OnnxRunner:
    """An ONNX file in ONNX Runtime, on the CPU."""

    def __init__(self, content: bytes | str, threads: int | None = None) -> None:
        """Load a file.

        Args:
            content: its bytes; or its path, if large constants are in a file beside it.
            threads: how many threads; as many as torch has by default.
        """
        runtime = import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads() if threads is None else threads
        options.log_severity_level = 3  # errors; it warns of every input that may be left out
        self._session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self._outputs = [output.name for output in self._session.get_outputs()]

    def __call__(
        self, images: UInt8[Images, "batch height width channel"], given: Likelihoods | None = None
    ) -> Answers:
        """The answers, given evidence if there is any; without, all inputs of evidence are left out."""
        inputs: dict[str, NDArray[Any]] = {names.IMAGES: images}
        if given is not None:
            inputs[names.FINE_EVIDENCE] = given.fine
            if given.coarse.shape[1]:
                inputs[names.EVIDENCE] = given.coarse
            inputs |= given.on_numbers()
        return dict(zip(self._outputs, self._session.run(None, inputs), strict=True))


class TorchRunner:
    """A file of `torch.export`, loaded back."""

    def __init__(self, content: bytes, fine: int, coarse: int, numbers: int = 0) -> None:
        self._program = torch.export.load(io.BytesIO(content)).module()
        self._fine, self._coarse, self._numbers = fine, coarse, numbers

    def __call__(
        self, images: UInt8[Images, "batch height width channel"], given: Likelihoods | None = None
    ) -> Answers:
        """The answers; without evidence all likelihoods are 1, and numbers are not limited."""
        count = len(images)
        ones = Likelihoods(np.ones((count, self._fine), np.float32), np.ones((count, self._coarse), np.float32))
        given = given or ones
        inputs = {names.FINE_EVIDENCE: torch.from_numpy(given.fine)}
        if self._coarse:
            inputs[names.EVIDENCE] = torch.from_numpy(given.coarse)
        if self._numbers:
            nothing = {names.NUMBER_RANGES: names.NO_RANGE, names.NUMBER_ESTIMATES: names.NO_ESTIMATE}
            on_numbers = {name: np.tile(np.array(pair), (count, self._numbers, 1)) for name, pair in nothing.items()}
            inputs |= {name: torch.from_numpy(value) for name, value in (on_numbers | given.on_numbers()).items()}
        with torch.no_grad():
            found: dict[str, Tensor] = self._program(torch.from_numpy(images), **inputs)
        return {name: value.numpy() for name, value in found.items()}


class ModelRunner:
    """The classifier itself, the way that all photos go: what files are compared with."""

    def __init__(self, classifier: PhotoClassifier, engine: EngineName = "torch") -> None:
        self._classifier, self._pipeline = classifier, classifier.pipeline(engine=engine)

    def __call__(
        self, images: UInt8[Images, "batch height width channel"], given: Likelihoods | None = None
    ) -> Answers:
        """The answers of the package's own posterior.

        Raises:
            EvidenceError: the evidence has probability 0.
        """
        found = self._pipeline.of_views(torch.from_numpy(images).permute(0, 3, 1, 2).unsqueeze(1))
        posterior = self._classifier.of_photos(found.posterior)
        if given is not None:
            posterior = posterior.given(_by_kind(posterior.tensors.columns, given))
            for evidence in _by_number(posterior.graph.numbers, given):
                posterior = posterior.given(evidence)
        with torch.no_grad():
            fine = posterior.log_probs()
            kinds = [posterior.kind_log_probs(kind, fine) for kind in self._classifier.graph.kinds]
            embedding = torch.nn.functional.normalize(found.features[:, 0], dim=1, eps=names.SMALLEST_NORM)
        answers = {names.LOG_PROBS: fine, names.EMBEDDING: embedding, names.POSSIBLE: torch.ones(len(fine)).bool()}
        if kinds:
            answers[names.KIND_LOG_PROBS] = torch.cat(kinds, dim=1)
        if values := [posterior.value(number, fine) for number in posterior.graph.numbers]:
            answers[names.NUMBER_MEANS] = torch.stack([value.mean for value in values], dim=1)
            for name, step in _QUANTILE_STEPS.items():
                levels = [min(1.0, max(0.0, q + step)) for q in names.QUANTILES]
                found_of = [torch.stack([value.quantile(q) for q in levels], dim=1) for value in values]
                answers[name] = torch.stack(found_of, dim=1)
        return {name: value.cpu().numpy() for name, value in answers.items()}


def _by_kind(columns: dict[str, slice], given: Likelihoods) -> dict[str, object]:
    """Likelihoods as `Posterior.given` takes them."""
    found: dict[str, object] = {kind: torch.from_numpy(given.coarse[:, places]) for kind, places in columns.items()}
    return {FINE: torch.from_numpy(given.fine), **found}


def _by_number(numbers: Sequence[str], given: Likelihoods) -> Iterator[dict[str, object]]:
    """Ranges and then estimates as `Posterior.given` takes them."""
    if given.ranges is not None:
        yield {
            name: [None if pair == names.NO_RANGE else pair for pair in map(tuple, given.ranges[:, place].tolist())]
            for place, name in enumerate(numbers)
        }
    if given.estimates is not None:
        yield {
            name: [None if math.isinf(pair[1]) else Around(*pair) for pair in given.estimates[:, place].tolist()]
            for place, name in enumerate(numbers)
        }


def check_onnx() -> None:
    """Raise if ONNX files cannot be made or compared.

    Raises:
        MissingExtraError: a package is not installed.
    """
    missing = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            "an ONNX file needs onnx to be made and onnxruntime to be compared with the model; "
            f"{' and '.join(missing)} cannot be found; "
            'install them with `pip install "finegraph[onnx]"`, or export with torch (.pt2)'
        )
