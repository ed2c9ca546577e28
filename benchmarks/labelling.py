"""The store of label decisions against its limits: many people, kills, and many classes. One table at the end.

    python benchmarks/labelling.py                       20,000 edits, 500 kills, 100,000 classes: about 10 minutes
    python benchmarks/labelling.py --quick               1,200 edits, 40 kills, 20,000 classes: about a minute
    python benchmarks/labelling.py --parts people        one part, or some of: kills classes people
    python benchmarks/labelling.py --folder D            on the disk of folder D
    python benchmarks/labelling.py --database URL        the part `people` on a PostgreSQL server (an empty database)

people: 32 people, each with its own connection to `finegraph label`, make 2 edits per second each. Now and then the
server is killed (kill -9) and started again, and a person hangs up before the answer comes; whoever has no answer
repeats the edit with the same id. Counted: edits that were acknowledged, and how often each is in the log. kills: a
process edits as fast as it can and is killed; each acknowledged edit must be there. classes: lists, searches and
exports. The exit code is 1 if a limit is missed or a part fails; the other parts are run and shown all the same.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import sqlalchemy as sa
from labelling_people import PEOPLE, run_crowd
from rich.console import Console
from rich.table import Table

from finegraph.cli.progress import progress
from finegraph.graph import LabelGraph
from finegraph.labelling import LabelStore
from finegraph.labelling.proposals import from_model, from_names
from finegraph.workflows.label import export_file

PARTS = ("kills", "classes", "people")


class Report:
    """The table that is printed, and whether all limits are kept."""

    def __init__(self) -> None:
        self.table = Table("part", "figure", "found", "limit")
        self.well = True

    def add(self, part: str, figure: str, found: float, limit: float | None = None, unit: str = "") -> None:
        """Add a figure, which must not be above its limit."""
        good = limit is None or found <= limit
        self.well &= good
        shown = f"{found:,.0f}" if float(found).is_integer() else f"{found:,.1f}"
        self.table.add_row(
            part,
            figure,
            (f"{shown} {unit}" if good else f"[red]{shown} {unit}[/red]"),
            "" if limit is None else f"{limit:,g}",
        )

    def run(self, part: str, measure: Callable[[], None]) -> None:
        """Measure a part; where that fails, say why and let the other parts go on."""
        began = time.monotonic()
        print(f"{part} ...", file=sys.stderr, flush=True)
        try:
            measure()
        except Exception:
            traceback.print_exc()
            self.add(part, "failed, see above", 1, 0)
        self.add(part, "the whole part", time.monotonic() - began, None, "s")


def small_graph(classes: int) -> LabelGraph:
    """A graph to edit."""
    return LabelGraph.from_table(
        {f"class {number}": {"dish": f"dish {number % 20}", "egg": bool(number % 2)} for number in range(classes)}
    )


# ---- people ----------------------------------------------------------------------------------------------------------


def people(report: Report, place: str, edits: int, kills: int) -> None:
    """Many people edit while the process that owns the store is killed now and then."""
    classes = 400
    with LabelStore.create(place) as store:
        store.import_graph(small_graph(classes), person="import", edit_id="first")
    with progress("edits") as told:
        crowd, server, took = run_crowd(place, edits, kills, classes, told)
    acknowledged = [edit_id for person in crowd for edit_id in person.acknowledged]
    logged = Counter(_edit_ids(place))
    counts = sum((person.counts for person in crowd), Counter())
    answers, saved = ([time for person in crowd for time in getattr(person, name)] for name in ("answers", "saved"))
    report.add("people", f"edits of {PEOPLE} people, acknowledged", len(acknowledged))
    report.add("people", "acknowledged and not in the log", sum(one not in logged for one in acknowledged), 0)
    report.add("people", "in the log more than once", sum(count > 1 for count in logged.values()), 0)
    report.add("people", "in the log, never acknowledged", len(logged) - 1 - len(acknowledged), 0)
    report.add("people", "cells whose history has a gap", _gaps(place), 0)
    for name in ("answers lost", "hung up", "repeated", "conflicts", "refused by the server"):
        report.add("people", name, counts[name])
    report.add("people", "kills (kill -9)", server.kills)
    report.add("people", "ends of the server without a kill", server.ended, 0)
    report.add("people", "edits per second", len(acknowledged) / took)
    report.add("people", "median answer", 1000 * quantile(answers, 0.5), None, "ms")
    report.add("people", "p99 answer", 1000 * quantile(answers, 0.99), 100, "ms")
    ages = [age for person in crowd for age in person.ages]
    calm = [answer for answer, age in zip(answers, ages, strict=True) if age > 5]
    report.add("people", "p99 answer, 5 s after a start and later", 1000 * quantile(calm, 0.99), None, "ms")
    report.add("people", "p99 with repeats, kills included", 1000 * quantile(saved, 0.99), None, "ms")
    report.add("people", "away after a kill, mean", sum(server.away) / max(1, len(server.away)), None, "s")


def quantile(values: list[float], share: float) -> float:
    """The value below which a share of all lies; 0 where there are none."""
    if not values:
        return 0.0
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def _edit_ids(place: str) -> list[str]:
    with LabelStore.open(place, write=False) as store, store._database.reading() as connection:
        return list(connection.scalars(sa.text("SELECT edit_id FROM batches")))


def _gaps(place: str) -> int:
    """How many edits do not begin where the one before of the same cell has ended."""
    last: dict[tuple[int, int], object] = {}
    gaps = 0
    with LabelStore.open(place, write=False) as store, store._database.reading() as connection:
        query = sa.text("SELECT fine_id, kind_id, before, after FROM edits WHERE target = 'cell' ORDER BY number")
        for fine_id, kind_id, before, after in connection.execute(query):
            value = json.loads(before)["value"]
            gaps += last.get((fine_id, kind_id), value) != value
            last[fine_id, kind_id] = json.loads(after)["value"]
    return gaps


# ---- kills -----------------------------------------------------------------------------------------------------------


def edit_until_killed(place: str, first: int, pipe: int) -> None:
    """Edit as fast as possible and write the number of each acknowledged edit to a pipe."""
    store = LabelStore.open(place)
    number = first
    while True:
        fine = f"class {number % 50}"
        seen = store.cell(fine, "dish").version
        store.decide(fine, "dish", f"dish {number % 20}", person="ann", edit_id=f"kill {number}", seen=seen)
        os.write(pipe, b"%d\n" % number)
        number += 1


def kills(report: Report, folder: Path, times: int) -> None:
    """Kill a process that edits, again and again; a plain SQLite connection checks what is there."""
    place = str(folder / "kills.db")
    with LabelStore.create(place) as store:
        store.import_graph(small_graph(50), person="import", edit_id="first")
    chance, first, lost, seen = random.Random(0), 0, 0, 0
    told = plain_progress("kills")  # a bar would be a thread, and who has threads must not fork
    for done in range(times):
        told(done, times)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            try:
                edit_until_killed(place, first, writing)
            finally:
                os._exit(1)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            # Half of the kills come at any moment, also while the store is opened; the others after an answer.
            lines = [pipe.readline()] if chance.random() < 0.5 else []
            time.sleep(chance.random() * 0.15)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            lines += pipe.read().splitlines()
        acknowledged = [int(line) for line in lines if line.strip()]
        with sqlite3.connect(place) as connection:
            there = {row[0] for row in connection.execute("SELECT edit_id FROM batches")}
        connection.close()
        lost += sum(f"kill {number}" not in there for number in acknowledged)
        seen += len(acknowledged)
        first = max(acknowledged, default=first) + 2  # the next one may be there without having been acknowledged
    with sqlite3.connect(place) as connection:
        sound = connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    connection.close()
    report.add("kills", "kills (kill -9)", times)
    report.add("kills", "acknowledged edits", seen)
    report.add("kills", "acknowledged edits lost", lost, 0)
    report.add("kills", "faults of the file", int(not sound), 0)


def plain_progress(noun: str) -> Callable[[int, int], None]:
    """Lines that say how far it is, every tenth."""

    def told(done: int, total: int) -> None:
        if done and done % max(1, total // 10) == 0:
            print(f"{done:,} of {total:,} {noun}", file=sys.stderr, flush=True)

    return told


# ---- classes ---------------------------------------------------------------------------------------------------------


def large_graph(classes: int) -> LabelGraph:
    """Many classes with eight kinds of several forms."""
    chance = random.Random(0)
    table = {}
    for number in range(classes):
        row: dict[str, object] = {f"kind {k}": f"label {chance.randrange(30 * (k + 1))}" for k in range(5)}
        row["yes or no"] = chance.choice([True, False, None])
        row["weights"] = {"a": 0.25, "b": 0.75} if number % 7 == 0 else chance.choice(["a", "b", {"a", "b"}])
        row["with"] = [f"part {p}" for p in range(6) if chance.random() < 0.3] if number % 9 else None
        table[f"dish number {number} of restaurant {number % 977}"] = row
    return LabelGraph.from_table(table)


def suggest(store: LabelStore) -> None:
    """Suggestions from names for all classes, and a model that doubts and contradicts some of them."""
    chance = random.Random(1)
    fine, columns = store.columns()
    store.put_suggestions("name", from_names(fine, columns))
    column = columns[0]
    photos = [1] * len(fine)
    table = np.array([[chance.random() for _ in column.labels] for _ in fine])
    for row, cell in enumerate(column.cells):
        label = cell[0][0] if cell and chance.random() < 0.9 else chance.randrange(len(column.labels))
        table[row, label] += chance.random() * 4 * len(column.labels)
    table /= table.sum(axis=1, keepdims=True)
    store.put_suggestions("model", from_model(fine, columns, {column.name: table}, photos))
    rows = (dict(zip(column.labels, own.tolist(), strict=True)) for own in table)
    store.put_beliefs({column.name: dict(zip(fine, rows, strict=True))})


def slowest(question, times: int = 5) -> float:
    """The longest of several answers, in milliseconds."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        question()
        found.append(time.perf_counter() - start)
    return 1000 * max(found)


def many_classes(report: Report, folder: Path, classes: int) -> None:
    """Lists, searches, edits and exports of many classes."""
    graph = large_graph(classes)
    with LabelStore.create(folder / "many.db") as store:
        start = time.perf_counter()
        store.import_graph(graph, person="import", edit_id="first")
        report.add("classes", f"import of {classes:,} classes, 8 kinds", time.perf_counter() - start, None, "s")
        start = time.perf_counter()
        suggest(store)
        report.add("classes", "suggestions from names and beliefs", time.perf_counter() - start, None, "s")
        questions = {
            "first page": lambda: store.classes(limit=100),
            "last page": lambda: store.classes(offset=classes - 100, limit=100),
            "by name": lambda: store.classes(order="name", limit=100),
            "attention first": lambda: store.classes(order="attention", limit=100),
            "search, many hits": lambda: store.classes(search="restaurant 97", limit=100),
            "search, no hit": lambda: store.classes(search="nothing like it", limit=100),
            "unknown in any kind": lambda: store.classes(show="unknown", limit=100),
            "unknown in one kind": lambda: store.classes(show="unknown", kind="with", limit=100),
            "with a label": lambda: store.classes(kind="kind 4", label="label 7", limit=100),
            "disagreement": lambda: store.classes(show="disagreement", limit=100),
            "low confidence": lambda: store.classes(show="low_confidence", limit=100),
            "suggested": lambda: store.classes(show="suggested", limit=100),
        }
        for name, question in questions.items():
            report.add("classes", f"list, {name}", slowest(question), 300, "ms")
        report.add(
            "classes", "progress", slowest(lambda: (setattr(store, "_progress", None), store.progress()), 2), None, "ms"
        )
        edit = iter(range(1000))

        def decide() -> None:
            number = next(edit)
            store.decide(graph.fine[number], "kind 0", "label 1", person="ann", edit_id=f"e{number}", seen=None)

        report.add("classes", "one edit", slowest(decide, 20), None, "ms")
        for form in ("csv", "json", "label-studio"):
            start = time.perf_counter()
            export_file(store, folder / f"many.{form}", form)
            report.add("classes", f"export as {form}", time.perf_counter() - start, 10, "s")
        report.add("classes", "exported graph differs from the imported one", int(store.graph(1) != graph), 0)


def main() -> None:
    """Run what is asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), metavar="PART")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--database")
    parser.add_argument("--edits", type=int)
    parser.add_argument("--classes", type=int)
    parser.add_argument("--kills", type=int)
    chosen = parser.parse_args()
    if unknown := set(chosen.parts) - set(PARTS):
        parser.error(f"there is no part {min(unknown)!r}; the parts are {', '.join(PARTS)}")
    edits = chosen.edits or (1200 if chosen.quick else 20_000)
    report = Report()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        folder = Path(name)
        place = chosen.database or str(folder / "people.db")
        parts: dict[str, Callable[[], None]] = {  # kills come first: they fork, which needs a process without threads
            "kills": lambda: kills(report, folder, chosen.kills or (40 if chosen.quick else 500)),
            "classes": lambda: many_classes(report, folder, chosen.classes or (20_000 if chosen.quick else 100_000)),
            "people": lambda: people(report, place, edits, max(1, edits // 800)),
        }
        try:
            for part in PARTS:
                if part in chosen.parts:
                    report.run(part, parts[part])
        finally:
            Console(width=120).print(report.table)
    sys.exit(0 if report.well else 1)


if __name__ == "__main__":
    main()
