"""The width of text in a drawing: a safe estimate, since the reader's font is unknown."""

from __future__ import annotations

import unicodedata

ELLIPSIS = "…"
WIDTHS = {
    **dict.fromkeys("ijlI.,:;'|! ", 0.34),
    **dict.fromkeys("frt()[]-", 0.42),
    **dict.fromkeys("mwMW@%", 1.0),
}
"""The widths of unusually narrow or wide characters, relative to the font size."""


def text_width(text: str, size: float, bold: bool = False) -> float:
    """The width of text in a font of a size."""
    return size * (1.1 if bold else 1.0) * sum(_em(character) for character in text)


def shorten_to_width(text: str, width: float, size: float, bold: bool = False) -> str:
    """Shorten text to a width in the middle: names may differ at either end, so both are kept."""
    if text_width(text, size, bold) <= width + 0.01:
        return text
    room = width - text_width(ELLIPSIS, size, bold)
    head = tail = 0
    used = 0.0
    while head + tail < len(text):
        from_head = head <= 1.5 * tail
        used += text_width(text[head] if from_head else text[-1 - tail], size, bold)
        if used > room:
            break
        head, tail = (head + 1, tail) if from_head else (head, tail + 1)
    return text[:head].rstrip() + ELLIPSIS + (text[-tail:].lstrip() if tail else "")


def _em(character: str) -> float:
    """The width of a character relative to the font size."""
    if unicodedata.combining(character):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.05
    return WIDTHS.get(character, 0.72 if character.isupper() else 0.62)
