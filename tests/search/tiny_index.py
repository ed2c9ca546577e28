"""Small indexes of made-up photos, without a model, and slow obvious answers to questions about them."""

import numpy as np

from finegraph.graph import LabelGraph
from finegraph.search import milvus_writer
from finegraph.search.index_state import ModelEntry
from finegraph.search.index_writer import IndexWriter
from finegraph.search.photo_index import Index
from finegraph.search.segments import GUESSES, NONE, Columns

GRAPH = LabelGraph.from_table(
    {
        "mapo tofu @ A": {"dish": "mapo tofu", "restaurant": "A", "spicy": True},
        "mapo tofu @ B": {"dish": "mapo tofu", "restaurant": "B", "spicy": True},
        "kung pao @ A": {"dish": "kung pao", "restaurant": "A", "spicy": {"yes": 0.75, "no": 0.25}},
        "kung pao @ B": {"dish": "kung pao", "restaurant": "B", "spicy": None},
        "egg rice @ B": {"dish": "egg rice", "restaurant": "B", "spicy": False},
    }
)
FOREIGN = "soup @ C"
SIZE = 16
MODEL = ModelEntry(path="/runs/menu", network="tiny", digest="0123456789abcdef" * 2)


def columns(count, seed=0, *, size=SIZE, prefix="photo", unlabelled=0.2, foreign=0.1):
    """Photos with random vectors and labels; some without a label, some with one that the graph does not have."""
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((count, size)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    draws = random.random(count)
    fine = random.integers(0, len(GRAPH), count)
    labels = [
        None if draw < unlabelled else FOREIGN if draw < unlabelled + foreign else GRAPH.fine[number]
        for draw, number in zip(draws, fine, strict=True)
    ]
    guess_labels = np.full((count, GUESSES), NONE, np.int32)
    guess_probs = np.zeros((count, GUESSES), np.float32)
    for row, label in enumerate(labels):
        if label is None:
            guess_labels[row, :2] = random.permutation(len(GRAPH))[:2]
            guess_probs[row, :2] = 0.6, 0.3
        elif label != FOREIGN:
            guess_labels[row, 0], guess_probs[row, 0] = GRAPH.fine.index(label), 1.0
    seen = np.where(random.random(count) < 0.3, random.integers(0, 2, count), NONE).astype(np.int32)
    return Columns(
        vectors=vectors.astype(np.float16),
        keys=random.integers(0, 256, (count, 16), dtype=np.uint8),
        paths=[f"/photos/{prefix}-{seed}-{number}.jpg" for number in range(count)],
        labels=labels,
        guess_labels=guess_labels,
        guess_probs=guess_probs,
        kinds={"spicy": seen} if seed % 2 == 0 else {},
        boxes=[None] * count,
    )


def new_writer(folder, *, size=SIZE, method="auto"):
    """A new index, to be written to."""
    return IndexWriter.create(folder, model=MODEL, graph=GRAPH, feature_size=size, method=method)


def make(folder, *parts, method="auto", uri=None):
    """An index of some photos, complete and open; in Milvus if there is a server."""
    with (
        new_writer(folder, method=method)
        if uri is None
        else milvus_writer.new_writer(folder, model=MODEL, graph=GRAPH, feature_size=SIZE, method=method, uri=uri)
    ) as writer:
        for part in parts:
            writer.add(part)
        writer.finish()
    return Index.open(folder)


def parents(kind, label, seen=NONE):
    """The labels of a kind with their weights, of a fine label and of what was seen; empty where nothing is known."""
    labels = GRAPH.labels(kind)
    if seen != NONE:
        return {labels[seen]: 1.0}
    if label not in GRAPH.fine:
        return {}
    row = GRAPH.matrix(kind)[GRAPH.fine.index(label)]
    return {name: weight for name, weight in zip(labels, row, strict=True) if weight > 0}
