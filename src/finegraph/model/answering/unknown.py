"""Photos of none of the classes: a score that says how little a photo looks like the known ones, and a threshold on it.

A posterior always sums to 1, so it names some fine label for any photo. A score that is higher where the network
recognises less, and a threshold on it, tell which photos are unknown. The threshold is chosen on photos of known
classes so that a stated share of them is kept; what share of foreign photos it finds is a matter of the photos, and is
measured in `finegraph.evaluation`. Every score costs at most one more pass over the posterior.

    log_prob    minus the log probability of the most probable fine label
    entropy     the entropy of the fine label, in nats
    kinds       minus the log probability of the most probable label, mean over the fine label and every kind
    energy      minus log z, the log of the sum of exp(joint scores)
    max_score   minus the largest joint score

The first three see probabilities only. The last two also see how large the scores are, which probabilities forget;
since an average of views is one of probabilities, they are computed view by view and then averaged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from finegraph.errors import EvidenceError, InputError, unknown_name
from finegraph.inference import Posterior
from finegraph.inference.numbers.potential import number_terms
from finegraph.inference.numerics import at_least_float32


@dataclass(frozen=True)
class UnknownRule:
    """When a photo is called unknown.

    Attributes:
        score: the name of the score, one of `UNKNOWN_SCORES`.
        threshold: a photo whose score is above this is unknown.
        kept: the share of photos of known classes that the threshold was chosen to keep.
        views: how many views of each photo it was chosen with, for another number it says nothing; None in files that
            do not say so.

    Example:
        >>> rule = UnknownRule("log_prob", threshold=1.5, kept=0.95)
        >>> rule.is_unknown(torch.tensor([0.2, 1.5, 3.0])).tolist()
        [False, False, True]
    """

    score: str
    threshold: float
    kept: float
    views: int | None = None

    def __post_init__(self) -> None:
        if self.score not in UNKNOWN_SCORES:
            raise unknown_name("score of unknown photos", self.score, tuple(UNKNOWN_SCORES))
        if not _is_number(self.threshold) or not math.isfinite(self.threshold):
            raise InputError(f"unknown: the threshold must be a finite number, got {self.threshold!r}")
        if not _is_number(self.kept) or not 0.0 < self.kept <= 1.0:
            raise InputError(
                f"unknown: the share of known photos to keep must be above 0 and at most 1, got {self.kept!r}"
            )
        if self.views not in (None, 1, 10):
            raise InputError(f"unknown: expected 1 or 10 views, got {self.views!r}")

    def scores(self, posterior: Posterior, *, views: int = 1) -> Float[Tensor, " batch"]:
        """The score of each sample; see `unknown_scores`."""
        return unknown_scores(posterior, self.score, views=views)

    def holds_for(self, views: int) -> bool:
        """Whether the threshold may be used for photos of this many views."""
        return self.views in (None, views)

    def is_unknown(self, scores: Float[Tensor, " batch"]) -> Bool[Tensor, " batch"]:
        """Which scores are above the threshold."""
        return scores > self.threshold

    def to_dict(self) -> dict[str, object]:
        """The rule as JSON data."""
        views = {} if self.views is None else {"views": self.views}
        return {"score": self.score, "threshold": self.threshold, "kept": self.kept, **views}

    @classmethod
    def from_dict(cls, content: Mapping[str, object]) -> UnknownRule:
        """The rule that `to_dict` gave."""
        if set(content) - {"views"} != {"score", "threshold", "kept"}:
            raise InputError(f"unknown: expected score, threshold and kept, got {', '.join(sorted(content)) or 'none'}")
        return cls(**content)  # type: ignore[arg-type]  # the values are checked there


def unknown_scores(posterior: Posterior, score: str | None = None, *, views: int = 1) -> Float[Tensor, " batch"]:
    """How little each sample looks like the known classes, in float64; higher is less.

    Args:
        posterior: of the network itself: before a temperature, so that a new one does not move the scores, and
            before evidence, since what is known beside a photo says nothing of the photo.
        score: one of `UNKNOWN_SCORES`; by default `DEFAULT_SCORE`.
        views: how many samples in a row are views of one photo; `posterior` is then that of the single views.
    """
    score = DEFAULT_SCORE if score is None else score
    if score not in UNKNOWN_SCORES:
        raise unknown_name("score of unknown photos", score, tuple(UNKNOWN_SCORES))
    if posterior.evidence is not None:
        raise EvidenceError("unknown: expected a posterior without evidence; compute the score before giving evidence")
    with torch.no_grad():
        if score in _VIEW_BY_VIEW:
            return UNKNOWN_SCORES[score](posterior).reshape(-1, views).mean(dim=1)
        return UNKNOWN_SCORES[score](posterior if views == 1 else posterior.mean_views(views))


def _log_prob(posterior: Posterior) -> Tensor:
    return -posterior.log_probs().amax(dim=1).double()


def _entropy(posterior: Posterior) -> Tensor:
    return posterior.entropy().double()


def _kinds(posterior: Posterior) -> Tensor:
    fine = posterior.log_probs()
    total = fine.amax(dim=1).double()
    for kind in posterior.graph.kinds:
        total += posterior.kind_log_probs(kind, fine).amax(dim=1).double()
    return -total / (1 + len(posterior.graph.kinds))


def _energy(posterior: Posterior) -> Tensor:
    largest, log_prob = _largest(posterior)
    return log_prob - largest  # log z = s_i - log p_i for any i; the largest is exact


def _max_score(posterior: Posterior) -> Tensor:
    return -_largest(posterior)[0]


def _largest(posterior: Posterior) -> tuple[Tensor, Tensor]:
    """The largest joint score of each sample and the log probability of its fine label.

    The posterior's own joint scores are centred, which leaves probabilities alone but would change this score.
    """
    log_prob, best = posterior.log_probs().max(dim=1)
    total = posterior.fine_scores.double().gather(1, best.unsqueeze(1)).squeeze(1)
    if posterior.coarse_scores is not None:
        for kind in posterior.tensors.kinds:
            groups = kind.group_scores(at_least_float32(posterior.coarse_scores[:, kind.columns]))
            total = total + groups.double().gather(1, kind.group[best].unsqueeze(1)).squeeze(1)
    if posterior.number_scores is not None:
        terms = number_terms(posterior.tensors.numbers, posterior.number_scores, None)
        total = total + terms.gather(1, best.unsqueeze(1)).squeeze(1)
    return total, log_prob.double()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


UNKNOWN_SCORES: dict[str, Callable[[Posterior], Tensor]] = {
    "log_prob": _log_prob,
    "entropy": _entropy,
    "kinds": _kinds,
    "energy": _energy,
    "max_score": _max_score,
}
"""The scores by name; see the top of this file."""
_VIEW_BY_VIEW = ("energy", "max_score")
DEFAULT_SCORE = "kinds"
"""The score that is used if none is named."""
