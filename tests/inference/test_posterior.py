"""Evidence, answers, explanations, samples and views."""

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.errors import EvidenceError, InputError, ShapeError, UnknownNameError
from finegraph.graph.sample_menu import sample_menu
from finegraph.inference.sums import graph_tensors
from reference import enumeration as ref
from reference.random_graphs import random_graph, random_graphs, random_scores

GRAPH = fg.LabelGraph.from_table(
    {
        "mapo tofu @ A": {"dish": "mapo tofu", "restaurant": "A", "tofu": True},
        "mapo tofu @ B": {"dish": "mapo tofu", "restaurant": "B", "tofu": True},
        "kung pao @ B": {"dish": "kung pao", "restaurant": "B", "tofu": False},
    }
)
PROBS = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], dtype=torch.float64)


@pytest.fixture
def posterior():
    return fg.Posterior(GRAPH, PROBS.log())


def randomly_scored(form="mixed", seed=0, batch=3):
    rng = np.random.default_rng(seed)
    case = random_graph(rng, form)
    scores = [random_scores(rng, case) for _ in range(batch)]
    fine = torch.tensor(np.stack([one.fine for one in scores]))
    kinds = {k: torch.tensor(np.stack([one.kinds[j] for one in scores])) for j, k in enumerate(case.graph.kinds)}
    return case, scores, fg.Posterior(case.graph, fine, kinds)


class TestUnknownCells:
    @pytest.mark.parametrize("form", ["unknown cells", "mixed", "one parent"])
    def test_what_rests_on_them_equals_enumeration(self, form):
        for seed in range(6):
            case, scores, posterior = randomly_scored(form, seed)
            for j, kind in enumerate(case.graph.kinds):
                found = posterior.unknown_share(kind)
                known = case.raw[j].any(axis=1)
                for row, one in enumerate(scores):
                    joint = np.exp(ref.log_joint(one.fine, one.kinds, case.matrices))
                    both = joint.sum(axis=tuple(axis for axis in range(1, joint.ndim) if axis != 1 + j))
                    whole = both.sum(axis=0)
                    expected = np.divide(both[~known].sum(axis=0), whole, out=np.zeros_like(whole), where=whole > 0)
                    assert found[row].tolist() == pytest.approx(expected.tolist(), abs=1e-9), (form, seed, kind)

    def test_by_hand_and_with_evidence(self):
        graph = fg.LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "y"}, "c": {"dish": None}})
        posterior = fg.Posterior(graph, torch.tensor([[0.6, 0.2, 0.2]], dtype=torch.float64).log())
        assert posterior.unknown_share("dish").tolist() == [pytest.approx([0.1 / 0.7, 0.1 / 0.3])]
        assert posterior.given(fine="c").unknown_share("dish").tolist() == [pytest.approx([1.0, 1.0])]
        assert posterior.given(fine="a").unknown_share("dish").tolist() == [[0.0, 0.0]]
        with pytest.raises(UnknownNameError, match="did you mean 'dish'"):
            posterior.unknown_share("dsh")


class TestEvidence:
    def test_a_label(self, posterior):
        given = posterior.given(restaurant="B")
        assert given.probs().tolist() == [
            pytest.approx([0, 0.6, 0.4], abs=1e-12),
            pytest.approx([0, 1 / 9, 8 / 9], abs=1e-12),
        ]
        assert given.probs("restaurant")[:, 1].tolist() == pytest.approx([1, 1])

    def test_every_form_of_the_same_evidence_agrees(self, posterior):
        expected = posterior.given(restaurant="B").log_probs()
        for form in (
            {"restaurant": {"B"}},
            {"restaurant": ["B", "B"]},
            {"restaurant": {"B": 0.3}},
            {"restaurant": torch.tensor([0.0, 5.0])},
            {"restaurant": np.array([[0.0, 1.0], [0.0, 0.2]])},
            {"fine": {"mapo tofu @ B", "kung pao @ B"}},
        ):
            assert torch.allclose(posterior.given(form).log_probs(), expected)

    def test_true_and_false_of_a_binary_kind(self, posterior):
        assert torch.equal(posterior.given(tofu=False).log_probs(), posterior.given({"tofu": "no"}).log_probs())

    def test_one_per_sample_with_nothing_known_of_some(self, posterior):
        given = posterior.given(restaurant=[None, {"A", "B"}])
        assert torch.allclose(given.probs(), PROBS)
        assert posterior.given(dish=[None, "mapo tofu"]).probs()[1].tolist() == pytest.approx([0.5, 0.5, 0], abs=1e-12)

    def test_soft_evidence_is_bayes_rule(self, posterior):
        given = posterior.given(restaurant={"A": 0.9, "B": 0.1})
        expected = PROBS * torch.tensor([0.9, 0.1, 0.1])
        assert torch.allclose(given.probs(), expected / expected.sum(dim=1, keepdim=True))

    def test_evidence_adds_up_in_any_order(self, posterior):
        both = posterior.given(restaurant="B", tofu=True)
        assert torch.allclose(both.log_probs(), posterior.given(tofu=True).given(restaurant="B").log_probs())
        assert both.top(1)[0][0].label == "mapo tofu @ B"

    def test_the_posterior_itself_is_left_alone(self, posterior):
        before = posterior.log_probs().clone()
        posterior.given(restaurant="B")
        assert torch.equal(posterior.log_probs(), before)
        assert posterior.evidence is None

    def test_gradients_flow_through_it(self):
        scores = PROBS.log().requires_grad_()
        fg.Posterior(GRAPH, scores).given(restaurant="B").log_probs()[0, 1].backward()
        assert scores.grad[0].tolist() == pytest.approx([0.0, 0.4, -0.4])

    @pytest.mark.parametrize(
        ("evidence", "error", "text"),
        [
            ({"restaurant": "C"}, UnknownNameError, "unknown label 'C' of kind 'restaurant'; there are: 'A', 'B'"),
            ({"restuarant": "B"}, UnknownNameError, "unknown kind 'restuarant'; did you mean 'restaurant'"),
            ({"fine": "mapo tofu @ C"}, UnknownNameError, "unknown fine label 'mapo tofu @ C'; did you mean"),
            ({"dish": "kung pao", "restaurant": "A"}, EvidenceError, "probability 0 for sample 0 .dish is 'kung pao'"),
            ({"restaurant": ["A", "B", "B"]}, EvidenceError, "one value per sample, expected 2, got 3"),
            ({"restaurant": set()}, EvidenceError, "'restaurant' rules out every label"),
            ({"restaurant": {"A": -1.0}}, EvidenceError, "likelihood of 'A' must be a finite number"),
            ({"restaurant": {"A": "much"}}, EvidenceError, "likelihood of 'A' must be a finite number"),
            ({"restaurant": torch.tensor([1.0, 2.0, 3.0])}, ShapeError, r"likelihoods of shape \(2,\) or \(2, 2\)"),
            ({"restaurant": torch.tensor([1.0, torch.nan])}, EvidenceError, "likelihoods must be finite"),
            ({"restaurant": torch.tensor([0.0, 0.0])}, EvidenceError, "rules out every label"),
            ({"restaurant": 3}, EvidenceError, "expected a label, a set of labels, a mapping"),
        ],
    )
    def test_bad_evidence_is_refused(self, posterior, evidence, error, text):
        with pytest.raises(error, match=text):
            posterior.given(evidence)

    def test_the_same_kind_twice_is_refused(self, posterior):
        with pytest.raises(EvidenceError, match="'dish' is given twice"):
            posterior.given({"dish": "kung pao"}, dish="kung pao")


class TestAnswers:
    def test_top(self, posterior):
        assert posterior.top(2)[0] == [
            ("mapo tofu @ A", pytest.approx(0.5)),
            ("mapo tofu @ B", pytest.approx(0.3)),
        ]
        assert posterior.top(9, "dish")[1] == [("kung pao", pytest.approx(0.8)), ("mapo tofu", pytest.approx(0.2))]
        with pytest.raises(InputError, match="a count of at least 1, got 0"):
            posterior.top(0)

    def test_the_sure_answer_backs_off(self, posterior):
        assert [one[:4] for one in posterior.answer(risk=0.25)] == [
            ("dish", "mapo tofu", pytest.approx(0.8), 2),
            (None, "kung pao @ B", pytest.approx(0.8), 1),
        ]
        assert str(posterior.answer(risk=0.25)[0]) == "dish: mapo tofu (80.0%)"
        assert posterior.answer(risk=0.05) == [None, None]
        with pytest.raises(InputError, match="risk must be at least 0 and below 1, got 1"):
            posterior.answer(risk=1.0)

    def test_what_evidence_rules_out_is_not_compatible(self, posterior):
        given = posterior.given(restaurant="B")
        assert [one[:4] for one in given.answer(risk=0.01)] == [("restaurant", "B", pytest.approx(1.0), 2)] * 2
        # In restaurant B mapo tofu is one fine label only; so is every dish, and the statement is as specific as that.
        sure = posterior.given(restaurant=["B", None], fine=[{"mapo tofu @ B": 1.0, "kung pao @ B": 1e-9}, None])
        assert sure.answer(risk=0.25)[0][:4] == (None, "mapo tofu @ B", pytest.approx(1.0), 1)
        assert sure.answer(risk=0.25)[1][:4] == (None, "kung pao @ B", pytest.approx(0.8), 1)
        kinds = {kind.name: kind.compatible(~sure.log_probs().isneginf()).tolist() for kind in sure.tensors.kinds}
        assert kinds == {"dish": [[1, 1], [2, 1]], "restaurant": [[0, 2], [1, 2]], "tofu": [[1, 1], [1, 2]]}

    def test_entropy(self, posterior):
        assert posterior.entropy().tolist() == pytest.approx((-(PROBS * PROBS.log()).sum(dim=1)).tolist())
        assert posterior.entropy("dish")[0].item() == pytest.approx(-0.8 * np.log(0.8) - 0.2 * np.log(0.2))
        assert posterior.given(fine="kung pao @ B").entropy().tolist() == [0.0, 0.0]


class TestExplanation:
    def test_parts_add_up_and_equal_the_minimum_norm_split(self):
        case, scores, posterior = randomly_scored("one parent", seed=4)
        first, second = case.graph.fine[0], case.graph.fine[-1]
        log_probs = posterior.log_probs()
        for row, explanation in enumerate(posterior.explain(first, second)):
            assert explanation.log_odds == pytest.approx((log_probs[row, 0] - log_probs[row, -1]).item())
            parts = {part.source: part.value for part in explanation.parts}
            assert sum(parts.values()) == pytest.approx(explanation.log_odds)
            fine, kinds = ref.minimum_norm_split(
                centred(ref.joint_scores(*scores[row], case.matrices), case), case.matrices
            )
            assert parts["fine"] == pytest.approx(fine[0] - fine[-1], abs=1e-9)
            for kind, part in zip(case.graph.kinds, kinds, strict=True):
                assert parts[kind] == pytest.approx(part[0] - part[-1], abs=1e-9)

    def test_a_shift_that_changes_no_answer_changes_no_explanation(self):
        case, _, posterior = randomly_scored("one parent", seed=5)
        kind = case.graph.kinds[0]
        columns = posterior.tensors.columns[kind]
        shift = torch.randn(3, len(case.graph.labels(kind)), dtype=torch.float64)
        coarse = posterior.coarse_scores.clone()
        coarse[:, columns] += shift
        fine = posterior.fine_scores - shift[:, case.graph.parents(kind)] + 7.0
        shifted = fg.Posterior(case.graph, fine, coarse)
        assert torch.allclose(shifted.log_probs(), posterior.log_probs())
        names = case.graph.fine[0], case.graph.fine[1]
        for ours, theirs in zip(posterior.explain(*names), shifted.explain(*names), strict=True):
            assert {p.source: pytest.approx(p.value, abs=1e-8) for p in ours.parts} == {
                p.source: p.value for p in theirs.parts
            }

    def test_evidence_is_kept_apart(self, posterior):
        plain = posterior.explain("mapo tofu @ A", "kung pao @ B")[0]
        given = posterior.given(dish={"mapo tofu": 0.8, "kung pao": 0.2}).explain("mapo tofu @ A", "kung pao @ B")[0]
        extra = next(part for part in given.parts if part.source == "evidence: dish")
        assert extra.value == pytest.approx(np.log(4))
        assert given.log_odds == pytest.approx(plain.log_odds + np.log(4))
        assert "evidence: dish (mapo tofu / kung pao)" in str(given)

    def test_kinds_with_several_parents_say_so(self):
        case, _, posterior = randomly_scored("several parents", seed=1)
        explanation = posterior.explain(case.graph.fine[0], case.graph.fine[1])[0]
        log_probs = posterior.log_probs()[0]
        assert explanation.log_odds == pytest.approx((log_probs[0] - log_probs[1]).item())
        several = {part.source for part in explanation.parts if part.several}
        assert several == {kind.name for kind in posterior.tensors.kinds if not kind.plain} != set()

    def test_what_cannot_be_explained_is_refused(self, posterior):
        with pytest.raises(ShapeError, match="first names 1 fine labels for 2 samples"):
            posterior.explain(["kung pao @ B"], "mapo tofu @ A")
        with pytest.raises(InputError, match=r"sample 0: the fine label 'kung pao @ B' has probability 0"):
            posterior.given(fine="mapo tofu @ A").explain("mapo tofu @ A", "kung pao @ B")


def centred(s, case):
    """Scores less the constant that makes their split smallest."""
    matrix = np.concatenate(case.matrices, axis=1)
    inverse = np.linalg.inv(np.eye(len(s)) + matrix @ matrix.T)
    return s - (inverse @ s).sum() / inverse.sum()


class TestJoint:
    def test_samples_follow_the_joint(self):
        case, scores, posterior = randomly_scored("mixed", seed=2, batch=1)
        drawn = posterior.sample(40_000, torch.Generator().manual_seed(0))
        joint = ref.log_joint(*scores[0], case.matrices)
        assert np.bincount(drawn.fine[:, 0], minlength=len(case.graph)) / 40_000 == pytest.approx(
            np.exp(ref.fine_log_probs(joint)), abs=0.015
        )
        for j, kind in enumerate(case.graph.kinds):
            counts = np.bincount(drawn.kinds[kind][:, 0], minlength=len(case.graph.labels(kind)))
            assert counts / 40_000 == pytest.approx(np.exp(ref.kind_log_probs(joint, j)), abs=0.015)
        state = (drawn.fine[:, 0], *(drawn.kinds[kind][:, 0] for kind in case.graph.kinds))
        assert np.isfinite(joint[tuple(index.numpy() for index in state)]).all()

    def test_samples_heed_evidence(self):
        graph = fg.LabelGraph.from_table(
            {"a": {"k": {"x", "y", "z"}}, "b": {"k": {"y": 1, "z": 3}}, "c": {"k": "x"}, "d": {"k": None}}
        )
        posterior = fg.Posterior(graph, torch.zeros(2, 4)).given(k=[{"y", "z"}, {"x": 1.0, "y": 0.0, "z": 1.0}])
        drawn = posterior.sample(2000, torch.Generator().manual_seed(1))
        assert set(drawn.kinds["k"][:, 0].tolist()) == {1, 2}
        assert set(drawn.kinds["k"][:, 1].tolist()) == {0, 2}
        of_b = drawn.kinds["k"][:, 0][drawn.fine[:, 0] == 1]
        assert (of_b == 2).float().mean() == pytest.approx(0.75, abs=0.06)

    def test_samples_of_many_labels_need_little_memory(self):
        names = [f"{i}" for i in range(20_000)]
        parents = {"many": np.where(np.arange(20_000) % 2, np.arange(20_000), -1)}  # a table of rows would take 3.2 GB
        posterior = fg.Posterior(fg.LabelGraph.from_parents(names, parents), torch.zeros(2, 20_000))
        drawn = posterior.sample(3, torch.Generator().manual_seed(2))
        known = drawn.fine % 2 == 1
        assert torch.equal(drawn.kinds["many"][known], drawn.fine[known])
        assert (drawn.kinds["many"] % 2 == 1).all()  # an unknown parent follows the frequencies

    @pytest.mark.deep
    def test_a_joint_too_large_to_list_is_refused(self):
        many = {f"kind {j}": {f"{c}" for c in range(20)} for j in range(5)}
        graph = fg.LabelGraph.from_table({"a": many, "b": many})
        with pytest.raises(InputError, match="over 1,000,000 states, too many to list"):
            fg.Posterior(graph, torch.zeros(1, 2)).enumerate_joint()


class TestViews:
    def test_fine_probabilities_are_averaged(self, posterior):
        mean = posterior.mean_views(2)
        assert mean.probs().tolist() == [pytest.approx([0.3, 0.2, 0.5])]
        assert mean.probs("dish").tolist() == [pytest.approx([0.5, 0.5])]
        assert mean.given(restaurant="B").probs().tolist() == [pytest.approx([0, 2 / 7, 5 / 7], abs=1e-12)]

    @pytest.mark.parametrize("form", ["one parent", "mixed"])
    def test_with_coarse_scores(self, form):
        _, _, posterior = randomly_scored(form, seed=3, batch=4)
        mean = posterior.mean_views(2)
        assert torch.allclose(mean.probs(), posterior.probs().unflatten(0, (2, 2)).mean(dim=1))
        for kind in posterior.graph.kinds:
            assert torch.allclose(mean.probs(kind).sum(dim=1), torch.ones(2, dtype=torch.float64))

    def test_misfits_are_refused(self, posterior):
        with pytest.raises(ShapeError, match="2 samples cannot be cut into runs of 3 views"):
            posterior.mean_views(3)
        with pytest.raises(EvidenceError, match="average the views first"):
            posterior.given(restaurant="B").mean_views(2)


class TestScores:
    def test_relabelling_permutes_the_answer(self):
        case, _, posterior = randomly_scored("mixed", seed=6)
        order = np.random.default_rng(0).permutation(len(case.graph))
        kinds = [case.graph.kind(name).rows(order) for name in case.graph.kinds]
        graph = fg.LabelGraph([case.graph.fine[i] for i in order], kinds)
        permuted = fg.Posterior(graph, posterior.fine_scores[:, order], posterior.coarse_scores)
        assert torch.allclose(permuted.log_probs(), posterior.log_probs()[:, order])
        for kind in graph.kinds:
            assert torch.allclose(permuted.log_probs(kind), posterior.log_probs(kind))

    def test_kinds_without_scores_follow_from_the_fine_labels(self, posterior):
        assert posterior.probs("dish")[0].tolist() == pytest.approx([0.8, 0.2])
        some = fg.Posterior(GRAPH, PROBS.log(), {"dish": torch.zeros(2, 2, dtype=torch.float64)})
        assert torch.allclose(some.log_probs("tofu"), posterior.log_probs("tofu"))

    def test_it_cannot_be_changed(self, posterior):
        with pytest.raises(AttributeError):
            posterior.fine_scores = PROBS

    @pytest.mark.usefixtures("unchecked")
    @pytest.mark.parametrize(
        ("scores", "kinds", "error", "text"),
        [
            (torch.zeros(2, 4), None, ShapeError, r"fine scores: expected shape \(batch, 3\).*got \(2, 4\)"),
            (torch.zeros(3), None, ShapeError, r"fine scores: expected shape \(batch, 3\)"),
            (torch.zeros(2, 3).long(), None, InputError, "fine scores: expected floating-point numbers"),
            (torch.zeros(2, 3), {"dish": torch.zeros(2, 3)}, ShapeError, r"kind 'dish': expected shape \(2, 2\)"),
            (torch.zeros(2, 3), {"dsh": torch.zeros(2, 2)}, UnknownNameError, "unknown kind 'dsh'"),
            (torch.zeros(2, 3), torch.zeros(2, 5), ShapeError, r"coarse scores: expected shape \(2, 6\)"),
        ],
    )
    def test_wrong_scores_are_refused(self, scores, kinds, error, text):
        with pytest.raises(error, match=text):
            fg.Posterior(GRAPH, scores, kinds)

    def test_an_unknown_kind_is_refused(self, posterior):
        with pytest.raises(UnknownNameError, match="unknown kind 'dsh'; did you mean 'dish'"):
            posterior.log_probs("dsh")


# ---- all kinds at once -----------------------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize("together", [1, 1 << 22])
def test_marginals_of_all_kinds_are_those_of_each(monkeypatch, together):
    monkeypatch.setattr(graph_tensors, "MAX_TOGETHER", together)
    for number, case in enumerate(random_graphs(40, seed=5)):
        graph, rng = case.graph, np.random.default_rng(number)
        fine = torch.from_numpy(rng.normal(size=(3, len(graph)), scale=4.0))
        coarse = {name: torch.from_numpy(rng.normal(size=(3, len(graph.labels(name))))) for name in graph.kinds}
        plain = fg.Posterior(graph, fine)
        for posterior in (plain, fg.Posterior(graph, fine, coarse), plain.given(fine=set(graph.fine[::2]))):
            found = posterior.marginals()
            assert torch.equal(found.fine, posterior.log_probs())
            for name in graph.kinds:
                columns = posterior.tensors.columns[name]
                assert torch.equal(found.coarse[:, columns], posterior.log_probs(name))
            assert posterior.answer(0.2, found) == posterior.answer(0.2)


def test_marginals_without_kinds_or_samples():
    graph = fg.LabelGraph(["a", "b"])
    assert fg.Posterior(graph, torch.zeros(2, 2)).marginals().coarse.shape == (2, 0)
    menu = sample_menu()
    assert fg.Posterior(menu, torch.zeros(0, len(menu))).marginals().coarse.shape[0] == 0
