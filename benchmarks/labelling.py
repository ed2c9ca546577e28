"""The store of label decisions against its limits: many people, kills, and many classes. One table at the end.

    python benchmarks/labelling.py                       20,000 edits, 500 kills, 100,000 classes: about 10 minutes
    python benchmarks/labelling.py --quick               1,200 edits, 40 kills, 20,000 classes: about a minute
    python benchmarks/labelling.py --parts people        one part, or some of: kills classes comparisons people
    python benchmarks/labelling.py --folder D            on the disk of folder D
    python benchmarks/labelling.py --database URL        the part `people` on a PostgreSQL server (an empty database)

people: 32 people, each with its own connection to `finegraph label`, make 2 edits per second each. Now and then the
server is killed (kill -9) and started again, and a person hangs up before the answer comes; whoever has no answer
repeats the edit with the same id. Counted: edits that were acknowledged, and how often each is in the log; a process
beside it tells how long the disk alone takes meanwhile. kills: a process edits as fast as it can and is killed; each
acknowledged edit must be there. classes: lists, searches and exports. comparisons: 10,000 comparisons of 1,000 classes,
the next pair while a person answers, and the order. The exit code is 1 if a limit is missed or a part
fails; the other parts are run and shown all the same.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import sqlalchemy as sa
from disk_witness import DiskWitness
from labelling_people import PEOPLE, RATE, Person, Server, calm_rate, outside, run_crowd
from rich.console import Console
from rich.table import Table

from finegraph.cli.progress import progress
from finegraph.graph import LabelGraph
from finegraph.graph.comparison_fit import fit_comparisons
from finegraph.graph.comparisons import Comparison
from finegraph.labelling import Decision, LabelStore
from finegraph.labelling.suggestions.proposals import from_model, from_names
from finegraph.web.label.live_order import LiveOrder
from finegraph.workflows.labels.label_files import export_file

PARTS = ("kills", "classes", "comparisons", "people")
MAX_WAIT = 0.1
"""Seconds in which 99 of 100 answers have to come."""
LONG_SYNC = 0.03
"""Seconds from which on the disk stands still."""


class Report:
    """The table that is printed, and whether all limits are kept."""

    def __init__(self) -> None:
        self.table = Table("part", "metric", "found", "limit")
        self.well = True

    def add(
        self,
        part: str,
        metric: str,
        found: float,
        limit: float | None = None,
        unit: str = "",
        least: float | None = None,
    ) -> None:
        """Add a metric, which must not be above its limit, nor below what it has to be at least."""
        good = (limit is None or found <= limit) and (least is None or found >= least)
        self.well &= good
        shown = f"{found:,.0f}" if float(found).is_integer() or math.isinf(found) else f"{found:,.1f}"
        self.table.add_row(
            part,
            metric,
            (f"{shown} {unit}" if good else f"[red]{shown} {unit}[/red]"),
            (f"at least {least:,g}" if least is not None else "") if limit is None else f"{limit:,g}",
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
    witness = None if "://" in place else DiskWitness(Path(place).parent)
    with progress("edits") as told, witness or contextlib.nullcontext():
        crowd, server, began, ended = run_crowd(place, edits, kills, classes, told)
    acknowledged = {edit_id: made for person in crowd for edit_id, made in person.acknowledged.items()}
    logged = Counter(_edit_ids(place))
    counts = sum((person.counts for person in crowd), Counter())
    report.add("people", f"edits of {PEOPLE} people, acknowledged", len(acknowledged))
    report.add("people", "acknowledged and not in the log", sum(one not in logged for one in acknowledged), 0)
    report.add("people", "acknowledged, not once in the log with its value", _wrong_in_log(place, acknowledged), 0)
    report.add("people", "in the log more than once", sum(count > 1 for count in logged.values()), 0)
    report.add("people", "in the log, never acknowledged", len(logged) - 1 - len(acknowledged), 0)
    gaps, differing = _gaps(place)
    report.add("people", "cells whose history has a gap", gaps, 0)
    report.add("people", "cells that are not as their last edit left them", differing, 0)
    for name in ("answers lost", "no answer in time", "hung up", "repeated", "conflicts", "refused by the server"):
        report.add("people", name, counts[name])
    report.add("people", "kills (kill -9)", server.kills)
    report.add("people", "ends of the server without a kill", server.ended, 0)
    report.add("people", "edits per second, kills included", len(acknowledged) / (ended - began))
    wanted = 0.95 * PEOPLE * RATE
    report.add("people", "edits per second, outside of kills", calm_rate(crowd, server, began), least=wanted)
    _add_answers(report, crowd, server)
    if witness is not None:
        _add_disk(report, crowd, server, witness)


def _add_disk(report: Report, crowd: list[Person], server: Server, witness: DiskWitness) -> None:
    """How long the disk alone took meanwhile, and how many of the slow answers fall on its slow moments."""
    alone = [ended - began for began, ended in witness.syncs]
    report.add("people", "the disk alone, beside it: p99 to write and sync", 1000 * quantile(alone, 0.99), None, "ms")
    report.add("people", "the disk alone, the longest", 1000 * max(alone, default=0.0), None, "ms")
    stalls = witness.stalls(LONG_SYNC)
    slow = [one for one in _times(crowd, server) if one[1] - one[0] > MAX_WAIT]
    report.add("people", f"answers over {1000 * MAX_WAIT:.0f} ms", len(slow))
    beside = sum(not outside(stalls, asked, back) for asked, back in slow)
    report.add("people", f"of them while the disk alone took over {1000 * LONG_SYNC:.0f} ms", beside)


def _times(crowd: list[Person], server: Server) -> list[tuple[float, float]]:
    """When edits were sent and answered, but for those while the server was away."""
    times = [one for person in crowd for one in person.answers]
    return [(asked, back) for asked, back in times if outside(server.away, asked, back)]


def _add_answers(report: Report, crowd: list[Person], server: Server) -> None:
    """How long people waited: for every answer, also of a conflict, and for those that did not come in time."""
    times = _times(crowd, server)
    answers = [back - asked for asked, back in times]
    starting = [(gone, back + 5) for gone, back in server.away]
    calm = [back - asked for asked, back in times if outside(starting, asked, back)]
    saved = [seconds for person in crowd for seconds in person.saved]
    report.add("people", "median answer", 1000 * quantile(answers, 0.5), None, "ms")
    report.add("people", "p99 answer", 1000 * quantile(answers, 0.99), 1000 * MAX_WAIT, "ms")
    report.add("people", "p99 answer, 5 s after a start and later", 1000 * quantile(calm, 0.99), None, "ms")
    report.add("people", "p99 with repeats, kills included", 1000 * quantile(saved, 0.99), None, "ms")
    away = [back - gone for gone, back in server.away]
    report.add("people", "away after a kill, mean", sum(away) / max(1, len(away)), None, "s")


def quantile(values: list[float], share: float) -> float:
    """The value below which a share of all lies; 0 where there are none."""
    if not values:
        return 0.0
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def _edit_ids(place: str) -> list[str]:
    with LabelStore.open(place, write=False) as store, store._database.reading() as connection:
        return list(connection.scalars(sa.text("SELECT edit_id FROM batches")))


def _wrong_in_log(place: str, acknowledged: Mapping[str, tuple[str, str, str]]) -> int:
    """How many acknowledged edits are not in the log exactly once, with their class, kind and value."""
    query = sa.text(
        "SELECT b.edit_id, b.person, f.name, k.name, e.after FROM edits e JOIN batches b ON b.number = e.batch "
        "JOIN fine f ON f.id = e.fine_id JOIN kinds k ON k.id = e.kind_id WHERE e.target = 'cell'"
    )
    found: dict[str, list[tuple[str, str, str]]] = {}
    with LabelStore.open(place, write=False) as store, store._database.reading() as connection:
        names = {f"[{number}]": name for number, name in connection.execute(sa.text("SELECT id, name FROM labels"))}
        for edit_id, person, fine, kind, after in connection.execute(query):
            image = json.loads(after)
            value = names.get(image["value"], "") if image["votes"] == {person: image["value"]} else ""
            found.setdefault(edit_id, []).append((fine, kind, value))
    return sum(found.get(edit_id) != [made] for edit_id, made in acknowledged.items())


def _gaps(place: str) -> tuple[int, int]:
    """How many edits do not begin where the one before of the same cell ended; how many cells are not as the last."""
    last: dict[tuple[int, int], object] = {}
    gaps = 0
    with LabelStore.open(place, write=False) as store, store._database.reading() as connection:
        query = sa.text("SELECT fine_id, kind_id, before, after FROM edits WHERE target = 'cell' ORDER BY number")
        for fine_id, kind_id, before, after in connection.execute(query):
            value = json.loads(before)["value"]
            gaps += last.get((fine_id, kind_id), value) != value
            last[fine_id, kind_id] = json.loads(after)["value"]
        rows = connection.execute(sa.text("SELECT fine_id, kind_id, value FROM cells"))
        now = {(fine_id, kind_id): value for fine_id, kind_id, value in rows}
    return gaps, sum(now.get(cell) != value for cell, value in last.items())


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
        # Most names tell the label of the first kind; it is unknown for some classes, and another for a few.
        named = row["kind 0"] if chance.random() < 0.97 else f"label {chance.randrange(30)}"
        if chance.random() < 0.1:
            row["kind 0"] = None
        table[f"dish number {number} of restaurant {number % 977}, {named}"] = row
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


def disagree(store: LabelStore, fine: Sequence[str]) -> None:
    """Two people vote for different labels of every hundredth class."""
    for person, label in (("ann", "label 1"), ("bob", "label 2")):
        votes = [Decision(fine=name, kind="kind 1", value=label, seen=None) for name in fine[::100]]
        store.decide_many(votes, person=person, edit_id=f"votes of {person}")


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
        report.add("classes", "suggestions from names", store.suggestions(source="name", limit=1).total, least=1)
        disagree(store, graph.fine)
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
            "contradicted": lambda: store.classes(show="contradicted", order="attention", limit=100),
        }
        empty = [name for name, question in questions.items() if not question().rows and name != "search, no hit"]
        report.add("classes", f"lists without a class {', '.join(empty)}".rstrip(), len(empty), 0)
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
    served_lists(report, str(folder / "many.db"), graph.fine)


def comparisons(report: Report, folder: Path, classes: int, count: int) -> None:
    """Comparisons of many classes: the next pair, an answer, the values."""
    rng = np.random.default_rng(0)
    names = [f"class {number}" for number in range(classes)]
    heat = rng.normal(0, 2, classes)
    pairs = rng.integers(0, classes, (count, 2))
    pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
    told = []
    for one, two in pairs.tolist():
        more = rng.random() < 1 / (1 + math.exp(heat[two] - heat[one]))
        told.append(Comparison("heat", *((names[one], names[two]) if more else (names[two], names[one])), "bob"))
    with LabelStore.create(folder / "compared.db") as store:
        graph = LabelGraph.from_table({name: {"heat": None} for name in names}, {"heat": "number"})
        store.import_graph(graph, person="import", edit_id="first")
        start = time.perf_counter()
        store.import_comparisons(told, person="bob", edit_id="told")
        report.add("comparisons", f"import of {len(told):,}", time.perf_counter() - start, None, "s")
        start, core = time.perf_counter(), time.thread_time()
        fitted = fit_comparisons("heat", names, told)
        core = time.thread_time() - core
        report.add("comparisons", f"values of {classes:,} classes", 1000 * (time.perf_counter() - start), 1000, "ms")
        report.add("comparisons", "the same, of one core", 1000 * core, None, "ms")
        known = np.corrcoef(heat[fitted.items], fitted.values)[0, 1]
        report.add("comparisons", "correlation of fitted with true values, per cent", 100 * known, least=80)
        live = LiveOrder(store, store.kind_entry("heat").id, seed=0)
        waits: list[float] = []
        cores: list[float] = []
        saves: list[float] = []
        start = time.perf_counter()
        live.order("heat", "classes")
        report.add("comparisons", "the order, first asked for", 1000 * (time.perf_counter() - start), None, "ms")
        for number in range(100):
            time.sleep(0.2)  # a quick person
            start, core = time.perf_counter(), time.thread_time()
            found = live.next_pair("heat", "ann", "classes")
            waits.append(time.perf_counter() - start)
            cores.append(time.thread_time() - core)
            assert found is not None, "there are pairs left"
            start = time.perf_counter()
            one, two = (live.name_of(one) for one in found)
            store.compare("heat", one, two, "more", person="ann", edit_id=f"c{number}", seen=0)
            saves.append(time.perf_counter() - start)
        report.add("comparisons", "the next pair, 95 of 100 within", 1000 * quantile(waits, 0.95), 50, "ms")
        report.add("comparisons", "the next pair, half within", 1000 * quantile(waits, 0.5), None, "ms")
        report.add("comparisons", "the next pair, half within, of one core", 1000 * quantile(cores, 0.5), None, "ms")
        report.add("comparisons", "an answer on the disk, 95 of 100 within", 1000 * quantile(saves, 0.95), None, "ms")


def served_lists(report: Report, place: str, fine: Sequence[str]) -> None:
    """Lists of the page over HTTP; there is an edit before each question, so that nothing kept answers it."""
    server = Server(place)
    person = Person(0, server, 0, 0)
    numbers = iter(range(len(fine) - 1, 0, -1))

    def edited() -> None:
        number = next(numbers)
        cell = {"fine": fine[number], "kind": "kind 2", "value": "label 1", "seen": None}
        body = {"person": "eve", "edit": f"served, edit {number}", "cells": [cell]}
        while person.ask("POST", "/api/decide", body) is None:
            pass

    try:
        for name, asked in (
            ("contradicted", {"show": "contradicted"}),
            ("contradicted in a kind", {"show": "contradicted", "kind": "kind 0"}),
            ("attention first", {"order": "attention"}),
        ):
            found, rows = [], []
            for _ in range(5):
                edited()
                start = time.perf_counter()
                answer = person.ask("GET", "/api/classes?" + urlencode({**asked, "limit": 100}))
                found.append(1000 * (time.perf_counter() - start))
                rows.append(len(answer[1]["rows"]) if answer else 0)
            report.add("classes", f"list over HTTP, {name}", max(found) if min(rows) else math.inf, 300, "ms")
    finally:
        server.stop()


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
            "comparisons": lambda: comparisons(report, folder, 1000, 10_000),
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
