"""The routes beside prediction: the model, its labels, health, metrics, samples."""

import io
import json

import pytest
from PIL import Image

import tiny_classifier as tiny
from finegraph.errors import DataError
from finegraph.graph import LabelGraph
from finegraph.graph.graph_files import graph_from_json
from finegraph.web.problems import ProblemError
from finegraph.web.serve.model_routes import MAX_ORDER, kinds_of
from finegraph.web.serve.photo_files import PhotoPlace, SamplePhotos, Thumbnails
from serving import files, photo_bytes, running


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    for seed in range(3):
        tiny.picture(seed, width=700, height=500).save(folder / f"{seed}.jpg", comment=b"secret")
    (folder / "notes.txt").write_text("no photo")
    (folder.parent / "outside.jpg").write_bytes(b"outside")
    with pytest.MonkeyPatch.context() as patch:
        tiny.register(patch)
        with running(tiny.classifier(), samples=folder) as found:
            yield found


def test_the_model_tells_its_kinds_and_limits(server):
    body = server.client.get("/v1/model").json()
    assert (body["fine"], body["index"], body["name"]) == (5, 0, "menu")
    kinds = {kind["name"]: kind for kind in body["kinds"]}
    assert kinds["with: tofu"] == {
        "name": "with: tofu",
        "labels": 2,
        "binary": True,
        "group": "with",
        "part": "tofu",
        "ordered": False,
        "order": None,
    }
    assert (kinds["spicy"]["group"], kinds["dish"]["binary"], kinds["dish"]["labels"]) == (None, False, 3)
    assert body["limits"]["photos"] == 32


@pytest.mark.parametrize(("labels", "listed"), [(MAX_ORDER, True), (MAX_ORDER + 1, False)])
def test_a_long_order_is_not_sent_with_every_page(labels, listed):
    grades = [f"grade {number}" for number in range(labels)]
    table = {f"tea {number}": {"grade": grade} for number, grade in enumerate(grades)}
    (kind,) = kinds_of(LabelGraph.from_table(table, {"grade": tuple(grades)}))
    assert (kind.ordered, kind.labels) == (True, labels)
    assert kind.order == (grades if listed else None)


def test_the_graph_is_the_canonical_one_and_is_not_sent_twice(server):
    response = server.client.get("/v1/graph")
    assert graph_from_json(response.text) == server.model.graph
    again = server.client.get("/v1/graph", headers={"if-none-match": response.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_labels_are_found_by_a_part_of_them(server):
    body = server.client.get("/v1/labels", params={"kind": "dish", "search": "PA"}).json()
    assert body == {"kind": "dish", "count": 1, "labels": ["kung pao"]}
    assert server.client.get("/v1/labels", params={"limit": 2}).json()["count"] == 5
    wrong = server.client.get("/v1/labels", params={"kind": "dsh"})
    assert (wrong.status_code, "did you mean 'dish'" in wrong.json()["detail"]) == (422, True)


def test_health_and_metrics(server):
    assert server.client.get("/health/live").json() == {"status": "live"}
    assert server.client.get("/health/ready").json() == {"status": "ready"}
    server.client.post("/v1/predict", files=files(photo_bytes(), b"x"))
    text = server.client.get("/metrics").text
    assert 'finegraph_photos_total{outcome="answered"}' in text
    assert 'finegraph_photos_total{outcome="bad"}' in text
    assert "finegraph_photos_inside 0.0" in text
    assert server.client.get("/nowhere/<b>").status_code == 404
    assert "nowhere" not in server.client.get("/metrics").text


def test_without_an_index_search_says_so(server):
    response = server.client.post("/v1/search", files=files(photo_bytes()))
    assert (response.status_code, response.json()["type"]) == (404, "urn:finegraph:problem:no-index")


def test_samples_are_named_by_number_only(server):
    listed = server.client.get("/v1/samples").json()
    assert [sample["url"] for sample in listed] == [f"/v1/samples/{number}" for number in range(3)]
    original = server.client.get("/v1/samples/1").content
    assert Image.open(io.BytesIO(original)).size == (700, 500)
    small = server.client.get(listed[1]["thumbnail"])
    assert small.headers["content-type"] == "image/jpeg"
    assert max(Image.open(io.BytesIO(small.content)).size) == 320
    assert b"secret" not in small.content
    assert server.client.get("/v1/samples/3").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/v1/samples/..%2foutside.jpg",
        "/v1/samples/../outside.jpg",
        "/assets/../problems.py",
        "/assets/..%2fproblems.py",
        "/assets/%2e%2e/problems.py",
        "/assets//etc/passwd",
        "/v1/photos/..%2f..%2foutside.jpg",
        "/v1/photos/outside.jpg",
    ],
)
def test_no_path_leads_out_of_the_folders(server, path):
    with server.client.stream("GET", server.address + path) as response:
        content = response.read()
    assert response.status_code in (404, 422), path
    assert b"outside" not in content.replace(b"outside.jpg", b"")
    assert b"ProblemKind" not in content


def test_openapi_describes_the_routes_and_loads_nothing_from_elsewhere(server):
    description = server.client.get("/openapi.json").json()
    assert {"/v1/predict", "/v1/given", "/v1/search", "/v1/graph", "/v1/model", "/metrics"} <= set(description["paths"])
    assert "photo" in json.dumps(description["paths"]["/v1/predict"]["post"]["requestBody"])
    assert "https://" not in json.dumps(description)
    for methods in description["paths"].values():
        for operation in methods.values():
            assert operation["summary"][0].isupper()
            assert operation["summary"].endswith(".")
            assert len(operation["summary"].split()) > 2
    assert "security" not in description  # there is no token


def test_sample_folders_that_are_none_are_refused(tmp_path):
    with pytest.raises(DataError, match="expected a folder of photos"):
        SamplePhotos(tmp_path / "none")
    assert SamplePhotos(None).paths == []


def test_keys_of_thumbnails_cannot_be_made_by_others():
    one, two = Thumbnails(), Thumbnails()
    photo = PhotoPlace("/photos/a.jpg", "/photos")
    key = one.key(photo)
    assert one.photo(key) == photo
    assert one.key(photo) == key
    two.key(photo)
    with pytest.raises(ProblemError, match="search again"):
        two.photo(key)


@pytest.mark.deep
def test_a_graph_without_kinds_is_served():
    with pytest.MonkeyPatch.context() as patch:
        tiny.register(patch)
        graph = LabelGraph.from_table({"a": {}, "b": {}})
        with running(tiny.classifier(graph)) as server:
            data = {"scores": "true"}
            found = server.client.post("/v1/predict", files=files(photo_bytes()), data=data).json()["photos"][0]
            answer = server.client.post("/v1/given", json={"scores": found["scores"], "given": {"fine": ["b"]}})
            assert answer.json()["prediction"]["top"] == [{"label": "b", "probability": 1.0}]
            assert answer.json()["prediction"]["explanation"] is None
