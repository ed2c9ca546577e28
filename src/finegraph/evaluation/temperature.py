"""One temperature for all scores, fitted on photos that were not trained with.

Networks are often overconfident. Dividing every score by one number corrects much of that and changes almost no answer.
The best number is the one under which the true labels are the most probable: a search in one dimension.

Nothing is kept but the sum of the negative log-likelihood at 65 temperatures from 1/55 to 55, so that any number of
photos and fine labels can be gone through batch by batch; a parabola through the best three gives the rest. With few
photos, all of them right, the likelihood alone would have the temperature go to 0; so log T has a prior, normal around
0 with a deviation of 1, which counts like a few photos and is soon outweighed.

If a head was fitted with a temperature of its own, by photos held out for a moment, these count beside the others, a
photo as much as another: validation photos are often taken along with those to train on, and alone they would make a
model too sure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.data.dataset import MISSING
from finegraph.errors import InputError
from finegraph.inference import Posterior

_STEP, _SIDE = 0.125, 32
_PRIOR_DEVIATION = 1.0
_IN_CACHE = 1 << 17
"""About how many scores are in work at a time."""


@dataclass(frozen=True, kw_only=True)
class TemperatureFit:
    """A temperature and what it does on the photos that it was fitted on.

    Attributes:
        temperature: what all scores are to be divided by; above 1 if the network was too sure.
        photos: how many photos it was fitted on.
        nll_before: the negative log-likelihood of the true fine label at temperature 1, mean over photos.
        nll_after: the same at the temperature.
    """

    temperature: float
    photos: int
    nll_before: float
    nll_after: float


class TemperatureSearch:
    """The search for a temperature, fed batch by batch.

    Args:
        views: how many samples in a row are views of one photo, whose probabilities are averaged.
    """

    def __init__(self, views: int = 1) -> None:
        self.views, self.photos = views, 0
        self._log_temperatures = _STEP * torch.arange(-_SIDE, _SIDE + 1, dtype=torch.float64)
        self._total = torch.zeros(2 * _SIDE + 1, dtype=torch.float64)

    def add(self, posterior: Posterior, fine: Int[Tensor, " batch"]) -> None:
        """Take in the untempered posterior of a batch, of single views, and the true fine label of each photo."""
        known = fine != MISSING
        self.photos += int(known.sum())
        with torch.no_grad():
            self._total += _negative_log_likelihoods(posterior, fine, known, self.views, self._log_temperatures.exp())

    def fit(self, held_out: int = 0) -> TemperatureFit:
        """The best temperature for the photos so far.

        Args:
            held_out: by how many photos the scores were brought to a temperature of 1 already.

        Raises:
            InputError: there was no photo with a known fine label.
        """
        if not self.photos:
            raise InputError("temperature: expected photos with a fine label to fit it on, got none")
        prior = self._log_temperatures.square() / (2 * _PRIOR_DEVIATION**2)
        bend = float(self._total[_SIDE - 1] - 2.0 * self._total[_SIDE] + self._total[_SIDE + 1]) / _STEP**2
        if held_out and 0.0 < bend < float("inf"):
            prior = prior + (held_out * bend / self.photos) * self._log_temperatures.square() / 2
        goal = self._total + prior
        if not bool(torch.isfinite(goal).any()):
            raise InputError(
                "temperature: none can be fitted, as some true fine label has probability 0 at all of them"
            )
        best = int(goal.nan_to_num(nan=torch.inf).argmin())
        log_temperature = float(self._log_temperatures[best]) + _STEP * _vertex(goal, best)
        after = _at(self._total, best, _vertex(goal, best))
        return TemperatureFit(
            temperature=float(torch.tensor(log_temperature, dtype=torch.float64).exp()),
            photos=self.photos,
            nll_before=float(self._total[_SIDE]) / self.photos,
            nll_after=after / self.photos,
        )


def fit_temperature(posterior: Posterior, fine: Int[Tensor, " batch"], *, views: int = 1) -> TemperatureFit:
    """The best temperature for samples that fit in memory; see `TemperatureSearch`.

    Example:
        >>> from finegraph import LabelGraph
        >>> scores = torch.eye(2).repeat(50, 1) * 8  # sure of every answer ...
        >>> fine = torch.tensor([0, 1] * 40 + [1, 0] * 10)  # ... of which one in five is wrong
        >>> fit = fit_temperature(Posterior(LabelGraph(["a", "b"]), scores), fine)
        >>> f"{fit.temperature:.1f}, {fit.nll_before:.2f} -> {fit.nll_after:.2f}"
        '5.5, 1.60 -> 0.50'
    """
    search = TemperatureSearch(views)
    search.add(posterior, fine)
    return search.fit()


def _negative_log_likelihoods(
    posterior: Posterior, fine: Tensor, known: Tensor, views: int, temperatures: Tensor
) -> Float[Tensor, " temperature"]:
    """The sum over photos of minus the log probability of the true fine label, at each temperature."""
    place = fine.clamp_min(0).repeat_interleave(views).unsqueeze(1)
    # If each row has one parent per kind and exact values, joint scores are linear in the scores: one sum is enough.
    linear = posterior.coarse_scores is None or all(kind.plain for kind in posterior.tensors.kinds)
    linear = linear and (posterior.number_scores is None or posterior.tensors.numbers.linear)
    if linear:
        truths = _log_probs_at(posterior.joint_scores().scores, place, temperatures)
    else:
        parts = [posterior.tempered(one).log_probs().gather(1, place) for one in temperatures.tolist()]
        truths = torch.cat(parts, dim=1).t()
    sums = []
    for truth in truths.double().reshape(len(temperatures), -1, views):
        photo = torch.logsumexp(truth, dim=1) - math.log(views)
        sums.append(-photo[known].sum())
    return torch.stack(sums).cpu()


def _log_probs_at(
    scores: Float[Tensor, "batch fine"], place: Int[Tensor, "batch 1"], temperatures: Float[Tensor, " temperature"]
) -> Float[Tensor, "temperature batch"]:
    """The log probability of one fine label of each sample at each temperature.

    Samples are taken so few at a time that their scores stay in the caches while the temperatures change.
    """
    found = scores.new_empty(len(temperatures), len(scores))
    step = max(1, _IN_CACHE // scores.shape[1])
    for start in range(0, len(scores), step):
        rows = slice(start, start + step)
        part, labels = scores[rows], place[rows]
        for number, temperature in enumerate(temperatures.tolist()):
            found[number, rows] = torch.log_softmax(part / temperature, dim=1).gather(1, labels)[:, 0]
    return found


def _vertex(values: Tensor, best: int) -> float:
    """Where the parabola through three points has its minimum, in steps from the middle one; 0 at an end."""
    if not 0 < best < len(values) - 1:
        return 0.0
    left, middle, right = values[best - 1 : best + 2].tolist()
    bend = left - 2 * middle + right
    return 0.5 * (left - right) / bend if 0.0 < bend < float("inf") else 0.0


def _at(values: Tensor, best: int, offset: float) -> float:
    """The parabola through three points at an offset, in steps, from the middle one."""
    if offset == 0.0:
        return float(values[best])
    left, middle, right = values[best - 1 : best + 2].tolist()
    return float(middle + 0.5 * offset * (right - left) + 0.5 * offset**2 * (left - 2 * middle + right))
