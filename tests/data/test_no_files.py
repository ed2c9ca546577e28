"""Pipes, devices and links to nothing that are called like photos: named, and never waited for."""

import os

import numpy as np
import pytest
from PIL import Image

from finegraph.cli.main import run as finegraph
from finegraph.data.photo_decoding import read_picture
from finegraph.errors import PhotoFileError
from training import tiny


def paint(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(len(str(path)) + hash(path.name) % 1000)
    Image.fromarray(random.integers(0, 255, (40, 40, 3), dtype=np.uint8)).save(path)


def pipe(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


def link(path):
    path.symlink_to(path.with_name("gone.jpg"))


NO_FILES = {
    pipe: "expected a file, got a named pipe",
    device: "expected a file, got a device",
    link: "gone.jpg', which is not there",
}


@pytest.fixture
def photos(tmp_path, monkeypatch):
    tiny.register()
    monkeypatch.setenv("FINEGRAPH_CACHE", str(tmp_path / "cache"))
    for label in ("ramen", "udon"):
        for number in range(4):
            paint(tmp_path / "photos" / label / f"{number}.png")
    return tmp_path / "photos"


@pytest.mark.parametrize(("make", "reason"), NO_FILES.items())
def test_are_errors_that_name_the_file(tmp_path, make, reason):
    make(tmp_path / "a.jpg")
    with pytest.raises(PhotoFileError, match=f"a.jpg: .*{reason}"):
        read_picture(tmp_path / "a.jpg")


@pytest.mark.deep
@pytest.mark.parametrize(("make", "reason"), NO_FILES.items())
def test_end_training_and_checks_find_them(photos, tmp_path, capsys, make, reason):
    make(photos / "ramen" / "odd.jpg")
    own = ["--network", "tiny", "--weights", "none", "--run"]
    for tune in ([], ["--tune", "all", "--epochs", "1"]):
        assert finegraph(["train", str(photos), *own, str(tmp_path / f"bad-{len(tune)}"), *tune]) == 3
        said = capsys.readouterr().err.replace("\n", " ")
        assert f"error: {photos}/ramen/odd.jpg: " in said
        assert reason in said
    assert finegraph(["data", "check", str(photos)]) == 1
    assert reason in capsys.readouterr().out
    assert finegraph(["train", str(photos), *own, str(tmp_path / "run"), "--on-bad-file", "skip"]) == 0
    assert "left out as they cannot be read: 1 photo" in capsys.readouterr().out
    for asked in (photos / "ramen" / "odd.jpg", photos / "ramen"):
        assert finegraph(["predict", str(tmp_path / "run"), str(asked)]) == 3
        assert reason in capsys.readouterr().err.replace("\n", " ")
