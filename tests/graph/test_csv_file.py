import codecs

import numpy as np
import pytest
from graph_strategies import graphs
from hypothesis import given

from finegraph import Kind, LabelGraph
from finegraph.errors import GraphError, GraphFileError
from finegraph.graph.formats.csv_rows import MAX_COLUMNS
from finegraph.graph.formats.csv_writer import format_csv
from finegraph.graph.graph_files import graph_from_csv

MENU = """\
fine,dish,restaurant,ingredient,served,spicy
mapo @ A,mapo tofu,A,tofu & pork,plate|bowl,yes
mapo @ B,mapo tofu,B,tofu,bowl,
kung pao @ B,kung pao,,&,plate:3|bowl:1,no
"""


def read(text):
    return graph_from_csv(text, "menu.csv")[0]


def faults(text):
    """The faults of a text as (rule, line, column)."""
    with pytest.raises(GraphFileError) as caught:
        graph_from_csv(text, "menu.csv")
    return [(fault.rule, fault.line, fault.column) for fault in caught.value.faults]


def message(text):
    with pytest.raises(GraphFileError) as caught:
        graph_from_csv(text, "menu.csv")
    return str(caught.value)


# ---- what is read ----------------------------------------------------------------------------------------------------


def test_every_form_of_cell():
    graph, lines = graph_from_csv(MENU, "menu.csv")
    assert graph == LabelGraph.from_table(
        {
            "mapo @ A": {
                "dish": "mapo tofu",
                "restaurant": "A",
                "ingredient": ["tofu", "pork"],
                "served": {"plate": 1, "bowl": 1},
                "spicy": True,
            },
            "mapo @ B": {"dish": "mapo tofu", "restaurant": "B", "ingredient": ["tofu"], "served": "bowl"},
            "kung pao @ B": {
                "dish": "kung pao",
                "ingredient": [],
                "served": {"plate": 0.75, "bowl": 0.25},
                "spicy": False,
            },
        }
    )
    assert graph.kinds == ("dish", "restaurant", "ingredient: tofu", "ingredient: pork", "served", "spicy")
    assert graph.labels("spicy") == ("no", "yes")
    assert lines == [2, 3, 4]


@pytest.mark.parametrize("change", [str, lambda text: text.replace("\n", "\r\n"), lambda text: text[:-1]])
def test_lf_crlf_and_a_missing_last_line_end_are_all_legal(change):
    assert read(change(MENU)) == read(MENU)


def test_quotes_hold_commas_and_quotes():
    graph = read('"fine","a,b"\n"x, y","say ""hi"""\nz,"plain"\n')
    assert graph.fine == ("x, y", "z")
    assert graph.labels("a,b") == ('say "hi"', "plain")


def test_the_labels_row_orders_and_adds_labels():
    graph = read("fine,size,colour\n#labels,s|m|l,\na,l,red\nb,s,blue\n")
    assert graph.labels("size") == ("s", "m", "l")
    assert graph.labels("colour") == ("red", "blue")
    assert graph.fine == ("a", "b")


def test_the_labels_row_declares_a_kind_of_which_nothing_is_known():
    assert read("fine,size\n#labels,s|m\na,\n").parents("size").tolist() == [-1]


def test_the_labels_row_makes_yes_and_no_ordinary_labels():
    assert read("fine,k\n#labels,yes\na,yes\n").labels("k") == ("yes",)
    assert read("fine,k\n#labels,no|yes|maybe\na,yes\n").labels("k") == ("no", "yes", "maybe")
    assert read("fine,k\na,yes\n").labels("k") == ("no", "yes")


def test_a_graph_without_kinds():
    assert read("fine\na\nb\n") == LabelGraph(["a", "b"])


def test_a_fine_label_may_begin_with_a_hash_if_escaped():
    assert read("fine\n\\#labels\n\\#1\n").fine == ("#labels", "#1")


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected", "words"),
    [
        ("\n", [("empty-line", 1, None)], "the line is empty"),
        ("fine,dish\n", [("no-fine", 1, None)], "there is no fine label; add a row"),
        ("Fine,dish\na,b\n", [("missing-fine", 1, None)], "value 'Fine': the first column must be called 'fine'"),
        ("label,dish\na,b\n", [("missing-fine", 1, None)], "rename this column to 'fine'"),
        ("dish,restaurant\na,b\n", [("missing-fine", 1, None)], "begin the file with a header: 'fine,<kind>,...'"),
        ("dish,fine\na,b\n", [("missing-fine", 1, None)], "is number 2; it must be the first"),
        ("fine;dish\na;b\n", [("missing-fine", 1, None)], "separate the cells by commas"),
        ("fine,dish,dish\na,b,c\n", [("duplicate-kind", 1, "dish")], "columns 2 and 3 have the same name"),
        ("fine,dish,\na,b,\n", [("empty-header", 1, None)], "column 3 has no name"),
        ("fine,split\na,b\n", [("reserved-kind", 1, "split")], "this name is taken"),
        ("fine, dish\na,b\n", [("bad-name", 1, " dish")], "must not begin or end with white space"),
        ("fine,a\\b\na,b\n", [("bad-escape", 1, "a\\b")], "is not an escape"),
        ("fine,é,e\u0301\na,b,c\n", [("unicode-twins", 1, "e\u0301")], "another Unicode form"),
        (
            "fine,p [number, EUR],q [log number,g]\na,1,x\nb,2\n",
            [("unquoted-type", 1, None), ("unquoted-type", 1, None), ("no-number", 2, "q"), ("short-row", 3, None)],
            r'no quotes; write "p \[number, EUR\]", with the quotes',
        ),
        ("fine,k\na,b\n\nc,d\n", [("empty-line", 3, None)], "the line is empty; remove it"),
        ("fine,k\na,b,c\n", [("long-row", 2, None)], "the row has 3 cells, the header has 2; put double quotes"),
        ("fine,k\na\nb,x\n", [("short-row", 2, None)], "an unknown cell is left empty"),
        ("fine,k\na,b\n,c\n", [("empty-fine", 3, "fine")], "the fine label is missing"),
        ("fine,k\na,b\nc,b\na,c\n", [("duplicate-fine", 4, "fine")], "this fine label is already in line 2"),
        ("fine,k\né,b\ne\u0301,c\n", [("unicode-twins", 3, "fine")], "reads the same as 'é' in line 2"),
        ("fine,k\n a,b\n", [("bad-name", 2, "fine")], "must not begin or end with white space"),
        ("fine,k\na\x07b,b\n", [("bad-name", 2, "fine")], r"control character U\+0007"),
        ("fine,k\na,\nb,\n", [("empty-kind", 1, "k")], "unknown for every fine label; leave the column out"),
        ("fine,k\na,&\nb,&\n", [("empty-kind", 2, "k")], "no cell names a label; list the labels of 'k'"),
        ("fine,k\na,x||y\nb,x\nc,x||y\n", [("empty-part", 2, "k"), ("empty-part", 4, "k")], "a label is missing"),
        ("fine,k\na,é\nb,e\u0301\n", [("unicode-twins", 3, "k")], "reads the same as the label 'é'"),
        ("fine,k\na,p & q\nb,p|q\n", [("mixed-column", 3, "k")], r"a column whose line 2 has all of several \(&\)"),
        ("fine,k\na,yes\nb,no\nc,Yes\n", [("mixed-yes-no", 4, "k")], "did you mean 'yes'?"),
        ("fine,k\na,yes\nb,0\n", [("mixed-yes-no", 3, "k")], "did you mean 'no'?"),
        (
            "fine,k\na,no\nb,pork\nc,beef\n",
            [("mixed-yes-no", 3, "k")],
            "holds no but also 'pork', 'beef'; write exactly",
        ),
        ("fine,k\n#labels,pork|beef\na,porc\n", [("undeclared-label", 3, "k")], "did you mean 'pork'?"),
        ("fine,k\n#labels,pork|beef\na,zzz\n", [("undeclared-label", 3, "k")], r"add it there \(line 2\)"),
        ("fine,k\n#labels,pork:1|beef:2\na,pork\n", [("bad-labels", 2, "k")], "lists names, without weights"),
        ("fine,k\n#labels,a||b\na,a\n", [("empty-part", 2, "k")], "a label is missing"),
        ("fine,k\n#labels,é|e\u0301\na,é\n", [("unicode-twins", 2, "k")], "another Unicode form"),
        ("fine,k\na,b\n#labels,b\n", [("bad-hash", 3, "fine")], "right after the header, once"),
        ("fine,k\n#label,b\na,b\n", [("bad-hash", 2, "fine")], "did you mean '#labels'?"),
        ("fine,k\n#1,b\na,b\n", [("bad-hash", 2, "fine")], r"write a fine label of that name as \\#1"),
        ("fine,g,g: p\na,p & q,yes\n", [("duplicate-kind", 1, "g: p")], "two columns make this kind"),
        ('fine,k\na,x"y\n', [("bad-quote", 2, None)], "there is a quote inside a cell"),
        ('fine,k\na,"x"y\n', [("bad-quote", 2, None)], "text follows the closing quote"),
        ('fine,k\na,"x\nb,y\n', [("bad-quote", 2, None)], "opened and not closed"),
        (
            'fine,k\na,"x\ny"\nb,p||\n',
            [("line-break", 2, None), ("empty-part", 4, "k")],
            "may not contain a line break",
        ),
        ('fine,"k\nl"\na,b\n', [("line-break", 1, None)], "may not contain a line break"),
        ("fine,k\ra,b\r", [("line-end", 1, None)], "a carriage return without a line feed"),
        ("fine,k\r\na,b\r\nc,d\ne,f\r\n", [("line-end", 3, None)], "ends with LF, the lines before with CR LF"),
        ("fine,k\na,b\nc,d\r\n", [("line-end", 3, None)], "ends with CR LF, the lines before with LF"),
    ],
)
def test_a_fault_is_named_with_its_place(text, expected, words):
    assert faults(text) == expected
    with pytest.raises(GraphFileError, match=words):
        graph_from_csv(text, "menu.csv")


def test_all_faults_come_in_one_error_in_the_order_of_the_file():
    text = "fine,dish,dish,,tofu\na,x||y,,,yes\na,p,,,TRUE\nb,p\n,q,,,no\n"
    assert [line for _, line, _ in faults(text)] == [1, 1, 2, 3, 3, 4, 5]
    first, *others = message(text).split("\n")
    assert first == "menu.csv: 7 faults"
    assert others[2] == (
        "menu.csv:2: column 'dish': value 'x||y': a label is missing before or after a separator; "
        "remove the spare separator"
    )


def test_a_long_list_of_faults_is_cut_in_the_message_only():
    text = "fine,k\n" + "".join(f"f{i},a||{i}\n" for i in range(200))
    assert len(faults(text)) == 200
    assert message(text).count("\n") == 51
    assert message(text).endswith("... and 150 more")


def test_too_many_faults_stop_the_reading():
    text = "fine,k\n" + "a,b\n" * 20_000
    assert len(faults(text)) == 10_000
    assert message(text).startswith("menu.csv: more than 10000 faults")


def test_a_row_that_was_left_out_does_not_make_its_kind_look_empty():
    assert faults("fine,k,l\na,b,\nc,d,e,f\n") == [("long-row", 3, None)]


def test_a_million_columns_are_refused_before_they_are_split():
    text = "fine" + ",k" * 1_000_000 + "\n"
    assert faults(text) == [("many-columns", 1, None)]
    assert "1000001 columns; at most 100000 can be read" in message(text)
    assert MAX_COLUMNS == 100_000
    quoted = 'fine,k\n"a"' + ",x" * 200_000 + "\nb,y\n"
    assert faults(quoted) == [("long-row", 2, None)]
    assert "the row has 100001 cells" in message(quoted)  # splitting stopped there


@pytest.mark.deep
def test_a_cell_of_a_megabyte_is_refused_but_a_long_list_of_labels_is_not():
    assert faults("fine,k\na," + "x" * 1_000_001 + "\n") == [("long-cell", 2, "k")]
    labels = "|".join(f"label number {i}" for i in range(60_000))
    assert len(read(f"fine,k\n#labels,{labels}\na,label number 7\n").labels("k")) == 60_000


def test_many_undeclared_labels_among_many_labels_are_quick():
    """Comparing each with all of them would take minutes."""
    labels = "|".join(f"label number {i}" for i in range(20_000))
    text = f"fine,k\n#labels,{labels}\n" + "".join(f"f{i},labl {i}\n" for i in range(2_000))
    found = message(text)
    assert "'labl 1' is not in the #labels row" in found


def test_bytes_that_are_not_text_are_refused(tmp_path):
    path = tmp_path / "menu.csv"
    for data, rule, line, words in [
        (codecs.BOM_UTF8 + MENU.encode(), "byte-order-mark", 1, "save it as plain 'UTF-8'"),
        (MENU.encode("utf-16"), "encoding", 1, "UTF-16"),
        ("fine,k\na,b\nü,c\n".encode("latin-1"), "encoding", 3, r"byte 11 \(0xFC\) is not UTF-8"),
        (b"fine,k\na,\0\n", "nul-byte", 2, "NUL byte at byte 9"),
        (b"fine,k\na,\xed\xa0\x80\n", "encoding", 2, r"byte 9 \(0xED\)"),
    ]:
        path.write_bytes(data)
        with pytest.raises(GraphFileError, match=words) as caught:
            LabelGraph.read(path)
        assert [(fault.rule, fault.line) for fault in caught.value.faults] == [(rule, line)]


def test_a_byte_order_mark_does_not_hide_the_other_faults(tmp_path):
    path = tmp_path / "menu.csv"
    path.write_bytes(codecs.BOM_UTF8 + b"fine,k\na,b||\n")
    with pytest.raises(GraphFileError) as caught:
        LabelGraph.read(path)
    assert [fault.rule for fault in caught.value.faults] == ["byte-order-mark", "empty-part"]


# ---- what is written -------------------------------------------------------------------------------------------------


def test_a_written_graph_looks_as_one_would_write_it():
    assert format_csv(read(MENU)) == MENU.replace("plate:3|bowl:1", "plate:0.75|bowl:0.25")


@pytest.mark.deep
@given(graphs())
def test_reading_what_was_written_gives_an_equal_graph(graph):
    assert read(format_csv(graph)) == graph


def graph_of(*kinds, fine=3):
    return LabelGraph([f"f{i}" for i in range(fine)], kinds)


@pytest.mark.parametrize(
    ("labels", "parents", "row"),
    [
        (("a", "b"), [0, 1, 0], None),
        (("b", "a"), [1, 0, 0], "b|a"),
        (("a", "b", "c"), [0, 1, 0], "a|b|c"),
        (("no", "yes"), [1, 1, -1], None),
        (("no", "yes"), [-1, -1, -1], "no|yes"),
        (("yes", "no"), [0, 1, 0], "yes|no"),
        (("yes",), [0, 0, 0], "yes"),
        (("no", "maybe"), [0, 1, 1], "no|maybe"),
    ],
)
def test_the_labels_row_is_written_only_where_it_is_needed(labels, parents, row):
    graph = graph_of(Kind.from_parents("k", labels, parents))
    lines = format_csv(graph).split("\n")
    assert (lines[1] == f"#labels,{row}") == (row is not None)
    assert (lines[1].startswith("#labels")) == (row is not None)
    assert read(format_csv(graph)) == graph


def binary(name, parents):
    return Kind.from_parents(name, ("no", "yes"), parents)


@pytest.mark.parametrize(
    ("kinds", "header"),
    [
        ([binary("g: a", [1, 0, 1]), binary("g: b", [1, 0, 0])], "fine,g"),
        ([binary("g: a", [1, 0, -1]), binary("g: b", [1, 0, -1])], "fine,g"),
        ([binary("g: a", [1, 0, -1]), binary("g: b", [1, 0, 0])], "fine,g: a,g: b"),  # unknown in part
        ([binary("g: a", [1, 0, 0]), binary("g: b", [0, 1, 1])], "fine,g: a,g: b"),  # never two at once
        ([binary("g: a", [1, 1, 0])], "fine,g: a"),
        ([binary("g: a", [1, 1, 0]), binary("h: b", [1, 0, 0])], "fine,g: a,h: b"),
        ([binary("g: a", [1, 1, 0]), binary("g: b", [1, 0, 0]), binary("g", [0, 1, 1])], "fine,g: a,g: b,g"),
        ([binary("label: a", [1, 0, 1]), binary("label: b", [1, 0, 0])], "fine,label: a,label: b"),  # reserved
    ],
)
def test_binary_kinds_become_a_group_where_that_reads_back(kinds, header):
    graph = graph_of(*kinds)
    assert format_csv(graph).split("\n")[0] == header
    assert read(format_csv(graph)) == graph


def test_of_two_runs_of_one_group_the_second_stays_apart():
    pair = [binary("g: a", [1, 0, 1]), binary("g: b", [1, 0, 0])]
    graph = graph_of(*pair, binary("z", [0, 1, 1]), binary("g: c", [1, 1, 0]), binary("g: d", [1, 0, 0]))
    assert format_csv(graph).split("\n")[0] == "fine,g,z,g: c,g: d"
    assert read(format_csv(graph)) == graph


def test_csv_refuses_what_it_cannot_hold():
    graph = graph_of(Kind.from_parents("k", ("a", "b"), [0, 1, -1])).with_unknown_prior("uniform")
    with pytest.raises(GraphError, match=r"'k' has unknown_prior='uniform'.*write the graph to a \.json file"):
        format_csv(graph)
    labels = [f"a rather long name of label {i}" for i in range(40_000)]
    with pytest.raises(GraphError, match=r"'k': a cell would have \d+ characters.*\.json"):
        format_csv(LabelGraph(["f"], [Kind.from_matrix("k", labels, np.ones((1, 40_000)))]))
