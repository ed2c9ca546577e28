"""Connections within bounds: slow heads and bodies, too many connections, what is no HTTP, and shares of clients."""

import contextlib
import http.client
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import tiny_classifier as tiny
from finegraph.web import connections
from finegraph.web.admission import LOCAL_CLIENT, Admission, client_name
from finegraph.web.connections import BoundedConnection
from finegraph.web.problems import ProblemError
from finegraph.web.serve import answering
from finegraph.web.serve import model_server as server_module
from serving import files, photo_bytes, running, until

pytestmark = pytest.mark.usefixtures("unchecked")
LIVE = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture(autouse=True)
def _tiny_networks(monkeypatch):
    tiny.register(monkeypatch)


@contextlib.contextmanager
def connected(server, host="127.0.0.1"):
    """A connection from an address of this machine."""
    place = ("127.0.0.1", int(server.address.rpartition(":")[2]))
    with socket.create_connection(place, timeout=20, source_address=(host, 0)) as connection:
        yield connection


@contextlib.contextmanager
def deaf(server):
    """A connection of a client that reads nothing; of an answer only some kB fit on the way."""
    server.server.servers[0].sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.connect(("127.0.0.1", int(server.address.rpartition(":")[2])))
        yield connection


def only_connection(server):
    """The server's side of the one connection there is."""
    until(lambda: len(server.server.server_state.connections) == 1)
    (found,) = list(server.server.server_state.connections)
    return found


def answer_of(connection):
    """Status, media type and content of the next answer on a raw connection."""
    response = http.client.HTTPResponse(connection)
    response.begin()
    return response.status, response.headers["content-type"], json.loads(response.read())


def is_closed(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_head_that_comes_byte_by_byte_is_cut_off():
    with running(tiny.classifier(), head_seconds=0.4) as server, connected(server) as connection:
        cut = 0
        with contextlib.suppress(ConnectionError):
            for number in range(200):  # each byte comes long before the time is over
                connection.sendall(LIVE[number : number + 1] if number < len(LIVE) - 2 else b"a")
                cut = number  # the last that was taken
                time.sleep(0.05)
        assert cut < 199
        assert server.client.get("/health/live").status_code == 200


def test_half_a_head_is_answered_as_too_slow_and_silence_is_closed():
    with running(tiny.classifier(), head_seconds=0.3) as server:
        with connected(server) as connection:
            connection.sendall(LIVE[:30])
            status, media, problem = answer_of(connection)
            assert (status, media, problem["type"]) == (
                408,
                "application/problem+json",
                "urn:finegraph:problem:timeout",
            )
            assert "The head of the request took longer than 0.3 seconds" in problem["detail"]
            assert is_closed(connection)
        with connected(server) as connection:
            assert is_closed(connection)
        with connected(server) as connection:  # one that is used stays open between requests
            for _ in range(3):
                connection.sendall(LIVE)
                assert answer_of(connection)[0] == 200
                time.sleep(0.4)


def test_a_body_that_does_not_come_is_cut_off_on_every_route(monkeypatch):
    monkeypatch.setattr(server_module, "_UPLOAD_GRACE", 0.2)
    with running(tiny.classifier(), upload_seconds=0.3) as server:
        for path in ("/v1/given", "/nowhere"):
            with connected(server) as connection:
                head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                connection.sendall(head.encode() + b"Content-Length: 100\r\n\r\n{")
                assert answer_of(connection)[0] == (408 if path == "/v1/given" else 404)
                assert is_closed(connection)
        assert server.state.admission.inside == 0


def test_there_are_so_many_connections_at_the_most():
    with running(tiny.classifier(), connections=3) as server:
        with connected(server) as one, connected(server) as two, connected(server) as three:
            for connection in (one, two, three):
                connection.sendall(LIVE)
                assert answer_of(connection)[0] == 200
            with connected(server) as fourth:
                status, media, problem = answer_of(fourth)
                assert (status, media) == (503, "application/problem+json")
                assert problem["detail"] == "There are too many connections."
                assert is_closed(fourth)
            one.sendall(LIVE)
            assert answer_of(one)[0] == 200
        for _ in range(100):  # the server sees a moment later that they are gone
            with connected(server) as again:
                again.sendall(LIVE)
                if answer_of(again)[0] == 200:
                    break
        else:
            raise AssertionError("no place became free")


def test_one_address_may_have_a_quarter_of_the_connections(monkeypatch):
    monkeypatch.setattr(connections, "client_name", lambda host: LOCAL_CLIENT if host == "127.0.0.1" else host)
    with running(tiny.classifier(), connections=8) as server, contextlib.ExitStack() as stack:
        for host in ("127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.1", "127.0.0.1", "127.0.0.1"):
            connection = stack.enter_context(connected(server, host))
            connection.sendall(LIVE)
            assert answer_of(connection)[0] == 200, host
        refused = stack.enter_context(connected(server, "127.0.0.2"))
        status, _, problem = answer_of(refused)
        assert (status, problem["detail"]) == (503, "There are too many connections.")
        assert is_closed(refused)


@pytest.mark.parametrize("way", ["close", "keep-alive", "late", "broken"])
def test_an_answer_that_nobody_reads_is_given_up_also_a_small_one(monkeypatch, way):
    monkeypatch.setattr(server_module, "_UPLOAD_GRACE", 0.2)
    with running(tiny.classifier(), stalled_seconds=0.3, upload_seconds=0.1) as server:
        server.client.close()
        server.server.config.timeout_keep_alive = 0.2
        until(lambda: not server.server.server_state.connections)
        with deaf(server) as connection:
            mode = "close" if way == "close" else "keep-alive"
            begin = f"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: {mode}\r\n"
            more = {"late": b"Content-Length: 9\r\n\r\nabc", "broken": b"\r\n\0\r\n\r\n"}.get(way, b"\r\n")
            connection.sendall(begin.encode() + more)
            found = only_connection(server)
            until(found.transport.is_closing)
            assert found._stalled is None  # so little is left that nobody is told to write slower
            until(lambda: not server.server.server_state.connections)
            assert (found.transport.get_write_buffer_size(), dict(found.limits.by_client)) == (0, {})


def test_a_large_answer_that_nobody_reads_is_given_up():
    with running(tiny.classifier(), stalled_seconds=0.3) as server:
        server.client.close()
        until(lambda: not server.server.server_state.connections)
        with deaf(server) as connection:
            connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 20)
            found = only_connection(server)
            until(lambda: not server.server.server_state.connections)
            assert found._closing is None  # it was cut off in the midst of answers


def test_nothing_follows_an_answer_that_has_begun():
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass

    with running(tiny.classifier()) as server:
        server.server.config.loaded_app = app
        with connected(server) as connection:
            head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            connection.sendall(head)
            received = b""
            while not received.endswith(b"begun"):
                received += connection.recv(1000)
            connection.sendall(b"no chunk\r\n")
            assert is_closed(connection)


def test_refusals_that_nobody_reads_are_not_heaped_up(monkeypatch):
    asked = b"POST /v1/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"
    usual = threading.Event()
    with (
        running(tiny.classifier(), queue=1) as server,
        connected(server) as connection,
        server.state.admission.enter(1),
    ):
        connection.sendall(asked)
        assert answer_of(connection)[0] == 503
        (found,) = server.server.server_state.connections
        found.flow.write_paused = True
        monkeypatch.setattr(BoundedConnection, "data_received", lambda self, data: usual.set())
        connection.sendall(asked)
        assert usual.wait(10)  # there it waits until answers are taken
        assert server.state.admission.refused == 1


def test_what_is_no_http_is_a_problem_too():
    with running(tiny.classifier()) as server:
        for content in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"GET /\r\n\r\n"):
            with connected(server) as connection:
                connection.sendall(content)
                status, media, problem = answer_of(connection)
                assert (status, media) == (400, "application/problem+json")
                assert problem["type"] == "urn:finegraph:problem:bad-request"


def test_a_client_with_more_than_its_share_is_told_so(monkeypatch):
    hold = threading.Event()
    original = answering.ServedModel.scores

    def slow(self, pictures):
        hold.wait()
        return original(self, pictures)

    with running(tiny.classifier(), queue=8, per_client=2, threads=1) as server, ThreadPoolExecutor(4) as pool:
        monkeypatch.setattr(answering.ServedModel, "scores", slow)

        def post(*seeds, **headers):
            contents = [photo_bytes(seed) for seed in seeds]
            return server.client.post("/v1/predict", files=files(*contents), headers=headers)

        waiting = [pool.submit(post, seed) for seed in range(2)]
        while server.state.admission.inside < 2:
            time.sleep(0.01)
        for refused in (post(9), server.client.post("/v1/given", json={"scores": "a", "given": {}})):
            assert (refused.status_code, refused.json()["type"]) == (429, "urn:finegraph:problem:too-many")
            assert "There are 2 photos of yours" in refused.json()["detail"]
            assert 1 <= int(refused.headers["retry-after"]) <= 30
        hold.set()
        assert [future.result().status_code for future in waiting] == [200] * 2
        assert post(1, 2, 3).status_code == 200  # a request that is alone may be larger than the share


def test_shares_of_clients():
    admission = Admission(photos=6, megabytes=1)
    with admission.enter(1, "a") as first:
        first.count(3)
        with pytest.raises(ProblemError, match="There are 3 photos of yours"), admission.enter(1, "a"):
            pass
        with admission.enter(1, "b") as second, admission.enter(1, "b") as third:
            third.count(2)
            with pytest.raises(ProblemError, match="There are 6 photos in the server"):
                second.count(2)
            assert admission.inside == 6
            with pytest.raises(ProblemError, match="There are 6 photos in the server"), admission.enter(1, "c"):
                pass
        with admission.enter(1), admission.enter(1), admission.enter(1):  # this machine may fill it
            assert admission.inside == 6
    assert (admission.inside, dict(admission._photos_by_client)) == (0, {})
    bounded = Admission(photos=6, megabytes=1, per_client=1)
    with bounded.enter(1), pytest.raises(ProblemError, match="There are 1 photos of yours"), bounded.enter(1):
        pass


def test_clients_are_addresses():
    assert {client_name(host) for host in ("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", None, "")} == {
        LOCAL_CLIENT
    }
    assert client_name("192.0.2.7") == client_name("::ffff:192.0.2.7") == "192.0.2.7"
    assert client_name("2001:db8::1") == client_name("2001:db8::ffff:9%eth0") != client_name("2001:db8:0:1::1")
