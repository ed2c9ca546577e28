import numpy as np
import pytest

from finegraph.errors import InputError
from finegraph.evaluation.unknown_metrics import area_under_curve, choose_threshold, unknown_metrics
from finegraph.model.answering.unknown import UnknownRule


class TestThreshold:
    def test_new_photos_are_kept_as_promised(self):
        rng = np.random.default_rng(0)
        kept = []
        for _ in range(400):
            threshold = choose_threshold(rng.normal(size=59), kept=0.9)
            kept.append((rng.normal(size=200) <= threshold).mean())
        assert 0.9 - 0.005 < np.mean(kept) < 0.92

    def test_places(self):
        scores = np.arange(1.0, 100.0)[::-1]
        assert choose_threshold(scores, 0.95) == 95.0
        assert choose_threshold(scores, 0.5) == 50.0
        assert choose_threshold(scores, 1.0) == 99.0

    def test_few_photos_give_the_highest_score(self):
        assert choose_threshold(np.arange(18.0), 0.95) == 17.0
        assert choose_threshold(np.arange(19.0), 0.95) == 18.0
        assert choose_threshold(np.arange(39.0), 0.95) == 37.0
        assert choose_threshold(np.array([3.0]), 0.95) == 3.0

    def test_wrong_arguments(self):
        with pytest.raises(InputError, match="must be above 0 and at most 1, got 0"):
            choose_threshold(np.arange(3.0), 0)
        with pytest.raises(InputError, match="at least one photo of a known class"):
            choose_threshold(np.zeros(0), 0.9)
        with pytest.raises(InputError, match="needs finite scores"):
            choose_threshold(np.array([np.nan]), 0.9)


def test_area_under_curve_equals_all_pairs():
    rng = np.random.default_rng(0)
    known, foreign = rng.integers(0, 6, 40).astype(float), rng.integers(2, 8, 25).astype(float)
    pairs = [1.0 if f > k else 0.5 if f == k else 0.0 for k in known for f in foreign]
    assert area_under_curve(known, foreign) == pytest.approx(np.mean(pairs))
    assert area_under_curve(known, known[:0]) is None
    assert area_under_curve(known[:0], foreign) is None


KNOWN = {"log_prob": np.arange(20.0), "entropy": np.zeros(20)}
FOREIGN = {"log_prob": np.array([5.0, 16.5, 17.5, 30.0]), "entropy": np.ones(4)}


class TestMetrics:
    def test_all_of_them(self):
        found = unknown_metrics(UnknownRule("log_prob", 17.0, 0.95), "entropy", 0.5, KNOWN, FOREIGN)
        assert (found.score, found.threshold, found.kept, found.photos) == ("log_prob", 17.0, 0.95, 4)
        assert found.known_kept == 0.9
        assert (found.detected, found.false_positive_rate) == (0.5, 0.5)
        assert found.fpr_at_kept == 0.75  # a threshold of 18 keeps 95 % of these very photos
        assert found.auroc == pytest.approx((5.5 + 17 + 18 + 20) / 80)
        assert found.auroc_by_score == {"log_prob": found.auroc, "entropy": 1.0}

    def test_without_threshold(self):
        found = unknown_metrics(None, "log_prob", 0.95, KNOWN, FOREIGN)
        assert (found.threshold, found.known_kept, found.detected, found.false_positive_rate) == (None,) * 4
        assert (found.kept, found.fpr_at_kept) == (0.95, 0.75)
        assert found.auroc is not None

    def test_without_foreign_photos(self):
        found = unknown_metrics(UnknownRule("log_prob", 17.0, 0.95), "log_prob", 0.95, KNOWN, None)
        assert (found.known_kept, found.photos, found.detected, found.auroc) == (0.9, 0, None, None)
        assert (found.fpr_at_kept, found.auroc_by_score) == (None, {})
