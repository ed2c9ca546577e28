"""Names for groups of fine labels: what their members share and others lack.

    apple                         a word that nearly all members have, and few others
    dairy: whole milk, yoghurt    a coarse label, likewise
    apple, pear and 1 more        words that each stand for some of the members
    group 7: herring gull ...     nothing is shared: some of the members

A word or coarse label counts if it is far more frequent in the group than outside (its lift), so that what most fine
labels have ("with") names nothing. Short words that join others in European languages are passed over, too. Shared
words stand in the order, and are spelt, as in the names. Cost: linear in the letters of all names, once per graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from finegraph.graph.kind import BINARY_LABELS, Kind
from finegraph.graph.kind_columns import GROUP_SEPARATOR
from finegraph.graph.label_graph import LabelGraph
from finegraph.graph.names import spelt_words, words_of

LOOK, CONFUSED, TREE = "look", "often confused", "tree"
"""The names of kinds of groups that photos gave: of similar fine labels, of confused ones, and of a tree."""
_MIN_SHARE, _MIN_LIFT, _MAX_OUTSIDE = 0.75, 2.0, 0.5
"""What a shared word or coarse label needs: the share of members, how many times that of others, and at most this."""
_MAX_SHARED, _MAX_PARTS, _MAX_LETTERS = 10, 3, 40
"""How many shared words a name has, how many words stand for parts of a group, and how long a listed name is."""
JOINING = frozenset(
    # of English, German, the Romance languages, Dutch, Swedish
    {"and", "at", "by", "for", "from", "in", "no", "not", "of", "on", "or", "the", "to", "with", "without"}
    | {"den", "der", "des", "die", "mit", "ohne", "und", "vom", "von", "zu"}
    | {"al", "alla", "au", "aux", "avec", "con", "da", "de", "del", "della", "di", "du", "en", "et", "il", "la", "las"}
    | {"le", "les", "los", "non", "ou", "sans", "sin", "sur", "un", "une"}
    | {"från", "med", "met", "och", "og", "van"}
)
"""Words that join others and describe nothing by themselves."""


def is_found(kind: str) -> bool:
    """Whether a kind has the name of groups that photos gave, such as `look 1`."""
    base, _, number = kind.partition(" (")[0].rpartition(" ")
    return (base if number.isdecimal() else kind.partition(" (")[0]) in (LOOK, CONFUSED, TREE)


def group_kind(graph: LabelGraph, groups: Int[NDArray[np.int64], " fine"], name: str) -> Kind:
    """A kind whose labels are groups, named after what their members share; -1 is in no group."""
    count = int(groups.max(initial=-1)) + 1
    rows = [np.flatnonzero(groups == number) for number in range(count)]
    first = [group_name(graph, own, number + 1) for number, own in enumerate(rows)]
    twice = {label for label, times in Counter(first).items() if times > 1}
    labels: list[str] = []
    for number, own in enumerate(rows):
        label = first[number]
        if label in twice and len(own) > 1:  # two groups of apples: which are in each says more than a number
            label = f"{label}: {_listed(graph, own)}"
        labels.append(f"{label} ({number + 1})" if label in labels else label)
    return Kind.from_parents(name, labels, groups)


def group_name(graph: LabelGraph, members: Int[NDArray[np.int64], " row"], number: int | None = None) -> str:
    """A name for a group.

    Args:
        graph: the label graph.
        members: its fine labels.
        number: the number of the group, for one whose members share nothing.

    Example:
        >>> rows = {"red apple": {}, "green apple": {}, "oat milk": {}, "rice milk": {}, "soap": {}}
        >>> group_name(LabelGraph.from_table(rows), np.array([0, 1]))
        'apple'
    """
    if len(members) == 1:
        return graph.fine[int(members[0])]
    words = _words(graph.fine)
    shares = _shares(words, members)
    shared = _spelt(graph, members, {word for word, share in shares.items() if share >= _MIN_SHARE})
    if shared:
        return shared
    coarse = _shared_labels(graph, members)
    listed = _listed(graph, members)
    if coarse:
        return f"{coarse}: {listed}"
    parts = _parts(graph, words, members, shares)
    if parts:
        return parts
    return listed if number is None or len(members) <= 2 else f"group {number}: {listed}"


# ---- words -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _words(fine: Sequence[str]) -> tuple[tuple[frozenset[str], ...], Counter[str]]:
    """The words of each name, and how many names have each."""
    own = tuple(frozenset(words_of(name)) for name in fine)
    return own, Counter(word for words in own for word in words)


def _shares(words: tuple[tuple[frozenset[str], ...], Counter[str]], members: NDArray[np.int64]) -> dict[str, float]:
    """The share of members that have each telling word: one that is far more frequent in the group than outside."""
    own, counts = words
    inside = Counter(word for row in members.tolist() for word in own[row])
    size, others = len(members), max(len(own) - len(members), 1)
    found = {}
    for word, count in inside.items():
        outside = (counts[word] - count) / others
        if word in JOINING or (len(word) < 2 and word.isascii()) or outside > _MAX_OUTSIDE:
            continue
        if count > 1 and count / size >= _MIN_LIFT * outside:
            found[word] = count / size
    return found


def _spelt(graph: LabelGraph, members: NDArray[np.int64], chosen: set[str]) -> str:
    """Chosen words in the order, and as they are spelt, in the first name that has most of them."""
    if not chosen:
        return ""
    rows = members.tolist()
    name = max((graph.fine[row] for row in rows), key=lambda one: len(chosen & set(words_of(one))))
    phrases: list[list[str]] = [[]]
    between: list[str] | None = []  # the joining words since the last chosen one; None if others came, too
    for run, words in spelt_words(name):
        for part in _chosen_parts(run, words, chosen):
            if between is None and phrases[-1]:
                phrases.append([])
            phrases[-1] += [*(between or []), part] if phrases[-1] else [part]
            between = []
        if not words or (words[0] in JOINING and len(words) == 1):
            between = None if between is None else [*between, run]
        elif not any(word in chosen for word in words):
            between = None
    kept, left = [], _MAX_SHARED
    for phrase in phrases:
        kept.append(" ".join(phrase if len(phrase) <= left else [*phrase[:left], "…"]))
        left -= len(phrase)
        if left <= 0:
            break
    return ", ".join(dict.fromkeys(kept))


def _chosen_parts(run: str, words: Sequence[str], chosen: set[str]) -> list[str]:
    """The parts of a run of letters that chosen words cover."""
    if len(words) == 1:
        return [run] if words[0] in chosen else []
    kept = [False] * len(run)  # a script without spaces: the signs of neighbouring pairs
    for place, word in enumerate(words):
        if word in chosen and place + 1 < len(run):
            kept[place] = kept[place + 1] = True
    return "".join(sign if keep else " " for sign, keep in zip(run, kept, strict=True)).split()


def _parts(
    graph: LabelGraph,
    words: tuple[tuple[frozenset[str], ...], Counter[str]],
    members: NDArray[np.int64],
    shares: dict[str, float],
) -> str:
    """Words that each stand for some members, if together they stand for most; else nothing."""
    own, _ = words
    found: list[str] = []
    left = set(members.tolist())
    while left and len(found) < _MAX_PARTS:
        having = {word: {row for row in left if word in own[row]} for word in shares}
        word = max(having, key=lambda one: (len(having[one]), shares[one], one), default="")
        if not word or len(having[word]) < 2:
            break
        found.append(_spelt(graph, np.array(sorted(having[word])), {word}))
        left -= having[word]
    if not found or len(left) > (1.0 - _MIN_SHARE) * len(members):
        return ""
    return ", ".join(found) + (f" and {len(left)} more" if left else "")


# ---- coarse labels and members ---------------------------------------------------------------------------------------


def _shared_labels(graph: LabelGraph, members: NDArray[np.int64]) -> str:
    """The coarse labels, at most two, that nearly all members have and few others."""
    found: list[tuple[float, str]] = []
    names = [graph.fine[row] for row in members.tolist()]
    others = max(len(graph) - len(members), 1)
    for kind in (graph.kind(kind) for kind in graph.kinds):
        if is_found(kind.name):
            continue
        inside = kind.rows(members).matrix().sum(axis=0)
        label = BINARY_LABELS.index("yes") if kind.binary else int(inside.argmax())
        share = float(inside[label]) / len(members)
        outside = (float(kind.weight[kind.coarse == label].sum()) - float(inside[label])) / others
        if share < _MIN_SHARE or outside > _MAX_OUTSIDE or share < _MIN_LIFT * outside:
            continue
        text = kind.name.partition(GROUP_SEPARATOR)[2] or kind.name if kind.binary else kind.labels[label]
        if not any(name in text for name in names):  # such a label would be no more than a list
            found.append((outside / share, text))
    found.sort(key=lambda one: one[0])
    return ", ".join(dict.fromkeys(text for _, text in found[:2]))


def _listed(graph: LabelGraph, members: NDArray[np.int64]) -> str:
    """The first names of a group, and how many more there are."""
    names = [short_name(graph.fine[row]) for row in members[:2].tolist()]
    return ", ".join(names) + (f" and {len(members) - 2} more" if len(members) > 2 else "")


def short_name(name: str) -> str:
    """The name, or its beginning up to the end of a word."""
    if len(name) <= _MAX_LETTERS:
        return name
    cut = name[:_MAX_LETTERS]
    return (cut.rsplit(" ", 1)[0] if " " in cut[_MAX_LETTERS // 2 :] else cut).rstrip(" ,;@") + " …"
