"""The prediction for a photo, as plain values for people and programs.

A `Prediction` holds everything at once, all of one posterior: the most probable fine labels, the labels of every kind,
the most specific statement that is sure enough, why the first answer rather than the second, and whether the photo
looks like none of the known labels; how probable the evidence was by the photo alone, and what to ask next. Cost: a few
passes over the graph; the explanation is the slowest of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.errors import InputError
from finegraph.inference import Answer, Explanation, Posterior, Question, Statement, ValueDistribution
from finegraph.model.answering.given import Surprise

_WORTH_ASKING = 0.01
"""The smallest expected gain, in bits, of a question that is offered."""
_SUREST = 0.999
"""The largest probability of an interval of a number; an interval of all that is possible would say nothing."""


class UnknownFlag(NamedTuple):
    """Whether a photo looks like none of the known labels.

    Attributes:
        score: how little it looks like them.
        threshold: a photo with a higher score is called unknown.
        is_unknown: whether this one is.
    """

    score: float
    threshold: float
    is_unknown: bool


@dataclass(frozen=True)
class Prediction:
    """The prediction for one photo.

    Attributes:
        photo: the name of the file, or `photo 1` and so on for photos without one.
        top: the most probable fine labels, best first; fewer where evidence leaves fewer.
        kinds: the most probable labels of every kind, best first.
        risk: how often the sure answer may be wrong.
        sure: the most specific statement with a probability of at least 1 - risk; None if there is none.
        explanation: why the first fine label rather than the second; None where only one is possible, or nobody asked.
        unknown: whether the photo looks like none of the known labels; None if the classifier has no rule for it.
        evidence_probability: the probability that the photo alone gave to what is known beside it; None if nothing
            is.
        contradicts_photo: whether the photo contradicts the evidence, so that the sure answer holds only if that is
            true; see `finegraph.model.answering.given.Surprise`.
        questions: what to ask next, the most telling first; none if the first fine label is sure enough, or nobody
            asked.
        numbers: for every number of the graph its expected value and an interval.
    """

    photo: str
    top: tuple[Answer, ...]
    kinds: dict[str, tuple[Answer, ...]]
    risk: float
    sure: Statement | None
    explanation: Explanation | None
    unknown: UnknownFlag | None
    evidence_probability: float | None = None
    contradicts_photo: bool = False
    questions: tuple[Question, ...] = ()
    numbers: dict[str, NumberAnswer] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The prediction as JSON data, with a name for every value."""
        explanation = None
        if self.explanation is not None:
            explanation = {
                "first": self.explanation.first,
                "second": self.explanation.second,
                "log_odds": self.explanation.log_odds,
                "parts": [part._asdict() for part in self.explanation.parts],
            }
        return {
            "photo": self.photo,
            "top": [answer._asdict() for answer in self.top],
            "kinds": {kind: [answer._asdict() for answer in answers] for kind, answers in self.kinds.items()},
            "risk": self.risk,
            "sure": None if self.sure is None else self.sure._asdict(),
            "explanation": explanation,
            "unknown": None if self.unknown is None else self.unknown._asdict(),
            "evidence_probability": self.evidence_probability,
            "contradicts_photo": self.contradicts_photo,
            "questions": [{**question._asdict(), "text": question.text} for question in self.questions],
            "numbers": {number: {**answer._asdict(), "text": str(answer)} for number, answer in self.numbers.items()},
        }

    def __str__(self) -> str:
        first = ", ".join(f"{answer.label} {answer.probability:.1%}" for answer in self.top[:3])
        sure = f"sure at a risk of {self.risk:.3g}: {'nothing' if self.sure is None else self.sure}"
        if self.evidence_probability is not None:
            alone = f"the photo alone gave what is known {chance_words(self.evidence_probability)}"
            sure = f"if what is known is true; but {alone}" if self.contradicts_photo else f"{sure}; {alone}"
        warning = "; perhaps none of the known labels" if self.unknown is not None and self.unknown.is_unknown else ""
        return f"{self.photo}: {first}; {sure}{warning}"


def chance_words(probability: float) -> str:
    """A probability as one says it, also a small one: `62 %`, `1 in 4,000`."""
    if probability >= 0.1:
        return "over 99 %" if 0.995 <= probability < 1.0 - 1e-9 else f"{100 * probability:.0f} %"
    if probability < 1e-9:
        return "less than 1 in 1,000,000,000"
    return f"1 in {float(f'{1.0 / probability:.2g}'):,.0f}"


QUANTILES = (0.05, 0.5, 0.95)
"""The probabilities of the quantiles that predictions give of a number."""


class NumberAnswer(NamedTuple):
    """The prediction of a number, such as a price, in the user's unit.

    Attributes:
        mean: the expected value.
        spread: its standard deviation.
        low: the lower end of the shortest interval that holds the value with `probability`.
        high: the upper end.
        probability: that the value is in this interval; 1 - risk.
        unit: what it is counted in; may be empty.
        quantiles: the values that are not exceeded with a probability of 5, 50 and 95 %; empty if they were not asked.
    """

    mean: float
    spread: float
    low: float
    high: float
    probability: float
    unit: str
    quantiles: tuple[float, ...] = ()

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        if self.low == self.high:
            return f"{in_digits(self.low)}{unit}"
        ends = f"{in_digits(self.low)} to {in_digits(self.high)}"
        # What is less than a thousandth of the spread is rounding: 0, and not 1e-17.
        mean = 0.0 if abs(self.mean) < 1e-3 * self.spread else self.mean
        return f"about {in_digits(mean)}{unit} ({ends} in {100 * self.probability:.4g} %)"


def in_digits(value: float) -> str:
    """A value with three digits, or all digits of a whole number such as a year."""
    if value == round(value) and abs(value) < 1e6:
        return f"{value:.0f}"
    return f"{value:.0f}" if 100 <= abs(value) < 1e6 else f"{value:.3g}"


@dataclass(frozen=True, kw_only=True)
class PredictionSettings:
    """The settings of a prediction."""

    top: int = 5
    """How many labels are listed at most, of the fine labels and of each kind."""
    risk: float = 0.05
    """How often the sure answer may be wrong."""
    explain: bool = True
    """Whether the first answer is explained against the second."""
    questions: int = 3
    """How many questions are offered at most; 0 for none."""

    def __post_init__(self) -> None:
        if isinstance(self.top, bool) or not isinstance(self.top, int) or self.top < 1:
            raise InputError(f"top: expected how many labels to list, at least 1, got {self.top!r}")
        if isinstance(self.questions, bool) or not isinstance(self.questions, int) or self.questions < 0:
            raise InputError(f"questions: expected how many questions to offer, at least 0, got {self.questions!r}")
        if not isinstance(self.risk, int | float) or not 0.0 <= self.risk < 1.0:
            raise InputError(f"risk: expected a number of at least 0 and below 1, got {self.risk!r}")


def probabilities(log_probs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Probabilities in float64, as they are shown, stored and compared; rounding may take sums above 1."""
    return log_probs.double().exp().clamp_max(1.0)


def describe(
    posterior: Posterior,
    photos: Sequence[str],
    settings: PredictionSettings,
    unknown: Sequence[UnknownFlag] | None = None,
    surprise: Sequence[Surprise | None] | None = None,
) -> list[Prediction]:
    """The predictions from a posterior, one for each of its samples.

    Args:
        posterior: one sample per photo, with the evidence if there is any.
        photos: what the photos are called.
        settings: how many labels and questions, at which risk, and whether to explain.
        unknown: whether each photo is unknown, if there is a rule.
        surprise: how probable the evidence was by each photo alone; None if there is none.

    Raises:
        InputError: the scores of a photo are NaN or infinite; it is named.
    """
    top, risk = settings.top, float(settings.risk)
    with torch.no_grad():
        marginals = posterior.marginals(photos.__getitem__)
        (best,) = _best(marginals.fine.unsqueeze(1), [posterior.graph.fine], max(top, 2))
        kinds = _best_of_kinds(posterior, marginals.coarse, top)
        values = {number: posterior.value(number, marginals.fine) for number in posterior.graph.numbers}
        sure = posterior.answer(risk, marginals, list(values.values()))
        explanations = _explanations(posterior, best) if settings.explain else {}
        questions = _questions(posterior, settings)
        numbers = {number: _number_answers(value, risk) for number, value in values.items()}
    surprise = [None] * len(photos) if surprise is None else surprise
    return [
        Prediction(
            photo=photo,
            top=best[row][:top],
            kinds={kind: answers[row] for kind, answers in kinds.items()},
            risk=risk,
            sure=sure[row],
            explanation=explanations.get(row),
            unknown=None if unknown is None else unknown[row],
            evidence_probability=None if surprising is None else surprising.probability,
            contradicts_photo=surprising is not None and surprising.contradicts,
            questions=questions[row],
            numbers={number: answers[row] for number, answers in numbers.items()},
        )
        for row, (photo, surprising) in enumerate(zip(photos, surprise, strict=True))
    ]


def _number_answers(value: ValueDistribution, risk: float) -> list[NumberAnswer]:
    """The predictions of one number, for each sample."""
    probability = min(1.0 - risk, _SUREST)
    interval = value.interval(probability)
    quantiles = torch.stack([value.quantile(q) for q in QUANTILES], dim=1)
    columns = (value.mean, value.spread, interval.low, interval.high, quantiles)
    return [
        NumberAnswer(mean, spread, low, high, probability, value.unit, tuple(at))
        for mean, spread, low, high, at in zip(*(column.tolist() for column in columns), strict=True)
    ]


def _questions(posterior: Posterior, settings: PredictionSettings) -> list[tuple[Question, ...]]:
    """What to ask next about each photo; nothing if the first fine label is sure enough."""
    if not settings.questions or not (posterior.graph.kinds or posterior.graph.numbers):
        return [()] * len(posterior)
    questions = posterior.questions(settings.questions, float(settings.risk))
    return [
        tuple(
            question for question in asked if question.gain >= _WORTH_ASKING and question.before < 1.0 - settings.risk
        )
        for asked in questions
    ]


def _best_of_kinds(posterior: Posterior, log_probs: Tensor, count: int) -> dict[str, list[tuple[Answer, ...]]]:
    """The most probable labels of every kind, per row; kinds with equally many labels are looked through together."""
    graph, columns = posterior.graph, posterior.tensors.columns
    by_size: dict[int, list[str]] = {}
    for kind in graph.kinds:
        by_size.setdefault(len(graph.labels(kind)), []).append(kind)
    by_kind: dict[str, list[tuple[Answer, ...]]] = {}
    for kinds in by_size.values():
        together = torch.stack([log_probs[:, columns[kind]] for kind in kinds], dim=1)
        by_kind.update(zip(kinds, _best(together, [graph.labels(kind) for kind in kinds], count), strict=True))
    return {kind: by_kind[kind] for kind in graph.kinds}


def _best(log_probs: Tensor, labels: Sequence[Sequence[str]], count: int) -> list[list[tuple[Answer, ...]]]:
    """The most probable labels of several kinds in each row, without those that are impossible.

    Args:
        log_probs: (batch, kind, label).
        labels: those of each kind.
        count: how many are listed at most.
    """
    values, index = log_probs.topk(min(count, log_probs.shape[2]), dim=2)
    rows = zip(probabilities(values).tolist(), values.isneginf().tolist(), index.tolist(), strict=True)
    each = [
        [
            tuple(
                Answer(names[label], probability)
                for probability, impossible, label in zip(*found, strict=True)
                if not impossible
            )
            for names, *found in zip(labels, *row, strict=True)
        ]
        for row in rows
    ]
    return [list(column) for column in zip(*each, strict=True)] if each else [[] for _ in labels]


def _explanations(posterior: Posterior, best: Sequence[tuple[Answer, ...]]) -> dict[int, Explanation]:
    """Why the first answer rather than the second, for the rows that have a second one."""
    rows = [row for row, answers in enumerate(best) if len(answers) > 1]
    if not rows:
        return {}
    chosen = posterior if len(rows) == len(posterior) else posterior.some(rows)
    explanations = chosen.explain([best[row][0].label for row in rows], [best[row][1].label for row in rows])
    return dict(zip(rows, explanations, strict=True))
