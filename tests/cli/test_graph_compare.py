import json

import pytest

from finegraph import LabelGraph


@pytest.fixture
def menu(tmp_path):
    path = tmp_path / "menu.csv"
    path.write_text("fine,dish\nmapo,tofu\nramen,noodles\nudon,noodles\nsoba,noodles\n")
    return path


def told(tmp_path, *lines):
    path = tmp_path / "comparisons.csv"
    path.write_text("\n".join(["kind,more,less,who", *lines]) + "\n")
    return path


def test_comparisons_become_numbers_of_the_graph(finegraph, tmp_path, menu):
    given = told(tmp_path, "heat,mapo,ramen,ann", "heat,ramen,udon,ann", "heat,mapo,ramen,ben", "heat,ramen,mapo,cid")
    outcome = finegraph("graph", "compare", given, "--graph", menu, "-o", tmp_path / "menu2.csv")
    assert outcome.code == 0
    assert "heat: 4 comparisons of 3 fine labels, 1 fine label unknown" in outcome.out
    assert "compared both ways: mapo has more than ramen (2 to 1)" in outcome.out
    graph = LabelGraph.read(tmp_path / "menu2.csv")
    assert graph.only(graph.kinds) == LabelGraph.read(menu)
    heat = graph.number("heat")
    assert heat.values[0] > heat.values[1] > heat.values[2]
    assert heat.known.tolist() == [True, True, True, False]


def test_circles_groups_and_json(finegraph, tmp_path, menu):
    given = told(
        tmp_path, "heat,mapo,ramen,", "heat,ramen,udon,", "heat,udon,mapo,", "mass,mapo,udon,", "mass,ramen,soba,"
    )
    outcome = finegraph("graph", "compare", given, "--graph", menu)
    assert "a cycle: mapo > ramen > udon > mapo" in outcome.out
    assert "2 groups that no comparison links" in outcome.out
    document = json.loads(finegraph("graph", "compare", given, "--graph", menu, "--json").out)
    assert [kind["name"] for kind in document["kinds"]] == ["heat", "mass"]
    assert document["kinds"][0]["conflicts"]["circles"] == [["mapo", "ramen", "udon"]]


def test_faults_and_names_that_are_taken(finegraph, tmp_path, menu):
    outcome = finegraph("graph", "compare", told(tmp_path, "heat,mapo,rmaen,"), "--graph", menu)
    assert outcome.code != 0
    assert "comparisons.csv:2: column 'less': value 'rmaen'" in outcome.err
    outcome = finegraph("graph", "compare", told(tmp_path, "dish,mapo,ramen,"), "--graph", menu)
    assert "comparisons.csv:2: column 'kind': value 'dish': the graph has a kind of labels of this name" in outcome.err


def test_photos_stand_for_their_fine_labels(finegraph, tmp_path, menu):
    (tmp_path / "photos.csv").write_text("path,label\n1.jpg,mapo\n2.jpg,ramen\n")
    given = told(tmp_path, "heat,1.jpg,2.jpg,")
    outcome = finegraph("graph", "compare", given, "--graph", menu, "--photos", tmp_path / "photos.csv", "--json")
    assert [one["label"] for one in json.loads(outcome.out)["kinds"][0]["order"]] == ["mapo", "ramen"]


def test_values_that_the_graph_has_stay(finegraph, tmp_path):
    menu = tmp_path / "menu.csv"
    menu.write_text('fine,"heat [number, SHU]"\nmapo,9\nramen,1 +- 0.5\nudon,\nsoba,\n')
    given = told(tmp_path, "heat,mapo,udon,ann", "heat,udon,ramen,ann")
    outcome = finegraph("graph", "compare", given, "--graph", menu, "-o", tmp_path / "menu2.csv")
    assert "value, SHU" in outcome.out
    heat = LabelGraph.read(tmp_path / "menu2.csv").number("heat")
    assert (heat.values[:2].tolist(), heat.unit, heat.known.tolist()) == ([9, 1], "SHU", [True, True, True, False])
    assert 1 < heat.values[2] < 9


def test_an_ordered_kind_stays_one_and_gets_labels(finegraph, tmp_path):
    menu = tmp_path / "menu.csv"
    menu.write_text("fine,heat [mild < medium < hot]\nmapo,hot\nramen,mild\nudon,\nsoba,medium\nlaksa,mild\n")
    votes = [f"heat,udon,{other},{who}" for other in ("mapo", "soba") for who in "abcdef"]
    votes += [f"heat,laksa,{other},{who}" for other in ("mapo", "soba", "ramen") for who in "abcdef"]
    outcome = finegraph("graph", "compare", told(tmp_path, *votes), "--graph", menu, "-o", tmp_path / "menu2.csv")
    assert outcome.code == 0, outcome.err
    assert "labels that were unknown: udon 'hot'" in outcome.out
    assert "laksa is 'mild', but comparisons put it at 'hot'" in outcome.out
    assert "against known values: laksa (step 1) is said to have more than mapo (step 3)" in outcome.out
    graph = LabelGraph.read(tmp_path / "menu2.csv")
    assert graph.numbers == ()
    assert [graph.labels("heat")[label] for label in graph.parents("heat")] == ["hot", "mild", "hot", "medium", "mild"]


def test_comparisons_against_known_values_are_reported(finegraph, tmp_path):
    menu = tmp_path / "menu.csv"
    menu.write_text('fine,"price [number, EUR]"\nmapo,8.6\nramen,10.7\nudon,\n')
    outcome = finegraph("graph", "compare", told(tmp_path, "price,mapo,ramen,ann"), "--graph", menu)
    assert "price: 1 comparison of 2 fine labels" in outcome.out
    assert "against known values: mapo (8.6 EUR) is said to have more than ramen (10.7 EUR)" in outcome.out
