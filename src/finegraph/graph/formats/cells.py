r"""The syntax of the cells of a graph file.

    (empty)          unknown
    tofu             one label
    a|b              one of several, equally likely
    a:0.7|b:0.3      one of several, with relative weights
    tofu & pork      all of them; white space on both sides of `&`, so that `M&M` is a name
    &                known: none of them

A `:` is a weight only if the text after the last one is a number, so `has_bill_shape::dagger` is a name. A backslash
escapes `\ | & : # [ <`, and `= + - @`, which have a meaning only for spreadsheets. White space around `|`
and `&` belongs to them; any other at the end of a name is a fault. `parse_cell` and `format_cell` are each other's
inverse. Linear in the length of the text. Cells of numbers are in `number_cells`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from finegraph.graph.faults import CellError, shorten
from finegraph.graph.kind_columns import TableCell
from finegraph.graph.names import control_fault, name_fault

_SPECIAL = re.compile(r"[\\|&:]")
_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)
FORMULA_SIGNS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""A spreadsheet may evaluate a cell that begins with one of these; after a backslash it is only text."""
_ESCAPABLE = frozenset(("\\", "|", "&", ":", "#", "[", "<", *FORMULA_SIGNS))
_LONE_AND = r"(?<![^\s|])&(?![^\s|])"
"""An `&` with white space, a `|` or the end of the cell on either side."""
_ONE_OF = re.compile(r"\|")
_ALL_OF = re.compile(_LONE_AND)
_TO_ESCAPE = re.compile(rf"[\\|]|{_LONE_AND}")
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan)", re.IGNORECASE)
_MASK = "\0\0"


def text_only(cell: str) -> str:
    """The cell with a backslash if a spreadsheet could take it for a formula; reading removes the backslash."""
    return "\\" + cell if cell.startswith(FORMULA_SIGNS) else cell


def without_mark(cell: str) -> str:
    """The text of a cell that `text_only` wrote."""
    return cell[1:] if cell[:1] == "\\" and cell[1:].startswith(FORMULA_SIGNS) else cell


def parse_cell(text: str) -> TableCell | None:
    """The content of a cell; None if it is empty, which means unknown.

    Raises:
        CellError: the text does not follow the syntax.
    """
    if not text:
        return None
    _check_text(text)
    if not _SPECIAL.search(text):
        return TableCell((text,))
    masked = mask_escapes(text)
    one_of, all_of = "|" in masked, _ALL_OF.search(masked) is not None
    if one_of and all_of:
        raise CellError(
            "mixed-cell", "the cell mixes '|' (one of) and ' & ' (all of)", r"write a literal one as \| or \&"
        )
    if masked == "&":
        return TableCell((), all_of=True)
    parts = [_part(text[i:j], masked[i:j]) for i, j in _spans(masked, _ALL_OF if all_of else _ONE_OF)]
    labels: dict[str, None] = {}
    for name, _ in parts:
        if name in labels:
            raise CellError("label-twice", f"the label {shorten(name)!r} occurs twice in one cell")
        labels[name] = None
    return TableCell(tuple(labels), _weights(parts, all_of), all_of=all_of)


def format_cell(cell: TableCell | None) -> str:
    """The text of a cell; `parse_cell` gives the same cell again.

    Two forms that do not occur in files are written as what they mean: a list of one label as that label, and one
    parent with a weight as that parent.
    """
    if cell is None:
        return ""
    names = [escape_label(label) for label in cell.labels]
    if cell.all_of:
        return " & ".join(names) if names else "&"
    if cell.weights is not None and len(names) > 1:
        names = [f"{name}:{float(weight)!r}" for name, weight in zip(names, cell.weights, strict=True)]
    return "|".join(names)


def escape_label(name: str) -> str:
    """A label escaped for a cell: whatever has a special meaning gets a backslash."""
    if not _SPECIAL.search(name):
        return name
    positions = {match.start() for match in _TO_ESCAPE.finditer(name)}
    colon = name.rfind(":")
    if colon >= 0 and _NUMBER.fullmatch(name[colon + 1 :].strip()):
        positions.add(colon)
    return "".join("\\" + character if place in positions else character for place, character in enumerate(name))


def parse_name(text: str) -> str:
    """The name in a header or fine cell, where only the backslash has a meaning.

    Raises:
        CellError: an escape that does not exist, or a text that cannot be a name.
    """
    if "\\" in text:
        mask_escapes(text)
        text = unescape(text)
    if fault := name_fault(text):
        raise CellError("bad-name", fault)
    return text


def format_name(name: str) -> str:
    """A name escaped for a header or fine cell."""
    text = name.replace("\\", "\\\\")
    return "\\" + text if text.startswith("#") else text


def mask_escapes(text: str) -> str:
    """The text with each escape replaced by two characters that no cell contains; faulty escapes are refused."""
    if "\\" not in text:
        return text
    for match in _ESCAPE.finditer(text):
        if match[1] not in _ESCAPABLE:
            raise CellError(
                "bad-escape",
                f"{match[0]!r} is not an escape",
                r"there are \\ \| \& \: \# \[ \< \= \+ \- \@; write a backslash as \\",
            )
    return _ESCAPE.sub(_MASK, text)


def unescape(text: str) -> str:
    """The text without its escapes, which must be valid."""
    return _ESCAPE.sub(r"\1", text)


def _check_text(text: str) -> None:
    """Refuse what no part of a cell may contain."""
    if fault := control_fault(text):
        raise CellError("bad-name", fault)
    if text != text.strip():
        raise CellError(
            "white-space", "the cell begins or ends with white space", "remove it; an empty cell is unknown"
        )


def _spans(masked: str, separator: re.Pattern[str]) -> list[tuple[int, int]]:
    """The start and end of each part between separators, without the white space that belongs to the separators."""
    cuts = [match.start() for match in separator.finditer(masked)]
    spans = []
    for start, end in zip([0] + [cut + 1 for cut in cuts], [*cuts, len(masked)], strict=True):
        part = masked[start:end]
        bare = part.strip()
        if not bare:
            raise CellError(
                "empty-part", "a label is missing before or after a separator", "remove the spare separator"
            )
        start += len(part) - len(part.lstrip())
        spans.append((start, start + len(bare)))
    return spans


def _part(text: str, masked: str) -> tuple[str, str | None]:
    """The label and the text of the weight of one part."""
    colon = masked.rfind(":")
    weight = text[colon + 1 :]
    if colon >= 0 and _NUMBER.fullmatch(weight.strip()):
        if weight != weight.strip():
            raise CellError(
                "bad-weight",
                f"white space before the number in {shorten(text)!r}",
                "write the weight right after ':', or '\\:' where it is part of the name",
            )
        text = text[:colon]
    else:
        weight = ""
    name = unescape(text)
    if fault := name_fault(name):
        raise CellError("bad-name", fault, f"it stands before the weight {shorten(weight)}" if weight else None)
    return name, weight or None


def _weights(parts: Sequence[tuple[str, str | None]], all_of: bool) -> tuple[float, ...] | None:
    """The weights of a cell, checked."""
    given = [(name, weight) for name, weight in parts if weight is not None]
    if not given:
        return None
    name, weight = given[0]
    if all_of:
        raise CellError(
            "bad-weight",
            f"{shorten(name)!r} has a weight, but labels that hold together have none",
            _or_name(name, weight),
        )
    if len(parts) == 1:
        raise CellError(
            "bad-weight",
            f"{shorten(name)!r} is the only label and has the weight {shorten(weight)}",
            f"drop the weight; {_or_name(name, weight)}",
        )
    if len(given) != len(parts):
        without = next(name for name, weight in parts if weight is None)
        raise CellError(
            "bad-weight", f"{shorten(without)!r} has no weight, but others have", "give one to all or to none"
        )
    numbers = tuple(float(weight) for _, weight in given)
    for (name, weight), number in zip(given, numbers, strict=True):
        if not 0 < number < float("inf"):
            raise CellError(
                "bad-weight", f"the weight {shorten(weight)} is not a finite number above 0", _or_name(name, weight)
            )
    if not sum(numbers) < float("inf") or min(numbers) / sum(numbers) == 0:
        raise CellError("bad-weight", "the weights are too large or too far apart to be compared")
    return numbers


def _or_name(name: str, weight: str) -> str:
    """The hint for a number that may not be meant as a weight."""
    return f"if it is part of the name, write {shorten(escape_label(f'{name}:{weight}'))}"
