"""Evaluating a classifier on photos: batch after batch through the network, straight into the metrics.

One view of each photo (the centre) or ten, whose probabilities are averaged; with or without its box. A photo that
cannot be read ends the evaluation or, when asked, is left out, named and counted; it is never replaced by another one.
The cost is that of the network.

How good the features are for search is judged on the features themselves, which an evaluation does not keep. So they
are computed apart, from the centre of each photo, as an index has them; if features are stored, that costs reading the
files, else one more pass of the network over all photos.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Unpack

import numpy as np
import torch
from jaxtyping import Float

from finegraph.data.dataset import targets_of
from finegraph.data.measured_values import measured_values
from finegraph.data.samples import Samples
from finegraph.errors import DataError
from finegraph.evaluation.asking import QuestionCollector, photos_to_ask
from finegraph.evaluation.collect import Collector
from finegraph.evaluation.details import DetailCollector, draw_order
from finegraph.evaluation.photo_settings import JoinedProgress, PhotoOptions, PhotoSettings, photo_batches
from finegraph.evaluation.results import BadPhoto, EvaluationResult
from finegraph.evaluation.retrieval import Retrieval, judge_retrieval
from finegraph.evaluation.sample_results import SampleResults
from finegraph.evaluation.temperature import TemperatureFit, TemperatureSearch
from finegraph.evaluation.unknown_metrics import Scores, choose_threshold, unknown_metrics
from finegraph.graph.faults import first_few
from finegraph.model.answering.pipeline import posterior_of
from finegraph.model.answering.unknown import DEFAULT_SCORE, UNKNOWN_SCORES, UnknownRule, unknown_scores
from finegraph.model.features import Features, extract_features
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.progress_types import ShowProgress

DEFAULT_KEPT = 0.95
"""The share of known photos that a threshold is to keep."""
CALIBRATION = "calibration"
"""Among the facts of a model: what its temperature and its threshold were fitted on."""


class Evaluation(NamedTuple):
    """What an evaluation gives: the metrics, and what is known of each photo."""

    result: EvaluationResult
    samples: SampleResults


@dataclass(frozen=True, kw_only=True)
class CalibrationFit:
    """A temperature and a threshold, fitted on photos that were not trained with.

    Attributes:
        temperature: what to divide scores by.
        unknown: when to call a photo unknown.
        bad_photos: the photos that could not be read and were left out.
    """

    temperature: TemperatureFit
    unknown: UnknownRule
    bad_photos: tuple[BadPhoto, ...] = ()


def evaluate_photos(
    classifier: PhotoClassifier,
    samples: Samples,
    *,
    risk: float = 0.05,
    foreign: Samples | None = None,
    details: DetailCollector | None = None,
    questions: int = 0,
    progress: ShowProgress | None = None,
    known: Features | None = None,
    known_foreign: Features | None = None,
    **options: Unpack[PhotoOptions],
) -> Evaluation:
    """Evaluate a classifier on photos with labels.

    Args:
        classifier: with its temperature and its rule for unknown photos.
        samples: the photos. Labels seen on a photo come before those that its fine label has in the graph.
        risk: the share of sure answers that may be wrong.
        foreign: photos of none of the classes, to see how many of them are found.
        details: takes in what a report shows of single photos.
        questions: how many questions to ask about a photo at most, to see how many settle it; 0 for none.
        progress: called with the number of photos done and the total.
        known: the features of the photos, of as many views, if they were computed already.
        known_foreign: the same of the foreign photos.
        **options: how photos are read, such as `views=10` or `box=True`; see `PhotoSettings`.

    Raises:
        UnknownNameError: labels that the graph of the classifier does not have, all of them at once.
        PhotoFileError: a photo that cannot be read, if that is an error.
        DataError: no photo has a label, or foreign photos are of known classes.
    """
    settings = PhotoSettings(**options)
    fine, kinds = targets_of(samples, classifier.graph)
    measured = measured_values(samples, classifier.graph)
    kinds |= {name: torch.from_numpy(values) for name, values in measured.items()}
    if not any(sample.label is not None or sample.kinds or sample.values for sample in samples):
        raise DataError(f"expected photos with labels to compare answers with, got {len(samples)} without any")
    if foreign is not None:
        refuse_known(foreign, classifier)
    asking = None
    if questions:
        chosen = photos_to_ask(classifier.graph, draw_order(samples), fine.numpy())
        asking = QuestionCollector(classifier.graph, risk, questions, chosen)
    score = DEFAULT_SCORE if classifier.unknown is None else classifier.unknown.score
    collector = Collector(
        classifier.graph,
        risk,
        temperature=classifier.temperature,
        views=settings.views,
        scores=(score,) if foreign is None else tuple(UNKNOWN_SCORES),
        name_of=lambda number: str(samples[number].path),
        details=details,
        questions=asking,
        score_again=partial(posterior_of, classifier.network),
    )
    joined = JoinedProgress(progress, len(samples) + (0 if foreign is None else len(foreign)))
    bad: list[BadPhoto] = []
    for batch in photo_batches(classifier, samples, settings, bad, joined.part(0), known):
        seen = {name: labels[batch.numbers] for name, labels in kinds.items()}
        features = (batch.features, batch.coarse_features)
        collector.add(batch.posterior, fine[batch.numbers], seen, torch.tensor(batch.numbers), features)
    result = collector.result()
    others = None
    if foreign is not None:
        others = foreign_scores(classifier, foreign, settings, bad, joined.part(len(samples)), known_foreign)
    rule = (
        classifier.unknown if classifier.unknown is not None and classifier.unknown.holds_for(settings.views) else None
    )
    if rule is not None or others is not None:
        known_scores = collector.samples().unknown
        result = replace(result, unknown=unknown_metrics(rule, score, DEFAULT_KEPT, known_scores, others))
    box = classifier.views.box if settings.box is None else settings.box
    return Evaluation(replace(result, box=box, bad_photos=tuple(bad)), collector.samples())


def calibrate_photos(
    classifier: PhotoClassifier,
    samples: Samples,
    *,
    score: str = DEFAULT_SCORE,
    kept: float = DEFAULT_KEPT,
    progress: ShowProgress | None = None,
    known: Features | None = None,
    held_out: int = 0,
    **options: Unpack[PhotoOptions],
) -> CalibrationFit:
    """Fit a temperature, and choose a threshold for unknown photos, on photos that were not trained with.

    Args:
        classifier: the classifier, whose own temperature and rule play no part.
        samples: photos of known classes; those without a fine label count for the threshold only.
        score: the score of unknown photos, one of `UNKNOWN_SCORES`.
        kept: the share of photos of known classes that the threshold is to keep.
        progress: called with the number of photos done and the total.
        known: the features of the photos, of as many views, if they were computed already.
        held_out: how many photos, held out or of validation, the head was calibrated by when it was fitted; they
            count beside these.
        **options: how photos are read; see `PhotoSettings`.

    Raises:
        InputError: there is no photo with a fine label.
    """
    settings = PhotoSettings(**options)
    UnknownRule(score, 0.0, kept)  # a wrong name or share shows now, not after all photos
    search = TemperatureSearch(settings.views)
    fine, _ = targets_of(samples, classifier.graph)
    scores: list[Scores] = [np.zeros(0)]
    bad: list[BadPhoto] = []
    for batch in photo_batches(classifier, samples, settings, bad, progress, known):
        search.add(batch.posterior, fine[batch.numbers].to(batch.posterior.fine_scores.device))
        scores.append(unknown_scores(batch.posterior, score, views=settings.views).cpu().numpy())
    temperature = search.fit(held_out)
    rule = UnknownRule(score, choose_threshold(np.concatenate(scores), kept), kept, settings.views)
    return CalibrationFit(temperature=temperature, unknown=rule, bad_photos=tuple(bad))


def calibrated(classifier: PhotoClassifier, fit: CalibrationFit, split: str) -> PhotoClassifier:
    """The same classifier with what was fitted, and with the fact that it was, on a split."""
    temperature = fit.temperature
    facts = {
        "split": split,
        "photos": temperature.photos,
        "nll_before": temperature.nll_before,
        "nll_after": temperature.nll_after,
    }
    about = {**classifier.about, CALIBRATION: facts}
    return classifier.with_calibration(temperature.temperature, fit.unknown, about)


def foreign_scores(
    classifier: PhotoClassifier,
    samples: Samples,
    settings: PhotoSettings,
    bad: list[BadPhoto],
    progress: ShowProgress | None = None,
    known: Features | None = None,
) -> dict[str, Float[Scores, " photo"]]:
    """All scores of photos of none of the classes; those that cannot be read are put into `bad`."""
    parts: dict[str, list[Scores]] = {name: [np.zeros(0)] for name in UNKNOWN_SCORES}
    for batch in photo_batches(classifier, samples, settings, bad, progress, known):
        for name, batch_scores in parts.items():
            batch_scores.append(unknown_scores(batch.posterior, name, views=settings.views).cpu().numpy())
    return {name: np.concatenate(batch_scores) for name, batch_scores in parts.items()}


def refuse_known(samples: Samples, classifier: PhotoClassifier) -> None:
    """Raise if photos of none of the classes are labelled with a class that the classifier knows.

    Raises:
        DataError: naming some of these classes.
    """
    known = sorted(set(samples.labels) & set(classifier.graph.fine))
    if known:
        raise DataError(
            f"{samples.source or 'foreign photos'}: expected photos of none of the known classes, got some of "
            f"{first_few(known, len(known))}; take those out"
        )


def judged_retrieval(
    classifier: PhotoClassifier, samples: Samples, options: PhotoOptions, known: Features | None = None
) -> Retrieval:
    """How good the features of photos are for search.

    Args:
        classifier: its network computes them.
        samples: the photos; those without a fine label, and those that cannot be read if that is no error, take no
            part.
        options: how photos are read, as for the evaluation; of several views, the centre.
        known: the features of the photos, if they were computed already; of several views the first is the centre.

    Raises:
        PhotoFileError: a photo that cannot be read, if that is an error.
    """
    box = options.get("box")
    features = known
    if features is None:
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
    centre = features.fine if features.fine.ndim == 2 else features.fine[:, 0]
    return judge_retrieval(classifier.graph, centre.numpy(), fine.numpy())
