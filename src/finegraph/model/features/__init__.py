"""From photos to a feature matrix; each photo is computed only once.

Features are the output of a frozen backbone for a photo. `extract_features` computes them with ONNX Runtime or torch,
in as many threads as there are cores, and keeps them in a folder by the content of the photo, so that the next run,
with the same photos and the same network, needs no network at all.
"""

from finegraph.model.features.cache import default_cache_folder
from finegraph.model.features.extract import Features, extract_features

__all__ = ["Features", "default_cache_folder", "extract_features"]
