"""Classifiers of scikit-learn as heads of a study: rivals from outside, tuned on the same photos as often.

    sklearn-logistic        LogisticRegression; the N strengths of softmax
    sklearn-discriminant    LinearDiscriminantAnalysis with a shrunk covariance; N / 4 shrinkages

Discriminant analysis takes directions of features for independent, so that it is far too sure. Chosen by likelihood as
it is, it would be held back by that alone; scores divided by a temperature make it a fair rival. For each shrinkage it
is the one under which the validation photos are most likely; one number, found by golden sections, is no setting.

Both know the classes that have photos. Other fine labels get a tiny probability, so that likelihoods stay finite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from finegraph.errors import MissingExtraError, SettingsError
from finegraph.graph import LabelGraph
from finegraph.inference import Posterior
from finegraph.model.fitting.prototype_strengths import golden_maximum
from finegraph.workflows.studies.closed_form_heads import shrinkages
from finegraph.workflows.studies.fitted_head import Fitted, HeadAnswer, with_implied
from finegraph.workflows.studies.photo_sets import PhotoMatrices

LOGISTIC, DISCRIMINANT = "sklearn-logistic", "sklearn-discriminant"
TEMPERATURES = (0.25, 4096.0)
"""Between which temperatures the best one is looked for. With two photos of each class it is above 64 at times."""
_PER_SHRINKAGE = 4
"""How many settings a shrinkage counts as: each takes a fit of its own and a temperature."""
MIN_LOG_PROB = -30.0
"""The log probability of fine labels without a photo, and of all that scikit-learn rounds to 0."""

Estimator = Any
"""A classifier of scikit-learn, which has no types."""


def check_installed(heads: Sequence[str]) -> None:
    """Refuse heads of scikit-learn where it is not installed."""
    wanted = [head for head in heads if head in (LOGISTIC, DISCRIMINANT)]
    if wanted and find_spec("sklearn") is None:
        raise MissingExtraError(
            f"heads: {', '.join(wanted)} need{'s' if len(wanted) == 1 else ''} scikit-learn, which is not installed; "
            'install it with `pip install "finegraph[sklearn]"`, or leave such heads out'
        )


def check_photos(head: str, amount: str, photos: int, labels: int) -> None:
    """Refuse what discriminant analysis cannot be fitted to."""
    if head == DISCRIMINANT and photos <= labels:
        raise SettingsError(
            f"heads: {head} measures how photos of a class differ, and with amounts = {amount!r} every class has one; "
            f'leave these cells out with skip = [{{heads = ["{head}"], amounts = ["{amount}"]}}]'
        )


def fit_logistic(graph: LabelGraph, train: PhotoMatrices, val: PhotoMatrices, strengths: Sequence[float]) -> Fitted:
    """Logistic regression with the strength under which the validation photos are most likely.

    Args:
        graph: with all kinds that are measured.
        train: what to fit.
        val: what to choose on.
        strengths: of the prior on a mean loss, as softmax tries them.
    """
    from sklearn.linear_model import LogisticRegression

    def made(l2: float, **other: object) -> Estimator:
        return LogisticRegression(C=1.0 / (l2 * len(train)), max_iter=1000, **other)

    path = made(strengths[0], warm_start=True)  # each strength starts where the last one ended
    best, likelihood = strengths[0], -np.inf
    for l2 in strengths:
        path.C = 1.0 / (l2 * len(train))
        candidate = _likelihood(_Classes(graph, path.fit(*_arrays(train))), val)
        if candidate > likelihood:
            best, likelihood = l2, candidate
    began = perf_counter()
    fit = made(best).fit(*_arrays(train))
    fitted = Fitted(_Classes(graph, fit), len(strengths))
    steps = int(np.max(fit.n_iter_))
    seconds = perf_counter() - began
    fitted.add(LOGISTIC, {"l2": best}, seconds, iterations=steps, converged=steps < fit.max_iter)
    return fitted


def fit_discriminant(graph: LabelGraph, train: PhotoMatrices, val: PhotoMatrices, count: int) -> Fitted:
    """Shrunk discriminant analysis, with what makes the validation photos most likely.

    Args:
        graph: with all kinds that are measured.
        train: what to fit.
        val: what to choose on.
        count: how many settings to try, of which a shrinkage with its temperature counts as four.
    """
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    def made(shrinkage: float) -> Estimator:
        # scikit-learn's is the share of the mean eigenvalue; ours is its ratio to the rest.
        return LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage / (1.0 + shrinkage)).fit(*_arrays(train))

    tried = {}
    for one in shrinkages(count // _PER_SHRINKAGE):
        fit = made(one)
        found = _likely_temperature(fit, val)
        tried[one] = (_likelihood(_Classes(graph, fit, found), val), found)
    shrinkage = max(tried, key=lambda one: tried[one][0])
    temperature = tried[shrinkage][1]
    began = perf_counter()
    fitted = Fitted(_Classes(graph, made(shrinkage), temperature), count)
    fitted.add(DISCRIMINANT, {"shrinkage": shrinkage, "temperature": temperature}, perf_counter() - began)
    return fitted


def _likely_temperature(fit: Estimator, val: PhotoMatrices) -> float:
    """The temperature under which those validation photos are most likely whose class it knows."""
    known = np.asarray(fit.classes_)
    own = np.isin(val.target.numpy(), known)
    if not own.any():
        return 1.0
    scores = torch.from_numpy(_scores(fit.decision_function(val.fine.numpy()[own])))
    places = torch.from_numpy(np.searchsorted(known, val.target.numpy()[own]))

    def likelihood(place: float) -> float:
        return -float(cross_entropy(scores / math.exp(place), places))

    return math.exp(golden_maximum(likelihood, *(math.log(end) for end in TEMPERATURES)))


class _Classes:
    """A classifier of scikit-learn; kinds and numbers follow from its fine labels."""

    def __init__(self, graph: LabelGraph, estimator: Estimator, temperature: float = 1.0) -> None:
        self.graph, self.estimator, self.temperature = graph, estimator, temperature

    def log_probs(self, features: Tensor) -> Float[Tensor, "batch fine"]:
        scores = _scores(self.estimator.decision_function(features.numpy()))
        class_log_probs = torch.log_softmax(torch.from_numpy(scores) / self.temperature, dim=1).clamp_min(MIN_LOG_PROB)
        log_probs = torch.full((len(class_log_probs), len(self.graph)), MIN_LOG_PROB, dtype=torch.float64)
        log_probs[:, torch.from_numpy(np.asarray(self.estimator.classes_))] = class_log_probs
        return torch.log_softmax(log_probs, dim=1)

    def answer(self, features: Tensor, coarse: Tensor | None, views: int) -> HeadAnswer:
        log_probs = Posterior(self.graph, self.log_probs(features)).mean_views(views).log_probs()
        return with_implied(self.graph, HeadAnswer(log_probs, {}, {}, {}))

    def step(self, part: PhotoMatrices) -> tuple[float, float] | None:
        return None  # not ours to time


def _scores(decision: NDArray[np.floating[Any]]) -> Float[NDArray[np.float64], "batch fine"]:
    """A column of scores per class; scikit-learn gives two classes one column, the difference of their scores."""
    scores = decision if decision.ndim == 2 else np.stack([np.zeros_like(decision), decision], axis=1)
    return scores.astype(np.float64)


def _likelihood(model: _Classes, val: PhotoMatrices) -> float:
    """The mean log probability of the fine labels of validation photos."""
    return float(model.log_probs(val.fine).gather(1, val.target[:, None]).mean())


def _arrays(part: PhotoMatrices) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    return part.fine.numpy(), part.target.numpy()
