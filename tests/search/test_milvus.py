"""An index in Milvus: the answers of the built-in engine on the same photos, and what happens without a server.

The embedded form of Milvus is the real interface; filters and conditions are compared in `test_index_search.py`.
"""

import dataclasses
import os
import sys

import numpy as np
import pytest

import tiny_classifier as tiny
from finegraph.errors import InputError, MissingExtraError, SearchEngineError, UnknownNameError
from finegraph.graph import LabelGraph
from finegraph.model.features.keys import PhotoKeys
from finegraph.search import Index, milvus_photos
from finegraph.search.index_state import EngineEntry
from finegraph.search.milvus_writer import new_writer, open_writer
from finegraph.workflows.index import add_photos, make_index
from finegraph.workflows.indexing.index_upkeep import check_index, compact_index, describe_index, remove_photos
from finegraph.workflows.search import search_index
from search import tiny_index
from search.tiny_index import FOREIGN, MODEL, SIZE, columns

PRICES = LabelGraph.from_table(
    {
        name: {"dish": name.split(" @ ")[0], "restaurant": name.split(" @ ")[1], "price": price}
        for name, price in zip(tiny_index.GRAPH.fine, [4.0, 9.0, 12.0, None, 30.0], strict=True)
    },
    types={"price": "number, EUR"},
)


def both(folder, *parts, graph, method="exact"):
    """The same photos in files and in Milvus."""
    opened = []
    for name, uri in (("files", None), ("milvus", str(folder / "photos.db"))):
        options = {"model": MODEL, "graph": graph, "feature_size": SIZE, "method": method, "uri": uri}
        with new_writer(folder / name, **options) as writer:
            for part in parts:
                writer.add(part)
            writer.finish()
        opened.append(Index.open(folder / name))
    return opened


def alike(one, two):
    """Whether two lists of hits are the same, to rounding."""
    np.testing.assert_allclose([hit.score for hit in one], [hit.score for hit in two], atol=1e-5)
    assert [dataclasses.replace(hit, score=0, similarity=0) for hit in one] == [
        dataclasses.replace(hit, score=0, similarity=0) for hit in two
    ]


@pytest.mark.deep
@pytest.mark.parametrize("guessed", [False, True])
def test_filters_by_numbers_are_those_of_the_built_in_engine(tmp_path, guessed):
    part = dataclasses.replace(columns(60, seed=1), kinds={})
    files, milvus = both(tmp_path, part, graph=PRICES)
    query = columns(1, seed=9).vectors.astype(np.float32)
    for condition in ("<= 9", ">= 12", "4..12", "> 100"):
        for option in ("where", "where_not"):
            ask = {option: {"price": condition}, "guessed": guessed}
            alike(milvus.search(query, 60, **ask)[0], files.search(query, 60, **ask)[0])


def test_fine_labels_are_numbered_once_for_all_photos_and_hits(monkeypatch):
    counted = []

    class Counted(LabelGraph):
        @property
        def fine(self):
            counted.append(None)
            return super().fine

    monkeypatch.setattr(milvus_photos, "_connected", lambda uri: None)
    graph = Counted.from_table({name: {"dish": "x"} for name in "abc"})
    collection = milvus_photos.MilvusCollection(
        EngineEntry(name="milvus", uri="photos.db", collection="photos"), SIZE, graph
    )
    photos = object.__new__(milvus_photos.MilvusPhotos)
    photos.collection, photos._graph = collection, graph
    row = {"path": "a.png", "label": "", "seen": []}
    assert photos._photo({**row, "label": "c", "held": "c"}).kinds == {"dish": ("x",)}
    before = len(counted)
    for _ in range(5):
        assert photos._photo({**row, "held": "b"}).guess == "b"
        assert photos._photo({**row, "label": "new", "held": "new"}).label == "new"
    assert len(counted) == before
    assert collection.fine_numbers == {"a": 0, "b": 1, "c": 2}


@pytest.mark.deep
def test_an_approximate_search_says_what_it_finds(tmp_path):
    part = columns(600, seed=2)
    _, milvus = both(tmp_path, part, graph=tiny_index.GRAPH, method="approximate")
    entry = milvus.state.engine
    assert (milvus.method, entry.photos) == ("approximate", 600)
    assert entry.recall >= 0.97
    queries = columns(20, seed=9).vectors.astype(np.float32)
    truth = np.sort(queries @ part.vectors.astype(np.float32).T, axis=1)[:, ::-1][:, :10]
    found = np.array([[hit.similarity for hit in hits] for hits in milvus.search(queries, 10)])
    assert (found >= truth[:, -1:] - 1e-3).mean() > 0.9
    few = milvus.search(queries[:1], 1000, where={"fine": FOREIGN})[0]  # whatever lists they are in
    assert len(few) == sum(label == FOREIGN for label in part.labels)


@pytest.mark.deep
def test_photos_are_replaced_listed_and_removed(tmp_path):
    odd = os.fsdecode(b"/photos/b\xff/1.jpg")
    part = columns(4, seed=1)
    part = dataclasses.replace(part, paths=["/photos/a/1.jpg", "/photos/ab.jpg", odd, "/photos/ä b/'\"1.jpg"])
    _, milvus = both(tmp_path, part, graph=tiny_index.GRAPH)
    with open_writer(tmp_path / "milvus") as writer:
        writer.add(part)
        assert writer.photos == 4
        assert {photo.path for photo in writer.listed()} == set(part.paths)
        for folder, inside in (("/photos/a", ["/photos/a/1.jpg"]), (os.path.dirname(odd), [odd]), ("/phot", [])):
            assert [photo.path for photo in writer.listed(path=folder)] == inside
        stored = writer.stored([(odd, None), ("/photos/none.jpg", None)])
        assert stored[odd, None].key == part.keys[2].tobytes()
        assert len(stored) == 1
        writer.remove([stored[odd, None].place])
    assert len(milvus) == 3  # what is open sees it at once
    assert milvus.copies(part.keys[2].tobytes()) == []
    assert [photo.path for photo in milvus.copies(part.keys[0].tobytes())] == part.paths[:1]


@pytest.mark.deep
def test_copies_of_a_photo_are_left_out_by_content_and_box(tmp_path):
    keys = PhotoKeys(b"the content of a file")
    box = tiny_box()
    part = columns(6, seed=1)
    stored = part.keys.copy()
    stored[0], stored[1] = np.frombuffer(keys.whole, np.uint8), np.frombuffer(keys.of(box), np.uint8)
    part = dataclasses.replace(part, keys=stored, boxes=[None, box, *[None] * 4])
    files, milvus = both(tmp_path, part, graph=tiny_index.GRAPH)
    query = columns(1, seed=9).vectors.astype(np.float32)
    assert len(milvus.search(query, 6, without=[keys])[0]) == 4
    alike(milvus.search(query, 6, without=[keys])[0], files.search(query, 6, without=[keys])[0])
    alike(milvus.search(query, 6, without=[keys.whole])[0], files.search(query, 6, without=[keys.whole])[0])
    assert {one.path for one in milvus.copies(keys)} == {one.path for one in files.copies(keys)} == set(part.paths[:2])


def tiny_box():
    from finegraph.data.samples import Box

    return Box(1.0, 2.0, 30.0, 40.5)


@pytest.mark.deep
def test_from_photos_to_hits(tmp_path, monkeypatch):
    """Every command on an index, beside the same on an index of files."""
    tiny.register(monkeypatch)
    tiny.classifier().save(tmp_path / "model")
    for number, label in enumerate(tiny.TABLE):
        (tmp_path / "photos" / label).mkdir(parents=True)
        tiny.picture(number).save(tmp_path / "photos" / label / "0.png")
    tiny.picture(50).save(tmp_path / "query.png")
    fine = list(tiny.TABLE)
    results = []
    for name, uri in (("files", None), ("milvus", str(tmp_path / "all.db"))):
        folder = tmp_path / name
        report = make_index(tmp_path / "model", [tmp_path / "photos"], folder, project=2, uri=uri)
        assert (report.photos, report.added, report.dimensions) == (len(fine), len(fine), 2)
        again = add_photos(folder, [tmp_path / "photos", tmp_path / "query.png"])
        assert (again.added, again.unchanged, again.photos) == (1, len(fine), len(fine) + 1)
        assert remove_photos(folder, [tmp_path / "photos" / fine[0]]) == 1
        assert remove_photos(folder, labels=[fine[1]]) == 1
        with pytest.raises(UnknownNameError, match="unknown fine label"):
            remove_photos(folder, labels=[fine[1]])
        with pytest.raises(InputError, match="no such photo is in the index"):
            remove_photos(folder, [tmp_path / "elsewhere"])
        compact_index(folder)
        facts, check = describe_index(folder), check_index(folder, photos=True)
        assert (facts.photos, facts.labelled, facts.complete) == (len(fine) - 1, len(fine) - 2, True)
        assert (check.photos, check.damaged, check.missing, check.changed) == (len(fine) - 1, (), (), ())
        asks = [{}, {"where": [f"fine={fine[2]}"]}, {"same": ["dish"], "other": ["restaurant"]}, {"others_only": True}]
        results.append([search_index(folder, [tmp_path / "query.png"], **ask).queries[0] for ask in asks])
    for one, two in zip(*results, strict=True):
        alike(one.hits, two.hits)
        assert one.in_index == two.in_index
    assert facts.engine == "milvus"


@pytest.mark.deep
def test_what_is_wrong_is_said_in_words(tmp_path, monkeypatch):
    options = {"model": MODEL, "graph": tiny_index.GRAPH, "feature_size": SIZE}
    with pytest.raises(SearchEngineError, match=r"127\.0\.0\.1:9: Milvus does not answer as it should.*server runs"):
        new_writer(tmp_path / "index", uri="http://127.0.0.1:9", **options)
    assert not (tmp_path / "index").exists()
    tiny_index.make(tmp_path / "index", columns(5), uri=str(tmp_path / "photos.db"))
    with pytest.raises(InputError, match="at most 16384"):
        Index.open(tmp_path / "index").search(np.ones(SIZE), 20_000)
    monkeypatch.setenv(milvus_photos.URI_VARIABLE, str(tmp_path / "other.db"))
    with pytest.raises(SearchEngineError, match="expected the collection 'finegraph_index_"):
        Index.open(tmp_path / "index")
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(MissingExtraError, match=r"finegraph\[milvus\]"):
        Index.open(tmp_path / "index")
