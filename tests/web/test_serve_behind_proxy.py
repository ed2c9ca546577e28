"""Servers behind a proxy as in `examples/compose.yaml`: the health check, writes of the page, shares of clients."""

import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

import tiny_classifier as tiny
from finegraph.web.security import Guard, Security
from finegraph.web.serve.server_state import ServerCounters
from serving import InProcess, files, photo_bytes, running

TOKEN = "a-long-enough-token"
COMPOSE = Path(__file__).parents[2] / "examples/compose.yaml"
BEARER = {"authorization": f"Bearer {TOKEN}"}
pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(scope="module")
def compose():
    """The example, with the variables of somebody who names the server menu.example."""
    yaml = pytest.importorskip("yaml")
    text = COMPOSE.read_text(encoding="utf-8").replace("${NAME:-localhost}", "menu.example")
    return yaml.safe_load(text)


@pytest.fixture
def classifier(monkeypatch):
    """A model of the tiny network."""
    tiny.register(monkeypatch)
    return tiny.classifier()


def allowed_hosts(command):
    """The names that a command gives to `--allow-host`."""
    return tuple(re.findall(r"--allow-host (\S+?)[\s\"]", command))


def test_the_health_check_is_answered_without_a_token(compose, classifier):
    asked, *command = compose["services"]["serve-1"]["healthcheck"]["test"]
    assert (asked, command[0]) == ("CMD", "python")
    with running(classifier, security=Security(token=TOKEN)) as server:
        port = server.address.rpartition(":")[2]
        words = [sys.executable, *(word.replace(":8000/", f":{port}/") for word in command[1:])]
        assert subprocess.run(words, check=False).returncode == 0
        said = httpx.get(f"{server.address}/health/ready")
        assert said.json() == {"status": "ready"}
        assert httpx.get(f"{server.address}/metrics").status_code == 401
        server.state.ready = False
        assert subprocess.run(words, check=False, stderr=subprocess.DEVNULL).returncode != 0


def test_all_metrics_are_explained():
    counters = ServerCounters(int, int, int)
    page = (COMPOSE.parents[1] / "docs/how-to/several-machines.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `(finegraph_\w+)`", page, re.MULTILINE))
    counted = set(re.findall(r"^# TYPE (finegraph_\w+)", counters.text().decode(), re.MULTILINE))
    assert told == {name for name in counted if not name.endswith("_created")}


def forwarded(compose, sent, address):
    """The headers of a request after the proxy of the example, which replaces those that its configuration names."""
    text = compose["configs"]["proxy"]["content"].replace("$$", "$")
    values = {"$http_host": sent["host"], "$remote_addr": address}
    replaced = {name.lower(): values.get(value, value) for name, value in re.findall(r"header (\S+) (\S+);", text)}
    assert set(replaced) == {"host", "x-forwarded-for"}
    return sent | replaced


@pytest.mark.parametrize(
    "host", ["menu.example", "menu.example:8080", "localhost:8080", "192.168.0.9:8080"], ids=lambda host: host
)
@pytest.mark.parametrize("service", ["serve-1", "label"])
def test_pages_may_write_through_the_proxy(compose, service, host):
    hosts = allowed_hosts(compose["services"][service]["command"])
    app = Starlette(routes=[Route("/write", lambda request: PlainTextResponse("written"), methods=["POST"])])
    client = InProcess(Guard(app, Security(host="0.0.0.0", token=TOKEN, hosts=hosts)), "http://server")
    sent = BEARER | {"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin"}
    through = forwarded(compose, sent, "192.168.0.7")
    assert client.post("/write", headers=through).text == "written"
    foreign = client.post("/write", headers=through | {"origin": "http://evil.example"})
    assert foreign.json()["type"] == "urn:finegraph:problem:origin"
    renamed = client.post("/write", headers=through | {"host": "proxy"})
    assert renamed.status_code in (403, 421)  # which is why the proxy has to pass the name on
    other = client.post("/write", headers=through | {"host": "other.example", "origin": "http://other.example"})
    assert other.json()["type"] == "urn:finegraph:problem:host"


def test_clients_behind_a_trusted_proxy_have_shares_of_their_own(compose, classifier, monkeypatch):
    trusted = compose["services"]["serve-1"]["environment"]["FORWARDED_ALLOW_IPS"]
    for value, said in ((trusted, 200), ("192.0.2.9", 429)):  # trusted, and only another proxy is
        monkeypatch.setenv("FORWARDED_ALLOW_IPS", value)
        with running(classifier, per_client=1, queue=8) as server:
            admission = server.state.admission
            for busy, client, status in (("here", "192.0.2.1", said), ("192.0.2.1", "192.0.2.1", 0)):
                with admission.enter(10, busy):
                    headers = forwarded(compose, {"host": "localhost"}, client)
                    answer = server.client.post("/v1/predict", files=files(photo_bytes()), headers=headers)
                expected = status or (429 if value == trusted else 200)
                assert answer.status_code == expected, (value, busy)
