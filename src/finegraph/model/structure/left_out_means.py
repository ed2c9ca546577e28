"""The likelihood of the photos of a fine label under other parents, by effects estimated without that fine label.

Class means are sums of effects of the graph, x_i = g_i u + rest of variance d_i (fitting/class_means.py); u holds mu_0
and the effects of all coarse labels. From all fine labels but i

    S   = (T^-1 + sum_k g_k g_k' / d_k)^-1          covariance of u, per direction; T: the prior variances
    u   = S sum_k g_k x_k / d_k

and leaving i out is an update of rank one: S_i = S + S g g' S / (d - g'Sg), u_i = u - S g (x - g'u) / (d - g'Sg). For
a row g of parents, the mean of its photos is then

    x_i  ~  N(g u_i, (d + g' S_i g) I)

A label that no other fine label has is judged fairly: its effect has only its prior variance.

Unknown cells are rows of weights r, and the rest of their variance, kind_j (1 - |r|^2), is added to d_i: means and
covariances are then those of a parent drawn by the weights. Feature vectors occur only in products, so
everything is computed from products of class means. Cost: fine^2 x features once, then coarse^2 x fine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.errors import InputError
from finegraph.model.fitting.class_means import FREE_MEAN, Variances

MAX_NUMBERS = 4 * 10**7
"""The largest size of a matrix: fine x fine, fine x coarse or coarse x coarse."""


class LeftOutMeans:
    """Predictions of each class mean from all others."""

    def __init__(
        self,
        counts: Float[Tensor, " fine"],
        means: Float[Tensor, "fine feature"],
        variances: Variances,
        label_counts: Sequence[int],
    ) -> None:
        """Prepare the products of the class means.

        Args:
            counts: how many photos each fine label has; may be 0.
            means: their mean, in the scaled space.
            variances: the variances of the class means, with the kinds in the order of the rows.
            label_counts: how many labels each of these kinds has.
        """
        self.kinds = tuple(variances.kinds)
        self.label_counts = tuple(label_counts)
        coarse = sum(label_counts)
        if max(len(counts), coarse) ** 2 > MAX_NUMBERS:
            raise InputError(
                f"the graph is too large to learn from photos: expected at most {int(MAX_NUMBERS**0.5):,} fine labels "
                f"and as many coarse labels, got {len(counts):,} and {coarse:,}; take some of its kinds or fine labels"
            )
        self.seen = counts > 0
        self.feature_count = means.shape[1]
        self._noise = torch.where(self.seen, variances.noise / counts.clamp_min(1e-9), 0.0)
        centre = means[self.seen].mean(dim=0) if bool(self.seen.any()) else means.sum(dim=0)
        shown = torch.where(self.seen[:, None], means - centre, 0.0)
        self._products = shown @ shown.t()
        spread = float(self._products.diagonal().sum() / max(int(self.seen.sum()), 1)) / self.feature_count
        kind_variance = torch.tensor([variances.kinds[kind] for kind in self.kinds], dtype=torch.float64)
        self._kind_variance = kind_variance
        self._own = variances.own
        free = torch.tensor([FREE_MEAN * (spread or 1.0)], dtype=torch.float64)
        of_label = kind_variance.repeat_interleave(torch.tensor(label_counts, dtype=torch.long))
        self._prior = torch.cat([free, of_label])

    def log_likelihoods(self, rows: Float[Tensor, "fine coarse"]) -> Float[Tensor, "fine coarse"]:
        """The log likelihood of the photos of each fine label if one parent were another; 0 without photos.

        Args:
            rows: the weights of the parents of each fine label, all kinds side by side; those of a kind sum to 1.

        Returns:
            For each fine label and coarse label, the log likelihood with that label as its parent; its parents in
            other kinds stay unchanged.
        """
        weights = torch.cat([torch.ones(len(rows), 1, dtype=torch.float64), rows], dim=1)
        blocks = torch.split(rows, list(self.label_counts), dim=1)
        loose = torch.stack([1.0 - one.square().sum(dim=1) for one in blocks] or [rows.new_zeros(len(rows))], dim=1)
        loose = loose[:, : len(self.kinds)] * self._kind_variance
        rest = self._own + loose.sum(dim=1) + self._noise
        effects, covariance = self._effects(weights, rest)
        crossed = effects @ self._products  # effects times class means
        gram = crossed @ effects.t()
        spread = weights @ covariance
        apart = (rest - (spread * weights).sum(dim=1)).clamp_min(1e-12)
        residual_shown = self._products.diagonal() - (weights * crossed.t()).sum(dim=1)  # residual times class mean
        with_residual = crossed.t() - weights @ gram  # effects times the residual of each fine label
        residual = residual_shown - (weights * with_residual).sum(dim=1)
        step = -spread / apart[:, None]
        left = _LeftOut(
            weights=weights,
            gram=gram,
            covariance=covariance,
            shown=crossed.t() + step * residual_shown[:, None],
            step=step,
            with_residual=with_residual,
            residual=residual,
            spread=spread * apart.rsqrt()[:, None],
        )
        found, start = [], 1
        for kind, count in enumerate(self.label_counts):
            squares, variance = left.kind(slice(start, start + count))
            squares = (squares + self._products.diagonal()[:, None]).clamp_min(0.0)
            variance = (variance + (rest - loose[:, kind])[:, None]).clamp_min(1e-12)
            likelihood = -0.5 * (self.feature_count * variance.log() + squares / variance)
            found.append(torch.where(self.seen[:, None], likelihood, 0.0))
            start += count
        return torch.cat(found, dim=1) if found else torch.zeros_like(rows)

    def _effects(self, weights: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
        """The effects as weights of class means, and their covariance."""
        root = self._prior.sqrt()
        scaled = weights * root * torch.where(self.seen, rest, 1.0).rsqrt()[:, None] * self.seen[:, None]
        inner = scaled.t() @ scaled
        inner.diagonal().add_(1.0)
        covariance = root[:, None] * torch.cholesky_inverse(torch.linalg.cholesky(inner)) * root
        effects = covariance @ (weights * (self.seen / rest)[:, None]).t()
        return effects, covariance


@dataclass(frozen=True, kw_only=True)
class _LeftOut:
    """Products of effects and their covariance, with each fine label left out of its own.

    The products of effects change by step q' + q step' + |r|^2 step step' with the residual r and q = u'r, and their
    covariance by spread spread'.
    """

    weights: Tensor
    gram: Tensor
    covariance: Tensor
    shown: Tensor
    step: Tensor
    with_residual: Tensor
    residual: Tensor
    spread: Tensor

    def kind(self, part: slice) -> tuple[Tensor, Tensor]:
        """For each label of a kind as the parent: |mean|^2 - 2 mean' x, and the variance of the mean."""
        products, products_own = self._products(slice(None), part), self._products(part, part)
        spread, spread_own = self._covariances(slice(None), part), self._covariances(part, part)
        own, row = self.weights[:, part], self.weights
        all_products, all_spread = self._products(slice(None), slice(None)), self._covariances(slice(None), slice(None))
        # The mean without this kind: the row minus its own part.
        base = _dot(row, all_products) - 2.0 * _dot(row, products) + _dot(own, products_own)
        base_spread = _dot(row, all_spread) - 2.0 * _dot(row, spread) + _dot(own, spread_own)
        base_shown = _dot(row, self.shown) - _dot(own, self.shown[:, part])
        step, q = self.step[:, part], self.with_residual[:, part]
        squares = self.gram.diagonal()[part] + 2.0 * step * q + self.residual[:, None] * step.square()
        squares = squares + 2.0 * (all_products[:, part] - products_own - self.shown[:, part])
        variance = self.covariance.diagonal()[part] + self.spread[:, part].square()
        variance = variance + 2.0 * (all_spread[:, part] - spread_own)
        return squares + (base - 2.0 * base_shown)[:, None], variance + base_spread[:, None]

    def _products(self, to: slice, part: slice) -> Tensor:
        """The products of effects, times a part of the rows."""
        own = self.weights[:, part]
        along_step, along_q = _dot(own, self.step[:, part])[:, None], _dot(own, self.with_residual[:, part])[:, None]
        found = own @ self.gram[part, to] + self.step[:, to] * (along_q + self.residual[:, None] * along_step)
        return found + self.with_residual[:, to] * along_step

    def _covariances(self, to: slice, part: slice) -> Tensor:
        """The covariance of effects, times a part of the rows."""
        own = self.weights[:, part]
        return own @ self.covariance[part, to] + self.spread[:, to] * _dot(own, self.spread[:, part])[:, None]


def _dot(one: Tensor, other: Tensor) -> Tensor:
    return (one * other).sum(dim=1)
