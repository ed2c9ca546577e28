"""Whole studies on tiny photos: every head, each cell once, going on, and what is refused."""

import csv
import json
import re
import shutil
import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

import jaxtyping
import pytest
import torch
from scipy import stats

from finegraph.errors import (
    DataError,
    MissingExtraError,
    PhotoFileError,
    RunFolderError,
    SettingsError,
    UnknownNameError,
)
from finegraph.files.sealed_json import seal, unseal
from finegraph.graph import LabelGraph
from finegraph.nn.backbones.weights import PACKAGES, WeightsPackage
from finegraph.reports.plots.study_plots import draw_study
from finegraph.reports.study_results import read_study_results
from finegraph.reports.study_section import study_section
from finegraph.workflows import study as running
from finegraph.workflows.report import write_report
from finegraph.workflows.studies import sklearn_heads
from finegraph.workflows.studies.grid import Cell, plan
from finegraph.workflows.studies.head_fits import fit_study_head
from finegraph.workflows.studies.photo_sets import read_study_data, study_features
from finegraph.workflows.studies.spec import HEADS, WITHOUT_KINDS, study_of
from finegraph.workflows.studies.study_folder import COLUMNS, CellResult, StudyFolder
from finegraph.workflows.studies.study_summary import SUMMARY_COLUMNS, summarise_cells
from finegraph.workflows.study import run_study
from training import tiny


@pytest.fixture(scope="module", autouse=True)
def _unchecked():
    """Shapes are checked where heads and losses are tested; here there are too many steps for that."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(autouse=True)
def _no_plots(monkeypatch):
    """Only studies that all tests share are drawn, and those of tests that ask for plots: a study is done sooner."""
    monkeypatch.setattr(running, "draw_study", lambda *_, **__: [])


class Silent:
    """Remembers the cells that it is told of; interrupts the study when so many are done."""

    def __init__(self, stop_at=None):
        self.begun, self.stages, self.notes, self.stop_at = [], set(), [], stop_at

    def stage(self, name, done, total):
        self.stages.add(name)

    def cell(self, text, done, total, seconds_left):
        if done == self.stop_at:
            raise KeyboardInterrupt
        self.begun.append(text)

    def note(self, text):
        self.notes.append(text)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    tiny.register()
    place = tmp_path_factory.mktemp("photos")
    manifest = tiny.make_photos(place, per_class=6, val=4)
    lines = manifest.read_text().splitlines()
    for number, line in enumerate(lines):  # the last two photos of each class are the test photos
        if ",val," in line and any(f"-{last}.png" in line for last in (8, 9)):
            lines[number] = line.replace(",val,", ",test,")
    manifest.write_text("\n".join(lines) + "\n")
    return manifest


def values_for(manifest, **changes):
    usual = {
        "data": str(manifest),
        "graph": str(manifest.parent / "graph.csv"),
        "heads": list(HEADS),
        "amounts": [1, "all"],
        "seeds": 2,
        "settings": 4,
        "network": "tiny",
        "second_network": "tiny_auxiliary",
        "weights": "none",
        "splits": ["test"],
        "kinds": {"colour": ["colour"]},
    }
    if "heads" not in changes:  # discriminant analysis needs two photos of some class
        usual["skip"] = [{"heads": ["sklearn-discriminant"], "amounts": [1]}]
    return {**usual, **changes}


@pytest.fixture(scope="module")
def whole(manifest, tmp_path_factory):
    """A study that ran to its end; not to be changed."""
    study = study_of(values_for(manifest, views=[1, 10], title="Squares"))
    folder = tmp_path_factory.mktemp("studies") / "whole"
    return study, run_study(study, folder, Silent())


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_results_are_tidy(whole):
    study, outcome = whole
    assert outcome.finished
    rows = rows_of(outcome.folder / "results.csv")
    assert tuple(rows[0]) == COLUMNS == (
        "head", "kinds", "amount", "seed", "split", "views", "box", "metric", "value"
    )  # fmt: skip
    keys = [tuple(row[name] for name in COLUMNS[:-1]) for row in rows]
    assert len(set(keys)) == len(keys)
    cells = plan(study)
    metrics = {"top1", "top5", "nll", "kind:colour"}
    steps = sum(cell.head in ("softmax", "softmax-marginal", "independent", "bipartite", "bipartite-two", "ensemble")
                for cell in cells)  # fmt: skip
    assert len(rows) == len(cells) * (2 * len(metrics) + 1) + 2 * steps  # no step of descent trains the others
    assert {row["metric"] for row in rows if row["split"] != "train"} == metrics
    assert {row["metric"] for row in rows if row["split"] == "train"} == {"seconds_fit", "ms_forward", "ms_backward"}
    assert {row["kinds"] for row in rows if row["head"] in WITHOUT_KINDS} == {""}
    assert {row["box"] for row in rows} == {"no"}
    document = json.loads((outcome.folder / "results.json").read_text())
    assert [float(row["value"]) for row in rows] == [row["value"] for row in document["rows"]]
    assert "tries 4 settings" in document["budget"]
    assert all(cell["tried"] == (0 if cell["head"] == "auto" else 4) for cell in document["cells"])
    assert {cell["amount"]: cell["photos"] for cell in document["cells"]} == {"1": 5, "all": 30}


def test_the_summary_is_that_of_a_slow_loop(whole):
    _, outcome = whole
    values = defaultdict(dict)
    for row in rows_of(outcome.folder / "results.csv"):
        key = tuple(row[name] for name in ("head", "kinds", "amount", "split", "views", "box", "metric"))
        values[key][row["seed"]] = float(row["value"])
    summary = rows_of(outcome.folder / "summary.csv")
    assert tuple(summary[0]) == SUMMARY_COLUMNS
    assert len(summary) == len(values)
    for row in summary:
        key = tuple(row[name] for name in ("head", "kinds", "amount", "split", "views", "box", "metric"))
        own = list(values[key].values())
        assert float(row["mean"]) == pytest.approx(sum(own) / len(own))
        assert int(row["draws"]) == len(own) == (1 if key[2] == "all" else 2)
        if key[0] == "softmax":
            assert row["difference"] == row["verdict"] == ""
            continue
        base = values["softmax", "", *key[2:]]
        differences = [value - base[seed] for seed, value in values[key].items()]
        assert float(row["difference"]) == pytest.approx(sum(differences) / len(differences))
        if len(differences) == 2:  # Student's t with one degree of freedom
            half = 12.7062047 * abs(differences[0] - differences[1]) / 2
            if half > 1e-9 or not any(differences):
                assert float(row["difference_high"]) == pytest.approx(float(row["difference"]) + half)
            else:
                assert row["difference_high"] == row["verdict"] == ""
            assert row["interval"] == ("t over draws" if abs(own[0] - own[1]) > 1e-9 else "")
        elif key[-1] in ("seconds_fit", "ms_forward", "ms_backward"):
            assert row["difference_low"] == row["verdict"] == row["interval"] == ""
        else:
            assert float(row["difference_low"]) <= float(row["difference"]) <= float(row["difference_high"])
            assert row["interval"] == "bootstrap over photos"
    rivals = json.loads((outcome.folder / "summary.json").read_text())["rivals"]
    assert {(row["head"], row["against"]) for row in rivals} == {
        ("bipartite-two", "ensemble"), ("bipartite", "softmax-marginal"), ("auto", "sklearn-logistic"),
        ("prototypes", "prototypes-without-graph"), ("prototypes-without-graph", "sklearn-discriminant"),
    }  # fmt: skip


def test_draws_that_are_all_the_same_show_nothing_of_their_chance():
    def result(head, seed, value):
        cell = Cell(head=head, kinds="", amount="1", seed=seed, box=False)
        return CellResult(cell=cell, rows=[("test", 1, "top1", value)], tried=4, chosen=[], photos=9, seconds=1.0)

    def second_row(*values):
        return summarise_cells([result("softmax", seed, 0.5 + seed / 10) for seed in (0, 1)]
                         + [result("ensemble", seed, value) for seed, value in enumerate(values)]).rows[1]  # fmt: skip

    steady = second_row(0.6, 0.7)  # 0.1 more in both draws: t would call that certain
    assert steady["difference"] == pytest.approx(0.1)
    assert steady["difference_low"] is steady["difference_high"] is steady["verdict"] is None
    assert second_row(0.5, 0.6)["verdict"] == "cannot tell"  # the same answers
    assert second_row(0.6, 0.75)["difference_low"] < 0.0 < second_row(0.6, 0.75)["difference_high"]
    level = second_row(0.6, 0.6)
    assert level["sd"] == 0.0
    assert level["low"] is level["high"] is level["interval"] is None


def test_accuracy_by_how_frequent_classes_are(manifest, tmp_path):
    lines = manifest.read_text().splitlines()
    fewer = manifest.parent / "fewer.csv"  # two photos of a class to train on, of the others six
    fewer.write_text("\n".join(line for line in lines if not re.search("grey-[2-5]", line)) + "\n")
    run_study(study_of(values_for(fewer, heads=["softmax"], seeds=1)), tmp_path / "study", Silent())
    few, many = rows_of(tmp_path / "study" / "frequency.csv")
    assert few["amount"] == many["amount"] == "all"  # a draw of as many photos of each class has no such table
    bands = [[row[name] for name in ("photos_from", "photos_to", "classes", "photos")] for row in (few, many)]
    assert bands == [["1", "5", "1", "2"], ["6", "10", "4", "8"]]
    rows = [row for row in rows_of(tmp_path / "study" / "results.csv") if row["metric"] == "top1"]
    whole = next(float(row["value"]) for row in rows if row["amount"] == "all")
    assert (2 * float(few["top1"]) + 8 * float(many["top1"])) / 10 == pytest.approx(whole)
    text = (tmp_path / "study" / "tables.md").read_text()
    assert "## Top-1 accuracy on test, 1 view, all photos, by training photos of the class" in text
    assert "| head (kinds) | 1 to 5: 2 of 1 | 6 to 10: 8 of 4 |" in text


def test_tables_and_plots(whole):
    _, outcome = whole
    text = (outcome.folder / "tables.md").read_text()
    assert text.startswith("# Squares\n")
    for part in (
        "Every head tries 4 settings on the same validation photos",
        "## Top-1 accuracy on test, 1 view, by photos to train on",
        "| head (kinds) | 1 photo per class | all photos |",
        "## Difference to softmax on test, 1 view, in points",
        "## Top-1 accuracy, all photos",
        "| head (kinds) | test, 1 view | test, 10 views |",
        "## Coarse accuracy on test, 1 view, all photos",
        "| bipartite-two (colour) | ensemble |",
        "## Seconds of the last fit",
    ):
        assert part in text
    names = {path.name for path in (outcome.folder / "figures").iterdir()}
    assert names == set(outcome.plots)
    places = ("test", "test-10views")
    drawn = {f"{what}-{place}" for what in ("accuracy", "difference") for place in places} | {"time"}
    assert names == {f"{name}.{ending}" for name in drawn for ending in ("svg", "png")}
    for name in drawn:
        ElementTree.parse(outcome.folder / "figures" / f"{name}.svg")


def test_without_matplotlib_a_study_has_no_plots_until_it_is_there(manifest, tmp_path, monkeypatch):
    study = study_of(values_for(manifest, heads=["softmax"], amounts=[1], seeds=1))
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)
        watcher = Silent()
        outcome = run_study(study, tmp_path / "study", watcher)
    assert outcome.finished
    assert outcome.plots == ()
    assert "plots for print need matplotlib" in watcher.notes[-1]
    monkeypatch.setattr(running, "draw_study", draw_study)
    assert (outcome.folder / "report.html").is_file()
    again = Silent()
    assert run_study(study, tmp_path / "study", again).plots
    assert again.begun == ["summary"]


def test_a_study_that_stopped_goes_on_and_ends_the_same(whole, manifest, tmp_path):
    study = study_of(values_for(manifest, heads=["softmax", "bipartite-two", "ensemble"], amounts=[1]))
    with pytest.raises(KeyboardInterrupt):
        run_study(study, tmp_path / "parts", Silent(stop_at=4))
    assert len(rows_of(tmp_path / "parts" / "results.csv")) == 4 * 7
    watcher = Silent()
    rest = run_study(study, tmp_path / "parts", watcher)
    assert rest.finished
    assert len(watcher.begun) == 6 - 4 + 1  # each cell once, then the summary
    values = {tuple(row.values())[:7]: row["mean"] for row in whole[1].summary.rows if row["split"] != "train"}
    for row in rest.summary.rows:  # the same cells of another study, which was not stopped
        if row["split"] != "train":
            assert row["mean"] == values[tuple(row.values())[:7]]
    again = Silent()
    assert run_study(study, tmp_path / "parts", again).finished
    assert again.begun == ["summary"]
    assert not again.stages  # not even features were looked for


def test_another_study_in_the_folder_is_refused_by_what_changed(whole, manifest, tmp_path):
    _, outcome = whole
    folder = tmp_path / "copy"
    shutil.copytree(outcome.folder, folder)
    changed = study_of(values_for(manifest, views=[1, 10], settings=8, seeds=3))
    with pytest.raises(SettingsError) as caught:
        run_study(changed, folder, Silent())
    assert "settings was 4, now 8" in str(caught.value)
    assert "seeds was [0, 1], now [0, 1, 2]" in str(caught.value)
    assert "heads" not in str(caught.value)
    renamed = study_of(values_for(manifest, views=[1, 10], title="Another title"))
    assert run_study(renamed, folder, Silent()).finished


def test_other_data_under_the_same_name_are_refused(manifest, tmp_path):
    shutil.copytree(manifest.parent, tmp_path / "photos")
    copy = tmp_path / "photos" / manifest.name
    study = study_of(values_for(copy, heads=["softmax"], amounts=[1], seeds=1))
    run_study(study, tmp_path / "study", Silent())
    lines = copy.read_text().splitlines()
    copy.write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(
        SettingsError, match=r"the data are not those that the study began with: split test was 10, now 9"
    ):
        run_study(study, tmp_path / "study", Silent())
    copy.write_text("\n".join(lines) + "\n")
    run_study(study, tmp_path / "study", Silent())
    photo = copy.parent / "grey-0.png"
    photo.write_bytes((copy.parent / "red-large-0.png").read_bytes())
    with pytest.raises(SettingsError, match=r"not those that the study began with: photos was \w{12}, now \w{12};"):
        run_study(study, tmp_path / "study", Silent())


REASON = "this is no photo of a known format (JPEG, PNG, WEBP, GIF, BMP, TIFF, PPM, AVIF, HEIF)"


def test_before_the_first_cell_everything_may_still_change(manifest, tmp_path):
    shutil.copytree(manifest.parent, tmp_path / "photos")
    copy, photo = tmp_path / "photos" / manifest.name, tmp_path / "photos" / "grey-0.png"
    photo.write_bytes(b"no photo")
    values = values_for(copy, heads=["softmax"], amounts=["all"])
    with pytest.raises(PhotoFileError):
        run_study(study_of(values), tmp_path / "study", Silent())
    watcher = Silent()
    outcome = run_study(study_of({**values, "on_bad_file": "skip"}), tmp_path / "study", watcher)
    assert outcome.finished
    [note] = [note for note in watcher.notes if "could not be read" in note]
    assert note == f"1 photo could not be read and was left out: {photo}: {REASON}"
    about = json.loads((tmp_path / "study" / "results.json").read_text())
    assert about["bad_photos"] == [{"path": str(photo), "reason": REASON}]
    assert [cell["photos"] for cell in about["cells"]] == [29]
    assert f"- {note}\n" in (tmp_path / "study" / "tables.md").read_text()
    assert 'on_bad_file = "skip"' in (tmp_path / "study" / "study.toml").read_text()
    with pytest.raises(SettingsError, match="on_bad_file was 'skip', now 'error'"):
        run_study(study_of(values), tmp_path / "study", Silent())


@pytest.mark.parametrize("name", ["results.csv", "cells/old.json"])
def test_a_folder_with_other_things_is_left_alone(manifest, tmp_path, name):
    mine = tmp_path / "mine" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(
        RunFolderError, match=rf"there is something else in it \({name.split('/')[0]}\); choose another"
    ):
        run_study(study_of(values_for(manifest)), tmp_path / "mine", Silent())
    assert [path.name for path in (tmp_path / "mine").rglob("*") if path.is_file()] == [mine.name]
    assert mine.read_text() == "mine"


def test_the_file_of_a_study_and_the_folder_may_be_damaged(whole, tmp_path):
    study, outcome = whole
    shutil.copytree(outcome.folder, tmp_path / "copy")
    (tmp_path / "copy" / "study.toml").write_text('data = "x')
    with pytest.raises(RunFolderError, match=r"study\.toml: expected the study that was begun here, got no TOML"):
        run_study(study, tmp_path / "copy", Silent())
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="file: cannot hold a study: Not a directory"):
        run_study(study, tmp_path / "file", Silent())


def test_two_processes_cannot_work_in_one_folder(whole, manifest):
    study, outcome = whole
    held = StudyFolder(outcome.folder)
    with held.lock(), pytest.raises(RunFolderError, match=r"this study is in use by this process .*choose another"):
        run_study(study, outcome.folder, Silent())


def test_a_cell_under_the_name_of_another_is_noticed(manifest, tmp_path):
    study = study_of(values_for(manifest, heads=["softmax"], amounts=[1]))
    run_study(study, tmp_path / "study", Silent())
    cells = StudyFolder(tmp_path / "study").cells
    shutil.copy(cells / "softmax~~1~0.json", cells / "softmax~~1~1.json")
    with pytest.raises(
        RunFolderError, match=r"expected the cell softmax, 1 photo per class, seed 1, found another one"
    ):
        run_study(study, tmp_path / "study", Silent())


def test_photos_are_held_out_where_there_is_no_split(manifest):
    lines = [re.sub(",(train|val|test),", ",,", line) for line in manifest.read_text().splitlines()]
    plain = manifest.parent / "plain.csv"
    plain.write_text("\n".join(lines) + "\n")
    values = values_for(plain, val_share=0.25, test_share=0.2)
    data = read_study_data(study_of(values), Silent().stage)
    assert (len(data.train), len(data.val), len(data.splits["test"])) == (30, 10, 10)
    parts = [{sample.path for sample in part} for part in (data.train, data.val, data.splits["test"])]
    assert len(set.union(*parts)) == 50
    own = read_study_data(study_of(values_for(manifest, test_share=0.5)), Silent().stage)
    assert len(own.splits["test"]) == 10  # a split that is there is taken


def test_boxes_that_are_not_there_are_not_cut_to(manifest, tmp_path):
    with pytest.raises(DataError, match="expected boxes to cut photos to, but none has one"):
        run_study(study_of(values_for(manifest, box=[False, True])), tmp_path / "study", Silent())
    assert not (tmp_path / "study").exists()


def test_networks_are_looked_for_before_photos(manifest, tmp_path, monkeypatch):
    with pytest.raises(UnknownNameError, match="unknown network 'tny'; did you mean 'tiny'"):
        read_study_data(study_of(values_for(manifest, data="nowhere", network="tny")), Silent().stage)
    package = WeightsPackage("no_such_package", "", "")
    monkeypatch.setitem(PACKAGES, "efficientnet_lite1", package)
    values = values_for(manifest, data="nowhere", weights="default", heads=["softmax", "ensemble"])
    values |= {"network": "efficientnet_lite0", "second_network": "efficientnet_lite1"}
    with pytest.raises(MissingExtraError, match="run: pip install no_such_package"):
        read_study_data(study_of(values), Silent().stage)
    with pytest.raises(DataError, match="there is no such file"):  # one network is enough without such heads
        read_study_data(study_of({**values, "heads": ["softmax"]}), Silent().stage)


def test_a_damaged_cell_is_named_and_made_again_when_removed(manifest, tmp_path):
    study = study_of(values_for(manifest, heads=["softmax", "bipartite"], amounts=[1], seeds=1))
    first = run_study(study, tmp_path / "study", Silent())
    file = StudyFolder(tmp_path / "study").cells / "bipartite~colour~1~0.json"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(RunFolderError, match=r"bipartite~colour~1~0\.json: .*; remove the file to have it made again"):
        run_study(study, tmp_path / "study", Silent())
    file.unlink()
    second = run_study(study, tmp_path / "study", Silent())
    for one, two in zip(first.summary.rows, second.summary.rows, strict=True):
        assert one["split"] == "train" or one == two


def test_two_studies_at_a_time_in_one_folder_are_refused(manifest, tmp_path):
    study = study_of(values_for(manifest, heads=["softmax"], amounts=[1], seeds=1))
    folder = StudyFolder(tmp_path / "study")
    folder.path.mkdir()
    with folder.lock(), pytest.raises(RunFolderError, match="in use"):
        run_study(study, tmp_path / "study", Silent())


def test_draws_are_the_same_for_every_head_and_nested(manifest):
    data = read_study_data(study_of(values_for(manifest)), Silent().stage)
    one, two = (set(data.draw(amount, 0)) for amount in ("1", "2"))
    assert one < two
    assert len(one) == 5
    assert set(data.draw("1", 1)) != one
    half = data.draw("50%", 0)
    assert set(half.counts().values()) == {3}
    assert set(data.draw("1%", 0).counts().values()) == {1}  # never a class without a photo
    assert two < set(half)


def test_photos_with_boxes_are_cut_in_training_and_after(manifest, tmp_path):
    rows = manifest.read_text().splitlines()
    boxed = manifest.parent / "boxed.csv"
    boxed.write_text("\n".join([rows[0] + ",x,y,width,height", *(f"{row},8,8,24,24" for row in rows[1:])]) + "\n")
    study = study_of(values_for(boxed, heads=["softmax"], amounts=["all"], box=[False, True]))
    outcome = run_study(study, tmp_path / "study", Silent())
    nll = {row["box"]: row["mean"] for row in outcome.summary.rows if row["metric"] == "nll" and row["split"] == "test"}
    assert set(nll) == {False, True}
    assert nll[False] != nll[True]
    assert "with box" in (tmp_path / "study" / "tables.md").read_text()


def test_numbers_are_members_of_sets_like_kinds(manifest, tmp_path):
    rows = {fine: {"colour": colour, "price": 2.0 + n} for n, (fine, colour) in enumerate(tiny.CLASSES.items())}
    LabelGraph.from_table(rows, {"price": "number, EUR"}).write(tmp_path / "graph.csv")
    sets = {"all": ["*"], "colour": ["colour"], "price": ["price"]}
    heads = ["softmax", "independent", "bipartite", "bipartite-two", "prototypes", "auto"]
    changes = {"graph": str(tmp_path / "graph.csv"), "kinds": sets, "heads": heads, "amounts": ["all"], "seeds": 1}
    study = study_of(values_for(manifest, **changes))
    data = read_study_data(study, Silent().stage)
    assert data.sets == {"all": ("colour", "price"), "colour": ("colour",), "price": ("price",)}
    assert (data.graph.kinds, data.graph.numbers) == (("colour",), ("price",))
    run_study(study, tmp_path / "study", Silent())
    nll = {}
    for row in rows_of(tmp_path / "study" / "results.csv"):
        if row["metric"] == "nll" and row["split"] == "test":
            nll[row["head"], row["kinds"]] = float(row["value"])
    assert set(nll) == {("softmax", ""), *((head, name) for head in heads[1:] for name in sets)}
    assert nll["prototypes", "all"] != nll["prototypes", "colour"]
    assert nll["independent", "all"] == nll["independent", "colour"] == nll["softmax", ""]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"kinds": {"a": ["color"]}}, UnknownNameError, "unknown kind 'color' in kinds.a; did you mean 'colour'"),
        ({"splits": ["tset"]}, UnknownNameError, "unknown split 'tset'"),
        ({"data": "nowhere"}, DataError, "there is no such file or folder"),
        ({"data": "menu:huge"}, SettingsError, "expected menu:small or menu:full, got 'menu:huge'"),
    ],
)
def test_what_does_not_go_with_the_data(manifest, tmp_path, changes, error, message):
    with pytest.raises(error) as caught:
        run_study(study_of(values_for(manifest, **changes)), tmp_path / "study", Silent())
    assert message in str(caught.value)
    assert not (tmp_path / "study").exists()  # nothing was begun


def test_what_cannot_be_fitted_is_refused_before_anything_is_computed(manifest, tmp_path, monkeypatch):
    study = study_of(values_for(manifest, heads=["softmax", "sklearn-discriminant"], amounts=["1", "10%"]))
    with pytest.raises(SettingsError, match=r"with amounts = '1' every class has one; leave these cells out"):
        run_study(study, tmp_path / "study", Silent())
    monkeypatch.setattr(sklearn_heads, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"sklearn-discriminant needs scikit-learn"):
        run_study(study, tmp_path / "study", Silent())
    assert not (tmp_path / "study").exists()


def test_without_validation_photos_there_is_nothing_to_choose_on(manifest, tmp_path):
    lines = [line for line in manifest.read_text().splitlines() if ",val," not in line]
    bare = manifest.parent / "bare.csv"
    bare.write_text("\n".join(lines) + "\n")
    study = study_of(values_for(bare, splits=["test"]))
    with pytest.raises(SettingsError, match=r"hold some out with val_share = 0\.2"):
        run_study(study, tmp_path / "study", Silent())
    held = read_study_data(study_of(values_for(bare, splits=["test"], val_share=0.34)), Silent().stage)
    assert (len(held.train), len(held.val)) == (20, 10)


def test_the_resolved_study_reads_back(whole):
    study, outcome = whole
    assert study_of(tomllib.loads((outcome.folder / "study.toml").read_text())) == study


def test_cells_can_be_left_out(manifest):
    skip = [{"heads": ["ensemble"]}, {"heads": ["bipartite"], "amounts": [1]}]
    cells = plan(study_of(values_for(manifest, skip=skip)))
    assert {cell.head for cell in cells} == set(HEADS) - {"ensemble"}
    assert {cell.amount for cell in cells if cell.head == "bipartite"} == {"all"}
    with pytest.raises(SettingsError, match=r"skip: unknown heads 'softmx' in this study; did you mean 'softmax'"):
        study_of(values_for(manifest, skip=[{"heads": ["softmx"]}]))
    with pytest.raises(SettingsError, match=r"skip: unknown name 'head'; did you mean 'heads'"):
        study_of(values_for(manifest, skip=[{"head": ["softmax"]}]))


def test_a_metric_that_is_no_number_ends_the_study():
    with pytest.raises(SettingsError, match=r"nll on test with 1 views is inf"):
        running._rows({("test", 1): {"nll": running.np.array([float("inf")])}}, 0.1, None)


def test_heads_are_fitted_to_several_views_of_training_photos_as_train_does(manifest):
    study = study_of(values_for(manifest, train_views=3, heads=["softmax"]))
    features = study_features(study, read_study_data(study, Silent().stage), False, Silent().stage)
    train = features.train
    assert train.views is not None
    assert train.views.shape[1] == 3
    torch.testing.assert_close(train.views.mean(dim=1), train.fine)
    assert not torch.allclose(train.views[:, 1], train.views[:, 0])
    assert features.val.views is None
    drawn = train.at([3, 1])
    assert torch.equal(drawn.views, train.views[[3, 1]])
    with pytest.raises(SettingsError, match="train_views: expected a whole number from 1 to 5, got 6"):
        study_of(values_for(manifest, train_views=6))


@pytest.fixture(scope="module")
def priced(manifest):
    """A study with a number, an ordered kind, and prices that were measured on some photos."""
    rows = {fine: {"colour": colour, "price": 2.0 + n} for n, (fine, colour) in enumerate(tiny.CLASSES.items())}
    types = {"colour": ("blue", "grey", "red"), "price": "number, EUR"}
    LabelGraph.from_table(rows, types).write(manifest.parent / "priced.csv")
    header, *lines = manifest.read_text().splitlines()
    cells = ["9.5" if ",test," in line and "grey" in line else "" for line in lines]
    source = manifest.parent / "measured.csv"
    rows_with_prices = [f"{line},{cell}" for line, cell in zip(lines, cells, strict=True)]
    source.write_text("\n".join([f'{header},"price [number, EUR]"', *rows_with_prices]) + "\n")
    heads = ["softmax", "prototypes", "bipartite"]
    changes = {"graph": str(manifest.parent / "priced.csv"), "kinds": {"all": ["*"]}, "heads": heads}
    return study_of(values_for(source, **changes))


@pytest.fixture(scope="module")
def with_values(priced, tmp_path_factory):
    """That study, run to its end; not to be changed."""
    return run_study(priced, tmp_path_factory.mktemp("values") / "study", Silent())


VALUE_METRICS = {"steps:colour", "error:price", "coverage:price", "spearman:price"}


def test_values_are_measured_as_a_slow_loop_does(priced, with_values):
    data = read_study_data(priced, Silent().stage)
    features = study_features(priced, data, False, Silent().stage)
    fitted = fit_study_head("softmax", data.graph, (), features.drawn(data.draw("all", 0)), features.val, 4)
    error = steps = covered = 0.0
    told, truth = [], []
    answers = fitted.model.answer(features.splits["test", 1].fine, None, 1).log_probs.exp().tolist()
    for sample, probs in zip(data.splits["test"], answers, strict=True):
        prices = [2.0, 3.0, 4.0, 5.0, 6.0]
        own = data.graph.fine_index(sample.label)
        true = 9.5 if sample.label == "grey" else prices[own]
        expected = sum(one * price for one, price in zip(probs, prices, strict=True))
        told.append(expected)
        truth.append(true)
        error += abs(expected - true)
        runs = [(prices[last] - prices[first], first, last) for first in range(5) for last in range(first, 5)
                if sum(probs[first : last + 1]) >= 0.9]  # fmt: skip
        _, first, last = min(runs)
        covered += prices[first] <= true <= prices[last]
        order = ["blue", "grey", "red"]
        colours = [sum(one for fine, one in zip(data.graph.fine, probs, strict=True) if tiny.CLASSES[fine] == colour)
                   for colour in order]  # fmt: skip
        median = 0 if colours[0] >= 0.5 else 1 if colours[0] + colours[1] >= 0.5 else 2
        steps += abs(median - order.index(tiny.CLASSES[sample.label]))
    rows = {row["metric"]: row for row in with_values.summary.rows
            if row["head"] == "softmax" and row["amount"] == "all" and row["split"] == "test"}  # fmt: skip
    assert rows.keys() == {"top1", "top5", "nll", "kind:colour", *VALUE_METRICS}
    assert rows["error:price"]["mean"] == pytest.approx(error / 10, rel=1e-4)
    assert rows["coverage:price"]["mean"] == pytest.approx(covered / 10)
    assert rows["steps:colour"]["mean"] == pytest.approx(steps / 10)
    assert rows["spearman:price"]["mean"] == pytest.approx(stats.spearmanr(told, truth).statistic)


def test_which_way_is_better_for_values(with_values):
    judged = defaultdict(set)
    for row in with_values.summary.rows:
        start, mark, _ = row["metric"].partition(":")
        if not mark or row["head"] == "softmax":
            continue
        assert row["difference"] is not None
        if row["verdict"] in ("better", "worse"):
            judged[start].add((row["difference"] < 0) == (row["verdict"] == "better"))
        if start == "coverage":
            assert row["verdict"] is None
        if start == "spearman" and row["draws"] == 1:  # no mean over photos
            assert row["interval"] is row["low"] is row["verdict"] is None
    assert judged["error"] == {True}
    assert judged.get("kind", {False}) == {False}


def test_tables_and_report_of_values(with_values):
    folder = with_values.folder
    text = (folder / "tables.md").read_text()
    assert "; numbers: price (EUR)\n" in text
    assert "## price, on test, 1 view, all photos\n" in text
    assert "| head (kinds) | mean absolute error, EUR | in 90 % intervals, % | Spearman |" in text
    assert "## Steps off the label of ordered kinds, on test, 1 view, all photos\n" in text
    [place] = study_section(read_study_results(folder))["places"]
    tables = {table["metric"]: table for table in place["tables"]}
    titles = ["colour: steps off", "price: mean absolute error, EUR", "price: in 90 % intervals", "price: Spearman"]
    assert list(tables) == ["top 1", "top 5", "negative log-likelihood", *titles, "colour"]
    assert [tables[title]["unit"] for title in titles] == ["", "", "%", ""]
    assert [bool(tables[title]["note"]) for title in titles] == [False, False, True, False]
    row = next(row for row in with_values.summary.rows if (row["head"], row["amount"], row["metric"])
               == ("bipartite", "all", "error:price"))  # fmt: skip
    cell = next(one for one in tables[titles[1]]["rows"] if one["method"].startswith("bipartite"))["cells"][1]
    assert cell["mean"] == f"{row['mean']:#.3g}"
    assert cell["verdict"] == row["verdict"]
    page = (folder / "report.html").read_text()
    assert all(title in page for title in titles)


def test_a_study_from_before_values_were_measured_is_read(priced, with_values, tmp_path):
    folder = tmp_path / "study"
    shutil.copytree(with_values.folder, folder)
    for name in ("results.csv", "results.json", "summary.csv", "summary.json", "tables.md", "report.html"):
        (folder / name).unlink()
    facts = unseal((folder / "data.json").read_bytes())
    (folder / "data.json").write_bytes(seal({name: one for name, one in facts.items() if name != "values"}))
    for file in (folder / "cells").iterdir():
        content = unseal(file.read_bytes())
        content["rows"] = [row for row in content["rows"] if row[2] not in VALUE_METRICS]
        content["per_photo"] = [one for one in content["per_photo"] if one[2] not in VALUE_METRICS]
        file.write_bytes(seal(content))
    again = Silent()
    outcome = run_study(priced, folder, again)
    assert again.begun == ["summary"]
    assert not VALUE_METRICS & {row["metric"] for row in outcome.summary.rows}
    assert "## price" not in (folder / "tables.md").read_text()
    cell = next(cell for cell in plan(priced) if (cell.head, cell.amount) == ("prototypes", "all"))
    (folder / "cells" / f"{cell.name}.json").unlink()  # this one is measured now
    new = [row for row in run_study(priced, folder, again).summary.rows if row["metric"] in VALUE_METRICS]
    assert {row["head"] for row in new} == {"prototypes"}
    assert {row["difference"] for row in new} == {None}
    table = (folder / "tables.md").read_text().partition("## price, on test")[2].partition("##")[0]
    assert [line.split()[1] for line in table.splitlines() if line.startswith("| ")] == ["head", "prototypes"]
    summary = json.loads((folder / "summary.json").read_text())
    del summary["data"]["numbers"]
    (folder / "summary.json").write_text(json.dumps(summary))
    assert read_study_results(folder).units == {}
    (folder / "summary.json").unlink()
    assert read_study_results(folder).units == {}
    write_report([folder])


def test_other_values_under_the_same_name_are_refused(priced, with_values, tmp_path):
    folder = tmp_path / "study"
    shutil.copytree(with_values.folder, folder)
    source = Path(priced.data)
    text = source.read_text()
    try:
        source.write_text(text.replace(",9.5\n", ",9.0\n"))
        with pytest.raises(SettingsError, match=r"not those that the study began with: values was \w{12}, now \w{12};"):
            run_study(priced, folder, Silent())
    finally:
        source.write_text(text)
