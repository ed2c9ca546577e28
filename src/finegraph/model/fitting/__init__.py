"""Fitting a head to given features: by descent (`fit_head`) or in closed form, and choosing the strengths of priors."""

from finegraph.model.fitting.descent import Fit, FitSettings, fit_head, graph_of

__all__ = ["Fit", "FitSettings", "fit_head", "graph_of"]
