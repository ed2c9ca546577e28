"""The routes of the labelling page, without a browser."""

import io
import itertools
import json
from array import array
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from label_server import menu_session, photo_folder, serving
from PIL import Image

from finegraph.errors import InputError, LabelStoreError
from finegraph.graph.label_graph import LabelGraph
from finegraph.graph.sample_menu import sample_menu
from finegraph.labelling import AddLabel, Proposal, RemoveFine, RenameFine, RenameKind, RenameLabel
from finegraph.web.label import background_answers, class_routes, edit_routes, serve_label
from finegraph.web.label.background_answers import LiveCheck
from finegraph.web.label.photo_routes import SIDES, ThumbnailCache
from finegraph.web.security import Security

TOFU = "mapo tofu @ Chef Yu"


@pytest.fixture
def session(tmp_path):
    photos = photo_folder(tmp_path / "photos", [TOFU, "shumai @ Lei Garden"])
    with menu_session(tmp_path, data=str(photos)) as made:
        yield made


@pytest.fixture
def client(session):
    with serving(session) as server, httpx.Client(base_url=server.url, timeout=30) as made:
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A client of a session that no test changes."""
    folder = tmp_path_factory.mktemp("shared")
    photos = photo_folder(folder / "photos", [TOFU])
    with (
        menu_session(folder, data=str(photos)) as session,
        serving(session) as server,
        httpx.Client(base_url=server.url, timeout=30) as made,
    ):
        yield made


def decide(client, value, *, kind="restaurant", fine=TOFU, person="Ann", edit="edit-0001", seen=0):
    cells = [{"fine": fine, "kind": kind, "value": value, "seen": seen}]
    return client.post("/api/decide", json={"person": person, "edit": edit, "cells": cells})


def test_the_start_names_kinds_and_progress(shared):
    start = shared.get("/api/start").json()
    assert [kind["name"] for kind in start["kinds"]] == ["dish", "restaurant", "ingredient", "served", "spicy"]
    assert start["progress"]["classes"] == 24
    assert start["photos"] is True


def test_a_decision_is_acknowledged_once_and_shown(client):
    first = decide(client, "Lei Garden").json()
    again = decide(client, "Lei Garden").json()
    assert (first["repeated"], again["repeated"]) == (False, True)
    assert first["batch"] == again["batch"]
    cell = client.get("/api/class", params={"fine": TOFU}).json()["cells"]["restaurant"]
    assert (cell["value"], cell["by"]) == ("Lei Garden", "Ann")
    assert len(client.get("/api/history", params={"fine": TOFU, "kind": "restaurant"}).json()["edits"]) == 1


def test_a_conflict_is_409_with_both_values(client):
    decide(client, "Lei Garden")
    answer = decide(client, "Shanghai Dumpling", person="Bo", edit="edit-0002")
    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    [conflict] = answer.json()["conflicts"]
    assert (conflict["yours"], conflict["theirs"], conflict["by"]) == ("Shanghai Dumpling", "Lei Garden", "Ann")
    assert client.get("/api/class", params={"fine": TOFU}).json()["cells"]["restaurant"]["value"] == "Lei Garden"


def test_many_decisions_are_one_action_and_one_undo(client):
    cells = [{"fine": fine, "kind": "spicy", "value": "no", "seen": 0} for fine in sample_menu().fine[:5]]
    client.post("/api/decide", json={"person": "Ann", "edit": "edit-many", "cells": cells})
    batch = client.get("/api/undoable", params={"person": "Ann"}).json()["batch"]
    undone = client.post("/api/undo", json={"person": "Ann", "edit": "edit-undo", "batch": batch}).json()
    assert {cell["value"] for cell in undone["cells"]} == {"yes", "no"}
    assert client.get("/api/undoable", params={"person": "Ann"}).json()["batch"] is None


def test_others_see_what_changed(client):
    before = client.get("/api/start").json()["version"]
    assert client.get("/api/changes", params={"since": before}).json()["edits"] == []
    decide(client, "Lei Garden")
    found = client.get("/api/changes", params={"since": before}).json()
    assert [edit["person"] for edit in found["edits"]] == ["Ann"]
    assert found["cells"][0]["value"] == "Lei Garden"


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        ("/api/decide", {"person": "Ann", "edit": "edit-0001", "cells": []}, "cells"),
        ("/api/decide", {"person": "", "edit": "edit-0001", "cells": [{}]}, "person"),
        ("/api/undo", {"person": "Ann", "edit": "edit-0001"}, "either batch or number"),
        ("/api/preview", {"change": {"change": "explode"}}, "explode"),
        ("/api/note", {"person": "Ann", "edit": "edit-0001", "fine": TOFU, "text": "", "seen": 0, "x": 1}, "x"),
    ],
)
def test_bad_requests_are_refused_with_a_reason(shared, path, body, text):
    answer = shared.post(path, json=body)
    assert answer.status_code == 422
    assert text in answer.json()["detail"]


def test_an_unknown_label_names_near_ones(shared):
    answer = decide(shared, "Lei Gardn")
    assert answer.status_code == 422
    assert "Lei Garden" in answer.json()["detail"]


# ---- lists and names -------------------------------------------------------------------------------------------------


def listed(client, **asked):
    return client.get("/api/classes", params={"kind": "spicy", **asked}).json()


def fine_of(page):
    return [row["fine"] for row in page["rows"]]


def test_a_list_stays_as_it_was_while_it_is_worked_through(client, session):
    for fine in sample_menu().fine[:6]:
        session.store.decide(fine, "spicy", None, person="Bo", edit_id=f"edit-bo-{fine}", seen=0)
    first = listed(client, show="unknown", limit=3)
    for row in first["rows"]:
        seen = session.store.cell(row["fine"], "spicy").version
        decide(client, "no", kind="spicy", fine=row["fine"], edit=f"edit-number-{row['number']}", seen=seen)
    second = listed(client, show="unknown", limit=3, offset=3, list=first["list"])
    assert (second["list"], second["total"]) == (first["list"], first["total"])
    assert fine_of(first) + fine_of(second) == list(sample_menu().fine[:6])
    again = listed(client, show="unknown", limit=3)
    assert again["list"] != first["list"]
    assert again["total"] == first["total"] - 3


def test_a_class_that_is_gone_keeps_its_place_in_a_list(client, session):
    first = listed(client, limit=2)
    session.store.apply(RemoveFine(name=sample_menu().fine[2]), person="Bo", edit_id="edit-remove")
    session.store.apply(RenameFine(name=sample_menu().fine[3], to="new name"), person="Bo", edit_id="edit-rename")
    second = listed(client, limit=2, offset=2, list=first["list"])
    assert [row["removed"] for row in second["rows"]] == [True, False]
    assert fine_of(second)[1] == "new name"


def test_a_list_that_is_not_kept_any_more_is_made_anew(client, session):
    first = listed(client, show="unknown")
    assert listed(client, show="unknown", list="no such list")["list"] == first["list"]
    decide(client, None, kind="spicy", edit="edit-unknown")
    new = listed(client, show="unknown", list="no such list")
    assert new["list"] != first["list"]
    assert new["total"] == first["total"] + 1


def test_a_list_tells_where_a_class_is(shared):
    whole = listed(shared)
    numbers = [row["number"] for row in whole["rows"]]
    assert listed(shared, near=[numbers[5]])["place"] == 5
    assert listed(shared, near=[999_999, numbers[7], numbers[5]])["place"] == 7
    assert listed(shared, near=[999_999])["place"] is None
    assert listed(shared)["place"] is None


def test_lists_take_a_bounded_room(monkeypatch):
    monkeypatch.setattr(class_routes, "MAX_NUMBERS", 10)
    kept = class_routes.Listings()
    lists = [array("q", [place] * 4) for place in range(3)]
    names = [kept.find(None, one.__copy__)[0] for one in lists]
    made = []
    again = [kept.find(name, lambda: made.append(1) or array("q"))[0] for name in reversed(names)]
    assert again[:2] == [names[2], names[1]]
    assert len(made) == 1
    long = array("q", range(50))
    name, _ = kept.find(None, lambda: long)
    assert kept.find(name, lambda: array("q"))[1] == long


def test_an_edit_says_by_numbers_what_its_names_meant(client, session):
    row = client.get("/api/class", params={"fine": TOFU}).json()
    kind = next(kind for kind in client.get("/api/start").json()["kinds"] if kind["name"] == "restaurant")
    label = kind["label_numbers"][kind["labels"].index("Lei Garden")]
    numbers = {"fine": row["number"], "kind": kind["number"], "labels": {"Lei Garden": label}}
    names = [
        RenameLabel(kind="restaurant", name="Lei Garden", to="Lei's"),
        AddLabel(kind="restaurant", name="Lei Garden"),
        RenameKind(name="restaurant", to="place"),
        RenameFine(name=TOFU, to="mapo"),
    ]
    for number, change in enumerate(names):
        session.store.apply(change, person="Bo", edit_id=f"edit-names-{number}")
    cells = [{"fine": TOFU, "kind": "restaurant", "value": "Lei Garden", "seen": 0, "numbers": numbers}]
    body = {"person": "Ann", "edit": "edit-0001", "cells": cells}
    assert client.post("/api/decide", json=body).status_code == 200
    assert session.store.cell("mapo", "place").value == "Lei's"
    session.store.apply(RenameFine(name="mapo", to="mapo again"), person="Bo", edit_id="edit-names-9")
    assert client.post("/api/decide", json=body).json()["repeated"] is True
    note = {"person": "Ann", "edit": "edit-note", "fine": TOFU, "text": "hot", "seen": 0}
    assert client.post("/api/note", json=note).status_code == 422
    assert client.post("/api/note", json={**note, "numbers": {"fine": row["number"]}}).status_code == 200
    found = client.get("/api/class", params={"fine": TOFU, "number": row["number"]}).json()
    assert (found["fine"], found["note"]) == ("mapo again", "hot")


def test_an_undo_tells_the_versions_of_notes_and_photos(client, session):
    photo = client.get("/api/class", params={"fine": TOFU}).json()["photos"][1]["number"]
    told = {"person": "Ann", "edit": "edit-photo", "photo": photo, "kind": "spicy", "value": "no", "seen": 0}
    note = {"person": "Ann", "edit": "edit-note", "fine": TOFU, "text": "hot", "seen": 0}
    for path, body, place in (("photo", told, {"photo": photo, "kind": "spicy"}), ("note", note, {"fine": TOFU})):
        batch = client.post(f"/api/{path}", json=body).json()["batch"]
        undo = {"person": "Ann", "edit": f"edit-undo-{path}", "batch": batch}
        answer = client.post("/api/undo", json=undo).json()
        assert answer[f"{path}s"] == [{**place, "version": answer["version"]}]
        again = {**body, "edit": f"edit-again-{path}", "seen": answer["version"]}
        assert client.post(f"/api/{path}", json=again).status_code == 200


# ---- photos ----------------------------------------------------------------------------------------------------------


def test_photos_come_as_small_jpegs_by_number(shared):
    photos = shared.get("/api/class", params={"fine": TOFU}).json()["photos"]
    assert len(photos) == 3
    for size, side in SIDES.items():
        answer = shared.get(f"/photos/{photos[0]['number']}/{size}")
        assert answer.headers["content-type"] == "image/jpeg"
        assert max(Image.open(io.BytesIO(answer.content)).size) <= side


@pytest.mark.parametrize(
    "path",
    [
        "/photos/{}-99/small",
        "/photos/{}--1/small",
        "/photos/{}-" + "9" * 5000 + "/small",
        "/photos/{}-0/huge",
        "/photos/..%2f..%2fetc/small",
    ],
)
def test_nothing_else_of_the_disk_is_served(shared, path):
    number = shared.get("/api/class", params={"fine": TOFU}).json()["photos"][0]["number"]
    answer = shared.get(path.format(number.split("-")[0]))
    assert answer.status_code in (404, 422)
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_broken_photo_is_named_as_such(client, tmp_path):
    (tmp_path / "photos" / TOFU / "0.jpg").write_bytes(b"<html>no photo</html>")
    number = client.get("/api/class", params={"fine": TOFU}).json()["photos"][0]["number"]
    answer = client.get(f"/photos/{number}/small")
    assert answer.status_code == 422
    assert str(tmp_path) not in answer.text


def test_thumbnails_are_kept_up_to_a_number_of_bytes(session):
    photo = session.photos(TOFU)[0]
    one = len(ThumbnailCache().get("0", "small", photo))
    kept = ThumbnailCache(max_bytes=2 * one)
    for number in range(5):
        kept.get(str(number), "small", photo)
    assert len(kept._cache) <= 2


def test_a_photo_can_have_its_own_label(client):
    photo = client.get("/api/class", params={"fine": TOFU}).json()["photos"][1]
    body = {"person": "Ann", "edit": "edit-photo", "photo": photo["number"], "kind": "spicy", "value": "no", "seen": 0}
    assert client.post("/api/photo", json=body).status_code == 200
    row = client.get("/api/class", params={"fine": TOFU}).json()
    assert row["photos"][1]["cells"]["spicy"]["value"] == "no"
    assert row["cells"]["spicy"]["value"] == "yes"
    beyond = photo["number"].split("-")[0] + "-999"
    assert client.post("/api/photo", json={**body, "edit": "edit-other", "photo": beyond}).status_code == 422


def test_a_number_of_another_data_set_is_refused(client, shared, session):
    stale = shared.get("/api/class", params={"fine": TOFU}).json()["photos"][0]["number"]
    answer = client.get(f"/photos/{stale}/small")
    assert answer.status_code == 422
    assert "other photos are served now" in answer.json()["detail"]
    body = {"person": "Ann", "edit": "edit-stale", "photo": stale, "kind": "spicy", "value": "no", "seen": 0}
    answer = client.post("/api/photo", json=body)
    assert answer.status_code == 422
    assert "load it again" in answer.json()["detail"]
    assert session.store.photo_labels() == []


# ---- files -----------------------------------------------------------------------------------------------------------


def test_export_then_import_changes_nothing(shared):
    for form, name in (("csv", "menu.csv"), ("json", "menu.json")):
        text = shared.get(f"/api/export/{form}").text
        assert shared.post("/api/import/preview", json={"name": name, "text": text}).json()["changes"] == []
    studio = shared.get("/api/export/label-studio").text
    assert shared.post("/api/import/preview", json={"name": "studio.json", "text": studio}).json()["changes"] == []
    assert json.loads(studio)


def test_an_import_is_previewed_then_taken_over_then_undone(client, session):
    text = client.get("/api/export/csv").text.replace("plate|basket", "basket")
    given = {"name": "menu.csv", "text": text}
    preview = client.post("/api/import/preview", json=given).json()
    [change], digest = preview["changes"], preview["digest"]
    assert "shumai @ Shanghai Dumpling" in change["text"]
    done = client.post("/api/import", json={**given, "person": "Ann", "edit": "edit-import", "digest": digest}).json()
    assert session.store.cell("shumai @ Shanghai Dumpling", "served").value == "basket"
    client.post("/api/undo", json={"person": "Ann", "edit": "edit-back", "batch": done["batch"]})
    assert session.store.graph() == sample_menu()


def test_a_faulty_file_is_refused_with_its_faults(shared):
    answer = shared.post("/api/import/preview", json={"name": "menu.csv", "text": "fine,dish\na,b\na,c\n"})
    assert answer.status_code == 422
    assert "menu.csv" in answer.json()["detail"]
    answer = shared.post("/api/import/preview", json={"name": "menu.exe", "text": ""})
    assert answer.status_code == 422


def test_the_exported_file_reads_as_the_live_graph(client, session, tmp_path):
    decide(client, "Lei Garden")
    path = tmp_path / "out.csv"
    path.write_text(client.get("/api/export/csv").text, encoding="utf-8")
    assert LabelGraph.read(path) == session.store.graph()


def test_the_difference_between_two_states(client):
    decide(client, "Lei Garden")
    batches = client.get("/api/batches").json()["batches"]
    changes = client.get("/api/diff", params={"one": batches[-1]["version"]}).json()["changes"]
    assert [change["after"] for change in changes] == ["Lei Garden"]


def test_an_edit_for_another_store_is_refused(client, session):
    start = client.get("/api/start").json()
    body = {"person": "Ann", "edit": "edit-0001", "fine": TOFU, "text": "hot", "seen": 0}
    answer = client.post("/api/note", json=body, headers={"finegraph-store": "of another one"})
    assert answer.status_code == 409
    assert answer.json()["store"] == start["store"]
    assert "another store is served here" in answer.json()["detail"]
    assert session.store.one_class(TOFU).note == ""
    assert client.post("/api/note", json=body, headers={"finegraph-store": start["store"]}).status_code == 200


def test_of_very_many_conflicts_the_first_are_told(client, session, monkeypatch):
    monkeypatch.setattr(edit_routes, "MAX_CONFLICTS", 3)
    for number, fine in enumerate(sample_menu().fine[:5]):
        session.store.decide(fine, "dish", "shumai", person="Bo", edit_id=f"edit-bo-{number}", seen=0)
    cells = [{"fine": fine, "kind": "dish", "value": "beef chow fun", "seen": 0} for fine in sample_menu().fine[:5]]
    answer = client.post("/api/decide", json={"person": "Ann", "edit": "edit-many", "cells": cells}).json()
    assert (len(answer["conflicts"]), answer["total"]) == (3, 5)


def test_agreement_is_counted_once_for_each_state(client, session, monkeypatch):
    counted = []
    count = session.store.agreement
    monkeypatch.setattr(session.store, "agreement", lambda kind: counted.append(kind) or count(kind))
    monkeypatch.setattr(background_answers, "_AGREEMENT_REST", 0.0)
    first = client.get("/api/agreement").json()
    assert client.get("/api/agreement").json() == first
    assert counted == [None]
    for person, value in (("Ann", "yes"), ("Bo", "no")):
        session.store.decide(TOFU, "spicy", value, person=person, edit_id=f"edit-{person}", seen=None)
    assert [pair["one"] for pair in client.get("/api/agreement").json()["pairs"]] == ["Ann"]
    assert counted == [None, None]


def test_the_check_goes_on_after_a_fault(session, monkeypatch):
    check, found = LiveCheck(session.store), session.store.findings

    def fail():
        raise ZeroDivisionError("a fault of the check")

    monkeypatch.setattr(session.store, "findings", fail)
    assert check.findings() == (-1, ())
    monkeypatch.setattr(session.store, "findings", found)
    check.answer._not_before = 0.0
    assert check.findings()[0] == session.store.version


# ---- who may ask -----------------------------------------------------------------------------------------------------

WRITES = ("decide", "resolve", "note", "photo", "accept", "undo", "preview", "apply", "import", "import/preview")


@pytest.mark.parametrize("path", WRITES)
def test_writes_from_other_sites_are_refused(shared, path):
    answer = shared.post(f"/api/{path}", json={}, headers={"origin": "https://evil.example"})
    assert answer.status_code == 403
    assert shared.post(f"/api/{path}", json={}, headers={"origin": "null"}).status_code == 403
    assert shared.post(f"/api/{path}", json={}, headers={"sec-fetch-site": "cross-site"}).status_code == 403


@pytest.mark.parametrize("path", ["/", "/api/start", "/photos/0/small", "/label/label_main.js"])
def test_another_host_name_is_refused(shared, path):
    assert shared.get(path, headers={"host": "evil.example"}).status_code == 421


@pytest.mark.deep
def test_a_public_address_needs_the_token(session):
    security = Security(host="0.0.0.0", port=8123, token="a-long-secret-token")
    with serving(session, security=security) as server, httpx.Client(base_url=server.url, timeout=30) as client:
        assert client.get("/api/start").status_code == 401
        assert client.post("/api/undo", json={}).status_code == 401
        given = {"authorization": "Bearer a-long-secret-token"}
        assert client.get("/api/start", headers=given).status_code == 200


def test_serving_to_others_without_a_token_is_refused(session):
    with pytest.raises(InputError, match="a token is needed"):
        serve_label(session, host="0.0.0.0", port=0)


def test_pages_have_a_strict_content_policy(shared):
    policy = shared.get("/").headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy


# ---- one state, and what stays when names change ---------------------------------------------------------------------


@pytest.mark.parametrize(("path", "between"), [("/api/class", "photo_cells"), ("/api/classes", "best_suggestions")])
def test_an_answer_is_of_one_state_though_somebody_edits_meanwhile(session, client, monkeypatch, path, between):
    store, version = session.store, session.store.version
    ask, numbers = getattr(store, between), itertools.count()

    def edited_first(*args, **options):
        with ThreadPoolExecutor(1) as other:
            said = {"person": "Bo", "edit_id": f"meanwhile {next(numbers)}", "seen": 0}
            other.submit(store.apply, AddLabel(kind="spicy", name="very"), person="Bo", edit_id="label").result()
            other.submit(store.decide, TOFU, "spicy", "very", **said).result()
        return ask(*args, **options)

    monkeypatch.setattr(store, between, edited_first)
    store.put_suggestions("name", [Proposal(TOFU, "spicy", "no", source="name", score=0.9, reason="r")])
    answer = client.get(path, params={"fine": TOFU} if path == "/api/class" else {"kind": "spicy"}).json()
    assert store.version > version
    if path == "/api/class":
        assert [one["current"] for one in answer["suggestions"]] == [answer["cells"]["spicy"]["value"]] == ["yes"]
    else:
        [row] = [row for row in answer["rows"] if row["fine"] == TOFU]
        assert (answer["version"], row["suggestion"]["current"]) == (version, row["cells"]["spicy"]["value"])


def test_photos_are_labelled_after_their_class_was_renamed(session, client):
    photo = client.get("/api/class", params={"fine": TOFU}).json()["photos"][0]["number"]
    session.store.apply(RenameFine(name=TOFU, to="mapo"), person="Bo", edit_id="rename")
    row = client.get("/api/class", params={"fine": "mapo"}).json()
    body = {"person": "Ann", "edit": "edit-photo", "photo": photo, "kind": "spicy", "value": "no", "seen": 0}
    assert client.post("/api/photo", json=body).status_code == 200
    shown = body | {"edit": "edit-shown", "photo": row["photos"][1]["number"], "numbers": {"fine": row["number"]}}
    assert client.post("/api/photo", json=shown).status_code == 200
    assert [label.fine for label in session.store.photo_labels()] == ["mapo", "mapo"]
    session.store.apply(RemoveFine(name="mapo"), person="Bo", edit_id="remove")
    gone = client.post("/api/photo", json={**shown, "edit": "edit-gone", "value": "yes"})
    assert (gone.status_code, gone.json()["type"]) == (422, "urn:finegraph:problem:unknown-name")


@pytest.mark.deep
def test_an_edit_of_a_photo_comes_again_after_a_rename_and_a_restart(tmp_path):
    photos = photo_folder(tmp_path / "photos", [TOFU, "shumai @ Lei Garden"])
    body = {"person": "Ann", "edit": "edit-photo", "kind": "spicy", "value": "no", "seen": 0}
    answers = []
    for _ in range(2):
        with (
            menu_session(tmp_path, data=str(photos)) as session,
            serving(session) as server,
            httpx.Client(base_url=server.url, timeout=30) as client,
        ):
            if not answers:
                body["photo"] = client.get("/api/class", params={"fine": TOFU}).json()["photos"][0]["number"]
            answers.append(client.post("/api/photo", json=body))
            if len(answers) == 1:
                session.store.apply(RenameFine(name=TOFU, to="mapo"), person="Bo", edit_id="rename")
    assert [answer.status_code for answer in answers] == [200, 200], answers[-1].text
    assert [answer.json()["repeated"] for answer in answers] == [False, True]


# ---- what nobody should send -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"change": "add_fine", "name": "a\ud800"},
        {"change": "add_fine", "name": "ok", "note": "a\ud800"},
        {"change": "rename_fine", "name": TOFU, "to": "a\ud800"},
        {"change": "rename_fine", "name": "a\ud800", "to": "ok"},
        {"change": "add_kind", "name": "a\ud800", "labels": ["x"]},
        {"change": "add_kind", "name": "ok", "labels": ["a\ud800"]},
        {"change": "add_label", "kind": "spicy", "name": "a\ud800"},
    ],
)
@pytest.mark.deep
def test_names_that_are_no_text_are_refused(client, session, change):
    text = json.dumps({"change": change})
    headers = {"content-type": "application/json"}
    answer = client.post("/api/preview", content=text, headers=headers)
    assert (answer.status_code, "is missing" in answer.text) == (422, False)
    whole = json.dumps({"change": change, "person": "Ann", "edit": "edit-surrogate"})
    assert client.post("/api/apply", content=whole, headers=headers).status_code == 422
    assert session.store.version == 1


def test_a_value_that_is_nested_deeply_is_refused(client, session):
    value = "x"
    for _ in range(900):
        value = [value]
    answer = decide(client, {"one_of": value})
    assert answer.status_code == 422
    assert "got something nested" in answer.text
    assert session.store.version == 1


def test_the_place_of_the_database_is_not_told(session, client, monkeypatch):
    def refuse(*args, **options):
        raise LabelStoreError(f"{session.store.place}: the database refused: disk full")

    monkeypatch.setattr(session.store, "decide", refuse)
    answer = decide(client, "Chef Yu")
    assert (answer.status_code, answer.json()["detail"]) == (503, "the database refused: disk full")
