"""Making an index of photos and changing it, with a real (tiny) network."""

import dataclasses
import shutil

import numpy as np
import pytest

import tiny_classifier as tiny
from finegraph.errors import DataError, IndexFolderError, InputError, ModelFolderError, PhotoFileError, UnknownNameError
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.search import Index
from finegraph.search.index_state import read_state
from finegraph.workflows import index as workflow
from finegraph.workflows.index import add_photos, make_index
from finegraph.workflows.indexing.index_photos import read_photos
from finegraph.workflows.indexing.index_upkeep import check_index, compact_index, describe_index, remove_photos

LABELS = list(tiny.TABLE)


@pytest.fixture
def run(tmp_path, monkeypatch):
    return tiny.saved_run(tmp_path, monkeypatch)


@pytest.fixture
def photos(tmp_path):
    return tiny.photo_folders(tmp_path)


def contents(folder):
    """The photos of an index: path to label."""
    table = Index.open(folder).engine.table
    return {
        table.path(one): None if table.labels[one] < 0 else table.names[table.labels[one]] for one in range(len(table))
    }


def test_what_is_stored_is_what_the_model_says(run, photos, tmp_path):
    report = make_index(run, [photos], tmp_path / "index")
    assert (report.photos, report.added, report.replaced, report.unchanged, report.foreign) == (10, 10, 0, 0, 0)
    assert (report.dimensions, report.projection_recall, report.approximate_recall) == (12, None, None)
    assert 0 < report.feature_seconds <= report.seconds
    assert contents(tmp_path / "index") == {str(photos / label / f"{n}.png"): label for label in LABELS for n in (0, 1)}
    index, model = Index.open(tmp_path / "index"), PhotoClassifier.load(run)
    index.refuse_other(model)
    from finegraph.search import embed_photos

    files = [str(photos / LABELS[3] / "0.png")]
    features = embed_photos(model, files).features
    hit = index.search(features, 1)[0][0]
    assert (hit.path, hit.label) == (files[0], LABELS[3])
    assert hit.similarity == pytest.approx(1.0, abs=2e-3)
    assert hit.kinds["restaurant"] == ("B",)
    facts = describe_index(tmp_path / "index")
    assert (facts.photos, facts.labelled, facts.complete, facts.model) == (10, 10, True, str(run))


def test_photos_without_labels_are_held_for_what_the_model_says(run, photos, tmp_path):
    files = [str(photos / label / "0.png") for label in LABELS]
    make_index(run, files, tmp_path / "index")
    predictions = PhotoClassifier.load(run).predict(sorted(files))
    table = Index.open(tmp_path / "index").engine.table
    for photo, prediction in enumerate(predictions):
        assert table.path(photo) == prediction.photo
        assert table.labels[photo] == -1
        labels, probs = table.guesses(np.array([photo]))
        assert table.names[labels[0, 0]] == prediction.top[0].label
        assert probs[0, 0] == pytest.approx(prediction.top[0].probability, abs=1e-4)


def test_adding_again_changes_nothing_and_changes_are_seen(run, photos, tmp_path):
    make_index(run, [photos], tmp_path / "index")
    before = read_state(tmp_path / "index").generation
    report = add_photos(tmp_path / "index", [photos])
    assert (report.added, report.replaced, report.unchanged) == (0, 0, 10)
    assert read_state(tmp_path / "index").generation == before
    changed = photos / LABELS[0] / "0.png"
    tiny.picture(99).save(changed)
    tiny.picture(98).save(photos / LABELS[0] / "2.png")
    report = add_photos(tmp_path / "index", [photos])
    assert (report.added, report.replaced, report.unchanged, report.photos) == (1, 1, 9, 11)
    index = Index.open(tmp_path / "index")
    from finegraph.search import embed_photos

    assert index.search(embed_photos(PhotoClassifier.load(run), changed).features, 1)[0][0].path == str(changed)
    shutil.move(photos / LABELS[1] / "1.png", photos / LABELS[0] / "1b.png")
    report = add_photos(tmp_path / "index", [photos / LABELS[0] / "1b.png"])
    assert report.added == 1
    assert contents(tmp_path / "index")[str(photos / LABELS[0] / "1b.png")] is None


def test_another_label_takes_the_place_of_the_old_one(run, photos, tmp_path):
    make_index(run, [photos / LABELS[0] / "0.png"], tmp_path / "index")
    report = add_photos(tmp_path / "index", [photos])
    assert (report.added, report.replaced, report.photos) == (9, 1, 10)
    assert contents(tmp_path / "index")[str(photos / LABELS[0] / "0.png")] == LABELS[0]


def test_a_photo_that_is_named_without_labels_keeps_those_it_has(run, photos, tmp_path):
    file = photos / LABELS[0] / "0.png"
    manifest = tmp_path / "images.csv"
    manifest.write_text(f"path,label,spicy\n{file},{LABELS[0]},no\n")
    make_index(run, [manifest], tmp_path / "index")
    report = add_photos(tmp_path / "index", [file])
    assert (report.added, report.replaced, report.unchanged) == (0, 0, 1)
    hit = Index.open(tmp_path / "index").search(np.ones(12), 1)[0][0]
    assert (hit.label, hit.kinds["spicy"]) == (LABELS[0], ("no",))
    tiny.picture(99).save(file)  # another photo: what was said of the old one is not true of it
    report = add_photos(tmp_path / "index", [file])
    assert (report.replaced, report.relabelled) == (1, 1)
    assert contents(tmp_path / "index") == {str(file): None}


@pytest.mark.deep
def test_other_labels_are_counted(run, photos, tmp_path):
    make_index(run, [photos], tmp_path / "index")
    manifest = tmp_path / "images.csv"
    manifest.write_text("path,label\n" + "".join(f"photos/{label}/0.png,odd\n" for label in LABELS))
    report = add_photos(tmp_path / "index", [manifest])
    assert (report.replaced, report.relabelled, report.foreign) == (5, 5, 5)
    assert report.to_dict()["relabelled"] == 5


@pytest.mark.deep
def test_parts_are_as_large_as_the_network_is_quick(run, photos, tmp_path, monkeypatch):
    real, clock, read = workflow.extract_features, [0.0], []

    def watched(network, samples, views, **options):
        read.append(len(samples))
        clock[0] += 20.0 * len(samples)
        return real(network, samples, views, **options)

    monkeypatch.setattr(workflow, "extract_features", watched)
    monkeypatch.setattr(workflow.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(workflow, "FIRST_PART", 3)
    make_index(run, [photos], tmp_path / "slow")
    assert read == [3, 2, 2, 2, 1]
    assert len(Index.open(tmp_path / "slow")) == 10
    read.clear()
    monkeypatch.setattr(workflow, "PART_SECONDS", 1e6)
    monkeypatch.setattr(workflow, "PART", 5)
    make_index(run, [photos], tmp_path / "quick")
    assert read == [3, 5, 2]


@pytest.mark.parametrize("project", [None, 2])
def test_an_interrupted_job_goes_on(run, photos, tmp_path, monkeypatch, project):
    monkeypatch.setattr(workflow, "PART", 3)
    monkeypatch.setattr(workflow, "SAMPLE", 5)
    real, read = workflow.extract_features, []

    def watched(network, samples, views, **options):
        if len(read) == 2:
            raise KeyboardInterrupt
        read.append(len(samples))
        return real(network, samples, views, **options)

    monkeypatch.setattr(workflow, "extract_features", watched)
    with pytest.raises(KeyboardInterrupt):
        make_index(run, [photos], tmp_path / "index", project=project)
    stored = sum(read)
    assert len(Index.open(tmp_path / "index")) == stored
    assert not describe_index(tmp_path / "index").complete
    with pytest.raises(IndexFolderError, match="was begun with other settings"):
        make_index(run, [photos], tmp_path / "index", project=3)
    monkeypatch.setattr(workflow, "extract_features", real)
    report = make_index(run, [photos], tmp_path / "index", project=project)
    assert (report.added, report.unchanged, report.photos) == (10 - stored, stored, 10)
    assert len(contents(tmp_path / "index")) == 10
    with pytest.raises(IndexFolderError, match="there is an index already; add photos to it, or choose another"):
        make_index(run, [photos], tmp_path / "index", project=project)


def test_a_projection_that_was_chosen_stays_chosen(run, photos, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(workflow._Job, "_keep", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            make_index(run, [photos], tmp_path / "index", project=4)
    state = read_state(tmp_path / "index")
    assert (state.dimensions, state.segments) == (4, ())
    for other in (3, None):
        with pytest.raises(IndexFolderError, match="projection to 4 dimensions"):
            make_index(run, [photos], tmp_path / "index", project=other)
    assert make_index(run, [photos], tmp_path / "index", project=4).added == 10


def test_a_projection_and_what_it_loses(run, photos, tmp_path):
    report = make_index(run, [photos], tmp_path / "index", project=4)
    assert report.dimensions == 4
    assert 0.0 < report.projection_recall <= 1.0
    index = Index.open(tmp_path / "index")
    assert index.directions.shape == (12, 4)
    np.testing.assert_allclose(index.directions.T @ index.directions, np.eye(4), atol=1e-5)
    assert add_photos(tmp_path / "index", [photos]).unchanged == 10
    with pytest.raises(InputError, match="expected at least 12 photos to fit a projection to 6 dimensions, got 10"):
        make_index(run, [photos], tmp_path / "small", project=6)
    with pytest.raises(InputError, match="expected a projection to 1 to 11 dimensions, fewer than the feature"):
        make_index(run, [photos], tmp_path / "other", project=12)
    assert not (tmp_path / "small").exists()
    assert not (tmp_path / "other").exists()


@pytest.mark.deep
def test_another_model_is_refused_by_name(run, photos, tmp_path):
    make_index(run, [photos], tmp_path / "index")
    tiny.classifier(seed=1).save(tmp_path / "other")
    words = (
        rf"expected the model that made this index, '{run}' \(tiny, fingerprint \w+\), got '{tmp_path}/other' \(tiny"
    )
    with pytest.raises(IndexFolderError, match=words):
        add_photos(tmp_path / "index", [photos], model=tmp_path / "other")
    with pytest.raises(IndexFolderError, match="features of two models cannot be compared"):
        Index.open(tmp_path / "index").refuse_other(PhotoClassifier.load(tmp_path / "other"))
    shutil.move(run, tmp_path / "moved")
    with pytest.raises(ModelFolderError, match=r"there is no such folder\nThis is where the model was when"):
        add_photos(tmp_path / "index", [photos])
    assert add_photos(tmp_path / "index", [photos], model=tmp_path / "moved").unchanged == 10


@pytest.mark.parametrize("part", ["backbone", "head", "views", "graph"])
def test_any_part_that_differs_makes_another_model(run, photos, tmp_path, part):
    make_index(run, [photos], tmp_path / "index")
    index, model = Index.open(tmp_path / "index"), PhotoClassifier.load(run)
    if part == "views":
        model.views = dataclasses.replace(model.views, resize=33)
    elif part == "graph":
        table = {**tiny.TABLE, LABELS[0]: {**tiny.TABLE[LABELS[0]], "spicy": False}}
        model = tiny.classifier(table)
    else:
        next(getattr(model.network, part).parameters()).data.mul_(1.0001)
    with pytest.raises(IndexFolderError, match="expected the model that made this index"):
        index.refuse_other(model)


def test_how_sure_a_model_is_does_not_make_it_another(run, photos, tmp_path):
    make_index(run, [photos], tmp_path / "index")
    model = PhotoClassifier.load(run)
    model.temperature = 2.0
    Index.open(tmp_path / "index").refuse_other(model)


def test_photos_that_cannot_be_read(run, photos, tmp_path):
    bad = photos / LABELS[2] / "0.png"
    bad.write_bytes(b"no photo")
    with pytest.raises(PhotoFileError, match=r"0\.png: this is no photo"):
        make_index(run, [photos], tmp_path / "index")
    report = make_index(run, [photos], tmp_path / "index", on_bad_file="skip")
    assert (report.photos, [error.path for error in report.bad]) == (9, [str(bad)])
    assert report.to_dict()["bad"][0]["photo"] == str(bad)


def test_labels_that_the_model_does_not_know_are_kept(run, photos, tmp_path):
    (photos / "soup @ C").mkdir()
    tiny.picture(70).save(photos / "soup @ C" / "0.png")
    report = make_index(run, [photos], tmp_path / "index")
    assert (report.photos, report.foreign) == (11, 1)
    index = Index.open(tmp_path / "index")
    hit = index.search_label("soup @ C", 1)[0]
    assert (hit.label, hit.guess, hit.kinds) == ("soup @ C", None, {})


def test_a_disk_that_is_not_there_does_not_empty_an_index(run, photos, tmp_path):
    make_index(run, [photos], tmp_path / "index")
    for label in LABELS[:3]:
        shutil.rmtree(photos / label)
    with pytest.raises(InputError, match=r"got 6 of 10 whose file is missing, such as .*0\.png; see whether the disk"):
        remove_photos(tmp_path / "index", missing=True)
    assert len(contents(tmp_path / "index")) == 10
    assert remove_photos(tmp_path / "index", missing=True, force=True) == 6


def test_removing_and_merging(run, photos, tmp_path):
    make_index(run, [photos], tmp_path / "index")
    assert remove_photos(tmp_path / "index", [photos / LABELS[0] / "0.png"]) == 1
    assert remove_photos(tmp_path / "index", [photos / LABELS[1]]) == 2
    assert remove_photos(tmp_path / "index", labels=[LABELS[2]]) == 2
    (photos / LABELS[3] / "1.png").unlink()
    assert remove_photos(tmp_path / "index", missing=True) == 1
    left = contents(tmp_path / "index")
    assert sorted(left.values()) == sorted([LABELS[0], LABELS[3], LABELS[4], LABELS[4]])
    before = describe_index(tmp_path / "index")
    assert (before.photos, before.removed) == (4, 6)
    after = compact_index(tmp_path / "index")
    assert (after.photos, after.removed, after.segments) == (4, 0, 1)
    assert after.bytes < before.bytes
    assert contents(tmp_path / "index") == left
    with pytest.raises(InputError, match=r"0\.png: no such photo is in the index, nor any in a folder of that name"):
        remove_photos(tmp_path / "index", [photos / LABELS[0] / "0.png"])
    with pytest.raises(UnknownNameError, match="unknown fine label 'mapo' in the index"):
        remove_photos(tmp_path / "index", labels=["mapo"])
    with pytest.raises(InputError, match="expected photos, folders or fine labels to remove, got none"):
        remove_photos(tmp_path / "index")


def test_checks(run, photos, tmp_path):
    make_index(run, [photos], tmp_path / "index")
    assert check_index(tmp_path / "index", photos=True).to_dict() == {
        "folder": str(tmp_path / "index"), "files": 3, "photos": 10, "damaged": (), "missing": (), "changed": (),
    }  # fmt: skip
    (photos / LABELS[0] / "0.png").unlink()
    tiny.picture(50).save(photos / LABELS[0] / "1.png")
    told = []
    found = check_index(tmp_path / "index", photos=True, progress=lambda done, total: told.append((done, total)))
    assert found.missing == (f"{photos / LABELS[0] / '0.png'}: there is no such file",)
    assert found.changed == (str(photos / LABELS[0] / "1.png"),)
    assert told[-1] == (10, 10)
    segment = next((tmp_path / "index").glob("segment-*"))
    segment.write_bytes(segment.read_bytes()[:-1])
    (damaged,) = check_index(tmp_path / "index").damaged
    assert f"{segment}: expected" in damaged


def test_what_can_be_indexed(photos, tmp_path):
    label = LABELS[0]
    assert len(read_photos([photos])) == 10
    flat = read_photos([photos / label])
    assert [sample.label for sample in flat] == [None, None]
    both = read_photos([photos / label, photos, photos / label / "0.png"])
    assert [sample.label for sample in both] == [label for label in sorted(LABELS) for _ in (0, 1)]
    manifest = tmp_path / "images.csv"
    manifest.write_text(f"path,label,split,spicy\nphotos/{label}/0.png,x,train,yes\nphotos/{label}/1.png,y,test,\n")
    assert [sample.label for sample in read_photos([manifest], split="test")] == ["y"]
    with pytest.raises(UnknownNameError, match=r"unknown split 'tset' in .*images\.csv; did you mean 'test'"):
        read_photos([manifest], split="tset")
    with pytest.raises(DataError, match="this photo is named twice, as 'x' and as 'mapo tofu @ A'; name it once"):
        read_photos([manifest, photos])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="expected photos, or a folder per class; got a folder without photos"):
        read_photos([tmp_path / "empty"])
    with pytest.raises(PhotoFileError, match=r"x\.png: there is no such file"):
        read_photos([tmp_path / "x.png"])
    with pytest.raises(DataError, match="there is no such file or folder; a source is"):
        read_photos(["gorcery"])
    with pytest.raises(DataError, match="expected photos to index"):
        read_photos([])


def test_labels_seen_on_photos_come_before_those_of_the_class(run, photos, tmp_path):
    manifest = tmp_path / "images.csv"
    rows = [f"photos/{label}/0.png,{label},{'no' if label == LABELS[0] else ''}" for label in LABELS]
    manifest.write_text("path,label,spicy\n" + "\n".join(rows) + "\n")
    make_index(run, [manifest], tmp_path / "index")
    index = Index.open(tmp_path / "index")
    found = index.search(np.ones(12), 10, where={"spicy": "yes"})[0]
    assert {hit.label for hit in found} == {LABELS[1]}
    found = {hit.label for hit in index.search(np.ones(12), 10, where_not={"spicy": "yes"})[0]}
    assert found == {LABELS[0], LABELS[2], LABELS[3], LABELS[4]}
    assert add_photos(tmp_path / "index", [manifest]).unchanged == 5
