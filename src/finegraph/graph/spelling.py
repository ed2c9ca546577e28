"""Names that were probably meant.

Two names are near when they differ by one letter that is added, left out, changed or swapped with the next one, or when
they agree but for accents, vowels and doubled letters and are alike in all. Names that differ in their digits are never
near ("table 1", "table 2"), nor those that differ in a short word ("type A", "type B") by more than a swap, nor those
in scripts that write a word with one sign. To find the near ones among many, every name is hashed with each of its
letters left out: names that share a hash are compared, no others. So the time is linear in the letters, not quadratic
in the names.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Collection, Sequence
from difflib import SequenceMatcher

import numpy as np

from finegraph.errors import near_matches
from finegraph.graph.kind import IntArray
from finegraph.graph.names import fold

_LONGEST = 64
"""Names longer than this are not compared; each letter of a name costs a hash of the name."""
_ALIKE = 0.8
"""How much of two names that agree but for vowels must be the same; "resteraunt" is 0.8 of "restaurant"."""
_SHORT_WORD = 5
_FIRST_WORD_SIGN = "\u2e80"
"""From here on Unicode has mostly scripts in which one sign is a word, where one other sign is another word."""
_BREAKS = re.compile(r"[\W_]+")
_DIGITS = re.compile(r"\d+")
_VOWELS = re.compile(r"[aeiouy\W_]")
_DOUBLED = re.compile(r"(.)\1+")


class Suggestions:
    """Hints of the form "did you mean ...?", as many as a message needs and no more.

    Comparing a name with thousands of others takes a while, so after the first few hints there are none.
    """

    def __init__(self, most: int = 10) -> None:
        self._left = most

    def hint(self, name: str, choices: Collection[str]) -> str | None:
        """The near matches of a name as a question; None where there are none, or too many were asked for."""
        if self._left <= 0 or len(name) > _LONGEST:
            return None
        self._left -= 1
        key = fold(name)
        likely = [
            choice
            for choice in choices
            if abs(len(choice) - len(name)) <= max(3, len(name) // 3)
            and (len(choices) < 1000 or fold(choice)[:1] == key[:1] or fold(choice)[-1:] == key[-1:])
        ]
        near = near_matches(name, sorted(likely))
        return "did you mean " + " or ".join(repr(match) for match in near) + "?" if near else None


def misspelt(names: Sequence[str], counts: IntArray) -> list[tuple[int, int]]:
    """Pairs (misspelt, meant) of names: one that occurs once and a near one that occurs more often.

    Args:
        names: the labels of a kind.
        counts: how often each occurs.
    """
    folded = [fold(name) for name in names]
    usual = [int(i) for i in np.argsort(-counts, kind="stable") if counts[i] > 1]
    rare = [int(i) for i in np.flatnonzero(counts == 1)]
    if not usual or not rare:
        return []
    usual_hashes, usual_owner = _hashes(folded, usual)
    rare_hashes, rare_owner = _hashes(folded, rare)
    if not len(usual_hashes) or not len(rare_hashes):
        return []
    # Of the names that share a hash the first is kept: the most frequent one.
    known, first = np.unique(usual_hashes, return_index=True)
    place = np.minimum(np.searchsorted(known, rare_hashes), len(known) - 1)
    hit = known[place] == rare_hashes
    candidates = sorted(set(zip(rare_owner[hit].tolist(), usual_owner[first[place[hit]]].tolist(), strict=True)))
    found: dict[int, int] = {}
    for one, other in candidates:
        better = one not in found or counts[other] > counts[found[one]]
        if better and near(folded[one], folded[other]):
            found[one] = other
    return sorted(found.items())


def near(one: str, other: str) -> bool:
    """Whether two folded names are so close that one may be a misspelling of the other; False where they are equal."""
    if one == other or _DIGITS.findall(one) != _DIGITS.findall(other) or max(one + other) >= _FIRST_WORD_SIGN:
        return False
    one, other = _plain(one), _plain(other)
    if one == other:
        return True  # accents only
    words, others = _BREAKS.split(one), _BREAKS.split(other)
    if len(words) == len(others):
        changed = [(a, b) for a, b in zip(words, others, strict=True) if a != b]
        if any(_short(a, b) and not _swapped(a, b) for a, b in changed):
            return False
    if _one_edit(one, other):
        return True
    return _skeleton(one) == _skeleton(other) and SequenceMatcher(None, one, other, autojunk=False).ratio() >= _ALIKE


def _short(one: str, other: str) -> bool:
    """Whether two words are so short that a letter more or less makes another word."""
    return min(len(one), len(other)) < _SHORT_WORD - 1 or max(len(one), len(other)) < _SHORT_WORD


def _swapped(one: str, other: str) -> bool:
    """Whether two words of three letters or more have the same letters, and so can only be one edit apart by a swap."""
    return len(one) == len(other) >= 3 and sorted(one) == sorted(other)


def _one_edit(one: str, other: str) -> bool:
    """Whether one letter was added, left out, changed, or swapped with the next."""
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    end = 0
    while end < min(len(one), len(other)) - start and one[-1 - end] == other[-1 - end]:
        end += 1
    rest, rest_other = one[start : len(one) - end], other[start : len(other) - end]
    return max(len(rest), len(rest_other)) <= 1 or (len(rest) == 2 and rest == rest_other[::-1])


def _skeleton(name: str) -> str:
    """The name without accents, vowels, breaks between words and doubled letters."""
    return _DOUBLED.sub(r"\1", _VOWELS.sub("", _plain(name)))


def _plain(name: str) -> str:
    """The name without accents."""
    if name.isascii():
        return name
    return "".join(sign for sign in unicodedata.normalize("NFKD", name) if not unicodedata.combining(sign))


def _hashes(folded: Sequence[str], chosen: Sequence[int]) -> tuple[IntArray, IntArray]:
    """The hashes of chosen names: with each letter left out, of the whole name and of its skeleton; and the owners."""
    hashes, owners = array("q"), array("q")
    for index in chosen:
        name = folded[index]
        if not _SHORT_WORD - 1 <= len(name) <= _LONGEST:
            continue
        digits = "\0".join(_DIGITS.findall(name))
        own = {hash((digits, name[:i] + name[i + 1 :])) for i in range(len(name))}
        own |= {hash((digits, name)), hash((digits, _skeleton(name), "skeleton"))}
        hashes.extend(own)
        owners.extend([index] * len(own))
    return np.array(hashes, dtype=np.int64), np.array(owners, dtype=np.int64)
