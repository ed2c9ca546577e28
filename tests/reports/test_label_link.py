"""From a report into labelling: the command for runs with a graph file, a store, or neither."""

from dataclasses import replace

import pytest

from finegraph.reports.report_page import label_link
from finegraph.reports.run_results import read_run
from reports.made_up_runs import made_up_graph, make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return read_run(make_run(tmp_path_factory.mktemp("runs") / "run", made_up_graph(), 24), "run")


def link(run, data="photos", model="runs/menu", **settings):
    return label_link(replace(run, result=replace(run.result, data=data, model=model), settings=settings))


def test_a_graph_file_or_a_store(run):
    assert link(run, graph="my menu.csv")["command"] == "finegraph label 'my menu.csv' --data photos"
    assert link(run, graph="menu.db@120")["command"] == "finegraph label menu.db --data photos"
    assert link(run, graph="menu@home.csv")["command"] == "finegraph label menu@home.csv --data photos"


@pytest.mark.parametrize("model", ["runs/menu", "runs/menu/model"])
def test_without_a_graph_file_that_of_the_run_is_copied(run, model):
    assert link(run, model=model)["command"].splitlines() == [
        "cp runs/menu/evaluations/test/graph.json labels.json",
        "finegraph label labels.json --data photos",
    ]


def test_without_a_source_there_is_no_command(run):
    assert link(run, data=None)["command"] is None


def test_where_the_class_of_a_photo_is_said(run):
    assert "move the file to the folder of the right one" in link(run)["advice"]
    assert "change the row of this photo in menu.csv" in link(run, data="menu.csv")["advice"]
    assert "correct the lists of the data set" in link(run, data="cub:birds")["advice"]


def test_photos_are_named_as_in_the_labelling_page(run):
    assert link(run)["folder"] == "photos/"
    for folder, expected in (("/data/photos", ""), ("/elsewhere", None), (None, None)):
        odd = replace(run, about={**run.about, "source_folder": folder})
        assert link(odd)["folder"] == expected
