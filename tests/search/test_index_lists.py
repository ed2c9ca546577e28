"""The approximate search and the projection: what they claim to find is what they find."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from finegraph.errors import InputError
from finegraph.search import index_writer as writer_file
from finegraph.search import inverted_lists as lists_file
from finegraph.search.index_writer import IndexWriter, Place
from finegraph.search.inverted_lists import assign, make_lists, recall_of
from finegraph.search.nearest import Lists, Nearest, unit_rows, widened
from finegraph.search.photo_index import Index
from finegraph.search.projection import fit_projection, project
from finegraph.search.segments import join
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
    nearest = Nearest(parts, 12, lists)
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
    one = Nearest(parts, 12, Lists(lists.centres, 1, lists.of_parts))
    fewer = np.mean([recall_of(slow(parts, q, 10)[0][None], one.search(q[None], 10)[0]) for q in QUERIES])
    assert fewer < np.mean(found)


@pytest.mark.parametrize("share", [0.002, 0.05, 0.5])
def test_a_filter_makes_it_look_further(parts, share):
    lists, _ = make_lists(parts)
    nearest = Nearest(parts, 12, Lists(lists.centres, 1, lists.of_parts))
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
    nearest = Nearest(parts, 12, Lists(lists.centres, 1, lists.of_parts))
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
        writer.remove([Place(segment, row) for row in range(0, 60, 2)])
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
    """Half a byte per dimension in memory, and the best vectors from the disk."""

    def nearest(self, small, parts=(ALL[:500], ALL[500:1100])):
        centres = widened(ALL[::40][:27])
        return Nearest(parts, ALL.shape[1], Lists(centres, 9, [assign(centres, part) for part in parts]), small)

    def test_cosines_are_true_and_little_is_missed(self):
        half, small = self.nearest(False), self.nearest(True)
        expected = half.search(QUERIES, 10)[0]
        scores, numbers = small.search(QUERIES, 10)
        for row, query in enumerate(QUERIES):
            true = widened(ALL[numbers[row]]) @ query
            assert np.allclose(scores[row], true, atol=1e-6)
            assert np.all(np.diff(scores[row]) <= 0)
        assert recall_of(expected, scores) >= 0.97

    def test_filters_hold_and_few_are_all_found(self):
        only = np.zeros(1100, bool)
        only[[3, 700, 900]] = True
        scores, numbers = self.nearest(True).search(QUERIES[:2], 10, only)
        for row in range(2):
            expected = slow([ALL[:1100]], QUERIES[row], 10, only)
            assert numbers[row].tolist() == expected[1].tolist()
            assert np.allclose(scores[row], expected[0], atol=1e-6)

    def test_an_index_opens_small(self, tmp_path):
        whole = make(tmp_path / "index", columns(400), method="approximate")
        small = Index.open(tmp_path / "index", small=True)
        vector = columns(400).vectors[:1]
        one, two = ([hit.path for hit in index.search(vector, 3)[0]] for index in (whole, small))
        assert one == two
        assert (whole.small, small.small) == (False, True)

    def test_an_exact_search_stays_exact(self):
        exact = Nearest([ALL[:100]], ALL.shape[1], None, True)
        assert exact.search(QUERIES[:1], 5)[1][0].tolist() == slow([ALL[:100]], QUERIES[0], 5)[1].tolist()
