"""The heads of a study that are fitted in closed form, and what `finegraph train` fits as it comes.

    prototypes                  N shrinkages of the covariance; everything else is chosen by the training photos
    prototypes-without-graph    the same, with class means that do not depend on the graph
    auto                        nothing is tried: the closed form or descent, as the training photos alone say

The shrinkages are spread evenly, on a scale of ratios, over what is worth trying for one photo as well as for hundreds.
Validation photos judge as for every head. `auto` does not look at them, which is to its disadvantage.
"""

from __future__ import annotations

import math
from dataclasses import replace
from time import perf_counter
from typing import Any

from finegraph.graph import LabelGraph
from finegraph.model.fitting import FitSettings, fit_head
from finegraph.model.fitting.prototypes import PrototypeFit, PrototypeSettings, fit_prototypes
from finegraph.model.fitting.solver_choice import choose_solver
from finegraph.model.fitting.target_log_probs import target_log_probs
from finegraph.workflows.studies.fitted_head import TOLERANCE, Fitted, JointAnswers, middles
from finegraph.workflows.studies.photo_sets import Part

WEAKEST_SHRINKAGE, STRONGEST_SHRINKAGE = 0.1, 30.0


def shrinkages(count: int) -> tuple[float, ...]:
    """Shrinkages to try, as multiples of the mean eigenvalue of a covariance."""
    return middles(WEAKEST_SHRINKAGE, STRONGEST_SHRINKAGE, count)


def fit_closed_form(head: str, graph: LabelGraph, own_graph: LabelGraph, train: Part, val: Part, count: int) -> Fitted:
    """Class means in closed form, with the shrinkage under which the validation photos are most likely.

    Args:
        head: `prototypes` or `prototypes-without-graph`.
        graph: with all kinds that are measured.
        own_graph: with those that the head learns from.
        train: what to fit.
        val: what to choose the shrinkage on.
        count: how many to try.
    """
    base = PrototypeSettings(head="bipartite" if head == "prototypes" else "softmax")
    best, likelihood = base, -math.inf
    for shrinkage in shrinkages(count):
        tried = replace(base, shrinkage=shrinkage)
        candidate = log_likelihood(_prototypes(own_graph, train, tried), val)
        if candidate > likelihood:
            best, likelihood = tried, candidate
    began = perf_counter()
    fit = _prototypes(own_graph, train, best)
    fitted = Fitted(JointAnswers(graph, fit.head, scaling=fit.scaling, trained=False), count)
    fitted.add(head, _chosen(fit), perf_counter() - began)
    return fitted


def fit_automatically(graph: LabelGraph, own_graph: LabelGraph, train: Part) -> Fitted:
    """What `finegraph train` fits when nothing is set; no validation photo is used."""
    began = perf_counter()
    fit = _prototypes(own_graph, train, PrototypeSettings())
    choice = choose_solver(
        train.fine,
        train.target,
        own_graph,
        fit.strengths,
        FitSettings(),
        block_sizes=train.block_sizes,
        views=train.views,
    )
    if choice.solver == "descent" and choice.settings is not None:
        settings = replace(choice.settings, tolerance=TOLERANCE)
        descent = fit_head(train.fine, train.target, own_graph, settings)
        fitted = Fitted(JointAnswers(graph, descent.head), 0)
        fitted.add_descent("auto", descent, settings, perf_counter() - began)
        fitted.chosen[-1]["solver"] = "descent"
        return fitted
    fitted = Fitted(JointAnswers(graph, fit.head, scaling=fit.scaling, trained=False), 0)
    fitted.add("auto", {"solver": "prototypes", **_chosen(fit)}, perf_counter() - began)
    return fitted


def log_likelihood(fit: PrototypeFit, part: Part) -> float:
    """The mean log probability of the fine labels of photos."""
    found = target_log_probs(lambda features: fit.head(fit.scaling(features)), fit.head.graph, [part.fine], part.target)
    return float(found.mean())


def _prototypes(graph: LabelGraph, train: Part, settings: PrototypeSettings) -> PrototypeFit:
    return fit_prototypes(train.fine, train.target, graph, settings, block_sizes=train.block_sizes, views=train.views)


def _chosen(fit: PrototypeFit) -> dict[str, Any]:
    return {"covariance": fit.covariance, "shrinkage": fit.shrinkage, "temperature": fit.temperature}
