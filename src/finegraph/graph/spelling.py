"""Suggestions for misspelt names.

A name that occurs once is compared generously with those that occur more often. Two names are near if they differ by
one letter that is added, left out, changed or swapped with the next one, or if they agree but for accents, vowels and
doubled letters and are similar overall. Names that differ in their digits are never near ("table 1", "table 2"), nor
those that differ in a short word ("type A", "type B") by more than a swap, nor those in scripts that write a word with
one character.

If both occur once, as fine labels do, or both more often, each was probably meant, and real names are often a
letter apart ("peach", "perch"; "carrot", "parrot"; "noodle", "noodles"). Then the rule is stricter: one letter inside a
long word, neither its first nor its last, in a word that few names have. Differences in accents, and in where words
are joined, count as well.

To find near names among many, every name is hashed with each of its letters left out, and only names that share a hash
are compared. So the time is linear in the letters, not quadratic in the names.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from difflib import SequenceMatcher

import numpy as np
from jaxtyping import Int

from finegraph.errors import near_matches
from finegraph.graph.kind import IntArray
from finegraph.graph.names import fold

_MAX_LENGTH = 64
"""Longer names are not compared; each letter of a name costs a hash of the name."""
_MIN_SIMILARITY = 0.8
"""How similar two names that agree but for vowels must be; "resteraunt" and "restaurant" reach 0.8."""
_SHORT_WORD = 5
_LONG_WORD = 6
"""In words of at least this length, changing one letter rarely makes another word."""
_COMMON_WORD_COUNT = 3
"""A word in at least this many names is not a misspelling."""
_MIN_SERIES = 20
"""This many names that agree but for a letter are a series, not misspellings."""
_FIRST_WORD_SIGN = "\u2e80"
"""From here on, Unicode holds mostly scripts in which one character is a word."""
_BREAKS = re.compile(r"[\W_]+")
_DIGITS = re.compile(r"\d+")
_VOWELS = re.compile(r"[aeiouy\W_]")
_DOUBLED = re.compile(r"(.)\1+")


class SpellingHints:
    """Hints of the form "did you mean ...?", as many as a message needs.

    Comparing a name with thousands of others is slow, so only the first few names get a hint.
    """

    def __init__(self, max_count: int = 10) -> None:
        self._left = max_count

    def hint(self, name: str, choices: Collection[str]) -> str | None:
        """The near matches of a name as a question; None if there are none, or the limit is reached."""
        if self._left <= 0 or len(name) > _MAX_LENGTH:
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


def misspelt(names: Sequence[str], counts: Int[IntArray, " label"]) -> list[tuple[int, int]]:
    """Pairs (misspelt, meant): each name that may be misspelt, and the name that was probably meant.

    Args:
        names: the labels of a kind, or fine labels.
        counts: how often each occurs.
    """
    folded = [fold(name) for name in names]
    return sorted({**dict(_slips(folded, counts)), **dict(_rare(folded, counts))}.items())


def _rare(folded: Sequence[str], counts: IntArray) -> list[tuple[int, int]]:
    """Pairs of a name that occurs once and a near one that occurs more often."""
    usual = [int(i) for i in np.argsort(-counts, kind="stable") if counts[i] > 1]
    rare = [int(i) for i in np.flatnonzero(counts == 1)]
    if not usual or not rare:
        return []
    usual_hashes, usual_owner = _hashes(folded, usual)
    rare_hashes, rare_owner = _hashes(folded, rare)
    if not len(usual_hashes) or not len(rare_hashes):
        return []
    # Of the names that share a hash, the first one, which is the most frequent, is kept.
    known, first = np.unique(usual_hashes, return_index=True)
    place = np.minimum(np.searchsorted(known, rare_hashes), len(known) - 1)
    hit = known[place] == rare_hashes
    candidates = sorted(set(zip(rare_owner[hit].tolist(), usual_owner[first[place[hit]]].tolist(), strict=True)))
    found: dict[int, int] = {}
    for one, other in candidates:
        better = one not in found or counts[other] > counts[found[one]]
        if better and near(folded[one], folded[other]):
            found[one] = other
    return list(found.items())


def _slips(folded: Sequence[str], counts: IntArray) -> Iterator[tuple[int, int]]:
    """Pairs of names that both occur once, or both more often, and differ by a likely misspelling."""
    plain = [_plain(name) if len(name) <= _MAX_LENGTH and max(name) < _FIRST_WORD_SIGN else "" for name in folded]
    buckets: dict[int, list[int]] = {}
    for index, name in enumerate(plain):
        if name and counts[index] > 0:
            for key in _slip_hashes(name):
                buckets.setdefault(key, []).append(index)
    pairs = {
        (one, other)
        for members in buckets.values()
        if 1 < len(members) <= _MIN_SERIES
        for place, one in enumerate(members)
        for other in members[place + 1 :]
        if folded[one] != folded[other] and (counts[one] > 1) == (counts[other] > 1)
    }
    if not pairs:
        return
    uses = Counter(word for name in plain for word in set(_BREAKS.split(name)))
    for one, other in sorted(pairs):
        words = _slip(plain[one], plain[other])
        if words is not None and min(uses[word] for word in words) < _COMMON_WORD_COUNT:
            weights = [(int(counts[index]), uses[word]) for index, word in zip((one, other), words, strict=True)]
            yield (one, other) if weights[0] < weights[1] else (other, one)


def _slip_hashes(name: str) -> set[int]:
    """The hashes of a name without breaks between its words, and with each inner letter of a long word left out."""
    words = _BREAKS.split(name)
    hashes = {hash("".join(words))}
    for place, word in enumerate(words):
        if len(word) >= _LONG_WORD:
            before, after = "".join(words[:place]), "".join(words[place + 1 :])
            hashes |= {hash(before + word[:i] + word[i + 1 :] + after) for i in range(1, len(word) - 1)}
    return hashes


def _slip(one: str, other: str) -> tuple[str, str] | None:
    """The words in which two names differ, if that is a slip; the names themselves if only accents or breaks differ."""
    if _DIGITS.findall(one) != _DIGITS.findall(other):
        return None
    words, others = _BREAKS.split(one), _BREAKS.split(other)
    if "".join(words) == "".join(others):
        return (one, other) if len("".join(words)) >= _LONG_WORD else None
    if len(words) != len(others):
        return None
    changed = [(a, b) for a, b in zip(words, others, strict=True) if a != b]
    if len(changed) > 1:
        return None
    [(word, other_word)] = changed
    inside = word[0] == other_word[0] and word[-1] == other_word[-1]
    # A changed letter makes another word more often than an added, missing or swapped one: "butter", "bitter".
    another = len(word) == len(other_word) and not _swapped(word, other_word)
    long = min(len(word), len(other_word)) >= _LONG_WORD + another
    return (word, other_word) if inside and long and _one_edit(word, other_word) else None


def near(one: str, other: str) -> bool:
    """Whether one of two folded names may be a misspelling of the other; False if they are equal."""
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
    return (
        _skeleton(one) == _skeleton(other)
        and SequenceMatcher(None, one, other, autojunk=False).ratio() >= _MIN_SIMILARITY
    )


def _short(one: str, other: str) -> bool:
    """Whether two words are so short that one letter makes another word."""
    return min(len(one), len(other)) < _SHORT_WORD - 1 or max(len(one), len(other)) < _SHORT_WORD


def _swapped(one: str, other: str) -> bool:
    """Whether two words of three or more letters have the same letters, so that only a swap can be a single edit."""
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
    """The hashes of names and of their skeletons, with each letter left out, and which name each belongs to."""
    hashes, owners = array("q"), array("q")
    for index in chosen:
        name = folded[index]
        if not _SHORT_WORD - 1 <= len(name) <= _MAX_LENGTH:
            continue
        digits = "\0".join(_DIGITS.findall(name))
        own = {hash((digits, name[:i] + name[i + 1 :])) for i in range(len(name))}
        own |= {hash((digits, name)), hash((digits, _skeleton(name), "skeleton"))}
        hashes.extend(own)
        owners.extend([index] * len(own))
    return np.array(hashes, dtype=np.int64), np.array(owners, dtype=np.int64)
