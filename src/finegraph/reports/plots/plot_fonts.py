"""Fonts for the names in plots, whatever they are written in.

Figures are drawn with one font that every installation has. It knows Latin, Greek, Cyrillic, Hebrew and Arabic letters,
but no Chinese, Japanese or Korean ones. Where names need more, the fonts of the system are looked through, those that
are made for it first, and the first that have the missing characters are put behind it. What no font has is drawn as a
box, and a note says once what to install. The same names on the same system give the same fonts. Cost: nothing where
the one font is enough; else reading the tables of some fonts, a few milliseconds each.
"""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

FIRST = "DejaVu Sans"
_PREFERRED = (
    *("Noto Sans CJK SC", "Noto Sans CJK TC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Source Han Sans SC"),
    *("Noto Sans SC", "Noto Sans JP", "Noto Sans KR", "PingFang SC", "Hiragino Sans", "Apple SD Gothic Neo"),
    *("Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "WenQuanYi Zen Hei", "IPAexGothic", "NanumGothic"),
    *("Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari", "Noto Sans Thai", "Arial Unicode MS"),
)
_UNFIT = ("Last Resort", "LastResort", "Emoji", "STIX", "cmex10", "cmsy10", "cmmi10")
"""Parts of names of fonts that draw boxes, colours or formulas rather than names."""
_MAX_FONTS = 600
"""How many fonts are looked into at most."""
_EAST_ASIAN = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "FULLWIDTH")


@dataclass(frozen=True)
class Fonts:
    """The fonts of some names.

    Attributes:
        families: in the order in which they are asked for a character.
        missing: the characters that none of them has.
    """

    families: tuple[str, ...]
    missing: str = ""

    @property
    def note(self) -> str | None:
        """What to tell people; None if every character has a font."""
        if not self.missing:
            return None
        shown = ", ".join(f"{letter} (U+{ord(letter):04X})" for letter in self.missing[:3])
        count = f"{len(self.missing):,} characters" if len(self.missing) > 1 else "a character"
        return (
            f"the plots have boxes in place of {count} that no installed font has: {shown}"
            f"{' and so on' if len(self.missing) > 3 else ''}; install {_advice(self.missing)} and draw them again. "
            "The page shows them in any browser that has such a font"
        )


def fonts_for(texts: Iterable[str]) -> Fonts:
    """The fonts that some texts need."""
    from matplotlib import font_manager

    wanted = {letter for text in texts for letter in text if _is_drawn(letter)}
    first = font_manager.FontProperties(family=FIRST)
    wanted -= _letters(font_manager.findfont(first))
    families = [FIRST]
    for entry in _candidates(font_manager) if wanted else ():
        covered = wanted & _letters(entry.fname, getattr(entry, "index", 0))
        if covered:
            families.append(entry.name)
            wanted -= covered
        if not wanted:
            break
    return Fonts(tuple(families), "".join(sorted(wanted)))


@contextmanager
def without_glyph_warnings() -> Iterator[None]:
    """Report missing characters once, in our own words, and not once for each."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(?s)Glyph \d+ .*missing from", category=UserWarning)
        yield


def _is_drawn(letter: str) -> bool:
    """Whether a character shows: no control character, no mark that steers, no space, no half of a pair."""
    return unicodedata.category(letter)[0] not in "CZ"


def _letters(path: str, index: int = 0) -> set[str]:
    """The characters of a font; none if the file is not a font that can be drawn with."""
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(path, face_index=index) if index else FT2Font(path)
        return {chr(code) for code in font.get_charmap()} if font.scalable else set()
    except (OSError, RuntimeError):
        return set()


def _candidates(font_manager: Any) -> list[Any]:
    """Fonts to look into: one upright face of each family, the preferred ones first, then by name."""
    manager = font_manager.fontManager
    known = {entry.fname for entry in manager.ttflist}
    for path in sorted(set(font_manager.findSystemFonts()) - known):  # installed since the list was kept
        try:
            manager.addfont(path)
        except (OSError, RuntimeError):  # no font that can be read
            continue
    faces: dict[str, Any] = {}
    for entry in manager.ttflist:
        if not any(part in entry.name for part in _UNFIT) and (
            entry.name not in faces or _plainness(entry) < _plainness(faces[entry.name])
        ):
            faces[entry.name] = entry
    rank = {name: place for place, name in enumerate(_PREFERRED)}
    order = sorted(faces, key=lambda name: (rank.get(name, len(rank)), "Sans" not in name, name))
    return [faces[name] for name in order[:_MAX_FONTS]]


def _plainness(entry: Any) -> tuple[bool, int, str]:
    """How far a face is from an upright one of ordinary weight."""
    weight = entry.weight if isinstance(entry.weight, int) else 400
    return entry.style != "normal", abs(weight - 400), entry.fname


def _advice(missing: str) -> str:
    """Which fonts have the characters."""
    names = [unicodedata.name(letter, "") for letter in missing]
    east = [any(name.startswith(part) for part in _EAST_ASIAN) for name in names]
    listed = ["Noto Sans CJK (the package fonts-noto-cjk on Debian and Ubuntu)"] * any(east)
    listed += ["the Noto fonts of these scripts (fonts-noto)"] * (not all(east))
    return " and ".join(listed)
