"""Teaching over HTTP: switched on only when asked, guarded, exact, and shared by servers on one folder."""

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import finegraph as fg
import tiny_classifier as tiny
from finegraph.graph import Number
from finegraph.web.security import Security
from serving import running, until
from taught_classifier import fitted, photo_of


@pytest.fixture
def folder(tmp_path, monkeypatch):
    tiny.register(monkeypatch)
    fitted().save(tmp_path / "model")
    return tmp_path / "model"


def _file(label, number=0):
    buffer = io.BytesIO()
    Image.fromarray(photo_of(label, number)).save(buffer, "PNG")
    return [("photo", ("dinner.png", buffer.getvalue(), "image/png"))]


def _form(*files, **fields):
    """A multipart request, also one without files."""
    parts = [
        (name, (None, value))
        for name, values in fields.items()
        for value in ([values] if isinstance(values, str) else values)
    ]
    return {"files": [*parts, *(one for some in files for one in some)]}


@pytest.mark.deep
def test_without_being_asked_a_server_takes_no_lessons(folder):
    with running(fg.load(folder)) as server:
        assert server.client.get("/v1/model").json()["teaching"] is False
        assert server.client.post("/v1/lessons", **_form(_file(9), label="egg rice @ B")).status_code == 404
        assert server.client.get("/v1/lessons").status_code == 404
    assert fg.load(folder).lessons == ()


@pytest.mark.deep
def test_a_lesson_changes_answers_and_its_undo_restores_them(folder):
    with running(fg.load(folder), teach=True) as server:
        client, photo = server.client, _file(9)
        first = client.post("/v1/predict", files=photo).json()
        lesson = {"label": "egg rice @ B", "person": "Ada", "id": "one"}
        answer = client.post("/v1/lessons", **_form(photo, **lesson))
        assert answer.status_code == 200, answer.text
        body = answer.json()
        (change,) = body["changes"]
        assert change["before"][0] == pytest.approx(first["photos"][0]["top"][0], abs=1e-5)
        assert change["label_after"] > change["label_before"]
        second = client.post("/v1/predict", files=photo).json()
        assert second["model"] == body["model"] != first["model"]
        assert second["photos"][0]["top"][0]["label"] == change["after"][0]["label"]
        assert client.post("/v1/lessons", **_form(photo, **lesson)).json()["lesson"] == body["lesson"]
        listed = client.get("/v1/lessons").json()
        assert (listed["count"], listed["lessons"][0]["person"], listed["lessons"][0]["photos"]) == (
            1,
            "Ada",
            ["dinner.png"],
        )
        assert client.get("/v1/model").json()["lessons"] == 1
        assert client.request("DELETE", "/v1/lessons/one").status_code == 200
        third = client.post("/v1/predict", files=photo).json()
        assert (third["model"], third["photos"]) == (first["model"], first["photos"])
        assert client.request("DELETE", "/v1/lessons/none").status_code == 404
    assert [one.forgotten for one in fg.load(folder).lessons] == [True]


@pytest.mark.deep
def test_a_new_label_with_and_without_a_photo(folder):
    with running(fg.load(folder), teach=True) as server:
        client = server.client
        parents = ["dish=mapo tofu", "restaurant=C", "with=tofu", "spicy=yes"]
        body = client.post("/v1/lessons", **_form(_file(9), label="mapo tofu @ C", parent=parents)).json()
        assert body["new_labels"] == {"fine": ["mapo tofu @ C"], "restaurant": ["C"]}
        assert client.get("/v1/labels", params={"search": "@ C"}).json()["labels"] == ["mapo tofu @ C"]
        assert client.post("/v1/lessons", **_form(label="a riddle", new="true")).status_code == 200
        assert client.get("/v1/model").json()["fine"] == 7
        assert "mapo tofu @ C" in client.get("/v1/graph").text


@pytest.mark.deep
def test_servers_on_one_folder_follow_each_other(folder):
    with running(fg.load(folder), teach=True) as one, running(fg.load(folder)) as two:
        taught = one.client.post("/v1/lessons", **_form(_file(9), label="egg rice @ B")).json()
        found = two.client.post("/v1/predict", files=_file(9)).json()
        assert found["model"] == taught["model"]
        assert found["photos"][0]["top"][0]["label"] == taught["changes"][0]["after"][0]["label"]
        fg.load(folder).teach("a riddle", parents={})
        until(lambda: two.client.get("/v1/model").json()["fine"] == 6)


BAD_LESSONS = [
    ({"label": ""}, "a name must not be empty"),
    ({"label": "no such"}, "say which coarse labels"),
    ({"label": "x" * 201, "new": "true"}, "at most 200"),
    ({"label": "x", "parent": ["dich=y"]}, "did you mean 'dish'"),
    ({"label": "x", "parent": ["dish"]}, "expected kind=label"),
    ({"label": "egg rice @ B", "id": "../../x"}, "lesson id"),
    ({"label": "egg rice @ B", "person": "x" * 101}, "person"),
    ({"label": "egg rice @ B", "other": "y"}, "other"),
]


@pytest.mark.deep
def test_bad_lessons_are_refused_and_leave_nothing(folder):
    with running(fg.load(folder), teach=True) as server:
        for fields, words in BAD_LESSONS:
            answer = server.client.post("/v1/lessons", **_form(_file(9), **fields))
            assert (answer.status_code, words in answer.json()["detail"]) == (422, True), answer.text
            assert not (folder / "lessons.jsonl").exists(), fields
        broken = [("photo", ("broken.jpg", b"no photo", "image/jpeg"))]
        mixed = server.client.post("/v1/lessons", **_form(_file(9), broken, label="egg rice @ B"))
        assert (mixed.status_code, mixed.json()["type"]) == (422, "urn:finegraph:problem:photo")
    assert not (folder / "lessons.jsonl").exists()


@pytest.mark.deep
def test_other_sites_and_those_without_the_token_teach_nothing(folder):
    with running(fg.load(folder), teach=True, security=Security(token="a long enough token")) as server:
        form = _form(_file(9), label="egg rice @ B")
        assert server.client.post("/v1/lessons", **form).status_code == 401
        known = {"Authorization": "Bearer a long enough token"}
        foreign = {**known, "Origin": "http://evil.example"}
        assert server.client.post("/v1/lessons", headers=foreign, **form).status_code == 403
        assert server.client.request("DELETE", "/v1/lessons/x", headers=foreign).status_code == 403
        assert server.client.post("/v1/lessons", headers={**known, "Host": "evil.example"}, **form).status_code == 421
        assert server.client.post("/v1/lessons", headers=known, **form).status_code == 200


@pytest.mark.deep
def test_a_full_disk_is_said_and_changes_nothing(folder, monkeypatch):
    import errno
    import os

    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with running(fg.load(folder), teach=True) as server:
        before = server.client.get("/v1/model").json()["id"]
        with monkeypatch.context() as patch:
            patch.setattr("finegraph.files.sealed_log.write_all", full)
            answer = server.client.post("/v1/lessons", **_form(_file(9), label="egg rice @ B"))
        assert (answer.status_code, answer.json()["type"]) == (507, "urn:finegraph:problem:lesson")
        assert answer.json()["detail"] == os.strerror(errno.ENOSPC)
        assert server.client.get("/v1/model").json()["id"] == before
        assert server.client.post("/v1/lessons", **_form(_file(9), label="egg rice @ B")).status_code == 200


@pytest.mark.deep
def test_a_photo_is_taught_in_as_many_views_as_the_model_was_fitted_to(tmp_path, monkeypatch):
    tiny.register(monkeypatch)
    model = fitted()
    model.statistics = replace(model.statistics, views=3)
    model.save(tmp_path / "model")
    (tmp_path / "dinner.png").write_bytes(_file(9)[0][1][1])
    with running(fg.load(tmp_path / "model"), teach=True) as server:
        assert server.client.post("/v1/lessons", **_form(_file(9), label="egg rice @ B")).status_code == 200
    model = fg.load(tmp_path / "model")
    assert model.statistics.views == 3
    (served,) = model.lessons[0].photos
    (taught,) = model.teach("egg rice @ B", tmp_path / "dinner.png").photos
    assert served.sha256 == taught.sha256
    np.testing.assert_allclose(served.features, taught.features, atol=1e-4)
    fitted().save(tmp_path / "single")
    (once,) = fg.load(tmp_path / "single").teach("egg rice @ B", tmp_path / "dinner.png").photos
    assert np.abs(once.features - taught.features).max() > 1e-3


@pytest.mark.deep
def test_values_of_a_new_label_over_http(tmp_path, monkeypatch):
    tiny.register(monkeypatch)
    graph = fitted().graph
    fitted(graph.with_number(Number.from_values("price", range(5, 5 + len(graph)), unit="EUR"))).save(tmp_path / "m")
    with running(fg.load(tmp_path / "m"), teach=True) as server:
        bad = server.client.post("/v1/lessons", **_form(label="new", parent=["price=dear"]))
        assert bad.status_code == 422
        assert "number 'price': 'dear'" in bad.json()["detail"]
        answer = server.client.post("/v1/lessons", **_form(label="new", parent=["price=10..15"]))
        assert answer.status_code == 200, answer.text
    number = fg.load(tmp_path / "m").graph.number("price")
    assert number.values[-1] == 12.5
    assert number.spreads[-1] == pytest.approx(5 / 12**0.5)


@pytest.mark.deep
@pytest.mark.parametrize("views", [1, 4])
def test_the_answers_of_a_lesson_are_those_of_predict(folder, views):
    classifier = fitted()
    classifier.statistics = replace(classifier.statistics, views=views)
    classifier.save(folder)
    with running(fg.load(folder), teach=True) as server:
        asked = {"files": _file(9), "data": {"top": "5"}}
        found = [server.client.post("/v1/predict", **asked).json()["photos"][0]["top"]]
        lesson = server.client.post("/v1/lessons", **_form(_file(9), label="egg rice @ B", id="one")).json()
        found.append(server.client.post("/v1/predict", **asked).json()["photos"][0]["top"])
        chances = [{one["label"]: one["probability"] for one in top} for top in found]
        (change,) = lesson["changes"]
        for relative in (*change["relatives"], {"label": "egg rice @ B", "before": change["label_before"]}):
            assert relative["before"] == pytest.approx(chances[0][relative["label"]], abs=1e-5)
        for relative in change["relatives"]:
            assert relative["after"] == pytest.approx(chances[1][relative["label"]], abs=1e-5)
        assert lesson["repeated"] is False
        assert server.client.post("/v1/lessons", **_form(_file(9), label="egg rice @ B", id="one")).json()["repeated"]
