"""QR codes in the terminal: the code of the text, two rows in a line, only where it can be shown."""

import io

import pytest
import segno
from rich.console import Console

import tiny_classifier as tiny
from finegraph.cli import serve as command
from finegraph.cli.serve import half_blocks, print_qr_code, sign_in_link
from finegraph.web import security
from finegraph.web.security import Security
from finegraph.web.serve import model_server
from serving import InProcess

LINK = "http://192.168.0.9:8000/?token=a-long-enough-token"
HALVES = {" ": (False, False), "▀": (True, False), "▄": (False, True), "█": (True, True)}


def terminal(encoding="utf-8", **options):
    """A terminal, and what is printed there."""
    written = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    settings = {"force_terminal": True, "color_system": "truecolor", "width": 80, **options}
    return Console(file=written, _environ={}, **settings), written


def printed(written):
    written.flush()
    return written.buffer.getvalue().decode(written.encoding)


def test_what_is_printed_is_the_code_of_the_text():
    to, written = terminal(highlight=False)
    assert print_qr_code(to, LINK)
    black_on_white = "\x1b[38;2;0;0;0;48;2;255;255;255m"
    lines = printed(written).splitlines()
    assert all(line.startswith(black_on_white) and line.endswith("\x1b[0m") for line in lines)
    cells = [line.removeprefix(black_on_white).removesuffix("\x1b[0m") for line in lines]
    rows = [[HALVES[cell][half] for cell in line] for line in cells for half in (0, 1)]
    wanted = [[bool(module) for module in row] for row in segno.make(LINK, error="l").matrix]
    found = [row[2:-2] for row in rows[2 : 2 + len(wanted)]]
    assert found == wanted
    light = [cell for row in rows[:2] + rows[2 + len(wanted) :] for cell in row]
    assert not any(light)


@pytest.mark.parametrize(
    "options", [{"force_terminal": False}, {"width": 30}, {"color_system": None}, {"encoding": "ascii"}]
)
def test_a_terminal_that_cannot_show_it_gets_none(options):
    to, written = terminal(**options)
    assert not print_qr_code(to, LINK)
    assert printed(written) == ""


def test_an_odd_number_of_rows_is_filled_with_light():
    assert half_blocks([[True, False], [False, True], [True, True]]) == ["▀▄", "▀▀"]


def test_the_link_signs_a_phone_in(monkeypatch):
    from fastapi import FastAPI

    from finegraph.web.security import Guard

    token = "a token & more of it"
    app = FastAPI()
    app.get("/")(lambda: "in")
    app.add_middleware(Guard, security=Security(host="0.0.0.0", token=token))
    client = InProcess(app, "http://192.168.0.9:8000")
    link = sign_in_link("http://192.168.0.9:8000/", token)
    answer = client.get(link.removeprefix("http://192.168.0.9:8000"))
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert client.get("/").json() == "in"
    assert sign_in_link("http://127.0.0.1:8000/", None) == "http://127.0.0.1:8000/"


@pytest.mark.parametrize(("host", "lines"), [("0.0.0.0", 20), ("127.0.0.1", 1)])
def test_a_server_that_phones_reach_prints_it(tmp_path, monkeypatch, host, lines):
    to, written = terminal(highlight=False)
    monkeypatch.setattr(command, "console", lambda: to)
    monkeypatch.setattr(security, "_own_address", lambda family: "192.168.0.9")
    monkeypatch.setattr(model_server, "serve", lambda settings, on_ready: on_ready(security.reachable(host, 9)[0]))
    tiny.register(monkeypatch)
    command.serve(tmp_path, host=host, token="a-long-enough-token", engine="torch", queue=1)
    text = printed(written)
    assert (text.count("\n") >= lines, "Scan it with a phone" in text) == (True, host == "0.0.0.0")
