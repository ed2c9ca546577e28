"""Columns of numbers and of ordered labels in graph files and tables."""

import math
from decimal import Decimal

import numpy as np
import pytest
import torch
from graph_strategies import KIND_NAMES, NAMES, distinct
from hypothesis import given
from hypothesis import strategies as st

from finegraph import LabelGraph
from finegraph.errors import GraphError, GraphFileError, UnknownNameError
from finegraph.graph.formats.column_types import NumberType, OrderType, format_header, parse_header
from finegraph.graph.formats.csv_writer import format_csv
from finegraph.graph.graph_files import graph_from_csv
from finegraph.graph.number_cells import NumberError, format_number, parse_number

MENU = """\
fine,dish,"price [number, EUR]",mass [log number],heat [mild < medium < hot]
mapo @ A,mapo,12.5,300 +- 30,hot
mapo @ B,mapo,10..15,,medium|hot
kung pao @ B,kung pao,-3 ± 0.5,2e2,
"""


def read(text):
    return graph_from_csv(text, "menu.csv")[0]


def faults(text):
    with pytest.raises(GraphFileError) as caught:
        graph_from_csv(text, "menu.csv")
    return caught.value.faults


def test_every_form_of_cell():
    graph = read(MENU)
    assert (graph.kinds, graph.numbers) == (("dish", "heat"), ("price", "mass"))
    price, mass, heat = graph.number("price"), graph.number("mass"), graph.kind("heat")
    assert price.values.tolist() == [12.5, 12.5, -3]
    assert price.spreads.tolist() == [0, 5 / math.sqrt(12), 0.5]
    assert (price.unit, price.scale, mass.unit, mass.scale) == ("EUR", "linear", "", "log")
    assert mass.known.tolist() == [True, False, True]
    assert (heat.labels, heat.ordered) == (("mild", "medium", "hot"), True)
    assert heat.unknown.tolist() == [False, False, True]
    assert not graph.kind("dish").ordered


def test_the_spread_of_a_range_is_that_of_a_value_drawn_evenly_from_it():
    value, spread = parse_number("10..15")
    drawn = np.linspace(10, 15, 100_001)
    assert (value, spread) == pytest.approx((drawn.mean(), drawn.std()), rel=1e-4)


def test_written_as_a_person_would():
    text = format_csv(read(MENU), safe=True)
    assert text.splitlines()[0] == 'fine,dish,heat [mild < medium < hot],"price [number, EUR]",mass [log number]'
    assert text.splitlines()[1] == "mapo @ A,mapo,hot,12.5,300 +- 30"
    assert text.splitlines()[3] == "kung pao @ B,kung pao,,\\-3 +- 0.5,200"
    assert read(text) == read(MENU)
    assert "-7" in format_csv(read("fine,t [number]\na,-7\nb,1\n"), safe=True).split("\n")[1].split(",")


@given(st.floats(-1e100, 1e100), st.floats(0, 1e100))
def test_a_number_reads_back_bit_by_bit(value, spread):
    assert parse_number(format_number(value, spread)) == (value, spread)


@given(
    KIND_NAMES,
    st.one_of(
        st.none(),
        st.builds(NumberType, st.sampled_from(["linear", "log"]), st.one_of(st.just(""), NAMES)),
        distinct(NAMES, 2, 5).map(lambda labels: OrderType(tuple(labels))),
    ),
)
def test_a_header_reads_back(name, kind):
    assert parse_header(format_header(name, kind)) == (name, kind)


@pytest.mark.parametrize("text", ["10..15", "0.1..0.3", "-3..4", "1e-05..2e-05", "1000..2500"])
def test_a_range_stays_one(text):
    assert format_number(*parse_number(text)) == text


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_a_range_reads_back_bit_by_bit(low, width):
    value, spread = parse_number(f"{low!r}..{low + width!r}")
    assert parse_number(format_number(value, spread)) == (value, spread)


@pytest.mark.parametrize("text", ["1..100", "0.001..1000", "10..15"])
def test_a_range_on_a_log_scale_is_one_of_ratios(text):
    low, high = map(float, text.split(".."))
    value, spread = parse_number(text, "log")
    drawn = np.linspace(np.log(low), np.log(high), 100_001)
    assert (math.log(value), spread / value) == pytest.approx((drawn.mean(), drawn.std()), abs=1e-4)
    assert parse_number(format_number(value, spread, "log"), "log") == (value, spread)


@given(st.floats(1e-6, 1e6), st.floats(1, 1e6))
def test_a_range_on_a_log_scale_reads_back_bit_by_bit(low, ratio):
    value, spread = parse_number(f"{low!r}..{low * ratio!r}", "log")
    assert parse_number(format_number(value, spread, "log"), "log") == (value, spread)


@pytest.mark.parametrize("text", ["-5..15", "0..15", "-5..-1", "0..0"])
def test_ranges_on_a_log_scale_lie_above_0(text):
    with pytest.raises(NumberError, match="on a log scale both ends of a range are above 0"):
        parse_number(text, "log")
    assert parse_number(text) is not None


@pytest.mark.parametrize(
    ("text", "unit", "other"),
    [
        ("10 kg", "g", "kg"),
        ("12 +- 2 USD", "EUR", "USD"),
        ("10..15 USD", "EUR", "USD"),
        ("10 EUR..15 USD", "EUR", "USD"),
        ("€12", "EUR", "€"),
        ("€12", "", "€"),
        ("10 g +- 1 g", "", "g"),
        ("12 per kg", "EUR", "per kg"),
    ],
)
def test_a_unit_that_differs_is_called_so(text, unit, other):
    with pytest.raises(NumberError, match="unit") as caught:
        parse_number(text, "linear", unit)
    assert caught.value.rule == "unit-differs"
    assert repr(other) in str(caught.value)


@pytest.mark.parametrize("text", ["12 EUR", "EUR 12", "12EUR"])
def test_a_unit_may_stand_on_either_side(text):
    assert parse_number(text, "linear", "EUR") == (12, 0)


@pytest.mark.parametrize("text", ["10 m2..14 m2", "10..14 m2", "12 m2 +- 1.1547005383792515 m2"])
def test_each_number_of_a_cell_may_repeat_the_unit(text):
    assert parse_number(text, "linear", "m2") == pytest.approx((12, 2 / math.sqrt(3)))


@pytest.mark.parametrize("text", ["1e5x7", "12..", "1 2", "twelve", "--1", "1+-", "12:3", "inf inf"])
def test_what_is_no_number_at_all_is_called_so(text):
    with pytest.raises(NumberError) as caught:
        parse_number(text, "linear", "EUR")
    assert caught.value.rule == "no-number"


@pytest.mark.parametrize(
    "name", ["size [cm]", "price[number]", "[number]", "a [numbers]", "a [b<c]", "a [number] b", "a [Number]"]
)
def test_other_brackets_are_part_of_the_name(name):
    assert read(f"fine,{name}\na,1\nb,2\n").kinds == (name,)


def test_a_kind_called_like_a_typed_column_is_written_with_a_backslash():
    graph = read("fine,price \\[number],a \\[b < c]\nx,1,1\ny,2,2\n")
    assert graph.kinds == ("price [number]", "a [b < c]")
    assert read(format_csv(graph)) == graph


def test_a_kind_called_like_half_of_a_type_reads_back():
    graph = LabelGraph.from_table({"a": {"x [number": "p", "y]": "q"}, "b": {"x [number": "q", "y]": "p"}})
    assert read(format_csv(graph)) == graph


def test_all_faults_with_line_and_column():
    text = """\
fine,"price [number, EUR]",mass [log number],heat [mild < medium < hot],size [a < a],x [number]
#labels,,,mild|hot,,1|2
one,twelve,0,mlid,a,1
two,15..10,-2,hot & mild,a,2
three,12 +- -1,inf,hot,a,3
four,12 USD,3 kg,,a,4
five,"12,5",1e300,tepid,a,5
"""
    found = {(fault.line, fault.column, fault.rule) for fault in faults(text)}
    assert found == {
        (1, "size [a < a]", "bad-type"),
        (1, "x", "reserved-kind"),
        (2, "heat", "bad-labels"),
        (3, "price", "no-number"),
        (4, "price", "empty-range"),
        (5, "price", "bad-spread"),
        (6, "price", "unit-differs"),
        (7, "price", "no-number"),
        (3, "mass", "bad-value"),
        (4, "mass", "bad-value"),
        (5, "mass", "bad-value"),
        (6, "mass", "unit-differs"),
        (7, "mass", "bad-value"),
    }
    hints = {fault.line: fault.hint for fault in faults(text) if fault.column == "price"}
    assert hints[4] == "write 10..15"
    assert "give the value in EUR" in hints[6]
    assert "did you mean 12.5?" in hints[7]


@pytest.mark.parametrize(
    ("scale", "rule", "hint"),
    [
        ("number", "empty-range", "write 0..10"),
        ("log number", "bad-value", "leave the cell empty if the value is unknown"),
    ],
)
def test_the_hint_of_a_range_is_not_a_fault_itself(scale, rule, hint):
    (found,) = faults(f"fine,mass [{scale}]\na,10..0\nb,3\n")
    assert (found.rule, found.hint) == (rule, hint)


@pytest.mark.parametrize("one", [Decimal("12.5"), np.float32(12.5), np.array(12.5), torch.tensor(12.5)])
def test_a_value_may_be_a_number_of_another_library(one):
    graph = LabelGraph.from_table({"a": {"price": one}, "b": {"price": (one, 1)}}, {"price": "number"})
    assert graph.number("price").values.tolist() == [12.5, 12.5]
    assert graph.number("price").spreads.tolist() == [0, 1]


@pytest.mark.parametrize(
    "one",
    [
        True,
        np.True_,
        torch.tensor(True),
        torch.ones(2),
        np.ones(1),
        1j,
        torch.tensor(1j),
        [1],
        10**400,
        Decimal("sNaN"),
    ],
)
def test_what_is_no_value_is_refused(one):
    with pytest.raises(GraphError, match=r"fine label 'a', number 'price': expected a number, a pair"):
        LabelGraph.from_table({"a": {"price": one}}, {"price": "number"})


@pytest.mark.parametrize(
    ("cell", "hint"),
    [
        ("1,200", "write 1200 or 1.200; a number has a point, and nothing between its thousands"),
        ("-12,345", "write -12345 or -12.345; a number has a point, and nothing between its thousands"),
        ("0,125", "did you mean 0.125? a number has a point, not a comma"),
        ("1,2", "did you mean 1.2? a number has a point, not a comma"),
        ("1,5 +- 0,2", "did you mean 1.5 +- 0.2? a number has a point, not a comma"),
    ],
)
def test_a_comma_in_a_number_may_stand_between_thousands(cell, hint):
    (found,) = faults(f'fine,mass [number]\na,"{cell}"\nb,3\n')
    assert (found.rule, found.hint) == ("no-number", hint)


@pytest.mark.parametrize("given", [3, None, (1, 2), {"mild": 1}])
def test_what_is_no_type_of_a_column(given):
    with pytest.raises(GraphError, match=r"the type of 'price' is .*; expected 'number', 'log number', one of these"):
        LabelGraph.from_table({"a": {"price": 1.5}}, {"price": given})


def test_an_unknown_ordered_label_gets_a_near_match():
    found = faults("fine,heat [mild < medium < hot]\na,mlid\nb,hot & mild\nc,medium\n")
    assert [(fault.line, fault.rule) for fault in found] == [(2, "undeclared-label"), (3, "mixed-column")]
    assert "did you mean 'mild'" in str(found[0].hint)


@pytest.mark.parametrize(("cell", "hint"), [("mild..hot", "mild|medium|hot"), ("hot .. medium", "medium|hot")])
def test_a_range_of_an_order_is_several_labels(cell, hint):
    (found,) = faults(f"fine,heat [mild < medium < hot]\na,{cell}\nb,mild\n")
    assert (found.line, found.rule, found.hint) == (2, "undeclared-label", f"for one of several labels write {hint}")
    assert "did you mean" in str(faults("fine,heat [mild < medium]\na,mild..hot\nb,milt\n")[-1].hint)


def test_a_cell_may_repeat_the_unit():
    assert parse_number("12.5 EUR", unit="EUR") == parse_number("EUR 12.5", unit="EUR") == (12.5, 0)
    assert parse_number("12 +- 2 g", unit="g") == (12, 2)
    assert parse_number("110", unit="10") == (110, 0)
    with pytest.raises(NumberError, match="the cell has the unit 'EUR', the column has none"):
        parse_number("12.5 EUR")


# ---- tables ----------------------------------------------------------------------------------------------------------


def test_tables_with_types():
    table = {
        "a": {"price": 12.5, "mass": (300, 30), "heat": "hot", "dish": "x"},
        "b": {"price": np.float32(2), "mass": "10..15", "heat": {"mild", "hot"}, "dish": "y"},
        "c": {"price": None, "mass": math.nan, "heat": None, "dish": "x"},
    }
    types = {"price": "number, EUR", "mass": "log number", "heat": ("mild", "medium", "hot")}
    graph = LabelGraph.from_table(table, types)
    assert graph == read(format_csv(graph))
    assert (graph.number("price").unit, graph.number("mass").scale) == ("EUR", "log")
    assert graph.kind("heat").ordered
    assert graph == LabelGraph.from_table(table, {**types, "heat": "mild < medium < hot"})


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"price": [1.5, 2.0]}, "the row of 'price' is \\[1.5, 2.0\\]. A pandas table gives rows by to_dict"),
        ({"a": "mild"}, "the row of 'a' is 'mild'"),
        ([("a", {"heat": "mild"})], "expected a mapping from each fine label to its row, .* got list"),
    ],
)
def test_what_is_no_table(table, words):
    with pytest.raises(GraphError, match=words):
        LabelGraph.from_table(table)


def test_kinds_and_numbers_are_told_apart():
    graph = read(MENU)
    with pytest.raises(UnknownNameError, match="'price' is a number of the graph, not a kind with labels"):
        graph.kind("price")
    with pytest.raises(UnknownNameError, match="'heat' is a kind with labels, not a number of the graph"):
        graph.number("heat")


def test_a_column_of_numbers_without_a_type_is_what_it_was():
    with pytest.raises(GraphError, match="got float; for a column of numbers give types="):
        LabelGraph.from_table({"a": {"price": 1.5}})
    assert read("fine,year\na,2010\nb,2012\n").labels("year") == ("2010", "2012")


def test_all_faults_of_typed_columns_in_one_error():
    table = {"a": {"price": "x", "heat": "mlid"}, "b": {"price": -1, "heat": ["hot"]}, "c": {"price": True}}
    with pytest.raises(GraphError) as caught:
        LabelGraph.from_table(table, {"price": "log number", "heat": ("mild", "hot")})
    text = str(caught.value)
    assert len(text.splitlines()) == 5
    assert "did you mean 'mild'" in text
    for types, message in [({"heat": ("hot",)}, "at least two"), ({"heat": "numbr"}, "expected 'number'")]:
        with pytest.raises(GraphError, match=message):
            LabelGraph.from_table(table, types)
    with pytest.raises(UnknownNameError, match="prise"):
        LabelGraph.from_table(table, {"prise": "number"})
