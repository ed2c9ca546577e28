"""What other cells and names say about a cell, and the words of names in many scripts."""

import numpy as np
import pytest

from finegraph.graph import LabelGraph
from finegraph.graph.cell_clues import cell_clues
from finegraph.graph.names import words_of


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("RoyalGala-Apple_2012b", ["royal", "gala", "apple", "2012", "b"]),
        ("Crème  Brûlée", ["creme", "brulee"]),
        ("Żurek №5", ["zurek", "no", "5"]),
        ("пельмени ПЕЛЬМЕНИ", ["пельмени", "пельмени"]),
        ("हिन्दी खाना", ["हिन्दी", "खाना"]),
        ("麻婆豆腐 @ A", ["麻婆", "婆豆", "豆腐", "a"]),
        ("牛", ["牛"]),
        ("@ -- !", []),
        ("", []),
    ],
)
def test_words(name, words):
    assert words_of(name) == words


def test_related_kinds_are_counted_without_the_cell_itself():
    table = {f"i{number}": {"dish": "soup" if number < 4 else "cake", "sweet": number >= 4} for number in range(8)}
    graph = LabelGraph.from_table({**table, "new": {"dish": "cake", "sweet": None}})
    clues = cell_clues(graph)
    sweet = clues.columns(graph.kinds.index("sweet"))
    # Of 8 others 5 known cells are: cake with sweet in 4 of 4, soup in none; pulled towards the share of cake by one.
    share = (4 + 0.5) / (8 + 1)
    expected = [np.log((0 + share) / (4 + 1) / share), np.log((4 + share) / (4 + 1) / share)]
    assert clues.related[8, sweet].tolist() == pytest.approx(expected)
    # A cell that is known is judged as if it were not: three others have its label.
    share = (3 + 0.5) / (8 + 1)
    assert clues.related[0, sweet].tolist() == pytest.approx(
        [np.log((3 + share) / (3 + 1) / share), np.log((0 + share) / (4 + 1) / share)]
    )


def test_frequencies_leave_the_cell_out():
    graph = LabelGraph.from_table({f"i{number}": {"dish": "soup" if number else "cake"} for number in range(6)})
    frequency = np.exp(cell_clues(graph).frequency)
    assert frequency.sum(axis=1).tolist() == pytest.approx([1.0] * 6)
    soup, cake = graph.label_index("dish", "soup"), graph.label_index("dish", "cake")
    assert frequency[0, cake] < frequency[1, cake] < frequency[0, soup]


def test_words_of_labels_in_names():
    graph = LabelGraph.from_table(
        {
            "Mapo tofu": {"dish": "mapo tofu", "with": ["tofu"]},
            "fried rice": {"dish": "rice", "with": ["egg"]},
            "egg soup": {"dish": None, "with": None},
        }
    )
    clues = cell_clues(graph)
    names = [(kind, label) for kind in graph.kinds for label in graph.labels(kind)]
    named = {(graph.fine[row], *names[column]) for row, column in zip(*np.nonzero(clues.named), strict=True)}
    assert named == {
        ("Mapo tofu", "dish", "mapo tofu"),
        ("Mapo tofu", "with: tofu", "yes"),
        ("fried rice", "dish", "rice"),
        ("egg soup", "with: egg", "yes"),
    }


def test_a_graph_without_anything_known():
    clues = cell_clues(LabelGraph.from_table({"a": {"dish": None}, "b": {"dish": "x"}}))
    assert np.isfinite(clues.frequency).all()
    assert np.isfinite(clues.related).all()
