"""Many people who edit through the server of the labelling page: the part `people` of benchmarks/labelling.py.

Each person is a thread with a connection of its own to `finegraph label`. It does what the page does: it looks at a
class, sends a decision with the version that it saw, and asks every 1.2 seconds what others have changed. The server is
killed (kill -9) and started again now and then; a person sometimes hangs up before the answer comes, as after a time
limit. Whoever has no answer waits and sends the same edit with the same id; a conflict is looked at and decided anew.
The pace is that of people: what the server was away for is not made up for in a rush.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from urllib.parse import urlencode

PEOPLE, RATE = 32, 2.0
TIMEOUT = 5.0
"""Seconds after which a person takes an answer for lost."""
HANG_UP = 0.02
"""How often a person hangs up before the answer comes."""
POLL = 1.2
"""Seconds between two questions of the page for what others do."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 8.0
"""Seconds that the page waits before it sends again what was not answered: twice as long each time."""
_START = "import sys; from finegraph.cli.main import run; sys.exit(run(sys.argv[1:]))"
_SECONDS_TO_START = 60.0


class Server:
    """`finegraph label` in a process of its own, which can be killed and comes back at the same address."""

    def __init__(self, place: str) -> None:
        self.place, self.kills, self.ended = place, 0, 0
        self.away: list[tuple[float, float]] = []
        self.began = 0.0
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.start()

    def start(self) -> None:
        """Start the process and wait until it answers."""
        command = [sys.executable, "-c", _START, "label", self.place, "--port", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        timer = threading.Timer(_SECONDS_TO_START, self.process.kill)
        timer.start()
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        timer.cancel()
        if "http://" not in line:
            raise RuntimeError(f"the server did not start on {self.place}")
        self.began = time.monotonic()

    def kill(self) -> None:
        """Kill the process and start it again."""
        self.kills += 1
        self._again()

    def look_after(self) -> None:
        """Start the process again where it has ended by itself, which it never should."""
        if self.process.poll() is not None:
            self.ended += 1
            self._again()

    def _again(self) -> None:
        began = time.monotonic()
        self.stop()
        self.start()
        self.away.append((began, time.monotonic()))

    def stop(self) -> None:
        """Kill the process."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Person(threading.Thread):
    """Somebody who edits at a steady pace and repeats what was not acknowledged.

    Attributes:
        acknowledged: by id, the edits that were: class, kind and value.
        moments: when each of them was.
        answers: when an edit was sent and when its answer came: that it is saved, that it is in conflict with another,
            that it is refused for now, or none at all in time. A person who hangs up expects none.
        ended: when all edits were made.
        saved: seconds from sending an edit for the first time to its answer, over all repetitions.
        counts: what else happened.
        fault: why this person could not go on.
    """

    def __init__(self, number: int, server: Server, edits: int, classes: int) -> None:
        super().__init__(daemon=True)
        self.who, self.server, self.edits, self.classes = f"person {number}", server, edits, classes
        self.chance = random.Random(number)
        self.connection: http.client.HTTPConnection | None = None
        self.acknowledged: dict[str, tuple[str, str, str]] = {}
        self.moments: list[float] = []
        self.answers: list[tuple[float, float]] = []
        self.ended = math.inf
        self.saved: list[float] = []
        self.counts: Counter[str] = Counter()
        self.fault: BaseException | None = None
        self.version, self.polled, self.pause = 0, 0.0, FIRST_PAUSE

    def run(self) -> None:
        """Make all edits, at this person's pace."""
        try:
            due = time.monotonic() + self.chance.random() / RATE
            for number in range(self.edits):
                time.sleep(max(0.0, due - time.monotonic()))
                self.follow()
                self.edit(f"{self.who}, edit {number}")
                due += 1 / RATE
                if due < time.monotonic() - 2 / RATE:  # the server was away: go on at the same pace
                    due = time.monotonic() + self.chance.random() / RATE
            self.ended = time.monotonic()
        except BaseException as error:
            self.fault = error

    def follow(self) -> None:
        """Ask for what others have changed, as the page does."""
        if time.monotonic() - self.polled >= POLL:
            self.polled = time.monotonic()
            found = self.ask("GET", "/api/changes?" + urlencode({"since": self.version}))
            if found is not None:
                self.version = found[1]["version"]

    def edit(self, edit_id: str) -> None:
        """Make one edit, however often it has to be asked for."""
        fine, kind = f"class {self.chance.randrange(self.classes)}", self.chance.choice(["dish", "egg"])
        value = f"dish {self.chance.randrange(20)}" if kind == "dish" else self.chance.choice(["yes", "no"])
        tries = 0
        while True:
            while (seen := self.ask("GET", "/api/class?" + urlencode({"fine": fine}))) is None:
                pass
            cell = {"fine": fine, "kind": kind, "value": value, "seen": seen[1]["cells"][kind]["version"]}
            body = {"person": self.who, "edit": f"{edit_id}, try {tries}", "cells": [cell]}
            first = time.monotonic()
            while True:
                found = self.ask("POST", "/api/decide", body)
                if found is not None:
                    break
                self.counts["repeated"] += 1
            if found[0] == 409:
                self.counts["conflicts"] += 1
                tries += 1
                continue
            self.moments.append(time.monotonic())
            self.saved.append(time.monotonic() - first)
            self.acknowledged[body["edit"]] = fine, kind, value
            return

    def wait(self) -> None:
        """Wait before asking again, as long as the page does: half to one and a half of a pause that doubles."""
        time.sleep(self.pause * (0.5 + self.chance.random()))
        self.pause = min(2 * self.pause, LONGEST_PAUSE)

    def ask(self, method: str, path: str, body: dict | None = None) -> tuple[int, dict] | None:
        """The status and the answer of the server, or None where it is lost."""
        asked = time.monotonic()
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=TIMEOUT)
            text = None if body is None else json.dumps(body)
            self.connection.request(method, path, text, {"Content-Type": "application/json"})
            if body is not None and self.chance.random() < HANG_UP:
                self.counts["hung up"] += 1
                raise OSError("hung up")
            answer = self.connection.getresponse()
            status, content = answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            if body is not None and isinstance(error, TimeoutError):
                self.counts["no answer in time"] += 1
                self.answers.append((asked, time.monotonic()))
            if self.connection is not None:
                self.connection.close()
            self.connection = None
            self.counts["answers lost"] += 1
            self.wait()
            return None
        if body is not None:
            self.answers.append((asked, time.monotonic()))
        self.pause = FIRST_PAUSE
        if status in (200, 409):
            return status, content
        if status >= 500:  # the page asks again too
            self.counts["refused by the server"] += 1
            self.wait()
            return None
        raise RuntimeError(f"{method} {path}: {status} {str(content)[:300]}")


def outside(away: list[tuple[float, float]], began: float, ended: float) -> bool:
    """Whether a time lies outside of all times that the server was away."""
    return all(ended < gone or began > back for gone, back in away)


def calm_rate(crowd: list[Person], server: Server, began: float) -> float:
    """Edits per second of all people while everybody edits.

    After a kill a person waits before asking again, at most as long again as the server was away and a second; that
    time is left out, and so is the end, when some have made all their edits.
    """
    away = [(gone, back + (back - gone) + 1.0) for gone, back in server.away]
    end = min(person.ended for person in crowd)
    seconds = [moment for moment in range(1, int(end - began)) if outside(away, began + moment, began + moment + 1)]
    made = Counter(int(moment - began) for person in crowd for moment in person.moments)
    return sum(made[second] for second in seconds) / max(1, len(seconds))


def run_crowd(
    place: str, edits: int, kills: int, classes: int, told: Callable[[int, int], None]
) -> tuple[list[Person], Server, float, float]:
    """Let people edit a store until all edits are made: the people, the server (stopped), when it began and ended."""
    server = Server(place)
    crowd = [Person(number, server, edits // PEOPLE, classes) for number in range(PEOPLE)]
    total = edits // PEOPLE * PEOPLE
    chance = random.Random(0)
    moments = sorted(chance.uniform(0.02, 0.98) * total for _ in range(kills))
    began = time.monotonic()
    try:
        for person in crowd:
            person.start()
        while any(person.is_alive() for person in crowd):
            time.sleep(0.05)
            server.look_after()
            done = sum(len(person.acknowledged) for person in crowd)
            told(done, total)
            if moments and done >= moments[0]:
                moments.pop(0)
                server.kill()
            for person in crowd:
                if person.fault is not None:
                    raise RuntimeError(f"{person.who} could not go on") from person.fault
        return crowd, server, began, time.monotonic()
    finally:
        server.stop()
