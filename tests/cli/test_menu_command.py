"""`finegraph data menu`: what is written, that it goes on after an interruption, and what it refuses."""

import json

import pytest
from PIL import Image

from finegraph.cli import data as data_commands
from finegraph.data.measured_values import measured_values
from finegraph.data.menu import Menu
from finegraph.data.menu import drawn_menu as menu_module
from finegraph.data.menu import photo_writer as menu_files
from finegraph.data.menu.sizes import SIZES, Size
from finegraph.data.sources import read_samples
from finegraph.errors import DataError
from finegraph.files.folder_lock import FolderLock
from finegraph.graph import LabelGraph
from finegraph.workflows.menu import write_menu

PANTRY = SIZES["small"].pantry


@pytest.fixture
def tiny(monkeypatch):
    """A size with few photos, beside the others."""
    size = Size(dishes=16, shared={2: 2}, pantry=PANTRY, train=50, val=6, test=18, wild=5, offset=30)
    monkeypatch.setitem(SIZES, "tiny", size)
    return "tiny"


def state(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_menu_is_written(finegraph, tiny, tmp_path):
    out = tmp_path / "menu"
    outcome = finegraph("data", "menu", out, "--size", tiny, "--workers", 1)
    assert outcome.code == 0
    assert outcome.out.splitlines() == [
        f"{out}: 18 fine labels of 6 restaurants, 16 dishes, 16 ingredients",
        "73 photos (train 44, val 6, test 18, wild 5); 73 drawn now",
        f"next: finegraph train {out}/images.csv --graph {out}/graph.csv",
    ]
    samples = read_samples(out / "images.csv")
    menu = Menu(tiny)
    assert {(sample.path.relative_to(out).as_posix(), sample.label, sample.split) for sample in samples} == {
        (photo.path, photo.label, photo.split) for photo in menu.photos
    }
    assert LabelGraph.read(out / "graph.csv") == menu.graph()
    with Image.open(out / menu.photos[0].path) as picture:
        assert (picture.format, picture.size) == ("JPEG", (256, 256))
    check = finegraph("data", "check", out / "images.csv", "--graph", out / "graph.csv", "--strict")
    assert check.code == 0, check.out
    assert "73 photos, 18 labels, no errors, no warnings" in check.out


def test_with_numbers_the_grams_on_each_plate_are_measured(tiny, tmp_path):
    out = tmp_path / "menu"
    write_menu(out, tiny, numbers=True, workers=1)
    samples, graph, menu = read_samples(out / "images.csv"), LabelGraph.read(out / "graph.csv"), Menu(tiny)
    grams = {photo.path: menu.grams(photo) for photo in menu.photos}
    expected = [round(grams[sample.path.relative_to(out).as_posix()]) for sample in samples]
    assert measured_values(samples, graph)["portion"].tolist() == expected
    assert any(sample.split == "wild" for sample in samples)


def test_it_goes_on_where_it_was_interrupted(tiny, tmp_path, monkeypatch):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert write_menu(whole, tiny, workers=1).drawn == 73
    real, left = menu_module.Menu.jpeg, iter([True] * 30)

    def until_interrupted(menu, photo):
        if not next(left, False):
            raise KeyboardInterrupt
        return real(menu, photo)

    monkeypatch.setattr(menu_module.Menu, "jpeg", until_interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_menu(cut, tiny, workers=1)
    names = set(state(cut))
    assert "images.csv" not in names
    assert len([name for name in names if name.endswith(".jpg")]) == 30
    assert not [name for name in names if name.endswith(".tmp")]
    victim = cut / Menu(tiny).photos[3].path
    victim.write_bytes(victim.read_bytes()[:-100])  # as a loss of power leaves it
    (victim.parent / ".finegraph-0123456789abcdef.tmp").write_bytes(b"x")  # as a kill leaves it
    monkeypatch.undo()
    monkeypatch.setitem(SIZES, "tiny", Size(16, {2: 2}, PANTRY, 50, 6, 18, 5, 30))
    told = []
    assert write_menu(cut, tiny, workers=1, progress=lambda *now: told.append(now)).drawn == 44
    assert (told[0], told[-1], len(told)) == ((29, 73), (73, 73), 45)
    assert state(cut) == state(whole)
    assert write_menu(cut, tiny).drawn == 0


def test_a_process_draws_its_share(tiny, tmp_path, capsys):
    for number in (0, 1):
        assert menu_files.main([str(tmp_path), tiny, "0", "2", str(number)]) == 0
    assert sum(map(int, capsys.readouterr().out.split())) == 73
    menu = Menu(tiny)
    written = state(tmp_path)
    assert set(written) == {photo.path for photo in menu.photos}
    assert written[menu.photos[-1].path] == menu.jpeg(menu.photos[-1])


@pytest.mark.slow
def test_several_processes_write_the_same(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    assert write_menu(one, workers=1).drawn == write_menu(two, workers=2).drawn == 1350
    assert state(one) == state(two)


def test_what_a_process_cannot_write_is_reported(tiny, tmp_path, capsys):
    (tmp_path / "photos").write_text("in the way")
    assert menu_files.main([str(tmp_path), tiny, "0", "1", "0"]) == 0
    assert capsys.readouterr().out.startswith("failed: ")


def test_json(finegraph, tiny, tmp_path):
    outcome = finegraph("data", "menu", tmp_path / "a", "--size", tiny, "--seed", 0, "--json", "--workers", 1)
    document = json.loads(outcome.out)
    assert (document["size"], document["seed"], document["fine"], document["drawn"]) == (tiny, 0, 18, 73)
    assert document["photos"] == {"train": 44, "val": 6, "test": 18, "wild": 5}
    assert document["manifest"] == str(tmp_path / "a" / "images.csv")


def test_a_folder_with_other_things_is_refused(finegraph, tiny, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    outcome = finegraph("data", "menu", tmp_path, "--size", tiny)
    assert outcome.code == 3
    assert "expected an empty folder or one with a menu in it, found thesis.txt; choose another folder" in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_another_menu_is_not_written_over(finegraph, tmp_path):
    (tmp_path / "menu.json").write_text('{"menu": "full", "seed": 2, "drawings": 1}\n')
    outcome = finegraph("data", "menu", tmp_path)
    assert outcome.code == 3
    assert "expected the menu 'small' with seed 0 (drawings of version 1), found 'full' with seed 2" in outcome.err
    (tmp_path / "menu.json").write_text("[]")
    assert "expected the mark of a drawn menu, got something else" in finegraph("data", "menu", tmp_path).err


def test_one_process_at_a_time(finegraph, tiny, tmp_path):
    out = tmp_path / "menu"
    out.mkdir()
    with FolderLock(out, noun="menu", purpose="drawing", error=DataError):
        outcome = finegraph("data", "menu", out, "--size", tiny)
    assert outcome.code == 3
    assert "this menu is in use by this process" in outcome.err


def test_bad_arguments(finegraph, tmp_path):
    outcome = finegraph("data", "menu", tmp_path / "x", "--size", "ful")
    assert outcome.code == 3
    assert "unknown size of a menu 'ful'; did you mean 'full'?" in outcome.err
    assert finegraph("data", "menu", tmp_path / "x", "--seed", -1).code == 2
    assert finegraph("data", "menu", tmp_path / "x", "--workers", 0).code == 2
    (tmp_path / "file").write_text("")
    assert "cannot be written" in finegraph("data", "menu", tmp_path / "file").err
    assert not (tmp_path / "x").exists()


def test_help_says_what_the_sizes_are(finegraph):
    text = " ".join(finegraph("data", "menu", "--help").out.split())
    for name, size in SIZES.items():
        photos = size.train + size.test + size.wild
        assert name in text
        assert f"{size.fine:,}" in text
        assert f"{photos:,}" in text
    assert data_commands.menu.__doc__.splitlines()[0] in text
