"""From settings to a run folder with a model: both ways to train, resuming, and what is refused."""

import csv
import json
import shutil
import signal
import tomllib
from dataclasses import replace

import pytest
import torch

import finegraph as fg
from finegraph.data.sources import source_graph
from finegraph.errors import DataError, DataFileError, RunFolderError, SettingsError, UnknownNameError, WeightsError
from finegraph.graph import Kind, LabelGraph, Number
from finegraph.training.records.run_folder import RunFolder
from finegraph.training.records.starts import read_starts
from finegraph.training.settings import TrainSettings, check_settings_used
from finegraph.workflows.train import choose_device, resume_settings, train_run
from finegraph.workflows.training.training_data import read_training_data
from training import tiny


class Silent:
    """Notes what is told, and stops the run at a step if asked to."""

    def __init__(self, stop_at=None):
        self.stop_at, self.rows, self.notes, self.stages, self.steps = stop_at, [], [], {}, []

    def data(self, data, folder):
        self.folder = folder

    def stage(self, name, done, total):
        self.stages[name] = (done, total)

    def step(self, done, total, loss, rate):
        self.steps.append(done)
        if done == self.stop_at:
            signal.raise_signal(signal.SIGINT)

    def epoch(self, row):
        self.rows.append(row)

    def note(self, text):
        self.notes.append(text)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    tiny.register()
    return tiny.make_photos(tmp_path_factory.mktemp("photos"))


def settings(manifest, **more):
    return TrainSettings(**{"data": str(manifest), "network": "tiny", "weights": "none", **more})


def test_tuning_the_head_gives_a_model_that_answers(manifest, tmp_path):
    watcher = Silent()
    result = train_run(settings(manifest), watcher, run=tmp_path / "run")
    assert result.finished
    assert result.photos == 35
    assert set(result.metrics) == {"top1", "nll", "kinds.colour"}
    assert result.strengths["kind_weight"] == {"colour": 1.0}
    model = fg.load(tmp_path / "run")
    assert set(model.graph.fine) == set(tiny.CLASSES)
    right = 0
    for label, colour in tiny.CLASSES.items():
        prediction = model.predict(manifest.parent / f"{label.replace(' ', '-')}-0.png")
        right += prediction.kinds["colour"][0].label == colour
    assert right >= 4
    saved = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert TrainSettings.from_dict(saved) == settings(manifest).resolve()


@pytest.mark.deep
def test_a_second_run_takes_the_stored_features(manifest, tmp_path, monkeypatch):
    first = train_run(settings(manifest), Silent(), run=tmp_path / "one")
    monkeypatch.setattr(tiny.Tiny, "forward", None)
    second = train_run(settings(manifest), Silent(), run=tmp_path / "two")
    assert second.metrics == first.metrics


@pytest.mark.deep
@pytest.mark.usefixtures("unchecked")
def test_strengths_are_chosen_when_asked(manifest, tmp_path):
    plain = train_run(settings(manifest), Silent(), run=tmp_path / "plain")
    chosen = train_run(settings(manifest, choose=True), Silent(), run=tmp_path / "chosen")
    assert chosen.metrics["nll"] <= plain.metrics["nll"] + 1e-6
    kept = train_run(settings(manifest, choose=True, l2=0.5), Silent(), run=tmp_path / "kept")
    assert kept.strengths["l2"] == 0.5


@pytest.mark.deep
@pytest.mark.usefixtures("unchecked")
def test_strengths_are_chosen_by_cross_validation_without_validation_photos(manifest, tmp_path):
    text = manifest.read_text().replace(",val,", ",other,")
    (manifest.parent / "no-val.csv").write_text(text)
    chosen = settings(manifest.parent / "no-val.csv", choose=True, head="softmax")
    result = train_run(chosen, Silent(), run=tmp_path / "run")
    assert result.metrics == {}
    assert result.strengths["l2"] != TrainSettings().l2


@pytest.mark.deep
def test_tuning_all_keeps_the_best_epoch(manifest, tmp_path):
    watcher = Silent()
    whole = settings(manifest, tune="all", epochs=4, batch_size=8, lr=0.05)
    result = train_run(whole, watcher, run=tmp_path / "run")
    judged = {row["epoch"]: row["val_top1"] for row in watcher.rows if "val_top1" in row}
    assert set(judged) == {0, 2, 4}  # the fitted head, then every second epoch
    assert result.metrics["top1"] == max(judged.values())
    with open(tmp_path / "run" / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {int(row["epoch"]): float(row["val_top1"]) for row in rows if row["val_top1"]} == judged
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert sum(line["event"] == "step" for line in log) == 4 * 5
    assert fg.load(tmp_path / "run").predict(manifest.parent / "grey-0.png").top


@pytest.mark.deep
def test_an_interrupted_run_goes_on_to_the_same_model(manifest, tmp_path):
    whole = settings(manifest, tune="all", epochs=3, batch_size=8, lr=0.05, workers=2)
    straight = train_run(whole, Silent(), run=tmp_path / "straight")
    stopped = train_run(whole, Silent(stop_at=7), run=tmp_path / "broken")
    assert not stopped.finished
    assert stopped.model is None
    watcher = Silent()
    went_on = resume_settings(tmp_path / "broken", {"workers": 1})
    result = train_run(went_on, watcher, run=tmp_path / "broken", resume=True)
    start = watcher.steps[0] - 1
    assert start in (7, 8)
    assert f"going on from step {start} of 15" in watcher.notes
    assert result.metrics == straight.metrics
    one, two = (fg.load(tmp_path / name).network.state_dict() for name in ("straight", "broken"))
    assert all(torch.equal(one[name], two[name]) for name in one)
    starts = {name: read_starts(RunFolder(tmp_path / name)) for name in ("straight", "broken")}
    assert [len(starts["straight"]), len(starts["broken"])] == [1, 2]
    assert {start.finegraph for start in starts["broken"]} == {fg.__version__}


@pytest.mark.deep
def test_changed_settings_are_refused_by_name(manifest, tmp_path):
    train_run(settings(manifest), Silent(), run=tmp_path / "run")
    with pytest.raises(SettingsError, match=r"head was 'bipartite', now 'softmax'; seed was 0, now 3"):
        resume_settings(tmp_path / "run", {"head": "softmax", "seed": 3})
    assert resume_settings(tmp_path / "run", {"threads": 1}).threads == 1


@pytest.mark.deep
def test_changed_photos_are_refused(manifest, tmp_path):
    photos = tmp_path / "photos"
    shutil.copytree(manifest.parent, photos)
    whole = settings(photos / "images.csv", tune="all", epochs=2, batch_size=8)
    train_run(whole, Silent(stop_at=3), run=tmp_path / "run")
    lines = (photos / "images.csv").read_text().splitlines()
    (photos / "images.csv").write_text("\n".join(lines[:2] + lines[3:]) + "\n")
    with pytest.raises(SettingsError, match="the list of photos to train on changed since this run began"):
        train_run(resume_settings(tmp_path / "run", {}), Silent(), run=tmp_path / "run", resume=True)


@pytest.mark.deep
def test_a_run_is_not_overwritten(manifest, tmp_path):
    train_run(settings(manifest), Silent(), run=tmp_path / "run")
    with pytest.raises(RunFolderError, match="this run exists already"):
        train_run(settings(manifest), Silent(), run=tmp_path / "run")


@pytest.mark.deep
def test_new_runs_are_named_after_the_data(manifest, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [train_run(settings(manifest), Silent()).run for _ in range(2)]
    assert names == ["runs/images", "runs/images-2"]


@pytest.mark.deep
def test_bad_photos_are_named_or_end_the_run(manifest, tmp_path):
    photos = tmp_path / "photos"
    shutil.copytree(manifest.parent, photos)
    (photos / "grey-1.png").write_bytes(b"<html>")
    with pytest.raises(DataError, match=r"grey-1\.png"):
        train_run(settings(photos / "images.csv"), Silent(), run=tmp_path / "skip")
    assert not (tmp_path / "skip").exists()  # so that the name is free again
    result = train_run(settings(photos / "images.csv", on_bad_file="skip"), Silent(), run=tmp_path / "skip")
    assert len(result.bad) == 1
    assert "grey-1.png" in result.bad[0]
    watcher = Silent()
    whole = settings(photos / "images.csv", on_bad_file="skip", tune="all", epochs=2, batch_size=8)
    train_run(whole, watcher, run=tmp_path / "all")
    assert sum("grey-1.png" in note for note in watcher.notes) == 1


@pytest.mark.deep
def test_two_networks(manifest, tmp_path):
    both = settings(manifest, coarse_network="tiny", coarse_weights="none")
    for tune in ("head", "all"):
        more = TrainSettings(**{**both.to_dict(), "tune": tune, "epochs": 1, "batch_size": 16})
        result = train_run(more, Silent(), run=tmp_path / tune)
        assert result.finished
        network = fg.load(tmp_path / tune).network
        assert network.coarse_backbone is not None
        assert network.head.coarse.weight.abs().max() > 0


def test_what_is_missing_is_said(manifest, tmp_path):
    with pytest.raises(SettingsError, match="data: expected the photos to train on"):
        train_run(TrainSettings(), Silent(), run=tmp_path / "run")
    with pytest.raises(WeightsError, match="no weights of vgg16 come with finegraph"):
        train_run(settings(manifest, network="vgg16", weights="default"), Silent(), run=tmp_path / "run")
    with pytest.raises(SettingsError, match="device: 'cude' cannot be used here"):
        choose_device("cude")
    with pytest.raises(SettingsError, match="name its folder"):
        train_run(settings(manifest), Silent(), resume=True)
    assert not (tmp_path / "run").exists()


def test_labels_that_the_graph_does_not_have_come_at_once_with_their_lines(manifest, tmp_path):
    graph = source_graph(manifest).only([])
    heat = Kind.from_parents("heat", ["mild", "hot"], [0, 1] * (len(graph) // 2) + [0] * (len(graph) % 2))
    graph.with_kind(replace(heat, ordered=True)).write(tmp_path / "graph.json")
    header, *rows = manifest.read_text().splitlines()
    rows = [f"{row},mild" for row in rows]
    rows[2], rows[4] = rows[2].replace("mild", "spicy"), rows[4].replace("mild", "warm")
    list_file = manifest.parent / "seen.csv"
    list_file.write_text("\n".join([f"{header},heat", *rows]) + "\n")
    with pytest.raises(UnknownNameError) as caught:
        train_run(settings(list_file, graph=str(tmp_path / "graph.json")), Silent(), run=tmp_path / "run")
    assert [line.split("seen.csv:")[-1] for line in str(caught.value).splitlines()] == [
        "2 labels are not in the graph:",
        "4: label of kind 'heat' 'spicy'",
        "6: label of kind 'heat' 'warm'",
    ]
    assert not (tmp_path / "run").exists()


def test_values_that_no_number_can_have_come_at_once_from_all_splits(manifest):
    header, *rows = (row.split(",") for row in manifest.read_text().splitlines())
    cells = ["cheap", "12.5", "12;5", "-1 kg", "inf"] + ["12"] * len(rows)
    for row, split in zip(rows, ["train", "train", "val", "test", "wild"], strict=False):
        row[header.index("split")] = split
    lines = [",".join([*row, cell]) for row, cell in zip([header, *rows], ["price", *cells], strict=False)]
    list_file = manifest.parent / "priced.csv"
    list_file.write_text("\n".join(lines) + "\n")
    price = Number.from_values("price", [12.0] * len(source_graph(manifest)))
    LabelGraph(source_graph(manifest).fine, numbers=[price]).write(manifest.parent / "prices.json")
    with pytest.raises(DataFileError) as caught:
        read_training_data(settings(list_file, graph=str(manifest.parent / "prices.json")))
    assert [fault.line for fault in caught.value.faults] == [2, 4, 5, 6]


def test_columns_that_the_graph_does_not_have_are_noted(manifest):
    header, *rows = manifest.read_text().splitlines()
    list_file = manifest.parent / "misspelt.csv"
    list_file.write_text("\n".join([f'{header},colur,"mass [number, g]"', *(f"{row},red,12" for row in rows)]) + "\n")
    data = read_training_data(settings(list_file, graph=str(manifest.parent / "graph.csv")))
    assert data.notes == (
        "labels and values of 'colur', 'mass' on photos are left out, since the graph has no such kind or number; "
        "did you mean 'colour'?",
    )
    assert read_training_data(settings(manifest)).notes == ()


def test_a_setting_without_effect_is_refused():
    with pytest.raises(
        SettingsError, match=r"epochs, lr: no effect with tune = head; choose tune = all, or leave it out"
    ):
        check_settings_used({"lr": 0.1, "epochs": 3})
    check_settings_used({"tune": "all", "lr": 0.1, "kind_weight": 1.0})


@pytest.mark.deep
def test_resuming_a_finished_run_keeps_its_calibration(manifest, tmp_path):
    for tune in ("head", "all"):
        own = settings(manifest, tune=tune, **({"epochs": 1, "batch_size": 16} if tune == "all" else {}))
        train_run(own, Silent(), run=tmp_path / tune)
        model = fg.load(tmp_path / tune)
        model.temperature = 2.0
        model.save(tmp_path / tune / "model")
        result = train_run(resume_settings(tmp_path / tune, {}), Silent(), run=tmp_path / tune, resume=True)
        assert result.model is not None
        assert fg.load(tmp_path / tune).temperature == 2.0


@pytest.mark.deep
def test_a_run_goes_on_where_its_photos_were_moved_to(manifest, tmp_path):
    first = tmp_path / "here" / "photos"
    shutil.copytree(manifest.parent, first)
    train_run(settings(first / "images.csv", tune="all", epochs=1, batch_size=16), Silent(), run=tmp_path / "run")
    (tmp_path / "here").rename(tmp_path / "there")
    moved = resume_settings(tmp_path / "run", {"data": str(tmp_path / "there" / "photos" / "images.csv")})
    assert train_run(moved, Silent(), run=tmp_path / "run", resume=True).finished


def with_colours(manifest, folder, colours):
    """A copy of the photos in which some have a colour of their own, by the number of the row."""
    shutil.copytree(manifest.parent, folder)
    with (folder / "images.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for number, row in enumerate(rows):
        row["colour"] = colours.get(number, "")
    with (folder / "images.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return folder / "images.csv"


@pytest.mark.deep
def test_photos_that_contradict_their_class_make_weights_or_are_ignored(manifest, tmp_path):
    with manifest.open(newline="") as file:
        label = next(csv.DictReader(file))["label"]
    other = next(colour for colour in tiny.CLASSES.values() if colour != tiny.CLASSES[label])
    photos = with_colours(manifest, tmp_path / "photos", {0: other})
    own = settings(photos, graph=str(manifest.parent / "graph.csv"))
    watcher = Silent()
    train_run(own, watcher, run=tmp_path / "use")
    assert any("photos show what their classes exclude in colour" in note for note in watcher.notes)
    graph = fg.load(tmp_path / "use").graph
    assert graph != fg.LabelGraph.read(manifest.parent / "graph.csv")
    train_run(replace(own, photo_labels="ignore"), Silent(), run=tmp_path / "ignore")
    assert fg.load(tmp_path / "ignore").graph == fg.LabelGraph.read(manifest.parent / "graph.csv")


def test_boxes_that_are_not_there_are_asked_for(manifest, tmp_path):
    with pytest.raises(DataError, match="expected boxes to cut photos to, but none has one"):
        train_run(settings(manifest, box=True), Silent(), run=tmp_path / "run")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"tune": "all", "recipe": "short", "l2": 5.0, "choose": True},
            "l2, choose: no effect with start = new; choose start = fitted",
        ),
        ({"dropout": 0.1}, "dropout: no effect with tune = head"),
        ({"tune": "all", "start": "new", "refit": True}, "refit: no effect with start = new"),
        ({"tune": "all", "drop_every": 3}, "drop_every: no effect with schedule = one_cycle; choose schedule = steps"),
        ({"tune": "all", "recipe": "paper", "warmup": 0.1}, "warmup: no effect with schedule = steps"),
    ],
)
def test_settings_without_effect_are_refused(given, text):
    with pytest.raises(SettingsError, match=text):
        check_settings_used(given)


@pytest.mark.parametrize("head", ["bipartite", "softmax"])
def test_class_means_give_a_model_like_any_other(manifest, tmp_path, head):
    means = settings(manifest, fit="prototypes", head=head, photo_labels="ignore")
    result = train_run(means, Silent(), run=tmp_path / "run")
    assert result.strengths["variances"]["kinds"].keys() <= {"colour"}
    assert result.worth.kinds.keys() == result.strengths["variances"]["kinds"].keys()
    model = fg.load(tmp_path / "run")
    assert model.network.design.scaling == "compressed"
    photo = manifest.parent / f"{next(iter(tiny.CLASSES)).replace(' ', '-')}-0.png"
    assert sum(answer.probability for answer in model.predict(photo, top=99).top) == pytest.approx(1.0)
    colour = next(iter(tiny.CLASSES.values()))
    assert model.predict(photo, given={"colour": colour}).kinds["colour"][0].probability == pytest.approx(1.0)
    with pytest.raises(SettingsError, match="class means know nothing of photo labels"):
        train_run(settings(manifest, fit="prototypes", head=head), Silent(), run=tmp_path / "seen")


def test_settings_of_descent_are_refused_with_class_means(manifest):
    with pytest.raises(SettingsError, match="l2, choose: no effect with fit = prototypes; use fit = descent"):
        check_settings_used({"fit": "prototypes", "l2": 0.1, "choose": True})
    with pytest.raises(SettingsError, match="coarse_network: class means have one feature"):
        settings(manifest, fit="prototypes", coarse_network="tiny")
    with pytest.raises(SettingsError, match="fit: no effect with start = new"):
        check_settings_used({"fit": "prototypes", "tune": "all", "recipe": "paper"})
    check_settings_used({"fit": "prototypes", "tune": "all"})  # training starts from the fitted head
