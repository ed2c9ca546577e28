"""Sessions, files and comparisons of label stores, and training from one."""

import json
import os
import shutil

import pytest
from PIL import Image

import finegraph as fg
import taught_classifier
import tiny_classifier as tiny
from finegraph import LabelGraph
from finegraph.errors import FinegraphError, GraphFileError, InputError, LabelStoreError, UnknownNameError
from finegraph.labelling import LabelStore, RenameFine
from finegraph.training.settings import TrainSettings
from finegraph.workflows.data import check_data
from finegraph.workflows.label import open_session
from finegraph.workflows.labels.graph_sources import is_store, read_graph_of, read_stored
from finegraph.workflows.labels.label_files import diff_places, export_file, import_file
from finegraph.workflows.labels.label_stores import open_store, store_beside
from finegraph.workflows.learn_graph import learn_graph
from finegraph.workflows.training.training_data import read_training_data, with_whole_paths

MENU = "fine,dish,served\nmapo tofu @ A,mapo tofu,bowl\nkung pao @ A,kung pao,\nmapo tofu @ B,,plate\n"


@pytest.fixture
def menu_file(tmp_path):
    path = tmp_path / "menu.csv"
    path.write_text(MENU, encoding="utf-8")
    return path


@pytest.fixture
def photos(tmp_path):
    """Two photos of each class of the menu, and one of a class that it does not have."""
    for number, name in enumerate(["mapo tofu @ A", "kung pao @ A", "mapo tofu @ B", "stranger"]):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for seed in range(2 if number < 3 else 1):
            tiny.picture(10 * number + seed).save(folder / f"{seed}.png")
    return tmp_path / "photos"


@pytest.mark.deep
def test_the_first_session_makes_the_store_beside_the_graph(menu_file):
    with open_session(str(menu_file)) as session:
        assert session.store.graph() == LabelGraph.read(menu_file)
        assert "made the store" in session.notes[0]
        assert session.name == "menu"
        session.store.decide("kung pao @ A", "served", "bowl", person="ann", edit_id="1", seen=0)
        with pytest.raises(LabelStoreError, match="another process is writing"):
            open_session(str(menu_file))
    assert menu_file.read_text(encoding="utf-8") == MENU
    with open_session(str(menu_file)) as session:
        assert session.notes == ()
        assert session.store.cell("kung pao @ A", "served").value == "bowl"
    menu_file.write_text(MENU.replace("plate", "tray"), encoding="utf-8")
    with open_session(str(store_beside(menu_file))) as session:
        assert session.notes == ()
    store, notes = open_store(menu_file)
    store.close()
    assert "import it to take its changes over" in notes[0]


@pytest.mark.deep
def test_a_class_that_is_renamed_keeps_its_photos(menu_file, photos):
    """Photos have the names of their folders; whoever renames a class does not touch these."""

    def rename(session, old, new):
        session.store.apply(RenameFine(name=old, to=new), person="ann", edit_id=f"{old} {new}")

    with open_session(str(menu_file), data=str(photos)) as session:
        rename(session, "kung pao @ A", "gong bao")
        assert session.photo_count("gong bao") == 2
        assert {photo.path.parent.name for photo in session.photos("gong bao")} == {"kung pao @ A"}
        rename(session, "gong bao", "gong bao @ A")
        rename(session, "mapo tofu @ B", "gong bao")  # another class takes the name
        assert {photo.path.parent.name for photo in session.photos("gong bao @ A")} == {"kung pao @ A"}
        assert {photo.path.parent.name for photo in session.photos("gong bao")} == {"mapo tofu @ B"}
        session.store.undo(session.store.last_undoable("ann"), person="ann", edit_id="undo")
        assert session.photo_count("mapo tofu @ B") == 2
        version = session.store.version
    with open_session(str(menu_file), data=str(photos)) as session:
        assert session.photo_count("gong bao @ A") == session.photo_count("mapo tofu @ B") == 2
        assert session.notes == ("1 photos are of classes that the graph does not have",)
    place = str(store_beside(menu_file))
    settings = TrainSettings(data=str(photos), graph=place, val_share=0.0)
    shutil.rmtree(photos / "stranger")
    assert read_training_data(settings).train.counts() == {"gong bao @ A": 2, "mapo tofu @ A": 2, "mapo tofu @ B": 2}
    now = {"kung pao @ A": "gong bao @ A", "gong bao": "mapo tofu @ B"}  # whoever had the name last
    assert read_stored(f"{place}@{version}").renamed == now
    before = TrainSettings(data=str(photos), graph=f"{place}@1", val_share=0.0)
    assert "kung pao @ A" in read_training_data(before).train.labels


@pytest.mark.parametrize("write", [True, False])
def test_a_store_that_was_left_empty_is_filled(menu_file, write):
    """As after a kill between making the store and the import."""
    LabelStore.create(store_beside(menu_file)).close()
    store, notes = open_store(menu_file, write=write)
    with store:
        assert store.graph() == LabelGraph.read(menu_file)
        assert "made the store" in notes[0]
        assert [batch.person for batch in store.batches()] == ["import"]
    store, notes = open_store(menu_file, write=write)
    with store:
        assert (len(store.batches()), notes) == (1, ())


def test_a_database_that_was_left_empty_is_filled(menu_file, postgres):
    place = postgres.new_database()
    LabelStore.create(place).close()
    store, notes = open_store(menu_file, place)
    with store:
        assert store.graph() == LabelGraph.read(menu_file)
        assert "made the store" in notes[0]


def test_an_empty_store_without_its_graph_says_so(menu_file):
    LabelStore.create(store_beside(menu_file)).close()
    menu_file.unlink()
    with pytest.raises(GraphFileError, match=r"menu\.csv"):
        open_store(menu_file)


def test_a_faulty_graph_leaves_no_store(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("fine,dish\na,b\na,c\n", encoding="utf-8")
    with pytest.raises(GraphFileError, match="is already in line 2"):
        open_session(str(path))
    assert [file.name for file in tmp_path.iterdir()] == ["bad.csv"]


def test_names_make_suggestions_at_once(menu_file):
    with open_session(str(menu_file)) as session:
        [only] = session.store.suggestions().rows
        assert (only.fine, only.kind, only.value, only.source) == ("mapo tofu @ B", "dish", "mapo tofu", "name")
        assert session.suggested.name >= 1


@pytest.mark.deep
def test_a_session_knows_the_photos_of_the_source_and_no_others(menu_file, photos):
    with open_session(str(menu_file), data=str(photos)) as session:
        [one, two] = session.photos("kung pao @ A")
        assert (one.key, one.path) == ("kung pao @ A/0.png", photos / "kung pao @ A" / "0.png")
        assert session.photo(two.key) == two
        assert session.photos("kung pao @ A", limit=1) == (one,)
        assert session.photo_count("nothing") == 0
        for key in ("../menu.csv", str(one.path), "", "kung pao @ A/9.png"):
            with pytest.raises(UnknownNameError, match="unknown photo"):
                session.photo(key)
        assert "1 photos are of classes that the graph does not have" in session.notes


def test_a_model_suggests_and_doubts(menu_file, photos, tmp_path, monkeypatch):
    tiny.register(monkeypatch)
    table = {
        "mapo tofu @ A": {"dish": "mapo tofu", "served": "bowl"},
        "kung pao @ A": {"dish": "kung pao", "served": "plate"},
    }
    tiny.classifier(table).save(tmp_path / "run" / "model")
    with pytest.raises(InputError, match="need photos to ask it about"):
        open_session(str(menu_file), model=tmp_path / "run")
    with open_session(str(menu_file), data=str(photos), model=tmp_path / "run") as session:
        model = fg.load(tmp_path / "run")
        paths = [photo.path for photo in session.photos("kung pao @ A")]
        seen = [dict(prediction.kinds["served"]) for prediction in model.predict(paths)]
        mean = {label: sum(one[label] for one in seen) / 2 for label in ("bowl", "plate")}
        best = max(mean, key=mean.get)
        [one] = session.store.suggestions(fine="kung pao @ A", kind="served", source="model").rows
        assert (one.value, one.score) == (best, pytest.approx(mean[best], abs=1e-4))
        assert one.reason.startswith("on 2 photos of the class the model finds")
        cell = session.store.cell("kung pao @ A", "dish")
        seen = [dict(prediction.kinds["dish"])["kung pao"] for prediction in model.predict(paths)]
        assert cell.confidence == pytest.approx(sum(seen) / 2, abs=1e-4)
        assert session.suggested.similar == session.store.suggestions(source="similar").total


@pytest.mark.deep
def test_a_model_in_closed_form_suggests_what_all_photos_say(tmp_path, monkeypatch):
    """Cells are those that `graph learn` finds, with classes that look alike and have the label as reasons."""
    tiny.register(monkeypatch)
    taught_classifier.fitted().save(tmp_path / "model")
    rows = {**tiny.TABLE, "egg rice @ B": {**tiny.TABLE["egg rice @ B"], "restaurant": None}}
    LabelGraph.from_table(rows).write(tmp_path / "menu.csv")
    for label, fine in enumerate(tiny.TABLE):
        folder = tmp_path / "photos" / fine
        folder.mkdir(parents=True)
        for number in range(taught_classifier.PHOTOS_PER_LABEL):
            Image.fromarray(taught_classifier.photo_of(label, number)).save(folder / f"{number}.png")
    learnt = learn_graph(tmp_path / "model", graph=tmp_path / "menu.csv")
    (expected,) = (cell for cell in learnt.empty if cell.kind == "restaurant")
    with open_session(str(tmp_path / "menu.csv"), data=str(tmp_path / "photos"), model=tmp_path / "model") as session:
        beliefs = session.store.beliefs(["egg rice @ B"], kind="restaurant")["egg rice @ B"]["restaurant"]
        assert beliefs[expected.label] == pytest.approx(expected.probability, abs=1e-3)
        cell = session.store.cell("mapo tofu @ A", "spicy")
        doubt = [one for one in learnt.doubtful if (one.fine, one.kind) == ("mapo tofu @ A", "spicy")]
        assert (cell.confidence < 0.5) == bool(doubt)
        alike = session.suggested.alike["egg rice @ B", "restaurant"]
        assert alike
        assert all(tiny.TABLE[name]["restaurant"] == expected.label for name in alike)
        for one in session.store.suggestions(source="model").rows:
            assert "photos, other cells and the name say" in one.reason


def test_files_in_and_out(menu_file, tmp_path):
    store, _ = open_store(menu_file)
    with store:
        store.set_note("kung pao @ A", "hot", person="ann", edit_id="1", seen=0)
        store.label_photo("1.jpg", "served", "bowl", person="ann", edit_id="2", seen=0)
        export_file(store, tmp_path / "out.csv")
        export_file(store, tmp_path / "out.json")
        export_file(store, tmp_path / "studio.json", "label-studio")
        export_file(store, tmp_path / "photos.csv", "photos")
        with pytest.raises(InputError, match=r"ends in \.csv or \.json"):
            export_file(store, tmp_path / "out.txt")
        assert LabelGraph.read(tmp_path / "out.csv") == LabelGraph.read(tmp_path / "out.json") == store.graph()
        (tmp_path / "new.csv").write_text(MENU.replace("kung pao,", "kung pao,bowl"), encoding="utf-8")
        made = import_file(store, tmp_path / "new.csv", person="bob")
        assert made.text == "imported a graph: 1 cell changed"
        assert import_file(store, tmp_path / "photos.csv", person="bob").edits == 0
        with pytest.raises(InputError, match="no such file to import"):
            import_file(store, tmp_path / "none.csv", person="bob")
        changed = diff_places(str(menu_file), str(tmp_path / "new.csv"))
        assert [change.text for change in changed.changes] == ["cell 'kung pao @ A', 'served': unknown -> bowl"]
    assert json.loads((tmp_path / "studio.json").read_text(encoding="utf-8"))[1]["data"]["note"] == "hot"
    with LabelStore.create(tmp_path / "copy.db") as copy:
        import_file(copy, tmp_path / "studio.json", person="bob")
        assert copy.one_class("kung pao @ A").note == "hot"
        assert copy.photo_labels()[0].photo == "1.jpg"


def test_a_store_is_read_wherever_a_graph_is(menu_file, photos, tmp_path):
    store, _ = open_store(menu_file)
    with store:
        store.decide("kung pao @ A", "served", "bowl", person="ann", edit_id="1", seen=0)
        now = store.graph()
    place = store_beside(menu_file)
    assert read_graph_of(place) == now
    assert read_graph_of(f"{place}@1") == LabelGraph.read(menu_file) == read_graph_of(menu_file)
    with pytest.raises(InputError, match="the store has versions 1 to 2"):
        read_graph_of(f"{place}@3")
    assert not is_store(menu_file)
    found = check_data(str(photos), place)
    assert [finding.rule for finding in found.findings if "stranger" in finding.text()]
    settings = with_whole_paths(TrainSettings(data=str(photos), graph="postgresql+psycopg://x@/y"))
    assert settings.graph == "postgresql+psycopg://x@/y"


def test_training_learns_from_labels_of_single_photos(menu_file, photos):
    store, _ = open_store(menu_file)
    with store:
        for number, (key, label) in enumerate([("mapo tofu @ A/0.png", "plate"), ("mapo tofu @ B/0.png", "plate")]):
            store.label_photo(key, "served", label, person="ann", edit_id=f"{number}", seen=0)
    stored = read_stored(store_beside(menu_file))
    assert stored.photos == {"mapo tofu @ A/0.png": {"served": "plate"}, "mapo tofu @ B/0.png": {"served": "plate"}}
    (photos / "stranger" / "0.png").unlink()
    (photos / "stranger").rmdir()
    data = read_training_data(TrainSettings(data=str(photos), graph=str(store_beside(menu_file)), val_share=0.0))
    assert {sample.path.parent.name for sample in data.train if sample.kinds} == {"mapo tofu @ A", "mapo tofu @ B"}
    # The photo contradicts its class, so the class now has both, with weights; nothing else changed.
    assert data.graph.matrix("served").tolist()[0] == [0.5, 0.5]
    assert data.graph.kind("dish") == stored.graph.kind("dish")


def test_photos_whose_names_are_no_text_are_left_out(menu_file, photos):
    bad = os.fsencode(photos / "kung pao @ A") + b"/\xff.jpg"
    shutil.copy(next((photos / "kung pao @ A").iterdir()), bad)
    with open_session(str(menu_file), data=str(photos)) as session:
        assert session.photo_count("kung pao @ A") == 2
        assert "1 photos are left out: their file names hold control characters or are not UTF-8" in session.notes


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("latin.csv", b"fine,dish\na\xff,b\n", "0xFF"),
        ("wide.csv", "fine,dish\na,b\n".encode("utf-16"), "UTF-16"),
        ("deep.json", b"[" * 100_000, "deep"),
        ("studio.json", b"\xef\xbb\xbf[]", "byte order mark"),
    ],
)
def test_files_that_are_no_text_or_no_json_are_refused_in_words(menu_file, tmp_path, name, data, why):
    (tmp_path / name).write_bytes(data)
    store, _ = open_store(menu_file)
    with store, pytest.raises(FinegraphError, match=why):
        import_file(store, tmp_path / name, person="ann")
