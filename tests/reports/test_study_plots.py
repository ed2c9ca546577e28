"""The plots of a study: which there are, that they can be told apart, and that the same rows give the same file."""

from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from finegraph.reports.plots.study_plots import LOOKS, draw_study
from finegraph.reports.study_results import StudyResults, StudyRow
from finegraph.reports.study_section import study_section


def row(
    head, amount, mean, difference=None, *, kinds="", split="test", views=1, box=False, metric="top1", verdict=None
):
    sure = None if difference is None else 0.01
    return {
        "head": head, "kinds": kinds, "amount": amount, "split": split, "views": views, "box": box, "metric": metric,
        "mean": mean, "sd": 0.01, "draws": 5, "low": mean - 0.02, "high": mean + 0.02, "interval": "t over draws",
        "difference": difference, "difference_low": difference and difference - sure,
        "difference_high": difference and difference + sure, "verdict": verdict,
    }  # fmt: skip


ROWS = [
    row("softmax", "1", 0.4),
    row("softmax", "20%", 0.6),
    row("bipartite", "1", 0.45, 0.05, kinds="dish", verdict="better"),
    row("bipartite", "20%", 0.61, 0.005, kinds="dish", verdict="cannot tell"),
    row("bipartite", "1", 0.46, 0.06, kinds="dish & <b>", verdict="better"),
    row("softmax", "1", 0.2, metric="seconds_fit", split="train"),
    row("bipartite", "1", 0.3, 0.1, kinds="dish", metric="seconds_fit", split="train"),
]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plots")
    return folder, draw_study(ROWS, folder, title="A menu")


def test_there_is_a_figure_for_each_question(drawn):
    folder, names = drawn
    assert sorted(names) == sorted(
        f"{name}.{ending}" for name in ("accuracy-test", "difference-test", "time") for ending in ("svg", "png")
    )
    for name in names:
        if name.endswith(".svg"):
            ElementTree.parse(folder / name)
        else:
            pixels = np.asarray(Image.open(folder / name).convert("L"))
            assert pixels.std() > 5  # something is drawn
            assert min(pixels.shape) > 200
            edges = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
            assert edges.min() > 200  # and nothing is cut off at an edge


@pytest.mark.deep
def test_the_same_rows_give_the_same_file(drawn, tmp_path):
    folder, _ = drawn
    draw_study(ROWS, tmp_path, title="A menu")
    assert (tmp_path / "accuracy-test.svg").read_bytes() == (folder / "accuracy-test.svg").read_bytes()


@pytest.mark.deep
def test_each_way_of_measuring_has_its_own_figure(tmp_path):
    rows = [row("softmax", "all", 0.5, split="wild photos", views=10), row("softmax", "all", 0.6, box=True)]
    assert set(draw_study(rows, tmp_path)) == {
        "accuracy-wild_photos-10views.svg", "accuracy-wild_photos-10views.png", "accuracy-test-box.svg",
        "accuracy-test-box.png",
    }  # fmt: skip


def test_heads_can_be_told_apart_without_colour():
    for one, two in combinations(LOOKS.values(), 2):
        assert one.marker != two.marker
        assert (one.line, one.colour) != (two.line, two.colour)
        light = [0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in (_rgb(look.colour) for look in (one, two))]
        assert one.hatch != two.hatch or abs(light[0] - light[1]) > 0.1


def _rgb(colour):
    return [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]


def test_times_are_shown_where_most_methods_have_one():
    """With all photos a study may leave methods out; their times are then those of the amount before."""
    rows = [
        StudyRow(
            {"head": head, "kinds": "", "amount": amount, "split": "train", "views": "1", "box": "no", "interval": "",
             "metric": "seconds_fit", "verdict": ""},
            {**dict.fromkeys(("sd", "low", "high", "difference", "difference_low", "difference_high")), "mean": mean},
        )
        for head, amount, mean in (("softmax", "3", 1.0), ("bipartite", "3", 2.0), ("softmax", "all", 9.0))
    ]  # fmt: skip
    [panel] = study_section(StudyResults("x", tuple(rows), "A menu"))["times"]
    assert panel["title"] == "Seconds of a whole fit, 3 photos per class"
    assert "bipartite" in panel["chart"]
