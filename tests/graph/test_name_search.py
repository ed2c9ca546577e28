"""Searching names for a part of them."""

import random

import finegraph as fg
from finegraph.graph.name_search import NameSearch, label_search


def slow(names, text):
    """The names that hold a text, those that begin with it first, one by one."""
    wanted = text.casefold().strip()
    first = [name for name in names if name.casefold().startswith(wanted)]
    return first + [name for name in names if wanted in name.casefold() and name not in first]


def test_it_finds_what_a_look_at_every_name_finds():
    letters, rng = "aAbß é中", random.Random(0)
    names = list({"".join(rng.choices(letters, k=rng.randint(1, 6))) for _ in range(300)})
    search = NameSearch(names)
    for text in ("", "a", "AB", "ß", "ss", "é", "中", " a ", "b a", "aab", "abab", "zz", "中中", "ababababab"):
        expected = slow(names, text)
        assert search.holding(text) == (len(expected), expected), text
        assert search.holding(text, 3) == (len(expected), expected[:3]), text
    assert NameSearch([]).holding("a") == (0, [])


def test_a_hundred_thousand_labels():
    search = NameSearch([f"dish {number} @ place {number % 997}" for number in range(100_000)])
    assert search.holding("Dish 99999 ") == (1, ["dish 99999 @ place 299"])
    assert search.holding("e", 2) == (100_000, ["dish 0 @ place 0", "dish 1 @ place 1"])


def test_it_is_kept_with_the_graph():
    graph = fg.LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "y"}})
    assert label_search(graph).holding("B") == (1, ["b"])
    assert label_search(graph, "dish").holding("x") == (1, ["x"])
    assert label_search(graph, "dish") is label_search(graph, "dish")
