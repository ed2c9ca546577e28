"""Whole studies on tiny photos: every head, each cell once, going on, and what is refused."""

import csv
import json
import shutil
import tomllib
from collections import defaultdict
from xml.etree import ElementTree

import jaxtyping
import pytest

from finegraph.errors import DataError, RunFolderError, SettingsError, UnknownNameError
from finegraph.workflows.study import run as running
from finegraph.workflows.study.cells import plan
from finegraph.workflows.study.folder import COLUMNS, StudyFolder
from finegraph.workflows.study.photos import read_study_data
from finegraph.workflows.study.run import run_study
from finegraph.workflows.study.spec import HEADS, study_of
from finegraph.workflows.study.summary import SUMMARY_COLUMNS
from training import tiny


@pytest.fixture(scope="module", autouse=True)
def _unchecked():
    """Shapes are checked where heads and losses are tested; here there are too many steps for that."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


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
    assert len(rows) == len(cells) * (2 * len(metrics) + 3)
    assert {row["metric"] for row in rows if row["split"] != "train"} == metrics
    assert {row["metric"] for row in rows if row["split"] == "train"} == {"seconds_fit", "ms_forward", "ms_backward"}
    assert {row["kinds"] for row in rows if row["head"] in ("softmax", "ensemble")} == {""}
    assert {row["box"] for row in rows} == {"no"}
    document = json.loads((outcome.folder / "results.json").read_text())
    assert [float(row["value"]) for row in rows] == [row["value"] for row in document["rows"]]
    assert "tries 4 settings" in document["budget"]
    assert all(cell["tried"] == 4 for cell in document["cells"])
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
            assert float(row["difference_high"]) == pytest.approx(float(row["difference"]) + half)
            assert row["interval"] == "t over draws"
        elif key[-1] in ("seconds_fit", "ms_forward", "ms_backward"):
            assert row["difference_low"] == row["verdict"] == row["interval"] == ""
        else:
            assert float(row["difference_low"]) <= float(row["difference"]) <= float(row["difference_high"])
            assert row["interval"] == "bootstrap over photos"
    rivals = json.loads((outcome.folder / "summary.json").read_text())["rivals"]
    assert {(row["head"], row["against"]) for row in rivals} == {
        ("bipartite-two", "ensemble"), ("bipartite", "softmax-marginal"),
    }  # fmt: skip


def test_tables_and_figures(whole):
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
    assert names == set(outcome.figures)
    places = ("test", "test-10views")
    drawn = {f"{what}-{place}" for what in ("accuracy", "difference") for place in places} | {"time"}
    assert names == {f"{name}.{ending}" for name in drawn for ending in ("svg", "png")}
    for name in drawn:
        ElementTree.parse(outcome.folder / "figures" / f"{name}.svg")


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


def test_a_figure_that_is_no_number_ends_the_study():
    with pytest.raises(SettingsError, match=r"nll on test with 1 views is inf"):
        running._rows({("test", 1): {"nll": running.np.array([float("inf")])}}, 0.1, None)
