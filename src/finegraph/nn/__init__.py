"""Heads: from features to a posterior."""

from finegraph.nn.heads import BipartiteHead, SoftmaxHead, laplacian_prior

__all__ = ["BipartiteHead", "SoftmaxHead", "laplacian_prior"]
