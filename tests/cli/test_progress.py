import pytest

from finegraph.cli import progress as module
from finegraph.cli.progress import progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [0.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    return now


def test_a_line_comes_every_few_seconds_with_rate_and_time_left(clock, capsys):
    with progress("photos") as told:
        for second, done in [(1, 32), (5, 64), (12, 1_132), (21, 1_164), (23, 7_732)]:
            clock[0] = float(second)
            told(done, 100_000)
    assert capsys.readouterr().err.splitlines() == [
        "1,132 of 100,000 photos, 100/s, 16 min left",
        "7,732 of 100,000 photos, 350/s, 4 min left",
    ]


def test_what_was_there_at_once_is_no_speed(clock, capsys):
    with progress("photos") as told:
        clock[0] = 20.0
        told(500, 600)
        clock[0] = 40.0
        told(550, 600)
    assert capsys.readouterr().err.splitlines() == ["500 of 600 photos", "550 of 600 photos, 2.5/s, 20 s left"]


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (59.4, "59 s"), (60, "1 min"), (3599, "59 min"), (7380, "2 h 3 min")]
)
def test_durations(seconds, words):
    assert module._duration(seconds) == words


def test_a_bar_on_a_terminal_goes_to_standard_error_alone(monkeypatch, capsys):
    for name, value in {"TTY_COMPATIBLE": "1", "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "90"}.items():
        monkeypatch.setenv(name, value)
    with progress("photos [1]") as told:
        told(1, 3)
        told(3, 3)
    out, err = capsys.readouterr()
    assert out == ""
    assert "photos [1]" in err
    assert "3/3" in err
