"""Random graphs of every form, with names that are hard on file formats."""

import unicodedata
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from finegraph import Kind, LabelGraph, Number
from finegraph.graph.kind import BINARY_LABELS
from finegraph.graph.names import kind_name_fault, name_fault

NASTY = (
    *("#labels", "#", "\\#labels", "\\", "\\\\", "a\\|b", "|", "a|b", "a||", "&", "& b", "a &", "a & b", "M&M", "a&"),
    *(
        ":",
        "::",
        "a:0.7",
        "a:0.7:0.3",
        "a:",
        ":5",
        "a: 5",
        "a:inf",
        "a:NaN",
        "a:1e-3",
        "a:5%",
        "has_bill_shape::dagger",
    ),
    *('"', 'say "x"', '""', ",", "a,b", "yes", "no", "Yes", "fine", "x", "ingredient: tofu", "g: a", "g: b", "g: a: b"),
    *(": a", "=1+1", "日本", "🍜", "👨‍👩‍👧", "שלום", "مرحبا", "e\u0301", "é", "a\u00a0b", "a\u2028b", "a\u3000|b"),
    *(
        "a\u200bb",
        "\ufeffx",
        "null",
        "0",
        "a [number]",
        "b [log number, c]",
        "a [b < c]",
        "a [b]",
        "[",
        "<",
        "a < b",
        "]",
    ),
)
TEXT = st.text(alphabet=st.one_of(st.sampled_from('ab|&:\\#", .0e5[]<'), st.characters(codec="utf-8")), max_size=8)
NAMES = st.one_of(st.sampled_from(NASTY), TEXT, st.sampled_from("abcdef")).filter(lambda name: name_fault(name) is None)
KIND_NAMES = NAMES.filter(lambda name: kind_name_fault(name) is None)


def composed(name):
    return unicodedata.normalize("NFC", name)


def distinct(names, smallest=1, largest=5):
    return st.lists(names, min_size=smallest, max_size=largest, unique_by=composed)


@st.composite
def one_kind(draw, name, fine):
    """A kind of any form: one or several parents, weights, unknown cells, unused labels, odd sets of yes and no."""
    yes_no = st.sampled_from([BINARY_LABELS, ("yes", "no"), ("yes",), ("no",), ("no", "yes", "maybe"), ("a", "no")])
    labels = tuple(draw(st.one_of(distinct(NAMES), st.just(BINARY_LABELS), yes_no)))
    several = draw(st.sampled_from([1, 1, len(labels)]))
    weighted = draw(st.booleans())
    starts, coarse, weight = [0], [], []
    for _ in range(fine):
        row = draw(st.lists(st.integers(0, len(labels) - 1), max_size=several, unique=True))
        coarse += row
        weight += [draw(st.floats(0.001, 1000)) if weighted else 1.0 for _ in row]
        starts.append(len(coarse))
    return Kind(name, labels, np.array(starts), np.array(coarse, dtype=int), np.array(weight))


@st.composite
def group(draw, name, fine):
    """The binary kinds of an all-of column, sometimes with a cell of its own that such a column cannot have."""
    labels = draw(distinct(NAMES, 1, 4))
    table = np.array(draw(st.lists(st.lists(st.integers(0, 1), min_size=4, max_size=4), min_size=fine, max_size=fine)))
    table[[draw(st.integers(0, 5)) == 0 for _ in range(fine)]] = -1
    if draw(st.integers(0, 4)) == 0:
        table[draw(st.integers(0, fine - 1)), 0] = -1
    return [Kind.from_parents(f"{name}: {label}", BINARY_LABELS, table[:, j]) for j, label in enumerate(labels)]


@st.composite
def one_number(draw, name, fine):
    """A kind of numbers of any form: unknown and negative values, spreads, both scales, odd units."""
    scale = draw(st.sampled_from(["linear", "log"]))
    value = st.floats(-1e100, 1e100) if scale == "linear" else st.floats(1e-100, 1e100)
    pairs = [draw(st.tuples(st.one_of(value, st.just(np.nan)), st.floats(0, 1e100))) for _ in range(fine)]
    values, spreads = zip(*pairs, strict=True)
    return Number.from_values(name, values, spreads, scale, draw(st.one_of(st.just(""), NAMES)))


@st.composite
def graphs(draw, typed=True):
    """A graph with up to four kinds, groups of kinds or, where columns may be typed, numbers and ordered kinds."""
    fine = draw(distinct(NAMES, 1, 6))
    kinds, numbers = {}, {}
    for name in draw(distinct(KIND_NAMES, 0, 4)):
        form = draw(st.sampled_from(["group", "kind", "kind", *(["kind", "number"] if typed else [])]))
        if form == "number":
            numbers[composed(name)] = draw(one_number(name, len(fine)))
        for kind in draw(group(name, len(fine))) if form == "group" else []:
            kinds.setdefault(composed(kind.name), kind)
        if form == "kind":
            kind = draw(one_kind(name, len(fine)))
            ordered = typed and len(kind.labels) > 1 and draw(st.integers(0, 3)) == 0
            kinds.setdefault(composed(kind.name), replace(kind, ordered=ordered))
    numbers = {name: number for name, number in numbers.items() if name not in kinds}
    ordering = st.permutations(list(kinds.values()))
    return LabelGraph(fine, draw(ordering) if draw(st.booleans()) else kinds.values(), numbers.values())
