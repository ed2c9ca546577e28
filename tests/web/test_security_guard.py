"""Who may ask: hosts, origins, tokens, sizes, and the headers on every answer; and where a server is reached."""

import ipaddress
import socket
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI, Request

from finegraph.errors import InputError
from finegraph.web import security
from finegraph.web.problems import ProblemError, install_problems
from finegraph.web.security import CONTENT_POLICY, Guard, Security, host_name, is_loopback, reachable
from serving import InProcess

TOKEN = "a-long-enough-token"


def client_of(*, base="http://127.0.0.1:8000", **settings):
    app = FastAPI()
    install_problems(app)

    @app.get("/page")
    def page():
        return {"read": True}

    @app.post("/write")
    async def write(request: Request):
        return {"bytes": len(await request.body())}

    @app.get("/fails")
    def fails():
        raise ZeroDivisionError("secret of the machine")

    @app.get("/conflict")
    def conflict():
        raise ProblemError("conflict", "Expected version 1, got 2.", mine=1, theirs=2)

    @app.get("/health/live")
    def live():
        return "live"

    app.add_middleware(Guard, security=Security(**settings))
    return InProcess(app, base)


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "LOCALHOST:9", "[::1]:8000", "menu.local"])
def test_own_names_are_let_in(host):
    assert client_of(hosts=("menu.local",)).get("/page", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:8000",
        "192.168.0.9",
        "",
    ],
)
def test_foreign_hosts_are_refused_also_for_reading(host):
    response = client_of().get("/page", headers={"host": host})
    assert (response.status_code, response.json()["type"]) == (421, "urn:finegraph:problem:host")


@pytest.mark.parametrize(
    "host",
    ["user@127.0.0.1", "user:word@localhost:8000", "@localhost", "localhost/page", "localhost ", "[::1", "local?host"],
)
def test_a_host_that_is_more_than_a_name_and_a_port_is_refused(host):
    response = client_of().get("/page", headers={"host": host})
    assert (response.status_code, response.json()["type"]) == (400, "urn:finegraph:problem:bad-request")
    assert "is not a name or address with a port" in response.json()["detail"]


def test_a_public_server_is_reached_by_addresses_but_not_by_foreign_names():
    client = client_of(host="0.0.0.0", token=TOKEN)
    headers = {"authorization": f"Bearer {TOKEN}"}
    assert client.get("/page", headers={**headers, "host": "192.168.0.9:8000"}).status_code == 200
    assert client.get("/page", headers={**headers, "host": "evil.example"}).status_code == 421


def test_a_public_server_is_reached_by_the_names_of_its_machine(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "Kitchen.example.org")
    client = client_of(host="0.0.0.0", token=TOKEN)
    headers = {"authorization": f"Bearer {TOKEN}"}
    for host, status in {"kitchen.local:8000": 200, "kitchen.example.org": 200, "cellar.local": 421}.items():
        assert client.get("/page", headers={**headers, "host": host}).status_code == status, host
    assert client_of().get("/page", headers={"host": "kitchen.local"}).status_code == 421
    refused = client.get("/page", headers={**headers, "host": "cellar.local"}).json()
    assert refused["what_to_do"] == "Use the printed address, or start it with this name."


def test_addresses_are_such_that_others_can_use_them(monkeypatch):
    assert reachable("127.0.0.1", 8000) == ["http://127.0.0.1:8000/"]
    assert reachable("192.168.0.9", 80) == ["http://192.168.0.9:80/"]
    assert reachable("menu.local", 80) == ["http://menu.local:80/"]
    assert reachable("::1", 80) == ["http://[::1]:80/"]
    for host, here in (("0.0.0.0", "http://127.0.0.1:8000/"), ("::", "http://[::1]:8000/")):
        found = reachable(host, 8000)
        assert found[-1] == here
        for one in found:
            assert not ipaddress.ip_address(urlsplit(one).hostname).is_unspecified
    monkeypatch.setattr(security, "_own_address", {socket.AF_INET: "192.168.0.9", socket.AF_INET6: None}.get)
    assert reachable("0.0.0.0", 1) == ["http://192.168.0.9:1/", "http://127.0.0.1:1/"]
    assert reachable("::", 1) == ["http://192.168.0.9:1/", "http://[::1]:1/"]
    monkeypatch.setattr(security, "_own_address", lambda family: None)  # a machine without a network
    assert reachable("0.0.0.0", 1) == ["http://127.0.0.1:1/"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),  # programs send no Origin
        ({"origin": "http://127.0.0.1:8000"}, 200),
        ({"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}, 200),
        ({"origin": "http://127.0.0.1:9000"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://[::1"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
    ],
)
def test_writes_of_other_sites_are_refused(headers, status):
    assert client_of().post("/write", headers=headers).status_code == status


def test_bodies_above_the_limit_are_refused_with_and_without_a_length():
    client = client_of(max_bytes=1000)
    assert client.post("/write", content=b"x" * 1000).json() == {"bytes": 1000}
    said = client.post("/write", content=b"x" * 1001)
    assert (said.status_code, said.json()["title"]) == (413, "The request is too large")

    async def parts():
        for _ in range(20):
            yield b"x" * 100

    assert client.post("/write", content=parts()).status_code == 413


def test_the_token_is_needed_wherever_there_is_one():
    client = client_of(token=TOKEN)
    refused = client.get("/page")
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert refused.json()["type"] == "urn:finegraph:problem:token"
    for wrong in (f"Bearer {TOKEN}x", "Bearer ", TOKEN, "Basic x", f"Bearer {TOKEN[:-1]}"):
        assert client.get("/page", headers={"authorization": wrong}).status_code == 401
    assert client.get("/page", headers={"authorization": f"bearer {TOKEN}"}).status_code == 200
    assert client.get("/health/live").status_code == 200
    assert client.post("/write").status_code == 401


def test_a_browser_signs_in_once_and_the_token_leaves_the_address():
    client = client_of(token=TOKEN)
    asked = client.get("/page", headers={"accept": "text/html"})
    assert asked.status_code == 401
    assert 'type="password"' in asked.text
    assert "wrong" not in asked.text
    wrong = client.get("/page?token=wrong", headers={"accept": "text/html"})
    assert (wrong.status_code, "That token is wrong" in wrong.text) == (401, True)
    assert 'type="password"' in wrong.text
    assert "Load the page again" in client.get("/page").json()["what_to_do"]
    signed = client.get(f"/page?a=1&token={TOKEN}")
    assert (signed.status_code, signed.headers["location"]) == (303, "/page?a=1")
    cookie = signed.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert TOKEN not in cookie
    assert client.get("/page").status_code == 200  # the client keeps the cookie
    client.cookies.clear()
    assert client.get("/page?token=wrong").status_code == 401
    assert client.get(f"http://127.0.0.1:8000//evil.example/?token={TOKEN}").headers["location"] == "/evil.example/"


def test_every_answer_has_the_headers():
    client = client_of()
    for response in (
        client.get("/page"),
        client.get("/nowhere"),
        client.get("/fails"),
        client.get("/page", headers={"host": "x"}),
    ):
        assert response.headers["content-security-policy"] == CONTENT_POLICY
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["cache-control"] == "no-store"
    assert "unsafe" not in CONTENT_POLICY
    assert "access-control-allow-origin" not in client.get("/page", headers={"origin": "http://evil.example"}).headers


def test_errors_are_problems_and_tell_nothing_of_the_machine():
    client = client_of()
    failed = client.get("/fails")
    assert (failed.status_code, failed.headers["content-type"]) == (500, "application/problem+json")
    assert "secret" not in failed.text
    assert client.get("/nowhere").json()["type"] == "urn:finegraph:problem:not-found"
    wrong = client.delete("/page")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET")
    conflict = client.get("/conflict").json()
    assert (conflict["status"], conflict["mine"], conflict["theirs"]) == (409, 1, 2)


def test_listening_where_others_can_reach_it_needs_a_token():
    for host in ("0.0.0.0", "192.168.0.9", "::", "menu.local"):
        with pytest.raises(InputError, match="others can reach this address, so a token is needed"):
            Security(host=host).check()
        Security(host=host, token=TOKEN).check()
    for host in ("127.0.0.1", "localhost", "::1", "127.0.0.9"):
        Security(host=host).check()
    for token in ("short", "tab\tin the token", "ünïcode tokens"):
        with pytest.raises(InputError, match="expected at least 12 printable ASCII characters"):
            Security(token=token).check()


def test_names_of_hosts():
    assert [host_name(text) for text in ("A.b:80", "[::1]:80", "", "[x")] == ["a.b", "::1", "", ""]
    assert not is_loopback("")
