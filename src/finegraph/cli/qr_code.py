"""A QR code in the terminal, so that a phone opens an address without typing.

Two rows of the code make one line of half blocks, black on white whatever the colours of the terminal are. A terminal
that cannot show it, for want of colours, letters or room, gets none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlencode

if TYPE_CHECKING:
    from rich.console import Console

BORDER = 2
"""How many light modules stand around the code; phones need some."""
_BLOCKS = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}


def sign_in_link(address: str, token: str | None) -> str:
    """The address of a page for a phone that does not know the token yet; the page forgets it at once.

    Args:
        address: of the server, with a slash at its end.
        token: what every request must bring; None if there is none.
    """
    return address if token is None else f"{address}?{urlencode({'token': token})}"


def print_qr_code(out: Console, text: str) -> bool:
    """Print the QR code of a text if the terminal can show it; returns whether it did.

    Args:
        out: the terminal.
        text: what the code holds, such as an address.
    """
    import segno
    from rich.text import Text

    if not out.is_terminal or out.color_system is None or not _can_encode(out.encoding):
        return False
    code = segno.make(text, error="l", micro=False)
    rows = [[module != 0 for module in row] for row in code.matrix_iter(border=BORDER)]
    lines = half_blocks(rows)
    if len(lines[0]) > out.width:
        return False
    for line in lines:
        out.print(Text(line, style="#000000 on #ffffff"), soft_wrap=True)
    return True


def half_blocks(rows: Sequence[Sequence[bool]]) -> list[str]:
    """Rows of dark and light modules as lines of half blocks, two rows in each."""
    padded = [*rows, [False] * len(rows[0])] if len(rows) % 2 else rows
    return [
        "".join(_BLOCKS[pair] for pair in zip(above, below, strict=True))
        for above, below in zip(padded[::2], padded[1::2], strict=True)
    ]


def _can_encode(encoding: str) -> bool:
    try:
        "".join(_BLOCKS.values()).encode(encoding)
    except (LookupError, UnicodeEncodeError):
        return False
    return True
