"""Index folders of every released version load for ever and give the answers that they gave when they were made."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from finegraph.search.index_writer import IndexWriter
from finegraph.search.nearest import NearestVectors
from finegraph.search.photo_index import Index
from finegraph.search.small_codes import NearestCodes

GOLDEN = Path(__file__).parents[1] / "golden"
QUESTIONS = {
    "all": {},
    "restaurant B": {"where": {"restaurant": "B"}},
    "not spicy, one of each": {"where_not": {"spicy": "yes"}, "per_label": 1},
}


def answers(index):
    """What is found, as JSON holds it, with room for the rounding of other processors."""
    query = np.linspace(-1, 1, index.state.feature_size)
    found = {name: index.search(query, 40, **question)[0] for name, question in QUESTIONS.items()}
    found["mapo tofu @ B"] = index.search_label("mapo tofu @ B", 5)
    rounded = ("score", "similarity")
    return {
        name: [
            {key: pytest.approx(value, abs=1e-5) if key in rounded else value for key, value in hit.to_dict().items()}
            for hit in hits
        ]
        for name, hits in found.items()
    }


def test_answers():
    index = Index.open(GOLDEN / "index-1")
    with pytest.warns(DeprecationWarning, match=r"Index\.method"):
        assert index.way == index.method
    assert (len(index), index.method, index.state.dimensions, index.state.removed) == (27, "approximate", 8, 3)
    assert json.loads((GOLDEN / "index-1.json").read_text(encoding="utf-8")) == answers(index)


@pytest.mark.parametrize("small", [False, True])
def test_answers_by_small_codes(small):
    """Of photos that have them since the lists were made, and of photos that came later."""
    index = Index.open(GOLDEN / "index-2", small=small)
    assert (len(index), index.method, index.state.dimensions, index.state.removed) == (32, "approximate", 8, 3)
    assert json.loads((GOLDEN / "index-2.json").read_text(encoding="utf-8")) == answers(index)
    assert type(index.engine.nearest) is (NearestCodes if small else NearestVectors)


def test_codes_are_used_where_they_are_stored():
    assert type(Index.open(GOLDEN / "index-1", small=None).engine.nearest) is NearestVectors
    assert type(Index.open(GOLDEN / "index-2", small=None).engine.nearest) is NearestCodes


@pytest.mark.parametrize("name", ["index-1", "index-2"])
def test_it_can_be_changed(tmp_path, name):
    shutil.copytree(GOLDEN / name, tmp_path / "index")
    before = answers(Index.open(tmp_path / "index"))
    with IndexWriter(tmp_path / "index") as writer:
        writer.compact()
        assert writer.state.removed == 0
    after = Index.open(tmp_path / "index").search(np.linspace(-1, 1, 16), 40)[0]
    assert [hit.path for hit in after] == [hit["path"] for hit in before["all"]]
