"""What a server lives through: bombs, hangs, floods, broken evidence, a new model, and its own end."""

import asyncio
import contextlib
import http.client
import io
import json
import os
import signal
import socket
import struct
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

import tiny_classifier as tiny
from finegraph.data.transforms import ViewSettings
from finegraph.errors import PhotoFileError
from finegraph.web.admission import Admission
from finegraph.web.decode_worker import decode_upload, jpeg_scans
from finegraph.web.decoding import DecodingPool, DecodingSettings
from finegraph.web.problems import ProblemError
from finegraph.web.security import Security
from finegraph.web.serve import answering
from finegraph.web.serve.batching import Batcher, Job
from finegraph.web.serve.model_server import plain_size
from serving import files, photo_bytes, running, until

VIEWS = ViewSettings(size=24, resize=32)
MOST = {"max_pixels": 40_000_000, "max_jpeg_pixels": 120_000_000}
JOB = {"size": 24, "resize": 32, "keep_shape": False, "interpolation": "bilinear", **MOST}

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(autouse=True)
def _tiny_networks(monkeypatch):
    tiny.register(monkeypatch)


def png(width, height, rows=None, bits=8, colour=2, level=1):
    """A PNG that says it is so large; it holds so many rows of zeros."""

    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    line = b"\0" * (1 + width * {0: 1, 2: 3, 6: 4}[colour] * bits // 8)
    packed = zlib.compressobj(level)
    content = b"".join(packed.compress(line) for _ in range(height if rows is None else rows)) + packed.flush()
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", content) + chunk(b"IEND", b"")


def with_pool(work, **settings):
    async def run():
        async with DecodingPool(DecodingSettings(**{"workers": 1, **settings})) as pool:
            return await work(pool)

    return asyncio.run(run())


def test_workers_make_the_picture_that_the_library_makes(tmp_path):
    path = tmp_path / "photo"

    async def work(pool):
        for keep_shape in (False, True):
            views = ViewSettings(size=24, resize=32, keep_shape=keep_shape, interpolation="bicubic")
            model = tiny.classifier(views=views)
            served = answering.ServedModel(model, "tiny")
            for form in ("PNG", "JPEG", "WEBP", "GIF"):
                path.write_bytes(photo_bytes(1, form, width=300, height=170))
                pixels = await pool.decode(path.read_bytes(), "photo", views)
                (found,) = served.answer(served.scores([pixels]), ["photo"], served.ask())
                assert dict(found.top) == pytest.approx(dict(model.predict(path).top), abs=1e-6), form

    with_pool(work)


def test_bombs_are_refused_from_their_header():
    for job in (JOB, {**JOB, "quick_pixels": 8_000_000}):
        answer, pixels = decode_upload(png(30_000, 30_000, rows=1), job)
        assert "30000 x 30000 pixels; at most 40 million are decoded" in answer["error"]
        assert pixels == b""


def test_the_largest_photos_of_phones_are_answered_by_the_worker_for_large_ones():
    def jpeg(width, height):
        buffer = io.BytesIO()
        Image.radial_gradient("L").resize((width, height)).save(buffer, "JPEG", quality=98)
        return buffer.getvalue()

    async def work(pool):
        asked, decode_large = [], pool._large.decode
        pool._large.decode = lambda content, name, job: asked.append(name) or decode_large(content, name, job)
        for name, size in (("12.jpg", (4000, 3000)), ("50.jpg", (8160, 6120))):
            pixels = await pool.decode(jpeg(*size), name, VIEWS)
            assert pixels.shape == (24, 24, 3)
            assert pixels[12, 12, 0] < 40  # the middle is dark, the corners are light
            assert pixels[0, 0, 0] > 150
        with pytest.raises(PhotoFileError, match=r"12000 x 12000 pixels; at most 120 million are decoded"):
            await pool.decode(jpeg(100, 100).replace(b"\x00\x64\x00\x64", b"\x2e\xe0\x2e\xe0"), "bomb.jpg", VIEWS)
        return asked, pool.killed

    assert with_pool(work) == (["50.jpg"], 0)


@pytest.mark.parametrize(("subsampling", "bytes_per_pixel"), [(0, 6), (1, 4), (2, 3)])
def test_a_jpeg_that_comes_in_many_scans_goes_where_there_is_memory_for_it(subsampling, bytes_per_pixel):
    """All of it must be kept until the last scan; a decoder without the memory says that the photo is broken."""

    def jpeg(width, height):
        buffer = io.BytesIO()
        picture = Image.radial_gradient("L").resize((width, height)).convert("RGB")
        picture.save(buffer, "JPEG", quality=98, progressive=True, subsampling=subsampling)
        return buffer.getvalue()

    assert jpeg_scans(jpeg(640, 480))[1] == 640 * 480 * bytes_per_pixel
    assert jpeg_scans(photo_bytes(1, "JPEG"))[1] == 0

    async def work(pool):
        found = await pool.decode(jpeg(2400, 2000), "photo.jpg", VIEWS)
        with pytest.raises(PhotoFileError, match="takes more memory than is allowed"):
            await pool.decode(jpeg(4000, 3500), "huge.jpg", VIEWS)
        return found

    # Room for the first photo in the second worker only, and for the second one in none.
    pixels = with_pool(work, megabytes=14, large_megabytes=16 + (2400 * 2000 * bytes_per_pixel >> 20))
    assert pixels[12, 12, 0] < 40 < 150 < pixels[0, 0, 0]


def test_a_photo_that_takes_too_much_memory_is_refused_and_the_worker_goes_on():
    bomb = png(6_000, 6_000, bits=8, colour=6)
    assert len(bomb) < 1 << 20

    async def work(pool):
        with pytest.raises(PhotoFileError, match="takes more memory than is allowed"):
            await pool.decode(bomb, "bomb.png", VIEWS)
        return await pool.decode(photo_bytes(), "photo", VIEWS), pool.killed

    pixels, killed = with_pool(work, megabytes=20, large_megabytes=100, pixels_per_byte=1000)
    assert (pixels.shape, killed) == ((24, 24, 3), 0)


def test_see_through_photos_take_little_more_memory_than_others():
    """Eight bytes for each pixel: the photo and the picture on white, and no further copy of all of it."""
    photo = png(4_000, 2_000, colour=6)

    async def work(pool):
        return await pool.decode(photo, "clear.png", VIEWS)

    pixels = with_pool(work, megabytes=14, large_megabytes=8 * 4_000 * 2_000 // 2**20 + 16, pixels_per_byte=1000)
    assert (pixels == 255).all()


def test_a_worker_that_hangs_or_dies_is_replaced_and_costs_its_own_photo_only():
    async def work(pool):
        (worker,) = pool._quick.processes
        os.kill(worker.pid, 19)  # stopped: it will never answer
        with pytest.raises(PhotoFileError, match=r"decoding took longer than 1 seconds and was given up"):
            await pool.decode(photo_bytes(), "slow.png", VIEWS)
        good = await pool.decode(photo_bytes(), "photo", VIEWS)
        (worker,) = pool._quick.processes
        os.kill(worker.pid, signal.SIGSTOP)
        deadly = asyncio.create_task(pool.decode(photo_bytes(), "deadly.png", VIEWS))
        await asyncio.sleep(0.05)  # it is asked by now
        worker.kill()
        with pytest.raises(ProblemError, match="The process that decoded the photo ended early"):
            await deadly
        again = await pool.decode(photo_bytes(), "photo", VIEWS)
        return good, again, pool.killed

    good, again, killed = with_pool(work, seconds=1.0)
    np.testing.assert_array_equal(good, again)
    assert killed == 2


async def killed_at(pool, content):
    """What is said of a photo whose worker is killed while it looks at it."""
    async with asyncio.timeout(20):
        while not pool._quick._idle.qsize():
            await asyncio.sleep(0.01)
    (worker,) = pool._quick.processes
    os.kill(worker.pid, signal.SIGSTOP)
    asked = asyncio.create_task(pool.decode(content, "photo.png", VIEWS))
    while pool._quick._idle.qsize():
        await asyncio.sleep(0.01)
    os.kill(worker.pid, signal.SIGKILL)
    (outcome,) = await asyncio.gather(asked, return_exceptions=True)
    return outcome


def test_a_photo_broke_the_decoder_only_where_workers_died_at_it_twice_in_a_row():
    async def work(pool):
        one, two = photo_bytes(1), photo_bytes(2)
        outcomes = [await killed_at(pool, content) for content in (one, two, one, one)]
        await pool.decode(two, "photo.png", VIEWS)  # it is no fault of this one
        return [*outcomes, await killed_at(pool, two)]

    first, second, again, yet_again, innocent = with_pool(work)
    for outcome in (first, second, innocent):
        assert isinstance(outcome, ProblemError)
        assert (outcome.name, outcome.headers) == ("overloaded", {"retry-after": "1"})
    for outcome in (again, yet_again):
        assert isinstance(outcome, PhotoFileError)
        assert outcome.reason == "the photo broke the decoder, twice"


def test_a_killed_worker_is_told_as_a_busy_server_and_the_next_try_is_answered():
    with running(tiny.classifier(), decoding=DecodingSettings(workers=1)) as server, ThreadPoolExecutor(1) as threads:
        lane = server.state.pool._quick
        (worker,) = lane.processes
        os.kill(worker.pid, signal.SIGSTOP)
        asked = threads.submit(server.client.post, "/v1/predict", files=files(photo_bytes()))
        until(lambda: not lane._idle.qsize())
        os.kill(worker.pid, signal.SIGKILL)
        answer = asked.result()
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["type"] == "urn:finegraph:problem:overloaded"
        assert server.client.post("/v1/predict", files=files(photo_bytes())).status_code == 200


def test_a_worker_that_died_before_it_was_asked_costs_no_photo():
    async def work(pool):
        for lane in (pool._quick, pool._large):
            (worker,) = lane.processes
            worker.kill()
            await worker.wait()
        assert not pool.is_ready()
        async with asyncio.timeout(20):
            while not (pool.is_ready() and pool._quick._idle.qsize()):  # also the one that nobody asks is replaced
                await asyncio.sleep(0.01)
        (worker,) = pool._quick.processes
        worker.kill()
        await worker.wait()
        return await pool.decode(photo_bytes(), "innocent.png", VIEWS), pool.killed

    pixels, killed = with_pool(work)
    assert (pixels.shape, killed) == ((24, 24, 3), 3)


def test_a_worker_that_cannot_be_started_is_tried_again_and_photos_do_not_wait_for_ever(monkeypatch, caplog):
    start, broken = asyncio.create_subprocess_exec, []

    async def no_memory(*arguments, **options):
        if broken:
            raise OSError(12, "Cannot allocate memory")
        return await start(*arguments, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", no_memory)
    with running(tiny.classifier(), decoding=DecodingSettings(workers=1, queueing=0.5)) as server:
        assert server.client.get("/health/ready").status_code == 200
        broken.append(True)
        for worker in list(server.state.pool._quick.processes):
            os.kill(worker.pid, signal.SIGKILL)
        until(lambda: server.client.get("/health/ready").status_code != 200)
        ready = server.client.get("/health/ready")
        assert (ready.status_code, ready.json()["type"]) == (503, "urn:finegraph:problem:not-ready")
        refused = server.client.post("/v1/predict", files=files(photo_bytes()))
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert "No process that decodes photos became free within 0.5 seconds" in refused.json()["detail"]
        broken.clear()
        until(lambda: server.client.get("/health/ready").status_code == 200)
        until(lambda: server.client.post("/v1/predict", files=files(photo_bytes())).status_code == 200)
    assert "no process that decodes photos could be started; next try in 0.2 s" in caplog.text


def test_workers_run_nothing_of_the_working_folder_and_know_no_token(monkeypatch, tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FINEGRAPH_TOKEN", "a secret of many words")

    async def work(pool):
        (worker,) = pool._quick.processes
        return Path(f"/proc/{worker.pid}/environ").read_bytes()

    environment = with_pool(work)
    assert b"OMP_NUM_THREADS=1" in environment
    assert b"FINEGRAPH_TOKEN" not in environment


def test_large_photos_have_a_worker_of_their_own_and_do_not_keep_others():
    large, small = photo_bytes(1, width=700, height=500), photo_bytes(2)

    async def work(pool):
        (worker,) = pool._large.processes
        os.kill(worker.pid, signal.SIGSTOP)  # it is as busy as can be
        busy = [asyncio.create_task(pool.decode(large, "large.png", VIEWS)) for _ in range(3)]
        while pool._large.inside < 3:
            await asyncio.sleep(0.01)
        quick = await pool.decode(small, "small.png", VIEWS)
        jpeg = await pool.decode(photo_bytes(1, "JPEG", width=700, height=500), "camera.jpg", VIEWS)
        with pytest.raises(ProblemError, match="There are 3 large photos in the server"):
            await pool.decode(large, "one.png", VIEWS)
        os.kill(worker.pid, signal.SIGCONT)
        return quick, jpeg, await asyncio.gather(*busy), pool.killed

    quick, jpeg, found, killed = with_pool(work, quick_pixels=100_000, large_waiting=3)
    assert {picture.shape for picture in (quick, jpeg, *found)} == {(24, 24, 3)}
    _, expected = decode_upload(large, JOB)
    assert ({picture.tobytes() for picture in found}, killed) == ({expected}, 0)


def test_what_needs_more_memory_than_quick_workers_have_is_a_large_photo():
    async def work(pool):
        asked, decode_large = [], pool._large.decode
        pool._large.decode = lambda content, name, job: asked.append(name) or decode_large(content, name, job)
        picture = await pool.decode(photo_bytes(3, "BMP", width=2500, height=2000), "a.bmp", VIEWS)
        return picture.shape, asked

    assert with_pool(work, megabytes=18) == ((24, 24, 3), ["a.bmp"])
    assert with_pool(work) == ((24, 24, 3), [])


def test_a_photo_that_takes_too_long_is_given_up_however_busy_the_machine_is():
    slow = png(4_000, 4_000)

    async def work(pool):
        with pytest.raises(PhotoFileError, match=r"slow.png: decoding took longer than 0.03 seconds and was given up"):
            await pool.decode(slow, "slow.png", VIEWS)
        return await pool.decode(photo_bytes(), "photo", VIEWS), pool.killed

    assert with_pool(work, computing=0.03, pixels_per_byte=1000)[1] == 1


def test_few_bytes_with_very_many_pixels_are_no_photo():
    bomb = png(4_000, 4_000, level=9)

    async def work(pool):
        with pytest.raises(PhotoFileError, match=rf"a file of {len(bomb)} bytes with 16000000 pixels is not a photo"):
            await pool.decode(bomb, "bomb.png", VIEWS)
        return pool._large.inside

    assert with_pool(work) == 0


def test_scans_of_a_jpeg_are_counted_and_too_many_refused():
    buffer = io.BytesIO()
    tiny.picture(1, width=64, height=64).save(buffer, "JPEG", progressive=True, exif=b"Exif\0\0\xff\xda\xff\xda")
    content = buffer.getvalue()
    scans = jpeg_scans(content)[0]
    assert 5 <= scans <= 12
    assert jpeg_scans(photo_bytes(1, "JPEG"))[0] == 1
    assert jpeg_scans(photo_bytes(1, "PNG"))[0] == 0
    assert jpeg_scans(content + b"\xff\xda" * 500)[0] == scans  # what is behind the end, such as a film
    last = content.rindex(b"\xff\xda")
    many = content[:last] + content[last:-2] * 200 + content[-2:]
    assert jpeg_scans(many)[0] == scans + 199
    assert decode_upload(many, JOB) == (
        {"error": "the JPEG has more than 100 scans; save it again in the usual way"},
        b"",
    )
    alone = content[:last] + content[last:-2] + b"\xff\x01" + content[last:-2] * 200 + content[-2:]
    assert jpeg_scans(alone)[0] == scans + 200  # what stands behind this marker is no length
    assert "more than 100 scans" in decode_upload(alone, JOB)[0]["error"]
    assert jpeg_scans(b"\xff\xd8\xff" + b"\xff\xe0\0\2" * 5000)[0] > 100  # so many that nobody follows them


def test_malformed_uploads_are_all_refused_and_harm_nobody():
    random = np.random.default_rng(5)
    sound = [photo_bytes(seed, form) for seed, form in enumerate(("PNG", "JPEG", "WEBP", "BMP", "TIFF", "PPM"))]
    with running(tiny.classifier()) as server:
        good = photo_bytes(9)
        expected = server.client.post("/v1/predict", files=files(good)).json()["photos"][0]["top"]
        refused = 0
        for number in range(60):
            content = bytearray(sound[number % len(sound)])
            if number % 3 == 0:
                content = content[: random.integers(0, len(content))]
            else:
                for place in random.integers(0, min(len(content), 400), 12):
                    content[place] = random.integers(256)
            response = server.client.post("/v1/predict", files=files(bytes(content)), data={"explain": "false"})
            assert response.status_code in (200, 422), response.text
            refused += response.status_code == 422
        assert refused > 20
        assert server.client.post("/v1/predict", files=files(good)).json()["photos"][0]["top"] == expected
        assert server.state.admission.inside == 0


def test_a_full_server_refuses_at_once_and_says_when_to_come_back(monkeypatch):
    hold = threading.Event()
    original = answering.ServedModel.scores

    def slow(self, pictures):
        hold.wait()
        return original(self, pictures)

    with running(tiny.classifier(), queue=4, threads=1) as server, ThreadPoolExecutor(8) as pool:
        monkeypatch.setattr(answering.ServedModel, "scores", slow)

        def post(seed):
            return server.client.post("/v1/predict", files=files(photo_bytes(seed)))

        waiting = [pool.submit(post, seed) for seed in range(4)]
        while server.state.admission.inside < 4:
            time.sleep(0.01)
        refused = post(9)
        assert (refused.status_code, refused.json()["type"]) == (503, "urn:finegraph:problem:overloaded")
        assert 1 <= int(refused.headers["retry-after"]) <= 30
        assert server.client.get("/health/live").status_code == 200  # the server itself answers
        hold.set()
        assert [future.result().status_code for future in waiting] == [200] * 4
        assert post(9).status_code == 200
        assert server.state.admission.refused == 1


def test_a_refused_request_leaves_the_connection_usable_however_its_bytes_come(monkeypatch):
    hold = threading.Event()
    original = answering.ServedModel.scores

    def slow(self, pictures):
        hold.wait()
        return original(self, pictures)

    content = photo_bytes(1, "BMP", width=300, height=300)
    body = httpx.Request("POST", "http://127.0.0.1/v1/predict", files=files(content))
    head = f"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body.read())}\r\n"
    whole = (head + f"Content-Type: {body.headers['content-type']}\r\n\r\n").encode() + body.content
    with running(tiny.classifier(), queue=1, threads=1) as server, ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(answering.ServedModel, "scores", slow)
        waiting = pool.submit(server.client.post, "/v1/predict", files=files(photo_bytes()))
        while server.state.admission.inside < 1:
            time.sleep(0.01)
        with socket.create_connection(("127.0.0.1", int(server.address.rpartition(":")[2]))) as connection:
            for cuts in ([len(whole)], [40, 200, len(whole)], [len(whole) - 9000, len(whole)]):
                start = 0
                for cut in cuts:
                    connection.sendall(whole[start:cut])
                    start = cut
                    time.sleep(0.05)
                assert answer_of(connection) == (503, "urn:finegraph:problem:overloaded"), cuts
            hold.set()
            assert waiting.result().status_code == 200
            connection.sendall(whole)
            assert answer_of(connection)[0] == 200
        assert server.state.admission.refused == 3


def answer_of(connection):
    """Status and type of the next answer on a raw connection."""
    response = http.client.HTTPResponse(connection)
    response.begin()
    return response.status, json.loads(response.read()).get("type")


def test_only_plain_requests_are_refused_the_short_way():
    start = b"POST /v1/predict HTTP/1.1\r\nHost: a\r\n"
    assert plain_size(start + b"Content-Length: 7\r\n\r\nabc") == len(start) + 21 + 7
    for lines in (
        b"Content-Length: 7\r\n",  # the head has no end
        b"\r\n",
        b"Content-Length: 7\r\nContent-Length: 7\r\n\r\n",
        b"Content-Length: 7\r\ncontent-length : 8\r\n\r\n",
        b"Content-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"Content-Length: 7\r\nA: b\nTransfer-Encoding: chunked\r\n\r\n",
        b"Content-Length: 7\r\n\nGET / HTTP/1.1\r\n\r\n",
        b"Content-Length: 7\r\nExpect: 100-continue\r\n\r\n",
        b"Content-Length: 7\r\nConnection: close\r\n\r\n",
        b"Content-Length: -7\r\n\r\n",
        b"Content-Length: 0x7\r\n\r\n",
    ):
        assert plain_size(start + lines) is None, lines


def test_admission_counts_photos_and_bytes():
    admission = Admission(photos=3, megabytes=1)
    with admission.enter(100) as first:
        first.count(2)
        assert admission.inside == 2
        with admission.enter(100) as second:
            with pytest.raises(ProblemError, match="There are 3 photos in the server already"):
                second.count(2)
            with pytest.raises(ProblemError), admission.enter(1):
                pass
        with pytest.raises(ProblemError), admission.enter(1 << 20):
            pass
    assert admission.inside == 0
    with admission.enter(5 << 20) as alone:  # a request that is alone may be as large as the guard lets it be
        alone.count(30)
    careful = Admission(photos=3, megabytes=8, max_request_bytes=5 << 20)
    with careful.enter(None), pytest.raises(ProblemError), careful.enter(None):  # a length that is not said may be any
        pass
    with careful.enter(None), careful.enter(3 << 20):
        pass
    admission.open = False
    with pytest.raises(ProblemError, match="stopping"), admission.enter(1):
        pass
    assert admission.inside == 0


def test_a_request_that_does_not_arrive_is_given_up():
    with running(tiny.classifier(), upload_seconds=0.2) as server:

        def slowly():
            yield b"--x\r\n"
            time.sleep(0.6)
            yield b"--x--\r\n"

        headers = {"content-type": "multipart/form-data; boundary=x"}
        response = server.client.post("/v1/predict", content=slowly(), headers=headers)
        assert (response.status_code, response.json()["type"]) == (408, "urn:finegraph:problem:timeout")
        assert server.state.admission.inside == 0


def test_an_upload_in_chunks_counts_as_the_largest():
    security = Security(max_bytes=1 << 20)
    with running(tiny.classifier(), security=security) as server, contextlib.ExitStack() as stack:
        whole = httpx.Request("POST", server.address, files=files(photo_bytes()))
        whole.read()

        def post(length):
            content = whole.content if length else iter([whole.content])
            headers = {"content-type": whole.headers["content-type"]}
            return server.client.post("/v1/predict", content=content, headers=headers).status_code

        assert post(False) == 200
        stack.enter_context(server.state.admission.enter(7_500_000))
        assert (post(False), post(True)) == (503, 200)


def test_scores_are_let_in_before_they_are_read_and_only_so_many():
    with running(tiny.classifier(), queue=1) as server:
        most, headers = server.state.model.max_given_bytes, {"content-type": "application/json"}
        long = b'{"scores": "' + b"a" * most + b'"}'
        for content in (long, iter([long[:1000], long[1000:]])):  # with a length and without
            answer = server.client.post("/v1/given", content=content, headers=headers)
            assert (answer.status_code, answer.json()["type"]) == (413, "urn:finegraph:problem:too-large")
        with server.state.admission.enter(1):
            answer = server.client.post("/v1/given", content=b"not read", headers=headers)
            assert (answer.status_code, answer.json()["type"]) == (503, "urn:finegraph:problem:overloaded")
        assert server.client.post("/v1/given", content=b"read", headers=headers).status_code == 400
        scores = server.client.post("/v1/predict", files=files(photo_bytes()), data={"scores": "true"}).json()
        graph = server.model.graph
        everything = {kind: dict.fromkeys(graph.labels(kind), 0.12345678901234567) for kind in graph.kinds}
        body = {"scores": scores["photos"][0]["scores"], "given": everything}
        assert server.client.post("/v1/given", json=body).status_code == 200
        assert server.state.admission.inside == 0


def test_a_thread_whose_first_step_fails_answers_all_the_same(caplog):
    def fail():
        raise RuntimeError("no memory")

    sizes = []

    def fail_at_the_second(size):
        sizes.append(size)
        if len(sizes) == 2:
            fail()

    async def work():
        batcher = Batcher(1, 4, on_batch=fail_at_the_second, on_start=fail)
        batcher.start()
        model = answering.ServedModel(tiny.classifier(), "tiny")
        job = Job(model, np.zeros((24, 24, 3), dtype=np.uint8), "photo", model.ask())
        async with asyncio.timeout(10):
            done = await batcher.submit(job)
        with pytest.raises(RuntimeError, match="no memory"):
            async with asyncio.timeout(10):
                await batcher.submit(job)
        await batcher.close()
        return done

    assert asyncio.run(work()).prediction is not None
    assert sizes == [1, 1]
    assert "the model failed before its first photo" in caplog.text


def test_a_new_model_is_served_without_a_dropped_or_mixed_request(tmp_path):
    folder = tmp_path / "model"
    models = [tiny.classifier(seed=seed) for seed in (0, 1)]
    models[0].save(folder)
    contents = [photo_bytes(seed) for seed in range(4, 10)]
    expected = [
        [model.predict(Image.open(io.BytesIO(content))).top[0].probability for content in contents] for model in models
    ]
    with running(models[0], model=Path(folder)) as server, ThreadPoolExecutor(4) as pool:
        stop = threading.Event()

        def ask():
            found = []
            while not stop.is_set():
                response = server.client.post("/v1/predict", files=files(*contents), data={"explain": "false"})
                assert response.status_code == 200
                photos = response.json()["photos"]
                found.append((response.json()["model"], [photo["top"][0]["probability"] for photo in photos]))
            return found

        asking = [pool.submit(ask) for _ in range(3)]
        first = server.state.model.id
        models[1].save(folder)
        loop = server.server.servers[0].get_loop()
        assert asyncio.run_coroutine_threadsafe(server.state.reload(), loop).result(30)
        second = server.state.model.id
        assert server.client.post("/v1/predict", files=files(contents[0])).json()["model"] == second
        stop.set()
        answers = [answer for future in asking for answer in future.result()]
        for model, probabilities in answers:
            assert probabilities == pytest.approx(expected[model == second], abs=1e-5)
        assert {model for model, _ in answers} <= {first, second}
        (folder / "model.safetensors").write_bytes(b"broken")
        assert not asyncio.run_coroutine_threadsafe(server.state.reload(), loop).result(30)
        assert server.state.model.id == second
        assert 'finegraph_reloads_total{outcome="failed"} 1.0' in server.client.get("/metrics").text


def test_stopping_finishes_what_is_there(monkeypatch):
    original = answering.ServedModel.scores

    def slow(self, pictures):
        time.sleep(0.4)
        return original(self, pictures)

    with ThreadPoolExecutor(3) as pool:
        with running(tiny.classifier(), threads=1) as server:
            monkeypatch.setattr(answering.ServedModel, "scores", slow)
            address = server.address

            def post(seed):
                return httpx.post(f"{address}/v1/predict", files=files(photo_bytes(seed)), timeout=30)

            futures = [pool.submit(post, seed) for seed in range(3)]
            while server.state.admission.inside < 3:
                time.sleep(0.01)
            workers = [*server.state.pool._quick.processes, *server.state.pool._large.processes]
        assert [future.result().status_code for future in futures] == [200] * 3
    assert all(worker.returncode is not None for worker in workers)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address}/health/live")


@pytest.mark.slow
def test_many_malformed_uploads_and_bombs():
    random = np.random.default_rng(6)
    bombs = [png(30_000, 30_000, rows=2), png(6_000, 6_500, colour=6), png(39_000, 1_000, colour=0)]
    sound = [photo_bytes(seed, form) for seed, form in enumerate(("PNG", "JPEG", "WEBP", "TIFF"))]
    with running(tiny.classifier()) as server:
        for number in range(1500):
            content = bytearray(sound[number % len(sound)])
            for place in random.integers(0, len(content), 20):
                content[place] = random.integers(256)
            if number % 50 == 0:
                content = bombs[number // 50 % len(bombs)]
            assert server.client.post("/v1/predict", files=files(bytes(content))).status_code in (200, 422)
        assert server.client.post("/v1/predict", files=files(photo_bytes())).status_code == 200
