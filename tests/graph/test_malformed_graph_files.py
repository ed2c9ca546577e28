"""Malformed graph files are refused with their faults, and nothing is silently repaired.

Good files are made at random and then broken: each function in `BREAK_CSV` and `BREAK_JSON` makes one fault of its
kind, so the file must be refused. The last test changes characters at random; what is still accepted must read back as
the same graph. How many files there are is `FINEGRAPH_MALFORMED` in the environment; 5000 take some 15 seconds.
"""

import codecs
import csv
import json
import os
import random

import pytest

from finegraph import LabelGraph
from finegraph.errors import GraphFileError
from finegraph.graph.formats.csv_writer import format_csv
from finegraph.graph.formats.json_writer import canonical_json

FILES = int(os.environ.get("FINEGRAPH_MALFORMED", "400"))
WORDS = (
    " & ",
    "::",
    "\\|",
    '""',
    "yes",
    "#labels",
    "null",
    "true",
    ":0.5",
    " +- ",
    "..",
    "[number]",
    " < ",
    "\u0301",
    "\0",
)
SIGNS = [*'|&:\\#", \n\r\t.;0159ab{}[]é', *WORDS, ""]


def good_graph(rng):
    """A random graph with every form of cell: plain, binary, one of, weights, all of, unknown, numbers, ordered."""
    fine = [f"dish {i} @ {rng.choice('AB')}" for i in range(rng.randint(3, 8))]
    words = ["tofu", "pork", "M&M", "a|b", "x:0.5", "é", "salt, fine", 'the "best"', "has::shape", "back\\slash"]
    rng.shuffle(words)
    rows = {}
    for number, name in enumerate(fine):
        rows[name] = {
            "dish": words[number % 3],
            "tofu": rng.choice([True, False]),
            "served": rng.choice([words[3], {words[3], words[4]}, {words[3]: 0.7, words[5]: 0.3}, None]),
            "ingredient": rng.sample(words[:4], rng.randint(0, 3)),
            "price": rng.choice([None, 12.5, (-3.0, 0.1), "10..15"]),
            "mass": rng.choice([None, 0.3, (7.0, 2.5)]),
            "heat": rng.choice([None, "mild", {"mild", "hot"}]),
        }
    rows[fine[0]] |= {"served": words[3], "ingredient": words[:2]}
    types = {"price": "number, EUR", "mass": "log number", "heat": ("mild", "medium", "hot")}
    graph = LabelGraph.from_table(rows, types)
    if rng.random() < 0.5:
        graph = graph.only([*rng.sample(graph.kinds, len(graph.kinds)), *graph.numbers])
    return graph


# ---- one fault in a CSV file -----------------------------------------------------------------------------------------


def row_number(rng, lines):
    """A line of a fine label, not the header or the `#labels` row."""
    return rng.randrange(2 if lines[1].startswith("#labels") else 1, len(lines))


def in_row(change):
    """A fault that changes one row."""

    def broken(rng, text):
        lines = text.split("\n")[:-1]
        number = row_number(rng, lines)
        lines[number] = change(rng, lines[number])
        return "\n".join(lines) + "\n"

    return broken


def new_line(line):
    """A fault that is a row of its own, somewhere after the first fine label."""

    def broken(rng, text):
        lines = text.split("\n")[:-1]
        lines.insert(rng.randrange(3, len(lines) + 1), line)
        return "\n".join(lines) + "\n"

    return broken


def new_cell(*cells):
    """A fault that is a cell in a column of its own; the other cells of the column are good."""

    def broken(rng, text):
        lines = text.split("\n")[:-1]
        bad = row_number(rng, lines)
        lines[0] += ",new column"
        for number in range(1, len(lines)):
            lines[number] += "," if lines[number].startswith("#labels") else ",plain"
        lines[bad] = lines[bad].removesuffix("plain") + rng.choice(cells)
        return "\n".join(lines) + "\n"

    return broken


def new_column(name, labels, cells):
    """A fault that is a whole column."""

    def broken(rng, text):
        lines = text.split("\n")[:-1]
        if not lines[1].startswith("#labels"):
            lines.insert(1, "#labels" + "," * len(csv_cells(lines[0])[1:]))
        lines[0] += f",{name}"
        lines[1] += f",{labels}"
        for number in range(2, len(lines)):
            lines[number] += f",{cells[number % len(cells)]}"
        return "\n".join(lines) + "\n"

    return broken


def csv_cells(header):
    return next(csv.reader([header]))


def with_other_header(rng, text):
    return rng.choice(["Fine", "label", "dish", "", " fine", "FINE", "name"]) + text.removeprefix("fine")


def with_second_copy(rng, text):
    lines = text.split("\n")[:-1]
    return text + lines[row_number(rng, lines)] + "\n"


def with_mixed_line_ends(rng, text):
    lines = text.split("\n")[:-1]
    odd = rng.randrange(1, len(lines))
    return "".join(line + ("\r\n" if number >= odd else "\n") for number, line in enumerate(lines))


def with_bad_bytes(rng, text):
    data = text.encode()
    place = rng.randrange(len(data) + 1)
    while place < len(data) and data[place] & 0xC0 == 0x80:  # not inside a character
        place += 1
    return data[:place] + rng.choice([b"\xff", b"\x80", b"\xc3(", b"\xed\xa0\x80", b"\xe9", b"\xc0\xaf"]) + data[place:]


BREAK_CSV = {
    "byte-order-mark": lambda rng, text: codecs.BOM_UTF8 + text.encode(),
    "utf-16": lambda rng, text: text.encode("utf-16"),
    "not utf-8": with_bad_bytes,
    "nul": in_row(lambda rng, row: row + "\0"),
    "lone carriage return": in_row(lambda rng, row: row + "\rx"),
    "mixed line ends": with_mixed_line_ends,
    "header only": lambda rng, text: text.split("\n")[0] + "\n",
    "first column": with_other_header,
    "semicolons": lambda rng, text: text.replace(",", ";"),
    "column twice": new_column("dish", "", ["p"]),
    "column without name": new_column("", "", ["p"]),
    "reserved column": new_column("split", "", ["p"]),
    "empty column": new_column("new column", "", [""]),
    "mixed yes and no": new_column("new column", "", ["yes", "Yes"]),
    "undeclared label": new_column("new column", "p|q", ["p", "pp"]),
    "weights in labels row": new_column("new column", "p:1|q:2", ["p"]),
    "label twice in labels row": new_column("new column", "p|q|p", ["p"]),
    "all of and one of": new_column("new column", "", ["p & q", "p|q"]),
    "twins in column": new_column("new column", "", ["é", "e\u0301"]),
    "kind made twice": new_column("group,group: p", ",", ["p & q,yes"]),
    "empty line": new_line(""),
    "row of commas": lambda rng, text: text + "," * (len(csv_cells(text.split("\n")[0])) - 1) + "\n",
    "fine label twice": with_second_copy,
    "late labels row": lambda rng, text: text + "#labels" + "," * (len(csv_cells(text.split("\n")[0])) - 1) + "\n",
    "unknown hash row": in_row(lambda rng, row: "#" + row.lstrip('"')),
    "row too long": in_row(lambda rng, row: row + ",x"),
    "row too short": lambda rng, text: text + "new fine label\n",
    "white space": in_row(lambda rng, row: rng.choice([" ", "\t", "\u00a0"]) + row),
    "control character": in_row(lambda rng, row: rng.choice("\x01\x1b\x7f\x85") + row),
    "open quote": in_row(lambda rng, row: '"' + row.replace('"', "")),
    "quote inside": in_row(lambda rng, row: 'x"' + row),
    "text after quote": in_row(lambda rng, row: '"x"y' + row),
    "line break": in_row(lambda rng, row: '"a\nb"' + row[row.index(",") :]),
    "cell": new_cell("p||q", "|p", "p|", "p & q|r", "p|p", "p & & q", "& p", "p &", "p\\q", "p\\", " p", "p "),
    "weight": new_cell(
        "p:0.5", "p:1|q", "p:0|q:1", "p:-1|q:1", "p:nan|q:1", "p:1e999|q:1", "p: 1|q: 2", ":1|q:2", "p:1 & q"
    ),
    "number": new_column(
        "new [number]", "", ["1", "", "2", *["two", "1,5", "inf", "nan", "1e999", "5.", "1 2", "0x1"]]
    ),
    "log number": new_column("new [log number]", "", ["1", "0", "-1"]),
    "spread": new_column("new [number]", "", ["1", "1 +- -1", "1 +- inf"]),
    "empty range": new_column("new [number]", "", ["1", "15..10"]),
    "other unit": new_column('"new [number, g]"', "", ["1 g", "1 kg"]),
    "unit in a cell only": new_column("new [number]", "", ["1", "1 kg"]),
    "labels of numbers": new_column("new [number]", "1|2", ["1", "2"]),
    "label outside an order": new_column("new [p < q]", "", ["p", "q", "r"]),
    "all of an order": new_column("new [p < q]", "", ["p", "p & q"]),
    "labels of an order": new_column("new [p < q]", "p|q", ["p", "q"]),
    "bad order": new_column("new [p < < q]", "", ["p"]),
    "order with a label twice": new_column("new [p < q < p]", "", ["p"]),
    "number named like a kind": new_column("dish [number]", "", ["1"]),
}


def mutants(name, count):
    """Random generators for one kind of fault, always the same ones."""
    return [random.Random(f"{name} {number}") for number in range(max(1, count))]


def refused(path, data):
    """The faults of a file that must be refused."""
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
    with pytest.raises(GraphFileError) as caught:  # the file is still there to look at when this fails
        LabelGraph.read(path)
    assert caught.value.faults
    assert str(caught.value).startswith(f"{path}: ")
    assert all(fault.rule and fault.message and fault.severity == "error" for fault in caught.value.faults)
    return caught.value.faults


@pytest.mark.parametrize("name", BREAK_CSV)
def test_every_fault_of_a_csv_file_is_refused_with_its_line(tmp_path, name):
    for rng in mutants(name, FILES // 3 // len(BREAK_CSV)):
        text = format_csv(good_graph(rng))
        data = BREAK_CSV[name](rng, text)
        for fault in refused(tmp_path / "graph.csv", data):
            assert fault.line is not None, data
            assert 1 <= fault.line <= text.count("\n") + 3


# ---- one fault in a JSON file ----------------------------------------------------------------------------------------


def changed(place, *values):
    """A fault that is a value that does not belong to a place; a step of None is any index there."""

    def broken(rng, text):
        content = json.loads(text)
        target = content
        for step in place[:-1]:
            target = target[rng.randrange(len(target)) if step is None else step]
        last = rng.randrange(len(target)) if place[-1] is None else place[-1]
        target[last] = rng.choice(values)
        return json.dumps(content)

    return broken


def without(*place):
    def broken(rng, text):
        content = json.loads(text)
        target = content
        for step in place[:-1]:
            target = target[rng.randrange(len(target)) if step is None else step]
        del target[place[-1]]
        return json.dumps(content)

    return broken


NOT_A_NAME = (None, 3, True, [], {}, "", " a", "a\n", "\ud800")
NOT_A_LIST = (None, 3, "ab", {}, True)
NOT_A_PARENT = (
    True,
    -1,
    10**6,
    10**30,
    0.5,
    "a",
    [],
    [[0, 1]],
    [0, 1],
    {},
    float("nan"),
    [[0, 1], [0, 1]],
    [[0, 1], [1, 0]],
)

BREAK_JSON = {
    "cut off": lambda rng, text: text[: rng.randrange(1, len(text) - 1)],
    "text behind": lambda rng, text: text + rng.choice("x{1,"),
    "not an object": lambda rng, text: rng.choice(["null", "[]", "3", '"x"', "true", "NaN", f"[{text}]"]),
    "byte-order-mark": lambda rng, text: codecs.BOM_UTF8 + text.encode(),
    "not utf-8": with_bad_bytes,
    "format": changed(["format"], "finegraph.model", None, 1, ""),
    "version": changed(["version"], 3, 0, -1, "1", 1.0, True, None, 10**9),
    "key missing": lambda rng, text: without(rng.choice(["format", "version", "fine", "kinds"]))(rng, text),
    "key missing in kind": lambda rng, text: without("kinds", None, rng.choice(["name", "labels", "parents"]))(
        rng, text
    ),
    "unknown key": lambda rng, text: changed([rng.choice(["Fine", "kind", "comment", ""])], 1)(rng, text),
    "unknown key in kind": lambda rng, text: changed(["kinds", None, rng.choice(["label", "prior", ""])], 1)(rng, text),
    "key twice": lambda rng, text: "{" + rng.choice(['"version":1,', '"fine":[],']) + text[1:],
    "fine": changed(["fine"], [], *NOT_A_LIST),
    "fine label": changed(["fine", None], *NOT_A_NAME),
    "fine label twice": lambda rng, text: changed(["fine", 0], json.loads(text)["fine"][-1])(rng, text),
    "fine label missing": without("fine", 0),
    "kinds": changed(["kinds"], *NOT_A_LIST[:3]),
    "kind": changed(["kinds", None], None, 3, "x", [], {}),
    "kind name": changed(["kinds", None, "name"], "fine", "path", *NOT_A_NAME),
    "kind twice": lambda rng, text: changed(["kinds", 0, "name"], json.loads(text)["kinds"][-1]["name"])(rng, text),
    "labels": changed(["kinds", None, "labels"], [], ["only one"], ["p", "p"], *NOT_A_LIST),
    "label": changed(["kinds", None, "labels", None], *NOT_A_NAME),
    "parents": changed(["kinds", None, "parents"], [], [0], *NOT_A_LIST),
    "parent": changed(["kinds", None, "parents", None], *NOT_A_PARENT),
    "numbers in version 1": changed(["version"], 1),
    "ordered": changed(["kinds", None, "ordered"], None, 1, "yes", []),
    "numbers": changed(["numbers"], *NOT_A_LIST),
    "number": changed(["numbers", None], None, 3, "x", [], {}),
    "number name": changed(["numbers", None, "name"], "fine", "dish", "heat", *NOT_A_NAME),
    "values": changed(["numbers", None, "values"], [], [1.5], *NOT_A_LIST),
    "value": changed(["numbers", None, "values", None], True, "1", [], float("nan"), float("inf"), 1e200, 10**400),
    "value on a log scale": changed(["numbers", 1, "values", None], 0, -1.5),
    "spreads": changed(["numbers", None, "spreads"], [], [0.5], *NOT_A_LIST),
    "scale": changed(["numbers", None, "scale"], "square", None, 1, []),
    "unit": changed(["numbers", None, "unit"], None, 1, " g", "g\n"),
    "unknown key in number": changed(["numbers", None, "labels"], []),
    "unknown prior": changed(["kinds", None, "unknown_prior"], "even", None, 1, True),
}


@pytest.mark.parametrize("name", BREAK_JSON)
def test_every_fault_of_a_json_file_is_refused(tmp_path, name):
    for rng in mutants(name, FILES // 3 // len(BREAK_JSON)):
        refused(tmp_path / "graph.json", BREAK_JSON[name](rng, canonical_json(good_graph(rng))))


# ---- anything --------------------------------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_file_changed_at_random_is_refused_or_read_exactly(tmp_path, form):
    path, again = tmp_path / f"graph.{form}", tmp_path / f"again.{form}"
    accepted = 0
    for rng in mutants(form, FILES // 6):
        graph = good_graph(rng)
        text = format_csv(graph) if form == "csv" else canonical_json(graph) + "\n"
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(text))
            text = text[:place] + rng.choice(SIGNS) + text[place + rng.randint(0, 2) :]
        path.write_bytes(text.encode("utf-8"))
        try:
            changed_graph = LabelGraph.read(path)
        except GraphFileError as error:
            assert error.faults  # noqa: PT017
            assert form == "json" or all(fault.line for fault in error.faults), text  # noqa: PT017
            continue
        accepted += 1
        changed_graph.write(again)
        assert LabelGraph.read(again) == changed_graph, text
    assert accepted > 0
