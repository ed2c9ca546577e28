import csv
import errno
import os
import stat

import pytest

from finegraph import LabelGraph
from finegraph.errors import GraphFileError
from finegraph.graph.formats import text_file
from finegraph.graph.graph_files import check_graph_file

GRAPH = LabelGraph.from_table({"a": {"dish": "p", "hot": True}, "b": {"dish": "q", "hot": False}})
OTHER = LabelGraph(["x", "y"])


@pytest.mark.parametrize("name", ["menu.csv", "menu.json", "MENU.CSV", "menu.v2.Json"])
def test_the_ending_of_the_name_chooses_the_form(tmp_path, name):
    GRAPH.write(tmp_path / name)
    assert LabelGraph.read(str(tmp_path / name)) == GRAPH
    assert LabelGraph.read(tmp_path / name) == GRAPH
    assert (tmp_path / name).read_text().startswith("{" if name.lower().endswith("json") else "fine,dish,hot\n")
    assert (tmp_path / name).read_text().endswith("\n")


@pytest.mark.parametrize(("name", "got"), [("menu.txt", "the ending '.txt'"), ("menu", "no ending")])
def test_other_endings_are_refused(tmp_path, name, got):
    with pytest.raises(GraphFileError, match=rf"ends in \.csv or \.json, got {got}"):
        GRAPH.write(tmp_path / name)
    with pytest.raises(GraphFileError, match="rename it"):
        LabelGraph.read(tmp_path / name)
    assert [fault.rule for fault in check_graph_file(tmp_path / name)] == ["unknown-ending"]
    assert os.listdir(tmp_path) == []


def test_what_cannot_be_read_is_named(tmp_path):
    (tmp_path / "menu.csv").write_text("fine\na\n")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "folder.csv" / "graph.json").write_text("{}")
    (tmp_path / "empty.csv").write_text("")
    os.mkfifo(tmp_path / "pipe.csv")
    for name, rule, words in [
        ("meny.csv", "missing-file", "there is no such file; did you mean '.*menu.csv'"),
        ("nowhere/menu.csv", "missing-file", "the folder '.*nowhere' does not exist either"),
        ("folder.csv", "not-a-file", "got a folder; did you mean '.*graph.json'"),
        ("pipe.csv", "not-a-file", "got a device or a pipe"),
        ("empty.csv", "empty-file", "the file is empty"),
        ("a\0b.csv", "unreadable-file", "cannot be read"),
    ]:
        with pytest.raises(GraphFileError, match=words):
            LabelGraph.read(tmp_path / name)
        assert [fault.rule for fault in check_graph_file(tmp_path / name)] == [rule]


def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    (tmp_path / "menu.csv").write_text("fine\na\n")

    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(text_file.Path, "read_bytes", refuse)
    with pytest.raises(GraphFileError, match=r"menu\.csv: the file cannot be read: Permission denied"):
        LabelGraph.read(tmp_path / "menu.csv")


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path):
    with (tmp_path / "menu.csv").open("wb") as file:
        file.truncate(2**30 + 1)  # a hole: takes no space on the disk
    with pytest.raises(GraphFileError, match=r"the file has 1\.0 GiB; at most 1 GiB can be read"):
        LabelGraph.read(tmp_path / "menu.csv")


def test_checking_gives_all_errors_or_else_the_warnings(tmp_path):
    path = tmp_path / "menu.csv"
    path.write_text("fine,k\na,x||y\na,z\n")
    assert [(fault.rule, fault.line, fault.severity) for fault in check_graph_file(path)] == [
        ("empty-part", 2, "error"),
        ("duplicate-fine", 3, "error"),
    ]
    path.write_text("fine,k\na,x\nb,x\n")
    assert [(fault.rule, fault.line, fault.severity) for fault in check_graph_file(path)] == [
        ("one-label", 1, "warning"),
        ("not-told-apart", 2, "warning"),
    ]
    path.write_text("fine,k\na,x\nb,y\nc,x\n")
    assert [fault.rule for fault in check_graph_file(path)] == ["not-told-apart"]
    GRAPH.write(tmp_path / "menu.json")
    assert {fault.line for fault in check_graph_file(tmp_path / "menu.json")} == {None}


# ---- writing in one step ---------------------------------------------------------------------------------------------


class Broken(Exception):
    pass


@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), GraphFileError),
        (Broken(), Broken),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, step, error, expected):
    path = tmp_path / "menu.csv"
    GRAPH.write(path)
    before = path.read_bytes()

    def fail(*arguments, **others):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(text_file.os, step, fail)
        with pytest.raises(expected) as caught:
            OTHER.write(path)
    if expected is GraphFileError:
        assert f"cannot write {path} (9 bytes): No space left on device" == str(caught.value)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["menu.csv"]
    OTHER.write(path)
    assert LabelGraph.read(path) == OTHER


def test_the_data_is_on_the_disk_before_the_name_changes(tmp_path, monkeypatch):
    steps = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(text_file.os, name, lambda *a, name=name, real=real: (steps.append(name), real(*a))[1])
    GRAPH.write(tmp_path / "menu.csv")
    assert steps == ["fsync", "replace", "fsync"]


def test_a_failed_write_says_where_and_why(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(GraphFileError, match=r"cannot write .*folder\.csv .*: it is a folder"):
        GRAPH.write(tmp_path / "folder.csv")
    with pytest.raises(GraphFileError, match=r"cannot write .*nowhere/menu\.csv .*: No such file or directory"):
        GRAPH.write(tmp_path / "nowhere" / "menu.csv")


def test_what_csv_cannot_hold_leaves_the_old_file(tmp_path):
    path = tmp_path / "menu.csv"
    GRAPH.write(path)
    with pytest.raises(ValueError, match="write the graph to a"):
        GRAPH.with_unknown_prior("uniform").write(path)
    assert LabelGraph.read(path) == GRAPH


def test_rights_and_links_are_kept(tmp_path):
    path, link = tmp_path / "menu.csv", tmp_path / "link.csv"
    GRAPH.write(path)
    path.chmod(0o640)
    link.symlink_to(path)
    OTHER.write(link)
    assert link.is_symlink()
    assert LabelGraph.read(path) == OTHER
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_misspelt_labels_are_found_beside_errors(tmp_path):
    path = tmp_path / "menu.csv"
    path.write_text(
        "fine,dish,tofu\na,kung pao,yes\nb,kung pao,perhaps\nc,kung poa,no\nd,kung pao,no\na,mapo tofu,no\n"
    )
    found = [(fault.rule, fault.line, fault.severity) for fault in check_graph_file(path)]
    assert ("misspelt-label", 4, "warning") in found
    assert {line for _, line, severity in found if severity == "error"} == {3, 6}
    assert found == sorted(found, key=lambda each: each[1])


FORMULAS = ("=1+1", "+1", "-2", "@x", "=cmd|' /C calc'!A0", "＝1", "\\=x", "'=1")


def test_no_cell_of_a_written_file_begins_a_formula(tmp_path):
    kinds = {name: {"=kind": name, "weights": {"=a": 0.3, "-b": 0.7}, "all": ["+x", "=y"]} for name in FORMULAS}
    graph = LabelGraph.from_table(kinds)
    path = tmp_path / "graph.csv"
    graph.write(path)
    with path.open(newline="", encoding="utf-8") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert "\\=1+1" in cells
    assert not [cell for cell in cells if cell[:1] in tuple("=+-@＝＋－＠\t\r")]
    assert LabelGraph.read(path) == graph
