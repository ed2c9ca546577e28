"""The reference against cases worked out by hand and against itself.

The menu of three dishes has scores that are logs of whole numbers, so every probability is a fraction:

    fine label        exp f   dish (2, 1)     restaurant (1, 3)   tofu: no 5, yes 1     product
    mapo tofu @ A       1     mapo tofu 2     A 1                 yes 1                    2
    mapo tofu @ B       2     mapo tofu 2     B 3                 yes 1                   12
    kung pao @ B        3     kung pao  1     B 3                 no  5                   45       together 59
"""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from finegraph import LabelGraph

from . import enumeration as ref
from .random_graphs import FORMS, Case, Scores, random_graph, random_graphs, random_scores

DISH, RESTAURANT, TOFU = 0, 1, 2
MENU = [np.eye(2)[[0, 0, 1]], np.eye(2)[[0, 1, 1]], np.eye(2)[[1, 1, 0]]]
MENU_SCORES = Scores(np.log([1.0, 2.0, 3.0]), [np.log([2.0, 1.0]), np.log([1.0, 3.0]), np.log([5.0, 1.0])])


@pytest.fixture
def menu() -> np.ndarray:
    return ref.log_joint(*MENU_SCORES, MENU)


def over(total: int, *parts: int) -> list[float]:
    return [float(Fraction(part, total)) for part in parts]


def close(got, expected, tolerance=1e-13) -> bool:
    return bool(np.allclose(got, expected, rtol=0, atol=tolerance))


def close_gradients(got: ref.Parts, expected: ref.Parts, tolerance: float) -> bool:
    return all(close(a, b, tolerance) for a, b in zip([got[0], *got[1]], [expected[0], *expected[1]], strict=True))


def scored(case: Case, seed: int, scale: float = 1.5) -> tuple[Scores, np.ndarray]:
    scores = random_scores(np.random.default_rng(seed), case, scale)
    return scores, ref.log_joint(*scores, case.matrices)


def test_the_enumeration_shares_no_code_with_the_package():
    assert "finegraph" not in Path(ref.__file__).read_text(encoding="utf-8")


# ---- the menu by hand ------------------------------------------------------------------------------------------------


def test_menu_marginals(menu):
    fine, kinds = ref.log_probs(menu)
    assert close(np.exp(fine), over(59, 2, 12, 45))
    assert close(np.exp(kinds[DISH]), over(59, 14, 45))
    assert close(np.exp(kinds[RESTAURANT]), over(59, 2, 57))
    assert close(np.exp(kinds[TOFU]), over(59, 45, 14))


def test_menu_joint_has_three_possible_states(menu):
    assert menu.shape == (3, 2, 2, 2)
    possible = {tuple(map(int, state)): math.exp(menu[tuple(state)]) for state in np.argwhere(menu > -math.inf)}
    assert possible == pytest.approx({(0, 0, 0, 1): 2 / 59, (1, 0, 1, 1): 12 / 59, (2, 1, 1, 0): 45 / 59})


@pytest.mark.parametrize(
    ("kinds", "fine", "products"),
    [
        ({RESTAURANT: {1}}, None, (0, 12, 45)),
        ({RESTAURANT: {0, 1}}, None, (2, 12, 45)),
        ({RESTAURANT: {1}, DISH: {0}}, None, (0, 12, 0)),
        ({}, {0, 2}, (2, 0, 45)),
        ({TOFU: {1}}, {0, 2}, (2, 0, 0)),
        ({RESTAURANT: [0.75, 0.25]}, None, (6, 12, 45)),
        ({RESTAURANT: [30.0, 10.0]}, None, (6, 12, 45)),
        ({DISH: [1, 2]}, [5, 1, 1], (10, 12, 90)),
    ],
)
def test_menu_given_evidence(menu, kinds, fine, products):
    after = ref.given(menu, kinds, fine)
    total = sum(products)
    assert close(np.exp(ref.fine_log_probs(after)), over(total, *products))
    assert close(np.exp(ref.kind_log_probs(after, DISH)), over(total, products[0] + products[1], products[2]))


def test_menu_probability_of_evidence(menu):
    assert ref.evidence_log_prob(menu, {RESTAURANT: {1}}) == pytest.approx(math.log(57 / 59))
    assert ref.evidence_log_prob(menu, {RESTAURANT: [3, 1]}) == pytest.approx(math.log(63 / 59))


@pytest.mark.parametrize(
    ("kinds", "fine"), [({RESTAURANT: {0}, DISH: {1}}, None), ({RESTAURANT: {0}}, {1}), ({TOFU: set()}, None)]
)
def test_menu_impossible_evidence(menu, kinds, fine):
    with pytest.raises(ZeroDivisionError, match="the evidence has probability 0"):
        ref.given(menu, kinds, fine)


def test_evidence_on_a_label_that_is_not_there(menu):
    with pytest.raises(ValueError, match=r"the labels are 0 to 1, got \[2\]"):
        ref.given(menu, {DISH: {2}})


def test_rows_must_be_filled():
    with pytest.raises(ValueError, match="kind 0: every row must sum to 1; fill the unknown rows first"):
        ref.log_joint([0.0, 0.0], [[0.0, 0.0]], [[[1, 0], [0, 0]]])


def test_menu_entropy(menu):
    parts = [Fraction(2, 59), Fraction(12, 59), Fraction(45, 59)]
    by_hand = -sum(float(part) * math.log(part) for part in parts)
    assert ref.fine_entropy(menu) == pytest.approx(by_hand, abs=1e-14)
    # With one parent per kind the fine label decides everything.
    assert ref.joint_entropy(menu) == pytest.approx(by_hand, abs=1e-14)
    assert ref.kind_entropy(menu, RESTAURANT) == pytest.approx(-(2 * math.log(2 / 59) + 57 * math.log(57 / 59)) / 59)


def test_menu_loss(menu):
    full = ref.loss(menu, ref.loss_terms(MENU, 1))
    assert full == pytest.approx(-math.log(12 / 59) - 2 * math.log(14 / 59) - math.log(57 / 59), abs=1e-13)
    weighted = ref.loss(menu, ref.loss_terms(MENU, 1, kind_weights=[0.5, 0, 2]))
    assert weighted == pytest.approx(-math.log(12 / 59) - 2.5 * math.log(14 / 59), abs=1e-13)
    one_of = ref.loss(menu, ref.loss_terms(MENU, {0, 1}))
    assert one_of == pytest.approx(-3 * math.log(14 / 59), abs=1e-13)


def test_menu_loss_of_partial_labels(menu):
    assert ref.loss(menu, ref.loss_terms(MENU, None)) == 0
    only_dish = ref.loss_terms(MENU, None, {DISH: 1})
    assert ref.loss(menu, only_dish) == pytest.approx(-math.log(45 / 59), abs=1e-13)
    fine_only = ref.loss_terms(MENU, 1, {DISH: None, RESTAURANT: None, TOFU: None})
    assert ref.loss(menu, fine_only) == pytest.approx(-math.log(12 / 59), abs=1e-13)
    seen_set = ref.loss_terms(MENU, None, {RESTAURANT: {0, 1}})
    assert ref.loss(menu, seen_set) == pytest.approx(0, abs=1e-13)


def test_menu_gradient(menu):
    """dL/ds_i = 4 p_i - [i = y] - sum_j [same parent as y] p_i / p^j; y = mapo tofu @ B."""
    dish, restaurant, tofu = Fraction(14, 59), Fraction(57, 59), Fraction(14, 59)
    p = [Fraction(2, 59), Fraction(12, 59), Fraction(45, 59)]
    ds = [
        4 * p[0] - p[0] / dish - p[0] / tofu,
        4 * p[1] - 1 - p[1] / dish - p[1] / restaurant - p[1] / tofu,
        4 * p[2] - p[2] / restaurant,
    ]
    by_hand = [[ds[0] + ds[1], ds[2]], [ds[0], ds[1] + ds[2]], [ds[2], ds[0] + ds[1]]]
    fine, kinds = ref.loss_gradient(menu, ref.loss_terms(MENU, 1))
    assert close(fine, np.array(ds, dtype=float))
    for got, expected in zip(kinds, by_hand, strict=True):
        assert close(got, np.array(expected, dtype=float))


def test_menu_sure_answer(menu):
    # "kung pao" and "no tofu" say the same as the fine label and are as probable: the fine label comes first.
    assert ref.sure_answer(menu, MENU, 0.3) == (None, 2, pytest.approx(45 / 59), 1)
    assert ref.sure_answer(menu, MENU, 0.05) == (RESTAURANT, 1, pytest.approx(57 / 59), 2)
    assert ref.sure_answer(menu, MENU, 0.01) is None


def test_sure_answer_ties_go_to_the_larger_probability():
    weaker, stronger = np.eye(2)[[1, 0, 0, 1]], np.eye(2)[[0, 0, 1, 1]]  # 7/12 and 5/12, 9/12 and 3/12
    for matrices, winner in (([weaker, stronger], 1), ([stronger, weaker], 0)):
        joint = ref.log_joint(np.log([4.0, 5.0, 2.0, 1.0]), [[0.0, 0.0]] * 2, matrices)
        assert ref.sure_answer(joint, matrices, 0.5) == (winner, 0, pytest.approx(9 / 12), 2)


def test_a_label_without_children_is_no_statement():
    joint = ref.log_joint([0.0, 0.0], [[0.0, 9.0]], [np.eye(2)[[0, 0]]])
    listed = ref.statements(joint, [np.eye(2)[[0, 0]]])
    assert [(kind, label) for kind, label, _, _ in listed] == [(None, 0), (None, 1), (0, 0)]


# ---- several parents and unknown cells by hand -----------------------------------------------------------------------


def test_several_parents_by_hand():
    """Fine label 0 is one of both labels (1/2, 1/2), fine label 1 has the second; exp f^j = (1, 4)."""
    joint = ref.log_joint([0.0, 0.0], [np.log([1.0, 4.0])], [[[0.5, 0.5], [0, 1]]])
    assert close(np.exp(joint), [[1 / 13, 4 / 13], [0, 8 / 13]])  # 1/2 * 1, 1/2 * 4, 1 * 4
    assert close(np.exp(ref.kind_log_probs(joint, 0)), [1 / 13, 12 / 13])
    assert close(np.exp(ref.fine_log_probs(ref.given(joint, {0: {1}}))), [1 / 3, 2 / 3])
    terms = ref.loss_terms([[[3, 3], [0, 1]]], 0)  # a row of any scale: the term normalises it
    by_hand = -math.log(5 / 13) - (math.log(1 / 13) + math.log(12 / 13)) / 2
    assert ref.loss(joint, terms) == pytest.approx(by_hand, abs=1e-13)


def test_unknown_rows_are_filled_by_the_prior():
    raw = [[0, 0, 0], [3, 0, 0], [1, 1, 0], [0, 0, 0]]
    assert close(ref.fill_unknown(raw), [[0.75, 0.25, 0], [1, 0, 0], [0.5, 0.5, 0], [0.75, 0.25, 0]])
    assert close(ref.fill_unknown(raw, "uniform")[0], [1 / 3] * 3)
    assert close(ref.fill_unknown([[0, 0]]), [[0.5, 0.5]])


def test_unknown_rows_give_no_kind_term():
    raw = [[[0, 0], [1, 0], [0, 1]]]
    assert ref.loss_terms(raw, 0) == ref.fine_term(0)
    assert ref.loss_terms(raw, {0, 1}) == ref.fine_term({0, 1})
    assert ref.loss_terms(raw, {1, 2}) == [*ref.fine_term({1, 2}), *ref.kind_term_for_union(0, {0, 1})]


def test_impossible_target_costs_infinitely_much(menu):
    after = ref.given(menu, {RESTAURANT: {1}})
    assert ref.loss(after, ref.fine_term(0)) == math.inf
    assert ref.loss(after, [ref.Term(0.0, None, frozenset({0}))]) == 0


# ---- the reference against itself ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_array_equals_loops(form):
    for seed in range(4):
        case = random_graph(np.random.default_rng(seed), form, max_joint=600)
        scores, joint = scored(case, seed)
        table = ref.joint_table(*scores, case.matrices)
        assert len(table) == joint.size == case.states
        for fine, labels, log_prob in table:
            assert joint[(fine, *labels)] == pytest.approx(log_prob, abs=1e-12)


def test_marginals_of_random_graphs_sum_to_one():
    for number, case in enumerate(random_graphs(120, seed=1)):
        scores, joint = scored(case, number, scale=3.0)
        fine, kinds = ref.log_probs(joint)
        for marginal in (fine, *kinds):
            assert np.exp(marginal).sum() == pytest.approx(1, abs=1e-12)
        s = ref.joint_scores(*scores, case.matrices)
        assert close(fine, s - ref.log_sum(s), 1e-11)
        assert ref.fine_entropy(joint) <= ref.joint_entropy(joint) + 1e-12


def test_extreme_scores_stay_exact():
    joint = ref.log_joint([1e4, -1e4, 0.0], [[-1e4, 1e4]], [np.eye(2)[[0, 1, 1]]])
    assert ref.fine_log_probs(joint).tolist() == [-1e4, -1e4, 0.0]
    assert ref.kind_log_probs(joint, 0).tolist() == [-1e4, 0.0]


def test_evidence_in_steps_equals_evidence_at_once():
    for number, case in enumerate(random_graphs(60, seed=2)):
        if not case.matrices:
            continue
        _, joint = scored(case, number)
        rng = np.random.default_rng(number)
        soft = {j: rng.uniform(0.1, 2, matrix.shape[1]) for j, matrix in enumerate(case.matrices)}
        at_once, in_steps = ref.given(joint, soft), joint
        for kind, likelihood in soft.items():
            in_steps = ref.given(in_steps, {kind: likelihood})
        assert close(np.exp(at_once), np.exp(in_steps))


def test_soft_evidence_is_added_to_the_scores():
    for number, case in enumerate(random_graphs(60, seed=3)):
        scores, joint = scored(case, number)
        rng = np.random.default_rng(number)
        likelihoods = [rng.uniform(0.1, 2, matrix.shape[1]) for matrix in case.matrices]
        added = [own + np.log(likelihood) for own, likelihood in zip(scores.kinds, likelihoods, strict=True)]
        expected = ref.log_joint(scores.fine, added, case.matrices)
        assert close(np.exp(ref.given(joint, dict(enumerate(likelihoods)))), np.exp(expected))


@pytest.mark.parametrize("form", FORMS)
def test_gradient_equals_finite_differences(form):
    rng = np.random.default_rng(4)
    for seed in range(3):
        case = random_graph(rng, form, max_joint=400)
        scores, joint = scored(case, seed)
        fine = len(scores.fine)
        for target in (int(rng.integers(fine)), set(rng.integers(fine, size=2).tolist()), None):
            seen = {j: int(np.argmax(matrix[0])) for j, matrix in enumerate(case.matrices) if j % 2 or target is None}
            terms = ref.loss_terms(case.raw, target, seen, rng.uniform(0, 2, len(case.raw)).tolist())

            def value(fine_scores, kind_scores, matrices=case.matrices, terms=terms):
                return ref.loss(ref.log_joint(fine_scores, kind_scores, matrices), terms)

            expected = ref.finite_difference_gradient(value, *scores)
            assert close_gradients(ref.loss_gradient(joint, terms), expected, 1e-10)


def test_finite_differences_by_hand():
    def value(fine, kinds):
        return math.exp(fine[0]) * kinds[0][1] ** 3

    gradient = ref.finite_difference_gradient(value, [0.3], [[9.0, 2.0]])
    assert close(gradient[0], [8 * math.exp(0.3)], 1e-11)
    assert close(gradient[1][0], [0, 12 * math.exp(0.3)], 1e-10)


# ---- the formula of the supplement -----------------------------------------------------------------------------------


def test_the_printed_cumulative_gradient_is_wrong_and_the_corrected_one_right():
    rng = np.random.default_rng(5)
    worst = 0.0
    for _ in range(20):
        fine, sizes = 7, (3, 2, 4)
        # The first fine labels are linked to every label in turn, so that the printed formula never divides by 0.
        parents = [np.concatenate([np.arange(size), rng.integers(size, size=fine - size)]) for size in sizes]
        matrices = [np.eye(size)[index] for size, index in zip(sizes, parents, strict=True)]
        scores = rng.standard_normal(fine), [rng.standard_normal(size) for size in sizes]
        joint, y = ref.log_joint(*scores, matrices), int(rng.integers(fine))
        for kind, size in enumerate(sizes):
            others = [ref.kind_term_for_label(j, int(parents[j][y]), -1.0) for j in range(len(sizes)) if j != kind]
            terms = [term for part in others for term in part]

            def value(fine_scores, kind_scores, matrices=matrices, terms=terms):
                return ref.loss(ref.log_joint(fine_scores, kind_scores, matrices), terms)

            expected = ref.finite_difference_gradient(value, *scores)[1][kind]
            right = [ref.corrected_cumulative_gradient(joint, matrices, y, kind, c) for c in range(size)]
            printed = [ref.printed_cumulative_gradient(joint, matrices, y, kind, c) for c in range(size)]
            assert close(right, expected, 1e-10)
            assert not close(printed, expected, 0.05)
            worst = max(worst, float(np.abs(np.array(printed) - expected).max()))
    assert worst > 1


# ---- weight prior and minimum-norm split -----------------------------------------------------------------------------


def test_weight_prior_by_hand():
    fine, coarse = np.array([[1.0, 2.0], [5.0, 0.0]]), [np.array([[0.0, 0.0], [3.0, 2.0]])]
    raw = [np.array([[0.25, 0.75], [0.0, 0.0]])]  # the second fine label's parent is unknown
    assert ref.weight_prior(fine, coarse, raw) == pytest.approx((0.25 * 5 + 0.75 * 4) / 2)
    fine_gradient, kind_gradients = ref.weight_prior_gradient(fine, coarse, raw)
    assert close(fine_gradient, [[0.25 - 1.5, 0.5], [0, 0]])
    assert close(kind_gradients[0], [[-0.25, -0.5], [1.5, 0]])


def test_weight_prior_gradient_equals_finite_differences():
    case = random_graph(np.random.default_rng(6), "mixed")
    rng = np.random.default_rng(7)
    fine, kinds = rng.standard_normal((len(case.graph), 2)), [rng.standard_normal((m.shape[1], 2)) for m in case.raw]

    def value(flat_fine, flat_kinds):
        return ref.weight_prior(flat_fine.reshape(-1, 2), [flat.reshape(-1, 2) for flat in flat_kinds], case.raw)

    expected = ref.finite_difference_gradient(value, fine.ravel(), [weights.ravel() for weights in kinds])
    got = ref.weight_prior_gradient(fine, kinds, case.raw)
    assert close_gradients((got[0].ravel(), [part.ravel() for part in got[1]]), expected, 1e-10)


def test_minimum_norm_split_by_hand():
    """Two fine labels with one common parent: I + G G' = [[2, 1], [1, 2]], its inverse [[2, -1], [-1, 2]] / 3."""
    alpha, (part,) = ref.minimum_norm_split([3.0, 6.0], [[[1], [1]]])
    assert close(alpha, [0, 3])
    assert close(part, [3, 3])


def test_minimum_norm_split_is_the_smallest_that_adds_up():
    for number, case in enumerate(case for case in random_graphs(48, seed=8) if case.form in ("one parent", "binary")):
        scores, _ = scored(case, number)
        s = ref.joint_scores(*scores, case.matrices)
        alpha, parts = ref.minimum_norm_split(s, case.matrices)
        assert close(alpha + sum(parts), s, 1e-11)
        design = np.hstack([np.eye(len(s)), *case.matrices])
        smallest = np.linalg.pinv(design) @ s
        assert close(alpha, smallest[: len(s)], 1e-10)
        assert close(alpha @ s, smallest @ smallest, 1e-9)


# ---- random graphs ---------------------------------------------------------------------------------------------------


def test_random_graphs_are_fixed_by_the_seed():
    one, two = list(random_graphs(24, seed=9)), list(random_graphs(24, seed=9))
    assert [case.graph for case in one] == [case.graph for case in two]
    assert [case.form for case in one] == [*FORMS, *FORMS]
    assert any(a.graph != b.graph for a, b in zip(one, random_graphs(24, seed=10), strict=True))


def test_random_graphs_hold_what_the_package_holds():
    for case in random_graphs(240, seed=11, max_joint=1500):
        assert case.states <= 1500
        assert isinstance(case.graph, LabelGraph)
        for name, raw, matrix in zip(case.graph.kinds, case.raw, case.matrices, strict=True):
            kind = case.graph.kind(name)
            assert close(case.graph.matrix(name), raw, 1e-15)
            unknown = ~raw.any(axis=1)
            assert np.array_equal(kind.unknown, unknown)
            assert close(matrix[unknown], kind.prior, 1e-14)
            assert close(matrix.sum(axis=1), 1)


def test_each_form_is_what_it_says():
    cases = list(random_graphs(30 * len(FORMS), seed=12))
    of = {form: [case for case in cases if case.form == form] for form in FORMS}
    kinds = {form: [case.graph.kind(name) for case in of[form] for name in case.graph.kinds] for form in FORMS}
    assert all(kind.one_parent and not kind.unknown.any() for kind in kinds["one parent"])
    assert all(kind.binary for kind in kinds["binary"])
    assert any(not kind.one_parent for kind in kinds["several parents"])
    assert any(len(set(kind.weight.tolist())) > 3 for kind in kinds["weighted"])
    assert any(kind.unknown.all() for kind in kinds["unknown cells"])
    assert any(kind.unknown.any() and not kind.unknown.all() for kind in kinds["unknown cells"])
    assert all(kind.unknown_prior == "uniform" for kind in kinds["uniform unknown prior"])
    assert {kind.unknown_prior for kind in kinds["mixed"]} == {"uniform", "frequency"}
    assert not kinds["no kinds"]
    assert all(len(case.graph) == 1 for case in of["single fine label"])
    assert all(len(kind.labels) == 1 for kind in kinds["single coarse label"])
    assert all(len(set(kind.coarse.tolist())) < len(kind.labels) for kind in kinds["labels without children"])
    assert all(len(case.graph.kinds) >= 6 for case in of["many kinds"])
