import json
import re
import xml.etree.ElementTree as ElementTree

import pytest


def unstyled(text):
    """Text without bold and dim."""
    return re.sub("\x1b\\[[0-9;]*m", "", text)


@pytest.fixture
def on_a_terminal(monkeypatch):
    """Make the output look like a terminal of a width, without colours."""

    def use(columns):
        monkeypatch.setenv("TTY_COMPATIBLE", "1")
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", str(columns))

    return use


@pytest.fixture
def doubtful_file(tmp_path):
    """A file without errors but with a warning: two labels that differ by a letter."""
    path = tmp_path / "doubtful.csv"
    rows = ["fine,dish"] + [f"f{number},kung pao chicken" for number in range(5)] + ["g,kung pao chiken", "h,mapo tofu"]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_check_of_a_good_file(finegraph, menu_file):
    outcome = finegraph("graph", "check", menu_file)
    assert outcome.code == 0
    assert outcome.err == ""
    assert outcome.out == f"{menu_file}: 4 fine labels, 5 kinds, no errors, no warnings\n"


def test_check_of_a_faulty_file(finegraph, faulty_file):
    outcome = finegraph("graph", "check", faulty_file)
    assert outcome.code == 1
    assert outcome.err == ""
    lines = outcome.out.splitlines()
    assert all(line.startswith(f"{faulty_file}:4: ") for line in lines[:-1])
    assert lines[-1] == f"{faulty_file}: {len(lines) - 1} error{'s' if len(lines) > 2 else ''}, no warnings"


def test_check_as_json(finegraph, faulty_file, menu_file):
    outcome = finegraph("graph", "check", faulty_file, "--json")
    assert (outcome.code, outcome.err) == (1, "")
    document = json.loads(outcome.out)
    assert document["file"] == str(faulty_file)
    assert document["fine"] is None
    assert document["errors"] == len(document["findings"]) > 0
    assert set(document["findings"][0]) == {"rule", "message", "line", "column", "value", "hint", "severity"}
    good = json.loads(finegraph("graph", "check", menu_file, "--json").out)
    assert (good["fine"], good["kinds"], good["errors"], good["warnings"], good["findings"]) == (4, 5, 0, 0, [])


def test_warnings_count_only_if_strict(finegraph, doubtful_file):
    outcome = finegraph("graph", "check", doubtful_file)
    assert outcome.code == 0
    assert "warning: " in outcome.out
    assert re.search(r": 7 fine labels, 1 kind, no errors, \d+ warnings?\n$", outcome.out)
    assert finegraph("graph", "check", "--strict", doubtful_file).code == 1


def test_check_in_a_wide_terminal_is_a_table(finegraph, faulty_file, on_a_terminal):
    on_a_terminal(140)
    lines = unstyled(finegraph("graph", "check", faulty_file).out).splitlines()
    heading = next(line for line in lines if "severity" in line)
    assert heading.split() == ["severity", "line", "column", "value", "message", "what", "to", "do"]


@pytest.mark.parametrize("columns", [60, 140])
def test_terminal_is_not_flooded(finegraph, tmp_path, on_a_terminal, columns):
    path = tmp_path / "many.csv"
    path.write_text("fine,dish\n" + "x,a\n" * 61, encoding="utf-8")
    assert finegraph("graph", "check", path).out.count("this fine label is already") == 60
    on_a_terminal(columns)
    text = finegraph("graph", "check", path).out
    assert len(re.findall("^ ?(?:\x1b\\[1m)?error", text, re.MULTILINE)) == 50
    assert "... and 10 more; --json lists them all\n" in text


@pytest.mark.parametrize("columns", [60, 140])
@pytest.mark.parametrize("command", ["check", "show"])
def test_nothing_is_wider_than_the_terminal(finegraph, menu_file, faulty_file, on_a_terminal, columns, command):
    on_a_terminal(columns)
    for file in (menu_file, faulty_file):
        outcome = finegraph("graph", command, file)
        assert max(len(line) for line in unstyled(outcome.out + outcome.err).splitlines()) <= columns


@pytest.mark.parametrize("columns", [60, 140])
def test_file_cannot_steer_the_terminal(finegraph, faulty_file, on_a_terminal, columns):
    assert "\x1b" not in finegraph("graph", "check", faulty_file).out
    on_a_terminal(columns)
    for command in ("check", "show"):
        outcome = finegraph("graph", command, faulty_file)
        assert "\x1b[31m" not in outcome.out + outcome.err


@pytest.mark.parametrize("command", ["check", "show"])
def test_missing_file(finegraph, menu_file, command):
    outcome = finegraph("graph", command, menu_file.with_name("menus.csv"))
    assert outcome.code == 3
    assert outcome.out == ""
    assert outcome.err.startswith("error: ")
    assert "there is no such file; did you mean" in outcome.err
    assert str(menu_file) in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("command", ["check", "show"])
def test_folder_and_foreign_file(finegraph, tmp_path, command):
    other = tmp_path / "menu.xlsx"
    other.write_bytes(b"PK")
    for path, words in ((tmp_path, "expected folders with photos"), (other, "a graph file ends in .csv or .json")):
        outcome = finegraph("graph", command, path, "--json")
        assert (outcome.code, outcome.out) == (3, "")
        assert words in outcome.err


def test_show_of_a_faulty_file_names_line_and_fault(finegraph, faulty_file):
    outcome = finegraph("graph", "show", faulty_file)
    assert outcome.code == 3
    assert outcome.out == ""
    assert f"{faulty_file}:4: " in outcome.err


def test_show(finegraph, menu_file):
    outcome = finegraph("graph", "show", menu_file)
    assert (outcome.code, outcome.err) == (0, "")
    lines = [line.split("  ") for line in outcome.out.splitlines()]
    rows = {line[0]: [cell.strip() for cell in line[1:] if cell.strip()] for line in lines}
    assert outcome.out.splitlines()[0] == f"{menu_file}: 4 fine labels, 5 kinds, 19 edges"
    assert rows["dish"] == ["one of 2", "4 one", "2 each", "1.00", "mapo tofu (2)"]  # as many labels as 80 columns hold
    assert rows["with"][:2] == ["any of 2", "2 one, 1 several, 1 unknown"]
    assert rows["with"][2:] == ["2 each", "0.92", "tofu (2)"]
    assert rows["served"][:2] == ["one of 2", "3 one, 1 several"]


def test_show_in_a_narrow_terminal(finegraph, menu_file, on_a_terminal):
    on_a_terminal(60)
    lines = unstyled(finegraph("graph", "show", menu_file, "--kind", "with").out).splitlines()
    start = lines.index("with  any of 2")
    assert [line.rstrip() for line in lines[start + 1 : start + 3]] == [
        "  fine labels  2 one, 1 several, 1 unknown",
        "  children     2 each",
    ]


def test_show_some_kinds(finegraph, menu_file):
    document = json.loads(finegraph("graph", "show", menu_file, "--kind", "with", "--kind", "dish", "--json").out)
    assert [column["name"] for column in document["summary"]["columns"]] == ["with", "dish"]
    assert document["summary"]["kinds"] == 5
    assert document["picture"] is None


def test_show_unknown_kind(finegraph, menu_file):
    outcome = finegraph("graph", "show", menu_file, "--kind", "dishes")
    assert (outcome.code, outcome.out) == (3, "")
    assert outcome.err == "error: unknown kind 'dishes'; did you mean 'dish'?\n"


def test_show_as_picture(finegraph, menu_file, tmp_path):
    target = tmp_path / "menu.svg"
    outcome = finegraph("graph", "show", menu_file, "--svg", target)
    assert outcome.code == 0
    assert outcome.out.endswith(f"picture: {target}\n")
    assert ElementTree.parse(target).getroot().find("{http://www.w3.org/2000/svg}title").text == "menu.csv"


def test_picture_never_replaces_the_graph(finegraph, menu_file):
    before = menu_file.read_bytes()
    outcome = finegraph("graph", "show", menu_file, "--svg", menu_file)
    assert outcome.code == 3
    assert "the picture would replace the graph file itself" in outcome.err
    assert menu_file.read_bytes() == before


def test_picture_in_a_folder_that_is_not_there(finegraph, menu_file, tmp_path):
    outcome = finegraph("graph", "show", menu_file, "--svg", tmp_path / "no" / "menu.svg")
    assert (outcome.code, outcome.out) == (3, "")
    assert "cannot write" in outcome.err
    assert "No such file or directory" in outcome.err


def test_show_keeps_to_80_columns(finegraph, tmp_path, on_a_terminal):
    path = tmp_path / "long.csv"
    names = [f"a dish with a rather long name {letter}" for letter in "abc"]
    rows = [f"fine {number},{names[number % 3]},{'yes' if number % 2 else 'no'}" for number in range(9)]
    path.write_text("fine,dish,spicy\n" + "\n".join(rows) + "\n", encoding="utf-8")
    outcome = finegraph("graph", "show", path)
    kinds = outcome.out.splitlines()[1:]
    assert kinds[1].endswith("a dish with a rather long name a (3)")
    assert kinds[2].endswith("no (5), yes (4)")
    on_a_terminal(80)
    assert max(len(line.rstrip()) for line in unstyled(finegraph("graph", "show", path).out).splitlines()[1:]) <= 80
