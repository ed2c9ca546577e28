"""Numbers and names in the sentences of a report."""

from __future__ import annotations

from collections.abc import Sequence

from finegraph.evaluation.intervals import Interval

_ISOLATE, _END = "\u2068", "\u2069"


def apart(name: str) -> str:
    """A name whose direction of writing does not reach beyond it."""
    return f"{_ISOLATE}{name}{_END}"


def without_marks(text: str) -> str:
    """A sentence without the marks around its names, for files and terminals."""
    return text.replace(_ISOLATE, "").replace(_END, "")


def listed(names: Sequence[str]) -> str:
    """Names as a list in a sentence.

    Example:
        >>> listed(["a", "b", "c"])
        'a, b and c'
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def counted(number: int, noun: str, nouns: str = "") -> str:
    """A number with its noun."""
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"


def percent(share: float) -> str:
    """A share in percent.

    Example:
        >>> percent(0.8412)
        '84.1 %'
    """
    return f"{100 * share:.1f} %"


def percent_with_range(interval: Interval) -> str:
    """A share in percent, with its interval in brackets."""
    return f"{percent(interval.mean)} ({100 * interval.low:.1f} to {percent(interval.high)})"
