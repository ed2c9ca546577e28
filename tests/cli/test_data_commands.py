import csv
import json
import re

import pytest
from PIL import Image


@pytest.fixture
def photos(tmp_path):
    """Two classes with a bad file, and one photo in two splits."""
    folder = tmp_path / "photos"
    for number, place in enumerate(("train/ramen/1", "train/udon/2", "test/ramen/3", "test/udon/4")):
        path = folder / f"{place}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.linear_gradient("L").rotate(90 * number).save(path)
    (folder / "test/udon/5.png").write_bytes((folder / "train/ramen/1.png").read_bytes())
    (folder / "train/udon/6.jpg").write_bytes(b"<html></html>")
    return folder


def test_check_of_photos(finegraph, photos):
    outcome = finegraph("data", "check", photos)
    assert (outcome.code, outcome.err) == (1, "")
    lines = outcome.out.splitlines()
    assert lines[0].startswith(f"{photos}/train/udon/6.jpg: this is no photo of a known format")
    assert lines[1] == (
        f"{photos}/test/udon/5.png: the same file is there 2 times, in the splits test and train, with the labels "
        f"'ramen', 'udon'; also {photos}/train/ramen/1.png; find out which label is right, and keep it in one split"
    )
    assert [line.split() for line in lines[2:5]] == [
        ["split", "photos", "labels", "fewest", "median", "most"],
        ["test", "3", "2", "1", "1.5", "2"],
        ["train", "3", "2", "1", "1.5", "2"],
    ]
    assert lines[5] == (
        "pixels (smallest / median / largest): width 256 / 256 / 256, height 256 / 256 / 256; PNG 5; L 5"
    )
    assert lines[6:] == [f"{photos}: 6 photos, 2 labels, 2 errors, no warnings"]


def test_a_table_on_the_standard_output(finegraph, photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = finegraph("data", "check", photos, "--csv", "-")
    assert outcome.out.splitlines()[0] == "severity,rule,group,path,message,hint"
    assert not (tmp_path / "-").exists()
    assert finegraph("data", "check", photos, "--csv", "-", "--json").code != 0


def test_check_as_json_and_csv(finegraph, photos, tmp_path):
    graph = tmp_path / "graph.csv"
    graph.write_text("fine,dish\nramen,noodles\nudonn,noodles\n")
    outcome = finegraph(
        "data", "check", photos, "--graph", graph, "--json", "--csv", tmp_path / "out.csv", "--workers", 2
    )
    assert (outcome.code, outcome.err) == (1, "")
    document = json.loads(outcome.out)
    assert (document["samples"], document["files"], document["bad_files"]) == (6, 6, 1)
    assert (document["errors"], document["warnings"]) == (3, 1)
    assert document["counts"]["udon"] == {"test": 2, "train": 2}
    assert [one["rule"] for one in document["findings"]] == [
        "bad-file",
        "leakage-exact",
        "unknown-label",
        "label-without-photos",
    ]
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["rule"], row["group"]) for row in rows] == [
        ("bad-file", "1"),
        ("leakage-exact", "2"),
        ("leakage-exact", "2"),
        ("unknown-label", "3"),
        ("label-without-photos", "4"),
    ]


def test_warnings_count_only_if_strict(finegraph, tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    Image.linear_gradient("L").resize((20, 20)).save(folder / "1.png")
    outcome = finegraph("data", "check", tmp_path)
    assert outcome.code == 0
    assert "warning: the photo has only 20 x 20 pixels" in outcome.out
    assert finegraph("data", "check", tmp_path, "--strict").code == 1


def test_on_a_terminal(finegraph, photos, monkeypatch):
    for name, value in {"TTY_COMPATIBLE": "1", "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "90"}.items():
        monkeypatch.setenv(name, value)
    outcome = finegraph("data", "check", photos)
    assert outcome.code == 1
    out = re.sub("\x1b\\[[0-9;]*m", "", outcome.out)
    assert out.splitlines()[0].startswith("error  ")
    assert "6 photos, 2 labels, 2 errors, no warnings" in " ".join(out.split())
    assert "photos" in outcome.err


def test_plain_progress_comes_in_lines(finegraph, photos, monkeypatch):
    monkeypatch.setattr("finegraph.cli.progress.SECONDS_BETWEEN_LINES", 0.0)
    outcome = finegraph("data", "check", photos)
    lines = outcome.err.splitlines()
    assert lines[0] == "1 of 6 photos"
    assert [line.partition(",")[0] for line in lines] == [f"{number} of 6 photos" for number in range(1, 7)]
    assert re.fullmatch(r"6 of 6 photos, \S+/s, 0 s left", lines[-1])


def test_bad_sources(finegraph, tmp_path):
    outcome = finegraph("data", "check", tmp_path / "nowhere")
    assert outcome.code == 3
    assert "nowhere: there is no such file or folder" in outcome.err
    (tmp_path / "images.csv").write_text("path,label\n,\n")
    outcome = finegraph("data", "check", tmp_path / "images.csv", "--csv", tmp_path / "images.csv")
    assert outcome.code == 3
    assert "images.csv:2: column 'path': the row names no photo" in outcome.err
    (tmp_path / "images.csv").write_text("path,label\na.jpg,a\n")
    outcome = finegraph("data", "check", tmp_path / "images.csv", "--csv", tmp_path / "images.csv")
    assert outcome.code == 3
    assert "no table of findings; choose another name" in outcome.err
    assert (tmp_path / "images.csv").read_text() == "path,label\na.jpg,a\n"
