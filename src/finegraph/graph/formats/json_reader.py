"""Reading the canonical form of a graph, strictly.

`json_writer` shows the form. Nothing else is accepted: an unknown key, a duplicate key, a NaN, a true where a
number belongs and a missing label are faults, each with its place, such as `kinds[2].parents[17]`. All of them
come in one error. A file of a newer version is refused. Time: linear in the edges.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast, get_args

import numpy as np

from finegraph.errors import GraphError
from finegraph.graph.faults import FaultList, first_few
from finegraph.graph.formats.json_checks import JsonChecks, JsonObject, list_length, load_json
from finegraph.graph.formats.json_writer import FORMAT, VERSION
from finegraph.graph.graph_like import FileContent
from finegraph.graph.kind import FloatArray, IntArray, Kind, UnknownPrior
from finegraph.graph.names import control_fault, unicode_twins
from finegraph.graph.number import Number, Scale, value_fault

_GRAPH_KEYS = ("format", "version", "fine", "kinds")
_KIND_KEYS = ("name", "labels", "parents", "unknown_prior")
_NUMBER_KEYS = ("name", "values", "spreads", "scale", "unit")


def read_json(text: str, path: str, faults: FaultList | None = None) -> FileContent:
    """The parts of the graph in the text of a JSON file.

    Args:
        text: the content of the file.
        path: the name of the file, for messages.
        faults: the faults found so far, if any.

    Raises:
        GraphFileError: with all faults of the file.
    """
    faults = FaultList() if faults is None else faults
    content = load_json(text, faults)
    parts = _Reader(faults).graph(content) if content is not None else FileContent([], [])
    faults.raise_if_any(path)
    return parts


class _Edges(NamedTuple):
    """The edges of a kind, row by row: how many there are per fine label, their labels and weights."""

    sizes: IntArray
    coarse: IntArray
    weight: FloatArray


class _Reader(JsonChecks):
    """Walks through the content and notes faults with their place."""

    def graph(self, content: object) -> FileContent:
        """The parts of the graph; whatever is faulty is left out."""
        second = isinstance(content, JsonObject) and content.get("version") == 2
        known = (*_GRAPH_KEYS, "numbers") if second else _GRAPH_KEYS
        if not self.check_keys(content, "", known, required=_GRAPH_KEYS) or not self._check_version(content):
            return FileContent([], [])
        fine = self.names(content.get("fine"), "fine") if "fine" in content else []
        count = list_length(content.get("fine"))
        kind_keys = (*_KIND_KEYS, "ordered") if second else _KIND_KEYS
        kind_entries, number_entries = self._entries(content, "kinds"), self._entries(content, "numbers")
        kinds = [self._kind(entry, place, count, kind_keys) for place, entry in kind_entries.items()]
        numbers = [read_json_number(self, entry, place, count) for place, entry in number_entries.items()]
        self._check_distinct({**kind_entries, **number_entries})
        return FileContent(fine, [one for one in kinds if one], [one for one in numbers if one])

    def _entries(self, content: Mapping[str, object], key: str) -> dict[str, object]:
        """The entries of a list by their places; empty if it is not a list, which is noted."""
        entries = content.get(key, [])
        if not isinstance(entries, list):
            self.wrong_type(key, "a list", entries)
            return {}
        return {f"{key}[{number}]": entry for number, entry in enumerate(entries)}

    def _check_version(self, content: Mapping[str, object]) -> bool:
        """Whether the file is one that this reader understands."""
        if "format" in content and content["format"] != FORMAT:
            self.wrong_type("format", repr(FORMAT), content["format"], rule="wrong-format")
            return False
        version = content.get("version")
        if "version" not in content:
            return True
        if type(version) is not int or version < 1:
            self.wrong_type("version", "a whole number from 1 on", version)
            return False
        if version > VERSION:
            message = f"version {version} was written by a newer finegraph; this one reads up to version {VERSION}"
            self.note("newer-version", "version", message, hint="update finegraph")
            return False
        return True

    # ---- kinds ------------------------------------------------------------------------------------------------------

    def _kind(self, entry: object, place: str, fine_count: int | None, keys: Sequence[str]) -> Kind | None:
        """One kind; None if it has faults."""
        before = len(self.faults)
        if not self.check_keys(entry, place, keys, required=_KIND_KEYS[:3]):
            return None
        name, prior, ordered = entry.get("name"), entry.get("unknown_prior", "frequency"), entry.get("ordered", False)
        self.kind_name(entry, place)
        if prior not in get_args(UnknownPrior):
            self.wrong_type(f"{place}.unknown_prior", "'frequency' or 'uniform'", prior)
        if not isinstance(ordered, bool):
            self.wrong_type(f"{place}.ordered", "true or false", ordered)
        labels = self.names(entry["labels"], f"{place}.labels") if "labels" in entry else []
        label_count = list_length(entry.get("labels"))
        edges = self._parents(entry["parents"], f"{place}.parents", label_count) if "parents" in entry else None
        if edges is not None and fine_count is not None and len(edges.sizes) != fine_count:
            message = f"{len(edges.sizes)} parents for {fine_count} fine labels; there must be one for each"
            self.note("wrong-length", f"{place}.parents", message)
        if len(self.faults) > before or self.faults.full or edges is None:
            return None
        starts = np.concatenate([[0], np.cumsum(edges.sizes)]).astype(np.int64)
        try:
            return Kind(
                str(name), tuple(labels), starts, edges.coarse, edges.weight, cast(UnknownPrior, prior), bool(ordered)
            )
        except GraphError as error:
            self.note("bad-kind", place, str(error))
            return None

    def _parents(self, parents: object, place: str, label_count: int | None) -> _Edges | None:
        """The edges of each fine label; None if there is no list of them."""
        if not isinstance(parents, list):
            self.wrong_type(place, "a list with the parent of each fine label", parents)
            return None
        if label_count and set(map(type, parents)) <= {int, type(None)}:
            quick = _one_parent(parents, label_count)
            if quick is not None:
                return quick
        sizes: list[int] = []
        coarse: list[int] = []
        weight: list[float] = []
        for number, parent in enumerate(parents):
            row: dict[int, float] = {}
            if isinstance(parent, list):
                row = self._pairs(parent, f"{place}[{number}]", label_count)
            elif parent is not None and self._index(parent, f"{place}[{number}]", label_count):
                row = {parent: 1.0}
            sizes.append(len(row))
            coarse += row.keys()
            weight += row.values()
        return _Edges(np.array(sizes, np.int64), np.array(coarse, np.int64), np.array(weight, np.float64))

    def _pairs(self, pairs: Sequence[object], place: str, label_count: int | None) -> dict[int, float]:
        """The labels and weights of a fine label with several parents."""
        if len(pairs) < 2:
            what = "null where the parent is unknown" if not pairs else "the number alone for one parent"
            self.note(
                "wrong-length", place, f"a list of {len(pairs)} pairs; expected two or more", hint=f"write {what}"
            )
        edges: dict[int, float] = {}
        for number, pair in enumerate(pairs):
            here = f"{place}[{number}]"
            if not isinstance(pair, list) or len(pair) != 2:
                self.wrong_type(here, "a pair [label, weight]", pair)
            elif self._index(pair[0], here, label_count) and self._weight(pair[1], here):
                if pair[0] in edges:
                    self.note("label-twice", here, f"label {pair[0]} occurs twice in one list")
                edges[pair[0]] = float(pair[1])
        return edges

    def _index(self, index: object, place: str, label_count: int | None) -> bool:
        """Whether `index` is the index of a label."""
        if type(index) is not int:
            self.wrong_type(place, "the number of a label, null or a list of pairs", index)
            return False
        if label_count is None:  # the labels have faults of their own, which are noted
            return False
        if not 0 <= index < label_count:
            message = f"there is no label {first_few([str(index)], 1)}; expected 0 to {label_count - 1}"
            self.note("out-of-range", place, message, hint="null is unknown" if index == -1 else None)
            return False
        return True

    def _weight(self, weight: object, place: str) -> bool:
        """Whether `weight` is a valid weight of an edge."""
        return self.finite(weight, place, "a weight, a finite number above 0", "bad-weight", above=0)

    def _check_distinct(self, entries: Mapping[str, object]) -> None:
        """Note kinds and numbers of the same name."""
        first: dict[str, str] = {}
        for place, entry in entries.items():
            name = entry.get("name") if isinstance(entry, dict) else None
            if isinstance(name, str) and first.setdefault(name, place) != place:
                message = f"{first[name]} has the same name; kinds must have distinct names"
                self.note("duplicate-kind", f"{place}.name", message, name)
        for one, two in unicode_twins(first):
            message = f"reads the same as {one!r} of {first[one]} but is spelt in another Unicode form"
            self.note("unicode-twins", f"{first[two]}.name", message, two, "use one form")


def _one_parent(parents: Sequence[int | None], label_count: int) -> _Edges | None:
    """The edges if each fine label has at most one parent; None if an index is invalid."""
    known = [parent for parent in parents if parent is not None]
    if known and not 0 <= min(known) <= max(known) < label_count:
        return None
    sizes = np.array([parent is not None for parent in parents], dtype=np.int64)
    return _Edges(sizes, np.array(known, dtype=np.int64), np.ones(len(known)))


def read_json_number(checks: JsonChecks, entry: object, place: str, fine_count: int | None) -> Number | None:
    """One kind of numbers; None if it has faults, which are noted."""
    before = len(checks.faults)
    if not checks.check_keys(entry, place, _NUMBER_KEYS, required=_NUMBER_KEYS[:2]):
        return None
    checks.kind_name(entry, place)
    scale, unit = entry.get("scale", "linear"), entry.get("unit", "")
    if scale not in get_args(Scale):
        checks.wrong_type(f"{place}.scale", "'linear' or 'log'", scale)
        scale = "linear"
    if not isinstance(unit, str):
        checks.wrong_type(f"{place}.unit", "text", unit)
    elif unit != unit.strip() or control_fault(unit):
        checks.note(
            "bad-name", f"{place}.unit", "a unit has no control characters and no white space at its ends", unit
        )
    values = _floats(checks, entry.get("values", []), f"{place}.values", fine_count, or_null=True)
    zeros = [0.0] * len(values)
    spreads = _floats(checks, entry["spreads"], f"{place}.spreads", fine_count) if "spreads" in entry else zeros
    for row, value in enumerate(values):
        if not math.isnan(value) and (fault := value_fault(value, 0.0, cast(Scale, scale))):
            checks.note("bad-value", f"{place}.values[{row}]", fault)
    for row, spread in enumerate(spreads):
        if fault := value_fault(1.0, spread, "linear"):
            checks.note("bad-spread", f"{place}.spreads[{row}]", fault)
    if len(checks.faults) > before or checks.faults.full:
        return None
    try:
        return Number(str(entry["name"]), np.array(values), np.array(spreads), cast(Scale, scale), str(unit))
    except GraphError as error:
        checks.note("bad-kind", place, str(error))
        return None


def _floats(
    checks: JsonChecks, numbers: object, place: str, fine_count: int | None, or_null: bool = False
) -> list[float]:
    """The numbers in a list, NaN for null; anything else is noted and counts as unknown."""
    if not isinstance(numbers, list):
        checks.wrong_type(place, "a list of numbers, one for each fine label", numbers)
        return []
    if fine_count is not None and len(numbers) != fine_count:
        message = f"{len(numbers)} numbers for {fine_count} fine labels; there must be one for each"
        checks.note("wrong-length", place, message)
    expected = "a finite number or null" if or_null else "a finite number"
    found = []
    for row, number in enumerate(numbers):
        null = number is None and or_null
        good = not null and checks.finite(number, f"{place}[{row}]", expected, "bad-number")
        found.append(float(number) if good else (math.nan if or_null else 0.0))
    return found
