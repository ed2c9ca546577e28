"""The preview of an import says all that the import would do."""

import json

import httpx
import pytest
from label_server import menu_session, serving

TOFU = "mapo tofu @ Chef Yu"


@pytest.fixture
def session(tmp_path):
    with menu_session(tmp_path) as made:
        yield made


@pytest.fixture
def client(session):
    with serving(session) as server, httpx.Client(base_url=server.url) as made:
        yield made


def previewed(client, text):
    return client.post("/api/import/preview", json={"name": "studio.json", "text": text}).json()


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
        f"photo '1.jpg', {kind!r}: unknown -> {other}",
    }
    body = {"name": "studio.json", "text": text, "person": "ann", "edit": "import of ann"}
    assert client.post("/api/import", json=body).json()["edits"] == 3  # the vote and its settling are of one cell
    assert previewed(client, text)["changes"] == []


def test_another_order_of_labels_is_a_change(client, session):
    text = session.store.export_text("label-studio")
    tasks = json.loads(text)
    [first] = [task["data"]["finegraph"] for task in tasks if "finegraph" in task["data"]]
    kind = next(kind for kind in first if len(kind["labels"]) > 1)
    kind["labels"].reverse()
    assert previewed(client, json.dumps(tasks))["counts"] == {"order": 1}
