import pytest
from graph_strategies import NAMES, distinct
from hypothesis import given
from hypothesis import strategies as st

from finegraph.graph.faults import CellError
from finegraph.graph.formats.cells import escape_label, format_cell, format_name, parse_cell, parse_name
from finegraph.graph.kind_columns import TableCell


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("", None),
        ("tofu", TableCell(("tofu",))),
        ("a|b", TableCell(("a", "b"))),
        ("a | b|  c", TableCell(("a", "b", "c"))),
        ("a:0.7|b:0.3", TableCell(("a", "b"), (0.7, 0.3))),
        ("a:7|b:+3e0", TableCell(("a", "b"), (7.0, 3.0))),
        ("a:.5|b:5.", TableCell(("a", "b"), (0.5, 5.0))),
        ("tofu & pork", TableCell(("tofu", "pork"), all_of=True)),
        ("tofu  &\u00a0pork", TableCell(("tofu", "pork"), all_of=True)),
        ("&", TableCell((), all_of=True)),
        ("M&M", TableCell(("M&M",))),
        ("a &b", TableCell(("a &b",))),
        ("has_bill_shape::dagger", TableCell(("has_bill_shape::dagger",))),
        ("a::b|c::d", TableCell(("a::b", "c::d"))),
        ("a::b:1|c::d:3", TableCell(("a::b", "c::d"), (1.0, 3.0))),
        (r"a\:0.7", TableCell(("a:0.7",))),
        (r"a\:0.7|b", TableCell(("a:0.7", "b"))),
        (r"a\|b", TableCell(("a|b",))),
        (r"a \& b", TableCell(("a & b",))),
        (r"\\", TableCell(("\\",))),
        (r"\#labels", TableCell(("#labels",))),
        ("#labels", TableCell(("#labels",))),
        (r"a\\|b", TableCell(("a\\", "b"))),
    ],
)
def test_what_a_cell_means(text, cell):
    assert parse_cell(text) == cell


@pytest.mark.parametrize(
    ("text", "rule", "message"),
    [
        (" a", "white-space", "begins or ends with white space"),
        ("a\u00a0", "white-space", "begins or ends with white space"),
        (" ", "white-space", "an empty cell is unknown"),
        ("a\nb", "bad-name", r"control character U\+000A"),
        ("a||b", "empty-part", "a label is missing"),
        ("|a", "empty-part", "a label is missing"),
        ("a|", "empty-part", "a label is missing"),
        ("a & & b", "empty-part", "a label is missing"),
        ("& b", "empty-part", "a label is missing"),
        ("a &", "empty-part", "a label is missing"),
        ("a|b & c", "mixed-cell", r"mixes '\|' \(one of\) and ' & ' \(all of\)"),
        ("a|& b", "mixed-cell", "mixes"),
        ("a|b|a", "label-twice", "the label 'a' occurs twice"),
        ("a & a", "label-twice", "the label 'a' occurs twice"),
        ("a:0.7", "bad-weight", r"the only label.*write a\\:0\.7"),
        ("a:0.7|b", "bad-weight", "'b' has no weight.*give one to all or to none"),
        ("a:0|b:1", "bad-weight", r"the weight 0 is not a finite number above 0.*write a\\:0"),
        ("a:1|b:-2", "bad-weight", r"the weight -2 .*write b\\:-2"),
        ("a:nan|b:1", "bad-weight", "the weight nan"),
        ("a:1e999|b:1", "bad-weight", "the weight 1e999"),
        ("a:1e-320|b:1e300", "bad-weight", "too far apart"),
        ("a:1e308|b:1e308", "bad-weight", "too large"),
        ("a:1 & b", "bad-weight", "hold together have none"),
        ("a: 1|b: 2", "bad-weight", r"white space before the number.*'\\:'"),
        (":1|b:2", "bad-name", "must not be empty; it stands before the weight 1"),
        ("a :1|b:2", "bad-name", "begin or end with white space; it stands before the weight 1"),
        (r"a\n", "bad-escape", "is not an escape"),
        ("a\\", "bad-escape", r"write a backslash as \\\\"),
    ],
)
def test_faulty_cells_are_refused(text, rule, message):
    with pytest.raises(CellError, match=message) as caught:
        parse_cell(text)
    assert caught.value.rule == rule


@st.composite
def cells(draw):
    labels = tuple(draw(distinct(NAMES, 0)))
    if len(labels) != 1 and draw(st.booleans()):
        return TableCell(labels, all_of=True)
    weights = tuple(draw(st.floats(1e-12, 1e12)) for _ in labels) if len(labels) > 1 and draw(st.booleans()) else None
    return TableCell(labels, weights) if labels else None


@given(cells())
def test_parsing_what_was_formatted_gives_the_same_cell(cell):
    assert parse_cell(format_cell(cell)) == cell


@given(NAMES)
def test_names_survive_the_header_and_the_fine_column(name):
    text = format_name(name)
    assert parse_name(text) == name
    assert not text.startswith("#")


@pytest.mark.parametrize("name", ["M&M", "has_bill_shape::dagger", "#1", "a, b", "12:30 h", "a:b"])
def test_nothing_is_escaped_without_need(name):
    assert escape_label(name) == name


def test_the_fine_column_keeps_separators_as_they_are():
    assert format_name("a|b & c:0.7") == "a|b & c:0.7"
    assert parse_name("a|b & c:0.7") == "a|b & c:0.7"
    assert format_name("#a\\b") == "\\#a\\\\b"


def test_forms_that_no_file_has_are_written_as_what_they_mean():
    assert format_cell(TableCell(("a",), all_of=True)) == "a"
    assert format_cell(TableCell(("a",), (0.7,))) == "a"


@pytest.mark.parametrize(
    "text", ["a" + " " * 300_000 + "b|c", "a:" + "1" * 300_000 + "x|b", "&" * 300_000, ":" * 300_000]
)
def test_long_cells_do_not_take_quadratic_time(text):
    """Each of these would run for minutes or hours if the cost were not linear."""
    assert parse_cell(text) is not None
