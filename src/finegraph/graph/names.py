"""Valid names of fine labels, coarse labels and kinds, and the words of names in any script.

A name is shown to people and written to files, so it must survive both: no white space at its ends, no control
characters, and no two names that differ only in how Unicode composes their letters. Nothing is repaired; a bad name is
reported.

Names are split into words at everything but letters, digits and the marks that belong to letters, between letters
and digits, and where a capital follows a small letter ("RoyalGala"). Case and accents do not count. In scripts that
put no spaces between words, each pair of neighbouring characters is a word, so that names which share a part share
words. Cost: linear in the letters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import groupby

RESERVED_KINDS = frozenset({"fine", "path", "label", "split", "x", "y", "width", "height"})
"""Columns of graph and manifest files; a kind may not have one of these names."""
_FIRST_WORD_SIGN = "\u2e80"
"""From here on Unicode has mostly scripts that write words without spaces between them."""
_ACCENT = 10
"""Marks of this combining class or above are accents and points; those below change the letter that they belong to."""
_RUNS = re.compile(r"[0-9]+|[A-Za-z]+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


def name_fault(name: object) -> str | None:
    """Why `name` cannot be a name, or None when it can."""
    if not isinstance(name, str):
        return f"a name must be text, got {type(name).__name__}"
    if not name:
        return "a name must not be empty"
    if name != name.strip():
        return "a name must not begin or end with white space"
    return control_fault(name)


def control_fault(text: str) -> str | None:
    """Which control character makes the text unusable as a name, or None when there is none."""
    if text.isprintable():  # true of nearly all names, and quick
        return None
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cs"):
            return f"a name must not contain the control character U+{ord(character):04X}"
    return None


def kind_name_fault(name: object) -> str | None:
    """Why `name` cannot be the name of a kind, or None when it can."""
    if isinstance(name, str) and name in RESERVED_KINDS:
        return "this name is taken by a column of the file forms; choose another for the kind"
    return name_fault(name)


def fold(name: str) -> str:
    """The name in the form used to compare names without regard to case and white space."""
    return " ".join(name.casefold().split())


def unicode_twins(names: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of different names that read the same, because Unicode composes their letters in two ways."""
    first: dict[str, str] = {}
    twins = []
    for name in names:
        form = name if name.isascii() else unicodedata.normalize("NFC", name)
        other = first.setdefault(form, name)
        if other != name:
            twins.append((other, name))
    return twins


def words_of(name: str) -> list[str]:
    """The words of a name in order, in the form used for comparison.

    Example:
        >>> words_of("Arla-Lactose_Free.Milk 2012")
        ['arla', 'lactose', 'free', 'milk', '2012']
        >>> words_of("Crème brûlée"), words_of("麻婆豆腐")
        (['creme', 'brulee'], ['麻婆', '婆豆', '豆腐'])
    """
    spaced = _HUMP.sub(" ", name)
    if name.isascii():
        return [run.lower() for run in _RUNS.findall(spaced)]
    found: list[str] = []
    plain = (sign for sign in unicodedata.normalize("NFKD", spaced) if unicodedata.combining(sign) < _ACCENT)
    for form, signs in groupby(plain, _form):
        run = unicodedata.normalize("NFC", "".join(signs)).casefold()
        if form == "signs" and len(run) > 2:
            found += [run[place : place + 2] for place in range(len(run) - 1)]
        elif form:
            found.append(run)
    return found


def spelt_words(name: str) -> list[tuple[str, tuple[str, ...]]]:
    """The runs of letters or digits of a name as they are spelt, each with its words in the form used for comparison.

    Example:
        >>> spelt_words("Crème-brûlée 豆腐脑")
        [('Crème', ('creme',)), ('brûlée', ('brulee',)), ('豆腐脑', ('豆腐', '腐脑'))]
    """
    runs = groupby(unicodedata.normalize("NFC", _HUMP.sub(" ", name)), _form)
    spelt = ["".join(signs) for form, signs in runs if form]
    return [(run, tuple(words_of(run))) for run in spelt]


def _form(sign: str) -> str:
    """What a character belongs to: a number, a word, a script without spaces, or nothing."""
    group = unicodedata.category(sign)[0]
    if group == "N":
        return "number"
    if group not in "LM":
        return ""
    return "signs" if sign >= _FIRST_WORD_SIGN else "word"
