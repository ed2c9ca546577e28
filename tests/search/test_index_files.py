"""Files of an index: what is written comes back, and what is damaged is found."""

import json
import shutil

import numpy as np
import pytest

from finegraph.data.samples import Box
from finegraph.errors import IndexFolderError, InputError
from finegraph.files.sealed_json import seal
from finegraph.search import photo_index as index_module
from finegraph.search.index_state import IndexState, SegmentEntry, read_state
from finegraph.search.index_writer import IndexedPlace, IndexWriter
from finegraph.search.photo_index import Index
from finegraph.search.segments import Columns, Segment, join, write_segment
from search.tiny_index import GRAPH, MODEL, columns, make, new_writer


def same(one: Columns, two: Columns):
    for name in ("vectors", "keys", "guess_labels", "guess_probs"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert (list(one.paths), list(one.labels), list(one.boxes)) == (list(two.paths), list(two.labels), list(two.boxes))
    assert one.kinds.keys() == two.kinds.keys()
    for kind in one.kinds:
        np.testing.assert_array_equal(one.kinds[kind], two.kinds[kind])


def test_a_segment_comes_back(tmp_path):
    part = columns(9)
    odd = ["/photos/\udcff\n.jpg", "/photos/é", *part.paths[2:]]
    part = Columns(**{**vars(part), "paths": odd, "boxes": [Box(1, 2, 3.5, 4), *part.boxes[1:]]})
    entry = write_segment(tmp_path / "segment-1.safetensors", part)
    segment = Segment(tmp_path, entry)
    same(segment.columns(np.arange(9)), part)
    with_some = segment.columns(np.array([7, 2]))
    assert list(with_some.paths) == [odd[7], odd[2]]


def test_joined_parts_fill_kinds_that_one_of_them_lacks():
    one, two = columns(3, seed=0), columns(2, seed=1)
    both = join([one, two])
    assert both.kinds["spicy"].tolist() == [*one.kinds["spicy"].tolist(), -1, -1]
    assert (len(both), list(both.paths)) == (5, [*one.paths, *two.paths])


def test_the_state_comes_back(tmp_path):
    with new_writer(tmp_path / "index", method="approximate") as writer:
        writer.add(columns(40))
        writer.remove([IndexedPlace(writer.state.segments[0].file.name, row) for row in (0, 8, 39)])
        writer.finish()
        state = writer.state
    again = read_state(tmp_path / "index")
    assert again.to_dict() == state.to_dict()
    assert (again.photos, again.removed, again.complete, again.model) == (37, 3, True, MODEL)
    assert np.flatnonzero(~again.segments[0].live).tolist() == [0, 8, 39]
    assert IndexState.from_dict(json.loads(json.dumps(state.to_dict()))).to_dict() == state.to_dict()


def test_a_bit_per_removed_photo():
    removed = np.zeros(19, bool)
    removed[[0, 7, 8, 18]] = True
    entry = SegmentEntry.from_dict({"file": {"name": "x", "bytes": 1, "sha256": ""}, "rows": 19, "removed": ""})
    assert entry.live.all()
    entry = SegmentEntry(file=entry.file, rows=19, removed=removed)
    assert (SegmentEntry.from_dict(entry.to_dict()).removed == removed).all()


@pytest.mark.parametrize("noun", ["segment", "lists", "graph"])
@pytest.mark.parametrize("harm", ["flip", "cut", "gone"])
def test_damage_is_found_and_named(tmp_path, noun, harm):
    make(tmp_path / "index", columns(50), method="approximate")
    path = next((tmp_path / "index").glob(f"{noun}*"))
    data = path.read_bytes()
    if harm == "flip":
        path.write_bytes(data[:-9] + bytes([data[-9] ^ 4]) + data[-8:])
    elif harm == "cut":
        path.write_bytes(data[:-1])
    else:
        path.unlink()
    words = {"flip": "does not match its SHA-256", "cut": f"expected {len(data)} bytes, got", "gone": "is missing"}
    with pytest.raises(IndexFolderError, match=rf"{path.name}.*{words[harm]}"):
        Index.open(tmp_path / "index")


def test_a_damaged_or_foreign_state_is_refused(tmp_path):
    make(tmp_path / "index", columns(5))
    path = tmp_path / "index/index.json"
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"way": "auto"', b'"way": "oops"'))
    with pytest.raises(IndexFolderError, match=r"index\.json: the file is damaged \(its checksum is not that"):
        Index.open(tmp_path / "index")
    path.write_bytes(seal({"format": "finegraph.index", "version": 3, "finegraph": "9.9"}))
    with pytest.raises(IndexFolderError, match=r"made by finegraph '9\.9' in version 3 of the format; this finegraph"):
        Index.open(tmp_path / "index")
    path.write_bytes(seal({"format": "finegraph.checkpoint"}))
    with pytest.raises(IndexFolderError, match=r"expected the format 'finegraph\.index', got 'finegraph\.checkpoint'"):
        Index.open(tmp_path / "index")


def test_what_is_no_index(tmp_path):
    (tmp_path / "dishes").mkdir()
    with pytest.raises(IndexFolderError, match=r"dishes: expected an index, which has a file index\.json, got another"):
        Index.open(tmp_path / "dishes")
    with pytest.raises(IndexFolderError, match=r"got nothing: there is no such folder; did you mean '.*dishes'"):
        IndexWriter(tmp_path / "dishs")
    (tmp_path / "file").write_text("x")
    with pytest.raises(IndexFolderError, match=r"file: expected an index, which has .*, got a file"):
        Index.open(tmp_path / "file")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["dishes", "file"]


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "diary.txt").write_text("x")
    with pytest.raises(IndexFolderError, match=r"expected a new or empty folder for the index, got one with 'diary"):
        new_writer(tmp_path)
    make(tmp_path / "index", columns(2))
    with pytest.raises(IndexFolderError, match="there is an index already; add photos to it, or choose another"):
        new_writer(tmp_path / "index")
    assert {path.name for path in tmp_path.iterdir()} == {"diary.txt", "index"}


def test_one_writer_at_a_time(tmp_path):
    words = r"this index is in use by this process \(\d+\) already; wait for it or stop it \(if that process"
    with new_writer(tmp_path / "index"), pytest.raises(IndexFolderError, match=words):
        IndexWriter(tmp_path / "index")
    IndexWriter(tmp_path / "index").close()


def test_wrong_arguments(tmp_path):
    with pytest.raises(InputError, match="method: expected one of auto, exact, approximate, got 'fast'"):
        new_writer(tmp_path / "index", method="fast")
    with new_writer(tmp_path / "index") as writer:
        with pytest.raises(InputError, match=r"expected vectors of 16 numbers, got \(8,\)"):
            writer.add(columns(2, size=8))
        writer.add(columns(2))
        with pytest.raises(InputError, match="a projection is chosen before the first photo is stored"):
            writer.set_projection(np.eye(16, 4, dtype=np.float32), 1.0)


def test_an_open_index_stays_as_it_was(tmp_path):
    index = make(tmp_path / "index", columns(30))
    vector = columns(30).vectors[3].astype(np.float32)
    before = index.search(vector, 5)
    with IndexWriter(tmp_path / "index") as writer:
        places = writer.places()
        writer.remove([place for identity, place in places.items() if identity[0] != before[0][0].path][:20])
        assert not index.is_current()
        writer.compact()
    assert index.search(vector, 5) == before
    again = Index.open(tmp_path / "index")
    assert again.is_current()
    assert len(again) == 10
    assert len(index) == 30


def test_an_index_that_was_made_anew_is_another_one(tmp_path):
    index = make(tmp_path / "index", columns(30))
    shutil.rmtree(tmp_path / "index")
    again = make(tmp_path / "index", columns(30, seed=2))
    assert again.state.generation == index.state.generation
    assert not index.is_current()
    assert again.is_current()
    shutil.copy(tmp_path / "index" / "index.json", tmp_path / "copy")
    (tmp_path / "copy").replace(tmp_path / "index" / "index.json")  # another file, the same index
    assert again.is_current()


def test_an_index_that_is_made_anew_while_it_is_opened(tmp_path, monkeypatch):
    make(tmp_path / "index", columns(30))
    real, read = index_module.read_state, []

    def replaced_meanwhile(folder):
        state = real(folder)
        if not read:
            shutil.rmtree(folder)
            with new_writer(folder) as writer:
                writer.add(columns(30, seed=2))
                writer.finish()
        read.append(state.generation)
        return state

    monkeypatch.setattr(index_module, "read_state", replaced_meanwhile)
    assert len(Index.open(tmp_path / "index")) == 30
    assert len(set(read)) == 1


def test_an_index_that_is_merged_while_it_is_opened(tmp_path, monkeypatch):
    """The state is read, then another process merges; the files that the state names are gone."""
    make(tmp_path / "index", columns(30))
    state = read_state(tmp_path / "index")
    with IndexWriter(tmp_path / "index") as writer:
        writer.compact()
    states = [state]
    monkeypatch.setattr(
        "finegraph.search.photo_index.read_state", lambda folder: states.pop() if states else read_state(folder)
    )
    assert len(Index.open(tmp_path / "index")) == 30


def test_the_graph_of_the_model_is_in_it(tmp_path):
    assert make(tmp_path / "index", columns(3)).graph == GRAPH
