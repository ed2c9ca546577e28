from itertools import islice, product

import numpy as np
import pytest
from graph_strategies import graphs
from hypothesis import given

from finegraph import Kind, LabelGraph
from finegraph.graph.graph_files import graph_from_csv
from finegraph.graph.lint import RULES, lint


def warnings(text, rule):
    """The warnings of one rule for a CSV text."""
    graph, lines = graph_from_csv(text, "menu.csv")
    return [fault for fault in lint(graph, lines) if fault.rule == rule]


def places(text, rule):
    return [(fault.line, fault.column, fault.value) for fault in warnings(text, rule)]


def table(**kinds):
    """A graph of kinds given as lists of cells; fine labels are f0, f1, ..."""
    count = len(next(iter(kinds.values())))
    return LabelGraph.from_table({f"f{i}": {name: cells[i] for name, cells in kinds.items()} for i in range(count)})


def rules(graph):
    return {fault.rule for fault in lint(graph)}


def test_a_sound_graph_has_no_warning():
    graph = table(dish=["tofu", "tofu", "pao", "pao"], restaurant=["A", "B", "A", "B"], hot=[True, False, False, False])
    assert lint(graph) == []


def test_warnings_are_complete_and_need_no_file():
    graph = table(k=["x", "x"])
    fault = next(fault for fault in lint(graph) if fault.rule == "one-label")
    assert (fault.severity, fault.line, fault.column, fault.value) == ("warning", None, "k", "x")
    assert fault.text() == (
        "warning: column 'k': value 'x': every known fine label has 'x', so the kind tells nothing apart; "
        "leave the kind out"
    )


def test_no_kinds():
    assert rules(LabelGraph(["a", "b"])) == {"no-kinds"}


def test_a_kind_with_one_label():
    assert places("fine,k,l\na,x,p\nb,x,q\nc,,q\n", "one-label") == [(1, "k", "x")]
    assert places("fine,k,l\na,no,p\nb,no,q\n", "one-label") == [(1, "k", "no")]


def test_labels_that_nothing_links_to():
    text = "fine,k\n#labels,p|q|r|s|t|u\na,p\nb,u\n"
    assert places(text, "unused-label") == [(2, "k", "q")]
    told = warnings(text, "unused-label")[0].message
    assert told == "no fine label has any of 4 labels of the kind: 'q', 'r', 's' and 1 more"
    assert places("fine,k\na,no\nb,no\n", "unused-label") == []  # said by one-label
    assert places("fine,heat [mild < medium < hot]\na,mild\nb,hot\n", "unused-label") == []  # a step of the order


def test_kinds_that_are_mostly_unknown():
    assert places("fine,k\na,p\nb,\nc,\n", "mostly-unknown") == [(1, "k", None)]
    assert "67% of the fine labels" in warnings("fine,k\na,p\nb,\nc,\n", "mostly-unknown")[0].message
    assert places("fine,k\na,p\nb,\n", "mostly-unknown") == []


def test_a_kind_that_says_the_same_as_the_fine_labels():
    assert places("fine,k,l\na,p,u\nb,q,u\nc,r,v\n", "same-as-fine") == [(1, "k", None)]
    assert places("fine,k\na,p\nb,q\nc,\n", "same-as-fine") == []
    assert places("fine,k\na,p\nb,q\nc,p|q\n", "same-as-fine") == []


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (["p", "p", "q"], ["u", "u", "v"], True),
        (["p", "p", "q"], ["u", "v", "v"], False),
        ([True, True, False], [False, False, True], True),  # the complement
        (["p", "q", None], ["u", "v", None], True),
        (["p", "q", None], ["u", "v", "w"], False),
        (["p", "q", None], [None, "u", "v"], False),
        ([{"p", "q"}, "p", "q"], [{"u", "v"}, "v", "u"], True),
        ([{"p", "q"}, "p", "q"], [{"u": 0.9, "v": 0.1}, "v", "u"], False),
        ([{"p", "q"}, "p", "q"], [{"u", "v"}, "u", "u"], False),
        (["p", "p", "p"], ["u", "u", "u"], False),  # said by one-label
    ],
)
def test_kinds_that_say_the_same(one, two, same):
    found = [fault for fault in lint(table(one=one, two=two)) if fault.rule == "same-kinds"]
    assert [(fault.column, fault.value) for fault in found] == ([("two", "one")] if same else [])


def test_fine_labels_that_no_kind_tells_apart():
    text = "fine,k,l\na,p,x|y\nb,p,x\nc,p,x|y\nd,,x\ne,,x\nf,p,x|y\ng,p,y|x\n"
    (fault,) = warnings(text, "not-told-apart")
    assert (fault.line, fault.value) == (2, "a")
    assert "6 fine labels in 2 groups" in fault.message
    assert "the first group is 'a', 'c', 'f' and 1 more" in fault.message
    assert places("fine,k\na,p\nb,\n", "not-told-apart") == []


def test_the_same_parents_with_other_weights_are_told_apart():
    assert places("fine,k\na,p:1|q:2\nb,p:2|q:1\n", "not-told-apart") == []


def test_one_of_that_looks_like_all_of():
    several = "fine,k\na,tofu|pork\nb,tofu|chili\nc,pork|chili\nd,tofu|pork|chili\ne,tofu\n"
    assert places(several, "looks-all-of") == [(2, "k", "tofu|pork")]
    assert "4 cells list several labels in 4 combinations" in warnings(several, "looks-all-of")[0].message
    fixed = "fine,k\na,plate|bowl\nb,plate|bowl\nc,cup|glass\nd,cup|glass\ne,bowl\n"
    assert places(fixed, "looks-all-of") == []  # the same choices again and again
    few = "fine,k\na,plate|bowl\nb,plate|bowl\nc,plate|bowl|cup\nd,cup\n"
    assert places(few, "looks-all-of") == []  # two combinations are not yet many
    weighted = "fine,k\na,tofu:2|pork:1\nb,tofu|chili\nc,pork|chili\nd,tofu|pork|chili\ne,tofu\n"
    assert places(weighted, "looks-all-of") == []  # who gives weights means one of
    rare = several + "".join(f"g{i},tofu\n" for i in range(30))
    assert places(rare, "looks-all-of") == []


@pytest.mark.parametrize(("one", "two"), [("Yes", "No"), ("TRUE", "FALSE"), ("1", "0"), ("y", "n")])
def test_other_spellings_of_yes_and_no(one, two):
    assert places(f"fine,k\na,{one}\nb,{two}\n", "looks-binary") == [(1, "k", None)]
    assert places("fine,k\na,yes\nb,no\n", "looks-binary") == []


def test_names_that_are_not_in_nfc():
    text = "fine,ke\u0301,l\na,p,e\u0301\nbe\u0301,q,f\nc,q,é2\n"
    assert places(text, "not-nfc") == [(3, "fine", "be\u0301"), (1, "ke\u0301", "ke\u0301"), (2, "l", "e\u0301")]


def test_names_that_differ_only_in_case_or_white_space():
    text = "fine,k,g\nMapo tofu,Pork,salt & Soy\nmapo  Tofu,pork,soy & salt\nx,po\u200brk,salt\n"
    found = {(fault.line, fault.column, fault.value) for fault in warnings(text, "alike-names")}
    assert found == {(3, "fine", "mapo  Tofu"), (3, "k", "pork"), (4, "k", "po\u200brk"), (3, "g", "soy")}
    assert "differs from 'Mapo tofu' only in case" in warnings(text, "alike-names")[0].message


# ---- misspelt labels -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("once", "often", "found"),
    [
        ("mapo tofuu", "mapo tofu", True),
        ("kung pao chiken", "kung pao chicken", True),
        ("dumplings", "dumpling", True),
        ("resteraunt", "restaurant", True),  # two vowels
        ("shrmip", "shrimp", True),  # two letters swapped
        ("Shrmip ball", "shrimp  ball", True),  # case and white space do not count
        ("mapotofu", "mapo tofu", True),
        ("table 12", "table 13", False),
        ("type a", "type b", False),
        ("beef", "beet", False),
        ("北京烤鸭", "北京烤鸡", False),  # duck and chicken
        ("pork", "chicken", False),
        ("x" * 100 + "a", "x" * 100, False),  # too long to be compared
    ],
)
def test_a_label_that_occurs_once_and_looks_like_another(once, often, found):
    text = f"fine,k,l\na,{often},p\nb,{often},q\nc,{once},p\nd,other,q\n"
    expected = [(4, "k", once)] if found else []
    assert places(text, "misspelt-label") == expected
    if found:
        assert warnings(text, "misspelt-label")[0].hint == f"did you mean {often!r}?"


def test_a_plural_that_occurs_twice_is_meant():
    assert places("fine,k\na,noodle\nb,noodle\nc,noodles\nd,noodles\n", "misspelt-label") == []


def test_a_label_that_occurs_twice_may_be_misspelt():
    rows = [f"{number},{'sparrow' if number < 4 else 'sparow'}" for number in range(6)]
    [found] = warnings("fine,family\n" + "\n".join(rows) + "\n", "misspelt-label")
    assert (found.line, found.column, found.value) == (6, "family", "sparow")
    assert found.message == "occurs 2 times and looks like 'sparrow', which occurs 4 times"


def test_fine_labels_may_be_misspelt():
    text = "fine,family\nHouse Sparrow,a\nFox Sparrow,a\nHouse Sparow,b\nHerring Gull,b\n"
    [found] = warnings(text, "misspelt-label")
    assert (found.line, found.column, found.value) == (4, "fine", "House Sparow")
    assert found.message == "looks like 'House Sparrow'"


def test_misspelt_labels_of_a_group_are_found():
    text = "fine,g\na,shrimp & salt\nb,shrimp\nc,salt\nd,shrmip & salt\n"
    assert places(text, "misspelt-label") == [(5, "g", "shrmip")]


def test_the_most_frequent_of_several_near_labels_is_suggested():
    text = "fine,k\na,noodles\nb,noodles\nc,noodled\nd,noodled\ne,noodled\nf,noodle\n"
    assert [fault.hint for fault in warnings(text, "misspelt-label")] == ["did you mean 'noodled'?"]


@pytest.mark.deep
def test_a_misspelling_among_many_labels_that_all_look_alike_is_found_quickly():
    """30,000 labels of which very many are near each other: comparing all pairs would take hours."""
    names = ["label " + "".join(word) for word in islice(product("abcdefghijklmnopqrstuvwxyz", repeat=4), 30_000)]
    names += ["restaurant", "restaurent"]
    parents = np.concatenate([np.arange(30_002), np.arange(30_001)])
    graph = LabelGraph([f"f{i}" for i in range(60_003)], [Kind.from_parents("k", names, parents)])
    assert [fault.value for fault in RULES["misspelt-label"](graph, None)] == ["restaurent"]


@given(graphs())
def test_any_graph_can_be_linted(graph):
    for fault in lint(graph, list(range(2, 2 + len(graph)))):
        assert fault.severity == "warning"
        assert fault.rule in RULES
        assert fault.hint
        assert fault.line is not None
        assert "\n" not in fault.text("menu.csv")
