"""The list of classes that photos contradict, over HTTP."""

import httpx
import pytest
from label_server import serving

from finegraph import LabelGraph
from finegraph.labelling import LabelStore, Proposal
from finegraph.workflows.label import LabelSession


@pytest.fixture
def client(tmp_path):
    table = {"café": {"dish": "x"}, "soup": {"dish": "y"}, "rice": {"dish": "y"}}
    with LabelStore.create(tmp_path / "x.db") as store:
        store.import_graph(LabelGraph.from_table(table), person="import", edit_id="1")
        seen = [
            Proposal("café", "dish", "y", "model", 0.7, "seen"),
            Proposal("soup", "dish", "x", "model", 0.9, "seen"),
        ]
        store.put_suggestions("model", seen)
        store.put_suggestions("name", [Proposal("rice", "dish", "x", "name", 0.99, "a name is no photo")])
        with (
            serving(LabelSession(store=store, name="x")) as server,
            httpx.Client(base_url=server.url, timeout=30) as made,
        ):
            yield made


def test_only_photos_contradict_and_the_surest_come_first(client):
    for asked in ({}, {"kind": "dish"}):
        page = client.get("/api/classes", params={"show": "contradicted", **asked}).json()
        assert ([row["fine"] for row in page["rows"]], page["total"]) == (["soup", "café"], 2)
    assert [row["suggestion"]["value"] for row in page["rows"]] == ["x", "y"]
    page = client.get("/api/classes", params={"show": "contradicted", "limit": 1, "offset": 1}).json()
    assert ([row["fine"] for row in page["rows"]], page["total"]) == (["café"], 2)


def test_the_search_is_that_of_all_lists(client):
    page = client.get("/api/classes", params={"show": "contradicted", "search": "CAFE"}).json()
    assert [row["fine"] for row in page["rows"]] == ["café"]
