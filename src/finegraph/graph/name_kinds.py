"""Kinds found in the names of fine labels: parts between separators, first and last words, numbers, shared words.

"mapo tofu @ Lei Garden" has two parts, "2012 BMW M3 Coupe" begins with a year, "Granny Smith apple" ends with what it
is, "whole milk" and "oat milk" share a word. A part becomes a kind if fine labels share its labels; one that is
different for each says nothing. Words are compared without case, accents and a plural s. Cost: linear in the letters
of all names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from finegraph.graph.group_names import JOINING
from finegraph.graph.kind import BINARY_LABELS, Kind
from finegraph.graph.kind_columns import GROUP_SEPARATOR
from finegraph.graph.names import name_fault, spelt_words, words_of
from finegraph.graph.number import Number

_SIGNS = ("@", "|", "/", ";", ":", ",", " - ", " – ", " — ", "·", "(")
_MIN_NAME_SHARE = 0.6
"""The share of names that must have the same number of parts, or a number at the same place."""
_MIN_SHARED = 0.3
"""The share of fine labels that must share their label with another."""
_MAX_WORDS = 30
_MAX_LENGTH = 80


@dataclass(frozen=True, eq=False, kw_only=True)
class NameKind:
    """Kinds, or a kind of numbers, suggested by names.

    Attributes:
        reason: where in the names it was found.
        kinds: the kinds; several for a group of binary kinds.
        number: the kind of numbers, if it is one.
        shared: the share of fine labels whose label another one has too.
    """

    reason: str
    kinds: tuple[Kind, ...] = ()
    number: Number | None = None
    shared: float

    @property
    def name(self) -> str:
        """What it is called."""
        if self.number is not None:
            return self.number.name
        return self.kinds[0].name.partition(GROUP_SEPARATOR)[0] if len(self.kinds) > 1 else self.kinds[0].name


def kinds_from_names(fine: Sequence[str]) -> list[NameKind]:
    """The kinds suggested by the names of fine labels, the most widely shared first.

    Args:
        fine: the fine labels.

    Example:
        >>> found = kinds_from_names(["ramen @ A", "ramen @ B", "udon @ A", "udon @ B"])
        >>> [(one.name, one.kinds[0].labels) for one in found]
        [('before @', ('ramen', 'udon')), ('after @', ('A', 'B'))]
    """
    if len(fine) < 2:
        return []
    found = [*_parts(fine), *_numbers(fine)]
    if not any(one.kinds for one in found):
        found += _ends(fine)
    found += _words(fine, [kind for one in found for kind in one.kinds])
    distinct: dict[tuple[int, ...], NameKind] = {}
    for one in found:
        key = tuple(one.kinds[0].parents.tolist()) if len(one.kinds) == 1 else (id(one),)
        distinct.setdefault(key, one)
    return sorted(distinct.values(), key=lambda one: -one.shared)


def _parts(fine: Sequence[str]) -> Iterable[NameKind]:
    """Kinds of the parts between separators."""
    for sign in _SIGNS:
        split = [[part.strip(" _)") for part in name.split(sign)] for name in fine]
        count, names = Counter(map(len, split)).most_common(1)[0]
        if count < 2:
            sizes = Counter(len(parts) for parts in split if len(parts) > 1)
            count, names = sizes.most_common(1)[0] if sizes else (1, 0)
        if count < 2 or count > 6 or names < _MIN_NAME_SHARE * len(fine):
            continue
        for place in range(count):
            side = "before" if place == 0 else "after" if place == count - 1 else f"part {place + 1} between"
            texts = [parts[place] if len(parts) == count else "" for parts in split]
            yield from _kind(f"{side} {sign.strip()}", f"what stands {side} {sign.strip()!r}", texts)


def _ends(fine: Sequence[str]) -> Iterable[NameKind]:
    """Kinds of first and last words that several names have."""
    words = [[word for word in _spaced_words(name) if not word.isdecimal()] for name in fine]
    ends: tuple[tuple[str, Callable[[list[str]], str]], ...] = (
        ("last word", lambda own: own[-1] if len(own) > 1 else ""),
        ("first word", lambda own: own[0] if len(own) > 1 else ""),
    )
    for name, pick in ends:
        texts = [pick(own) for own in words]
        counts = Counter(map(_stem, texts))
        yield from _kind(name, f"the {name}", [text if counts[_stem(text)] > 1 else "" for text in texts])


def _spaced_words(name: str) -> list[str]:
    """The words of a name; of one without spaces in a script that has none, its pairs of characters."""
    words = words_of(name)
    if name.isascii():
        return words
    runs = [own[0] if len(own) == 1 else run.casefold() for run, own in spelt_words(name)]
    return runs if len(runs) > 1 else words


def _kind(name: str, reason: str, texts: Sequence[str]) -> Iterable[NameKind]:
    """The kind whose labels are texts; an empty or unusable one is unknown."""
    forms = [_stem(text) for text in texts]
    shown: dict[str, str] = {}
    for form, text in zip(forms, texts, strict=True):
        if text and len(text) <= _MAX_LENGTH and any(map(str.isalnum, text)) and not name_fault(text):
            shown.setdefault(form, text)
    counts = Counter(form for form in forms if form in shown)
    shared = sum(count for count in counts.values() if count > 1) / len(texts)
    if len(shown) < 2 or shared < _MIN_SHARED:
        return
    place = {form: number for number, form in enumerate(shown)}
    parents = np.array([place.get(form, -1) for form in forms])
    yield NameKind(reason=reason, kinds=(Kind.from_parents(name, tuple(shown.values()), parents),), shared=shared)


_NUMBER = re.compile(r"\d+(?:[.,]\d+)?")


def _numbers(fine: Sequence[str]) -> Iterable[NameKind]:
    """Kinds of numbers: the first number, or the last, of most names."""
    found = [_NUMBER.findall(name) for name in fine]
    having = sum(map(bool, found))
    if having < _MIN_NAME_SHARE * len(fine):
        return
    for name, place in (("first number", 0), ("last number", -1)):
        if place == -1 and all(len(own) <= 1 for own in found):
            return
        values = np.array([float(own[place].replace(",", ".")) if own else np.nan for own in found])
        known = values[~np.isnan(values)]
        counts = Counter(known.tolist())
        shared = sum(count for count in counts.values() if count > 1) / len(fine)
        if len(counts) < 2 or shared < _MIN_SHARED or known.max() >= 1e12:
            continue
        is_year = bool(((known >= 1000) & (known < 2200) & (known == np.round(known))).all())
        title = "year" if is_year else name
        yield NameKind(
            reason=f"the {name} of the name", number=Number(title, values, np.zeros_like(values)), shared=shared
        )


def _words(fine: Sequence[str], others: Sequence[Kind]) -> Iterable[NameKind]:
    """A group of binary kinds: which shared words a name contains.

    Words that the same names have are one ("clay pot"). Those that join others are left out, and so are those that say
    what a label of another kind says ("Willow" and "Kitchen" of "@ Willow Kitchen").
    """
    lists = [{_stem(word): word for word in words_of(name) if not word.isdecimal()} for name in fine]
    having: dict[str, list[int]] = {}
    for row, own in enumerate(lists):
        for form in own:
            having.setdefault(form, []).append(row)
    least = max(2, round(0.02 * len(fine)))
    together: dict[tuple[int, ...], list[str]] = {}
    for form, rows in having.items():
        if least <= len(rows) <= 0.5 * len(fine) and len(form) > 2 and form not in JOINING:
            together.setdefault(tuple(rows), []).append(form)
    news = (rows for rows in together if not any(is_label(kind, np.array(rows)) for kind in others))
    usual = sorted(news, key=len, reverse=True)[:_MAX_WORDS]
    if len(usual) < 2:
        return
    kinds: dict[str, Kind] = {}
    for names in usual:
        has = np.zeros(len(fine), dtype=np.int64)
        has[list(names)] = 1
        first = lists[names[0]]
        shown = " ".join(first[form] for form in first if form in together[names])
        name = f"word{GROUP_SEPARATOR}{shown}"
        kinds.setdefault(name, Kind.from_parents(name, BINARY_LABELS, has))
    shared = len({row for rows in usual for row in rows}) / len(fine)
    if shared >= _MIN_SHARED:
        yield NameKind(reason="words that names share", kinds=tuple(kinds.values()), shared=shared)


def is_label(kind: Kind, rows: Int[NDArray[np.int64], " row"]) -> bool:
    """Whether a label of a kind belongs to exactly these fine labels.

    Args:
        kind: a kind that gives each fine label at most one label.
        rows: the fine labels.
    """
    label = kind.parents[rows[0]]
    having = kind.parents == label
    return bool(label >= 0 and having.sum() == len(rows) and having[rows].all())


def _stem(text: str) -> str:
    """The text in the form used for comparison: without case, and without the s or es of a plural."""
    form = " ".join(text.casefold().split())
    if form.endswith("oes") and len(form) > 5:
        return form[:-2]
    return form[:-1] if form.endswith("s") and not form.endswith("ss") and len(form) > 4 else form
