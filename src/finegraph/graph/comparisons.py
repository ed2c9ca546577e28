r"""Comparisons that people make: "A is hotter than B", of fine labels or of photos.

    kind,more,less,who,same,of
    heat,mapo tofu @ A,ramen @ C,ann,,
    heat,ramen @ C,udon @ C,ben,yes,
    heat,IMG_17.jpg,IMG_31.jpg,ann,,photos

The columns `who`, `same` and `of` may be left out. `yes` in `same` says that there is no difference, `photos` in `of`
that two photos are compared rather than two fine labels; if `of` is empty, the names decide. Names are written as in
graph files, a backslash as `\\`. All faults of a file come in one error. `comparison_fit` turns them into numbers.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from finegraph.errors import near_matches
from finegraph.graph.faults import CellError, FaultList
from finegraph.graph.formats.cells import format_name, mask_escapes, text_only, unescape
from finegraph.graph.formats.csv_rows import rows
from finegraph.graph.formats.text_file import decode, read_bytes
from finegraph.graph.names import control_fault, kind_name_fault, name_fault
from finegraph.graph.spelling import SpellingHints

COLUMNS = ("kind", "more", "less", "who", "same", "of")
_REQUIRED = COLUMNS[:3]
_ALLOWED_WORDS = {"same": ("", "yes", "no"), "of": ("", "labels", "photos")}
"""The allowed values of the columns that hold no names."""


@dataclass(frozen=True)
class Comparison:
    """One comparison of two things.

    Attributes:
        kind: what is compared, such as heat.
        more: what has more of it.
        less: what has less of it.
        who: the person who made the comparison; may be empty.
        same: whether there is no difference, so that `more` and `less` could change places.
        photos: whether two photos are compared rather than two fine labels.
    """

    kind: str
    more: str
    less: str
    who: str = ""
    same: bool = False
    photos: bool = False


@dataclass(frozen=True)
class Comparable:
    """What may be compared.

    Attributes:
        labels: the fine labels.
        photos: the photos; None if any name may be one.
        refused: kinds that cannot be compared, each with the reason.
        kinds: the known kinds; None if any name may be one.
    """

    labels: Collection[str]
    photos: Collection[str] | None = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    kinds: Collection[str] | None = None


def read_comparisons(path: str | os.PathLike[str], names: Collection[str] | Comparable) -> list[Comparison]:
    """The comparisons in a CSV file.

    Args:
        path: the file.
        names: what may be compared: the fine labels, or these and more.

    Raises:
        GraphFileError: with all faults of the file.
    """
    name = os.fspath(path)
    faults = FaultList()
    text = decode(read_bytes(name), faults)
    found = [] if text is None else _read(text, _comparable(names), faults)
    faults.raise_if_any(name)
    return found


def parse_comparisons(text: str, names: Collection[str] | Comparable, path: str) -> list[Comparison]:
    """The comparisons in the text of a CSV file, which is called `path` in messages; see `read_comparisons`."""
    faults = FaultList()
    found = _read(text, _comparable(names), faults)
    faults.raise_if_any(path)
    return found


def is_comparisons(text: str) -> bool:
    """Whether a CSV text has the header of comparisons, rather than that of a graph or a list of photos."""
    header = text.removeprefix("\ufeff").partition("\n")[0].rstrip("\r").split(",")
    return header[0] == "kind" and set(_REQUIRED) <= set(header) <= set(COLUMNS)


def format_comparisons(comparisons: Iterable[Comparison], *, safe: bool = False) -> str:
    """Comparisons as CSV text; reading it gives the same comparisons.

    Args:
        comparisons: what to write.
        safe: whether to escape cells that a spreadsheet could run as formulas.
    """
    listed = list(comparisons)
    columns = COLUMNS if any(one.photos for one in listed) else COLUMNS[:-1]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for one in listed:
        names = [format_name(name) for name in (one.kind, one.more, one.less, one.who)]
        row = [*names, "yes" if one.same else "", "photos" if one.photos else ""][: len(columns)]
        writer.writerow([text_only(cell) for cell in row] if safe else row)
    return text.getvalue()


def between_labels(comparisons: Iterable[Comparison], labels: Mapping[str, str | None]) -> list[Comparison]:
    """Comparisons with photos replaced by their fine labels; two photos of one fine label are dropped.

    The result still marks comparisons of photos: they say less about the fine labels; see `fit_comparisons`.

    Args:
        comparisons: of photos and fine labels.
        labels: the fine label of each photo, None if it is not known.
    """
    found = []
    for one in comparisons:
        if not one.photos:
            found.append(one)
            continue
        more, less = labels.get(one.more), labels.get(one.less)
        if more is not None and less is not None and more != less:
            found.append(replace(one, more=more, less=less))
    return found


# ---- reading ---------------------------------------------------------------------------------------------------------


def _comparable(names: Collection[str] | Comparable) -> Comparable:
    """What may be compared, with sets for quick lookup."""
    given = names if isinstance(names, Comparable) else Comparable(names)
    photos = None if given.photos is None else frozenset(given.photos)
    return replace(given, labels=frozenset(given.labels), photos=photos)


def _read(text: str, names: Comparable, faults: FaultList) -> list[Comparison]:
    """The comparisons in a text; faults are noted."""
    lines = rows(text, faults)
    _, header = next(lines, (1, []))
    if not _check_header(header, faults):
        return []
    reader = _Reader(names, faults)
    for line, row in lines:
        if len(row) == len(header):  # else a fault already
            reader.take(line, dict(zip(header, row, strict=True)))
    if not reader.found and not faults.found:
        faults.add("no-rows", "expected at least one comparison below the header, got none", line=1)
    return reader.found


def _check_header(header: list[str], faults: FaultList) -> bool:
    """Whether the columns are those of comparisons."""
    before = len(faults)
    if not header and not before:
        faults.add("empty-file", "there is no header", line=1, hint="begin with kind,more,less,who")
    for name in _REQUIRED if header else ():
        if name not in header:
            near = near_matches(name, header)
            hint = f"rename {near[0]!r}" if near else "begin with kind,more,less,who"
            faults.add("missing-column", f"there is no column {name!r}", line=1, hint=hint)
    for number, name in enumerate(header):
        if name not in COLUMNS:
            hint = f"there are {', '.join(COLUMNS)}"
            faults.add("unknown-column", "comparisons have no such column", line=1, value=name, hint=hint)
        elif name in header[:number]:
            faults.add("duplicate-column", "this column occurs twice", line=1, value=name, hint="remove one")
    return len(faults) == before and bool(header)


class _Reader:
    """Rows to comparisons, and the faults of the rows."""

    def __init__(self, names: Comparable, faults: FaultList) -> None:
        self.found: list[Comparison] = []
        self._names, self._faults = names, faults
        self._first: dict[tuple[str, str, frozenset[str]], int] = {}
        self._suggestions = SpellingHints()
        self._refused: set[str] = set()

    def take(self, line: int, cells: Mapping[str, str]) -> None:
        """Read a row."""
        before = len(self._faults)
        texts = {column: self._text(line, column, cells.get(column, "")) for column in ("kind", "more", "less", "who")}
        if len(self._faults) > before:
            return
        one = Comparison(**texts, same=cells.get("same", "") == "yes", photos=self._of_photos(cells, texts))
        self._check_kind(line, one)
        self._check_names(line, one)
        for column, allowed in _ALLOWED_WORDS.items():
            if cells.get(column, "") not in allowed:
                expected = f"expected {allowed[1]}, {allowed[2]} or nothing"
                self._faults.add(f"bad-{column}", expected, line=line, column=column, value=cells[column])
        if len(self._faults) == before:
            self._check_first(line, one)
            self.found.append(one)

    def _text(self, line: int, column: str, cell: str) -> str:
        """The text of a cell, without its escapes."""
        try:
            mask_escapes(cell)
        except CellError as error:
            self._faults.add(error.rule, error.message, line=line, column=column, value=cell, hint=error.hint)
            return ""
        return unescape(cell)

    def _of_photos(self, cells: Mapping[str, str], texts: Mapping[str, str]) -> bool:
        """Whether a row compares photos: it says so, or both names are those of photos only."""
        if cells.get("of", "") or self._names.photos is None:
            return cells.get("of", "") == "photos"
        pair = (texts["more"], texts["less"])
        return not any(name in self._names.labels for name in pair) and any(name in self._names.photos for name in pair)

    def _check_kind(self, line: int, one: Comparison) -> None:
        if fault := kind_name_fault(one.kind):
            self._faults.add("bad-name", fault, line=line, column="kind", value=one.kind)
        elif one.kind in self._refused:
            pass  # reported once, however many rows have it
        elif one.kind in self._names.refused:
            self._refused.add(one.kind)
            self._faults.add("bad-kind", self._names.refused[one.kind], line=line, column="kind", value=one.kind)
        elif self._names.kinds is not None and one.kind not in self._names.kinds:
            self._refused.add(one.kind)
            hint = self._suggestions.hint(one.kind, self._names.kinds)
            message = "there is no such kind"
            self._faults.add("unknown-kind", message, line=line, column="kind", value=one.kind, hint=hint)
        if one.who and (fault := name_fault(one.who)):
            self._faults.add("bad-name", fault, line=line, column="who", value=one.who)

    def _check_names(self, line: int, one: Comparison) -> None:
        known = self._names.photos if one.photos else self._names.labels
        for column, name in (("more", one.more), ("less", one.less)):
            if not name:
                self._faults.add("empty-name", "nothing to compare", line=line, column=column, hint="fill it in")
            elif known is None:
                if fault := control_fault(name):
                    self._faults.add("bad-name", fault, line=line, column=column, value=name)
            elif name not in known:
                self._add_unknown(line, column, name, one.photos, known)
        if one.more and one.more == one.less:
            hint = "compare two different things"
            message = "this is compared with itself"
            self._faults.add("with-itself", message, line=line, column="less", value=one.less, hint=hint)

    def _add_unknown(self, line: int, column: str, name: str, photos: bool, known: Collection[str]) -> None:
        """Note a name that is unknown, or a photo where a fine label belongs (or the reverse)."""
        if name in (self._names.labels if photos else self._names.photos or ()):
            message = "a photo and a fine label cannot be compared"
            do = "compare two photos, or two fine labels"
            self._faults.add("mixed-pair", message, line=line, column=column, value=name, hint=do)
            return
        what = "photo" if photos else "fine label" if not self._names.photos else "fine label or photo"
        hint = self._suggestions.hint(name, known)
        self._faults.add("unknown-label", f"there is no such {what}", line=line, column=column, value=name, hint=hint)

    def _check_first(self, line: int, one: Comparison) -> None:
        """Note a pair that one person compares twice."""
        key = one.who, one.kind, frozenset((one.more, one.less))
        if one.who and self._first.setdefault(key, line) != line:
            message = f"{one.who!r} compares these two in line {self._first[key]} already"
            hint = "keep the last answer of a person"
            self._faults.add("compared-twice", message, line=line, column="more", value=one.more, hint=hint)
