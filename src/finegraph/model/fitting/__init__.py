"""Fitting a head to given features: `fit_head` to the minimum of the joint loss, and the choice of its strengths."""

from finegraph.model.fitting.descent import Fit, FitSettings, fit_head, graph_of

__all__ = ["Fit", "FitSettings", "fit_head", "graph_of"]
