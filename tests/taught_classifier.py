"""A small classifier that was fitted in closed form, so that it can be taught, and photos of its labels."""

import copy
import functools

import numpy as np
import torch
from PIL import Image

import tiny_classifier as tiny
from finegraph.model.features.photos import PhotoInput, read_views
from finegraph.model.fitting.prototypes import fit_prototypes
from finegraph.model.teaching.class_statistics import ClassStatistics

PHOTOS_PER_LABEL = 4


def photo_of(label, number):
    """A picture that is of a label, more or less: grains and a colour around those of the dish and of the label."""
    dish = np.random.default_rng(100 + label // 2).uniform(-40, 40, (5, 5, 3))
    own = np.random.default_rng(200 + label).uniform(-25, 25, (5, 5, 3))
    noise = np.random.default_rng(1000 * label + number).normal(0, 30, (5, 5, 3))
    grains = np.clip(128 + dish + own + noise, 0, 255).astype(np.uint8)
    return np.asarray(Image.fromarray(grains).resize((40, 40), Image.Resampling.BILINEAR))


def fitted(table=None, *, head="bipartite", labels=None):
    """A classifier with class means of a few photos of each label; a copy, as tests teach it."""
    fit = _fitted if table is None else _fitted.__wrapped__
    return copy.deepcopy(fit(table, head, labels))


@functools.cache  # fitting takes most of a second, and many tests begin with this model
def _fitted(table, head, labels):
    model = tiny.classifier(tiny.TABLE if table is None else table, head=head)
    graph = model.graph
    chosen = range(len(graph)) if labels is None else labels
    targets = torch.tensor([label for label in chosen for _ in range(PHOTOS_PER_LABEL)])
    photos = [photo_of(label, number) for label in chosen for number in range(PHOTOS_PER_LABEL)]
    with torch.no_grad():
        pixels = torch.stack([_pixels(photo) for photo in photos])
        features = model.network.features(pixels)[0]
    fit = fit_prototypes(features, targets, graph)
    model.network.put_head(fit.head, fit.scaling)
    model.statistics = ClassStatistics.of_fit(fit, features, targets)
    return model


def _pixels(photo):
    return read_views(PhotoInput("photo", photo, None), tiny.VIEWS, 1)[0]
