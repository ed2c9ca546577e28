"""Numbers and ordered kinds where a graph is checked, described and drawn."""

import pytest

from finegraph.errors import UnknownNameError
from finegraph.graph.describe import describe
from finegraph.graph.drawing.svg_drawing import draw_svg
from finegraph.graph.graph_files import graph_from_csv
from finegraph.graph.lint import indistinct_groups, lint

MENU = """\
fine,dish,"price [number, EUR]",mass [log number],heat [mild < medium < hot]
mapo @ A,mapo,12.5 +- 1.5,300 +- 30,hot
mapo @ B,mapo,10..15,,medium
kung pao @ B,kung pao,9.5,200,mild
"""


def read(text):
    return graph_from_csv(text, "menu.csv")[0]


def doubts(text):
    return {(fault.rule, fault.line, fault.column): fault for fault in lint(*graph_from_csv(text, "menu.csv"))}


def test_a_type_and_a_unit_without_a_comma_keep_the_unit():
    hints = [fault.hint for fault in doubts("fine,u [number EUR],m [Log number g]\na,1,1\nb,2,2\n").values()]
    assert "did you mean 'u [number, EUR]'?" in hints
    assert "did you mean 'm [log number, g]'?" in hints


def test_check_points_at_columns_that_look_like_numbers():
    found = doubts("fine,year,floor,code,dish\na,2010,1,1a,x\nb,2012,2,2,x\nc,2013,2,3,y\nd,-1e3,1,4,y\n")
    assert found["looks-numeric", 1, "year"].message.startswith("looks like numbers: '2010', '2012', '2013'")
    assert found["looks-numeric", 1, "year"].hint == "write 'year [number]' if it is how much that counts"
    assert not {column for rule, _, column in found if rule == "looks-numeric"} & {"floor", "code", "dish"}
    assert ("looks-numeric", 1, "year") not in doubts("fine,year [number]\na,2010\nb,2012\nc,2013\n")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("price [Number]", "price [number]"),
        ("price [numbr]", "price [number]"),
        ('"price [float, EUR]"', "price [number, EUR]"),
        ("price [Number; EUR]", "price [number, EUR]"),
        ("mass [log number: g]", "mass [log number, g]"),
        ("mass [log-number]", "mass [log number]"),
        ("price[number]", "price [number]"),
        ("heat [mild<hot]", "heat [mild < hot]"),
    ],
)
def test_check_points_at_names_that_look_like_types(name, meant):
    found = [fault for fault in doubts(f"fine,{name}\na,1\nb,2\n").values() if fault.rule == "looks-typed"]
    assert [fault.hint for fault in found] == [f"did you mean {meant!r}?"]


def test_a_column_with_nearly_a_type_is_pointed_at_once():
    found = doubts("fine,price [nummer],year\na,1,2001\nb,2,2002\nc,3,2003\n")
    pointed_at = {(rule, name) for rule, _, name in found if rule.startswith("looks-")}
    assert pointed_at == {("looks-typed", "price [nummer]"), ("looks-numeric", "year")}


def test_a_name_with_a_backslash_or_a_plain_unit_is_no_doubt():
    for name in ("price \\[number]", "size [cm]"):
        assert "looks-typed" not in {rule for rule, _, _ in doubts(f"fine,{name}\na,1\nb,2\n")}


def test_numbers_that_say_little():
    found = doubts("fine,dish,p [number],q [number]\na,x,1,\nb,y,1,\nc,x,,2\n")
    assert ("one-value", 1, "p") in found
    assert ("mostly-unknown", 1, "q") in found


def test_numbers_tell_fine_labels_apart():
    assert indistinct_groups(read("fine,p [number]\na,1\nb,1\nc,2\nd,\ne,\n")) == [[0, 1], [3, 4]]
    assert "no-kinds" not in {rule for rule, _, _ in doubts("fine,p [number]\na,1\nb,2\n")}


def test_summary():
    summary = describe(read(MENU))
    price, mass = summary.numbers
    assert (price.min, price.max, price.mean) == (9.5, 12.5, 11.5)
    assert (price.unit, price.with_spread, price.unknown) == ("EUR", 2, 0)
    assert mass.mean == pytest.approx((300 * 200) ** 0.5)
    assert (mass.scale, mass.known, mass.unknown) == ("log", 2, 1)
    assert [column.ordered for column in summary.columns] == [False, True]
    only = describe(read(MENU), ["mass", "dish"])
    assert ([column.name for column in only.columns], [one.name for one in only.numbers]) == (["dish"], ["mass"])
    with pytest.raises(UnknownNameError, match="did you mean 'mass'"):
        describe(read(MENU), ["mas"])


def test_drawing():
    svg = draw_svg(read(MENU))
    assert "2 kinds, 2 numbers" in svg
    assert "mapo @ A: price 12.5 ± 1.5 EUR" in svg
    assert "mapo @ B: mass unknown" in svg
    assert (
        svg.count("fine label</text>") == 2
    )  # kinds stand on both sides, so the numbers have fine labels of their own
    assert draw_svg(read(MENU), ["dish", "price"]).count("fine label</text>") == 1
    ordered = svg[svg.index("heat") :]
    assert ordered.index(">mild<") < ordered.index(">medium<") < ordered.index(">hot<")


def test_drawing_of_numbers_alone_and_of_nothing_known():
    assert "p unknown" in draw_svg(read("fine,p [number]\na,\nb,\n"))
    assert "1 of 1 number" not in draw_svg(read("fine,p [number]\na,3\nb,3\n"))
    many = ",".join(f"n{i} [number]" for i in range(6))
    assert "4 of 6 numbers" in draw_svg(read(f"fine,{many}\na,1,2,3,4,5,6\n"))
