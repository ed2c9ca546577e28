"""The name of a comparison in the store: who compared which two things, as one text.

    ["ann",3,17]                      two classes, by their numbers, the smaller first
    ["ann","a/1.jpg","b/2.jpg"]       two photos, by their keys

A person has one answer to a pair, whichever came first on the page; so the text has the two things in a fixed order,
and the outcome is stored for the first thing in the text. Equal comparisons have equal text.
"""

from __future__ import annotations

import json
from typing import cast

from finegraph.labelling.store.records import Outcome
from finegraph.labelling.store.values import dump

Thing = int | str
"""The number of a class, or the key of a photo."""
_SWAPPED: dict[str, Outcome] = {"more": "less", "less": "more"}


def pair_text(person: str, one: Thing, two: Thing) -> str:
    """The text of a comparison; if `is_swapped`, the outcome must be swapped too."""
    return dump([person, two, one] if is_swapped(one, two) else [person, one, two])


def is_swapped(one: Thing, two: Thing) -> bool:
    """Whether the text of a comparison has the two things in the other order."""
    return one > two if isinstance(one, int) and isinstance(two, int) else str(one) > str(two)


def swapped_outcome(outcome: Outcome | None) -> Outcome | None:
    """The same outcome for the other order of the two things."""
    return None if outcome is None else _SWAPPED.get(outcome, outcome)


def parse_pair(text: str) -> tuple[str, Thing, Thing]:
    """The person and the two things."""
    person, one, two = json.loads(text)
    return cast(str, person), cast(Thing, one), cast(Thing, two)


def pair_words(one: str, two: str, outcome: str | None) -> str | None:
    """A comparison in short, such as `a > b`; None without an outcome."""
    sign = {"more": ">", "less": "<", "same": "=", "skip": "?"}
    return None if outcome is None else f"{one} {sign[outcome]} {two}"
