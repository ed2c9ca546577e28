import json

import numpy as np
import pytest
from graph_strategies import graphs
from hypothesis import given
from hypothesis import strategies as st

from finegraph import Kind, LabelGraph
from finegraph.errors import GraphFileError
from finegraph.graph.formats.json_writer import canonical_json
from finegraph.graph.graph_files import graph_from_json


def content(**changes):
    """A good graph with two fine labels and one kind, with some keys changed; a key with `...` is left out."""
    graph = {"format": "finegraph.graph", "version": 1, "fine": ["a", "b"], "kinds": [kind()]} | changes
    return json.dumps({key: value for key, value in graph.items() if value is not ...})


def kind(**changes):
    entry = {"name": "dish", "labels": ["p", "q"], "parents": [0, 1]} | changes
    return {key: value for key, value in entry.items() if value is not ...}


def faults(text):
    with pytest.raises(GraphFileError) as caught:
        graph_from_json(text, "menu.json")
    return [(fault.rule, fault.column) for fault in caught.value.faults]


def test_a_good_file():
    text = content(kinds=[kind(parents=[None, [[0, 3], [1, 1]]], unknown_prior="uniform")])
    expected = Kind.from_matrix("dish", ("p", "q"), [[0, 0], [0.75, 0.25]], unknown_prior="uniform")
    assert graph_from_json(text, "menu.json") == LabelGraph(["a", "b"], [expected])


@pytest.mark.deep
@given(graphs(), st.booleans())
def test_reading_what_was_written_gives_an_equal_graph(graph, uniform):
    graph = graph.with_unknown_prior("uniform" if uniform else "frequency")
    assert graph_from_json(canonical_json(graph), "menu.json") == graph
    assert graph_from_json(canonical_json(graph)) == graph


def test_equal_graphs_give_equal_text_and_digest():
    one = LabelGraph.from_table({"a": {"k": {"p": 3, "q": 1}}, "b": {"k": "p"}})
    two = LabelGraph(["a", "b"], [Kind.from_matrix("k", ("p", "q"), [[0.75, 0.25], [2, 0]])])
    assert canonical_json(one) == canonical_json(two)
    assert one.digest == two.digest
    assert one.digest != LabelGraph(["b", "a"], [two.kind("k")]).digest


@pytest.mark.parametrize(
    ("text", "rule", "place", "words"),
    [
        ("", "json-syntax", None, "not JSON"),
        ("{", "json-syntax", None, "menu.json:1: not JSON"),
        ("[1]", "wrong-type", None, "expected an object with the keys format, version, fine, kinds, got a list"),
        ("null", "wrong-type", None, "expected an object, got null"),
        ("[" * 100_000, "json-syntax", None, "nested too deeply"),
        ('{"version":' + "1" * 5000 + "}", "json-syntax", None, "too many digits"),
        (content(version=3), "newer-version", "version", "a newer finegraph; this one reads up to version 2; update"),
        (content(version=True), "wrong-type", "version", "expected a whole number from 1 on, got true or false"),
        (content(version=0), "wrong-type", "version", "got 0"),
        (content(version=...), "missing-key", "version", "the key is missing"),
        (content(format="other"), "wrong-format", "format", "expected 'finegraph.graph', got 'other'"),
        (content(kindz=[]), "unknown-key", "kindz", "did you mean 'kinds'?"),
        (content(comment="x"), "unknown-key", "comment", "there are format, version, fine, kinds"),
        (content(fine=...), "missing-key", "fine", "the key is missing"),
        (content(fine=[], kinds=[]), "empty-list", "fine", "expected at least one name"),
        (content(fine="ab"), "wrong-type", "fine", "expected a list of names, got 'ab'"),
        (content(fine=["a", 3]), "wrong-type", "fine[1]", "expected a name, got 3"),
        (content(fine=["a", " b"]), "bad-name", "fine[1]", "value ' b': a name must not begin or end"),
        (content(fine=["a", "\ud800"]), "bad-name", "fine[1]", r"U\+D800"),
        (content(fine=["a", "a"]), "duplicate-name", "fine[1]", r"is already at fine\[0\]"),
        (content(fine=["é", "e\u0301"]), "unicode-twins", "fine[1]", "another Unicode form"),
        (content(kinds={}), "wrong-type", "kinds", "expected a list, got an object"),
        (content(kinds=[7]), "wrong-type", "kinds[0]", "keys name, labels, parents, got 7"),
        (content(kinds=[kind(), kind()]), "duplicate-kind", "kinds[1].name", r"kinds\[0\] has the same name"),
        (content(kinds=[kind(name="é"), kind(name="e\u0301")]), "unicode-twins", "kinds[1].name", "Unicode form"),
    ],
)
def test_a_fault_is_named_with_its_place(text, rule, place, words):
    assert faults(text) == [(rule, place)]
    with pytest.raises(GraphFileError, match=words):
        graph_from_json(text, "menu.json")


@pytest.mark.parametrize(
    ("changes", "rule", "place", "words"),
    [
        ({"label": []}, "unknown-key", "label", "did you mean 'labels'?"),
        ({"name": "fine"}, "bad-name", "name", "this name is taken"),
        ({"name": None}, "wrong-type", "name", "expected a name, got null"),
        ({"name": ...}, "missing-key", "name", "missing"),
        ({"labels": ["p", "p"]}, "duplicate-name", "labels[1]", "must be distinct"),
        ({"labels": {}}, "wrong-type", "labels", "got an object"),
        ({"unknown_prior": "even"}, "wrong-type", "unknown_prior", "'uniform', got 'even'"),
        ({"unknown_prior": [1]}, "wrong-type", "unknown_prior", "'uniform', got a list"),
        ({"parents": [0]}, "wrong-length", "parents", "1 parents for 2 fine labels"),
        ({"parents": 0}, "wrong-type", "parents", "parent of each fine label, got 0"),
        ({"parents": [0, 2]}, "out-of-range", "parents[1]", "expected 0 to 1"),
        ({"parents": [0, -1]}, "out-of-range", "parents[1]", "null is unknown"),
        ({"parents": [0, 10**30]}, "out-of-range", "parents[1]", "expected 0 to 1"),
        ({"parents": [0, True]}, "wrong-type", "parents[1]", "got true or false"),
        ({"parents": [0, 1.0]}, "wrong-type", "parents[1]", r"got 1\.0"),
        ({"parents": [0, "q"]}, "wrong-type", "parents[1]", "got 'q'"),
        ({"parents": [0, np.nan]}, "wrong-type", "parents[1]", "got NaN"),
        ({"parents": [0, []]}, "wrong-length", "parents[1]", "write null"),
        ({"parents": [0, [[1, 1]]]}, "wrong-length", "parents[1]", "the number alone"),
        ({"parents": [0, [[0, 1], 1]]}, "wrong-type", "parents[1][1]", "expected a pair"),
        ({"parents": [0, [[0, 1], [0, 2]]]}, "label-twice", "parents[1][1]", "occurs twice"),
        ({"parents": [0, [[0, 1], [5, 2]]]}, "out-of-range", "parents[1][1]", "no label '5'"),
        ({"parents": [0, [[0, 1], [1, 0]]]}, "bad-weight", "parents[1][1]", "got 0"),
        ({"parents": [0, [[0, 1], [1, np.inf]]]}, "bad-weight", "parents[1][1]", "got Infinity"),
        ({"parents": [0, [[0, True], [1, 1]]]}, "bad-weight", "parents[1][0]", "got true"),
        ({"parents": [0, [[0, 10**400], [1, 1]]]}, "bad-weight", "parents[1][0]", "finite"),
    ],
)
def test_a_fault_of_a_kind_is_named_with_its_place(changes, rule, place, words):
    text = content(kinds=[kind(name="other"), kind(**changes)])
    assert faults(text) == [(rule, f"kinds[1].{place}")]
    with pytest.raises(GraphFileError, match=words):
        graph_from_json(text, "menu.json")


def test_weights_that_cannot_be_normalised_are_refused():
    text = content(kinds=[kind(parents=[0, [[0, 1e-320], [1, 1e300]]])])
    assert faults(text) == [("bad-kind", "kinds[0]")]


def test_a_key_that_stands_twice_is_not_silently_dropped():
    assert faults(content().replace('"version": 1', '"version": 1, "version": 1')) == [("duplicate-key", "version")]
    assert faults(content().replace('"name"', '"name": "x1", "name"')) == [("duplicate-key", "kinds[0].name")]


def test_a_syntax_error_has_its_line():
    with pytest.raises(GraphFileError, match=r"menu\.json:3: not JSON"):
        graph_from_json('{"format": "finegraph.graph",\n"version": 1,\n"fine" ["a"]}', "menu.json")


def test_all_faults_come_in_one_error():
    text = content(fine=["a", "a"], kinds=[kind(parents=[0, 5, 6], nam=1), kind(name="x")])
    assert [rule for rule, _ in faults(text)] == [
        "duplicate-name",
        "unknown-key",
        "out-of-range",
        "out-of-range",
        "wrong-length",
        "bad-name",
    ]


def test_all_faults_of_a_number_have_their_places():
    numbers = [{"name": "price", "values": [1e300, 2], "spreads": [-1, -2]}, {"name": "mass", "values": [1, None]}]
    text = json.dumps({**json.loads(content(fine=["a", "b"], kinds=[])), "version": 2, "numbers": numbers})
    assert faults(text) == [
        ("bad-value", "numbers[0].values[0]"),
        ("bad-spread", "numbers[0].spreads[0]"),
        ("bad-spread", "numbers[0].spreads[1]"),
    ]
