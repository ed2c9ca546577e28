"""Training from a label store: the same as from files, whatever becomes of the store afterwards."""

import shutil
import tomllib

import pytest
import torch
from test_train import Silent

import finegraph as fg
from finegraph import LabelGraph
from finegraph.errors import LabelStoreError, RunFolderError
from finegraph.labelling import AddLabel, LabelStore, RenameFine, RenameLabel
from finegraph.training.settings import TrainSettings
from finegraph.workflows.evaluate import evaluate_run
from finegraph.workflows.labels.graph_sources import is_store, read_stored, shown_source
from finegraph.workflows.labels.label_files import export_file
from finegraph.workflows.train import resume_settings, train_run
from training import tiny

ROUND = {"red-small-0.png": "round", "red-small-1.png": "square", "grey-2.png": "round"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Photos with a manifest that says nothing of single photos, and a graph of two kinds."""
    tiny.register()
    folder = tmp_path_factory.mktemp("photos")
    manifest = tiny.make_photos(folder)
    lines = [line.rpartition(",")[0] for line in manifest.read_text().splitlines()]
    manifest.write_text("\n".join(lines) + "\n")
    rows = [f"{one},{two},{'' if one == 'grey' else 'square'}" for one, two in tiny.CLASSES.items()]
    (folder / "graph.csv").write_text("\n".join(["fine,colour,shape", *rows]) + "\n")
    return folder


def make_store(place, folder):
    """A store in which the form of grey, and a label of its own, were decided."""
    with LabelStore.create(place) as store:
        store.import_graph(LabelGraph.read(folder / "graph.csv"), person="import", edit_id="first")
        store.apply(AddLabel(kind="shape", name="round"), person="ann", edit_id="1")
        store.decide("grey", "shape", {"weights": {"square": 0.7, "round": 0.3}}, person="ann", edit_id="2", seen=0)
    return place


def label_photos(place, shown=ROUND):
    with LabelStore.open(place) as store:
        for photo, label in shown.items():
            store.label_photo(photo, "shape", label, person="bob", edit_id=photo, seen=0)


def settings(folder, graph, **more):
    own = {"data": str(folder / "images.csv"), "graph": str(graph), "network": "tiny", "weights": "none"}
    return TrainSettings(**{**own, "fit": "prototypes", **more})


def weights(run):
    return fg.load(run).network.state_dict()


def same_weights(one, two):
    one, two = weights(one), weights(two)
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.deep
@pytest.mark.parametrize("more", [{}, {"tune": "all", "epochs": 1, "batch_size": 8}], ids=["head", "all"])
def test_the_model_is_that_of_the_exported_graph(folder, tmp_path, more):
    place = make_store(tmp_path / "menu.db", folder)
    with LabelStore.open(place, write=False) as store:
        export_file(store, tmp_path / "menu.csv")
        version = store.version
    train_run(settings(folder, tmp_path / "menu.csv", **more), Silent(), run=tmp_path / "file")
    train_run(settings(folder, place, **more), Silent(), run=tmp_path / "store")
    with LabelStore.open(place) as store:
        store.decide("grey", "shape", None, person="ann", edit_id="3", seen=version)
    train_run(settings(folder, f"{place}@{version}", **more), Silent(), run=tmp_path / "past")
    assert same_weights(tmp_path / "file", tmp_path / "store")
    assert same_weights(tmp_path / "file", tmp_path / "past")
    train_run(settings(folder, place, **more), Silent(), run=tmp_path / "now")
    assert not same_weights(tmp_path / "file", tmp_path / "now")
    saved = tomllib.loads((tmp_path / "store" / "config.toml").read_text())
    assert saved["graph"] == f"{place}@{version}"  # so that it can be trained again, whoever edits


@pytest.mark.deep
def test_labels_of_single_photos_are_those_of_a_manifest(folder, tmp_path):
    place = make_store(tmp_path / "menu.db", folder)
    label_photos(place)
    with LabelStore.open(place, write=False) as store:
        export_file(store, tmp_path / "menu.csv")
    head, *lines = (folder / "images.csv").read_text().splitlines()
    lines = [f"{folder / line},{ROUND.get(line.partition(',')[0], '')}" for line in lines]
    (tmp_path / "images.csv").write_text("\n".join([f"{head},shape", *lines]) + "\n")
    watcher = Silent()
    train_run(settings(folder, place, fit="auto"), watcher, run=tmp_path / "store")
    by_file = TrainSettings(
        **{**settings(folder, tmp_path / "menu.csv", fit="auto").to_dict(), "data": str(tmp_path / "images.csv")}
    )
    train_run(by_file, Silent(), run=tmp_path / "file")
    assert same_weights(tmp_path / "file", tmp_path / "store")
    assert any("photos show what their classes exclude in shape" in note for note in watcher.notes)
    train_run(settings(folder, place, photo_labels="ignore"), Silent(), run=tmp_path / "ignored")
    assert not same_weights(tmp_path / "store", tmp_path / "ignored")


@pytest.mark.deep
def test_an_earlier_edit_has_the_photo_labels_and_the_names_of_then(folder, tmp_path):
    place = make_store(tmp_path / "menu.db", folder)
    label_photos(place, {"grey-2.png": "round"})
    with LabelStore.open(place) as store:
        version = store.version
        seen = store.photo_cells(["grey-2.png"])["grey-2.png"]["shape"].version
        store.label_photo("grey-2.png", "shape", "square", person="bob", edit_id="x", seen=seen)
        store.label_photo("grey-3.png", "shape", "square", person="bob", edit_id="y", seen=0)
        store.apply(RenameLabel(kind="shape", name="round", to="disc"), person="bob", edit_id="z")
    assert read_stored(f"{place}@{version}").photos == {"grey-2.png": {"shape": "round"}}
    assert read_stored(f"{place}@{version}").graph.labels("shape") == ("square", "round")
    assert read_stored(f"{place}@{version - 1}").photos == {}
    assert read_stored(place).photos == {"grey-2.png": {"shape": "square"}, "grey-3.png": {"shape": "square"}}
    assert read_stored(place).graph.labels("shape") == ("square", "disc")


@pytest.mark.deep
def test_a_run_is_evaluated_and_used_when_the_store_is_gone(folder, tmp_path):
    place = make_store(tmp_path / "menu.db", folder)
    label_photos(place, {"grey-8.png": "round", "red-small-7.png": "square"})  # both are to validate on
    train_run(settings(folder, place), Silent(), run=tmp_path / "run")
    there = evaluate_run(tmp_path / "run", split="val", name="there")
    place.unlink()
    gone = evaluate_run(tmp_path / "run", split="val", name="gone")
    assert gone.result.kinds == there.result.kinds
    assert fg.load(tmp_path / "run").predict(folder / "grey-8.png").top[0].label
    copy = tmp_path / "run" / "labels.json"
    copy.write_bytes(copy.read_bytes().replace(b"round", b"rounD", 1))
    with pytest.raises(RunFolderError, match=r"labels\.json: expected the labels that this run was trained from"):
        evaluate_run(tmp_path / "run", split="val")
    copy.unlink()
    with pytest.raises(LabelStoreError, match="there is no such store"):
        evaluate_run(tmp_path / "run", split="val")


@pytest.mark.deep
def test_a_run_goes_on_with_the_labels_it_began_with(folder, tmp_path):
    place = make_store(tmp_path / "menu.db", folder)
    label_photos(place)
    whole = {"tune": "all", "fit": "auto", "epochs": 2, "batch_size": 8}
    train_run(settings(folder, place, **whole), Silent(), run=tmp_path / "straight")
    stopped = train_run(settings(folder, place, **whole), Silent(stop_at=3), run=tmp_path / "broken")
    assert not stopped.finished
    with LabelStore.open(place) as store:
        store.decide("red large", "shape", "round", person="ann", edit_id="late", seen=0)
    shutil.move(place, tmp_path / "elsewhere.db")
    train_run(resume_settings(tmp_path / "broken", {}), Silent(), run=tmp_path / "broken", resume=True)
    assert same_weights(tmp_path / "straight", tmp_path / "broken")


def test_no_password_is_written_into_a_run(folder, tmp_path, postgres):
    url = postgres.new_database()
    make_store(url, folder)
    label_photos(url)
    secret = url.replace("tests@", "tests:hush-hush@") + "&sslpassword=hush-hush"
    assert is_store(secret)
    train_run(settings(folder, secret, fit="auto"), Silent(), run=tmp_path / "run")
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert (tmp_path / "run" / "labels.json") in files
    assert [path.name for path in files if b"hush" in path.read_bytes()] == []
    saved = tomllib.loads((tmp_path / "run" / "config.toml").read_text())["graph"]
    assert saved == shown_source(f"{url}@6") != f"{url}@6"  # ours has the driver and no password
    assert read_stored(saved).photos == read_stored(url).photos
    with LabelStore.open(secret, write=False) as store:
        assert "hush" not in store.place
    assert evaluate_run(tmp_path / "run", split="val").result.kinds


@pytest.mark.parametrize(
    ("place", "store", "shown"),
    [
        ("menu.csv", False, "menu.csv"),
        ("menu.db", True, "menu.db"),
        ("menu.DB@12", True, "menu.DB@12"),
        ("a@5/menu.json", False, "a@5/menu.json"),
        ("postgresql://ann@10", True, "postgresql+psycopg://ann@10"),
        ("postgresql://ann:s3@host/menu@7", True, "postgresql+psycopg://ann@host/menu@7"),
        ("postgresql://ann:s3@/menu?host=%2Ftmp&password=s3@7", True, "postgresql+psycopg://ann@/menu?host=%2Ftmp@7"),
    ],
)
def test_names_of_stores(place, store, shown):
    assert is_store(place) is store
    assert shown_source(place) == shown


@pytest.mark.deep
def test_a_class_that_was_renamed(folder, tmp_path):
    """Its photos are trained on under the new name, and evaluated when the store is gone."""
    place = make_store(tmp_path / "menu.db", folder)
    with LabelStore.open(place) as store:
        store.apply(RenameFine(name="grey", to="slate"), person="ann", edit_id="rename")
    result = train_run(settings(folder, place), Silent(), run=tmp_path / "run", report=True)
    assert result.report_fault is None
    place.unlink()
    assert "slate" in fg.load(tmp_path / "run").graph.fine
    found = evaluate_run(tmp_path / "run", split="val")
    assert found.result.labelled == 10
