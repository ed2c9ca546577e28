"""The approximate search and the projection: what they claim to find is what they find."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from finegraph.errors import IndexFolderError, InputError
from finegraph.search import index_writer as writer_file
from finegraph.search import inverted_lists as lists_file
from finegraph.search import list_files as list_file
from finegraph.search import nearest as nearest_file
from finegraph.search.index_writer import IndexedPlace, IndexWriter
from finegraph.search.inverted_lists import assign, make_codes, make_lists, recall_of
from finegraph.search.list_files import read_code_recall
from finegraph.search.nearest import Lists, NearestVectors, reader_of, unit_rows, widened
from finegraph.search.photo_index import Index
from finegraph.search.projection import fit_projection, project
from finegraph.search.segments import join
from finegraph.search.small_codes import Codebook, CodeLists, CodeSpan, NearestCodes, pack
from search.tiny_index import SIZE, columns, make, new_writer


def spread(count, size=12, seed=0):
    """Vectors on the sphere, some of them in groups."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((max(1, count // 20), size))
    vectors = centres[random.integers(0, len(centres), count)] + 0.4 * random.standard_normal((count, size))
    return unit_rows(vectors.astype(np.float32)).astype(np.float16)


def slow(parts, query, count, only=None):
    """The nearest vectors by comparing all in double precision."""
    cosines = np.concatenate(parts).astype(np.float64) @ query.astype(np.float64)
    numbers = np.arange(len(cosines)) if only is None else np.flatnonzero(only)
    order = numbers[np.argsort(-cosines[numbers], kind="stable")][:count]
    return cosines[order], order


ALL = spread(1160, seed=1)
QUERIES = widened(ALL[1100:])
"""Of the same groups as the vectors, and not among them."""


@pytest.fixture(scope="module")
def parts():
    return [ALL[:700], ALL[:0], ALL[700:1100]]


def test_all_lists_are_exact_and_the_recall_is_what_was_measured(parts):
    lists, recall = make_lists(parts)
    assert len(lists.centres) == 32
    assert [len(own) for own in lists.of_parts] == [700, 0, 400]
    nearest = NearestVectors(parts, 12, lists)
    found = []
    for query in QUERIES:
        truth, numbers = slow(parts, query, 10)
        scores, places = nearest.search(query[np.newaxis], 10, probes=nearest.lists)
        np.testing.assert_allclose(scores[0], truth, atol=1e-5)
        assert set(places[0]) == set(numbers)
        found.append(recall_of(truth[np.newaxis], nearest.search(query[np.newaxis], 10)[0]))
    assert recall >= lists_file.WANTED_RECALL or lists.probes == 32
    assert lists.probes >= 8
    assert np.mean(found) > 0.95
    one = NearestVectors(parts, 12, Lists(lists.centres, 1, lists.of_parts))
    fewer = np.mean([recall_of(slow(parts, q, 10)[0][None], one.search(q[None], 10)[0]) for q in QUERIES])
    assert fewer < np.mean(found)


@pytest.mark.parametrize("share", [0.002, 0.05, 0.5])
def test_a_filter_makes_it_look_further(parts, share):
    lists, _ = make_lists(parts)
    nearest = NearestVectors(parts, 12, Lists(lists.centres, 1, lists.of_parts))
    only = np.random.default_rng(4).random(1100) < share
    for query in QUERIES[:20]:
        scores, numbers = nearest.search(query[np.newaxis], 30, only)
        assert scores.shape == (1, min(30, only.sum()))
        assert (numbers >= 0).all()
        assert only[numbers].all()
        if share < 1 / 32:
            np.testing.assert_allclose(scores[0], slow(parts, query, 30, only)[0], atol=1e-5)


def test_a_filter_costs_no_recall(parts):
    """With a tenth of the vectors, ten times as many lists are looked through, also where one would hold a hit."""
    lists, _ = make_lists(parts)
    nearest = NearestVectors(parts, 12, Lists(lists.centres, 1, lists.of_parts))
    only = np.random.default_rng(5).random(1100) < 0.1
    right = [nearest.search(query[None], 1, only)[1][0, 0] == slow(parts, query, 1, only)[1][0] for query in QUERIES]
    assert np.mean(right) > 0.9


def test_each_vector_is_in_the_list_of_the_nearest_centre(parts):
    lists, _ = make_lists(parts)
    expected = (widened(parts[2]) @ lists.centres.T).argmax(axis=1)
    assert (assign(lists.centres, parts[2]) == expected).mean() > 0.999
    assert assign(lists.centres, parts[1]).tolist() == []


def test_recall_counts_equal_photos_as_equal():
    truth = np.array([[0.9, 0.8, 0.7]], np.float32)
    assert recall_of(truth, truth) == 1.0
    assert recall_of(truth, np.array([[0.9, 0.8, 0.6]], np.float32)) == pytest.approx(2 / 3)
    assert recall_of(truth, np.array([[0.9]], np.float32)) == pytest.approx(1 / 3)
    assert recall_of(np.zeros((4, 0)), np.zeros((4, 0))) == 1.0


def test_the_way_is_chosen_by_size(tmp_path, monkeypatch):
    monkeypatch.setattr(writer_file, "MAX_EXACT", 50)
    assert make(tmp_path / "few", columns(50)).method == "exact"
    assert make(tmp_path / "many", columns(51)).method == "approximate"
    assert make(tmp_path / "exact", columns(51), method="exact").method == "exact"
    with new_writer(tmp_path / "grown") as writer:
        writer.add(columns(40, seed=0))
        writer.finish()
        assert writer.state.lists is None
        writer.add(columns(40, seed=1))
        writer.finish()
        assert writer.state.lists.photos == 80


def test_photos_that_come_later_are_found_and_removed_ones_are_not(tmp_path):
    first, later = columns(60, seed=0), columns(30, seed=1)
    make(tmp_path / "index", first, method="approximate")
    with IndexWriter(tmp_path / "index") as writer:
        segment = writer.state.segments[0].file.name
        writer.remove([IndexedPlace(segment, row) for row in range(0, 60, 2)])
        writer.add(later)
        lists = writer.state.lists
    index = Index.open(tmp_path / "index")
    assert (index.method, index.state.lists) == ("approximate", lists)
    for part, rows in ((later, range(30)), (first, range(1, 60, 2))):
        for row in rows:
            assert index.search(part.vectors[row], 1)[0][0].path == part.paths[row]
    everything = {hit.path for hit in index.search(np.ones(SIZE), 100)[0]}
    assert everything == {*later.paths, *first.paths[1::2]}
    with IndexWriter(tmp_path / "index") as writer:
        writer.compact()
        assert (writer.state.lists.photos, writer.state.removed) == (60, 0)
    assert {hit.path for hit in Index.open(tmp_path / "index").search(np.ones(SIZE), 100)[0]} == everything


def test_merging_into_several_segments_keeps_every_photo(tmp_path, monkeypatch):
    monkeypatch.setattr(writer_file, "MERGED_ROWS", 25)
    parts = [columns(count, seed=seed) for seed, count in enumerate((10, 1, 40, 9))]
    make(tmp_path / "index", *parts)
    with IndexWriter(tmp_path / "index") as writer:
        writer.compact()
        assert [entry.rows for entry in writer.state.segments] == [25, 25, 10]
    table, everything = Index.open(tmp_path / "index").engine.table, join(parts)
    assert [table.path(photo) for photo in range(60)] == everything.paths
    assert [bytes(table.key(photo)) for photo in range(60)] == [key.tobytes() for key in everything.keys]
    seen = np.concatenate([part.kinds.get("spicy", np.full(len(part), -1)) for part in parts])
    assert table.seen["spicy"].tolist() == seen.tolist()


def test_threads_get_the_same_answers(tmp_path):
    index = make(tmp_path / "index", columns(300), method="approximate")
    queries = columns(40, seed=5).vectors.astype(np.float32)
    alone = [index.search(query, 5, where={"restaurant": "B"}, per_label=2) for query in queries]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda query: index.search(query, 5, where={"restaurant": "B"}, per_label=2), queries))
    assert together == alone


def test_the_projection_is_the_best_there_is():
    features = unit_rows(np.random.default_rng(0).standard_normal((300, 10)).astype(np.float32) * np.arange(1, 11))
    directions, recall = fit_projection(features, 4)
    values = np.linalg.svd(features.astype(np.float64))[1]
    assert np.square(features @ directions).sum() == pytest.approx(np.square(values[:4]).sum(), rel=1e-5)
    projected = project(features * 7, directions)
    np.testing.assert_allclose(np.linalg.norm(projected, axis=1), 1.0, atol=1e-5)
    np.testing.assert_allclose(projected, unit_rows(features @ directions), atol=1e-5)
    assert 0.1 < recall < 1.0


def test_a_projection_that_loses_nothing_says_so():
    random = np.random.default_rng(0)
    flat = random.standard_normal((200, 3)) @ random.standard_normal((3, 10))
    assert fit_projection(unit_rows(flat.astype(np.float32)), 3)[1] == 1.0


def test_projections_that_cannot_be():
    features = unit_rows(np.random.default_rng(0).standard_normal((20, 10)).astype(np.float32))
    with pytest.raises(
        InputError, match="expected a projection to 1 to 9 dimensions, fewer than the feature has, got 10"
    ):
        fit_projection(features, 10)
    with pytest.raises(InputError, match="expected at least 18 photos to fit a projection to 9 dimensions, got 17"):
        fit_projection(features[:17], 9)


class TestSmallCodes:
    """A byte for four dimensions, and the best vectors from the disk."""

    def nearest(self, parts, probes=9):
        lists, _ = make_lists(parts)
        book, packed = make_codes(parts, lists)
        count = sum(len(part) for part in parts)
        return NearestCodes(book, [CodeLists(book, packed, [CodeSpan(0, count, 0)])], count, probes, reader_of(parts))

    def test_cosines_are_true_and_little_is_missed(self, parts):
        small = self.nearest(parts)
        lists, _ = make_lists(parts)
        half = NearestVectors(parts, 12, Lists(lists.centres, 9, lists.of_parts))
        scores, numbers = small.search(QUERIES, 10)
        for row, query in enumerate(QUERIES):
            assert np.allclose(scores[row], widened(ALL[numbers[row]]) @ query, atol=1e-6)
            assert np.all(np.diff(scores[row]) <= 0)
        assert recall_of(half.search(QUERIES, 10)[0], scores) >= 0.97

    def test_all_lists_and_all_candidates_are_exact(self, parts):
        small = self.nearest(parts)
        for query in QUERIES[:10]:
            truth, numbers = slow(parts, query, 300)
            scores, places = small.search(query[np.newaxis], 300, probes=small.lists)  # more candidates than vectors
            np.testing.assert_allclose(scores[0], truth, atol=1e-5)
            assert set(places[0]) == set(numbers)

    @pytest.mark.parametrize("share", [0.002, 0.3])
    def test_filters_hold(self, parts, share, monkeypatch):
        monkeypatch.setattr(nearest_file, "_MAX_COMPARED", 0)
        small, only = self.nearest(parts), np.random.default_rng(4).random(1100) < share
        for query in QUERIES[:10]:
            expected = slow(parts, query, 30, only)
            for form in (only, np.flatnonzero(only)):
                scores, numbers = small.search(query[np.newaxis], 30, form)
                assert numbers.shape == (1, min(30, only.sum()))
                assert only[numbers].all()
                if share < 0.01:
                    assert numbers[0].tolist() == expected[1].tolist()
                    np.testing.assert_allclose(scores[0], expected[0], atol=1e-5)

    def test_a_few_vectors_are_compared_one_by_one(self, parts):
        numbers = np.array([3, 700, 900])
        for nearest in (self.nearest(parts, probes=1), NearestVectors(parts, 12), NearestVectors(parts[:1], 12)):
            some = numbers[numbers < nearest.count]
            for query in QUERIES[:3]:
                scores, found = nearest.search(query[np.newaxis], 10, some)
                expected = slow(parts, query, 10, np.isin(np.arange(1100), some))
                assert found[0].tolist() == expected[1].tolist()
                np.testing.assert_allclose(scores[0], expected[0], atol=1e-5)

    def test_codes_name_the_nearest_pieces(self):
        """As the definition says, piece by piece; also where the number of dimensions is no multiple of four."""
        vectors = spread(400, size=10, seed=3)
        centres = widened(vectors[:5])
        lists = assign(centres, vectors)
        book = Codebook.learn(centres, vectors, lists)
        assert book.rotation.shape == (10, 12)
        np.testing.assert_allclose(book.rotation @ book.rotation.T, np.eye(10), atol=1e-5)
        rests = ((widened(vectors) - centres[lists]) @ book.rotation).reshape(400, 3, 4)
        distances = np.square(rests[:, :, np.newaxis] - book.pieces[np.newaxis]).sum(axis=-1)
        assert (book.encode(vectors, lists) == distances.argmin(axis=-1)).mean() > 0.99

    def test_packed_codes_hold_each_vector_once_in_its_list(self):
        random = np.random.default_rng(0)
        codes, lists = random.integers(0, 256, (50, 3), dtype=np.uint8), random.integers(0, 7, 50).astype(np.int32)
        ids = np.sort(random.choice(90, 50, replace=False))
        packed = pack([codes[:20], codes[20:20], codes[20:]], lists, ids, 7)
        assert packed.sizes.tolist() == np.bincount(lists, minlength=7).tolist()
        data, begin = packed.entries.view(np.uint8), 0
        for number, size in enumerate(packed.sizes.tolist()):
            room = -(-size // 8) * 8
            own = np.flatnonzero(lists == number)
            assert data[begin : begin + 3 * size].reshape(size, 3).tolist() == codes[own].tolist()
            numbers = data[begin + 3 * room : begin + 11 * room].view(np.int64)
            assert numbers[:size].tolist() == ids[own].tolist()
            begin += 11 * room
        assert begin == len(data)


class TestSmallIndex:
    """An index that is opened by its small codes."""

    def paths(self, folder, count, small=True):
        hits = Index.open(folder, small=small).search(np.ones(SIZE), count)[0]
        return [hit.path for hit in hits]

    @pytest.mark.deep
    def test_it_answers_as_the_whole_one_does(self, tmp_path):
        whole = make(tmp_path / "index", columns(400), columns(50, seed=1), method="approximate")
        small = Index.open(tmp_path / "index", small=True)
        assert (whole.small, small.small, small.method) == (False, True, "approximate")
        for query in columns(20, seed=7).vectors.astype(np.float32):
            for options in ({}, {"where": {"restaurant": "B"}}, {"where_not": {"spicy": "yes"}}, {"per_label": 2}):
                one, two = (index.search(query, 60, **options)[0] for index in (whole, small))
                assert [hit.path for hit in one] == [hit.path for hit in two]

    def test_photos_come_and_go(self, tmp_path):
        """Added photos bring their codes, removed ones are never found, in any order of changes."""
        first, second, later, last = (columns(count, seed=seed) for seed, count in enumerate((60, 40, 30, 20)))
        make(tmp_path / "index", first, second, method="approximate")
        names = [entry.file.name for entry in Index.open(tmp_path / "index").state.segments]
        with IndexWriter(tmp_path / "index") as writer:
            writer.remove([IndexedPlace(names[0], row) for row in range(0, 60, 2)])
            writer.add(later, [IndexedPlace(names[0], 1)])
            writer.remove([IndexedPlace(names[1], row) for row in range(40)])  # the segment goes
            writer.add(last)
            added = [entry.file.name for entry in writer.state.segments][1:]
            writer.remove([IndexedPlace(added[0], 3), IndexedPlace(added[1], 19)])
            lists = writer.state.lists.file.name
            assert [(one.lists, one.arrays["codes"].shape[1]) for one in writer.segments()[1:]] == [(lists, 4)] * 2
        there = {*first.paths[3::2], *later.paths[:3], *later.paths[4:], *last.paths[:19]}
        assert set(self.paths(tmp_path / "index", 200)) == there
        assert self.paths(tmp_path / "index", 30) == self.paths(tmp_path / "index", 30, small=False)
        small = Index.open(tmp_path / "index", small=True)
        for part, rows in ((first, range(3, 60, 2)), (later, range(4, 30)), (last, range(19))):
            for row in rows:
                assert small.search(part.vectors[row], 1)[0][0].path == part.paths[row]
                label = part.labels[row]
                if label is not None:
                    assert small.search(part.vectors[row], 1, where={"fine": label})[0][0].path == part.paths[row]
        with IndexWriter(tmp_path / "index") as writer:
            writer.compact()
            assert writer.segments()[0].lists is None
        assert set(self.paths(tmp_path / "index", 200)) == there

    def test_many_additions_are_merged_and_rebuild_nothing_until_they_are_many(self, tmp_path):
        first, parts = columns(200), [columns(3, seed=seed) for seed in range(1, 31)]
        make(tmp_path / "index", first, method="approximate")
        sizes, files = [], set()
        for part in parts:
            with IndexWriter(tmp_path / "index") as writer:
                writer.add(part)
                writer.finish()
                sizes.append(len(writer.state.segments))
                files.add(writer.state.lists.file.name)
                base = writer.state.segments[0].rows
            if len(sizes) == 12:
                assert (len(files), base) == (1, 200)
                late = writer.segments()[1]
                assert (late.entry.rows, late.lists) == (24, writer.state.lists.file.name)
                assert self.paths(tmp_path / "index", 40) == self.paths(tmp_path / "index", 40, small=False)
        assert max(sizes) <= 9
        assert len(files) == 2  # made again once, when the late photos were more than a quarter
        assert set(self.paths(tmp_path / "index", 400)) == {path for part in (first, *parts) for path in part.paths}

    def test_the_measured_share_is_kept(self, tmp_path):
        index = make(tmp_path / "index", columns(300), method="approximate")
        recall = read_code_recall(tmp_path / "index", index.state.lists)
        assert 0.9 < recall <= 1.0

    def test_a_damaged_file_is_named(self, tmp_path):
        index = make(tmp_path / "index", columns(300), method="approximate")
        path = tmp_path / "index" / index.state.lists.file.name
        data = bytearray(path.read_bytes())
        data[-100] ^= 1
        path.write_bytes(data)
        with pytest.raises(IndexFolderError, match=rf"{path.name}: the content does not match its SHA-256"):
            Index.open(tmp_path / "index", small=True)

    def test_an_index_of_an_earlier_version_opens_small(self, tmp_path):
        """Its lists have no codes, and neither have photos that are added to it until it is compacted."""
        folder = tmp_path / "index"
        shutil.copytree(Path(__file__).parents[1] / "golden" / "index-1", folder)
        query = np.linspace(-1, 1, 16)

        def found(small):
            return [hit.path for hit in Index.open(folder, small=small).search(query, 60)[0]]

        assert found(True) == found(False)
        assert len(found(True)) == 27
        assert read_code_recall(folder, Index.open(folder).state.lists) is None
        new = columns(12, seed=5, size=8)
        with IndexWriter(folder) as writer:
            writer.add(new)
            added = writer.segments()[-1]
            assert added.lists == writer.state.lists.file.name
            assert "codes" not in added.arrays
        assert found(True) == found(False)
        assert set(new.paths) < set(found(True))

    def test_a_process_that_dies_while_codes_are_written_leaves_the_index_as_it_was(self, tmp_path, monkeypatch):
        make(tmp_path / "index", columns(100), method="approximate")
        before = self.paths(tmp_path / "index", 100)

        def killed(*_):
            raise KeyboardInterrupt

        with IndexWriter(tmp_path / "index") as writer:
            monkeypatch.setattr(list_file, "write_arrays", killed)
            with pytest.raises(KeyboardInterrupt):
                writer.compact()
        monkeypatch.undo()
        assert self.paths(tmp_path / "index", 100) == before
        with IndexWriter(tmp_path / "index") as writer:
            names = {file.name for file in writer.state.files}
            assert {path.name for path in (tmp_path / "index").glob("*-*.safetensors")} <= names
