"""The page of the API: a form, curl and Python for every route of the description, and all of them work."""

import ast
import contextlib
import io
import json
import subprocess
import warnings

import pytest

import tiny_classifier as tiny
from finegraph.web.security import Security
from finegraph.web.serve.answering import ServedModel
from finegraph.web.serve.searching import PhotoIndex
from finegraph.workflows.index import make_index
from serving import photo_bytes, running

pytestmark = pytest.mark.usefixtures("unchecked")
TOKEN = "correct horse battery"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    root = tmp_path_factory.mktemp("docs")
    for number, label in enumerate(tiny.TABLE):
        (root / "photos" / label).mkdir(parents=True)
        tiny.picture(number).save(root / "photos" / label / "0.png")
    with pytest.MonkeyPatch.context() as patch:
        tiny.register(patch)
        patch.setenv("FINEGRAPH_CACHE", str(root / "cache"))
        model = tiny.classifier()
        model.save(root / "model")
        make_index(root / "model", [root / "photos"], root / "index", engine="torch")
        index = PhotoIndex.open_for(root / "index", ServedModel(model, "menu"))
        with running(model, index=index, samples=root / "photos") as found:
            yield found


def open_docs(page, server):
    page.goto(f"{server.address}/docs")
    page.wait_for_selector("body[data-ready]")


def operations(server):
    description = server.client.get("/openapi.json").json()
    return [
        (method.upper(), path, about) for path, own in description["paths"].items() for method, about in own.items()
    ]


def route(page, method, path):
    return page.get_by_role("region", name=f"{method} {path}", exact=True)


def fill_in(card, path, scores="", file=None):
    """Put into a form what the route needs."""
    if path in ("/v1/predict", "/v1/search") and card.locator("input[type=file]").count():
        card.locator("input[type=file]").set_input_files(file)
    if "{number}" in path:
        card.get_by_label("number").fill("1")
    if card.get_by_label("label", exact=True).count():
        card.get_by_label("label", exact=True).fill("kung pao @ B")
    if path == "/v1/given":
        body = {"scores": scores, "given": {"dish": ["kung pao"], "with: pork": True}, "photo": 'it\'s "mine"'}
        card.get_by_label("JSON body").fill(json.dumps(body))


def test_every_route_of_the_description_has_a_form_and_snippets(page, phone, server):
    open_docs(page, server)
    found = operations(server)
    assert page.locator(".operation").count() == len(found) == page.locator("nav a").count() > 10
    for method, path, about in found:
        card = route(page, method, path)
        assert about["summary"].replace("`", "") in card.inner_text()
        names = [one["name"] for one in about.get("parameters", [])]
        body = about.get("requestBody", {}).get("content", {}).get("multipart/form-data", {}).get("schema", {})
        names += body.get("properties", {})
        assert card.locator(".field:not(.json) label").all_inner_texts() == names
        curl, python = card.locator("pre code").all_inner_texts()
        assert curl.startswith("curl")
        assert f"requests.{method.lower()}(" in python
        assert set(about["responses"]) == set(
            card.locator(".statuses code").evaluate_all("all => all.map(one => one.textContent)")
        )
    open_docs(phone, server)
    assert phone.locator(".operation").count() == len(found)
    for either in (page, phone):
        assert either.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_requests_are_tried_and_their_snippets_do_the_same(page, server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "it's.png").write_bytes(photo_bytes(1))
    (tmp_path / "photo.jpg").write_bytes(photo_bytes(1))
    data = {"scores": "true"}
    asked = server.client.post("/v1/predict", files={"photo": photo_bytes(1)}, data=data).json()
    open_docs(page, server)
    for method, path, about in operations(server):
        if path == "/v1/photos/{key}":
            continue  # its keys are told by searches only
        card = route(page, method, path)
        fill_in(card, path, asked["photos"][0]["scores"], tmp_path / "it's.png")
        if path == "/v1/predict":
            card.get_by_label("given").fill("restaurant=A\nrestaurant=B")
            card.get_by_label("top").fill("2")
            card.get_by_label("scores").select_option("true")
        card.get_by_role("button", name="Send").click()
        card.locator(".status").wait_for()
        assert card.locator(".status").inner_text().startswith("200 "), path
        curl, python = card.locator("pre code").all_inner_texts()
        text = card.locator(".answer pre").inner_text() if card.locator(".answer pre").count() else None
        by_curl = subprocess.run(["sh", "-c", curl], cwd=tmp_path, capture_output=True, check=True).stdout
        by_python = printed(python)
        if "application/json" in about["responses"]["200"]["content"]:
            assert rounded(json.loads(by_curl)) == rounded(json.loads(text)), path
            assert rounded(ast.literal_eval(by_python)) == rounded(json.loads(text)), path  # what `print` made of it
        elif text is None:  # a photo
            assert card.locator(".answer img").evaluate("one => one.decode().then(() => one.naturalWidth)") == 50


def printed(python):
    """What a snippet prints, which opens files and leaves them to the interpreter."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()) as output:
        warnings.simplefilter("ignore", ResourceWarning)
        exec(python, {})
    return output.getvalue()


def rounded(answer):
    """An answer up to what batches change of its numbers."""
    return json.loads(json.dumps(answer), parse_float=lambda text: round(float(text), 5))


def test_what_is_wrong_is_shown_as_the_server_says_it(page, server, faults):
    open_docs(page, server)
    card = route(page, "GET", "/v1/labels")
    card.get_by_label("kind").fill("<b>flavour</b>")
    card.get_by_role("button", name="Send").click()
    card.locator(".status.bad").wait_for()
    assert card.locator(".status").inner_text().startswith("422 ")
    assert "urn:finegraph:problem:unknown-name" in card.locator(".answer pre").inner_text()
    assert page.locator(".operation b").count() == 0
    faults.lines = [line for line in faults.lines if "422" not in line]


def test_with_a_token_the_snippets_bring_it(page, faults):
    with pytest.MonkeyPatch.context() as patch:
        tiny.register(patch)
        with running(tiny.classifier(), security=Security(token=TOKEN)) as server:
            page.goto(f"{server.address}/docs?token={TOKEN.replace(' ', '+')}")
            page.wait_for_selector("body[data-ready]")
            assert page.url == f"{server.address}/docs"
            curl, python = route(page, "GET", "/v1/model").locator("pre code").all_inner_texts()
    assert "Authorization: Bearer $FINEGRAPH_TOKEN" in curl
    assert "os.environ['FINEGRAPH_TOKEN']" in python
