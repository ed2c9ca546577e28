"""Replacing files and removing what is left of processes that died."""

import os
import stat
import time

import pytest

from finegraph.files.csv_table import csv_text, defused
from finegraph.files.durable import is_temporary, remove_stale, temporary_in, write_new, write_over


def test_a_link_stays_a_link_and_rights_stay(tmp_path):
    target, link = tmp_path / "kept" / "a.txt", tmp_path / "a.txt"
    target.parent.mkdir()
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_over(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert os.listdir(target.parent) == ["a.txt"]


def test_a_folder_is_not_replaced_by_a_file(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        write_over(tmp_path / "a", b"")
    assert os.listdir(tmp_path) == ["a"]


def test_a_file_that_is_there_is_not_written_anew(tmp_path):
    write_new(tmp_path / "a", b"first")
    with pytest.raises(FileExistsError):
        write_new(tmp_path / "a", b"second")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"first"}


def test_young_temporary_files_stay_where_others_write_too(tmp_path):
    old, young, other = temporary_in(tmp_path), temporary_in(tmp_path), tmp_path / ".other.tmp"
    for path in (old, young, other):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 100,) * 2)
    remove_stale(tmp_path, min_age=50)
    assert sorted(tmp_path.iterdir()) == sorted([young, other])
    remove_stale(tmp_path)
    assert list(tmp_path.iterdir()) == [other]
    assert is_temporary(old.name)
    assert not is_temporary(other.name)


def test_tables_are_safe_to_open():
    rows = [["path", "label"], [defused("=cmd()"), defused("a,b")], ["\udcff", 'say "hi"']]
    assert csv_text(rows) == 'path,label\n\'=cmd(),"a,b"\n\\udcff,"say ""hi"""\n'
