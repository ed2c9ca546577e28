"""Judging the features of the photos of an evaluation: how good are they for search?

It needs the features themselves, which an evaluation does not keep. So they are computed apart, from the centre of each
photo, as an index has them; where features are stored, that costs reading the files, else one more pass of the network
over all photos.
"""

from __future__ import annotations

from dataclasses import replace

from finegraph.data.dataset import targets_of
from finegraph.data.samples import Samples
from finegraph.evaluation.photo_batches import PhotoOptions
from finegraph.evaluation.retrieval import Retrieval, judge_retrieval
from finegraph.model.features import extract_features
from finegraph.model.photo_classifier import PhotoClassifier


def judged_retrieval(classifier: PhotoClassifier, samples: Samples, options: PhotoOptions) -> Retrieval:
    """How good the features of photos are for search.

    Args:
        classifier: its network computes them.
        samples: the photos; those without a fine label, and those that cannot be read if that is no error, take no
            part.
        options: how photos are looked at, as for the evaluation; of several views, the centre.

    Raises:
        PhotoFileError: a photo that cannot be read, if that is an error.
    """
    box = options.get("box")
    features = extract_features(
        classifier.network,
        samples,
        classifier.views if box is None else replace(classifier.views, box=box),
        cache=options.get("cache", False),
        threads=options.get("workers"),
        on_bad_file=options.get("on_bad_file", "error"),
        engine=options.get("engine", "auto"),
    )
    fine = targets_of(features.samples, classifier.graph)[0]
    return judge_retrieval(classifier.graph, features.fine.numpy(), fine.numpy())
