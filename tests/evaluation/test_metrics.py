import numpy as np
import pytest
import torch
from slow_metrics import calibration_error

import finegraph as fg
from finegraph.data.dataset import MISSING
from finegraph.evaluation.judgements import UNJUDGED, contradicts, has_label, judge_fine, judge_kind, shares_label
from finegraph.evaluation.metrics import (
    accuracy,
    calibration,
    full_path_accuracy,
    inconsistent,
    mistakes,
    negative_log_likelihood,
    top_accuracy,
    truth_rank,
)

GRAPH = fg.LabelGraph.from_table(
    {
        "one": {"served": "bowl"},
        "several": {"served": {"bowl", "plate"}},
        "other": {"served": "plate"},
        "unknown": {"served": None},
        "third": {"served": "box"},
    }
)
SERVED = GRAPH.kind("served")
BOWL, PLATE, BOX = (GRAPH.label_index("served", label) for label in ("bowl", "plate", "box"))


def numbers(*values):
    return np.array(values, dtype=np.int64)


class TestRelations:
    def test_parents(self):
        fine = numbers(0, 1, 1, 1, 2, 3, 4)
        label = numbers(BOWL, BOWL, PLATE, BOX, BOWL, BOWL, BOX)
        assert has_label(SERVED, fine, label).tolist() == [True, True, True, False, False, False, True]
        assert contradicts(SERVED, fine, label).tolist() == [False, False, False, True, True, False, False]

    def test_none_at_all(self):
        assert has_label(SERVED, numbers(), numbers()).tolist() == []
        assert has_label(SERVED, numbers(3), numbers(BOWL)).tolist() == [False]

    def test_a_parent_in_common(self):
        one, two = numbers(0, 0, 1, 0, 3, 3, 4), numbers(1, 2, 2, 3, 4, 3, 4)
        assert shares_label(SERVED, one, two).tolist() == [1, 0, 1, UNJUDGED, UNJUDGED, UNJUDGED, 1]
        assert shares_label(SERVED, two, one).tolist() == [1, 0, 1, UNJUDGED, UNJUDGED, UNJUDGED, 1]

    def test_what_is_right_for_a_kind(self):
        label = numbers(BOWL, PLATE, BOX, PLATE, BOWL, BOWL)
        fine = numbers(0, 1, 1, 3, MISSING, 0)
        assert judge_kind(SERVED, label, fine).tolist() == [1, 1, 0, UNJUDGED, UNJUDGED, 1]

    def test_a_label_seen_on_the_photo_comes_first(self):
        label = numbers(BOWL, PLATE, BOX, PLATE, BOWL, BOWL)
        fine = numbers(0, 1, 1, 3, MISSING, 0)
        seen = numbers(PLATE, BOWL, BOX, PLATE, BOWL, MISSING)
        assert judge_kind(SERVED, label, fine, seen).tolist() == [0, 0, 1, 1, 1, 1]

    def test_fine_labels(self):
        assert judge_fine(numbers(0, 1, 2), numbers(0, 2, MISSING)).tolist() == [1, 0, UNJUDGED]


class TestRank:
    def test_equal_probabilities_keep_the_order_of_the_graph(self):
        log_probs = torch.tensor([[0.2, 0.3, 0.3, 0.2]] * 5).log()
        rank = truth_rank(log_probs, torch.tensor([0, 1, 2, 3, MISSING]))
        assert rank.tolist() == [3, 1, 2, 4, 0]
        assert log_probs[0].argmax() == 1

    def test_top(self):
        assert top_accuracy(numbers(1, 5, 6, 0), 1) == pytest.approx(1 / 3)
        assert top_accuracy(numbers(1, 5, 6, 0), 5) == pytest.approx(2 / 3)
        assert top_accuracy(numbers(0, 0), 5) is None


def judged(*values):
    return np.array(values, dtype=np.int8)


def test_accuracy_leaves_out_what_cannot_be_judged():
    assert accuracy(judged(1, 0, 1, UNJUDGED)) == pytest.approx(2 / 3)
    assert accuracy(judged(UNJUDGED)) is None


def test_full_path():
    fine = judged(1, 1, 0, UNJUDGED, 1)
    kinds = np.array([[1, 1], [1, 0], [1, 1], [1, 1], [UNJUDGED, 1]], dtype=np.int8)
    assert full_path_accuracy(fine, kinds) == 0.5
    assert full_path_accuracy(fine, kinds[:, :0]) == 0.75
    assert full_path_accuracy(judged(UNJUDGED), kinds[:1]) is None


def test_unknown_parents_contradict_nothing():
    predicted, kinds = numbers(0, 0, 1, 1, 3), numbers(BOWL, PLATE, PLATE, BOX, BOX)[:, None]
    assert inconsistent(GRAPH, predicted, kinds).tolist() == [False, True, False, True, False]


def test_mistakes():
    found = mistakes(GRAPH, numbers(0, 0, 0, 0, 0, 0), numbers(0, 1, 2, 3, MISSING, 4))
    assert found.count == 4
    assert (found.differing, found.shared, found.unknown) == (0.5, 0.25, 0.25)
    assert found.share == pytest.approx(2 / 3)
    assert found.by_kind == {"served": pytest.approx(2 / 3)}


def test_no_mistakes():
    found = mistakes(GRAPH, numbers(0, 1), numbers(0, 1))
    assert (found.count, found.differing, found.share, found.by_kind) == (0, None, None, {"served": None})


def test_likelihood():
    assert negative_log_likelihood(np.log([0.5, 0.25])) == pytest.approx(1.5 * np.log(2))
    assert negative_log_likelihood(np.array([np.nan, -1.0])) == 1.0
    assert negative_log_likelihood(np.array([np.nan])) is None
    assert negative_log_likelihood(np.array([-np.inf, -1.0])) is None


class TestCalibration:
    @pytest.mark.parametrize("count", [1, 19, 40, 61, 299, 300, 1000])
    def test_equals_loops(self, count):
        rng = np.random.default_rng(count)
        confidence = rng.random(count)
        right = (rng.random(count) < confidence**2).astype(np.int8)
        found = calibration(confidence, right)
        bins = max(1, min(15, count // 20))
        assert len(found.bins) == bins
        assert found.error == pytest.approx(calibration_error(confidence.tolist(), right.tolist(), bins))
        assert sum(one.count for one in found.bins) == found.count == count
        assert max(one.count for one in found.bins) - min(one.count for one in found.bins) <= 1
        assert found.overconfidence == pytest.approx(confidence.mean() - right.mean())
        assert all(one.low <= one.confidence <= one.high for one in found.bins)
        assert sorted(found.bins, key=lambda one: one.low) == list(found.bins)

    def test_perfect_and_worst(self):
        confidence = np.repeat([0.25, 0.75], 400)
        right = np.concatenate([np.arange(400) % 4 == 0, np.arange(400) % 4 != 0]).astype(np.int8)
        assert calibration(confidence, right).error == 0.0
        assert calibration(np.ones(100), np.zeros(100, dtype=np.int8)).error == 1.0

    def test_equal_confidences_are_never_parted(self):
        rng = np.random.default_rng(0)
        confidence = rng.integers(1, 4, 500) / 4
        right = rng.integers(0, 2, 500).astype(np.int8)
        found = calibration(confidence, right)
        assert [one.low for one in found.bins] == [one.high for one in found.bins] == [0.25, 0.5, 0.75]
        order = rng.permutation(500)
        assert calibration(confidence[order], right[order]).error == pytest.approx(found.error)

    def test_what_cannot_be_judged_is_left_out(self):
        confidence, right = np.array([0.9, 0.1, 0.5]), judged(1, UNJUDGED, 0)
        assert calibration(confidence, right) == calibration(confidence[[0, 2]], right[[0, 2]])
        nothing = calibration(confidence[:0], right[:0])
        assert (nothing.error, nothing.overconfidence, nothing.count, nothing.bins) == (None, None, 0, ())
