"""Photos of this machine for clients: within the bounds of uploads, kept until they change, and nobody else waits."""

import asyncio
import io
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import anyio.to_thread
import pytest
from PIL import Image

import tiny_classifier as tiny
from finegraph.web import decoding as decoding_module
from finegraph.web.decode_worker import read_local_photo
from finegraph.web.decoding import DecodingSettings
from finegraph.web.serve import photo_files
from finegraph.web.serve.photo_files import SamplePhotos
from serving import files, photo_bytes, running, until

BOUNDS = {"max_bytes": 1 << 20, "max_pixels": 40_000_000, "max_jpeg_pixels": 120_000_000, "megabytes": 144}
JOB = {"side": 320, "stamp": None, **BOUNDS}

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three samples."""
    tiny.register(monkeypatch)
    for seed in range(3):
        tiny.picture(seed, width=700, height=500).save(tmp_path / f"{seed}.png")
    return tmp_path


def test_a_small_picture_has_nothing_of_the_file_but_its_pixels(tmp_path):
    path = tmp_path / "a.jpg"
    picture = tiny.picture(1, width=2000, height=1000)
    picture.save(path, quality=95, comment=b"secret", icc_profile=b"secret profile")
    job = {"path": str(path), "root": str(tmp_path), **JOB}
    answer, data = read_local_photo(job)
    small = Image.open(io.BytesIO(data))
    assert (small.size, small.format) == ((320, 160), "JPEG")
    assert b"secret" not in data
    known = {**job, "stamp": answer["stamp"]}
    assert read_local_photo(known) == (answer, b"")
    tiny.picture(2).save(path)
    assert Image.open(io.BytesIO(read_local_photo(known)[1])).size == (50, 40)


def test_a_photo_is_read_within_bounds(tmp_path):
    path = tmp_path / "a.png"
    tiny.picture(1, width=600, height=400).save(path)
    job = {"path": str(path), "root": str(tmp_path), **JOB}
    assert read_local_photo({**job, "side": None})[1] == path.read_bytes()
    for wrong, words in (
        ({"max_pixels": 100_000}, "the photo has 600 x 400 pixels; at most 0.1 million are decoded"),
        ({"side": None, "max_bytes": 50}, "at most 50 are sent"),
        ({"path": str(tmp_path / "none.png")}, "there is no such file"),
        ({"path": str(tmp_path)}, "expected a file, got a folder"),
    ):
        answer, data = read_local_photo({**job, **wrong})
        assert words in answer["error"]
        assert str(tmp_path) not in answer["error"]
        assert data == b""
    tiny.picture(1, width=2400, height=2000).save(tmp_path / "b.jpg", progressive=True, subsampling=0)
    answer, _ = read_local_photo({**job, "path": str(tmp_path / "b.jpg"), "megabytes": 20})
    assert answer["error"] == "the photo takes more memory than is allowed"


def test_photos_above_the_pixels_of_uploads_are_refused(folder):
    decoding = DecodingSettings(workers=1, max_pixels=300_000)
    with running(tiny.classifier(), samples=folder, decoding=decoding) as server:
        refused = server.client.get("/v1/samples/0/small")
        assert (refused.status_code, refused.json()["type"]) == (422, "urn:finegraph:problem:photo")
        assert "700 x 500 pixels; at most 0.3 million are decoded" in refused.json()["detail"]


def test_photos_that_cannot_be_read_now_keep_nothing_else(folder, monkeypatch):
    """The process that reads them is stopped, as one is that waits for a disk that does not answer."""
    monkeypatch.setattr(decoding_module, "MAX_FILES_WAITING", 50)
    decoding = DecodingSettings(workers=1, seconds=120, queueing=120)
    with running(tiny.classifier(), samples=folder, decoding=decoding) as server, ThreadPoolExecutor(50) as pool:
        (worker,) = server.state.pool._files.processes
        os.kill(worker.pid, signal.SIGSTOP)
        asked = [f"/v1/samples/{number % 3}/small" for number in range(49)] + ["/v1/samples/1"]
        waiting = [pool.submit(server.client.get, path, timeout=120) for path in asked]
        until(lambda: server.state.pool._files.inside == 50)
        for path in (
            "/health/live",
            "/health/ready",
            "/v1/model",
            "/v1/labels",
            "/metrics",
            "/",
            "/assets/serve_main.js",
        ):
            assert server.client.get(path).status_code == 200, path
        assert server.client.post("/v1/predict", files=files(photo_bytes())).status_code == 200
        refused = server.client.get("/v1/samples/0")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert "There are 50 photos that wait to be read" in refused.json()["detail"]
        os.kill(worker.pid, signal.SIGCONT)
        assert {future.result().status_code for future in waiting} == {200}


def test_a_disk_that_does_not_answer_is_given_up(folder):
    with running(tiny.classifier(), samples=folder, decoding=DecodingSettings(workers=1, seconds=0.5)) as server:
        os.kill(next(iter(server.state.pool._files.processes)).pid, signal.SIGSTOP)
        refused = server.client.get("/v1/samples/0/small")
        assert (refused.status_code, "was given up" in refused.json()["detail"]) == (422, True)
        until(lambda: server.client.get("/v1/samples/0/small").status_code == 200)
        assert "finegraph_workers_killed 1.0" in server.client.get("/metrics").text


def test_a_small_picture_is_kept_until_its_file_changes(folder, monkeypatch):
    with running(tiny.classifier(), samples=folder) as server:
        state, lane, sent = server.state.photo_files, server.state.pool._files, []
        ask = lane.ask

        async def noted(*arguments):
            answer, data = await ask(*arguments)
            sent.append(len(data))
            return answer, data

        monkeypatch.setattr(lane, "ask", noted)
        one, two = (server.client.get("/v1/samples/1/small") for _ in range(2))
        assert one.content == two.content
        assert sent == [len(one.content), 0]
        tiny.picture(9, width=90, height=60).save(folder / "1.png")
        other = server.client.get("/v1/samples/1/small")
        assert Image.open(io.BytesIO(other.content)).size == (90, 60)
        monkeypatch.setattr(photo_files, "MAX_CACHE_BYTES", len(other.content) + 10)
        server.client.get("/v1/samples/0/small")
        server.client.get("/v1/samples/1/small")
        assert list(state._cache) == [str(folder / "1.png")]
        assert state._bytes == len(other.content)


def test_a_browser_never_shows_the_samples_of_another_server(folder, tmp_path_factory):
    """They have the same addresses there, so a browser has to ask whether they are still the same."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    tiny.picture(7, width=700, height=500).save(elsewhere / "0.png")
    with running(tiny.classifier(), samples=folder) as server:
        for path in ("/v1/samples/0", "/v1/samples/0/small"):
            server.state.samples = SamplePhotos(folder)
            response = server.client.get(path)
            assert response.headers["cache-control"] == "private, no-cache"
            known = {"if-none-match": response.headers["etag"]}
            again = server.client.get(path, headers=known)
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", known["if-none-match"])
            server.state.samples = SamplePhotos(elsewhere)
            other = server.client.get(path, headers=known)
            assert (other.status_code, other.content != response.content) == (200, True)


def test_a_server_without_a_thread_left_says_that_it_lives(folder):
    with running(tiny.classifier()) as server:
        loop = server.server.servers[0].get_loop()

        async def take_all():
            limiter = anyio.to_thread.current_default_thread_limiter()
            for _ in range(int(limiter.available_tokens)):
                limiter.acquire_on_behalf_of_nowait(object())

        asyncio.run_coroutine_threadsafe(take_all(), loop).result(10)
        assert server.client.get("/health/live").json() == {"status": "live"}


def test_what_is_given_does_not_wait_for_those_who_search():
    with pytest.MonkeyPatch.context() as patch:
        tiny.register(patch)
        with running(tiny.classifier()) as server:
            data = {"scores": "true"}
            found = server.client.post("/v1/predict", files=files(photo_bytes()), data=data).json()["photos"][0]
            hold, loop = threading.Event(), server.server.servers[0].get_loop()

            async def search_for_ever():
                for _ in range(40):  # more than the threads that searches have
                    loop.run_in_executor(None, hold.wait)

            asyncio.run_coroutine_threadsafe(search_for_ever(), loop).result(10)
            try:
                body = {"scores": found["scores"], "given": {"dish": ["mapo tofu"]}}
                assert server.client.post("/v1/given", json=body).status_code == 200
            finally:
                hold.set()
