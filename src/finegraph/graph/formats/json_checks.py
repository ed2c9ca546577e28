"""Parsing JSON, and checks that note a fault with its place, such as `kinds[2].parents[17]`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TypeGuard

from finegraph.errors import near_matches
from finegraph.graph.faults import FaultList, first_few
from finegraph.graph.names import kind_name_fault, name_fault, unicode_twins


class JsonObject(dict[str, object]):
    """A JSON object that remembers its duplicate keys."""

    def __init__(self, pairs: Sequence[tuple[str, object]]) -> None:
        super().__init__(pairs)
        self.twice: list[str] = []
        if len(self) != len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    self.twice.append(key)
                seen.add(key)


class JsonConstant:
    """NaN or Infinity, which JSON does not have."""

    def __init__(self, text: str) -> None:
        self.text = text


def load_json(text: str, faults: FaultList) -> object:
    """The content of a JSON text; None, with a fault noted, if it is not JSON."""
    try:
        content: object = json.loads(text, object_pairs_hook=JsonObject, parse_constant=JsonConstant)
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


class JsonChecks:
    """Checks of parsed JSON that note faults with their place."""

    def __init__(self, faults: FaultList) -> None:
        self.faults = faults

    def note(self, rule: str, place: str, message: str, value: object = None, hint: str | None = None) -> None:
        """Note a fault at a place."""
        shown = None if value is None else str(value)
        self.faults.add(rule, message, column=place or None, value=shown, hint=hint)

    def wrong_type(self, place: str, expected: str, got: object, rule: str = "wrong-type") -> None:
        """Note that something else was expected at a place."""
        names = {dict: "an object", JsonObject: "an object", list: "a list", type(None): "null", bool: "true or false"}
        if isinstance(got, JsonConstant):
            what = got.text
        elif isinstance(got, str | int | float) and not isinstance(got, bool):
            what = first_few([got], 1) if isinstance(got, str) else first_few([str(got)], 1).strip("'")
        else:
            what = names.get(type(got), type(got).__name__)
        self.note(rule, place, f"expected {expected}, got {what}")

    def check_keys(
        self, content: object, place: str, known: Sequence[str], required: Sequence[str]
    ) -> TypeGuard[JsonObject]:
        """Whether `content` is an object; its keys are checked."""
        if not isinstance(content, JsonObject):
            self.wrong_type(place, f"an object with the keys {', '.join(required)}", content)
            return False
        dot = place + "." if place else ""
        for key in content.twice:
            self.note("duplicate-key", dot + key, "the key occurs twice in one object", hint="remove one")
        for key in content:
            if key not in known:
                near = near_matches(key, known)
                hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
                self.note("unknown-key", dot + key, "unknown key", hint=hint)
        for key in required:
            if key not in content:
                self.note("missing-key", dot + key, "the key is missing")
        return True

    def names(self, names: object, place: str) -> list[str]:
        """The names in a list; a faulty one is noted."""
        if not isinstance(names, list):
            self.wrong_type(place, "a list of names", names)
            return []
        if not names:
            self.note("empty-list", place, "expected at least one name, got an empty list")
        first: dict[str, int] = {}
        for number, name in enumerate(names):
            if not isinstance(name, str):
                self.wrong_type(f"{place}[{number}]", "a name", name)
            elif fault := name_fault(name):
                self.note("bad-name", f"{place}[{number}]", fault, name)
            elif first.setdefault(name, number) != number:
                message = f"is already at {place}[{first[name]}]; names must be distinct"
                self.note("duplicate-name", f"{place}[{number}]", message, name)
        for one, two in unicode_twins(first):
            message = f"reads the same as {one!r} at {place}[{first[one]}] but is spelt in another Unicode form"
            self.note("unicode-twins", f"{place}[{first[two]}]", message, two, "use one form")
        return list(first)

    def kind_name(self, entry: Mapping[str, object], place: str) -> None:
        """Note a name that no kind can have."""
        name = entry.get("name")
        if "name" in entry and not isinstance(name, str):
            self.wrong_type(f"{place}.name", "a name", name)
        elif isinstance(name, str) and (fault := kind_name_fault(name)):
            self.note("bad-name", f"{place}.name", fault, name)

    def finite(self, number: object, place: str, expected: str, rule: str, above: float = -math.inf) -> bool:
        """Whether `number` is a finite number above a bound."""
        good = type(number) in (int, float)
        try:
            good = good and math.isfinite(float(number)) and float(number) > above  # type: ignore[arg-type]  # checked
        except OverflowError:
            good = False
        if not good:
            self.wrong_type(place, expected, number, rule=rule)
        return good


def list_length(value: object) -> int | None:
    """The length of a list; None if it is not a list."""
    return len(value) if isinstance(value, list) else None
