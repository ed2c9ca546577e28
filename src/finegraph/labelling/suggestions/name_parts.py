"""Finds labels in the names of classes, also labels that do not exist yet. Pure, no database.

"mapo tofu @ Lei Garden" has its dish before the "@" and its restaurant after it, "2012 BMW M3 Coupe" its year as the
first word. The place of the labels of a kind is learnt from decided classes: each votes for all places where its own
label stands in its name, and the place that is right most often is read in the names of the others. Its score is
(right + 1) / (all + 2). Cost: linear in the names that are learnt from, at most 500 per kind.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product

from finegraph.graph.kind import BINARY_LABELS
from finegraph.graph.names import name_fault
from finegraph.labelling.store.current_rows import search_form
from finegraph.labelling.store.graph_columns import StoreColumn
from finegraph.labelling.suggestions.proposals import Proposal

_SEPARATORS = {
    "@": r"@",
    "|": r"\|",
    "/": r"/",
    ":": r":",
    ";": r";",
    ",": r",",
    "(": r"[()\[\]{}]",
    "-": r"\s[-–—]\s|[–—]",
    "·": r"[·•]",
    ".": r"(?<=\d)\.(?=\D)",
}
_MAX_EXAMPLES = 500
_MAX_PLACES = 24
"""How many places are compared: those with the most votes."""
_MAX_LENGTH = 80
_MIN_SCORE = 0.6
_MIN_SHARE = 0.5
"""The share of names from which a word that they contain, such as "at", counts as a separator."""


@dataclass(frozen=True)
class Place:
    """A place in a name.

    Attributes:
        separator: what separates the parts of the name; None for the whole name.
        part: which part, from the start (0, 1, ...) or from the end (-1, -2, ...).
        words: the first word and the one after the last, each from the start or from the end; None for the whole part.
    """

    separator: str | None = None
    part: int = 0
    words: tuple[int, int | None] | None = None

    def find(self, name: str) -> str | None:
        """The text at this place of a name; None if there is none."""
        parts = _parts(name, self.separator)
        if not -len(parts) <= self.part < len(parts):
            return None
        words = _words(parts[self.part])
        chosen = words if self.words is None else words[slice(*self.words)]
        if self.words is not None and len(chosen) == len(words):
            return None  # a place of some words does not match a whole part
        return " ".join(chosen).strip(" ,.;:-") or None

    @property
    def rank(self) -> int:
        """The rank among places that are right equally often; simpler places come first."""
        whole, all_words = self.separator is None, self.words is None
        return {(False, True): 0, (True, False): 1, (False, False): 2, (True, True): 3}[whole, all_words]

    @property
    def examples(self) -> int:
        """How many examples it needs: one for a whole part between separators, which is hardly there by chance."""
        return 1 if self.words is None and self.separator is not None else 2

    def __str__(self) -> str:
        if self.words is not None:
            first, last = self.words
            single = last == first + 1 or (first == -1 and last is None)
            where = "first" if first == 0 else "last" if last is None else "same"
            text = f"the {where} word{'' if single else 's'}"
        else:
            text = "what stands"
        if self.separator is None:
            return f"{text} of the name"
        side = "before" if self.part == 0 else "after" if self.part in (-1, 1) else "between"
        return f"{text} {side} {self.separator!r}"


@cache
def _pattern(separator: str) -> re.Pattern[str]:
    return re.compile(_SEPARATORS.get(separator, rf"\s{re.escape(separator)}\s"))


def _parts(name: str, separator: str | None) -> list[str]:
    """The parts of a name; none if it has no such separator."""
    if separator is None:
        return [name]
    parts = [part for part in _pattern(separator).split(name) if part.strip(" _")]
    return parts if len(parts) > 1 else []


def _words(part: str) -> list[str]:
    return part.replace("_", " ").split()


@dataclass(frozen=True)
class LabelPlace:
    """The place of the labels of a kind in the names of classes.

    Attributes:
        kind: the kind.
        place: the place.
        right: how many decided classes have their label there.
        count: how many decided classes have any text there.
        labels: the labels of the kind by their search form.
    """

    kind: str
    place: Place
    right: int
    count: int
    labels: Mapping[str, str] = field(repr=False)

    @property
    def score(self) -> float:
        """The estimated probability that a label found there is right."""
        return (self.right + 1) / (self.count + 2)

    def propose(self, fine: str) -> Proposal | None:
        """The label at this place of a name; it may be one that the kind does not have yet."""
        text = self.place.find(fine)
        if text is None:
            return None
        label = self.labels.get(search_form(text))
        if label is None and (len(text) > _MAX_LENGTH or not any(map(str.isalnum, text)) or name_fault(text)):
            return None
        reason = f"{self.place}, as in {self.right} of {self.count} decided classes"
        return Proposal(fine, self.kind, label or text, "name", self.score, reason)


def learn_places(fine: Sequence[str], columns: Sequence[StoreColumn]) -> dict[str, LabelPlace]:
    """The place of the labels of each kind in the names of the classes, for kinds where it can be learnt."""
    separators = _separators(fine)
    places = {}
    for column in columns:
        if column.mode == "one" and column.labels != BINARY_LABELS:
            place = _learn(column, list(_examples(fine, column)), separators)
            if place is not None:
                places[column.name] = place
    return places


def _separators(fine: Sequence[str]) -> tuple[str, ...]:
    """The separators in these names: signs, and words that occur inside many of them."""
    names = fine[:: max(1, len(fine) // _MAX_EXAMPLES)]
    signs = [sign for sign in _SEPARATORS if any(_pattern(sign).search(name) for name in names)]
    inside = Counter(word for name in names for word in set(name.split()[1:-1]) if word.isalpha())
    common = [word for word, count in inside.items() if count >= max(3, _MIN_SHARE * len(names))]
    return (*signs, *common)


def _examples(fine: Sequence[str], column: StoreColumn) -> Iterator[tuple[str, str]]:
    """Names with their labels, from classes with one label, spread evenly over all of them."""
    decided = [row for row, cell in enumerate(column.cells) if cell is not None and len(cell) == 1]
    for row in decided[:: max(1, -(-len(decided) // _MAX_EXAMPLES))]:
        [(label, _)] = column.cells[row] or ()
        yield fine[row], search_form(column.labels[label])


def _learn(column: StoreColumn, examples: Sequence[tuple[str, str]], separators: Sequence[str]) -> LabelPlace | None:
    votes = Counter(place for name, label in examples for place in _places(name, label, separators))
    labels = {search_form(label): label for label in column.labels}
    best: LabelPlace | None = None
    ranked = sorted(votes, key=lambda place: (-votes[place], place.rank, str(place)))
    for place in ranked[:_MAX_PLACES]:
        count = sum(place.find(name) is not None for name, _ in examples)
        candidate = LabelPlace(column.name, place, votes[place], count, labels)
        if best is None or candidate.score > best.score:
            best = candidate
    return best if best is not None and best.right >= best.place.examples and best.score >= _MIN_SCORE else None


def _places(name: str, label: str, separators: Sequence[str]) -> set[Place]:
    """All places of a name that hold a label, counted from the start and from the end."""
    places = set()
    for separator in (None, *separators):
        parts = _parts(name, separator)
        for index, part in enumerate(parts):
            words = _words(part)
            for words_at in _word_places(words, label):
                for number in {index, index - len(parts)} if separator is not None else {0}:
                    places.add(Place(separator, number, words_at))
    return {place for place in places if search_form(place.find(name) or "") == label}


def _word_places(words: Sequence[str], label: str) -> Iterator[tuple[int, int | None] | None]:
    """The ranges of words that make a label; None for all words."""
    if search_form(" ".join(words)) == label:
        yield None
        return
    size, length = len(words), len(label.split())
    for first in range(size - length + 1):
        if search_form(" ".join(words[first : first + length])).strip(" ,.;:-") == label:
            last = first + length
            yield from product((first, first - size), (last, last - size if last < size else None))
