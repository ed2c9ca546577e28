"""The fingerprint of the model that made an index: of everything that its features and answers depend on.

The network with its weights, how photos are cut and scaled for it, the head and the label graph are part of it. The
temperature and the rule for unknown photos are not: they say how sure an answer is, not which photos are near.
"""

from __future__ import annotations

import hashlib
import os

import numpy as np
from torch import Tensor

from finegraph.model.features.keys import features_key
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.search.index_state import ModelEntry

_SIZE = 16


def model_entry(model: PhotoClassifier, path: str | os.PathLike[str] = "") -> ModelEntry:
    """The name and the fingerprint of a model.

    Args:
        model: the model.
        path: where it is.
    """
    network = model.network
    digest = hashlib.blake2b(digest_size=_SIZE)
    digest.update(network.graph.digest.encode())
    design = network.design
    # Written out rather than by `repr`: a new field of the design must not make indexes of old models look foreign.
    text = f"network={design.network!r}, head={design.head!r}, coarse_network={design.coarse_network!r}"
    digest.update(f"NetworkDesign({text}) box={model.views.box}\n".encode())
    for backbone in (network.backbone, network.coarse_backbone):
        if backbone is not None:
            digest.update(features_key(backbone, model.views, "centre").encode())
    scaling = {} if network.scaling is None else network.scaling.state_dict(prefix="scaling.")
    for name, value in {**scaling, **network.head.state_dict()}.items():
        if isinstance(value, Tensor):
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
            digest.update(np.ascontiguousarray(value.detach().cpu().double().numpy()).data)
    return ModelEntry(path=os.path.abspath(path) if path else "", network=design.network, digest=digest.hexdigest())
