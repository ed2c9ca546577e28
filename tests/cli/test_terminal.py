import io

import pytest

from finegraph.cli.exit_codes import exit_code_of
from finegraph.cli.failures import print_failure
from finegraph.cli.terminal import console, count, print_table, printable
from finegraph.errors import GraphError


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("two\nlines\r", r"two\nlines\r"),
        ("\u202eturned", r"\u202eturned"),
        ("\ud800", r"\ud800"),
        ("\x9b", r"\x9b"),
        ("麻婆豆腐 👩‍👧 é [red]", "麻婆豆腐 👩‍👧 é [red]"),
    ],
)
def test_printable(text, shown):
    assert printable(text) == shown


def test_count():
    assert [count(number, "kind") for number in (0, 1, 2, 1000)] == ["0 kinds", "1 kind", "2 kinds", "1,000 kinds"]


def test_plain_table_is_aligned_without_trailing_blanks(capsys):
    print_table(console(), ("name", "n", "words"), [("麻婆", "1", "[bold]a"), ("a\tb", "20", "")], right=(1,))
    assert capsys.readouterr().out == "name   n  words\n麻婆   1  [bold]a\na\\tb  20\n"


def test_long_lines_are_not_broken_in_a_file(capsys):
    print_table(console(), ("words",), [("word " * 60 + "end",)])
    assert len(capsys.readouterr().out.splitlines()) == 2


def raised(error, cause=None):
    try:
        try:
            if cause:
                raise cause
        except BaseException:
            raise error  # noqa: B904  # as the command-line library does
        raise error
    except BaseException as caught:
        return caught


@pytest.mark.parametrize(
    ("error", "cause", "code"),
    [
        (SystemExit(0), None, 0),
        (SystemExit(None), None, 0),
        (SystemExit("words"), None, 1),
        (SystemExit(2), None, 2),
        (GraphError("bad"), None, 3),
        (FileNotFoundError("x"), None, 3),
        (KeyError("x"), None, 70),
        (KeyboardInterrupt(), None, 130),
        (SystemExit(1), KeyboardInterrupt(), 130),
        (SystemExit(1), BrokenPipeError(), 141),
        (BrokenPipeError(), None, 141),
    ],
)
def test_exit_codes(error, cause, code):
    assert exit_code_of(raised(error, cause)) == code


def test_failure_of_the_system_names_the_file(capsys):
    print_failure(PermissionError(13, "Permission denied", "menu.csv"), debug=False)
    assert capsys.readouterr().err == "error: menu.csv: permission denied; check the path and its rights\n"


def test_failure_without_words(capsys):
    print_failure(GraphError(), debug=False)
    assert capsys.readouterr().err == "error: GraphError\n"


def test_colours_only_where_wanted(monkeypatch):
    for colour, expected in (("", True), ("1", False)):
        monkeypatch.setenv("TTY_COMPATIBLE", "1")
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.setenv("NO_COLOR", colour)
        to = console()
        to.file = io.StringIO()
        to.print("x", style="red")
        assert ("\x1b[31m" in to.file.getvalue()) is expected
