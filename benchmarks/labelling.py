"""The store of label decisions against its limits: many people, kills, and many classes.

    python benchmarks/labelling.py                       20,000 edits, 500 kills, 100,000 classes: 8 minutes
    python benchmarks/labelling.py --quick               1,200 edits, 40 kills, 20,000 classes: about a minute
    python benchmarks/labelling.py --parts people        one part: people, kills or classes
    python benchmarks/labelling.py --folder D            on the disk of folder D
    python benchmarks/labelling.py --database URL        the part `people` on a PostgreSQL server (an empty database)

people: 32 threads, each with its own connection to a process that owns the store, make 2 edits per second each. Now and
then that process is killed (kill -9) and started again, and a person hangs up before the answer comes; whoever has no
answer repeats the edit with the same id. Counted: edits that were acknowledged, and how often each is in the log.
kills: a process edits as fast as it can and is killed; each acknowledged edit must be there. classes: lists, searches
and exports. The exit code is 1 if a limit is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import sqlalchemy as sa
from rich.console import Console
from rich.table import Table

from finegraph.errors import ConflictError
from finegraph.graph import LabelGraph
from finegraph.labelling import LabelStore

PEOPLE, RATE = 32, 2.0
TIMEOUT = 5.0
"""Seconds after which a person takes an answer for lost."""
HANG_UP = 0.02
"""How often a person hangs up before the answer comes."""


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


def small_graph(classes: int) -> LabelGraph:
    """A graph to edit."""
    return LabelGraph.from_table(
        {f"class {number}": {"dish": f"dish {number % 20}", "egg": bool(number % 2)} for number in range(classes)}
    )


# ---- people ----------------------------------------------------------------------------------------------------------


def serve(place: str) -> None:
    """Own the store and answer one line of JSON with another, on a socket whose port is printed."""
    store = LabelStore.open(place)
    listening = socket.create_server(("127.0.0.1", 0), backlog=256)
    print(listening.getsockname()[1], flush=True)

    def answer(connection: socket.socket) -> None:
        with connection, connection.makefile("rwb") as stream:
            for line in stream:
                asked = json.loads(line)
                try:
                    if asked["ask"] == "cell":
                        said = {"version": store.cell(asked["fine"], asked["kind"]).version}
                    else:
                        made = store.decide(
                            asked["fine"],
                            asked["kind"],
                            asked["value"],
                            person=asked["person"],
                            edit_id=asked["edit_id"],
                            seen=asked["seen"],
                        )
                        said = {"batch": made.batch, "repeated": made.repeated}
                except ConflictError:
                    said = {"conflict": True}
                stream.write(json.dumps(said).encode() + b"\n")
                stream.flush()

    while True:
        threading.Thread(target=_quietly, args=(answer, listening.accept()[0]), daemon=True).start()


def _quietly(answer, connection) -> None:
    """Answer until the other side goes away."""
    with contextlib.suppress(OSError, ValueError):
        answer(connection)


class Server:
    """The process that owns the store; it can be killed and comes back on another port."""

    def __init__(self, place: str) -> None:
        self.place, self.port, self.kills = place, 0, 0
        self.ready = threading.Event()
        self.start()

    def start(self) -> None:
        """Start the process and wait until it listens."""
        command = [sys.executable, __file__, "--serve", self.place]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())  # type: ignore[union-attr]
        self.ready.set()

    def kill(self) -> None:
        """Kill the process and start it again."""
        self.ready.clear()
        self.stop()
        self.kills += 1
        self.start()

    def stop(self) -> None:
        """Kill the process."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()  # type: ignore[union-attr]


class Person(threading.Thread):
    """Somebody who edits at a steady pace and repeats what was not acknowledged."""

    def __init__(self, number: int, server: Server, edits: int, classes: int) -> None:
        super().__init__(daemon=True)
        self.name_, self.server, self.edits, self.classes = f"person {number}", server, edits, classes
        self.chance = random.Random(number)
        self.stream = None
        self.acknowledged: list[str] = []
        self.answers: list[float] = []
        self.counts: Counter[str] = Counter()

    def ask(self, question: dict) -> dict | None:
        """The answer of the store, or None where it is lost."""
        try:
            if self.stream is None:
                self.server.ready.wait()
                connection = socket.create_connection(("127.0.0.1", self.server.port), timeout=TIMEOUT)
                self.stream = connection.makefile("rwb")
                connection.close()  # the stream keeps it open
            self.stream.write(json.dumps(question).encode() + b"\n")
            self.stream.flush()
            if question["ask"] == "decide" and self.chance.random() < HANG_UP:
                self.counts["hung up"] += 1
                raise OSError("hung up")
            line = self.stream.readline()
            if line:
                return json.loads(line)
        except OSError:
            pass
        self.stream = None
        self.counts["answers lost"] += 1
        time.sleep(0.05)
        return None

    def run(self) -> None:
        """Make all edits, in time."""
        start = time.monotonic() + self.chance.random() / RATE
        for number in range(self.edits):
            time.sleep(max(0.0, start + number / RATE - time.monotonic()))
            self.edit(f"{self.name_}, edit {number}")

    def edit(self, edit_id: str) -> None:
        """Make one edit, however often it has to be asked for."""
        fine, kind = f"class {self.chance.randrange(self.classes)}", self.chance.choice(["dish", "egg"])
        value = f"dish {self.chance.randrange(20)}" if kind == "dish" else self.chance.choice(["yes", "no"])
        tries = 0
        while True:
            while (cell := self.ask({"ask": "cell", "fine": fine, "kind": kind})) is None:
                pass
            question = {"ask": "decide", "fine": fine, "kind": kind, "value": value, "person": self.name_}
            question |= {"edit_id": f"{edit_id}, try {tries}", "seen": cell["version"]}
            while True:
                asked = time.monotonic()
                found = self.ask(question)
                if found is not None:
                    break
                self.counts["repeated"] += 1
            if "conflict" in found:
                self.counts["conflicts"] += 1
                tries += 1
                continue
            self.answers.append(time.monotonic() - asked)
            self.acknowledged.append(question["edit_id"])
            return


def people(report: Report, place: str, edits: int, kills: int) -> None:
    """Many people edit while the process that owns the store is killed now and then."""
    classes = 400
    with LabelStore.create(place) as store:
        store.import_graph(small_graph(classes), person="import", edit_id="first")
    server = Server(place)
    crowd = [Person(number, server, edits // PEOPLE, classes) for number in range(PEOPLE)]
    began = time.monotonic()
    for person in crowd:
        person.start()
    for number in range(kills):
        time.sleep(edits / (PEOPLE * RATE) / (kills + 1) * (0.5 + random.Random(number).random()))
        server.kill()
    for person in crowd:
        person.join()
    took = time.monotonic() - began
    server.stop()
    acknowledged = [edit_id for person in crowd for edit_id in person.acknowledged]
    logged = Counter(_edit_ids(place))
    counts = sum((person.counts for person in crowd), Counter())
    answers = sorted(answer for person in crowd for answer in person.answers)
    report.add("people", f"edits of {PEOPLE} people, acknowledged", len(acknowledged))
    report.add("people", "acknowledged and not in the log", sum(one not in logged for one in acknowledged), 0)
    report.add("people", "in the log more than once", sum(count > 1 for count in logged.values()), 0)
    report.add("people", "in the log, never acknowledged", len(logged) - 1 - len(acknowledged), 0)
    report.add("people", "cells whose history has a gap", _gaps(place), 0)
    for name in ("answers lost", "hung up", "repeated", "conflicts"):
        report.add("people", name, counts[name])
    report.add("people", "kills (kill -9)", server.kills)
    report.add("people", "edits per second", len(acknowledged) / took)
    report.add("people", "median answer", 1000 * answers[len(answers) // 2], None, "ms")
    report.add("people", "p99 answer", 1000 * answers[int(0.99 * len(answers))], 100, "ms")


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
    for _ in range(times):
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
            lines = [pipe.readline()]
            time.sleep(chance.random() * 0.1)
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
        store.put_suggestions("name", ())
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
        for form in ("csv", "json"):
            start = time.perf_counter()
            store.export_text(form)
            report.add("classes", f"export as {form}", time.perf_counter() - start, 10, "s")
        report.add("classes", "exported graph differs from the imported one", int(store.graph(1) != graph), 0)


def main() -> None:
    """Run what is asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--parts", nargs="*", default=["kills", "classes", "people"])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--database")
    parser.add_argument("--edits", type=int)
    parser.add_argument("--classes", type=int)
    parser.add_argument("--kills", type=int)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        serve(chosen.serve)
        return
    report = Report()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        folder = Path(name)
        if "kills" in chosen.parts:  # first: it forks, which needs a process without threads
            kills(report, folder, chosen.kills or (40 if chosen.quick else 500))
        if "classes" in chosen.parts:
            many_classes(report, folder, chosen.classes or (20_000 if chosen.quick else 100_000))
        if "people" in chosen.parts:
            edits = chosen.edits or (1200 if chosen.quick else 20_000)
            people(report, chosen.database or str(folder / "people.db"), edits, max(1, edits // 500))
    Console(width=120).print(report.table)
    sys.exit(0 if report.well else 1)


if __name__ == "__main__":
    main()
