"""The names of the inputs, outputs and facts of exported files; the same in ONNX, in torch and in the documents."""

from __future__ import annotations

import math

from finegraph.errors import ExportError

FORMAT, FORMAT_VERSION = "finegraph.export", 1
"""The name of the format, and the version of its names and layout."""
IMAGES = "images"
"""(batch, height, width, 3) of uint8: red, green, blue from 0 to 255, of the network's size."""
EVIDENCE, FINE_EVIDENCE = "evidence", "fine_evidence"
"""(batch or 1, coarse) and (batch or 1, fine) of float32: a likelihood per label, ones where nothing is known."""
NUMBER_RANGES, NUMBER_ESTIMATES = "number_ranges", "number_estimates"
"""(batch or 1, number, 2) of float64, in the unit of each number: the least and the greatest possible value, infinite
where there is no limit; and a value with its standard deviation, infinite where nothing is known."""
NO_RANGE, NO_ESTIMATE = (-math.inf, math.inf), (0.0, math.inf)
"""The values of these inputs where nothing is known of a number."""
LOG_PROBS, KIND_LOG_PROBS = "log_probs", "kind_log_probs"
"""(batch, fine) and (batch, coarse) of float32; coarse labels stand kind after kind, as in the evidence."""
NUMBER_MEANS, NUMBER_QUANTILES = "number_means", "number_quantiles"
"""(batch, number) and (batch, number, quantile) of float32: the mean and the quantiles of each number, in its unit."""
QUANTILES = (0.05, 0.5, 0.95)
"""The probabilities of the quantiles."""
EMBEDDING = "embedding"
"""(batch, feature) of float32: the feature of the network, of length 1."""
POSSIBLE = "possible"
"""(batch) of bool: whether the evidence can be true; where it is not, all log probabilities are minus infinity."""
OUTPUTS = (LOG_PROBS, KIND_LOG_PROBS, NUMBER_MEANS, NUMBER_QUANTILES, EMBEDDING, POSSIBLE)
SUFFIXES = (".onnx", ".pt2")
"""The two forms of an exported file, by the ending of its name."""
SMALLEST_NORM = 1e-12
"""A feature shorter than this is not stretched to length 1, but divided by this."""


def suffix_of(name: str) -> str:
    """The form that the name of a file asks for.

    Raises:
        ExportError: none of them.
    """
    for suffix in SUFFIXES:
        if name.lower().endswith(suffix):
            return suffix
    raise ExportError(f"{name}: expected a file name that ends in .onnx or .pt2, for ONNX or torch.export")
