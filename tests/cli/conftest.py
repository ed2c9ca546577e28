from collections import namedtuple

import pytest

from finegraph.cli.main import run

Outcome = namedtuple("Outcome", "code out err")


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch):
    """The output goes to a file, whatever the tests are run from."""
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def finegraph(capsys):
    """Run the command; what it printed and its exit code."""

    def invoke(*arguments):
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return invoke


@pytest.fixture
def menu_file(tmp_path):
    path = tmp_path / "menu.csv"
    path.write_text(
        "fine,dish,restaurant,with,served\n"
        "mapo tofu @ A,mapo tofu,A,tofu & pork,bowl\n"
        "mapo tofu @ B,mapo tofu,B,tofu,plate:0.75|bowl:0.25\n"
        "kung pao @ B,kung pao,B,,plate\n"
        "kung pao @ A,kung pao,A,pork,plate\n",
        encoding="utf-8",
    )
    return path


@pytest.fixture
def faulty_file(tmp_path):
    path = tmp_path / "faulty.csv"
    path.write_text("fine,dish\nx,a\ny,b\nx,\x1b[31mred,\n", encoding="utf-8")
    return path
