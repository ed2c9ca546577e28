"""The page of a report holds the names that it shows, and says of each photo what the evaluation says of it."""

import base64
import json
from dataclasses import replace

import numpy as np
import pytest

from finegraph.graph import LabelGraph
from finegraph.reports.orders import first_parents, order_by_confusion
from finegraph.reports.page.page_data import page_data
from finegraph.reports.page.shown_labels import ShownLabels
from finegraph.reports.report_page import report_page
from finegraph.reports.run_results import read_run
from reports.made_up_runs import make_run

HEATS = [f"heat {number}" for number in range(40)]
TRAINED = (3, 399)


def graph_of(fine):
    """A graph with an ordered kind, a kind with a label for every other fine label, and a binary one."""
    table = {
        f"dish {number}": {"heat": HEATS[number * 7 % 40], "family": f"family {number // 2}", "with tofu": number == 1}
        for number in range(fine)
    }
    return LabelGraph.from_table(table, {"heat": tuple(HEATS)})


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs with many labels, few photos, two labels with training photos, and sure answers that are ranges."""
    folder = tmp_path_factory.mktemp("runs")
    graph = graph_of(800)
    found = []
    for seed, name in enumerate(("one", "two")):
        run = read_run(make_run(folder / name, graph, 25, seed=seed, similar=False), name)
        arrays = {key: values.copy() for key, values in run.arrays.items()}
        arrays["sure_level"][:3] = graph.kinds.index("heat") + 1
        arrays["sure_low"][:3], arrays["sure_high"][:3] = (2, 11, 20), (9, 19, 39)
        arrays["fine"][5] = -100
        trained = np.zeros(len(graph), dtype=np.int64)
        trained[list(TRAINED)] = (4, 9)
        training = {**run.about["training"], "fine": trained.tolist()}
        found.append(replace(run, arrays=arrays, about={**run.about, "training": training}))
    return found


def unpacked(column):
    """The numbers of a column, as the page reads them."""
    form = {"i1": "<i1", "i2": "<i2", "i4": "<i4", "f4": "<f4"}[column["form"]]
    return np.frombuffer(base64.b64decode(column["base64"]), form)


def named(labels, numbers):
    """Labels by name; None for those that are not known."""
    return [labels[number] if number >= 0 else None for number in np.asarray(numbers).reshape(-1).tolist()]


def test_photos_are_told_as_before(runs):
    data, graph = page_data(runs, 0, 1), runs[0].graph
    assert named(data["fine"], unpacked(data["truth"])) == named(graph.fine, runs[0].arrays["fine"])
    for each, run in zip(data["runs"], runs, strict=True):
        arrays = run.arrays
        assert named(data["fine"], unpacked(each["predicted"])) == named(graph.fine, arrays["predicted"])
        assert named(data["fine"], unpacked(each["top"])) == named(graph.fine, arrays["top_labels"])
        sure = unpacked(each["sure"]["label"])
        for row, level in enumerate(arrays["sure_level"].tolist()):
            ends = [arrays["sure_low"][row], arrays["sure_high"][row]]
            assert (str(row) in each["sure"]["ranges"]) == (not np.isnan(ends[0]))
            if str(row) in each["sure"]["ranges"]:
                shown = [data["kinds"][level - 1]["labels"][int(end)] for end in each["sure"]["ranges"][str(row)]]
                assert shown == [HEATS[int(end)] for end in ends]
            elif level >= 0:
                of_page = data["fine"] if level == 0 else data["kinds"][level - 1]["labels"]
                labels = graph.fine if level == 0 else graph.labels(graph.kinds[level - 1])
                assert of_page[sure[row]] == labels[arrays["sure_label"][row]]
        for place, (own, kind) in enumerate(zip(each["kinds"], data["kinds"], strict=True)):
            labels = graph.labels(kind["name"])
            answered = named(kind["labels"], unpacked(own["predicted"]))
            assert answered == named(labels, arrays["kinds_predicted"][:, place])
    for place, kind in enumerate(data["kinds"]):
        labels = graph.labels(kind["name"])
        assert named(kind["labels"], unpacked(kind["truth"])) == named(labels, runs[0].arrays["kinds_true"][:, place])
        parents = dict(zip(graph.fine, named(labels, first_parents(graph, kind["name"])), strict=True))
        assert named(kind["labels"], unpacked(kind["parents"])) == [parents[fine] for fine in data["fine"]]
        assert sorted(kind["labels"], key=labels.index) == kind["labels"]


def test_labels_that_nothing_shows_are_left_out(runs):
    data, graph = page_data(runs, 0, 1), runs[0].graph
    used = {graph.fine[number] for number in TRAINED}
    for run in runs:
        fine = run.arrays["fine"]
        for numbers in (fine[fine >= 0], run.arrays["predicted"], run.arrays["top_labels"]):
            used |= set(named(graph.fine, numbers))
    assert set(data["fine"]) >= used
    assert len(data["fine"]) < len(graph) / 2
    assert data["leftOut"] == len(graph) - len(data["fine"])
    trained = dict(zip(data["fine"], unpacked(data["train"]).tolist(), strict=True))
    assert {fine: count for fine, count in trained.items() if count} == {"dish 3": 4, "dish 399": 9}
    kinds = {kind["name"]: kind["labels"] for kind in data["kinds"]}
    assert len(kinds["family"]) < len(data["fine"])
    assert kinds["with tofu"] == ["no", "yes"]


def test_orders_are_those_of_all_labels_without_what_is_left_out(runs):
    data, graph = page_data(runs, 0, 1), runs[0].graph
    truth = np.where(runs[0].arrays["fine"] < 0, -1, runs[0].arrays["fine"])
    whole = named(graph.fine, order_by_confusion(truth, runs[0].arrays["predicted"], len(graph)))
    shown = named(data["fine"], unpacked(data["orders"]["confusion"]))
    assert shown == [name for name in whole if name in data["fine"]]
    assert sorted(unpacked(data["orders"]["coarse"]).tolist()) == list(range(len(data["fine"])))


def test_the_size_of_a_page_follows_its_photos(runs, tmp_path):
    sizes = []
    for fine in (2_000, 8_000):
        run = read_run(make_run(tmp_path / str(fine), graph_of(fine), 20, similar=False), "run")
        unseen = {**run.about["training"], "fine": [0] * fine}
        run = replace(run, about={**run.about, "training": unseen})
        sizes.append((len(json.dumps(page_data([run], 0, 0))), len(report_page([run]))))
    assert all(many < 1.3 * few for few, many in zip(*sizes, strict=True)), sizes


def test_labels_get_new_numbers_in_their_order():
    shown = ShownLabels.of(7, [np.array([5, -1, 2]), np.array([[2.0, np.nan, np.inf]])])
    assert len(shown) == 2
    assert shown.names("abcdefg") == ["c", "f"]
    assert shown.renumbered(np.array([[5, -1], [-100, 2]])).tolist() == [[1, -1], [-100, 0]]
    assert shown.ordered(np.array([6, 5, 4, 3, 2, 1, 0])).tolist() == [1, 0]
    nothing = ShownLabels.of(0, [np.array([], dtype=np.int64)])
    assert nothing.renumbered(np.array([-1])).tolist() == [-1]
