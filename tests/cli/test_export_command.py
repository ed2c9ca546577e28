import json
import os
import re

import numpy as np
import pytest
from PIL import Image

from evaluation.tiny_runs import Colours, make_photos, make_run, register
from finegraph.nn.backbones.build import BACKBONES


@pytest.fixture
def run(tmp_path, monkeypatch):
    register(monkeypatch)
    return make_run(tmp_path / "run", make_photos(tmp_path / "photos"))


def test_what_is_printed(finegraph, run, tmp_path):
    target = tmp_path / "model.onnx"
    outcome = finegraph("export", run, "-o", target)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0] == f"compared with the model on 24 photos: the run's data, {tmp_path}/photos/images.csv"
    assert lines[1].split() == ["largest", "difference", "of", "values", "of", "logarithms", "limit"]
    rows = [re.split(" {2,}", line) for line in lines[2:7]]
    assert [row[0] for row in rows] == [
        "log_probs", "log_probs, given evidence", "kind_log_probs", "kind_log_probs, given evidence", "embedding"
    ]  # fmt: skip
    assert all(float(row[1]) < 1e-4 and row[3] == "1e-04" for row in rows)
    assert rows[4][2] == "-"
    assert lines[8] == "photos prepared with plain Pillow, not by finegraph: the same pixels"
    assert lines[9] == (
        "images (batch, 32, 32, 3) of uint8, 4 fine labels, 6 labels of 3 kinds, temperature 1"
    )  # fmt: skip
    assert lines[10] == f"written: {target}, {target.stat().st_size / 1e6:.1f} MB"


def test_json(finegraph, run, tmp_path):
    target = tmp_path / "model.onnx"
    photo = tmp_path / "large.jpg"
    noise = np.random.default_rng(0).integers(0, 256, (60, 50, 3), dtype=np.uint8)
    Image.fromarray(noise).resize((1000, 1200), Image.Resampling.BICUBIC).save(photo)
    outcome = finegraph("export", run, "-o", target, "--check", photo, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    document = json.loads(outcome.out)
    assert document["path"] == str(target)
    assert (document["form"], document["size"]) == ("onnx", target.stat().st_size)
    assert (document["format"], document["format_version"], document["limit"]) == ("finegraph.export", 1, 1e-4)
    assert (document["checked_on"], document["photos"]) == ("the photos named", 1)
    assert {one["output"] for one in document["differences"]} == {"log_probs", "kind_log_probs", "embedding"}
    assert document["plain"]["mean_pixel"] > 0
    text = finegraph("export", run, "-o", target, "--check", photo).out
    assert re.search(r"plain Pillow, not by finegraph: pixels differ by \S+ of 255 on average \(at most \d+\)", text)
    assert re.search(r"[01] of 1 photo get", text)


def test_errors(finegraph, run, tmp_path):
    for arguments, message in [
        (("nowhere", "-o", tmp_path / "model.onnx"), "nowhere: there is no such folder"),
        ((run, "-o", tmp_path / "model.txt"), "model.txt: expected a file name that ends in .onnx or .pt2"),
        ((run, "-o", tmp_path / "no/model.onnx"), "there is no folder"),
        ((run, "-o", tmp_path / "model.onnx", "--check", tmp_path / "none.jpg"), "none.jpg: there is no such file"),
    ]:
        outcome = finegraph("export", *arguments)
        assert outcome.code == 3
        assert message in outcome.err
    assert "missing option '--output'" in finegraph("export", run).err


class Drifting(Colours):
    """A network that never answers twice alike, so that no file can answer as it does."""

    calls = 0

    def forward(self, images):
        self.calls += 1
        return super().forward(images) + 0.1 * self.calls


@pytest.mark.parametrize("ending", ["onnx", pytest.param("pt2", marks=pytest.mark.slow)])
def test_a_file_that_fails_its_check_is_not_written(finegraph, run, tmp_path, monkeypatch, ending):
    monkeypatch.setitem(BACKBONES, "colours", lambda dropout, auxiliary: Drifting())
    before, target = sorted(os.listdir(tmp_path)), tmp_path / f"model.{ending}"
    outcome = finegraph("export", run, "-o", target)
    assert (outcome.code, outcome.out) == (3, "")
    assert re.search(r"error: the exported file does not answer as the model: \w+.* differs by \S+ for", outcome.err)
    assert "expected at most 0.0001; nothing was written" in outcome.err
    assert sorted(os.listdir(tmp_path)) == before
    if ending == "onnx":
        target.write_bytes(b"earlier")
        assert finegraph("export", run, "-o", target, "--json").code == 3
        assert target.read_bytes() == b"earlier"
