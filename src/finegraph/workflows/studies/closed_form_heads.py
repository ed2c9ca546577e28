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
from finegraph.model.fitting import FitSettings
from finegraph.model.fitting.head_solver import SolvedHead, SolverSettings, solve_head
from finegraph.model.fitting.target_log_probs import target_log_probs
from finegraph.workflows.studies.fitted_head import TOLERANCE, Fitted, JointAnswers, middles
from finegraph.workflows.studies.photo_sets import PhotoMatrices

WEAKEST_SHRINKAGE, STRONGEST_SHRINKAGE = 0.1, 30.0


def shrinkages(count: int) -> tuple[float, ...]:
    """Shrinkages to try, as multiples of the mean eigenvalue of a covariance."""
    return middles(WEAKEST_SHRINKAGE, STRONGEST_SHRINKAGE, count)


def fit_closed_form(
    head: str, graph: LabelGraph, own_graph: LabelGraph, train: PhotoMatrices, val: PhotoMatrices, count: int
) -> Fitted:
    """Class means in closed form, with the shrinkage under which the validation photos are most likely.

    Args:
        head: `prototypes` or `prototypes-without-graph`.
        graph: with all kinds that are measured.
        own_graph: with those that the head learns from.
        train: what to fit.
        val: what to choose the shrinkage on.
        count: how many to try.
    """
    base = SolverSettings(
        solver="prototypes", descent=FitSettings(head="bipartite" if head == "prototypes" else "softmax")
    )
    best, likelihood = base, -math.inf
    for shrinkage in shrinkages(count):
        tried = replace(base, shrinkage=shrinkage)
        candidate = mean_log_prob(solve_head(train.labelled(), own_graph, tried), val)
        if candidate > likelihood:
            best, likelihood = tried, candidate
    began = perf_counter()
    solved = solve_head(train.labelled(), own_graph, best)
    fitted = Fitted(JointAnswers(graph, solved.head, scaling=solved.scaling, trained=False), count)
    fitted.add(head, _chosen(solved), perf_counter() - began)
    return fitted


def fit_automatically(graph: LabelGraph, own_graph: LabelGraph, train: PhotoMatrices) -> Fitted:
    """What `finegraph train` fits when nothing is set; no validation photo is used.

    Args:
        graph: with all kinds that are measured.
        own_graph: with those that the head learns from.
        train: what to fit.
    """
    began = perf_counter()
    solved = solve_head(train.labelled(), own_graph, SolverSettings(descent=FitSettings(tolerance=TOLERANCE)))
    trained = solved.solver == "descent"
    fitted = Fitted(JointAnswers(graph, solved.head, scaling=solved.scaling, trained=trained), 0)
    if trained:
        fitted.add_descent("auto", solved, perf_counter() - began)
        fitted.chosen[-1]["solver"] = "descent"
    else:
        fitted.add("auto", {"solver": "prototypes", **_chosen(solved)}, perf_counter() - began)
    return fitted


def mean_log_prob(solved: SolvedHead, part: PhotoMatrices) -> float:
    """The mean log probability of the fine labels of photos, under a head in closed form."""
    head, scaling = solved.head, solved.scaling
    assert scaling is not None
    found = target_log_probs(lambda features: head(scaling(features)), head.graph, [part.fine], part.target)
    return float(found.mean())


def _chosen(solved: SolvedHead) -> dict[str, Any]:
    return {name: solved.strengths[name] for name in ("covariance", "shrinkage", "temperature")}
