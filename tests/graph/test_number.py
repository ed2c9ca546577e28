"""Kinds of numbers: values, the inner scale, and graphs that hold them."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from finegraph.errors import GraphError, GraphFileError, ShapeError, UnknownNameError
from finegraph.graph import Kind, LabelGraph, Number
from finegraph.graph.formats.json_writer import canonical_json
from finegraph.graph.graph_files import graph_from_json

PRICE = Number.from_values("price", np.array([12.5, 9.0, np.nan]), np.array([1.5, 0, 7]), unit="EUR")
MASS = Number.from_values("mass", np.array([100.0, np.nan, 400.0]), np.array([10.0, 0, 0]), scale="log")
HEAT = Kind.from_parents("heat", ("mild", "medium", "hot"), [0, 2, -1])


def with_numbers():
    graph = LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "y"}, "c": {"dish": "x"}})
    heat = Kind("heat", HEAT.labels, HEAT.starts, HEAT.coarse, HEAT.weight, ordered=True)
    return graph.with_kind(heat).with_number(PRICE).with_number(MASS)


def test_unknown_values_have_no_spread_and_arrays_are_copies():
    values = np.array([1.0, np.nan])
    number = Number.from_values("n", values, np.array([0.5, 9.0]))
    values[0] = 7
    assert number.values[0] == 1
    assert number.spreads.tolist() == [0.5, 0.0]
    assert number.known.tolist() == [True, False]
    assert Number.from_values("n", [1.0, 2.0], 0.5).spreads.tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="read-only"):
        number.values[0] = 3


SPREADS = st.just(0.0) | st.floats(1e-100, 1e100)  # a share of a value far below underflows, which is no spread


@given(
    st.lists(st.tuples(st.floats(1e-100, 1e100), SPREADS), min_size=1, max_size=8),
    st.sampled_from(["linear", "log"]),
)
def test_the_mixture_of_known_values_has_mean_0_and_variance_1_inside(pairs, scale):
    number = Number.from_values("n", [np.nan, *(v for v, _ in pairs)], [0, *(s for _, s in pairs)], scale)
    values, spreads = number.standardised
    assert (values[0], spreads[0]) == (0, 1)
    assert np.isfinite(values).all()
    assert number.width > 0
    known = np.array([v for v, _ in pairs])
    known = np.log(known) if scale == "log" else known  # neighbouring large values have the same logarithm
    if len(set(known)) == 1 and not number.spreads.any():
        assert not values[1:].any()
        assert number.width == 1
        return
    rounding = 8 * float(np.finfo(float).eps) * abs(number.centre) / number.width
    assert np.mean(values[1:]) == pytest.approx(0, abs=1e-6 + rounding)
    assert np.mean(values[1:] ** 2 + spreads[1:] ** 2) == pytest.approx(1)
    assert number.resolution > 0


def test_log_scale_by_hand():
    values, spreads = MASS.standardised
    centre = np.log([100, 400]).mean()
    width = np.sqrt(np.log(2) ** 2 + 0.1**2 / 2)
    assert MASS.centre == pytest.approx(centre)
    assert MASS.width == pytest.approx(width)
    assert values == pytest.approx([-np.log(2) / width, 0, np.log(2) / width])
    assert spreads == pytest.approx([0.1 / width, 1, 0])
    assert MASS.to_outer(MASS.to_inner([1, 200, 5000])) == pytest.approx([1, 200, 5000])
    assert MASS.to_inner([0, -3]).tolist() == [-np.inf, -np.inf]
    assert MASS.resolution == pytest.approx(np.log(2) / width)


def test_resolution_of_values_that_rounding_made_different():
    assert Number.from_values("n", [0.3 + 1e-9, 0.3, 5]).resolution == 1e-3
    assert Number.from_values("n", [2.0, 2.0]).resolution == 0.5


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "fine"}, "taken by a column"),
        ({"values": [1, np.inf]}, "finite number of size at most 1e"),
        ({"values": [1, 0], "scale": "log"}, "on a log scale a value is above 0"),
        ({"spreads": [0, -1]}, "a spread is a finite number from 0"),
        ({"spreads": [0, np.nan]}, "a spread is a finite number from 0"),
        ({"unit": " EUR"}, "white space at its ends"),
        ({"values": ["a", "b"]}, "must be numbers"),
    ],
)
def test_what_no_number_can_be(fields, message):
    with pytest.raises(GraphError, match=message):
        Number.from_values(**{"name": "n", "values": [1, 2], "spreads": [0, 0], **fields})


def test_one_value_and_one_spread_per_fine_label():
    with pytest.raises(ShapeError):
        Number.from_values("n", [1, 2], [1])


def test_graphs_hold_numbers_beside_kinds():
    graph = with_numbers()
    assert graph.kinds == ("dish", "heat")
    assert graph.numbers == ("price", "mass")
    assert graph.kind("heat").ordered
    values = graph.values("price")
    values[0] = 3
    assert graph.number("price") == PRICE
    assert "price" in repr(graph)
    assert graph.only(["mass", "dish"]).numbers == ("mass",)
    assert graph.only(["dish"]).numbers == ()
    assert graph.with_unknown_prior("uniform").numbers == graph.numbers
    assert graph.with_photo_labels({"dish": np.ones((3, 2))}).numbers == graph.numbers
    with pytest.raises(UnknownNameError, match="price"):
        graph.number("prise")
    with pytest.raises(GraphError, match="given twice"):
        graph.with_number(Number.from_values("dish", [1, 2, 3]))
    with pytest.raises(ShapeError, match="2 rows for 3"):
        graph.with_number(Number.from_values("size", [1, 2]))


def test_graphs_with_numbers_are_values():
    graph, same = with_numbers(), with_numbers()
    assert graph == same
    assert hash(graph) == hash(same)
    assert graph.digest == same.digest
    assert pickle.loads(pickle.dumps(graph)) == graph  # noqa: S301  # its own bytes
    other = graph.with_number(Number.from_values("price", PRICE.values, [1.5, 0.1, 0], unit="EUR"))
    flat = graph.with_kind(HEAT)
    for different in (
        other,
        flat,
        graph.only(graph.kinds),
        graph.with_number(Number.from_values("mass", MASS.values, unit="g")),
    ):
        assert different != graph
        assert different.digest != graph.digest


def test_rows_and_new_fine_labels():
    graph = with_numbers()
    assert PRICE.rows(np.array([2, 0])).values.tolist()[1] == 12.5
    assert graph.kind("heat").rows(np.array([1])).ordered
    more = graph.with_fine({"d": {"price": "7 +- 2", "heat": "hot"}, "e": {"mass": (5, 1)}, "f": {"price": 3}})
    assert more.values("price")[3:].tolist() == pytest.approx([7, np.nan, 3], nan_ok=True)
    assert more.number("price").spreads[3:].tolist() == [2, 0, 0]
    assert more.number("mass").spreads[4] == 1
    assert more.kind("heat").ordered
    for row, message in [
        ({"heat": "scorching"}, "no place in the order mild < medium < hot"),
        ({"mass": -1}, "above 0"),
        ({"price": True}, "expected a number"),
    ]:
        with pytest.raises(GraphError, match=message):
            graph.with_fine({"d": row})


def test_json_of_version_2_and_only_where_needed():
    graph = with_numbers()
    text = canonical_json(graph)
    assert '"version":2' in text
    assert graph_from_json(text) == graph
    assert '"version":1' in canonical_json(graph.only(["dish"]))
    ordered = graph.only(["heat"])
    assert graph_from_json(canonical_json(ordered)) == ordered
    with pytest.raises(GraphFileError, match="unknown key"):
        graph_from_json(text.replace('"version":2', '"version":1'))
    with pytest.raises(GraphFileError, match="newer finegraph"):
        graph_from_json(text.replace('"version":2', '"version":3'))


def test_faults_of_numbers_in_json_come_together():
    text = """{"format": "finegraph.graph", "version": 2, "fine": ["a", "b"], "kinds": [
      {"name": "heat", "labels": ["x"], "parents": [0, 0], "ordered": 1}], "numbers": [
      {"name": "price", "values": [1, "two"], "spreads": [-1, 0]},
      {"name": "heat", "values": [1], "scale": "cube", "unit": 3},
      {"name": "mass", "values": [0, 5], "scale": "log"}, {"nam": "m"}, 7]}"""
    with pytest.raises(GraphFileError) as caught:
        graph_from_json(text)
    places = {(fault.column, fault.rule) for fault in caught.value.faults}
    assert {
        ("kinds[0].ordered", "wrong-type"),
        ("numbers[0].values[1]", "bad-number"),
        ("numbers[0].spreads[0]", "bad-spread"),
        ("numbers[1].values", "wrong-length"),
        ("numbers[1].scale", "wrong-type"),
        ("numbers[1].unit", "wrong-type"),
        ("numbers[1].name", "duplicate-kind"),
        ("numbers[2].values[0]", "bad-value"),
        ("numbers[3].nam", "unknown-key"),
        ("numbers[4]", "wrong-type"),
    } <= places
