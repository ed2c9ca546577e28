import csv
import os

import paper_layouts
import pytest

import taught_classifier
import tiny_classifier
from finegraph import LabelGraph
from finegraph.errors import DataError, GraphFileError, InputError, ModelFolderError
from finegraph.graph.kind_worth import kind_worth
from finegraph.labelling import LabelStore
from finegraph.training.settings import TrainSettings
from finegraph.workflows.graph import check_graph, show_graph
from finegraph.workflows.labels.graph_sources import read_graph_of
from finegraph.workflows.training.training_data import read_training_data, with_whole_paths


@pytest.fixture
def menu_file(tmp_path):
    path = tmp_path / "menu.csv"
    path.write_text("fine,dish,spicy\nx,a,yes\ny,a,no\nz,b,\n", encoding="utf-8")
    return path


def test_check(menu_file):
    result = check_graph(menu_file)
    assert (result.file, result.fine, result.kinds, result.errors) == (str(menu_file), 3, 2, 0)
    assert result.warnings == len(result.findings)


def test_check_returns_faults(menu_file):
    menu_file.write_text("fine,dish\nx,a\nx,b\n", encoding="utf-8")
    result = check_graph(menu_file)
    assert (result.fine, result.kinds, result.errors, result.warnings) == (None, None, 1, 0)
    assert result.findings[0].line == 3


def test_check_without_a_file(tmp_path):
    with pytest.raises(GraphFileError, match="there is no such file") as caught:
        check_graph(tmp_path / "none.csv")
    assert [fault.rule for fault in caught.value.faults] == ["missing-file"]


def test_show(menu_file):
    view = show_graph(str(menu_file), ["spicy"])
    assert (view.file, view.picture) == (str(menu_file), None)
    assert [column.name for column in view.summary.columns] == ["spicy"]


def test_show_draws_the_chosen_kinds(menu_file, tmp_path):
    target = tmp_path / "menu.svg"
    view = show_graph(menu_file, ["spicy"], target)
    assert view.picture == str(target)
    text = target.read_text(encoding="utf-8")
    assert "1 of 2 kinds and groups" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["menu.csv", "menu.svg"]


def test_picture_is_replaced_but_never_the_graph(menu_file, tmp_path):
    target = tmp_path / "menu.svg"
    target.write_text("old", encoding="utf-8")
    show_graph(menu_file, svg=target)
    assert target.read_text(encoding="utf-8").startswith("<svg")
    link = tmp_path / "link.svg"
    link.symlink_to(menu_file)
    with pytest.raises(InputError, match="would replace the graph file itself"):
        show_graph(menu_file, svg=link)
    assert menu_file.read_text(encoding="utf-8").startswith("fine,")


# ---- graphs that are in no graph file --------------------------------------------------------------------------------


@pytest.fixture
def places(tmp_path, menu_file, monkeypatch):
    """Everything that has a graph, by name, with how many fine labels and kinds it has."""
    tiny_classifier.register(monkeypatch)
    folder = tmp_path / "photos"
    for label in ("x", "y"):
        (folder / label).mkdir(parents=True)
        tiny_classifier.picture().save(folder / label / "1.png")
    (tmp_path / "images.csv").write_text("path,label,dish\nphotos/x/1.png,x,a\nphotos/y/1.png,y,b\n", encoding="utf-8")
    grocery = tmp_path / "grocery"
    grocery.mkdir()
    header = "Class Name (str),Class ID (int),Coarse Class Name (str),Coarse Class ID (int)\n"
    (grocery / "classes.csv").write_text(header + "Royal-Gala,0,Apple,0\nLeek,1,Leek,1\n", encoding="utf-8")
    for split in ("train", "val", "test"):
        lines = f"{split}/Fruit/Apple/Royal-Gala/1.jpg, 0, 0\n{split}/Vegetables/Leek/1.jpg, 1, 1\n"
        (grocery / f"{split}.txt").write_text(lines, encoding="utf-8")
    with LabelStore.create(tmp_path / "menu.db") as store:
        store.import_graph(LabelGraph.read(menu_file), person="ann", edit_id="1")
        store.decide("z", "spicy", "yes", person="ann", edit_id="2", seen=0)
    model = tiny_classifier.classifier()
    model.save(tmp_path / "run" / "model")
    (tmp_path / "run" / "config.toml").write_bytes(b"")
    cub, cars = paper_layouts.cub(tmp_path / "cub"), paper_layouts.cars(tmp_path / "cars")
    size = (len(model.graph), len(model.graph.kinds))
    return {
        str(menu_file): (3, 2),
        str(folder): (2, 0),
        f"folder:{folder}": (2, 0),
        str(tmp_path / "images.csv"): (2, 1),
        cub: (len(paper_layouts.BIRDS), 3),
        cars: (196, 4),
        cub.replace("cub:", "cub+orders:"): (len(paper_layouts.BIRDS), 3),
        cars.replace("cars:", "cars+numbers:"): (196, 3),
        f"grocery:{grocery}": (2, 2),
        str(tmp_path / "menu.db"): (3, 2),
        f"{tmp_path / 'menu.db'}@1": (3, 2),
        f"sqlite:///{tmp_path / 'menu.db'}": (3, 2),
        str(tmp_path / "run"): size,
        str(tmp_path / "run" / "model"): size,
    }


def write_rows(path, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


@pytest.mark.deep
def test_whatever_has_a_graph_is_checked_shown_and_trained_with(places, tmp_path):
    photos = tmp_path / "two.csv"
    for place, (fine, kinds) in places.items():
        checked = check_graph(place)
        assert (checked.file, checked.fine, checked.kinds, checked.errors) == (place, fine, kinds, 0), place
        shown = show_graph(place, svg=tmp_path / "graph.svg")
        assert (shown.file, shown.summary.fine, shown.summary.kinds) == (place, fine, kinds), place
        one, other = read_graph_of(place).fine[:2]
        write_rows(photos, [["path", "label"], ["photos/x/1.png", one], ["photos/y/1.png", other]])
        settings = with_whole_paths(TrainSettings(data=str(photos), graph=place))
        assert len(read_training_data(settings).graph) == fine, place


def test_a_folder_per_class_is_said_to_have_no_kinds(places, tmp_path):
    findings = check_graph(tmp_path / "photos").findings
    assert [fault.rule for fault in findings] == ["no-kinds"]


def test_a_relative_layout_holds_from_everywhere(places, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = with_whole_paths(TrainSettings(data="photos", graph="grocery:grocery"))
    assert (settings.data, settings.graph) == (str(tmp_path / "photos"), f"grocery:{tmp_path / 'grocery'}")


def test_places_without_a_graph(places, tmp_path):
    os.unlink(tmp_path / "grocery" / "classes.csv")
    faulty = check_graph(f"grocery:{tmp_path / 'grocery'}")
    assert (faulty.fine, faulty.errors > 0) == (None, True)
    (tmp_path / "young").mkdir()
    (tmp_path / "young" / "config.toml").write_bytes(b"")
    with pytest.raises(ModelFolderError, match="has no folder 'model' yet"):
        check_graph(tmp_path / "young")
    with pytest.raises(DataError, match=r"did you mean cars:"):
        check_graph(f"car:{tmp_path}")
    with pytest.raises(GraphFileError, match=r"none.csv: there is no such file"):
        check_graph(tmp_path / "none.csv")


def test_a_password_is_not_shown(tmp_path, monkeypatch):
    monkeypatch.setattr("finegraph.workflows.graph.read_graph_of", lambda place: LabelGraph(["a"]))
    assert "secret" not in check_graph("postgresql://ann:secret@127.0.0.1/menu").file
    assert "secret" not in show_graph("postgresql://ann:secret@127.0.0.1/menu").file


@pytest.mark.deep
def test_a_model_in_closed_form_says_what_each_kind_is_worth(places, tmp_path):
    model = taught_classifier.fitted()
    model.save(tmp_path / "fitted" / "model")
    worth = check_graph(tmp_path / "fitted" / "model").worth
    variances = model.statistics.variances
    assert worth == kind_worth(model.graph, variances.kinds, variances.own)
    assert sum(worth.kinds.values()) + worth.own == pytest.approx(1.0)
    assert [check_graph(place).worth for place in places] == [None] * len(places)  # nothing else can tell
