"""Photo labels: counting them, turning kinds into weights, and listing contradictions."""

import dataclasses

import numpy as np
import pytest

from finegraph.errors import InputError, ShapeError, UnknownNameError
from finegraph.graph import LabelGraph
from finegraph.graph.photo_labels import Contradiction, contradictions, count_photo_labels


@pytest.fixture
def graph():
    return LabelGraph.from_table(
        {
            "mapo @ A": {"dish": "mapo", "pork": True},
            "mapo @ B": {"dish": "mapo", "pork": None},
            "soup @ B": {"dish": {"soup": 0.75, "broth": 0.25}, "pork": False},
            "rice @ B": {"dish": None, "pork": None},
        }
    )


def counts_of(graph, kind, seen):
    counts = np.zeros((len(graph), len(graph.labels(kind))), dtype=np.int64)
    for (fine, label), count in seen.items():
        counts[graph.fine_index(fine), graph.label_index(kind, label)] = count
    return {kind: counts}


def blended_by_loops(graph, counts, smoothing):
    """The rule of the module, row by row and label by label."""
    rows = []
    for own, seen in zip(graph.tolist(), counts.tolist(), strict=True):
        if sum(seen) == 0:
            rows.append(own)
        else:
            row = [n + smoothing * g for n, g in zip(seen, own, strict=True)]
            rows.append([value / sum(row) for value in row])
    return rows


def test_rows_are_counts_plus_the_link_of_the_class(graph):
    counts = counts_of(graph, "pork", {("mapo @ A", "no"): 3, ("mapo @ A", "yes"): 4, ("mapo @ B", "yes"): 2})
    new = graph.with_photo_labels(counts, smoothing=1.0)
    assert new.matrix("pork").tolist() == [[3 / 8, 5 / 8], [0, 1], [1, 0], [0, 0]]
    assert new.kind("dish") == graph.kind("dish")
    assert (new.fine, new.kinds) == (graph.fine, graph.kinds)
    assert graph.parents("pork").tolist() == [1, -1, 0, -1]  # the graph itself is a value and stays


def test_without_smoothing_photos_decide_alone(graph):
    counts = counts_of(graph, "dish", {("soup @ B", "mapo"): 2, ("rice @ B", "soup"): 1, ("rice @ B", "mapo"): 3})
    new = graph.with_photo_labels(counts, smoothing=0)
    assert new.matrix("dish").tolist() == [[1, 0, 0], [1, 0, 0], [1, 0, 0], [0.75, 0.25, 0]]
    assert new.edges("dish")[1].tolist() == [0, 0, 0, 0, 1]  # no edges of weight 0


@pytest.mark.parametrize("smoothing", [0, 0.1, 3.0, 1e300])
def test_no_counts_change_nothing(graph, smoothing):
    counts = {kind: np.zeros_like(graph.matrix(kind)) for kind in graph.kinds}
    assert graph.with_photo_labels(counts, smoothing) == graph
    assert graph.with_photo_labels({}, smoothing) == graph


def test_unknown_prior_is_kept(graph):
    graph = graph.with_unknown_prior("uniform", ["pork"])
    counts = counts_of(graph, "pork", {("mapo @ A", "no"): 1})
    assert graph.with_photo_labels(counts).kind("pork").unknown_prior == "uniform"


@pytest.mark.parametrize("seed", range(20))
def test_weights_equal_loops(seed):
    rng = np.random.default_rng(seed)
    own = rng.integers(0, 3, (7, 4)) * rng.random((7, 4)) * (rng.random((7, 1)) < 0.7)
    graph = LabelGraph.from_matrix([f"f{i}" for i in range(7)], {"k": own})
    counts = rng.integers(0, 5, (7, 4)) * (rng.random((7, 4)) < 0.4)
    smoothing = float(rng.choice([0.0, 0.5, 2.0]))
    new = graph.with_photo_labels({"k": counts}, smoothing)
    np.testing.assert_allclose(new.matrix("k"), blended_by_loops(graph.matrix("k"), counts, smoothing), rtol=1e-12)


def test_extreme_counts_stay_sound(graph):
    tiny = {"pork": np.array([[5e-324, 0], [0, 0], [0, 1e300], [0, 0]])}
    new = graph.with_photo_labels(tiny, smoothing=10)
    assert new.matrix("pork").tolist() == [[0, 1], [0, 0], [pytest.approx(1e-299), 1], [0, 0]]
    assert (new.edges("pork")[2] > 0).all()
    with pytest.raises(InputError, match="kind 'pork': the counts are too large to be added up"):
        graph.with_photo_labels({"pork": np.full((4, 2), 1.7e308)})


def test_contradictions_are_labels_the_graph_excludes(graph):
    counts = counts_of(graph, "dish", {("mapo @ A", "mapo"): 9, ("mapo @ A", "soup"): 2, ("soup @ B", "broth"): 3})
    counts |= counts_of(graph, "pork", {("mapo @ B", "no"): 50, ("soup @ B", "yes"): 5, ("mapo @ A", "no"): 1})
    expected = [
        Contradiction("soup @ B", "pork", "yes", 5, 5),
        Contradiction("mapo @ A", "dish", "soup", 2, 11),
        Contradiction("mapo @ A", "pork", "no", 1, 1),
    ]
    assert contradictions(graph, counts) == expected
    assert graph.contradictions(counts) == expected
    assert isinstance(expected[0].count, int)
    assert graph.with_photo_labels(counts).contradictions(counts) == []


def test_contradictions_of_equal_count_keep_the_order_of_the_graph(graph):
    counts = {kind: np.ones_like(graph.matrix(kind), dtype=int) for kind in graph.kinds}
    found = [(one.fine, one.kind, one.label) for one in graph.contradictions(counts)]
    assert found == [
        ("mapo @ A", "dish", "soup"),
        ("mapo @ A", "dish", "broth"),
        ("mapo @ B", "dish", "soup"),
        ("mapo @ B", "dish", "broth"),
        ("soup @ B", "dish", "mapo"),
        ("mapo @ A", "pork", "no"),
        ("soup @ B", "pork", "yes"),
    ]


def test_contradiction_is_a_value():
    one = Contradiction("a", "k", "c", 1, 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.count = 3
    assert len({one, Contradiction("a", "k", "c", 1, 2)}) == 1


def test_counting_photos(graph):
    counts = count_photo_labels(
        graph,
        ["mapo @ A", "mapo @ A", None, "soup @ B", "mapo @ A"],
        {"dish": ["mapo", None, "mapo", "broth", "mapo"], "pork": [True, "no", "no", None, True]},
    )
    assert counts["dish"].tolist() == [[2, 0, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0]]
    assert counts["pork"].tolist() == [[1, 2], [0, 0], [0, 0], [0, 0]]
    assert counts["dish"].dtype == np.int64
    assert count_photo_labels(graph, [], {"pork": []})["pork"].tolist() == [[0, 0]] * 4
    assert count_photo_labels(graph, ["soup @ B"], {}) == {}


@pytest.mark.parametrize(
    ("fine", "labels", "error", "message"),
    [
        (["mapo @ C"], {"dish": ["mapo"]}, UnknownNameError, "unknown fine label 'mapo @ C'; did you mean 'mapo @ "),
        (
            ["mapo @ A"],
            {"dish": ["mapoo"]},
            UnknownNameError,
            "unknown label 'mapoo' of kind 'dish'; did you mean 'mapo'",
        ),
        (["mapo @ A"], {"dsh": ["mapo"]}, UnknownNameError, "unknown kind 'dsh'; did you mean 'dish'"),
        (["mapo @ A"], {"dish": []}, ShapeError, "kind 'dish': expected one label per photo, 1, got 0"),
    ],
)
def test_counting_checks_names_and_lengths(graph, fine, labels, error, message):
    with pytest.raises(error, match=message):
        count_photo_labels(graph, fine, labels)


@pytest.mark.parametrize("use", [LabelGraph.with_photo_labels, LabelGraph.contradictions])
@pytest.mark.parametrize(
    ("counts", "error", "message"),
    [
        ({"prok": np.zeros((4, 2))}, UnknownNameError, "unknown kind 'prok'; did you mean 'pork'"),
        ({"pork": np.zeros((2, 4))}, ShapeError, r"kind 'pork': expected counts of shape \(4, 2\) .*, got \(2, 4\)"),
        ({"pork": np.zeros(8)}, ShapeError, r"expected counts of shape \(4, 2\)"),
        ({"pork": [["a", "b"]] * 4}, InputError, r"kind 'pork': counts must be an array of numbers"),
        ({"pork": [[1, 2], [3]]}, InputError, r"kind 'pork': counts must be an array of numbers"),
        (
            {"pork": np.array([[0, 0], [0, -1], [0, 0], [0, 0]])},
            InputError,
            "kind 'pork', fine label 'mapo @ B', label 'yes': a count must be finite and not negative, got -1",
        ),
        ({"pork": np.array([[0, 0], [np.nan, 0], [0, 0], [0, 0]])}, InputError, "label 'no': a count .* got nan"),
        ({"pork": np.array([[0, 0], [np.inf, 0], [0, 0], [0, 0]])}, InputError, "label 'no': a count .* got inf"),
    ],
)
def test_counts_are_checked(graph, use, counts, error, message):
    with pytest.raises(error, match=message):
        use(graph, counts)


@pytest.mark.parametrize("smoothing", [-1, float("nan"), float("inf"), None, "1"])
def test_smoothing_is_checked(graph, smoothing):
    with pytest.raises(InputError, match="smoothing must be a finite number of photos, 0 or more, got"):
        graph.with_photo_labels({}, smoothing)


def test_truth_values_are_counts(graph):
    seen = np.array([[True, True], [False, False], [False, False], [False, False]])
    assert graph.with_photo_labels({"pork": seen}).matrix("pork")[0].tolist() == pytest.approx([1 / 3, 2 / 3])
    assert graph.contradictions({"pork": seen}) == [Contradiction("mapo @ A", "pork", "no", 1, 2)]


def test_the_former_name_still_works(graph):
    counts = {"pork": np.array([[1, 1], [0, 2], [0, 0], [3, 0]])}
    with pytest.warns(DeprecationWarning, match="with_photo_labels"):
        assert graph.with_image_labels(counts, 2.0) == graph.with_photo_labels(counts, 2.0)
