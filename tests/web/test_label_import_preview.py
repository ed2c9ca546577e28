"""The preview of an import says all that the import would do."""

import json

import httpx
import pytest
from label_server import menu_session, serving

from finegraph.graph.sample_menu import sample_menu

TOFU = "mapo tofu @ Chef Yu"


@pytest.fixture
def session(tmp_path):
    with menu_session(tmp_path) as made:
        yield made


@pytest.fixture
def client(session):
    with serving(session) as server, httpx.Client(base_url=server.url, timeout=30) as made:
        yield made


def previewed(client, text):
    return client.post("/api/import/preview", json={"name": "studio.json", "text": text}).json()


def imported(client, name, text, digest):
    body = {"name": name, "text": text, "person": "ann", "edit": f"import {digest[:20]}", "digest": digest}
    return client.post("/api/import", json=body)


def test_a_file_that_only_brings_votes_notes_and_photos(client, session):
    store = session.store
    kind = store.kinds()[0].name
    cell = store.cell(TOFU, kind)
    other = next(label for label in store.kinds()[0].labels if label != cell.value)
    plain = store.export_text("label-studio")
    assert previewed(client, plain)["changes"] == []
    made = [
        store.decide(TOFU, kind, other, person="bob", edit_id="vote of bob", seen=None),
        store.resolve(
            TOFU, kind, cell.value, person="cat", edit_id="settled by cat", seen=store.cell(TOFU, kind).version
        ),
        store.set_note(TOFU, "hot", person="bob", edit_id="note of bob", seen=0),
        store.label_photo("1.jpg", kind, other, person="bob", edit_id="photo of bob", seen=0),
    ]
    text = store.export_text("label-studio")
    for one in reversed(made):
        store.undo(one.batch, person="bob", edit_id=f"undo of {one.batch}")
    found = previewed(client, text)
    assert found["counts"] == {"vote": 1, "settled": 1, "note": 1, "photo": 1}
    assert {change["text"] for change in found["changes"]} == {
        f"vote of bob on {TOFU!r}, {kind!r}: none -> {other}",
        f"settled: {TOFU!r}, {kind!r}",
        f"note of {TOFU!r}: hot",
        f"photo '1.jpg', {kind!r}: as its class -> {other}",
    }
    # The vote and its settling are of one cell.
    assert imported(client, "studio.json", text, found["digest"]).json()["edits"] == 3
    assert previewed(client, text)["changes"] == []


def test_another_order_of_labels_is_a_change(client, session):
    text = session.store.export_text("label-studio")
    tasks = json.loads(text)
    [first] = [task["data"]["finegraph"] for task in tasks if "finegraph" in task["data"]]
    kind = next(kind for kind in first if len(kind["labels"]) > 1)
    kind["labels"].reverse()
    assert previewed(client, json.dumps(tasks))["counts"] == {"order": 1}


@pytest.mark.parametrize("form", ["csv", "label-studio"])
def test_what_others_decide_after_the_preview_is_not_reset(client, session, form):
    """The file has the old value; the import would put it back, which nobody has seen in the preview."""
    store, name = session.store, {"csv": "menu.csv", "label-studio": "studio.json"}[form]
    kind = store.kinds()[0]
    text = store.export_text(form)
    shumai = "shumai @ Lei Garden"
    other = next(label for label in kind.labels if label != store.cell(TOFU, kind.name).value)
    store.decide(shumai, kind.name, None, person="ann", edit_id="before", seen=0)
    found = client.post("/api/import/preview", json={"name": name, "text": text}).json()
    assert found["total"] == 1
    store.decide(TOFU, kind.name, other, person="bob", edit_id="meanwhile", seen=0)
    answer = imported(client, name, text, found["digest"])
    assert answer.status_code == 409
    assert "something was edited since the preview" in answer.json()["detail"]
    [conflict] = answer.json()["conflicts"]
    now = conflict["theirs"]
    assert (conflict["what"], now["total"], len(now["changes"])) == ("preview", 2, 2)
    assert TOFU in now["changes"][0]["text"] + now["changes"][1]["text"]
    assert store.cell(TOFU, kind.name).value == other
    assert imported(client, name, text, now["digest"]).status_code == 200
    assert store.graph() == sample_menu()


def test_labels_of_photos_are_bound_to_their_preview_too(client, session):
    store, kind = session.store, session.store.kinds()[0]
    one, two = kind.labels[:2]
    made = store.label_photo("1.jpg", kind.name, one, person="ann", edit_id="first", seen=0)
    text = store.export_text("photos")
    store.label_photo("1.jpg", kind.name, None, person="ann", edit_id="second", seen=made.version)
    found = client.post("/api/import/preview", json={"name": "photos.csv", "text": text}).json()
    assert [change["text"] for change in found["changes"]] == [f"photo '1.jpg', {kind.name!r}: as its class -> {one}"]
    seen = store.photo_cells(["1.jpg"])["1.jpg"][kind.name].version
    made = store.label_photo("1.jpg", kind.name, two, person="bob", edit_id="third", seen=seen)
    answer = imported(client, "photos.csv", text, found["digest"])
    assert answer.status_code == 409
    [change] = answer.json()["conflicts"][0]["theirs"]["changes"]
    assert change["text"] == f"photo '1.jpg', {kind.name!r}: {two} -> {one}"
    assert imported(client, "photos.csv", text, answer.json()["conflicts"][0]["theirs"]["digest"]).status_code == 200
    assert store.photo_cells(["1.jpg"])["1.jpg"][kind.name].value == one


def test_an_import_without_its_preview_is_refused(client, session):
    body = {"name": "menu.csv", "text": session.store.export_text("csv"), "person": "ann", "edit": "without"}
    assert client.post("/api/import", json=body).status_code == 422
