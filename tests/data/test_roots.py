"""Photos stay inside their root: links out of it, exchanged files, pipes and folders are refused."""

import os
from pathlib import Path

import pytest

import tiny_classifier as tiny
from finegraph.data.roots import PhotoRoot, paths_outside, root_of
from finegraph.errors import PhotoFileError


@pytest.fixture
def root(tmp_path):
    """A folder of photos beside one that is nobody's business; a third has the same beginning of its name."""
    for place in ("photos/a", "other", "photos-2"):
        (tmp_path / place).mkdir(parents=True)
        tiny.picture().save(tmp_path / place / "1.png")
    return tmp_path / "photos"


def linked(path, target):
    path.symlink_to(target)
    return path


def test_files_and_links_inside_are_opened(root, tmp_path):
    inside = PhotoRoot(root)
    paths = [root / "a" / "1.png", linked(root / "2.png", "a/1.png"), linked(root / "3.png", root / "2.png")]
    paths.append(linked(root / "b", "a") / "1.png")
    for path in paths:
        assert inside.holds(path)
        with inside.open(path) as file:
            assert file.read() == (root / "a" / "1.png").read_bytes()
    by_link = linked(tmp_path / "link", root)  # a root may be named by a link
    with PhotoRoot(by_link).open(by_link / "2.png") as file:
        assert file.read(4) == b"\x89PNG"


def test_links_out_of_it_are_refused(root, tmp_path):
    inside = PhotoRoot(root)
    outside = tmp_path / "other" / "1.png"
    paths = [
        linked(root / "2.png", outside),
        linked(root / "3.png", "../other/1.png"),
        linked(root / "4.png", root / "2.png"),
        linked(root / "b", outside.parent) / "1.png",
        linked(root / "5.png", tmp_path / "photos-2" / "1.png"),
        root / "a" / ".." / ".." / "other" / "1.png",
        linked(root / "6.png", "/proc/self/environ"),
    ]
    for path in paths:
        assert not inside.holds(path), path
        with pytest.raises(PhotoFileError, match="leads out of the folder of its photos"):
            inside.open(path)
    assert paths_outside([*paths, root / "a" / "1.png"], root) == frozenset(paths) - {paths[5]}


def test_what_is_exchanged_while_it_is_opened_is_refused(root, tmp_path, monkeypatch):
    """The place is asked of the open file: what the path leads to before and afterwards does not count."""
    path, opened = root / "a" / "1.png", os.open

    def exchange(name, flags):
        path.unlink()
        path.symlink_to(tmp_path / "other" / "1.png")
        descriptor = opened(name, flags)
        path.unlink()
        tiny.picture().save(path)
        return descriptor

    inside = PhotoRoot(root)
    assert inside.holds(path)
    monkeypatch.setattr(os, "open", exchange)
    with pytest.raises(PhotoFileError, match="leads out"):
        inside.open(path)
    assert inside.holds(path)


def test_systems_that_do_not_tell_the_place_of_an_open_file_compare_files(root, tmp_path, monkeypatch):
    real = os.path.islink
    monkeypatch.setattr(os.path, "islink", lambda path: not str(path).startswith("/proc/") and real(path))
    inside = PhotoRoot(root)
    inside.open(root / "a" / "1.png").close()
    with pytest.raises(PhotoFileError, match="leads out"):
        inside.open(linked(root / "2.png", tmp_path / "other" / "1.png"))
    monkeypatch.setattr(os.path, "realpath", lambda path: str(root / "a" / "2.png"))
    tiny.picture(1).save(root / "a" / "2.png")
    with pytest.raises(PhotoFileError, match="the file was exchanged while it was opened"):
        inside.open(root / "a" / "1.png")


def test_pipes_and_folders_are_no_files_and_nothing_waits_for_them(root):
    os.mkfifo(root / "pipe.png")
    for name in ("pipe.png", "a"):
        with pytest.raises(PhotoFileError, match=r"expected a file, got a (folder|named pipe)"):
            PhotoRoot(root).open(root / name)


def test_the_root_of_a_photo_is_the_deepest_that_names_it(tmp_path):
    roots = [tmp_path, tmp_path / "a", tmp_path / "a b"]
    assert root_of(tmp_path / "a" / "c" / "1.png", roots) == str(tmp_path / "a")
    assert root_of(tmp_path / "a b" / "1.png", roots) == str(tmp_path / "a b")
    assert root_of("/elsewhere/b/1.png", roots) == "/elsewhere/b"
    assert root_of(Path("1.png"), ["."]) == os.getcwd()
