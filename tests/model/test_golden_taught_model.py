"""Model folders of version 3, with statistics and lessons, load for ever and say what they said when they were made."""

import json
import shutil
import tarfile
from pathlib import Path

import pytest
from PIL import Image
from test_golden_model import near, said

import finegraph as fg
from finegraph.model.folder.model_reader import read_kind_worth, read_model_graph

GOLDEN = Path(__file__).parents[1] / "golden"
PHOTO = GOLDEN / "photo.png"
QUESTIONS = {"taught": {}, "ten": {"views": 10}, "given plate": {"given": {"served": "plate"}}}


@pytest.fixture(scope="module", params=["model-3", "model-3-compressed"])
def unpacked(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("golden")
    with tarfile.open(GOLDEN / f"{request.param}.tar.xz") as archive:
        # Python 3.11 before 3.11.4, such as Debian's, has no filters; the archive is ours.
        archive.extractall(place, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return place / request.param


@pytest.fixture
def folder(unpacked, tmp_path):
    """A copy, which may be taught."""
    return Path(shutil.copytree(unpacked, tmp_path / "model"))


@pytest.fixture(scope="module")
def expected(unpacked):
    return json.loads((GOLDEN / f"{unpacked.name}.json").read_text(encoding="utf-8"))


def same_answer(found, before):
    """Later versions say more of a photo; what this one said stays."""
    found = {**found, "photo": "photo.png"}
    return said(found, before) == near(before)


@pytest.mark.deep
def test_answers_and_lessons(unpacked, expected):
    model = fg.load(unpacked)
    for name, question in QUESTIONS.items():
        assert same_answer(model.predict(PHOTO, **question).to_dict(), expected[name]), name
    assert list(model.graph.fine) == expected["fine"] == list(read_model_graph(unpacked).fine)
    assert [one.to_dict() for one in model.lessons] == expected["lessons"]
    assert model.temperature == 1.25
    assert model.statistics.counts.tolist() == [2.0, 3.0, 1.0, 0.0]
    assert list(read_kind_worth(unpacked).kinds) == ["dish", "served", "with"]


@pytest.mark.deep
def test_lessons_can_be_taken_back_and_new_ones_taught(folder, expected):
    model = fg.load(folder)
    for lesson in ("first", "second", "third"):
        model.forget(lesson)
    assert same_answer(model.predict(PHOTO).to_dict(), expected["untaught"])
    model.teach("kung pao @ B", [PHOTO], lesson_id="again")
    assert fg.load(folder).predict(PHOTO).top[0].label == "kung pao @ B"
    with Image.open(PHOTO) as photo:
        model.teach("ramen @ C", [photo.rotate(90)], parents={"dish": "ramen"})
    assert fg.load(folder).graph.fine[-1] == "ramen @ C"


def test_this_version_writes_the_same_files(unpacked, tmp_path):
    """While version 3 is the newest: what is written has not changed unnoticed."""
    fg.load(unpacked).save(tmp_path / "again")
    for name in ("model.safetensors", "graph.json", "preprocessing.json", "statistics.safetensors", "lessons.jsonl"):
        assert (tmp_path / "again" / name).read_bytes() == (unpacked / name).read_bytes(), name
    old, new = (json.loads((one / "config.json").read_text(encoding="utf-8")) for one in (unpacked, tmp_path / "again"))
    assert old["version"] == new["version"] == 3
    assert {name: old[name] for name in old if name not in ("finegraph", "checksum")} == {
        name: new[name] for name in new if name not in ("finegraph", "checksum")
    }
