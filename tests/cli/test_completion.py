"""Completion, asked for by the shells themselves."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time

import pytest

from finegraph.cli.completion import SCRIPTS, completions, split_line
from finegraph.cli.main import whole_command

SECONDS = 60.0


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a run, a graph, and the command on the path."""
    (tmp_path / "runs/first").mkdir(parents=True)
    (tmp_path / "runs/first/config.toml").write_bytes(b"")
    (tmp_path / "runs/other").mkdir()
    (tmp_path / "menu.csv").write_bytes(b"")
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin/finegraph"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m finegraph "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    for shell, script in SCRIPTS.items():
        (tmp_path / f"complete.{shell}").write_text(script, encoding="utf-8")
    return tmp_path


def needs(shell):
    """Skip where there is no such shell; fail in CI, which has them all."""
    if shutil.which(shell) is None:
        if os.environ.get("CI"):
            pytest.fail(f"CI must have {shell}")
        pytest.skip(f"{shell} is not installed")


def words_of(*words):
    return [word for word, _ in completions(whole_command(), words)]


LINES = [
    ("finegraph tra", ["train"]),
    ("finegraph graph ", ["check", "show", "compare", "learn", "suggest"]),
    ("finegraph --ver", ["--version"]),
    ("finegraph train --tun", ["--tune"]),
    ("finegraph train --tune ", ["head", "all"]),
    ("finegraph train --tune=h", ["--tune=head"]),
    ("finegraph train --no-b", ["--no-box"]),
    ("finegraph serve runs/x --engine o", ["onnx"]),
    ("finegraph evaluate ", ["runs/first"]),
    ("finegraph predict runs/f", ["runs/first"]),
    ("finegraph label exp", ["export"]),
    ("finegraph label menu.csv --da", ["--data", "--database"]),
    ("finegraph index runs/first photos --ex", ["--exact"]),
    ("finegraph completion z", ["zsh"]),
]


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_ways_to_go_on(place, line, expected):
    assert words_of(*split_line(line)[1:]) == expected


@pytest.mark.parametrize(
    "line", ["finegraph train m", "finegraph graph check m", "finegraph label m", "finegraph demo --output m"]
)
def test_no_answer_where_a_file_is_meant(place, line):
    assert words_of(*split_line(line)[1:]) == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a b", ["a", "b"]),
        ("a b ", ["a", "b", ""]),
        ("a 'b c", ["a", "b c"]),
        ('a "b \\" c" d', ["a", 'b " c', "d"]),
        (r"a b\ c", ["a", "b c"]),
        ("a '' b", ["a", "", "b"]),
        ("", [""]),
    ],
)
def test_lines_are_taken_apart_as_shells_do(line, words):
    assert split_line(line) == words


def test_every_option_value_is_a_name_or_choices():
    """What the help calls the values is what is completed, so it must be choices or a word in capitals."""
    from cli.test_main import commands
    from finegraph.cli.commands import choices_of, value_name

    for name, command in commands():
        for one in command.params:
            value = value_name(one)
            assert not value or choices_of(one) or value == value.upper() or value == "STUDY.toml", (name, value)


def test_an_unknown_shell(finegraph):
    outcome = finegraph("completion", "tcsh")
    assert outcome.code == 2
    assert "expected bash, zsh, fish, got 'tcsh'" in outcome.err


# ---- the shells ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_bash(place, line, expected):
    needs("bash")
    script = """
        source complete.bash
        COMP_LINE=$1; COMP_POINT=${#COMP_LINE}; COMP_WORDS=(finegraph)
        _finegraph
        printf '%s\\n' "${COMPREPLY[@]}"
        complete -p finegraph
    """
    done = subprocess.run(["bash", "-c", script, "bash", line], capture_output=True, text=True, check=True)
    *words, registered = done.stdout.splitlines()
    # Bash replaces what comes after the last colon or equals sign alone.
    assert words == [word.rpartition("=")[2] for word in expected]
    assert registered == "complete -o default -F _finegraph finegraph"


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_fish(place, line, expected):
    needs("fish")
    done = subprocess.run(
        ["fish", "--no-config", "-c", "source complete.fish; complete -C $argv[1]", line],
        capture_output=True, text=True, check=True, env={**os.environ, "HOME": str(place)},
    )  # fmt: skip
    assert sorted(word.partition("\t")[0] for word in done.stdout.splitlines()) == sorted(expected)


def test_fish_names_files_where_a_file_is_meant(place):
    needs("fish")
    done = subprocess.run(
        ["fish", "--no-config", "-c", "source complete.fish; complete -C 'finegraph graph check m'"],
        capture_output=True, text=True, check=True, env={**os.environ, "HOME": str(place)},
    )  # fmt: skip
    assert done.stdout.split() == ["menu.csv"]


class Terminal:
    """A program on a terminal, typed into and read."""

    def __init__(self, *words, **environment):
        self._process, self._file = pty.fork()
        if self._process == 0:
            os.execvpe(words[0], words, {**os.environ, "TERM": "dumb", **environment})

    def type(self, text, expected):
        """Type something and read until the expected text is there."""
        os.write(self._file, text.encode())
        seen, end = "", time.monotonic() + SECONDS
        while expected not in seen and time.monotonic() < end:
            if select.select([self._file], [], [], 1.0)[0]:
                seen += os.read(self._file, 65536).decode(errors="replace")
        assert expected in seen
        return seen

    def close(self):
        os.close(self._file)
        os.waitpid(self._process, 0)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("finegraph tra\t", "train "),
        ("finegraph train --tun\t", "tune "),
        ("finegraph serve x --engine o\t", "onnx "),
        ("finegraph evaluate ru\t", "ns/first "),
        ("finegraph label exp\t", "ort "),
        ("finegraph graph check me\t", "nu.csv "),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_on_a_terminal(place, shell, line, expected):
    needs(shell)
    flags = {"bash": ["--norc", "-i"], "zsh": ["-f", "-i"]}[shell]
    begin = {"bash": "", "zsh": "autoload -Uz compinit; compinit -u -D; "}[shell]
    terminal = Terminal(shell, *flags, PS1="> ", HOME=str(place), ZDOTDIR=str(place))
    try:
        terminal.type(f"{begin}source complete.{shell}; echo rea''dy\n", "ready")
        terminal.type(line, expected)
    finally:
        terminal.close()
