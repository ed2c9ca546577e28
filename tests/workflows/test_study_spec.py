"""Studies as files: what is read, every fault at once, and the shipped ones."""

from dataclasses import fields
from pathlib import Path

import pytest

from finegraph.errors import SettingsError
from finegraph.workflows.studies.grid import Cell, Estimate, amount_text, plan
from finegraph.workflows.studies.spec import HEADS, Study, read_study, study_of

STUDIES = sorted((Path(__file__).parents[2] / "studies").glob("*.toml"))


@pytest.mark.parametrize("file", STUDIES, ids=lambda file: file.stem)
def test_shipped_studies_are_read(file):
    study = read_study(file)
    assert study.title
    assert "softmax" in study.heads
    assert plan(study)
    opening = file.read_text(encoding="utf-8").split("\n\n")[0]
    assert all(line.startswith("#") for line in opening.splitlines())
    assert f"finegraph study studies/{file.name}" in opening  # the command, the time, and what to expect
    assert "time:" in opening
    assert "expect:" in opening


def test_all_that_is_asked_for_is_shipped():
    assert {file.stem for file in STUDIES} == {
        "stanford-cars", "cub", "car-333", "food-975", "menu-small", "menu-full", "grocery", "grocery-fine-tuning",
        "grocery-few-photos", "own-folder",
    }  # fmt: skip


def test_every_name_is_documented():
    text = (Path(__file__).parents[2] / "docs" / "study.md").read_text(encoding="utf-8")
    for name in [one.name for one in fields(Study)] + list(HEADS) + [file.stem for file in STUDIES]:
        assert f"`{name}`" in text, name


def test_forms_of_amounts_seeds_and_lists():
    study = study_of({"data": "x", "amounts": [1, "5", "20 %", "100%"], "seeds": 3, "box": True, "splits": "wild"})
    assert study.amounts == ("1", "5", "20%", "all")
    assert study.seeds == (0, 1, 2)
    assert study.box == (True,)
    assert study.splits == ("wild",)
    assert study.settings == 28
    assert study_of({"data": "x", "tune": "all"}).settings == 1
    assert study_of(study.to_dict()) == study


def test_every_fault_comes_at_once():
    with pytest.raises(SettingsError) as caught:
        study_of(
            {
                "head": ["softmax"],
                "heads": ["softmax", "bipartit"],
                "amounts": [0],
                "seeds": [1, 1],
                "views": [2],
                "kinds": ["dish"],
                "val_share": 1,
            },
            "menu.toml",
        )
    text = str(caught.value)
    assert text.startswith("menu.toml: 8 faults in the study:")
    for part in (
        "unknown setting 'head'; did you mean 'heads'",
        "unknown head 'bipartit'; did you mean 'bipartite'",
        'amounts: expected photos per class (5), a share ("20%") or "all", got 0',
        "seeds: 1 is given twice",
        "views: expected 1, 10 or [1, 10], got [2]",
        "kinds: expected a table of named sets",
        "val_share: expected a number of at least 0 and below 1, got 1",
        "data: expected the photos",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"settings": 6}, "settings: expected a multiple of 4"),
        ({"training": {"epochs": 3}}, 'epochs: no effect with tune = "head"'),
        ({"tune": "all", "heads": ["ensemble"]}, "'ensemble' cannot be trained with its network"),
        ({"tune": "all", "training": {"epoch": 3}}, "did you mean 'epochs'"),
        ({"tune": "all", "training": {"seed": 3}}, "seed is decided by the study"),
        ({"tune": "all", "settings": 4}, "each head has 1, its recipe; got 4"),
        ({"heads": ["ensemble"], "second_network": "efficientnet_lite0"}, "expected another network"),
        ({"splits": ["train"]}, "'train' is the split to train on"),
        ({"kinds": {"a/b": ["dish"]}}, "in the name of a set, got 'a/b'"),
        ({"amounts": []}, "amounts: expected at least one, got an empty list"),
        ({"amounts": ["0%"]}, "amounts: expected photos per class"),
        ({"box": [1]}, "box: expected true, false or"),
        ({"seeds": 0}, "seeds: expected at least 1"),
        ({"on_bad_file": "ignore"}, "on_bad_file: expected error or skip"),
    ],
)
def test_what_is_refused(values, message):
    with pytest.raises(SettingsError) as caught:
        study_of({"data": "x", **values})
    assert message in str(caught.value)


def test_files_that_are_none(tmp_path):
    with pytest.raises(SettingsError, match=r"gone\.toml: there is no such file"):
        read_study(tmp_path / "gone.toml")
    file = tmp_path / "bad.toml"
    file.write_text("data = ")
    with pytest.raises(SettingsError, match="this is not TOML"):
        read_study(file)
    file.write_text('data = "placeholder"\n')
    assert read_study(file, data="photos").data == "photos"


def test_the_plan_has_each_cell_once():
    study = Study(
        data="x", heads=tuple(HEADS), kinds={"a": ("a",), "both": ("a", "b")}, amounts=("1", "all"), seeds=(0, 1)
    )
    cells = plan(study)
    assert len(set(cells)) == len(cells) == 3 * (5 + 6 * 2)  # two draws of one photo, one of all
    assert len({cell.name for cell in cells}) == len(cells)
    assert {cell.kinds for cell in cells if cell.head in ("softmax", "ensemble")} == {""}
    assert [cell.amount for cell in cells] == ["1"] * 34 + ["all"] * 17
    fine_tuned = Study(data="x", amounts=("all",), seeds=(0, 1), tune="all", settings=1)
    assert {cell.seed for cell in plan(fine_tuned)} == {0, 1}  # chance is in the training


def test_how_cells_read():
    assert Cell(head="bipartite", kinds="both kinds", amount="20%", seed=1, box=True).name == (
        "bipartite~both_kinds~20pc~1~box"
    )
    assert [amount_text(one) for one in ("1", "5", "20%", "all")] == [
        "1 photo per class", "5 photos per class", "20% of the photos", "all photos",
    ]  # fmt: skip


def test_the_time_that_is_left_follows_what_was_measured():
    cells = [Cell(head=head, kinds="", amount=amount, seed=0, box=False) for amount in ("1", "5", "all")
             for head in ("softmax", "independent")]  # fmt: skip
    estimate = Estimate(cells, {"1": 10, "5": 10, "all": 10})
    assert estimate.seconds_left is None
    estimate.add(cells[0], 4.0)
    assert estimate.seconds_left == pytest.approx(2 * 4.0 + 3 * 1.8 * 4.0)  # the other head by the table of costs
    estimate.add(cells[1], 100.0)
    assert estimate.seconds_left == pytest.approx(2 * 4.0 + 2 * 100.0)  # and by its own time as soon as it has one
    for cell in cells[2:]:
        estimate.add(cell, 1.0)
    assert estimate.seconds_left == 0.0


def test_sets_whose_cells_would_be_one_file_are_refused():
    for alike in ("both_of_it", "Both of it"):
        with pytest.raises(SettingsError, match=rf"kinds: 'both of it' and '{alike}' are too alike"):
            study_of({"data": "x", "kinds": {"both of it": ["a"], alike: ["b"]}})
    with pytest.raises(SettingsError, match="at most 60 letters"):
        study_of({"data": "x", "kinds": {"a" * 61: ["a"]}})


def test_photos_held_out_to_measure_on_are_measured_on():
    assert study_of({"data": "x", "test_share": 0.2}).test_share == 0.2
    with pytest.raises(SettingsError, match=r"test_share: no effect, as splits has no 'test'"):
        study_of({"data": "x", "test_share": 0.2, "splits": ["wild"]})
