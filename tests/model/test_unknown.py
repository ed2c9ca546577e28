import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.errors import EvidenceError, InputError, UnknownNameError
from finegraph.model.answering.unknown import DEFAULT_SCORE, UNKNOWN_SCORES, UnknownRule, unknown_scores
from reference import enumeration as ref
from reference.random_graphs import FORMS, random_graph, random_scores


def random_posterior(form, seed=0, batch=4, scale=1.0):
    rng = np.random.default_rng([seed, *form.encode()])
    case = random_graph(rng, form)
    scores = [random_scores(rng, case, scale) for _ in range(batch)]
    fine = torch.tensor(np.stack([one.fine for one in scores]))
    kinds = {k: torch.tensor(np.stack([one.kinds[j] for one in scores])) for j, k in enumerate(case.graph.kinds)}
    return case, scores, fg.Posterior(case.graph, fine, kinds)


@pytest.mark.parametrize("form", FORMS)
def test_scores_equal_enumeration(form):
    case, scores, posterior = random_posterior(form)
    found = {name: unknown_scores(posterior, name).tolist() for name in UNKNOWN_SCORES}
    for sample, one in enumerate(scores):
        joint = ref.log_joint(one.fine, one.kinds, case.matrices)
        total = ref.log_sum(ref.joint_scores(one.fine, one.kinds, case.matrices))
        fine = ref.fine_log_probs(joint)
        best = [fine.max(), *(ref.kind_log_probs(joint, kind).max() for kind in range(len(case.matrices)))]
        expected = {
            "log_prob": -fine.max(),
            "entropy": ref.fine_entropy(joint),
            "kinds": -np.mean(best),
            "energy": -total,
            "max_score": -(fine.max() + total),
        }
        assert {name: found[name][sample] for name in expected} == pytest.approx(expected, abs=1e-9)


def test_the_default_is_one_of_them():
    _, _, posterior = random_posterior("mixed")
    assert unknown_scores(posterior).tolist() == unknown_scores(posterior, DEFAULT_SCORE).tolist()


def test_views():
    _, _, posterior = random_posterior("mixed", batch=6)
    for name in ("log_prob", "entropy", "kinds"):
        averaged = unknown_scores(posterior.mean_views(3), name)
        assert unknown_scores(posterior, name, views=3).tolist() == averaged.tolist()
    for name in ("energy", "max_score"):
        single = unknown_scores(posterior, name)
        assert unknown_scores(posterior, name, views=3).tolist() == single.reshape(2, 3).mean(dim=1).tolist()


def test_energy_sees_a_constant_and_probabilities_do_not():
    _, _, posterior = random_posterior("one parent")
    higher = fg.Posterior(posterior.graph, posterior.fine_scores + 5, posterior.coarse_scores)
    for name, change in {"log_prob": 0, "entropy": 0, "kinds": 0, "energy": -5, "max_score": -5}.items():
        difference = unknown_scores(higher, name) - unknown_scores(posterior, name)
        assert difference.tolist() == pytest.approx([change] * 4, abs=1e-9)


def test_large_scores_in_half_precision_stay_finite():
    _, _, posterior = random_posterior("mixed", scale=3000.0)
    half = fg.Posterior(posterior.graph, posterior.fine_scores.half(), posterior.coarse_scores.half())
    for name in UNKNOWN_SCORES:
        assert bool(torch.isfinite(unknown_scores(half, name)).all()), name


def test_evidence_is_refused():
    _, _, posterior = random_posterior("one parent")
    with pytest.raises(EvidenceError, match="compute the score before giving evidence"):
        unknown_scores(posterior.given({posterior.graph.kinds[0]: None}))


class TestRule:
    def test_is_a_value_that_json_can_hold(self):
        rule = UnknownRule("energy", -3.5, 0.9)
        assert UnknownRule.from_dict(rule.to_dict()) == rule

    def test_scores_and_threshold(self):
        _, _, posterior = random_posterior("mixed")
        rule = UnknownRule("entropy", float(unknown_scores(posterior, "entropy").median()), 0.5)
        assert rule.scores(posterior).tolist() == unknown_scores(posterior, "entropy").tolist()
        assert int(rule.is_unknown(rule.scores(posterior)).sum()) == 2

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"score": "entropie"}, "unknown score of unknown photos 'entropie'; did you mean 'entropy'"),
            ({"threshold": float("inf")}, "the threshold must be a finite number, got inf"),
            ({"threshold": "1"}, "the threshold must be a finite number, got '1'"),
            ({"threshold": True}, "the threshold must be a finite number, got True"),
            ({"kept": 0.0}, "must be above 0 and at most 1, got 0.0"),
            ({"kept": 1.5}, "must be above 0 and at most 1, got 1.5"),
        ],
    )
    def test_wrong_values(self, changes, message):
        with pytest.raises(InputError, match=message):
            UnknownRule(**{"score": "energy", "threshold": 1.0, "kept": 0.9, **changes})

    def test_wrong_names(self):
        with pytest.raises(InputError, match="expected score, threshold and kept, got score, treshold"):
            UnknownRule.from_dict({"score": "energy", "treshold": 1.0})
        with pytest.raises(UnknownNameError, match="unknown score of unknown photos 'odin'"):
            unknown_scores(random_posterior("mixed")[2], "odin")


def test_a_threshold_belongs_to_its_number_of_views():
    rule = UnknownRule("log_prob", 1.5, 0.95, views=1)
    assert UnknownRule.from_dict(rule.to_dict()) == rule
    assert (rule.holds_for(1), rule.holds_for(10)) == (True, False)
    old = UnknownRule.from_dict({"score": "log_prob", "threshold": 1.5, "kept": 0.95})
    assert old.holds_for(1)
    assert old.holds_for(10)
    with pytest.raises(InputError, match="expected 1 or 10 views, got 3"):
        UnknownRule("log_prob", 1.5, 0.95, views=3)
