import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from finegraph import Kind
from finegraph.errors import GraphError, SeveralParentsError, ShapeError

LABELS = ("a", "b", "c")


def several():
    """Three fine labels: two parents with weights, one parent, unknown."""
    return Kind("k", LABELS, np.array([0, 2, 3, 3]), np.array([2, 0, 1]), np.array([1.0, 3.0, 5.0]))


def test_rows_are_sorted_and_normalised():
    kind = several()
    assert kind.coarse.tolist() == [0, 2, 1]
    assert kind.weight.tolist() == [0.75, 0.25, 1.0]
    assert kind.row_sizes.tolist() == [2, 1, 0]
    assert kind.unknown.tolist() == [False, False, True]
    assert [array.tolist() for array in kind.edges] == [[0, 0, 1], [0, 2, 1], [0.75, 0.25, 1.0]]
    assert kind.matrix().tolist() == [[0.75, 0, 0.25], [0, 1, 0], [0, 0, 0]]
    assert (kind.fine_count, kind.binary, kind.one_parent) == (3, False, False)


def test_one_parent():
    kind = Kind.from_parents("k", LABELS, [2, -1, 0])
    assert kind.parents.tolist() == [2, -1, 0]
    assert kind.one_parent
    assert Kind.from_parents("k", ("no", "yes"), [1]).binary


def test_the_one_parent_has_weight_one_exactly():
    """Also where the given weight is 1 up to rounding, so that files need not hold it."""
    kind = Kind("k", LABELS, np.array([0, 1]), np.array([0]), np.array([1.0 - 1e-13]))
    assert kind.weight.tolist() == [1.0]


def test_normalising_twice_changes_no_bit():
    weights = np.random.default_rng(0).uniform(0.1, 5, size=(200, 7))
    once = Kind.from_matrix("k", [str(c) for c in range(7)], weights)
    assert Kind.from_matrix("k", once.labels, once.matrix()) == once


def test_the_prior_is_that_of_the_known_rows_or_uniform():
    kind = several()
    assert kind.prior.tolist() == [0.375, 0.5, 0.125]
    assert replace(kind, unknown_prior="uniform").prior.tolist() == [1 / 3] * 3
    assert Kind.from_parents("k", LABELS, [-1, -1]).prior.tolist() == [1 / 3] * 3


def test_a_row_of_zeros_in_a_matrix_is_unknown():
    kind = Kind.from_matrix("k", ("a", "b"), [[0, 0], [2, 2]])
    assert kind.unknown.tolist() == [True, False]
    assert kind.matrix().tolist() == [[0, 0], [0.5, 0.5]]


def test_rows_of_some_fine_labels():
    picked = several().rows(np.array([2, 0, 0]))
    assert picked.matrix().tolist() == [[0, 0, 0], [0.75, 0, 0.25], [0.75, 0, 0.25]]


def test_a_kind_cannot_be_changed():
    kind = several()
    with pytest.raises(FrozenInstanceError):
        kind.name = "other"
    for array in (kind.starts, kind.coarse, kind.weight, kind.prior, kind.edges[0], kind.rows(np.array([1])).parents):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_the_arrays_of_the_caller_are_copied_and_left_as_they_are():
    starts, coarse, weight = np.array([0, 1, 2]), np.array([0, 1]), np.array([1.0, 1.0])
    kind = Kind("k", LABELS, starts, coarse, weight)
    starts[1], coarse[0], weight[0] = 2, 2, 7.0
    assert kind.parents.tolist() == [0, 1]


def test_equality_and_hash():
    assert several() == several()
    assert hash(several()) == hash(several())
    others = [
        replace(several(), name="other"),
        replace(several(), labels=("a", "b", "d")),
        replace(several(), unknown_prior="uniform"),
        replace(several(), coarse=np.array([0, 2, 0])),
        replace(several(), weight=np.array([0.5, 0.5, 1])),
        replace(several(), starts=np.array([0, 2, 2, 3])),
    ]
    assert all(several() != other for other in others)
    assert several() != "k"
    assert copy.deepcopy(several()) == several()
    assert pickle.loads(pickle.dumps(several())) == several()  # noqa: S301
    assert repr(several()) == "Kind('k', 3 labels, 3 edges)"


def test_several_parents_have_no_single_parent():
    with pytest.raises(SeveralParentsError, match=r"the first is number 0.*use edges\('k'\) instead"):
        _ = several().parents


@pytest.mark.parametrize(
    ("name", "labels", "words"),
    [
        ("fine", LABELS, "kind 'fine': this name is taken"),
        ("", LABELS, "must not be empty"),
        (" k", LABELS, "must not begin or end with white space"),
        (3, LABELS, "must be text, got int"),
        ("k", (), "has no labels; give it at least one"),
        ("k", ("a", ""), "label '': a name must not be empty"),
        ("k", ("a", "b\n"), "white space"),
        ("k", ("a", "b\tc"), r"control character U\+0009"),
        ("k", ("a", "b", "a"), "the label 'a' is listed twice"),
        ("k", ("é", "e\u0301"), "spelt in two Unicode forms"),
    ],
)
def test_bad_names_are_refused(name, labels, words):
    with pytest.raises(GraphError, match=words):
        Kind(name, labels, np.array([0, 0]), np.array([], int), np.array([]))


@pytest.mark.parametrize(
    ("starts", "coarse", "weight", "error", "words"),
    [
        ([1, 1], [0], [1], ShapeError, "starts must rise from 0 to the number of edges, 1"),
        ([0, 2, 1], [0], [1], ShapeError, "starts must rise"),
        ([0, 2], [0], [1], ShapeError, "starts must rise"),
        ([], [], [], ShapeError, "starts must rise"),
        ([0, 1], [0], [1, 1], ShapeError, "edges but"),
        ([0, 1], [3], [1], GraphError, "outside 0 to 2"),
        ([0, 1], [-1], [1], GraphError, "outside 0 to 2"),
        ([0, 1], [0], [0], GraphError, "finite and greater than 0"),
        ([0, 1], [0], [np.nan], GraphError, "finite and greater than 0"),
        ([0, 1], [0], [np.inf], GraphError, "finite and greater than 0"),
        ([0, 0, 2], [1, 1], [1, 1], GraphError, "fine label number 1 is linked to the same label twice"),
        ([0, 0, 2], [0, 1], [1e-320, 1e300], GraphError, "fine label number 1 are too large or too far apart"),
        ([0, 2], [0, 1], [1e308, 1e308], GraphError, "too large"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_edges_are_refused(starts, coarse, weight, error, words):
    with pytest.raises(error, match=words):
        Kind("k", LABELS, np.array(starts, int), np.array(coarse, int), np.array(weight, float))


@pytest.mark.parametrize(
    ("parents", "error", "words"),
    [
        ([0, 3], GraphError, "fine label number 1 is 3; expected 0 to 2, or -1 for unknown"),
        ([-2], GraphError, "number 0 is -2"),
        ([0.5], ShapeError, "one list of whole numbers, got float64"),
        ([[0]], ShapeError, "one list of whole numbers"),
        ([True], ShapeError, "got bool"),
    ],
)
def test_bad_parents_are_refused(parents, error, words):
    with pytest.raises(error, match=words):
        Kind.from_parents("k", LABELS, parents)


@pytest.mark.parametrize(
    ("matrix", "error", "words"),
    [
        ([[1, 0]], ShapeError, r"expected a matrix with 3 columns, got shape \(1, 2\)"),
        ([1, 0, 0], ShapeError, "expected a matrix"),
        ([[1, -1, 0]], GraphError, "finite and not negative"),
        ([[1, np.nan, 0]], GraphError, "finite and not negative"),
    ],
)
def test_bad_matrices_are_refused(matrix, error, words):
    with pytest.raises(error, match=words):
        Kind.from_matrix("k", LABELS, matrix)


def test_a_bad_unknown_prior_is_refused():
    with pytest.raises(GraphError, match="'frequency' or 'uniform', got 'even'"):
        replace(several(), unknown_prior="even")
