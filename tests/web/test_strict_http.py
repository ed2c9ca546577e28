"""Requests that two programs could read differently are refused, and their connection is closed."""

import http.client
import json
import socket

import pytest

import tiny_classifier as tiny
from finegraph.web.connections import MAX_HEAD, BoundedConnection, head_problem
from serving import running

pytestmark = pytest.mark.usefixtures("unchecked")
HEAD = b"POST /v1/given HTTP/1.1\r\nHost: 127.0.0.1\r\n"
LIVE = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
REFUSED = {
    "a length and chunks": (
        HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "both Content-Length and Transfer-Encoding",
    ),
    "chunks and a length": (
        HEAD + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
        400,
        "both Content-Length and Transfer-Encoding",
    ),
    "a bare line feed": (b"GET /health/live HTTP/1.1\nHost: 127.0.0.1\r\n\r\n", 400, "ends with a bare line feed"),
    "bare line feeds at the end": (
        b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\n\n",
        400,
        "ends with a bare line feed",
    ),
    "a folded field": (
        b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\r\n b\r\n\r\n",
        400,
        "continues in the next line",
    ),
    "a folded field, by a tab": (
        b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\r\n\tb\r\n\r\n",
        400,
        "continues in the next line",
    ),
    "a large head": (LIVE[:-2] + b"X: " + b"a" * MAX_HEAD + b"\r\n\r\n", 431, "more than 32 kB"),
    "a large head of many fields": (LIVE[:-2] + b"X: abc\r\n" * (MAX_HEAD // 8) + b"\r\n", 431, "more than 32 kB"),
    "a large head without an end": (LIVE[:-2] + b"X: " + b"a" * MAX_HEAD, 431, "more than 32 kB"),
    "a user in the host": (
        b"GET /health/live HTTP/1.1\r\nHost: user@127.0.0.1\r\n\r\n",
        400,
        "is not a name or address with a port",
    ),
}


@pytest.fixture(scope="module")
def server():
    with pytest.MonkeyPatch.context() as patch:
        tiny.register(patch)
        with running(tiny.classifier()) as found:
            yield found


def exchange(server, *parts):
    """Send parts on one connection; the first answer, and whether nothing else came before the end."""
    place = ("127.0.0.1", int(server.address.rpartition(":")[2]))
    with socket.create_connection(place, timeout=20) as connection:
        for part in parts:
            connection.sendall(part)
        response = http.client.HTTPResponse(connection)
        response.begin()
        body = json.loads(response.read())
        return response, body, connection


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_can_be_read_in_two_ways_is_refused_and_the_connection_closed(server, name):
    content, status, words = REFUSED[name]
    response, body, _ = exchange(server, content)
    assert (response.status, body["status"]) == (status, status)
    assert words in body["detail"]
    assert response.headers["content-type"] == "application/problem+json"
    closed = response.headers.get("connection") == "close"
    assert closed or name == "a user in the host"  # which is plain to read, only not ours


@pytest.mark.parametrize("name", [name for name in REFUSED if "user" not in name and "without an end" not in name])
def test_it_does_not_matter_how_the_bytes_come_or_what_was_asked_before(server, name):
    content, status, words = REFUSED[name]
    middle = content.index(b"HTTP/1.1") + 4
    place = ("127.0.0.1", int(server.address.rpartition(":")[2]))
    with socket.create_connection(place, timeout=20) as connection:
        connection.sendall(LIVE + content[:middle])  # behind another request, in two parts
        first = http.client.HTTPResponse(connection)
        first.begin()
        assert (first.status, first.read()) == (200, b'{"status":"live"}')
        connection.sendall(content[middle:] + LIVE)
        second = http.client.HTTPResponse(connection)
        second.begin()
        assert second.status == status
        assert words in json.loads(second.read())["detail"]
        rest = b""
        try:
            while more := connection.recv(1000):
                rest += more
        except ConnectionResetError:
            pass
        assert rest == b""  # what came behind it is not answered


def test_plain_requests_are_let_through(server):
    for content in (
        LIVE,
        LIVE[:-2] + b"X: " + b"a" * 30_000 + b"\r\n\r\n",
        LIVE[:-2] + b"X:  a \t b\r\nY:\r\n\r\n",
        LIVE[:-2] + b"Content-Length: 0\r\n\r\n",
    ):
        response, body, _ = exchange(server, content)
        assert (response.status, body) == (200, {"status": "live"})
    scores = b'{"scores": "a\n b"}'  # in a body line feeds mean nothing
    for lines in (
        b"Content-Length: %d\r\n\r\n%b" % (len(scores), scores),
        b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(scores), scores),
    ):
        response, body, _ = exchange(server, HEAD + b"Content-Type: application/json\r\n" + lines)
        assert response.status in (400, 409, 422)
        assert "head" not in body["detail"].lower()


def test_the_beginning_of_a_head_is_looked_at_as_it_comes():
    assert head_problem(b"GET / HTTP/1.1\r\nHost: a\r") is None
    assert head_problem(b"GET / HTTP/1.1\n").name == "bad-request"
    assert head_problem(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" + b"\n" * MAX_HEAD) is None  # that is the body


def test_the_labelling_page_is_as_strict(session, monkeypatch):
    import uvicorn

    from finegraph.web.label import label_server

    made = []
    monkeypatch.setattr(
        uvicorn, "Config", lambda app, **options: made.append(options) or (_ for _ in ()).throw(KeyError)
    )
    with pytest.raises(KeyError):
        label_server.serve_label(session, port=0)
    assert made[0]["http"] is BoundedConnection
