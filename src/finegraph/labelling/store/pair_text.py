"""The name of a comparison in the store: who compared which two things, as one text.

    ["ann",3,17]                      two classes, by their numbers, the smaller first
    ["ann","a/1.jpg","b/2.jpg"]       two photos, by their keys

A person has one answer to a pair, whichever of the two came first on the page; so an outcome is kept as that of the
first thing in the text. Equal comparisons have equal text.
"""

from __future__ import annotations

import json
from typing import cast

from finegraph.labelling.store.records import Outcome
from finegraph.labelling.store.values import dump

Thing = int | str
"""The number of a class, or the key of a photo."""
_TURNED: dict[str, Outcome] = {"more": "less", "less": "more"}


def pair_text(person: str, one: Thing, two: Thing) -> str:
    """The text of a comparison; see `is_turned` for what it does to the outcome."""
    return dump([person, two, one] if is_turned(one, two) else [person, one, two])


def is_turned(one: Thing, two: Thing) -> bool:
    """Whether two things change places in the text of their comparison."""
    return one > two if isinstance(one, int) and isinstance(two, int) else str(one) > str(two)


def turned(outcome: Outcome | None) -> Outcome | None:
    """What holds of the second thing, where this holds of the first."""
    return None if outcome is None else _TURNED.get(outcome, outcome)


def parse_pair(text: str) -> tuple[str, Thing, Thing]:
    """The person and the two things."""
    person, one, two = json.loads(text)
    return cast(str, person), cast(Thing, one), cast(Thing, two)


def pair_words(one: str, two: str, outcome: str | None) -> str | None:
    """What somebody said of two things, in short; None if nothing."""
    sign = {"more": ">", "less": "<", "same": "=", "skip": "?"}
    return None if outcome is None else f"{one} {sign[outcome]} {two}"
