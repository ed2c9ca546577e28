"""Search over HTTP: the hits of the library, thumbnails by key, and an index that changes or is of another model."""

import io
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

import tiny_classifier as tiny
from finegraph import LabelGraph, Number
from finegraph.errors import IndexFolderError, InputError
from finegraph.model import PhotoClassifier
from finegraph.search import Index
from finegraph.web.serve import photo_requests
from finegraph.web.serve.answering import ServedModel
from finegraph.web.serve.model_routes import MAX_ORDER
from finegraph.web.serve.searching import PhotoIndex
from finegraph.workflows.index import add_photos, make_index
from finegraph.workflows.search import search_index, search_photos
from serving import files, photo_bytes, running


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, photos and an index."""
    root = tmp_path_factory.mktemp("search")
    with pytest.MonkeyPatch.context() as patch:
        tiny.register(patch)
        patch.setenv("FINEGRAPH_CACHE", str(root / "cache"))
        tiny.classifier().save(root / "model")
        for number, label in enumerate(tiny.TABLE):
            (root / "photos" / label).mkdir(parents=True)
            for seed in (0, 1, 2):
                tiny.picture(10 * number + seed).save(root / "photos" / label / f"{seed}.png")
        make_index(root / "model", [root / "photos"], root / "index", engine="torch")
        yield root


@pytest.fixture(scope="module")
def server(folder):
    with pytest.MonkeyPatch.context() as patch:
        tiny.register(patch)
        model = PhotoClassifier.load(folder / "model")
        index = PhotoIndex.open_for(folder / "index", ServedModel(model, "menu"))
        with running(model, index=index) as found:
            yield found


@pytest.mark.parametrize(
    ("data", "options"),
    [
        ({"count": "4"}, {"count": 4}),
        (
            {"where": ["restaurant=B", "dish=mapo tofu", "dish=kung pao"]},
            {"count": 12, "where": {"restaurant": "B", "dish": {"mapo tofu", "kung pao"}}},
        ),
        ({"where_not": "spicy=yes", "per_label": "1"}, {"count": 12, "where_not": {"spicy": "yes"}, "per_label": 1}),
        ({"same": "dish", "other": "restaurant"}, {"count": 12, "same": ("dish",), "other": ("restaurant",)}),
    ],
)
def test_hits_are_those_of_the_library(server, folder, data, options):
    content = photo_bytes(33)
    body = server.client.post("/v1/search", files=files(content, b"bad"), data=data).json()
    index = Index.open(folder / "index")
    (expected,) = search_photos(index, server.model, [Image.open(io.BytesIO(content))], **options)
    (found,) = body["photos"]
    assert len(found["hits"]) == len(expected.hits) > 0
    for hit, other in zip(found["hits"], expected.hits, strict=True):
        assert (hit["label"], hit["similarity"]) == (other.label, pytest.approx(other.similarity, abs=1e-5))
    assert [bad["number"] for bad in body["bad"]] == [1]
    assert str(folder) not in str(body)  # no path of this machine


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ({}, {}),
        ({"count": 4, "per_label": 1}, {"count": 4, "per_label": 1}),
        ({"where": ["restaurant=B", "dish=mapo tofu"]}, {"where": ["restaurant=B", "dish=mapo tofu"]}),
        ({"where_not": "spicy=yes"}, {"where": ["spicy!=yes"]}),
        ({"same": "dish", "other": "restaurant"}, {"same": ["dish"], "other": ["restaurant"]}),
    ],
)
def test_by_a_fine_label(server, folder, asked, options):
    label = next(iter(tiny.TABLE))
    response = server.client.get("/v1/search", params={"label": label, **asked})
    assert response.status_code == 200, response.text
    (expected,) = search_index(folder / "index", labels=[label], **{"count": 12, **options}).queries
    found = response.json()
    assert (found["label"], len(found["hits"])) == (label, len(expected.hits))
    assert [hit["label"] for hit in found["hits"]] == [hit.label for hit in expected.hits]
    assert [hit["score"] for hit in found["hits"]] == pytest.approx([hit.score for hit in expected.hits], abs=1e-5)
    assert str(folder) not in response.text


def test_wrong_questions_by_label_are_named(server):
    label = next(iter(tiny.TABLE))
    for asked, words in (
        ({"label": "mapo tofu @ C"}, "did you mean 'mapo tofu @ "),
        ({"label": label, "where": "dish=soup"}, "unknown label 'soup' of kind 'dish'"),
        ({"label": label, "same": "dish", "other": "dish"}, "the dish cannot be the same and another at once"),
        ({"label": label, "count": 0}, "count"),
        ({}, "label"),
    ):
        response = server.client.get("/v1/search", params=asked)
        assert (response.status_code, words in response.json()["detail"]) == (422, True), response.text


def test_what_is_given_sharpens_a_condition(server, folder):
    content = photo_bytes(33)
    data = {"other": "restaurant", "given": "restaurant=A"}
    (found,) = server.client.post("/v1/search", files=files(content), data=data).json()["photos"]
    picture = Image.open(io.BytesIO(content))
    given = {"restaurant": {"A"}}
    (expected,) = search_photos(
        Index.open(folder / "index"), server.model, [picture], count=12, other=("restaurant",), given=given
    )
    assert [hit["label"] for hit in found["hits"]] == [hit.label for hit in expected.hits]
    assert {hit["kinds"]["restaurant"][0] for hit in found["hits"]} == {"B"}
    for data, words in (
        (
            {"where": "restaurant=B", "given": "restaurant=A"},
            "no restaurant that is asked for agrees with what is given",
        ),
        ({"same": "dish", "given": ["restaurant=A", "dish=egg rice"]}, "no fine label"),
    ):
        response = server.client.post("/v1/search", files=files(content), data=data)
        assert (response.status_code, words in response.json()["detail"]) == (422, True), response.text


def test_what_is_given_alone_finds_photos_that_agree(server):
    content = photo_bytes(33)
    data = {"given": ["restaurant=A", "dish=mapo tofu", "dish=kung pao"], "where": "spicy=yes", "count": "20"}
    body = server.client.post("/v1/search", files=files(content), data=data).json()
    assert body["given"] == {"restaurant": ["A"], "dish": ["kung pao", "mapo tofu"]}
    assert {hit["label"] for hit in body["photos"][0]["hits"]} == {"mapo tofu @ A"}
    assert server.client.post("/v1/search", files=files(content)).json()["given"] == {}


def test_a_photo_of_the_index_is_said_to_be_in_it(server, folder):
    label = next(iter(tiny.TABLE))
    own, other = (folder / "photos" / label / "1.png").read_bytes(), photo_bytes(33)
    data = {"where": "restaurant=B"}  # whatever the filter
    searched = server.client.post("/v1/search", files=files(own, other), data=data).json()["photos"]
    answered = server.client.post("/v1/predict", files=files(own, other), data={"questions": "0"}).json()["photos"]
    for found, strange in (searched, answered):
        (copy,) = found["in_index"]
        assert (copy["name"], copy["label"], copy["guess"]) == ("1.png", label, None)
        assert copy["kinds"]["restaurant"] == ["A"]
        assert server.client.get(copy["thumbnail"]).headers["content-type"] == "image/jpeg"
        assert strange["in_index"] == []


def test_thumbnails_are_had_by_the_keys_of_hits_only(server):
    hit = server.client.post("/v1/search", files=files(photo_bytes(33))).json()["photos"][0]["hits"][0]
    small = server.client.get(hit["thumbnail"])
    assert small.headers["content-type"] == "image/jpeg"
    assert Image.open(io.BytesIO(small.content)).size == (50, 40)
    assert server.client.get(hit["thumbnail"][:-1] + "x").status_code == 404


def test_wrong_questions_are_named(server):
    for data, words in (
        ({"where": "restaurant=C"}, "unknown label 'C'"),
        ({"same": "dsh"}, "did you mean 'dish'"),
        ({"count": "0"}, "count: expected a whole number from 1 to 100"),
    ):
        response = server.client.post("/v1/search", files=files(photo_bytes()), data=data)
        assert (response.status_code, words in response.json()["detail"]) == (422, True), response.text


def test_photos_that_are_added_are_found_without_a_restart(server, folder, tmp_path, monkeypatch):
    tiny.register(monkeypatch)
    new = tmp_path / "new.png"
    tiny.picture(77).save(new)
    add_photos(folder / "index", [new], model=folder / "model", engine="torch")
    hits = server.client.post("/v1/search", files=files(new.read_bytes())).json()["photos"][0]["hits"]
    assert (hits[0]["name"], hits[0]["label"]) == ("new.png", None)
    assert hits[0]["similarity"] == pytest.approx(1.0, abs=1e-4)


@pytest.mark.deep
def test_labels_that_the_model_does_not_have_filter_too(folder, tmp_path, monkeypatch):
    tiny.register(monkeypatch)
    shutil.copytree(folder / "index", tmp_path / "index")
    (tmp_path / "more" / "soup=hot @ C").mkdir(parents=True)
    tiny.picture(88).save(tmp_path / "more" / "soup=hot @ C" / "soup.png")
    model = PhotoClassifier.load(folder / "model")
    index = PhotoIndex.open_for(tmp_path / "index", ServedModel(model, "menu"))
    with running(model, index=index) as server:
        add_photos(tmp_path / "index", [tmp_path / "more"], model=folder / "model", engine="torch")
        label = next(iter(tiny.TABLE))
        for where, names in (({"where": "fine=soup=hot @ C"}, ["soup.png"]), ({"where_not": "fine=soup=hot @ C"}, [])):
            asked = {"count": 100, **where}
            by_photo = server.client.post("/v1/search", files=files(photo_bytes(33)), data=asked).json()["photos"][0]
            by_label = server.client.get("/v1/search", params={"label": label, **asked}).json()
            for found in (by_photo, by_label):
                assert len(found["hits"]) == (len(names) or 15)
                assert [hit["name"] for hit in found["hits"] if hit["name"] == "soup.png"] == names
        for text, words in (("fine", "filter 'fine': expected kind=label, such"), ("dish!=x", "unknown kind 'dish!'")):
            wrong = server.client.post("/v1/search", files=files(photo_bytes(33)), data={"where": text})
            assert (wrong.status_code, words in wrong.json()["detail"]) == (422, True), wrong.text


@pytest.mark.deep
def test_names_that_are_no_text_are_answered(folder, tmp_path, monkeypatch):
    tiny.register(monkeypatch)
    shutil.copytree(folder / "index", tmp_path / "index")
    strange = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.png")
    tiny.picture(91).save(strange)
    add_photos(tmp_path / "index", [strange], model=folder / "model", engine="torch")
    model = PhotoClassifier.load(folder / "model")
    index = PhotoIndex.open_for(tmp_path / "index", ServedModel(model, "menu"))
    with running(model, index=index) as server, open(strange, "rb") as file:
        response = server.client.post("/v1/search", files=files(file.read()), data={"count": "1"})
        assert response.status_code == 200, response.text
        (hit,) = response.json()["photos"][0]["hits"]
        assert hit["name"] == "caf\\udce9.png"
        assert Image.open(io.BytesIO(server.client.get(hit["thumbnail"]).content)).size == (50, 40)


@pytest.mark.deep
def test_while_one_search_opens_a_changed_index_others_use_the_old_one(folder, tmp_path, monkeypatch):
    tiny.register(monkeypatch)
    shutil.copytree(folder / "index", tmp_path / "index")
    model = PhotoClassifier.load(folder / "model")
    index = PhotoIndex.open_for(tmp_path / "index", ServedModel(model, "menu"))
    tiny.picture(93).save(tmp_path / "new.png")
    add_photos(tmp_path / "index", [tmp_path / "new.png"], model=folder / "model", engine="torch")
    opening, hold, real = threading.Event(), threading.Event(), Index.open

    def slowly(place, small):
        opening.set()
        assert hold.wait(120)
        return real(place, small=small)

    with running(model, index=index) as server, ThreadPoolExecutor(1) as pool:

        def names():
            response = server.client.post("/v1/search", files=files(photo_bytes(93)), data={"count": "1"})
            return [hit["name"] for hit in response.json()["photos"][0]["hits"]]

        monkeypatch.setattr(Index, "open", slowly)
        try:
            first = pool.submit(names)
            assert opening.wait(30)
            for _ in range(10):  # more than there are threads for searches
                assert names() != ["new.png"]
        finally:
            hold.set()
        assert first.result() == ["new.png"] == names()


def test_an_index_of_another_model_is_refused(folder, monkeypatch):
    tiny.register(monkeypatch)
    with pytest.raises(IndexFolderError):
        PhotoIndex.open_for(folder / "index", ServedModel(tiny.classifier(seed=4), "other"))


@pytest.fixture
def other(tmp_path, monkeypatch):
    """Another model with an index of one photo."""
    tiny.register(monkeypatch)
    monkeypatch.setenv("FINEGRAPH_CACHE", str(tmp_path / "cache"))
    tiny.classifier(seed=4).save(tmp_path / "other")
    tiny.picture(50).save(tmp_path / "only.png")
    make_index(tmp_path / "other", [tmp_path / "only.png"], tmp_path / "other-index", engine="torch")
    return ServedModel(PhotoClassifier.load(tmp_path / "other"), "other")


@pytest.mark.deep
def test_a_model_that_takes_over_during_an_upload_searches_its_own_index(folder, tmp_path, other, monkeypatch):
    model = PhotoClassifier.load(folder / "model")
    index = PhotoIndex.open_for(folder / "index", ServedModel(model, "menu"))
    real = photo_requests.read_upload
    with running(model, index=index) as server:

        async def slowly(*arguments, **options):
            upload = await real(*arguments, **options)
            server.state.model, server.state.index = other, PhotoIndex.open_for(tmp_path / "other-index", other)
            return upload

        monkeypatch.setattr(photo_requests, "read_upload", slowly)
        body = server.client.post("/v1/search", files=files(photo_bytes(33))).json()
    assert body["model"] == other.id
    assert [hit["name"] for hit in body["photos"][0]["hits"]] == ["only.png"]


@pytest.mark.deep
def test_an_index_that_cannot_be_opened_again_is_said_to_be_so_and_not_read_each_time(
    folder, tmp_path, other, monkeypatch
):
    place, opened = tmp_path / "index", []
    shutil.copytree(folder / "index", place)
    model = PhotoClassifier.load(folder / "model")
    index = PhotoIndex.open_for(place, ServedModel(model, "menu"))
    real = Index.open
    monkeypatch.setattr(Index, "open", lambda folder, small: opened.append(folder) or real(folder, small=small))
    with running(model, index=index) as server:

        def ask():
            return server.client.post("/v1/search", files=files(photo_bytes(33)))

        place.rename(tmp_path / "away")
        shutil.copytree(tmp_path / "other-index", place)
        for response in (ask(), ask(), server.client.get("/v1/search", params={"label": next(iter(tiny.TABLE))})):
            assert response.status_code == 503
            assert response.json()["type"] == "urn:finegraph:problem:index-changed"
            assert response.headers["retry-after"] == "30"
            assert str(tmp_path) not in response.text
        assert len(opened) == 1
        shutil.rmtree(place)
        (tmp_path / "away").rename(place)
        assert ask().status_code == 200


def test_the_page_shows_similar_photos(server, page):
    page.goto(server.address)
    page.wait_for_selector("body[data-ready]")
    page.set_input_files("#file", {"name": "a.png", "mimeType": "image/png", "buffer": photo_bytes(33)})
    page.wait_for_selector("#similar:not([hidden]) li")
    assert page.locator("#similar li").count() == 12
    page.locator("#similar").scroll_into_view_if_needed()
    page.locator("#similar img").first.evaluate("image => image.decode()")
    assert "similarity" in page.locator("#similar figcaption").first.inner_text()


@pytest.fixture
def priced(tmp_path, monkeypatch):
    """A graph with prices, its model in `model`, and an index with one photo of each fine label in `index`."""
    tiny.register(monkeypatch)
    monkeypatch.setenv("FINEGRAPH_CACHE", str(tmp_path / "cache"))
    graph = LabelGraph.from_table(tiny.TABLE)
    graph = graph.with_number(Number.from_values("price", range(5, 5 + len(graph)), unit="EUR"))
    tiny.classifier(graph).save(tmp_path / "model")
    for number, label in enumerate(graph.fine):
        (tmp_path / "photos" / label).mkdir(parents=True)
        tiny.picture(number).save(tmp_path / "photos" / label / "0.png")
    make_index(tmp_path / "model", [tmp_path / "photos"], tmp_path / "index", engine="torch")
    model = PhotoClassifier.load(tmp_path / "model")
    return graph, model


@pytest.mark.deep
def test_hits_are_sorted_by_a_number_and_have_its_values(tmp_path, priced):
    graph, model = priced
    index = PhotoIndex.open_for(tmp_path / "index", ServedModel(model, "menu"))
    with running(model, index=index) as server:
        asked = {"label": graph.fine[0], "where": "price<=7", "sort": "-price"}
        hits = server.client.get("/v1/search", params=asked).json()["hits"]
        assert [one["values"] for one in hits] == [{"price": 7.0}, {"price": 6.0}, {"price": 5.0}]
        found = server.client.post(
            "/v1/search", files=files(photo_bytes(1)), data={"sort": "price", "count": "4"}
        ).json()
        prices = [one["values"]["price"] for one in found["photos"][0]["hits"]]
        assert prices == sorted(prices)
        own = {**asked, "label": graph.fine[2], "where": ["price<this", "price>5"]}
        body = server.client.get("/v1/search", params=own).json()
        assert (body["limits"], [one["values"]["price"] for one in body["hits"]]) == ({"price": "< 7"}, [6.0])
        itself = server.client.post("/v1/search", files=files(photo_bytes(1)), data={"where": "price<this"}).json()
        assert itself["photos"][0]["in_index"][0]["values"] == {"price": 6.0}
        assert itself["photos"][0]["limits"] == {"price": "< 6"}
        assert [one["values"]["price"] for one in itself["photos"][0]["hits"]] == [5.0]
        content = photo_bytes(33)
        mean = server.client.post("/v1/predict", files=files(content)).json()["photos"][0]["numbers"]["price"]["mean"]
        body = server.client.post("/v1/search", files=files(content, photo_bytes(2)), data={"where": "price>this"})
        first = body.json()["photos"][0]
        assert first["limits"] == {"price": f"> {mean:.6g}"}
        assert sorted(one["values"]["price"] for one in first["hits"]) == [n for n in range(5, 10) if n > mean]
        photo = tmp_path / "photos" / graph.fine[1] / "0.png"
        (query,) = search_index(tmp_path / "index", [photo], where=["price<this"], model=tmp_path / "model").queries
        assert [one.values["price"] for one in query.hits] == [5.0]
        with pytest.raises(InputError, match="price is a number, of which there are limits and ranges"):
            search_index(tmp_path / "index", [photo], where=["price!=7"], model=tmp_path / "model")
        found = search_index(tmp_path / "index", labels=[graph.fine[2]], where=["price<this"], model=tmp_path / "model")
        assert found.to_dict()["queries"][0]["limits"] == {"price": "< 7"}
        refused = server.client.get("/v1/search", params={**asked, "sort": "dish"})
        assert refused.status_code == 422
        assert "expected a number or an ordered kind" in refused.text


def test_the_page_sorts_and_limits_by_what_has_an_order(tmp_path, priced, page):
    graph, model = priced

    def prices():
        captions = page.locator("#similar figcaption").all_inner_texts()
        return [float(text.partition("price ")[2].split(" ")[0]) for text in captions]

    with running(model, index=PhotoIndex.open_for(tmp_path / "index", ServedModel(model, "menu"))) as server:
        page.goto(server.address)
        page.wait_for_selector("body[data-ready]")
        page.set_input_files("#file", {"name": "a.png", "mimeType": "image/png", "buffer": photo_bytes(33)})
        page.wait_for_selector("#similar li")
        page.select_option("#sort-by", "-price")
        page.wait_for_selector("#similar li:first-child:has-text('price 9 EUR')")
        assert prices() == [9.0, 8.0, 7.0, 6.0, 5.0]
        page.get_by_role("button", name=f"above or below {graph.fine[2]}").click()
        page.wait_for_selector("#limit-words:has-text('price above 7 EUR')")
        assert prices() == [9.0, 8.0]
        page.select_option("#limit-by", "below price")
        page.wait_for_selector("#similar li:first-child:has-text('price 6 EUR')")
        assert prices() == [6.0, 5.0]
        assert page.locator("#limit-words").inner_text() == f"price below 7 EUR, that of {graph.fine[2]}."
        page.goto("about:blank")


def test_the_page_limits_by_an_order_that_is_too_long_to_be_sent(tmp_path, monkeypatch, page):
    tiny.register(monkeypatch)
    monkeypatch.setenv("FINEGRAPH_CACHE", str(tmp_path / "cache"))
    grades = [f"grade {number}" for number in range(MAX_ORDER + 1)]
    table = {f"tea {number}": {"grade": grade} for number, grade in enumerate(grades)}
    tiny.classifier(LabelGraph.from_table(table, {"grade": tuple(grades)})).save(tmp_path / "model")
    for number in (3, 50, 200):
        (tmp_path / "photos" / f"tea {number}").mkdir(parents=True)
        tiny.picture(number).save(tmp_path / "photos" / f"tea {number}" / "0.png")
    make_index(tmp_path / "model", [tmp_path / "photos"], tmp_path / "index", engine="torch")
    served = ServedModel(PhotoClassifier.load(tmp_path / "model"), "menu")
    with running(served.model, index=PhotoIndex.open_for(tmp_path / "index", served)) as server:
        page.goto(server.address)
        page.wait_for_selector("body[data-ready]")
        page.set_input_files("#file", {"name": "a.png", "mimeType": "image/png", "buffer": photo_bytes(33)})
        page.wait_for_selector("#similar li")
        page.select_option("#sort-by", "-grade")
        page.wait_for_selector("#similar li:first-child:has-text('grade 200')")
        page.get_by_role("button", name="above or below tea 50").click()
        page.wait_for_selector("#limit-words:has-text('grade above grade 50')")
        page.wait_for_selector("#similar li:first-child:last-child:has-text('grade 200')")
        page.select_option("#limit-by", "")
        # As evidence, any label is found by a part of it.
        assert page.get_by_role("group", name="grade").locator("button").count() == 5
        field = page.get_by_role("combobox", name="Find a grade")
        field.fill("grade 177")
        page.get_by_role("listbox", name="Find a grade").get_by_text("grade 177", exact=True).click()
        page.wait_for_selector("#evidence:has-text('grade: grade 177')")
        page.wait_for_selector("#top li:first-child:has-text('tea 177')")
        page.goto("about:blank")
