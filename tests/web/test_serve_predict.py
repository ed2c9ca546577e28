"""The API answers what the library says, for each photo its own."""

import base64
import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from PIL import Image

import tiny_classifier as tiny
from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.model.answering.unknown import UnknownRule
from finegraph.web.serve.answering import ServedModel
from finegraph.web.serve.serve_settings import ServeSettings
from serving import files, photo_bytes, running


@pytest.fixture(scope="module")
def server():
    with pytest.MonkeyPatch.context() as patch:
        tiny.register(patch)
        model = tiny.classifier(temperature=1.3, unknown=UnknownRule("kinds", threshold=0.5, kept=0.9))
        with running(model) as found:
            yield found


def picture(content):
    return Image.open(io.BytesIO(content))


def numbers(answers):
    return {answer["label"]: answer["probability"] for answer in answers}


def same(found, prediction):
    """Whether an answer over HTTP is that of the library."""
    assert numbers(found["top"]) == pytest.approx(dict(prediction.top), abs=1e-5)
    for kind, answers in prediction.kinds.items():
        assert numbers(found["kinds"][kind]) == pytest.approx(dict(answers), abs=1e-5)
    assert (found["sure"] is None) == (prediction.sure is None)
    if prediction.sure is not None:
        assert (found["sure"]["kind"], found["sure"]["label"]) == (prediction.sure.kind, prediction.sure.label)
    if prediction.explanation is not None and found["explanation"] is not None:
        assert found["explanation"]["log_odds"] == pytest.approx(prediction.explanation.log_odds, abs=1e-4)
        assert sum(part["value"] for part in found["explanation"]["parts"]) == pytest.approx(
            prediction.explanation.log_odds, abs=1e-4
        )
    assert found["evidence_probability"] == (
        None if prediction.evidence_probability is None else pytest.approx(prediction.evidence_probability, abs=1e-5)
    )
    assert found["contradicts_photo"] == prediction.contradicts_photo
    assert [(one["kind"], one["text"]) for one in found["questions"]] == [
        (one.kind, one.text) for one in prediction.questions
    ]
    for one, expected in zip(found["questions"], prediction.questions, strict=True):
        assert (one["gain"], one["after"]) == pytest.approx((expected.gain, expected.after), abs=1e-4)
    assert found["unknown"]["score"] == pytest.approx(prediction.unknown.score, abs=1e-4)


def test_one_photo_has_the_answer_of_the_library(server):
    content = photo_bytes(1)
    response = server.client.post("/v1/predict", files=files(content), data={"top": "3", "risk": "0.2"})
    assert response.status_code == 200
    body = response.json()
    (found,) = body["photos"]
    assert (found["number"], found["photo"], body["bad"], body["given"]) == (0, "photo0.png", [], {})
    same(found, server.model.predict(picture(content), top=3, risk=0.2))
    assert "scores" not in found
    assert found["in_index"] is None  # there is no index


def test_questions_can_be_left_out(server):
    content = photo_bytes(1)
    every = [
        server.client.post("/v1/predict", files=files(content), data={"questions": str(count), "risk": "0.00001"})
        for count in (0, 1, 10)
    ]
    assert [len(one.json()["photos"][0]["questions"]) for one in every[:2]] == [0, 1]
    assert len(every[2].json()["photos"][0]["questions"]) > 3
    refused = server.client.post("/v1/predict", files=files(content), data={"questions": "11"})
    assert (refused.status_code, "questions" in refused.json()["detail"]) == (422, True)


def test_evidence_in_a_request_is_that_of_given(server):
    content = photo_bytes(2)
    data = {"given": ["restaurant=B", "with: pork=no", "dish=kung pao", "dish=mapo tofu"]}
    body = server.client.post("/v1/predict", files=files(content), data=data).json()
    given = {"restaurant": "B", "with: pork": False, "dish": {"kung pao", "mapo tofu"}}
    same(body["photos"][0], server.model.predict(picture(content), given=given))
    assert body["given"]["dish"] == ["kung pao", "mapo tofu"]


def test_many_photos_come_back_in_order_and_a_bad_one_is_reported_for_itself_alone(server):
    contents = [photo_bytes(3), b"<html>no photo</html>", photo_bytes(4, "JPEG"), photo_bytes(5)[:-300], photo_bytes(6)]
    body = server.client.post("/v1/predict", files=files(*contents)).json()
    assert [found["number"] for found in body["photos"]] == [0, 2, 4]
    for found in body["photos"]:
        same(found, server.model.predict(picture(contents[found["number"]])))
    assert [(bad["number"], bad["photo"]) for bad in body["bad"]] == [(1, "photo1.png"), (3, "photo3.png")]
    assert "this is no photo of a known format" in body["bad"][0]["reason"]
    assert "the photo is broken" in body["bad"][1]["reason"]


def test_scores_that_the_client_keeps_answer_with_other_evidence_exactly_as_given(server):
    content = photo_bytes(7)
    first = server.client.post("/v1/predict", files=files(content), data={"scores": "true"}).json()["photos"][0]
    for given in (
        {},
        {"restaurant": "B"},
        {"restaurant": ["A", "B"], "spicy": True},
        {"dish": {"mapo tofu": 0.2, "egg rice": 0.7}},
        {"fine": "egg rice @ B"},
        {"restaurant": None},
    ):
        body = {"scores": first["scores"], "given": given, "risk": 0.1, "top": 4}
        answer = server.client.post("/v1/given", json=body)
        assert answer.status_code == 200, answer.text
        library = {kind: set(value) if isinstance(value, list) else value for kind, value in given.items()}
        same(answer.json()["prediction"], server.model.predict(picture(content), given=library, risk=0.1, top=4))
        assert answer.json()["prediction"]["scores"] == first["scores"]


def many_labels(count):
    """A graph with a kind of many labels, one of few, a binary kind and a number."""
    rows = {
        f"item {n}": {
            "dish": f"dish {n % (count // 3)}",
            "place": f"place {n % 7}",
            "hot": n % 2 == 0,
            "price": 5.0 + n % 9,
        }
        for n in range(count)
    }
    return LabelGraph.from_table(rows, types={"price": "number"})


@pytest.mark.parametrize("case", ["fewer scores", "more scores", "two networks", "softmax", "int8", "doubted"])
def test_what_a_client_keeps_gives_the_same_scores_to_the_bit(tmp_path, monkeypatch, case):
    tiny.register(monkeypatch)
    table = {"a": {"dish": "x"}, "b": {"dish": "y"}} if case == "fewer scores" else many_labels(50)
    parts = {"coarse_network": "other"} if case == "two networks" else {}
    if case == "softmax":
        parts = {"head": "softmax"}
    model = tiny.classifier(table, **parts)
    if case == "doubted":
        model.network.head.doubt = 0.3
    model.save(tmp_path / "model")
    served = ServedModel.load(tmp_path / "model", "torch", "int8" if case == "int8" else "float32")
    pixels = [np.asarray(tiny.picture(seed).convert("RGB").resize((served.model.views.size,) * 2)) for seed in range(3)]
    features = {"two networks": 12 + 20, "fewer scores": 4}.get(
        case, 12
    )  # without features: 2 fine labels and 2 dishes
    for scores in served.scores(pixels):
        packed = served.pack(scores)
        assert len(base64.b64decode(packed.partition(":")[2])) == 4 * features
        again = served.unpack(packed)
        for name in ("fine", "coarse", "numbers"):
            before, after = getattr(scores, name), getattr(again, name)
            assert (before is None) == (after is None)
            assert before is None or (before == after).all()


def test_the_page_of_many_labels_gets_short_answers_that_are_those_of_all_scores(monkeypatch):
    tiny.register(monkeypatch)
    with running(tiny.classifier(many_labels(20_000))) as server:
        content = photo_bytes(3)
        asked = {"scores": "true", "risk": 0.05, "top": 100, "questions": 6}  # as `predict` of page/api.js asks
        answer = server.client.post("/v1/predict", files=files(content), data=asked)
        found = answer.json()["photos"][0]
        assert len(answer.content) < 100_000
        scores_alone = 4 / 3 * 4 * 20_000
        assert scores_alone > 100_000  # sent as scores they would be longer
        for given in ({}, {"place": ["place 3"], "hot": True}, {"price": ["6..9"]}):
            body = {"scores": found["scores"], "given": given, "risk": 0.05, "top": 100, "questions": 6}
            again = server.client.post("/v1/given", json=body)
            assert again.status_code == 200, again.text
            assert max(len(again.content), len(again.request.content)) < 100_000
            texts = [f"{kind}={value[0] if isinstance(value, list) else 'yes'}" for kind, value in given.items()]
            fresh = server.client.post("/v1/predict", files=files(content), data={**asked, "given": texts})
            expected = fresh.json()["photos"][0]
            left_out = ("photo", "words", "in_index")
            for name in (name for name in expected if name not in left_out):
                assert again.json()["prediction"][name] == expected[name], name


def test_features_whose_scores_are_not_finite_are_refused(monkeypatch):
    tiny.register(monkeypatch)
    served = ServedModel(tiny.classifier(many_labels(50)), "many")
    huge = base64.b64encode(np.full(12, 3e38, dtype="<f4").tobytes()).decode()
    with pytest.raises(InputError, match="expected features of a photo, got numbers whose scores are not finite"):
        served.unpack(f"{served.id}:{huge}")


def test_evidence_that_nothing_agrees_with_is_refused_in_words(server):
    data = {"given": ["fine=egg rice @ B", "restaurant=A"]}
    response = server.client.post("/v1/predict", files=files(photo_bytes()), data=data)
    assert response.status_code == 422
    assert response.json()["type"] == "urn:finegraph:problem:evidence"
    assert "no fine label of the graph agrees" in response.json()["detail"]


@pytest.mark.parametrize(
    ("data", "status", "name", "words"),
    [
        ({"given": "restaurant=C"}, 422, "unknown-name", "unknown label 'C' of kind 'restaurant'"),
        ({"given": "restaurnt=A"}, 422, "unknown-name", "did you mean 'restaurant'"),
        ({"given": "A"}, 422, "input", "expected kind=label"),
        ({"top": "0"}, 422, "input", "top: expected a whole number from 1 to 100, got '0'"),
        ({"top": "1" * 5000}, 422, "input", "top: expected a whole number from 1 to 100, got '1111"),
        ({"top": "many"}, 422, "input", "got 'many'"),
        ({"risk": "1"}, 422, "input", "risk: expected a number of at least 0 and below 1"),
        ({"risk": "nan"}, 422, "input", "risk: expected"),
        ({"explain": "maybe"}, 422, "input", "explain: expected true or false"),
        ({"url": "http://127.0.0.1/photo.jpg"}, 422, "input", "the field 'url'"),
        ({"top": ["1", "2"]}, 422, "input", "top: expected it once"),
    ],
)
def test_wrong_fields_are_named(server, data, status, name, words):
    response = server.client.post("/v1/predict", files=files(photo_bytes()), data=data)
    assert response.status_code == status
    problem = response.json()
    assert response.headers["content-type"] == "application/problem+json"
    assert problem["type"] == f"urn:finegraph:problem:{name}"
    assert words in problem["detail"]
    assert problem["status"] == status
    assert problem["title"]
    assert problem["what_to_do"]


def test_wrong_bodies_are_refused(server):
    post = server.client.post
    assert post("/v1/predict", json={"photo": "x"}).status_code == 415
    assert post("/v1/predict", data={"top": "1"}).status_code == 415
    part = b'--x\r\nContent-Disposition: form-data; name="photo"; filename="a"\r\n\r\nabc\r\n'
    for content in (b"--x\r\nnonsense", b"nonsense", part, part + b"--x", part.replace(b"name=", b"nme=")):
        broken = post("/v1/predict", content=content, headers={"content-type": "multipart/form-data; boundary=x"})
        assert (broken.status_code, broken.json()["type"]) == (400, "urn:finegraph:problem:bad-request"), content
    no_boundary = post("/v1/predict", content=b"", headers={"content-type": "multipart/form-data"})
    assert no_boundary.status_code == 400
    none = post("/v1/predict", files=[("other", ("a.png", photo_bytes()))])
    assert "the file 'other'" in none.json()["detail"]
    empty = post("/v1/predict", files=files(b""))
    assert (empty.status_code, empty.json()["detail"]) == (422, "photo0.png: the file is empty")
    too_many = post("/v1/predict", files=files(*[photo_bytes()] * 33))
    assert too_many.status_code == 400
    assert "Maximum number of files is 32" in too_many.json()["detail"]


def test_scores_of_another_model_or_broken_ones_are_refused(server):
    first = server.client.post("/v1/predict", files=files(photo_bytes()), data={"scores": "true"}).json()["photos"][0]
    made_by, _, packed = first["scores"].partition(":")
    for scores, status, name in (
        (f"0123456789abcdef:{packed}", 409, "other-model"),
        (f"{made_by}:{packed[:-8]}", 422, "input"),
        (f"{made_by}:not base64!", 422, "input"),
        (f"{made_by}:{'/' * 6}{packed[6:]}", 422, "input"),  # not a number
    ):
        answer = server.client.post("/v1/given", json={"scores": scores})
        assert (answer.status_code, answer.json()["type"].split(":")[-1]) == (status, name), answer.text
    extra = server.client.post("/v1/given", json={"scores": first["scores"], "url": "http://127.0.0.1"})
    assert (extra.status_code, "url" in extra.json()["detail"]) == (422, True)
    broken = server.client.post("/v1/given", content=b"{", headers={"content-type": "application/json"})
    assert broken.status_code == 400


def test_concurrent_requests_with_other_photos_and_evidence_are_not_mixed_up(server):
    contents = [photo_bytes(seed) for seed in range(8)]
    kinds = [{}, {"restaurant": "A"}, {"dish": "mapo tofu"}, {"spicy": False}]
    expected = {
        (number, case): server.model.predict(picture(contents[number]), given=kinds[case])
        for number in range(len(contents))
        for case in range(len(kinds))
    }

    def ask(job):
        number, case = job
        texts = [f"{kind}={'no' if value is False else value}" for kind, value in kinds[case].items()]
        body = server.client.post("/v1/predict", files=files(contents[number]), data={"given": texts}).json()
        return job, body["photos"][0]

    jobs = list(expected)
    with ThreadPoolExecutor(12) as pool:
        for job, found in pool.map(ask, jobs):
            same(found, expected[job])


def test_uploads_are_never_written_to_the_disk(server, monkeypatch):
    import tempfile

    rolled = []
    original = tempfile.SpooledTemporaryFile.rollover
    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", lambda self: rolled.append(1) or original(self))
    large = photo_bytes(1, "BMP", width=1400, height=1000)
    assert len(large) > 4 << 20
    assert server.client.post("/v1/predict", files=files(large)).status_code == 200
    assert rolled == []


def test_a_network_in_training_mode_or_threads_change_nothing(server):
    assert not server.model.network.training
    assert torch.get_num_threads() == 1


def test_rounded_weights_answer_nearly_the_same(tmp_path, monkeypatch):
    tiny.register(monkeypatch)
    folder = tmp_path / "model"
    tiny.classifier().save(folder)
    exact = ServedModel.load(folder, "torch")
    pixels = [np.asarray(tiny.picture(seed).convert("RGB").resize((exact.model.views.size,) * 2)) for seed in range(3)]
    first = exact.answer(exact.scores(pixels), ["a", "b", "c"], exact.ask())
    for weights in ("bfloat16", "int8"):
        served = ServedModel.load(folder, "torch", weights)
        assert served.id != exact.id
        for one, two in zip(first, served.answer(served.scores(pixels), ["a", "b", "c"], served.ask()), strict=True):
            chances = dict(two.top)
            assert all(chances[label] == pytest.approx(chance, abs=0.02) for label, chance in one.top)


def test_what_weights_there_are(tmp_path):
    with pytest.raises(InputError, match="expected one of float32, bfloat16, int8, got 'int4'"):
        ServeSettings(model=tmp_path, weights="int4")
    with pytest.raises(InputError, match="rounded weights cannot be taught"):
        ServeSettings(model=tmp_path, weights="int8", teach=True)
