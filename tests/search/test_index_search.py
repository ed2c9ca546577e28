"""Searching: every answer equals that of a slow obvious search."""

import numpy as np
import pytest
import torch

from finegraph.errors import InputError, ShapeError, UnknownNameError
from finegraph.inference import Posterior
from finegraph.search import condition_factors
from finegraph.search import filters as filters_file
from finegraph.search import hits as hits_file
from finegraph.search.conditions import label_factors
from finegraph.search.milvus_photos import MilvusPhotos
from finegraph.search.photo_index import Index
from finegraph.search.segments import NONE, join
from search.tiny_index import FOREIGN, GRAPH, SIZE, columns, make, parents

PARTS = [columns(120, seed=0), columns(80, seed=1)]
ALL = join(PARTS)
QUERIES = columns(6, seed=9).vectors.astype(np.float32)


@pytest.fixture(scope="module", params=["exact", "approximate", "small", "exact in Milvus"])
def index(request, tmp_path_factory):
    method, _, milvus = request.param.partition(" in ")
    folder = tmp_path_factory.mktemp(method)
    uri = str(folder / "photos.db") if milvus else None
    if method == "small":
        make(folder / "index", *PARTS, method="approximate")
        return Index.open(folder / "index", small=True)
    return make(folder / "index", *PARTS, method=method, uri=uri)


def passes(row, where, where_not, guessed):
    """Whether a photo passes filters, by the words of the documentation."""
    label = ALL.labels[row]
    if label is None and guessed:
        label = GRAPH.fine[ALL.guess_labels[row, 0]]
    for wanted, positive in ((where, True), (where_not, False)):
        for kind, labels in (wanted or {}).items():
            labels = {labels} if isinstance(labels, str) else set(labels)
            own = {label} - {None} if kind == "fine" else parents(kind, label, seen_of(kind, row)).keys()
            if not own or bool(own & labels) != positive:
                return False
    return True


def seen_of(kind, row):
    return int(ALL.kinds[kind][row]) if kind in ALL.kinds else NONE


def slow(query, count, *, where=None, where_not=None, per_label=None, guessed=False, factors=None):
    """Photos and scores, best first."""
    rows = []
    for row in range(len(ALL)):
        if not passes(row, where, where_not, guessed):
            continue
        score = float(ALL.vectors[row].astype(np.float64) @ query)
        if factors is not None:
            pairs = zip(ALL.guess_labels[row], ALL.guess_probs[row], strict=True)
            probability = sum(factors[label] * prob for label, prob in pairs if label != NONE)
            score = (max(score, 0.0) * probability, probability)
        rows.append((score, row))
    if factors is not None:
        largest = max([score[1] for score, _ in rows], default=0.0)
        rows = [(score[0], row) for score, row in rows if score[1] > 0 and score[1] >= 0.01 * largest]
    kept, taken = [], {}
    for score, row in sorted(rows, key=lambda pair: (-pair[0], pair[1])):
        label = ALL.labels[row] or GRAPH.fine[ALL.guess_labels[row, 0]]
        taken[label] = taken.get(label, 0) + 1
        if per_label is None or taken[label] <= per_label:
            kept.append((score, row))
    return kept[:count]


def compare(hits, expected):
    np.testing.assert_allclose([hit.score for hit in hits], [score for score, _ in expected], atol=2e-3)
    ranked = [ALL.paths[row] for score, row in expected if score != 0]  # photos that score 0 are in no order
    assert [hit.path for hit in hits][: len(ranked)] == ranked


FILTERS = [
    {},
    {"where": {"restaurant": "B"}},
    {"where": {"restaurant": {"A", "B"}, "dish": "egg rice"}},
    {"where": {"spicy": "yes"}},
    {"where_not": {"spicy": "yes"}},
    {"where": {"spicy": "no"}, "where_not": {"dish": ["mapo tofu", "egg rice"]}},
    {"where": {"fine": FOREIGN}},
    {"where_not": {"fine": {FOREIGN, "egg rice @ B"}}},
    {"where": {"restaurant": "B"}, "guessed": True},
    {"where_not": {"dish": "kung pao"}, "guessed": True},
    {"where": {"fine": "mapo tofu @ A"}, "where_not": {"restaurant": "A"}},
]


@pytest.mark.deep
@pytest.mark.parametrize("options", FILTERS, ids=range(len(FILTERS)))
@pytest.mark.parametrize("count", [1, 7, 300])
def test_filters_are_exact(index, options, count):
    """With 300, all photos that pass come out; whatever the way of searching."""
    for query, hits in zip(QUERIES, index.search(QUERIES, count, **options), strict=True):
        expected = slow(query, count, **options)
        assert len(hits) == len(expected)
        if index.method == "exact" or count == 300:
            compare(hits, expected)


@pytest.mark.deep
@pytest.mark.parametrize("per_label", [1, 2, 50])
def test_at_most_so_many_of_each_label(index, per_label):
    for query, hits in zip(QUERIES, index.search(QUERIES, 8, per_label=per_label), strict=True):
        expected = slow(query, 8, per_label=per_label)
        assert len(hits) == len(expected)
        if index.method == "exact":
            compare(hits, expected)


def slow_factors(probs, same, other):
    """The probability that two labels are related as asked, by going through all labels of all kinds."""
    found = np.zeros((len(probs), len(GRAPH)))
    for query, row in enumerate(probs):
        for i, one in enumerate(GRAPH.fine):
            for j, two in enumerate(GRAPH.fine):
                part = row[i]
                for kind in (*same, *other):
                    mine, yours = parents(kind, one), parents(kind, two)
                    equal = sum(weight * yours.get(name, 0.0) for name, weight in mine.items())
                    part *= 0.0 if not mine or not yours else equal if kind in same else 1 - equal
                found[query, j] += part
    return found


CONDITIONS = [
    (("dish",), ("restaurant",)),
    (("restaurant",), ()),
    ((), ("dish", "restaurant")),
    (("spicy",), ("dish",)),
    (("dish", "restaurant"), ("spicy",)),
]


@pytest.mark.deep
@pytest.mark.parametrize(("same", "other"), CONDITIONS)
@pytest.mark.parametrize("options", [{}, {"where": {"restaurant": "B"}}, {"per_label": 1}], ids=str)
def test_conditions_rank_by_the_joint_posterior(index, same, other, options):
    scores = torch.randn(len(QUERIES), len(GRAPH), generator=torch.Generator().manual_seed(0))
    posterior = Posterior(GRAPH, 2 * scores)
    factors = condition_factors(posterior, same=same, other=other)
    np.testing.assert_allclose(factors, slow_factors(posterior.probs().double().numpy(), same, other), atol=1e-5)
    for row, hits in enumerate(index.search(QUERIES, 9, factors=factors, **options)):
        expected = slow(QUERIES[row].astype(np.float64), 9, factors=factors[row].astype(np.float64), **options)
        compare(hits, expected)
        for hit in hits:
            assert hit.score == pytest.approx(max(hit.similarity, 0.0) * hit.probability)


def test_the_same_dish_at_another_restaurant():
    """It is the joint that counts: of a photo that is one of two dishes, no mixture of the two fits."""
    posterior = Posterior(GRAPH, torch.tensor([[5.0, -9.0, -9.0, 5.0, -9.0]]))  # mapo tofu @ A or kung pao @ B
    factors = condition_factors(posterior, same=["dish"], other=["restaurant"])[0]
    assert factors == pytest.approx([0.0, 0.5, 0.5, 0.0, 0.0], abs=1e-4)


def test_a_label_knows_its_relations_for_certain():
    factors = label_factors(GRAPH, "mapo tofu @ A", same=["dish"], other=["restaurant"])
    assert factors.tolist() == [0.0, 1.0, 0.0, 0.0, 0.0]
    certain = Posterior(GRAPH, torch.tensor([[0.0, -torch.inf, -torch.inf, -torch.inf, -torch.inf]]))
    for same, other in CONDITIONS:
        expected = condition_factors(certain, same=same, other=other)[0]
        np.testing.assert_allclose(label_factors(GRAPH, "mapo tofu @ A", same=same, other=other), expected, atol=1e-6)


def test_conditions_that_cannot_be():
    posterior = Posterior(GRAPH, torch.zeros(1, len(GRAPH)))
    with pytest.raises(UnknownNameError, match="unknown kind 'dich'; did you mean 'dish'"):
        condition_factors(posterior, same=["dich"])
    with pytest.raises(InputError, match="the dish cannot be the same and another at once"):
        condition_factors(posterior, same=["dish"], other=["dish"])
    with pytest.raises(InputError, match="expected at least one kind"):
        condition_factors(posterior)


def test_more_photos_than_are_weighed(index, monkeypatch):
    """Of very many photos that may meet a condition, the nearest are taken, and weighed."""
    monkeypatch.setattr("finegraph.search.hits.MAX_WEIGHED", 5)
    if isinstance(index.engine, MilvusPhotos):
        pytest.skip("Milvus weighs as many as it gives at a time")
    factors = np.full((1, len(GRAPH)), 0.5, np.float32)
    hits = index.search(QUERIES[:1], 10, factors=factors)[0]
    assert len(hits) == 5
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_by_label(index):
    rows = [row for row, label in enumerate(ALL.labels) if label == "kung pao @ A"]
    mean = ALL.vectors[rows].astype(np.float64).mean(axis=0)
    mean /= np.linalg.norm(mean)
    np.testing.assert_allclose(index.centroid("kung pao @ A")[0], mean, atol=1e-3)
    expected = slow(mean, 300, where_not={"fine": "kung pao @ A"})
    compare(index.search_label("kung pao @ A", 300, where_not={"fine": "kung pao @ A"}), expected)
    with pytest.raises(UnknownNameError, match="unknown fine label 'kung pao @ C'; did you mean"):
        index.centroid("kung pao @ C")


def test_a_label_without_photos(tmp_path):
    part = columns(20, unlabelled=1.0)
    with pytest.raises(InputError, match="'egg rice @ B': no photo of this fine label is in the index"):
        make(tmp_path / "index", part).centroid("egg rice @ B")


def test_what_a_hit_says(index):
    found = {hit.path: hit for hit in index.search(QUERIES[0], 300)[0]}
    assert len(found) == len(ALL)
    for row, path in enumerate(ALL.paths):
        hit, label = found[path], ALL.labels[row]
        assert hit.label == label
        assert hit.guess == (GRAPH.fine[ALL.guess_labels[row, 0]] if label is None else None)
        for kind in GRAPH.kinds:
            assert set(hit.kinds.get(kind, ())) == set(parents(kind, label, seen_of(kind, row)))
        assert (hit.score, hit.probability) == (hit.similarity, None)
        assert hit.to_dict()["kinds"] == {kind: list(labels) for kind, labels in hit.kinds.items()}


def test_the_photo_itself_can_be_left_out(index):
    query = ALL.vectors[7].astype(np.float32)
    key = ALL.keys[7].tobytes()
    assert index.search(query, 3)[0][0].path == ALL.paths[7]
    hits = index.search(query, 300, without=[key])[0]
    assert len(hits) == len(ALL) - 1
    assert ALL.paths[7] not in {hit.path for hit in hits}
    some = index.search(query, 300, where={"restaurant": "B"}, without=[None])[0]
    assert len(some) == sum(passes(row, {"restaurant": "B"}, None, False) for row in range(len(ALL)))


def test_the_length_of_a_feature_does_not_matter(index):
    assert index.search(QUERIES[0] * 256, 5) == index.search(QUERIES[0] * 2, 5)


def test_an_index_without_photos(tmp_path):
    index = make(tmp_path / "index")
    assert len(index) == 0
    assert index.search(QUERIES, 3) == [[]] * len(QUERIES)
    factors = np.ones((len(QUERIES), len(GRAPH)), np.float32)
    assert index.search(QUERIES, 3, where={"dish": "egg rice"}, factors=factors) == [[]] * len(QUERIES)
    assert index.search(np.zeros((0, SIZE)), 3) == []


@pytest.mark.usefixtures("unchecked")
def test_wrong_arguments(index):
    with pytest.raises(ShapeError, match=rf"expected features of shape \(batch, {SIZE}\), got \(2, 3\)"):
        index.search(np.zeros((2, 3)))
    with pytest.raises(InputError, match="expected finite numbers, got NaN"):
        index.search(np.full(SIZE, np.nan))
    with pytest.raises(InputError, match="count: expected a whole number of at least 1, got 0"):
        index.search(QUERIES, 0)
    with pytest.raises(InputError, match="per_label: expected a whole number of at least 1, got True"):
        index.search(QUERIES, per_label=True)
    with pytest.raises(ShapeError, match=r"factors: expected shape \(6, 5\), got \(6, 4\)"):
        index.search(QUERIES, factors=np.zeros((6, 4), np.float32))
    with pytest.raises(UnknownNameError, match="unknown label 'C' of kind 'restaurant'; there are: 'A', 'B'"):
        index.search(QUERIES, where={"restaurant": "C"})
    with pytest.raises(UnknownNameError, match="unknown kind 'resturant'; did you mean 'restaurant'"):
        index.search(QUERIES, where_not={"resturant": "A"})
    with pytest.raises(UnknownNameError, match="unknown fine label 'egg rise @ B'; did you mean 'egg rice @ B'"):
        index.search(QUERIES, where={"fine": "egg rise @ B"})
    with pytest.raises(InputError, match="the filter on 'dish': expected a label or a set of labels, got 3"):
        index.search(QUERIES, where={"dish": 3})


@pytest.mark.deep
@pytest.mark.parametrize("few", [1, 4, 10**6])
def test_lists_of_labels_change_no_answer(tmp_path, monkeypatch, few):
    """Whether photos are found by the lists of their labels, or all are looked at."""
    index = make(tmp_path / "index", columns(300), columns(80, seed=1), method="approximate")
    random = np.random.default_rng(0)
    filters = [
        {"where": {"restaurant": "B"}},
        {"where": {"spicy": "yes", "dish": {"mapo tofu", "egg rice"}}},
        {"where": {"fine": FOREIGN}, "where_not": {"restaurant": "A"}},
        {"where": {"dish": "kung pao"}, "guessed": True},
        {"where_not": {"spicy": "no"}},
        {},
    ]
    factors = [None, *np.where(random.random((6, 1, len(GRAPH))) < 0.5, random.random((6, 1, len(GRAPH))) ** 8, 0.0)]
    asked = [
        (query, {**some, "factors": None if one is None else one.astype(np.float32)})
        for query in columns(3, seed=9).vectors.astype(np.float32)
        for some in filters
        for one in factors
    ]
    with monkeypatch.context() as patched:
        patched.setattr(filters_file, "_FEW", few)
        found = [index.search(query, 25, **options)[0] for query, options in asked]
    monkeypatch.setattr(filters_file, "listed_photos", lambda *_: None)
    monkeypatch.setattr(hits_file, "listed_photos", lambda *_: None)
    monkeypatch.setattr(filters_file, "_fewest", lambda *_: None)
    for hits, (query, options) in zip(found, asked, strict=True):
        slowly = index.search(query, 25, **options)[0]
        assert [hit.path for hit in hits] == [hit.path for hit in slowly]
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in slowly], abs=1e-5)


def test_copies_are_found_by_their_fingerprints(tmp_path):
    part = columns(200)
    part.keys[7] = part.keys[90]
    part.keys[8, :2] = part.keys[90, :2]  # begins alike
    index = make(tmp_path / "index", part)
    key = part.keys[90].tobytes()
    assert [photo.path for photo in index.copies(key)] == [part.paths[7], part.paths[90]]
    others = index.search(part.vectors[90], 200, without=[key])[0]
    assert {hit.path for hit in others} == set(part.paths) - {part.paths[7], part.paths[90]}
    label = part.labels[90]
    if label is not None:
        some = index.search(part.vectors[90], 200, without=[key], where={"fine": label})[0]
        assert part.paths[90] not in {hit.path for hit in some}
    assert index.copies(bytes(16)) == []
