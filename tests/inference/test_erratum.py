"""The linear-time gradient printed in the paper's supplement is wrong; the corrected one, which we use, is right.

The printed formula for a coarse label c of kind l lacks the mask g^l_ic, subtracts p^l_c once per fine label instead of
m - 1 times, and subtracts p_i / p^l_c for every c though only the active label's belongs.
"""

import numpy as np
import pytest
import torch

import finegraph as fg
from reference import enumeration as ref
from reference.random_graphs import random_graph, random_scores


def cumulative_gradient(case, scores, target, kind):
    """The gradient of sum over the other kinds of log p^j for the scores of one kind, by finite differences."""
    parents = [matrix.argmax(axis=1) for matrix in case.matrices]

    def terms(fine, kinds):
        joint = ref.log_joint(fine, kinds, case.matrices)
        others = [j for j in range(len(kinds)) if j != kind]
        return sum(ref.kind_log_probs(joint, j)[parents[j][target]] for j in others)

    return ref.finite_difference_gradient(terms, scores.fine, scores.kinds)[1][kind]


@pytest.fixture
def case():
    return random_graph(np.random.default_rng(5), "one parent")


def test_the_printed_formula_fails_and_the_corrected_one_holds(case):
    scores = random_scores(np.random.default_rng(6), case)
    joint, target = ref.log_joint(scores.fine, scores.kinds, case.matrices), 1
    for kind in range(len(case.matrices)):
        expected = cumulative_gradient(case, scores, target, kind)
        used = [c for c in range(case.matrices[kind].shape[1]) if case.matrices[kind][:, c].any()]
        printed = [ref.printed_cumulative_gradient(joint, case.matrices, target, kind, c) for c in used]
        corrected = [ref.corrected_cumulative_gradient(joint, case.matrices, target, kind, c) for c in used]
        assert np.abs(np.array(printed) - expected[used]).max() > 0.1
        assert np.allclose(corrected, expected[used], atol=1e-8)


def test_our_gradient_is_the_corrected_one(case):
    scores = random_scores(np.random.default_rng(6), case)
    joint, target = ref.log_joint(scores.fine, scores.kinds, case.matrices), 1
    kinds = case.graph.kinds
    for kind, name in enumerate(kinds):
        coarse = {n: torch.tensor(scores.kinds[j][None], requires_grad=True) for j, n in enumerate(kinds)}
        posterior = fg.Posterior(case.graph, torch.tensor(scores.fine[None]), coarse)
        weights = {other: float(other != name) for other in kinds}
        loss = fg.joint_loss(
            posterior, None, {n: torch.tensor([case.graph.parents(n)[target]]) for n in kinds}, weights
        )
        (-loss).backward()
        expected = [
            ref.corrected_cumulative_gradient(joint, case.matrices, target, kind, c)
            for c in range(case.matrices[kind].shape[1])
        ]
        assert np.allclose(coarse[name].grad[0], expected, atol=1e-10)
