"""A kill or a full disk at any moment leaves the index as it was before or after the change, and nothing half done."""

import errno
import shutil

import pytest

from finegraph.errors import IndexFolderError
from finegraph.search.index_writer import IndexWriter
from search import index_drills
from training import checkpoint_drills as drills

KINDS = ["add", "replace", "remove", "compact"]


@pytest.fixture(autouse=True)
def _all_operations(monkeypatch):
    monkeypatch.setattr(drills, "OPERATIONS", index_drills.OPERATIONS)


@pytest.fixture
def folder(tmp_path):
    index_drills.begin(tmp_path / "index")
    return tmp_path / "index"


def states(folder, kind, spare):
    """The content before a change, and after each step of it."""
    before = index_drills.content(folder)
    shutil.copytree(folder, spare)
    found = [before]
    if kind == "compact":  # removes a photo first
        found.append({path: value for path, value in before.items() if path != next(iter(before))})
    index_drills.change(spare, kind)
    return [*found, index_drills.content(spare)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_kill_at_each_step(folder, tmp_path, kind):
    possible = states(folder, kind, tmp_path / "spare")
    assert possible[0] != possible[-1]
    saved = tmp_path / "saved"
    shutil.copytree(folder, saved)
    points = 0
    while index_drills.change_and_die(folder, kind, points + 1):
        points += 1
        assert index_drills.content(folder) in possible, f"step {points}"
        index_drills.change(folder, None)  # the next writer cleans up
        assert index_drills.strays(folder) == []
        assert index_drills.content(folder) in possible
        shutil.rmtree(folder)
        shutil.copytree(saved, folder)
        assert points < 200
    assert points >= {"remove": 6, "compact": 12}.get(kind, 10)
    assert index_drills.content(folder) == possible[-1]


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("kind", KINDS)
def test_a_disk_that_is_full_from_some_step_on(folder, tmp_path, kind, error):
    possible = states(folder, kind, tmp_path / "spare")
    saved = tmp_path / "saved"
    shutil.copytree(folder, saved)
    for first in range(1, 60):
        said = None
        try:
            with drills.no_space_at(first, error):
                index_drills.change(folder, kind)
        except IndexFolderError as failure:
            said = str(failure)
        assert said is None or str(folder) in said
        found = index_drills.content(folder)
        assert found in possible
        index_drills.change(folder, None)
        assert index_drills.strays(folder) == []
        if said is None and first > 1 and found == possible[-1]:
            return
        shutil.rmtree(folder)
        shutil.copytree(saved, folder)
    raise AssertionError("a change has no end")


def test_a_full_disk_is_named_and_leaves_the_index_usable(folder):
    before = index_drills.content(folder)
    with (
        IndexWriter(folder) as writer,
        drills.no_space_at(2),
        pytest.raises(IndexFolderError, match=r"index: the index cannot be written: No space left on device; it is as"),
    ):
        writer.add(index_drills.columns(3, seed=5))
    assert index_drills.content(folder) == before


def test_making_an_index_that_was_killed_before_there_was_one(tmp_path):
    for first in range(1, 12):
        folder = tmp_path / str(first)
        with drills.no_space_at(first), pytest.raises(IndexFolderError):
            index_drills.begin(folder)
        if (folder / "index.json").exists():
            with pytest.raises(IndexFolderError, match="there is an index already"):
                index_drills.begin(folder)
            with IndexWriter(folder) as writer:
                assert not writer.state.complete
        else:
            index_drills.begin(folder)
        assert index_drills.strays(folder) == []


def test_kills_at_random_moments(tmp_path):
    assert index_drills.kill_drill(tmp_path / "index", kills=6, seed=2) > 3


@pytest.mark.slow
def test_many_kills_at_random_moments(tmp_path):
    assert index_drills.kill_drill(tmp_path / "index", kills=200, seed=1) > 200
