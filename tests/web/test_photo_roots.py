"""No byte from outside the folders of photos: links, exchanged files, files that are no photos, and climbing paths."""

import io
import json
import os
import random

import pytest
from PIL import Image
from traversal import SECRET, Outside, leaks, ways_out

import tiny_classifier as tiny
from finegraph.web.label import create_label_app
from finegraph.web.serve.answering import ServedModel
from finegraph.web.serve.photo_files import SamplePhotos
from finegraph.web.serve.searching import PhotoIndex
from finegraph.workflows.index import add_photos, make_index
from finegraph.workflows.label import open_session
from serving import InProcess, files, photo_bytes, running

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(autouse=True)
def _tiny_networks(monkeypatch, tmp_path_factory):
    tiny.register(monkeypatch)
    monkeypatch.setenv("FINEGRAPH_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def outside(tmp_path):
    return Outside(tmp_path)


@pytest.mark.deep
def test_a_sample_that_is_a_link_to_a_file_outside_is_not_offered(outside, caplog):
    (outside.photos / "01.png").symlink_to(outside.folder / "secret.png")
    (outside.photos / "b").symlink_to(outside.elsewhere)
    (outside.photos / "02.png").symlink_to("a/2.png")  # this one stays inside
    samples = SamplePhotos(outside.photos)
    assert [os.path.basename(path) for path in samples.paths] == ["0.png", "02.png", "1.png", "2.png"]
    assert "2 of 6 photos are links that lead out of the folder; they are not offered" in caplog.text
    with running(tiny.classifier(), samples=outside.photos) as server:
        listed = server.client.get("/v1/samples").json()
        contents = [server.client.get(sample[name]).content for sample in listed for name in ("url", "thumbnail")]
        assert (len(contents), any(map(leaks, contents))) == (8, False)


@pytest.mark.deep
def test_a_sample_that_becomes_a_link_while_it_is_served_is_refused(outside):
    with running(tiny.classifier(), samples=outside.photos) as server:
        assert server.client.get("/v1/samples/1").status_code == 200
        (outside.photos / "1.png").unlink()
        (outside.photos / "1.png").symlink_to(outside.elsewhere / "0.png")
        for path in ("/v1/samples/1", "/v1/samples/1/small"):
            refused = server.client.get(path)
            assert (refused.status_code, refused.json()["type"]) == (422, "urn:finegraph:problem:photo")
            assert "it is a link that leads out of the folder of its photos" in refused.json()["detail"]
            assert str(outside.folder) not in refused.text


@pytest.mark.deep
def test_only_what_can_be_decoded_is_sent(outside):
    broken = photo_bytes(form="PNG", width=300, height=200)
    (outside.photos / "0.png").write_bytes(SECRET)
    (outside.photos / "1.png").write_bytes(broken[: len(broken) // 2])
    with running(tiny.classifier(), samples=outside.photos) as server:
        for number, words in ((0, "this is no photo of a known format"), (1, "the photo is broken")):
            refused = server.client.get(f"/v1/samples/{number}")
            assert (refused.status_code, words in refused.json()["detail"]) == (422, True)
        assert server.client.get("/v1/samples/2").content == (outside.photos / "a" / "2.png").read_bytes()


@pytest.mark.deep
def test_photos_of_an_index_that_are_links_out_of_it_are_refused(outside, tmp_path):
    model = tiny.classifier()
    model.save(tmp_path / "model")
    (outside.photos / "a" / "3.png").symlink_to(outside.elsewhere / "0.png")
    (outside.photos / "a" / "4.png").symlink_to("2.png")
    (outside.photos / "a" / "5.png").symlink_to("../0.png")
    make_index(tmp_path / "model", [outside.photos / "a"], tmp_path / "index", engine="torch")
    add_photos(tmp_path / "index", [outside.photos / "1.png"], engine="torch")
    index = PhotoIndex.open_for(tmp_path / "index", ServedModel(model, "menu"))
    with running(model, index=index) as server:
        found = server.client.post("/v1/search", files=files(photo_bytes())).json()["photos"][0]["hits"]
        by_name = {hit["name"]: server.client.get(hit["thumbnail"]) for hit in found}
    assert {name: answer.status_code for name, answer in by_name.items()} == {
        "1.png": 200,
        "2.png": 200,
        "3.png": 422,
        "4.png": 200,
        "5.png": 422,  # the folder that was named is `a`
    }
    assert "leads out of the folder" in by_name["3.png"].json()["detail"]


def test_an_index_knows_the_folders_that_it_was_made_of(outside, tmp_path):
    (tmp_path / "data" / "x").mkdir(parents=True)
    tiny.picture().save(tmp_path / "data" / "x" / "0.png")
    tiny.classifier().save(tmp_path / "model")
    sources = [outside.photos / "0.png", f"folder:{tmp_path / 'data'}", outside.photos / "1.png"]
    make_index(tmp_path / "model", sources, tmp_path / "index", engine="torch")
    state = json.loads((tmp_path / "index" / "index.json").read_text())["content"]
    assert state["roots"] == [str(outside.photos), str(tmp_path / "data")]


def label_session(tmp_path, data):
    (tmp_path / "menu.csv").write_text("fine,dish\nx,tofu\ny,rice\n")
    return open_session(str(tmp_path / "menu.csv"), data=str(data))


@pytest.mark.deep
def test_the_labelling_page_leaves_out_links_and_refuses_what_becomes_one(tmp_path):
    outside = Outside(tmp_path / "menu")
    data = tmp_path / "data"
    for label in ("x", "y"):
        (data / label).mkdir(parents=True)
        tiny.picture().save(data / label / "0.png")
    (data / "x" / "1.png").symlink_to(outside.elsewhere / "0.png")
    (data / "x" / "2.png").symlink_to("../y/0.png")
    with label_session(tmp_path, data) as session:
        assert f"1 photos are left out: they are links that lead out of {data}" in session.notes
        assert [photo.key for photo in session.photos("x")] == ["x/0.png", "x/2.png"]
        client = InProcess(create_label_app(session), "http://127.0.0.1:8000")
        digest = session_digest(client)
        statuses = [client.get(f"/photos/{digest}-{number}/small").status_code for number in range(4)]
        assert statuses == [200, 422, 200, 200]
        (data / "y" / "0.png").unlink()
        (data / "y" / "0.png").symlink_to(outside.elsewhere / "0.png")
        refused = client.get(f"/photos/{digest}-3/medium")
        assert (refused.status_code, "leads out of the folder" in refused.json()["detail"]) == (422, True)
        kept = client.get(f"/photos/{digest}-3/small")  # made before, of the photo that was there
        assert Image.open(io.BytesIO(kept.content)).size == (50, 40)
        assert not leaks(kept.content)


def session_digest(client):
    """The first part of the numbers of photos."""
    from finegraph.web.label import photo_routes

    answer = client.get("/photos/x-0/small").json()["detail"]
    return answer.partition("this data set, ")[2][: photo_routes._DIGEST_LENGTH]


@pytest.fixture
def server(outside):
    with running(tiny.classifier(), samples=outside.photos) as found:
        yield found


@pytest.mark.deep
def test_no_way_leads_out(server, outside):
    assert ways_out(server, outside, random.Random(0), paths=120, links=30) == []


@pytest.mark.slow
def test_none_of_two_thousand_ways_leads_out(server, outside):
    assert ways_out(server, outside, random.Random(1), paths=1500, links=500) == []
