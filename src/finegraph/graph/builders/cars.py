"""The label graph of Stanford Cars: 196 cars with their make, model, year and body type.

The table is `stanford_cars.csv` beside this file, in the order of the data set's own list of class names:

    make    49, the beginning of the name
    model   158 model lines with their make, without year, body type and version ("Audi TT" for TT, TTS and TT RS);
            a version with a name of its own is a line of its own ("Audi S4", "BMW M3")
    year    16, the last word of the name
    type    9, as many as in the paper, which does not list them: Convertible, Coupe, Hatchback, Minivan, Sedan, SUV,
            Truck (every pick-up: "... Cab", "SUT"), Van, Wagon

Where a name says a body type, that is taken, the last one where it says two ("Drophead Coupe Convertible", "Wagon Van",
"Cargo Van Minivan"), even where others would call the car something else. 14 names say none:

    Sedan      Acura TL Type-S, Buick Regal GS, Chrysler 300 SRT-8, Dodge Charger SRT-8: four doors and a boot
    Coupe      Chevrolet Corvette ZR1 and Z06 (built closed only), Chevrolet Cobalt SS (two doors only in 2010), Dodge
               Challenger SRT8, Lamborghini Gallardo Superleggera; Jaguar XKR: also sold open, but the coupe is the base
    Hatchback  FIAT 500 Abarth; Acura Integra Type R: a three-door with a lift gate, which the data set calls Hatchback
               for cars of the same build (Eagle Talon, Audi TT)
    SUV        Chevrolet TrailBlazer SS
    Wagon      Chevrolet HHR SS: five doors and an upright tail, sold as a wagon
"""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from finegraph.errors import GraphError, UnknownNameError, near_matches
from finegraph.graph.label_graph import LabelGraph

_MAX_LISTED = 20
"""How many names the text of an error lists."""


def graph_from_cars(class_names: Iterable[str] | None = None, numbers: bool = False) -> LabelGraph:
    """The graph of Stanford Cars, or of some of its classes.

    Args:
        class_names: the classes, as your folders or files call them, in your order; they become the fine labels. Case,
            accents, spaces and punctuation may differ from the official names: `Ram C-V Cargo Van Minivan 2012` and
            `ram_c_v_cargo_van_minivan_2012` both stand for `Ram C/V Cargo Van Minivan 2012`. By default all 196
            official names in the official order.
        numbers: whether the year is a number, of which differences count, rather than a kind with a label per year. By
            default it is a kind, as in the paper, so that graphs of earlier runs stay what they are.

    Raises:
        UnknownNameError: names that are no class of the data set, all of them at once.
        GraphError: two names for one class.

    Example:
        >>> graph = graph_from_cars()
        >>> len(graph), graph.kinds, len(graph.labels("type"))
        (196, ('make', 'model', 'year', 'type'), 9)
    """
    table, types = _table(), {"year": "number"} if numbers else {}
    if class_names is None:
        return LabelGraph.from_table(table, types)
    official = {_plain(name): name for name in table}
    rows: dict[str, dict[str, str]] = {}
    given: dict[str, str] = {}
    unknown = []
    for name in class_names:
        match = official.get(_plain(name)) if isinstance(name, str) else None
        if match is None:
            unknown.append(name)
            continue
        if match in given:
            raise GraphError(f"{given[match]!r} and {name!r} are both the class {match!r}; give each class once")
        given[match] = name
        rows[name] = table[match]
    if unknown:
        raise _unknown_classes(unknown, tuple(table))
    return LabelGraph.from_table(rows, types)


@cache
def _table() -> dict[str, dict[str, str]]:
    """The table that comes with the package: class name -> kind -> label."""
    text = files("finegraph.graph.builders").joinpath("stanford_cars.csv").read_text(encoding="utf-8")
    return {row.pop("fine"): row for row in csv.DictReader(text.splitlines())}


def _plain(name: str) -> str:
    """The letters and digits of a name without case and accents: what its variants have in common."""
    return "".join(letter for letter in unicodedata.normalize("NFKD", name).casefold() if letter.isalnum())


def _unknown_classes(names: list[str], official: tuple[str, ...]) -> UnknownNameError:
    """The error for names that are no class, each with its near matches."""
    lines = [f"{len(names)} class names are not of Stanford Cars:" if len(names) > 1 else "not of Stanford Cars:"]
    for name in names[:_MAX_LISTED]:
        near = near_matches(name, official) if isinstance(name, str) else []
        lines.append(f"  {name!r}" + ("; did you mean " + " or ".join(map(repr, near)) + "?" if near else ""))
    if len(names) > _MAX_LISTED:
        lines.append(f"  and {len(names) - _MAX_LISTED} more")
    lines.append("use the names of the data set, such as 'Acura RL Sedan 2012', or leave these out")
    return UnknownNameError("\n".join(lines))
