"""Reading the canonical form of a graph, strictly.

The form is drawn in `json_writer`. Nothing else is taken: a key that is not known, a key twice, a NaN, a true where a
number belongs, a label that is not there are faults, each with its place, such as `kinds[2].parents[17]`. All of them
come in one error. A file of a newer version is refused as such. Time is linear in the edges.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeGuard, cast, get_args

import numpy as np

from finegraph.errors import GraphError, near_matches
from finegraph.graph.faults import FaultList, first_few
from finegraph.graph.formats.json_writer import FORMAT, VERSION
from finegraph.graph.kind import FloatArray, IntArray, Kind, UnknownPrior
from finegraph.graph.names import kind_name_fault, name_fault, unicode_twins

_GRAPH_KEYS = ("format", "version", "fine", "kinds")
_KIND_KEYS = ("name", "labels", "parents", "unknown_prior")


def read_json(text: str, path: str, faults: FaultList | None = None) -> tuple[list[str], list[Kind]]:
    """The fine labels and the kinds in the text of a JSON file.

    Args:
        text: the content of the file.
        path: the name of the file, for messages.
        faults: what was found already, if anything.

    Raises:
        GraphFileError: with all faults of the file.
    """
    faults = FaultList() if faults is None else faults
    content = _load(text, faults)
    fine, kinds = _Reader(faults).graph(content) if content is not None else ([], [])
    faults.raise_if_any(path)
    return fine, kinds


class _Object(dict[str, object]):
    """A JSON object that remembers which of its keys came twice."""

    def __init__(self, pairs: Sequence[tuple[str, object]]) -> None:
        super().__init__(pairs)
        self.twice: list[str] = []
        if len(self) != len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    self.twice.append(key)
                seen.add(key)


class _Edges(NamedTuple):
    """The edges of a kind, row by row: how many there are per fine label, their labels and weights."""

    sizes: IntArray
    coarse: IntArray
    weight: FloatArray


class _Constant:
    """NaN or Infinity, which JSON does not have."""

    def __init__(self, text: str) -> None:
        self.text = text


def _load(text: str, faults: FaultList) -> object:
    """The content of a JSON text; None, and a fault, where it is not JSON."""
    try:
        content: object = json.loads(text, object_pairs_hook=_Object, parse_constant=_Constant)
    except json.JSONDecodeError as error:
        message = f"not JSON: {error.msg} at character {error.colno}"
        faults.add("json-syntax", message, line=error.lineno, hint="the file may be cut off or edited by hand")
        return None
    except (RecursionError, ValueError) as error:
        what = "nested too deeply" if isinstance(error, RecursionError) else "a number with too many digits"
        faults.add("json-syntax", f"not a graph: {what}")
        return None
    if content is None:
        faults.add("wrong-type", "expected an object, got null")
    return content


class _Reader:
    """Walks through the content and notes what does not fit, with its place."""

    def __init__(self, faults: FaultList) -> None:
        self.faults = faults

    def graph(self, content: object) -> tuple[list[str], list[Kind]]:
        """The fine labels and the kinds; whatever is faulty is left out."""
        if not self._check_keys(content, "", _GRAPH_KEYS, required=_GRAPH_KEYS):
            return [], []
        if not self._check_version(content):
            return [], []
        fine = self._names(content.get("fine"), "fine") if "fine" in content else []
        kinds: list[Kind] = []
        entries = content.get("kinds", [])
        if not isinstance(entries, list):
            self._wrong_type("kinds", "a list", entries)
            entries = []
        count = _length(content.get("fine"))
        for number, entry in enumerate(entries):
            kind = self._kind(entry, f"kinds[{number}]", count)
            if kind is not None:
                kinds.append(kind)
        self._check_distinct([entry.get("name") if isinstance(entry, dict) else None for entry in entries])
        return fine, kinds

    def _note(self, rule: str, place: str, message: str, value: object = None, hint: str | None = None) -> None:
        shown = None if value is None else str(value)
        self.faults.add(rule, message, column=place or None, value=shown, hint=hint)

    def _wrong_type(self, place: str, expected: str, got: object, rule: str = "wrong-type") -> None:
        names = {dict: "an object", _Object: "an object", list: "a list", type(None): "null", bool: "true or false"}
        if isinstance(got, _Constant):
            what = got.text
        elif isinstance(got, str | int | float) and not isinstance(got, bool):
            what = first_few([got], 1) if isinstance(got, str) else first_few([str(got)], 1).strip("'")
        else:
            what = names.get(type(got), type(got).__name__)
        self._note(rule, place, f"expected {expected}, got {what}")

    def _check_keys(
        self, content: object, place: str, known: Sequence[str], required: Sequence[str]
    ) -> TypeGuard[_Object]:
        """Whether `content` is an object; its keys are checked."""
        if not isinstance(content, _Object):
            self._wrong_type(place, f"an object with the keys {', '.join(required)}", content)
            return False
        dot = place + "." if place else ""
        for key in content.twice:
            self._note("duplicate-key", dot + key, "the key stands twice in one object", hint="remove one")
        for key in content:
            if key not in known:
                near = near_matches(key, known)
                hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
                self._note("unknown-key", dot + key, "unknown key", hint=hint)
        for key in required:
            if key not in content:
                self._note("missing-key", dot + key, "the key is missing")
        return True

    def _check_version(self, content: Mapping[str, object]) -> bool:
        """Whether the file is one that this reader understands."""
        if "format" in content and content["format"] != FORMAT:
            self._wrong_type("format", repr(FORMAT), content["format"], rule="wrong-format")
            return False
        version = content.get("version")
        if "version" not in content:
            return True
        if type(version) is not int or version < 1:
            self._wrong_type("version", "a whole number from 1 on", version)
            return False
        if version > VERSION:
            message = f"version {version} was written by a newer finegraph; this one reads up to version {VERSION}"
            self._note("newer-version", "version", message, hint="update finegraph")
            return False
        return True

    def _names(self, names: object, place: str) -> list[str]:
        """The names in a list; a faulty one is noted."""
        if not isinstance(names, list):
            self._wrong_type(place, "a list of names", names)
            return []
        if not names:
            self._note("empty-list", place, "expected at least one name, got an empty list")
        first: dict[str, int] = {}
        for number, name in enumerate(names):
            if not isinstance(name, str):
                self._wrong_type(f"{place}[{number}]", "a name", name)
            elif fault := name_fault(name):
                self._note("bad-name", f"{place}[{number}]", fault, name)
            elif first.setdefault(name, number) != number:
                message = f"stands at {place}[{first[name]}] already; names must be distinct"
                self._note("duplicate-name", f"{place}[{number}]", message, name)
        for one, two in unicode_twins(first):
            message = f"reads the same as {one!r} at {place}[{first[one]}] but is spelt in another Unicode form"
            self._note("unicode-twins", f"{place}[{first[two]}]", message, two, "use one form")
        return list(first)

    # ---- kinds ------------------------------------------------------------------------------------------------------

    def _kind(self, entry: object, place: str, fine_count: int | None) -> Kind | None:
        """One kind; None if it has faults."""
        before = len(self.faults)
        if not self._check_keys(entry, place, _KIND_KEYS, required=_KIND_KEYS[:3]):
            return None
        name, prior = entry.get("name"), entry.get("unknown_prior", "frequency")
        if "name" in entry and not isinstance(name, str):
            self._wrong_type(f"{place}.name", "a name", name)
        elif isinstance(name, str) and (fault := kind_name_fault(name)):
            self._note("bad-name", f"{place}.name", fault, name)
        if prior not in get_args(UnknownPrior):
            self._wrong_type(f"{place}.unknown_prior", "'frequency' or 'uniform'", prior)
        labels = self._names(entry["labels"], f"{place}.labels") if "labels" in entry else []
        label_count = _length(entry.get("labels"))
        edges = self._parents(entry["parents"], f"{place}.parents", label_count) if "parents" in entry else None
        if edges is not None and fine_count is not None and len(edges.sizes) != fine_count:
            message = f"{len(edges.sizes)} parents for {fine_count} fine labels; there must be one for each"
            self._note("wrong-length", f"{place}.parents", message)
        if len(self.faults) > before or self.faults.full or edges is None:
            return None
        starts = np.concatenate([[0], np.cumsum(edges.sizes)]).astype(np.int64)
        try:
            return Kind(str(name), tuple(labels), starts, edges.coarse, edges.weight, cast(UnknownPrior, prior))
        except GraphError as error:
            self._note("bad-kind", place, str(error))
            return None

    def _parents(self, parents: object, place: str, label_count: int | None) -> _Edges | None:
        """The edges of each fine label; None if there is no list of them."""
        if not isinstance(parents, list):
            self._wrong_type(place, "a list with the parent of each fine label", parents)
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
            self._note(
                "wrong-length", place, f"a list of {len(pairs)} pairs; expected two or more", hint=f"write {what}"
            )
        edges: dict[int, float] = {}
        for number, pair in enumerate(pairs):
            here = f"{place}[{number}]"
            if not isinstance(pair, list) or len(pair) != 2:
                self._wrong_type(here, "a pair [label, weight]", pair)
            elif self._index(pair[0], here, label_count) and self._weight(pair[1], here):
                if pair[0] in edges:
                    self._note("label-twice", here, f"label {pair[0]} stands twice in one list")
                edges[pair[0]] = float(pair[1])
        return edges

    def _index(self, index: object, place: str, label_count: int | None) -> bool:
        """Whether `index` is that of a label."""
        if type(index) is not int:
            self._wrong_type(place, "the number of a label, null or a list of pairs", index)
            return False
        if label_count is None:  # the labels are faulty themselves, and noted
            return False
        if not 0 <= index < label_count:
            message = f"there is no label {first_few([str(index)], 1)}; expected 0 to {label_count - 1}"
            self._note("out-of-range", place, message, hint="null is unknown" if index == -1 else None)
            return False
        return True

    def _weight(self, weight: object, place: str) -> bool:
        """Whether `weight` can be the weight of an edge."""
        good = type(weight) in (int, float)
        try:
            good = good and math.isfinite(float(weight)) and float(weight) > 0  # type: ignore[arg-type]  # checked before
        except OverflowError:
            good = False
        if not good:
            self._wrong_type(place, "a weight, a finite number above 0", weight, rule="bad-weight")
        return good

    def _check_distinct(self, names: Sequence[object]) -> None:
        """Note kinds of the same name."""
        first: dict[str, int] = {}
        for number, name in enumerate(names):
            if isinstance(name, str) and first.setdefault(name, number) != number:
                message = f"kinds[{first[name]}] has the same name; kinds must have distinct names"
                self._note("duplicate-kind", f"kinds[{number}].name", message, name)
        for one, two in unicode_twins(first):
            message = f"reads the same as {one!r} of kinds[{first[one]}] but is spelt in another Unicode form"
            self._note("unicode-twins", f"kinds[{first[two]}].name", message, two, "use one form")


def _length(value: object) -> int | None:
    """How long a list is; None if it is no list."""
    return len(value) if isinstance(value, list) else None


def _one_parent(parents: Sequence[int | None], label_count: int) -> _Edges | None:
    """The edges where each fine label has one parent or none; None if a number is not that of a label."""
    known = [parent for parent in parents if parent is not None]
    if known and not 0 <= min(known) <= max(known) < label_count:
        return None
    sizes = np.array([parent is not None for parent in parents], dtype=np.int64)
    return _Edges(sizes, np.array(known, dtype=np.int64), np.ones(len(known)))
