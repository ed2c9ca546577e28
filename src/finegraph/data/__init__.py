"""Photos and their labels: their sources, decoding, views for a network, and checks.

Nothing is copied and no file of the user's is ever written. Reading a source opens lists and folders, no photo. What
reads sources needs label graphs, so it is loaded when first used: a worker that decodes photos starts without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from finegraph.data.samples import Box, Sample, Samples

if TYPE_CHECKING:
    from finegraph.data.sources import read_samples

__all__ = ["Box", "Sample", "Samples", "read_samples"]


def __getattr__(name: str) -> object:
    if name == "read_samples":
        from finegraph.data.sources import read_samples

        return read_samples
    raise AttributeError(f"module 'finegraph.data' has no attribute {name!r}")
