"""The OpenAPI description holds: whatever is sent, the answer is one that it names."""

import hypothesis
import pytest

import tiny_classifier as tiny
from finegraph.model import PhotoClassifier
from finegraph.web.serve.answering import ServedModel
from finegraph.web.serve.searching import PhotoIndex
from finegraph.workflows.index import make_index
from serving import files, photo_bytes, running

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with an index and samples, so that every route has something to answer."""
    root = tmp_path_factory.mktemp("contract")
    with pytest.MonkeyPatch.context() as patch:
        tiny.register(patch)
        tiny.classifier().save(root / "model")
        for number, label in enumerate(tiny.TABLE):
            (root / "photos" / label).mkdir(parents=True)
            for seed in (0, 1):
                tiny.picture(10 * number + seed).save(root / "photos" / label / f"{seed}.png")
        make_index(root / "model", [root / "photos"], root / "index", engine="torch")
        model = PhotoClassifier.load(root / "model")
        index = PhotoIndex.open_for(root / "index", ServedModel(model, "menu"))
        with running(model, index=index, samples=root / "photos") as found:
            yield found


OPERATIONS = [
    ("POST", "/v1/predict"),
    ("POST", "/v1/given"),
    ("POST", "/v1/search"),
    ("GET", "/v1/search"),
    ("GET", "/v1/photos/{key}"),
    ("GET", "/v1/model"),
    ("GET", "/v1/graph"),
    ("GET", "/v1/labels"),
    ("GET", "/v1/samples"),
    ("GET", "/v1/samples/{number}"),
    ("GET", "/v1/samples/{number}/small"),
    ("GET", "/health/live"),
    ("GET", "/health/ready"),
    ("GET", "/metrics"),
]


@pytest.fixture(scope="module")
def description(server):
    import schemathesis  # takes seconds, which processes that run other tests need not wait

    return schemathesis.openapi.from_url(f"{server.address}/openapi.json")


def test_all_operations_are_tested(description):
    found = [result.ok() for result in description.get_all_operations()]
    assert {(operation.method.upper(), operation.path) for operation in found} == set(OPERATIONS)


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_answers_are_as_described(description, method, path):
    explore(description[path][method], "positive", 25 if method == "POST" else 4)


@pytest.mark.parametrize(("method", "path"), [*OPERATIONS[:3], ("GET", "/v1/labels"), ("GET", "/v1/samples/{number}")])
def test_answers_to_what_does_not_fit_are_as_described(description, method, path):
    explore(description[path][method], "negative", 25)


def explore(operation, mode, examples):
    """Send what fits the description, or what does not, and check the answers."""
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    held_to = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]
    cases = operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode))

    @hypothesis.given(case=cases)
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    def send(case):
        case.call_and_validate(checks=held_to)

    send()


def test_good_answers_are_as_described_too(server, description):
    """What is generated is hardly ever a photo, so the answers to real ones are checked by themselves."""
    data = {"scores": "true", "given": ["restaurant=B"]}
    predicted = server.client.post("/v1/predict", files=files(photo_bytes(), b"bad"), data=data)
    predicted.request.read()
    description["/v1/predict"]["POST"].validate_response(predicted)
    scores = predicted.json()["photos"][0]["scores"]
    given = server.client.post("/v1/given", json={"scores": scores, "given": {"dish": ["mapo tofu"]}})
    assert given.status_code == 200
    description["/v1/given"]["POST"].validate_response(given)
    for path in ("/v1/model", "/v1/labels", "/v1/graph", "/v1/samples", "/health/live", "/health/ready", "/metrics"):
        description[path]["GET"].validate_response(server.client.get(path))
    data = {"same": "dish", "where": ["restaurant=A", "restaurant=B"], "per_label": "2", "count": "7"}
    searched = server.client.post("/v1/search", files=files(photo_bytes(), b"bad"), data=data)
    searched.request.read()
    description["/v1/search"]["POST"].validate_response(searched)
    by_label = server.client.get("/v1/search", params={"label": next(iter(tiny.TABLE)), "other": "restaurant"})
    description["/v1/search"]["GET"].validate_response(by_label)
    (photo,) = searched.json()["photos"]
    sample = server.client.get("/v1/samples").json()[-1]
    for path, address in (
        ("/v1/photos/{key}", photo["hits"][0]["thumbnail"]),
        ("/v1/photos/{key}", by_label.json()["hits"][-1]["thumbnail"]),
        ("/v1/samples/{number}", sample["url"]),
        ("/v1/samples/{number}/small", sample["thumbnail"]),
    ):
        response = server.client.get(address)
        assert response.status_code == 200, address
        description[path]["GET"].validate_response(response)
    assert (searched.status_code, by_label.status_code, len(searched.json()["bad"])) == (200, 200, 1)
