"""A loss of power at any moment leaves the index as it was before or after the change; an acknowledged one stays.

A kill leaves what was written in the memory of the system; a loss of power does not. So this finds what a kill cannot:
a file that gets its name before its content is on the disk, and old files that go before the new state is safe.
"""

import os
import shutil

import pytest

from finegraph.errors import IndexFolderError
from finegraph.files import durable
from finegraph.search import index_state as state_file
from finegraph.search.index_writer import IndexWriter
from search import index_drills
from search.power_loss import lose_power

KINDS = ["add", "replace", "remove", "compact"]


@pytest.fixture
def folder(tmp_path):
    index_drills.begin(tmp_path / "index")
    return tmp_path / "index"


def drill(folder, kind, tmp_path):
    """Lose the power at each moment of a change; how many folders that gives."""
    shutil.copytree(folder, tmp_path / "after")
    before = index_drills.content(folder)
    possible = [before]
    if kind == "compact":  # removes a photo first
        possible.append({path: value for path, value in before.items() if path != next(iter(before))})
    index_drills.change(tmp_path / "after", kind)
    last = index_drills.content(tmp_path / "after")

    def judge(spare, acknowledged):
        found = index_drills.content(spare)
        assert found == last or not acknowledged, "an acknowledged change was lost"
        assert found in (*possible, last), "a part of a change was made"
        index_drills.change(spare, None)
        assert index_drills.strays(spare) == []

    return lose_power(folder, lambda place: index_drills.change(place, kind), judge, tmp_path / "spare")


@pytest.mark.deep
@pytest.mark.parametrize("kind", KINDS)
def test_a_loss_of_power_at_each_moment(folder, tmp_path, kind):
    assert drill(folder, kind, tmp_path) >= {"remove": 5, "compact": 20}.get(kind, 10)


# ---- the drill itself: it must find each of these -------------------------------------------------------------------


def straight(path, data):
    path.write_bytes(data)


def over_the_old_one(path, data):
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    durable.write_all(handle, data)
    os.fsync(handle)
    os.close(handle)
    durable.sync_folder(path.parent)


def without_syncing_the_file(path, data):
    temporary = durable.temporary_in(path.parent)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    durable.write_all(handle, data)
    os.close(handle)
    os.replace(temporary, path)
    durable.sync_folder(path.parent)


def without_syncing_the_folder(path, data):
    temporary = durable.temporary_in(path.parent)
    with durable.synced_file(temporary) as handle:
        durable.write_all(handle, data)
    os.replace(temporary, path)


def removing_the_old_one_first(path, data):
    os.unlink(path)
    durable.write_over(path, data)


CARELESS = {
    straight: "an acknowledged change was lost",
    over_the_old_one: "the file is damaged",
    without_syncing_the_file: "the file is damaged",
    without_syncing_the_folder: "an acknowledged change was lost",
    removing_the_old_one_first: "expected an index, which has a file index.json",
}


@pytest.mark.parametrize(("careless", "found"), CARELESS.items())
def test_a_careless_way_to_write_the_state_is_found(folder, tmp_path, monkeypatch, careless, found):
    real = state_file.write_over
    monkeypatch.setattr(
        state_file, "write_over", lambda path, data: (careless if path.parent == folder else real)(path, data)
    )
    with pytest.raises((AssertionError, IndexFolderError), match=found):
        drill(folder, "remove", tmp_path)


def test_a_state_that_is_written_before_its_files_is_found(folder, tmp_path, monkeypatch):
    real = IndexWriter.commit

    def early(self, **changes):
        monkeypatch.setattr(durable, "sync_folder", lambda place: None)
        real(self, **changes)

    monkeypatch.setattr(IndexWriter, "commit", early)
    with pytest.raises((AssertionError, IndexFolderError), match=r"is missing|was lost"):
        drill(folder, "add", tmp_path)


def test_a_way_of_writing_that_is_not_watched_is_found(folder, tmp_path):
    with pytest.raises(AssertionError, match="something was written in a way that is not watched"):
        lose_power(folder, lambda place: (place / "more").write_text("x"), lambda *_: None, tmp_path / "spare")
