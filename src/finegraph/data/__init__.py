"""Photos and their labels: their sources, decoding, views for a network, and checks.

Nothing is copied and no file of the user's is ever written. Reading a source opens lists and folders, no photo.
"""

from finegraph.data.samples import Box, Sample, Samples
from finegraph.data.sources import read_samples

__all__ = ["Box", "Sample", "Samples", "read_samples"]
