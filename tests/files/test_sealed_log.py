"""A log that only grows: several readers and writers, full disks, damage."""

import errno
import os
import random

import pytest
from sealed_log_drill import OWNER, add

from finegraph.files.sealed_log import SealedLog


def _log(folder):
    return SealedLog(folder, "lessons", OWNER)


def _ids(folder):
    log = _log(folder)
    log.read()
    return [entry["id"] for entry in log.entries]


def test_what_one_writes_the_other_reads(tmp_path):
    one, other = _log(tmp_path), _log(tmp_path)
    assert other.read() == 0
    add(one, "first")
    assert other.read() == 1
    assert other.read() == 0
    add(other, "second")
    assert one.read() == 1
    assert [entry["id"] for entry in one.entries] == ["first", "second"]
    assert [entry["number"] for entry in one.entries] == [1, 2]


def test_a_log_of_something_else_is_refused(tmp_path):
    add(_log(tmp_path), "first")
    with pytest.raises(ValueError, match="belongs to something else"):
        SealedLog(tmp_path, "lessons", "another model").read()


def test_its_files_make_the_same_log_elsewhere(tmp_path):
    log = _log(tmp_path)
    assert log.files() == {}
    for name in "abc":
        add(log, name)
    copy = tmp_path / "copy"
    copy.mkdir()
    for name, data in log.files().items():
        assert data == (tmp_path / name).read_bytes()
        (copy / name).write_bytes(data)
    assert _ids(copy) == ["a", "b", "c"]


def test_a_whole_entry_behind_the_end_is_taken_over_and_a_torn_one_cut_off(tmp_path):
    add(_log(tmp_path), "first")
    end = (tmp_path / "lessons.json").read_bytes()
    add(_log(tmp_path), "second")
    (tmp_path / "lessons.json").write_bytes(end)  # killed between the two files
    with open(tmp_path / "lessons.jsonl", "ab") as file:
        file.write(b'{"sha256": "0123')
    assert _ids(tmp_path) == ["first"]
    add(_log(tmp_path), "second")
    assert _ids(tmp_path) == ["first", "second"]
    add(_log(tmp_path), "third")
    assert _ids(tmp_path) == ["first", "second", "third"]


class _FailsAt:
    """Operations on files, of which one fails; a write does half of its work first."""

    def __init__(self, patch, number, code):
        self.left, self.code = number, code
        for name in ("write", "fsync", "replace"):
            patch.setattr(os, name, self._of(name, getattr(os, name)))

    def _of(self, name, real):
        def call(*arguments):
            self.left -= 1
            if self.left == 0:
                if name == "write":
                    real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                raise OSError(self.code, os.strerror(self.code))
            return real(*arguments)

        return call


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_disk_at_each_operation_leaves_the_log_as_it_was(tmp_path, monkeypatch, code):
    log = _log(tmp_path)
    add(log, "first")
    for number in range(1, 5):  # the line, its sync, the end, its sync
        with monkeypatch.context() as patch:
            _FailsAt(patch, number, code)
            with pytest.raises(OSError, match=os.strerror(code)):
                add(log, "second")
        assert _ids(tmp_path) == [entry["id"] for entry in log.entries] == ["first"]
    for number in (5, 6):  # the end gets its name, and the name is synced: the entry is there by then
        with monkeypatch.context() as patch:
            _FailsAt(patch, number, code)
            if number == 5:
                with pytest.raises(OSError, match=os.strerror(code)):
                    add(log, "second")
                assert _ids(tmp_path) == ["first"]
            else:
                add(log, "second")
    add(log, "last")
    assert _ids(tmp_path) == [entry["id"] for entry in log.entries] == ["first", "second", "last"]


@pytest.mark.deep
def test_each_flipped_bit_and_each_cut_is_noticed(tmp_path):
    log = _log(tmp_path)
    for name in "ab":
        with log.writing():
            log.append({"id": name})
    randomly = random.Random(0)
    for name in ("lessons.jsonl", "lessons.json"):
        path = tmp_path / name
        whole = path.read_bytes()
        for _ in range(300):
            place = randomly.randrange(len(whole))
            path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << randomly.randrange(8))]) + whole[place + 1 :])
            with pytest.raises(ValueError, match="lessons"):
                _ids(tmp_path)
            with pytest.raises(ValueError, match="lessons"):
                add(_log(tmp_path), "c")
        for size in range(len(whole)):
            path.write_bytes(whole[:size])
            with pytest.raises(ValueError, match="lessons"):
                _ids(tmp_path)
        path.write_bytes(whole)
    os.unlink(tmp_path / "lessons.json")
    with pytest.raises(ValueError, match="gone"):
        log.read()
    assert _ids(tmp_path) == []
