"""Backbones and heads: from photos to features, and from features to a posterior."""

from finegraph.nn.heads import BipartiteHead, SoftmaxHead, laplacian_prior
from finegraph.nn.network import Network, NetworkDesign, build_network

__all__ = ["BipartiteHead", "Network", "NetworkDesign", "SoftmaxHead", "build_network", "laplacian_prior"]
