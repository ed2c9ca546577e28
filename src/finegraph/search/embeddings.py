"""From photos to the entries of an index: vectors, predictions, and the fingerprint of the model that makes them.

Queries are a few photos, in any form. Photos to be stored are many, in files; their features may be stored already.

The fingerprint is of everything that features and answers depend on: the network with its weights, how photos are cut
and scaled for it, the head and the label graph. The temperature and the rule for unknown photos are not part of it:
they say how sure an answer is, not which photos are near.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from finegraph.data.samples import Sample
from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.inference import Posterior
from finegraph.model.answering.given import Given
from finegraph.model.answering.pipeline import known_posteriors
from finegraph.model.answering.predictions import probabilities
from finegraph.model.features import Features
from finegraph.model.features.engines import EngineName
from finegraph.model.features.keys import features_key
from finegraph.model.features.photos import Photo, is_one_photo, photo_inputs
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.search.index_state import ModelEntry
from finegraph.search.nearest import Vectors
from finegraph.search.projection import project
from finegraph.search.segments import GUESSES, NONE, Columns

_DIGEST_SIZE = 16


@dataclass(frozen=True, eq=False)
class Queries:
    """Photos to search by.

    Attributes:
        names: what the photos are called.
        features: (batch, feature) of the model.
        posteriors: of the photos, batch after batch, with what is known of them.
    """

    names: tuple[str, ...]
    features: Float[Vectors, "batch feature"]
    posteriors: tuple[Posterior, ...]


def embed_photos(
    model: PhotoClassifier,
    photos: Photo | Iterable[Photo],
    given: Mapping[str, object] | None = None,
    engine: EngineName = "auto",
) -> Queries:
    """The features and the posteriors of some photos.

    Args:
        model: the classifier.
        photos: paths, pictures or arrays; one, or several.
        given: what is known of them; see `PhotoClassifier.predict`.
        engine: what computes features; see `make_engine`.

    Raises:
        PhotoFileError: a photo that cannot be read.
        EvidenceError: what is given cannot be used.
    """
    listed = [photos] if is_one_photo(photos) else list(photos)  # type: ignore[arg-type]
    items = photo_inputs(listed, None)
    names = tuple(item.name for item in items)
    evidence = Given(model.graph, given, names)
    rows, posteriors = [np.zeros((0, model.network.backbone.feature_size), np.float32)], []
    for batch in model.current_pipeline(engine=engine).posteriors(items):
        posteriors.append(evidence.apply(model.of_photos(batch.posterior), batch.numbers))
        rows.append(batch.features[:, 0].numpy())
    return Queries(names, np.concatenate(rows), tuple(posteriors))


def stored_columns(
    model: PhotoClassifier, features: Features, directions: Float[Vectors, "feature axis"] | None
) -> Columns:
    """What an index keeps of photos whose features were computed.

    Args:
        model: the classifier that computed them.
        features: of the photos.
        directions: the projection; None for none.

    Raises:
        InputError: a feature that is not a number.
    """
    rows = features.fine.numpy()
    if not np.isfinite(rows).all():
        bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise InputError(
            f"{features.samples[bad].path}: the network gives features that are not numbers; its weights are broken"
        )
    samples = list(features.samples)
    labels, probs = _beliefs(model, features, samples)
    return Columns(
        vectors=project(rows, directions).astype(np.float16),
        keys=np.frombuffer(b"".join(features.keys), np.uint8).reshape(len(samples), -1),
        paths=[str(sample.path.absolute()) for sample in samples],
        labels=[sample.label for sample in samples],
        guess_labels=labels,
        guess_probs=probs,
        kinds=_seen(samples, model.graph),
        boxes=[sample.box if model.views.box else None for sample in samples],
    )


def _beliefs(
    model: PhotoClassifier, features: Features, samples: list[Sample]
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The assumptions about each photo: its label if the graph has it, else the model's best guesses.

    Of a photo whose label the graph does not have nothing is assumed: whatever the model says is wrong.
    """
    count = min(GUESSES, len(model.graph))
    labels = np.full((len(samples), GUESSES), NONE, np.int32)
    probs = np.zeros((len(samples), GUESSES), np.float32)
    start = 0
    for batch in known_posteriors(model.network, features):
        rows = slice(start, start + len(batch.numbers))
        best = model.of_photos(batch.posterior).log_probs().topk(count, dim=1)
        labels[rows, :count] = best.indices.cpu().numpy()
        probs[rows, :count] = probabilities(best.values).cpu().numpy()
        start = rows.stop
    number_of = {name: number for number, name in enumerate(model.graph.fine)}
    for row, sample in enumerate(samples):
        if sample.label is not None:
            known = sample.label in number_of
            labels[row], probs[row] = NONE, 0.0
            labels[row, 0], probs[row, 0] = number_of.get(sample.label, NONE), float(known)
    return labels, probs


def _seen(samples: list[Sample], graph: LabelGraph) -> dict[str, NDArray[np.int32]]:
    """The labels of kinds that were seen on photos, by number; labels and kinds that the graph lacks are left out."""
    labels_by_kind = {}
    for kind in graph.kinds:
        if any(kind in sample.kinds for sample in samples):
            number_of = {name: number for number, name in enumerate(graph.labels(kind))}
            labels_by_kind[kind] = np.array(
                [number_of.get(sample.kinds.get(kind, ""), NONE) for sample in samples], np.int32
            )
    return labels_by_kind


def model_entry(model: PhotoClassifier, path: str | os.PathLike[str] = "") -> ModelEntry:
    """The name and the fingerprint of a model.

    Args:
        model: the model.
        path: where it is.
    """
    network = model.network
    digest = hashlib.blake2b(digest_size=_DIGEST_SIZE)
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
