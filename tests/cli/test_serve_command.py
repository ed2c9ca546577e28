"""`finegraph serve` as one starts it: a process, its signals, and what it refuses."""

import io
import json
import signal
import socket
import subprocess
import sys
import time

import httpx
import pytest
import torch
from PIL import Image

import tiny_classifier as tiny
from finegraph.cli import next_commands
from finegraph.data.transforms import ViewSettings
from finegraph.graph import LabelGraph
from finegraph.model import PhotoClassifier
from finegraph.nn.network import build_network
from finegraph.web import security
from finegraph.web.serve import model_server
from serving import files, photo_bytes


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A real network, since another process loads it."""
    folder = tmp_path_factory.mktemp("served") / "model"
    torch.manual_seed(0)
    network = build_network(LabelGraph.from_table(tiny.TABLE)).eval()
    PhotoClassifier(network, ViewSettings(size=64, resize=72)).save(folder)
    return folder


@pytest.mark.usefixtures("unchecked")
def test_a_server_answers_reloads_and_stops(model):
    command = [sys.executable, "-m", "finegraph", "serve", str(model), "--port", "0", "--json", "--threads", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            started = ""
            while not started.rstrip().endswith("}"):
                line = process.stdout.readline()
                assert line, process.stderr.read()
                started += line
            address = json.loads(started)["address"]
            found = httpx.post(f"{address}v1/predict", files=files(photo_bytes()), timeout=60).json()
            first = found["photos"][0]["top"][0]
            expected = PhotoClassifier.load(model).predict(Image.open(io.BytesIO(photo_bytes()))).top[0]
            assert (first["label"], first["probability"]) == (
                expected.label,
                pytest.approx(expected.probability, abs=1e-5),
            )
            process.send_signal(signal.SIGHUP)
            while 'finegraph_reloads_total{outcome="done"} 1.0' not in httpx.get(f"{address}metrics").text:
                assert process.poll() is None
                time.sleep(0.05)
            again = httpx.post(f"{address}v1/predict", files=files(photo_bytes()), timeout=60).json()
            assert again["photos"][0]["top"][0] == pytest.approx(first)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=60)
            assert (process.returncode, out) == (0, "")
            assert "the model was loaded again" in err
        finally:
            process.kill()


def test_a_public_address_needs_a_token(finegraph, model):
    outcome = finegraph("serve", model, "--host", "0.0.0.0")
    assert outcome.code == 3
    assert "others can reach this address, so a token is needed" in outcome.err


def test_all_addresses_of_a_public_server_are_said(finegraph, model, monkeypatch):
    def ready_at_once(settings, on_ready):
        on_ready(security.reachable(settings.security.host, 9)[0])

    monkeypatch.setattr(model_server, "serve", ready_at_once)
    monkeypatch.setattr(security, "_own_address", lambda family: "192.168.0.9")
    public = ("serve", model, "--host", "0.0.0.0", "--token", "a-long-enough-token")
    first, second = finegraph(*public).out.splitlines()
    assert "is served at http://192.168.0.9:9/ " in first
    assert second == "also at http://127.0.0.1:9/; other names of it need --allow-host NAME"
    assert json.loads(finegraph(*public, "--json").out)["others"] == ["http://127.0.0.1:9/"]
    assert "also at" not in finegraph("serve", model).out


def test_an_address_that_is_taken_is_said_before_the_model_is_loaded(finegraph, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        outcome = finegraph("serve", tmp_path / "none", "--port", taken.getsockname()[1])
    assert outcome.code == 3
    assert "cannot be listened on" in outcome.err
    assert "choose another port or address" in outcome.err


def test_a_folder_without_a_model_is_refused(finegraph, tmp_path):
    outcome = finegraph("serve", tmp_path, "--port", 0)
    assert outcome.code == 3
    assert str(tmp_path) in outcome.err


def test_without_the_extra_it_says_what_to_install(finegraph, model, monkeypatch):
    monkeypatch.setattr(next_commands, "find_spec", lambda name: None if name == "uvicorn" else object())
    outcome = finegraph("serve", model)
    assert outcome.code == 3
    assert (
        'the server needs uvicorn, which is not installed; install it with `pip install "finegraph[serve]"`'
        in outcome.err
    )
