import copy
import pickle

import numpy as np
import pytest

from finegraph import Kind, LabelGraph
from finegraph.errors import EmptyGraphError, GraphError, ShapeError, UnknownNameError


def menu():
    return LabelGraph.from_table(
        {
            "mapo tofu @ A": {"dish": "mapo tofu", "restaurant": "A", "tofu": True},
            "mapo tofu @ B": {"dish": "mapo tofu", "restaurant": "B", "tofu": True},
            "kung pao @ B": {"dish": "kung pao", "restaurant": "B", "tofu": False},
        }
    )


def test_looking_at_a_graph():
    graph = menu()
    assert graph.fine == ("mapo tofu @ A", "mapo tofu @ B", "kung pao @ B")
    assert graph.kinds == ("dish", "restaurant", "tofu")
    assert graph.labels("dish") == ("mapo tofu", "kung pao")
    assert graph.labels("tofu") == ("no", "yes")
    assert graph.parents("tofu").tolist() == [1, 1, 0]
    assert graph.matrix("dish").tolist() == [[1, 0], [1, 0], [0, 1]]
    assert [array.tolist() for array in graph.edges("dish")] == [[0, 1, 2], [0, 0, 1], [1, 1, 1]]
    assert len(graph) == 3
    assert graph.fine_index("kung pao @ B") == 2
    assert graph.label_index("restaurant", "B") == 1
    assert graph.label_index("tofu", True) == 1
    assert graph.label_index("tofu", "no") == 0
    assert repr(graph) == "LabelGraph(3 fine labels, kinds {'dish': 2, 'restaurant': 2, 'tofu': 2})"


def test_a_long_list_of_kinds_is_cut_in_the_repr():
    graph = LabelGraph(["a"], [Kind.from_parents(f"k{i}", ("p",), [0]) for i in range(9)])
    assert repr(graph).endswith("'k5': 1, and 3 more})")


# ---- from a table ----------------------------------------------------------------------------------------------------


def test_every_form_of_value_in_a_table():
    graph = LabelGraph.from_table(
        {
            "f": {"k": "p", "b": np.True_, "g": ["x", "y"], "w": {"u": 3, "v": np.float32(1)}},
            "g": {"k": {"q", "p"}, "b": None, "g": (), "w": "u"},
            "h": {"b": "no", "g": ["y"]},
        }
    )
    assert graph.kinds == ("k", "b", "g: x", "g: y", "w")
    assert graph.labels("k") == ("p", "q")
    assert graph.matrix("k").tolist() == [[1, 0], [0.5, 0.5], [0, 0]]
    assert graph.labels("b") == ("no", "yes")
    assert graph.parents("b").tolist() == [1, -1, 0]
    assert graph.parents("g: x").tolist() == [1, 0, 0]
    assert graph.parents("g: y").tolist() == [1, 0, 1]
    assert graph.matrix("w").tolist() == [[0.75, 0.25], [1, 0], [0, 0]]


@pytest.mark.parametrize("other", ["silken", {"silken", "yes"}, ["silken"]])
def test_true_beside_another_label_is_refused(other):
    words = r"kind 'tofu': fine label 'a' has True, .* binary kind of yes and no, but 'b' has the label 'silken'"
    with pytest.raises(GraphError, match=words):
        LabelGraph.from_table({"a": {"tofu": True}, "b": {"tofu": other}})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (3, r"fine label 'f', kind 'k': expected text, True.*got int"),
        (b"p", "got bytes"),
        (set(), "no label to choose from; use None for unknown"),
        ({}, "no label to choose from"),
        ({"p", 1}, "a label must be text, got int"),
        ([1], "a label must be text, got int"),
        (["p", "p"], "a label is listed twice"),
        ({"p": "much"}, "a weight must be a number, got str"),
        ({"p": True}, "a weight must be a number, got bool"),
        ({"p": -1.0}, "finite and greater than 0"),
        ({"p": 0.0, "q": 1.0}, "finite and greater than 0"),
        ("", "a name must not be empty"),
        (None, "kind 'k' is unknown for every fine label; leave the kind out"),
        ([], "'k' is a group without labels"),
    ],
)
def test_bad_values_in_a_table_are_refused(value, words):
    with pytest.raises(GraphError, match=words):
        LabelGraph.from_table({"f": {"k": value}})


def test_all_of_and_one_of_do_not_mix_in_a_table():
    with pytest.raises(GraphError, match="'k' mixes cells that mean all of several labels with cells that mean one of"):
        LabelGraph.from_table({"f": {"k": ["p", "q"]}, "g": {"k": {"p", "q"}}})


# ---- from arrays -----------------------------------------------------------------------------------------------------


def test_from_parents():
    graph = LabelGraph.from_parents(["f", "g"], {"k": [1, 0], "l": np.array([-1, 2])}, labels={"k": ["p", "q"]})
    assert graph.labels("k") == ("p", "q")
    assert graph.labels("l") == ("0", "1", "2")
    assert graph.parents("l").tolist() == [-1, 2]


def test_from_matrix():
    graph = LabelGraph.from_matrix(["f", "g"], {"k": [[2, 2], [0, 0]], "l": np.eye(2)}, labels={"k": ["p", "q"]})
    assert graph.matrix("k").tolist() == [[0.5, 0.5], [0, 0]]
    assert graph.labels("l") == ("0", "1")


def test_labels_of_a_kind_that_is_not_given_are_refused():
    with pytest.raises(UnknownNameError, match="unknown kind 'dish' in labels; did you mean 'dishes'"):
        LabelGraph.from_parents(["f"], {"dishes": [0]}, labels={"dish": ["p"]})
    with pytest.raises(UnknownNameError, match="unknown kind 'x1' in labels; there are: 'k'"):
        LabelGraph.from_matrix(["f"], {"k": [[1]]}, labels={"x1": ["p"]})


def test_arrays_of_the_wrong_shape_are_refused():
    with pytest.raises(ShapeError, match="kind 'k' has 1 rows for 2 fine labels"):
        LabelGraph.from_parents(["f", "g"], {"k": [0]})
    with pytest.raises(ShapeError, match=r"expected a matrix \(fine x coarse\), got shape \(2,\)"):
        LabelGraph.from_matrix(["f", "g"], {"k": [0, 1]})


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fine", "error", "words"),
    [
        ([], EmptyGraphError, "needs at least one fine label"),
        (["a", "a"], GraphError, "the fine label 'a' is given twice"),
        (["a", ""], GraphError, "fine label number 1, '': a name must not be empty"),
        (["a", 3], GraphError, "must be text, got int"),
        (["a\x00"], GraphError, r"U\+0000"),
        (["é", "e\u0301"], GraphError, "spelt in two Unicode forms"),
    ],
)
def test_bad_fine_labels_are_refused(fine, error, words):
    with pytest.raises(error, match=words):
        LabelGraph(fine)


def test_kinds_need_distinct_names():
    def kind(name):
        return Kind.from_parents(name, ("p",), [0])

    with pytest.raises(GraphError, match="the kind 'k' is given twice"):
        LabelGraph(["a"], [kind("k"), kind("k")])
    with pytest.raises(GraphError, match="read the same but are spelt in two Unicode forms"):
        LabelGraph(["a"], [kind("é"), kind("e\u0301")])


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda graph: graph.labels("dihs"), "unknown kind 'dihs'; did you mean 'dish'?"),
        (lambda graph: graph.kind(3), "unknown kind 3; there are: 'dish', 'restaurant', 'tofu'"),
        (lambda graph: graph.kind([]), "unknown kind"),
        (lambda graph: graph.fine_index("mapo tofu @ a"), "unknown fine label .*did you mean 'mapo tofu @ A'"),
        (lambda graph: graph.label_index("dish", "kungpao"), "unknown label 'kungpao' of kind 'dish'; did you mean"),
        (lambda graph: graph.label_index("dish", True), "unknown label True of kind 'dish'; there are"),
        (lambda graph: graph.only(["dish", "resturant"]), "did you mean 'restaurant'?"),
        (lambda graph: graph.with_unknown_prior("uniform", ["tofi"]), "did you mean 'tofu'?"),
    ],
)
def test_unknown_names_are_answered_with_near_ones(ask, words):
    with pytest.raises(UnknownNameError, match=words):
        ask(menu())


# ---- making another one of it ----------------------------------------------------------------------------------------


def test_some_of_the_kinds():
    graph = menu().only(["tofu", "dish"])
    assert graph.kinds == ("tofu", "dish")
    assert graph.kind("dish") == menu().kind("dish")
    assert menu().only([]).kinds == ()


def test_adding_and_replacing_a_kind():
    added = menu().with_kind(Kind.from_parents("hot", ("no", "yes"), [1, 0, 1]))
    assert added.kinds == ("dish", "restaurant", "tofu", "hot")
    replaced = added.with_kind(Kind.from_parents("dish", ("p",), [0, 0, 0]))
    assert replaced.kinds == added.kinds
    assert replaced.labels("dish") == ("p",)
    assert added.labels("dish") == ("mapo tofu", "kung pao")
    with pytest.raises(ShapeError, match="has 1 rows for 3 fine labels"):
        menu().with_kind(Kind.from_parents("hot", ("no", "yes"), [1]))


def test_another_prior_of_unknown_parents():
    graph = menu().with_unknown_prior("uniform", ["dish"])
    assert [graph.kind(name).unknown_prior for name in graph.kinds] == ["uniform", "frequency", "frequency"]
    assert {menu().with_unknown_prior("uniform").kind(name).unknown_prior for name in graph.kinds} == {"uniform"}
    assert graph.with_unknown_prior("frequency") == menu()
    with pytest.raises(GraphError, match="'frequency' or 'uniform', got 'even'"):
        menu().with_unknown_prior("even")


# ---- being a value ---------------------------------------------------------------------------------------------------


def test_equality_hash_and_digest():
    graph = menu()
    assert graph == menu()
    assert hash(graph) == hash(menu())
    assert graph.digest == menu().digest
    for other in [
        graph.only(["restaurant", "dish", "tofu"]),
        graph.with_unknown_prior("uniform"),
        LabelGraph(graph.fine[::-1], [graph.kind(name) for name in graph.kinds]),
        graph.with_kind(Kind.from_parents("dish", graph.labels("dish"), [0, 1, 1])),
    ]:
        assert graph != other
        assert graph.digest != other.digest
    assert graph != "graph"


def test_copies_and_pickles_are_equal():
    graph = menu()
    assert copy.deepcopy(graph) == graph
    assert pickle.loads(pickle.dumps(graph)) == graph  # noqa: S301


def test_a_graph_cannot_be_changed():
    graph = menu()
    with pytest.raises(AttributeError):
        graph.fine = ("a",)
    with pytest.raises(AttributeError):
        graph.kinds = ()
    for array in (graph.parents("dish"), graph.matrix("dish"), *graph.edges("dish")):
        array[:] = 7  # what is handed out belongs to the caller
    assert graph == menu()
    with pytest.raises(ValueError, match="read-only"):
        graph.kind("dish").weight[0] = 7
