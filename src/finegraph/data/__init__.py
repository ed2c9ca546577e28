"""Photos and their labels: where they lie, how they are decoded and cut for a network, and what is wrong with them.

Nothing is copied and no file of the user's is ever written. Reading a source opens lists and folders, no photo.
"""

from finegraph.data.samples import Box, Sample, Samples
from finegraph.data.sources import read_samples

__all__ = ["Box", "Sample", "Samples", "read_samples"]
