"""Posterior, marginals, evidence, loss and gradient equal a brute-force enumeration on 1,000 random graphs.

Each graph is summed by rows and by columns, with matrix products, blocks and lists in turn, and half of them by weights
too, whatever the cost model would choose. The first 50 graphs, four of each form, are in the fast tier, the first 120
in `make test`, all in `make test-all`.
"""

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.inference.sums.graph_tensors import GraphTensors
from finegraph.inference.sums.strategy import Strategy
from reference import enumeration as ref
from reference.random_graphs import random_graphs, random_scores

pytestmark = pytest.mark.usefixtures("unchecked")

PARTS = [
    range(50),
    pytest.param(range(50, 120), marks=pytest.mark.deep),
    *(pytest.param(range(n, n + 176), marks=pytest.mark.slow) for n in range(120, 1000, 176)),
]
TOLERANCE = 1e-9


def cases(numbers):
    """The graphs with these numbers, with two samples of scores each."""
    for number, case in zip(numbers, random_graphs(len(numbers), seed=11, start=numbers.start), strict=True):
        rng = np.random.default_rng([17, number])
        scores = [random_scores(rng, case, scale=float(rng.choice([0.3, 2.0, 8.0]))) for _ in range(2)]
        yield number, case, rng, scores


def strategies(case, number):
    """Two strategies for a graph: by rows, and one of the others, each with other limits from graph to graph."""
    size, kinds = len(case.graph), len(case.graph.kinds)
    shared = {
        "weights": number % 2 == 0,
        "max_padding": size % 2 * 8,  # with and without padded tables
        "max_composite_cost": size % 3,  # never, sometimes, always
        "max_list": size % 2 * 64 + 2,
        "list_piece": 2,
        "min_samples": 2,
        "max_rows": 1 + number % 3,
    }
    columns = [
        {"dense_kinds": kinds, "blocks": False},
        {"dense_kinds": kinds, "blocks": True},
        {"dense_kinds": 0},
        {"dense_kinds": (kinds + 1) // 2, "blocks": True},
    ]
    yield Strategy(by="rows", **shared)
    yield Strategy(by="columns", **shared, **columns[number // 8 % 4])


def posterior_of(case, scores, tensors):
    """The posterior of two samples and the leaves of its gradient."""
    fine = torch.tensor(np.stack([one.fine for one in scores]), requires_grad=True)
    coarse = {
        kind: torch.tensor(np.stack([one.kinds[j] for one in scores]), requires_grad=True)
        for j, kind in enumerate(case.graph.kinds)
    }
    side_by_side = torch.cat(list(coarse.values()), dim=1) if coarse else None
    return fg.Posterior(case.graph, fine, side_by_side, tensors=tensors), fine, coarse


def close(ours, theirs):
    """Whether log probabilities agree, minus infinity exactly."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    finite = np.isfinite(theirs)
    return np.array_equal(np.isneginf(ours), ~finite) and np.allclose(
        ours[finite], theirs[finite], rtol=0, atol=TOLERANCE
    )


@pytest.mark.parametrize("numbers", PARTS, ids=lambda numbers: f"{numbers.start}-{numbers.stop - 1}")
def test_every_answer_equals_enumeration(numbers):
    for number, case, rng, scores in cases(numbers):
        every = [GraphTensors(case.graph, strategy) for strategy in strategies(case, number)]
        check_probabilities(case, scores, every)
        check_evidence(case, rng, scores, every)
        check_log_prob_of(case, scores, every, np.random.default_rng([19, number]))
        check_questions(case, scores, every[0], np.random.default_rng([23, number]))
        check_loss_and_gradient(case, rng, scores, every)
        if rng.random() < 0.3:
            check_set_valued_targets(case, rng, scores, every)
            check_sure_answer(case, rng, scores, every[0])
            check_sure_answer_given_evidence(case, rng, scores, every[0])
            check_joint_table(case, scores, every[0])


def random_evidence(rng, case, joint):
    """Evidence of every form on some kinds that is possible: as we take it, and as the reference does."""
    ours, theirs = {}, {}
    for j, kind in enumerate(case.graph.kinds):
        labels = case.graph.labels(kind)
        likely = [c for c, value in enumerate(ref.kind_log_probs(joint, j)) if np.isfinite(value)]
        form = rng.choice(["none", "label", "set", "soft"])
        if form == "label":
            chosen = {int(rng.choice(likely))}
            ours[kind], theirs[j] = labels[next(iter(chosen))], chosen
        elif form == "set":
            chosen = {int(rng.choice(likely)), int(rng.integers(len(labels)))}
            ours[kind], theirs[j] = {labels[c] for c in chosen}, chosen
        elif form == "soft":
            likelihood = rng.uniform(0.01, 1, len(labels))
            ours[kind], theirs[j] = likelihood, likelihood
    return ours, theirs


def check_probabilities(case, scores, every):
    answers = []
    for tensors in every:
        posterior, _, _ = posterior_of(case, scores, tensors)
        kinds = [posterior.log_probs(kind).detach() for kind in case.graph.kinds]
        answers.append((posterior.log_probs().detach(), kinds, posterior.entropy()))
    for row, one in enumerate(scores):
        joint = ref.log_joint(one.fine, one.kinds, case.matrices)
        fine, kinds = ref.log_probs(joint)
        expected_entropy = ref.fine_entropy(joint)
        for our_fine, our_kinds, entropy in answers:
            assert close(our_fine[row], fine), case.form
            for kind, ours, expected in zip(case.graph.kinds, our_kinds, kinds, strict=True):
                assert close(ours[row], expected), (case.form, kind)
            assert entropy[row].item() == pytest.approx(expected_entropy, abs=TOLERANCE)


def check_evidence(case, rng, scores, every):
    joint = ref.log_joint(scores[0].fine, scores[0].kinds, case.matrices)
    ours, theirs = random_evidence(rng, case, joint)
    try:
        fine, kinds = ref.log_probs(ref.given(joint, theirs))
    except ZeroDivisionError:
        fine, kinds = None, None
    for tensors in every:
        posterior, _, _ = posterior_of(case, scores[:1], tensors)
        if fine is None:
            with pytest.raises(fg.errors.EvidenceError, match="probability 0 for sample 0"):
                posterior.given(ours)
            continue
        conditioned = posterior.given(ours)
        assert close(conditioned.log_probs()[0].detach(), fine), case.form
        for kind, marginal in zip(case.graph.kinds, kinds, strict=True):
            assert close(conditioned.log_probs(kind)[0].detach(), marginal), (case.form, kind)


def scaled(theirs):
    """Evidence with soft evidence scaled so that the largest likelihood is 1."""
    return {j: value if isinstance(value, set) else value / value.max() for j, value in theirs.items()}


def check_log_prob_of(case, scores, every, rng):
    joint = ref.log_joint(scores[0].fine, scores[0].kinds, case.matrices)
    first, second = random_evidence(rng, case, joint), random_evidence(rng, case, joint)
    fine = {int(i) for i in rng.choice(len(case.graph), 2)}
    for tensors in every:
        posterior, _, _ = posterior_of(case, scores[:1], tensors)
        expected = ref.evidence_log_prob(joint, scaled(first[1]))
        assert close(posterior.log_prob_of(first[0]).detach(), [expected]), case.form
        both = posterior.log_prob_of({"fine": {case.graph.fine[i] for i in fine}, **second[0]})
        assert close(both.detach(), [ref.evidence_log_prob(joint, scaled(second[1]), fine)]), case.form
        if np.isfinite(expected):
            told = ref.evidence_log_prob(ref.given(joint, first[1]), scaled(second[1]))
            assert close(posterior.given(first[0]).log_prob_of(second[0]).detach(), [told]), case.form


def check_questions(case, scores, tensors, rng):
    joint = ref.log_joint(scores[0].fine, scores[0].kinds, case.matrices)
    posterior, _, _ = posterior_of(case, scores[:1], tensors)
    ours, theirs = random_evidence(rng, case, joint)
    risk = float(rng.choice([1e-6, 0.05, 0.3]))
    for told in (False, True):
        if told and ref.evidence_log_prob(joint, theirs) == -np.inf:
            continue
        joint, posterior = (ref.given(joint, theirs), posterior.given(ours)) if told else (joint, posterior)
        expected = {kind: ref.question_effect(joint, j, risk) for j, kind in enumerate(case.graph.kinds)}
        asked = posterior.questions(len(expected) + 1, risk)[0]
        assert {one.kind for one in asked} == {kind for kind, one in expected.items() if one.gain > 1e-9}, case.form
        gains = [one.gain for one in asked]
        assert close(gains, sorted(gains, reverse=True))
        for one in asked:
            effect = expected[one.kind]
            found = (one.gain, one.after, one.settles, one.before)
            best = np.exp(ref.fine_log_probs(joint).max())
            assert found == pytest.approx((*effect, best), abs=TOLERANCE), (case.form, one.kind)


def check_loss_and_gradient(case, rng, scores, every):
    weights = {kind: float(rng.choice([0.0, 0.5, 1.0, 2.0])) for kind in case.graph.kinds}
    target, kind_targets = random_targets(rng, case)
    expected = []
    for row, one in enumerate(scores):
        seen = {j: kind_targets[k][row] for j, k in enumerate(case.graph.kinds) if k in kind_targets}
        terms = ref.loss_terms(case.raw, target[row], seen, list(weights.values()))
        joint = ref.log_joint(one.fine, one.kinds, case.matrices)
        expected.append((ref.loss(joint, terms), ref.loss_gradient(joint, terms)))

    def loss_of(posterior):
        return fg.joint_loss(
            posterior,
            torch.tensor([-100 if y is None else y for y in target]),
            kind_targets={k: torch.tensor([-100 if c is None else c for c in v]) for k, v in kind_targets.items()},
            kind_weights=weights,
            reduction="none",
        )

    check_losses(case, scores, every, loss_of, expected)
    if None not in target:
        terms = [ref.loss_terms(case.raw, y) for y in target]
        joints = [ref.log_joint(one.fine, one.kinds, case.matrices) for one in scores]
        expected = [(ref.loss(j, t), ref.loss_gradient(j, t)) for j, t in zip(joints, terms, strict=True)]
        labels = torch.tensor(target)
        check_losses(case, scores, every, lambda p: fg.joint_loss(p, labels, reduction="none"), expected)


def check_losses(case, scores, every, loss_of, expected):
    """Compare loss and gradients with the expected ones of each sample."""
    for tensors in every:
        posterior, fine, coarse = posterior_of(case, scores, tensors)
        loss = loss_of(posterior)
        loss.sum().backward()
        for row, (value, (fine_grad, coarse_grad)) in enumerate(expected):
            assert loss[row].item() == pytest.approx(value, abs=TOLERANCE), case.form
            assert np.allclose(fine.grad[row], fine_grad, rtol=0, atol=TOLERANCE), case.form
            for kind, grad in zip(case.graph.kinds, coarse_grad, strict=True):
                assert np.allclose(coarse[kind].grad[row], grad, rtol=0, atol=TOLERANCE), (case.form, kind)


def random_targets(rng, case):
    """Fine and photo targets for two samples, some of them missing."""
    target = [None if rng.random() < 0.2 else int(rng.integers(len(case.graph))) for _ in range(2)]
    kind_targets = {}
    for j, kind in enumerate(case.graph.kinds):
        if rng.random() < 0.3:
            possible = np.flatnonzero(case.matrices[j].sum(axis=0))
            kind_targets[kind] = [None if rng.random() < 0.3 else int(rng.choice(possible)) for _ in range(2)]
    return target, kind_targets


def check_set_valued_targets(case, rng, scores, every):
    mask = torch.tensor(rng.random((2, len(case.graph))) < 0.4)
    expected = []
    for row, one in enumerate(scores):
        terms = ref.loss_terms(case.raw, set(np.flatnonzero(mask[row]).tolist()) or None)
        joint = ref.log_joint(one.fine, one.kinds, case.matrices)
        expected.append((ref.loss(joint, terms), ref.loss_gradient(joint, terms)))
    check_losses(case, scores, every, lambda posterior: fg.joint_loss(posterior, mask, reduction="none"), expected)


def check_sure_answer(case, rng, scores, tensors):
    posterior, _, _ = posterior_of(case, scores[:1], tensors)
    joint = ref.log_joint(scores[0].fine, scores[0].kinds, case.matrices)
    for risk in rng.uniform(0.01, 0.9, 3):
        expected = ref.sure_answer(joint, case.matrices, risk)
        ours = posterior.answer(risk)[0]
        if expected is None:
            assert ours is None
        else:
            kind = None if expected.kind is None else case.graph.kinds[expected.kind]
            labels = case.graph.fine if kind is None else case.graph.labels(kind)
            assert (ours.kind, ours.label, ours.compatible) == (kind, labels[expected.label], expected.compatible)
            assert ours.probability == pytest.approx(expected.probability, abs=TOLERANCE)


def check_sure_answer_given_evidence(case, rng, scores, tensors):
    joint = ref.log_joint(scores[0].fine, scores[0].kinds, case.matrices)
    ours, theirs = random_evidence(rng, case, joint)
    try:
        joint = ref.given(joint, theirs)
    except ZeroDivisionError:
        return
    possible = np.isfinite(ref.fine_log_probs(joint))
    left = [np.where(possible[:, None], matrix, 0.0) for matrix in case.matrices]
    risk = rng.uniform(0.01, 0.9)
    expected = ref.sure_answer(joint, left, risk)
    answer = posterior_of(case, scores[:1], tensors)[0].given(ours).answer(risk)[0]
    assert (answer is None) == (expected is None)
    if expected is not None:
        kind = None if expected.kind is None else case.graph.kinds[expected.kind]
        labels = case.graph.fine if kind is None else case.graph.labels(kind)
        assert (answer.kind, answer.label, answer.compatible) == (kind, labels[expected.label], expected.compatible)


def check_joint_table(case, scores, tensors):
    if case.states > 2000:
        return
    posterior, _, _ = posterior_of(case, scores[:1], tensors)
    table = posterior.enumerate_joint()
    states = zip(table.fine.tolist(), *(table.kinds[kind].tolist() for kind in case.graph.kinds), strict=True)
    ours = dict(zip(states, table.log_probs[0].tolist(), strict=True))
    joint = ref.log_joint(scores[0].fine, scores[0].kinds, case.matrices)
    for state, log_prob in np.ndenumerate(joint):
        if np.isfinite(log_prob):
            assert ours.pop(state) == pytest.approx(log_prob, abs=TOLERANCE)
    assert not ours
