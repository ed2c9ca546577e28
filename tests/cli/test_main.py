import json
import os
import re
import subprocess
import sys

import pytest

from finegraph import __version__
from finegraph.cli.main import whole_command


def commands(command=None, path=("finegraph",)):
    """Every command and group of commands, with its full name."""
    command = command or whole_command()
    yield " ".join(path), command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


NAMES = [name for name, _ in commands()]


def start(*arguments, **settings):
    """The command in a process of its own."""
    command = [sys.executable, "-m", "finegraph", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **settings)


def test_these_commands_are_there():
    assert {"finegraph graph check", "finegraph graph show", "finegraph doctor"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_command_and_flag_is_explained(name):
    command = dict(commands())[name]
    assert command.help, f"`{name}` has no help text"
    for parameter in command.params:
        assert getattr(parameter, "help", None), f"`{name}`: {parameter.name} has no help text"


@pytest.mark.parametrize("name", [name for name, one in commands() if not hasattr(one, "commands")])
def test_every_command_can_answer_in_json(name):
    assert "--json" in [option for parameter in dict(commands())[name].params for option in parameter.opts]


@pytest.mark.parametrize("name", NAMES)
def test_help_lists_commands_and_flags(finegraph, name):
    command = dict(commands())[name]
    outcome = finegraph(*name.split()[1:], "--help")
    assert outcome.code == 0
    assert outcome.err == ""
    for inner in getattr(command, "commands", {}):
        assert inner in outcome.out
    for parameter in command.params:  # a former name of a flag still works, but nobody should learn it
        hidden = getattr(parameter, "hidden", False)
        shown = re.search(re.escape(parameter.opts[-1].lower()) + r"\b", outcome.out.lower())
        assert (shown is not None) == (not hidden)


def test_help_lists_are_not_cut_off(finegraph):
    for name, command in commands():
        if hasattr(command, "commands"):
            assert "..." not in finegraph(*name.split()[1:], "--help").out.replace("[ARGS]...", "").replace(
                "PHOTOS...", ""
            )


def test_help_tells_the_exit_codes(finegraph):
    text = " ".join(finegraph("--help").out.split())
    assert "0 all went well, 1 a check found errors, 2 wrong usage, 3 bad input" in text


def test_help_is_quick_because_nothing_slow_is_imported():
    script = (
        "import sys\n"
        "from finegraph.cli.main import run\n"
        "code = run(['graph', 'show', '--help'])\n"
        "slow = sorted(name for name in ('torch', 'numpy', 'rich', 'finegraph.graph') if name in sys.modules)\n"
        "print(code, slow, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == "0 []\n"


def test_version(finegraph):
    code, said, errors = finegraph("--version")
    assert (code, errors) == (0, "")
    assert re.fullmatch(rf"finegraph {re.escape(__version__)}( \(commit [0-9a-f]{{12}}(, changed since)?\))?\n", said)


def test_no_command_shows_the_help(finegraph):
    outcome = finegraph()
    assert outcome.code == 2
    assert "Commands:" in outcome.out + outcome.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["grahp"], "error: no such command 'grahp'. Did you mean 'graph'?"),
        (["graph", "check"], "error: missing argument 'GRAPH'\n  usage: finegraph graph check [OPTIONS] GRAPH\n"),
        (["graph", "check", "--fast", "x.csv"], "error: no such option: --fast"),
        (["serve", "runs/x", "--port", "99999"], "error: invalid value for '--port'"),
        (["train"], "error: missing argument 'SOURCE'"),
    ],
)
def test_wrong_usage(finegraph, arguments, words):
    outcome = finegraph(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert words in outcome.err
    assert "Traceback" not in outcome.err


def test_internal_fault(finegraph, menu_file, monkeypatch):
    def broken(path):
        raise RuntimeError("boom\nand more")

    monkeypatch.setattr("finegraph.workflows.graph.check_graph", broken)
    outcome = finegraph("graph", "check", menu_file)
    assert outcome.code == 70
    assert outcome.out == ""
    assert outcome.err.splitlines() == [
        "error: RuntimeError: boom",
        "  This is a fault of finegraph, not of your input.",
        "  Run `finegraph --debug ...` to see where it happened, and please report it.",
    ]


def test_debug_shows_the_traceback(finegraph, tmp_path):
    missing = tmp_path / "missing.csv"
    outcome = finegraph("--debug", "graph", "show", missing)
    assert outcome.code == 3
    assert "Traceback" in outcome.err
    assert "Traceback" not in finegraph("graph", "show", missing).err


def test_interrupted(finegraph, menu_file, monkeypatch):
    def interrupted(path):
        raise KeyboardInterrupt

    monkeypatch.setattr("finegraph.workflows.graph.check_graph", interrupted)
    outcome = finegraph("graph", "check", menu_file)
    assert outcome.code == 130
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_reader_that_goes_away(menu_file, flags):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as nobody:
        done = subprocess.run(
            [sys.executable, "-m", "finegraph", "graph", "show", menu_file, *flags],
            stdout=nobody,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (141, b"")


def test_as_a_module_in_an_ascii_terminal(tmp_path):
    path = tmp_path / "menu.csv"
    path.write_text("fine,dish\n麻婆豆腐 @ A,麻婆豆腐\n麻婆豆腐 @ B,麻婆豆腐\n", encoding="utf-8")
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    plain = start("graph", "show", path, env=ascii_only)
    assert plain.returncode == 0
    assert r"\u9ebb\u5a46\u8c46\u8150 (2)" in plain.stdout
    document = json.loads(start("graph", "show", path, "--json", env=ascii_only).stdout)
    assert document["summary"]["columns"][0]["most_frequent"][0]["label"] == "麻婆豆腐"
