"""A plain folder per class: training holds photos out by itself, keeps the lists and calibrates; all else follows."""

import csv
import html
import json
import shutil

import numpy as np
import pytest
from PIL import Image

from finegraph.cli.main import run as finegraph
from finegraph.data.sources import read_samples
from finegraph.errors import DataError, RunFolderError
from finegraph.evaluation.photo_evaluation import calibrate_photos
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.training.distributed import Ranks
from finegraph.training.settings import TrainSettings
from finegraph.workflows.evaluate import evaluate_run
from finegraph.workflows.graph import check_graph
from finegraph.workflows.train import resume_settings, train_run
from finegraph.workflows.training.held_out import new_parts, parts_of_run
from training import tiny
from workflows.test_train import Silent

SIZES = {"red": 12, "blue": 9, "grey": 2, "green": 1}
COLOURS = {"red": (200, 40, 40), "blue": (40, 40, 200), "grey": (120, 120, 120), "green": (40, 200, 40)}


def paint(path, colour, random):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = random.integers(0, 60, (48, 48, 3)) + 90
    top, left = random.integers(0, 24, 2)
    pixels[top : top + 24, left : left + 24] = np.array(colour) + random.integers(-20, 20, 3)
    Image.fromarray(pixels.astype(np.uint8)).save(path)


@pytest.fixture
def photos(tmp_path, monkeypatch):
    tiny.register()
    monkeypatch.setenv("FINEGRAPH_CACHE", str(tmp_path / "cache"))
    random = np.random.default_rng(0)
    for label, count in SIZES.items():
        for number in range(count):
            paint(tmp_path / "photos" / label / f"{number}.png", COLOURS[label], random)
    return tmp_path / "photos"


def settings(photos, **more):
    return TrainSettings(**{"data": str(photos), "network": "tiny", "weights": "none", **more})


def evaluated(found):
    with (found.folder / "samples.csv").open(newline="") as file:
        return {row["path"] for row in csv.DictReader(file)}


def lists(run):
    content = json.loads((run / "photos.json").read_text())["content"]
    return set(content["train"]), set(content["held_out"])


def test_the_commands_of_the_readme_one_after_the_other(photos, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert finegraph(["train", "photos", "--network", "tiny", "--weights", "none"]) == 0
    said = capsys.readouterr()
    assert "4 photos of 2 labels held out to judge it on, copies kept together; --val-share 0 trains on all" in said.err
    assert "on the 4 photos held out" in said.out
    assert "calibrated on these photos: temperature " in said.out
    assert finegraph(["evaluate", "runs/photos"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith(f"4 photos of {photos}, held out in training\n")
    assert ", fitted before on these photos" in said.out
    assert "unknown photos (kinds above " in said.out
    assert finegraph(["report", "runs/photos"]) == 0
    assert finegraph(["predict", "runs/photos", "photos/red/0.png"]) == 0


@pytest.mark.deep
def test_what_is_held_out(photos, tmp_path):
    result = train_run(settings(photos), Silent(), run=tmp_path / "run")
    train, held = lists(tmp_path / "run")
    assert (result.photos, result.held_out, result.validated_on, result.to_evaluate) == (20, 4, "val", "val")
    assert train | held == {f"{label}/{number}.png" for label, count in SIZES.items() for number in range(count)}
    assert sorted(name.split("/")[0] for name in held) == ["blue", "blue", "red", "red"]
    for split in (None, "held-out", "val"):
        found = evaluate_run(tmp_path / "run", split=split)
        assert evaluated(found) == {str(photos / name) for name in held}
        assert (found.result.split, found.held_out, found.trained_on, found.gone) == ("val", True, 0, 0)
    assert evaluate_run(tmp_path / "run", split="all").trained_on == 20


@pytest.mark.deep
def test_photos_that_are_added_or_removed_later(photos, tmp_path):
    train_run(settings(photos), Silent(), run=tmp_path / "run")
    train, held = lists(tmp_path / "run")
    random = np.random.default_rng(1)
    for label in COLOURS:
        for number in range(100, 140):
            paint(photos / label / f"{number}.png", COLOURS[label], random)
    gone = sorted(held)[0]
    (photos / gone).unlink()
    (photos / sorted(train)[0]).unlink()
    found = evaluate_run(tmp_path / "run")
    assert evaluated(found) == {str(photos / name) for name in held - {gone}}
    assert (found.trained_on, found.gone) == (0, 1)
    assert evaluate_run(tmp_path / "run", split="all").trained_on == 19
    for name in held - {gone}:
        (photos / name).unlink()
    with pytest.raises(DataError, match="none of the 4 photos that were held out is there any more"):
        evaluate_run(tmp_path / "run")


@pytest.mark.deep
def test_copies_and_photos_saved_anew_are_not_judged_on(photos, tmp_path):
    """Every photo is there three times: under another name, and in another format."""
    for path in sorted(photos.rglob("*.png")):
        shutil.copy(path, path.with_name(f"copy-{path.name}"))
        Image.open(path).resize((96, 96)).save(path.with_suffix(".jpg"), quality=95)
    train_run(settings(photos), Silent(), run=tmp_path / "run")
    train, held = lists(tmp_path / "run")

    def pictures(names):
        return {name.replace("copy-", "").rpartition(".")[0] for name in names}

    assert held
    assert not pictures(train) & pictures(held)


@pytest.mark.deep
def test_a_moved_source_keeps_its_lists(photos, tmp_path):
    train_run(settings(photos), Silent(), run=tmp_path / "run")
    train, held = lists(tmp_path / "run")
    moved = photos.rename(tmp_path / "elsewhere")
    parts = parts_of_run(tmp_path / "run")(read_samples(moved), settings(moved))
    assert {str(one.path.relative_to(moved)) for one in parts.train} == train
    assert {str(one.path.relative_to(moved)) for one in parts.val} == held


@pytest.mark.deep
def test_all_are_trained_on_when_asked(photos, tmp_path, capsys):
    result = train_run(settings(photos, val_share=0), Silent(), run=tmp_path / "run", report=True)
    assert (result.photos, result.held_out, result.validated_on, result.calibration) == (24, 0, None, None)
    assert not (tmp_path / "run" / "photos.json").exists()
    with pytest.raises(DataError, match="there are no test photos, and training held none out; train again with some"):
        evaluate_run(tmp_path / "run")
    with pytest.raises(DataError, match="training held no photos out"):
        evaluate_run(tmp_path / "run", split="held-out")
    own = ["--network", "tiny", "--weights", "none", "--val-share", "0", "--run", str(tmp_path / "two")]
    assert finegraph(["train", str(photos), *own]) == 0
    said = capsys.readouterr()
    assert "no photos are held out to judge it on" in said.err
    assert "calibrated on training photos that were held out while fitting; no photo is marked as none" in said.out
    assert "not calibrated" not in said.out
    card = (tmp_path / "two" / "model" / "README.md").read_text()
    assert "Probabilities were calibrated on training photos that were held out while fitting. No rule" in card
    assert f"finegraph evaluate {tmp_path / 'two'} --data OTHER_PHOTOS" in said.out
    assert f"finegraph teach {tmp_path / 'two'} LABEL PHOTO" in said.out
    assert f"finegraph suggest-photos {tmp_path / 'two'} UNLABELLED_PHOTOS" in said.out
    assert finegraph(["train", str(photos), *own[:-1], str(tmp_path / "three"), "--fit", "descent"]) == 0
    said = capsys.readouterr()
    assert "not calibrated: no photos were held out, so probabilities may be too sure" in said.out
    assert "teach" not in said.out
    assert "not calibrated afterwards" in (tmp_path / "three" / "model" / "README.md").read_text()


def test_classes_of_one_and_two_photos_are_trained_on_whole(photos, tmp_path):
    for label in ("red", "blue"):
        shutil.rmtree(photos / label)
    result = train_run(settings(photos), Silent(), run=tmp_path / "run")
    assert (result.finished, result.photos, result.validated_on) == (True, 3, None)
    half = train_run(settings(photos, val_share=0.5), Silent(), run=tmp_path / "half")
    assert (half.photos, half.held_out) == (2, 1)


@pytest.mark.deep
def test_a_source_with_splits_is_taken_as_it_is(photos, tmp_path):
    """Whoever has parted the photos has said what to train on."""
    for split in ("train", "test"):
        shutil.copytree(photos, tmp_path / "parted" / split)
    result = train_run(settings(tmp_path / "parted"), Silent(), run=tmp_path / "run")
    assert (result.photos, result.held_out, result.validated_on, result.to_evaluate) == (24, 0, None, "test")
    assert evaluate_run(tmp_path / "run").result.split == "test"
    held = train_run(settings(tmp_path / "parted", val_share=0.25), Silent(), run=tmp_path / "held")
    assert (held.photos, held.held_out, held.validated_on, held.to_evaluate) == (18, 6, "val", "test")
    assert evaluate_run(tmp_path / "held", split="held-out").result.photos == 6


@pytest.mark.deep
def test_fewer_photos_per_class(photos, tmp_path):
    result = train_run(settings(photos, photos_per_label=3), Silent(), run=tmp_path / "run")
    train, held = lists(tmp_path / "run")
    assert (result.photos, len(train), len(held)) == (9, 9, 4)
    assert evaluate_run(tmp_path / "run", split="all").trained_on == 9


@pytest.mark.deep
def test_going_on_takes_the_photos_it_began_with(photos, tmp_path):
    whole = settings(photos, tune="all", epochs=3, batch_size=8)
    plain = train_run(whole, Silent(), run=tmp_path / "plain")
    stopped = train_run(whole, Silent(stop_at=4), run=tmp_path / "run")
    assert not stopped.finished
    before = lists(tmp_path / "run")
    random = np.random.default_rng(2)
    for number in range(50, 80):
        paint(photos / "red" / f"{number}.png", COLOURS["red"], random)
    again = train_run(resume_settings(tmp_path / "run", {}), Silent(), run=tmp_path / "run", resume=True)
    assert (again.finished, again.photos, lists(tmp_path / "run")) == (True, 20, before)
    assert again.metrics == plain.metrics
    assert again.calibration == plain.calibration


def test_all_processes_take_what_the_first_one_found(photos, monkeypatch):
    """Only the first process opens photos; the others are told."""
    samples = read_samples(photos)
    copy = photos / "red" / "copy.png"
    shutil.copy(photos / "red" / "0.png", copy)
    samples = read_samples(photos)
    first = new_parts(samples, settings(photos))
    opened = []
    monkeypatch.setattr("finegraph.workflows.training.held_out.same_photos", lambda *_: opened.append(1))
    monkeypatch.setattr(Ranks, "gather", lambda self, value: [[[copy, photos / "red" / "0.png"]], value])
    assert new_parts(samples, settings(photos), Ranks(1, 2)) == first
    assert not opened


@pytest.mark.deep
def test_damaged_lists_are_refused(photos, tmp_path):
    train_run(settings(photos), Silent(), run=tmp_path / "run")
    file = tmp_path / "run" / "photos.json"
    file.write_bytes(file.read_bytes().replace(b"red/1", b"red/2", 1))
    with pytest.raises(RunFolderError, match=r"photos\.json: expected the photos of this run: its checksum"):
        evaluate_run(tmp_path / "run")


@pytest.mark.parametrize("tune", ["head", "all"])
@pytest.mark.deep
def test_the_model_is_calibrated_as_evaluating_would_do_it(photos, tmp_path, tune):
    # The closed form is calibrated by the photos that it held out too, which evaluating knows nothing of.
    more = {"epochs": 2, "batch_size": 8} if tune == "all" else {"fit": "descent"}
    result = train_run(settings(photos, tune=tune, **more), Silent(), run=tmp_path / "run")
    model = PhotoClassifier.load(tmp_path / "run")
    held = parts_of_run(tmp_path / "run")(read_samples(photos), settings(photos)).val
    expected = calibrate_photos(model, held, cache=False, engine="torch")
    assert model.temperature == pytest.approx(expected.temperature.temperature, rel=1e-3)
    assert model.temperature == result.calibration.temperature.temperature != 1.0
    assert model.unknown.threshold == pytest.approx(expected.unknown.threshold, abs=1e-3)
    assert model.about["calibration"]["split"] == "val"
    assert model.about["calibration"]["photos"] == 4
    assert model.predict(photos / "red" / "0.png").unknown is not None


@pytest.mark.deep
def test_a_calibration_that_cannot_be_fitted_leaves_the_model(photos, tmp_path):
    rows = ["path,label,split"]
    for path in sorted(photos.rglob("*.png")):
        held = path.stem == "0"
        rows.append(f"{path.relative_to(tmp_path)},{'' if held else path.parent.name},{'val' if held else 'train'}")
    (tmp_path / "images.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "graph.csv").write_text("\n".join(["fine", *SIZES]) + "\n")
    own = settings(tmp_path / "images.csv", graph=str(tmp_path / "graph.csv"))
    result = train_run(own, Silent(), run=tmp_path / "run")
    assert result.finished
    assert (result.calibration, PhotoClassifier.load(tmp_path / "run").temperature) == (None, 1.0)
    assert "expected photos with a fine label to fit it on, got none" in result.calibration_fault


@pytest.mark.deep
def test_training_graph_check_and_the_report_agree_on_what_kinds_are_worth(photos, tmp_path):
    (tmp_path / "graph.csv").write_text(
        'fine,tone,"price [number, EUR]"\nred,warm,4\nblue,cold,7\ngrey,cold,12\ngreen,warm,9.5\n'
    )
    own = settings(photos, graph=str(tmp_path / "graph.csv"), fit="prototypes")
    result = train_run(own, Silent(), run=tmp_path / "run", report=True)
    assert set(result.worth.kinds) == {"tone", "price"}
    assert check_graph(tmp_path / "run").worth == result.worth
    assert html.escape(result.worth.words, quote=False) in (tmp_path / "run" / "report.html").read_text().replace(
        "&#39;", "'"
    )
