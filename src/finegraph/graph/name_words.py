"""The words of names, in any script.

Names are cut at everything but letters, digits and the marks that belong to letters, between letters and digits, and
where a large letter follows a small one ("RoyalGala"). Case and accents do not count. In scripts that put no spaces
between words each pair of neighbouring signs is a word, so that names which share a part share words. Cost: linear in
the letters.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import groupby

_FIRST_WORD_SIGN = "\u2e80"
"""From here on Unicode has mostly scripts that write words without spaces between them."""
_ACCENT = 10
"""Marks of this combining class or above are accents and points; those below change the letter that they belong to."""
_RUNS = re.compile(r"[0-9]+|[A-Za-z]+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


def words_of(name: str) -> list[str]:
    """The words of a name in their order, in the form in which they are compared.

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


def _form(sign: str) -> str:
    """What a sign is part of: a number, a word, signs that are words, or nothing."""
    group = unicodedata.category(sign)[0]
    if group == "N":
        return "number"
    if group not in "LM":
        return ""
    return "signs" if sign >= _FIRST_WORD_SIGN else "word"
