"""What the server of a model takes: speed, overload, answers under load, memory, and hostile uploads.

    python benchmarks/serve.py --model RUN --data FOLDER
    python benchmarks/serve.py --model RUN --data FOLDER --seconds 8 --requests 400 --soak 30 --malformed 500 --bombs 10

`finegraph serve` runs as its users start it; the load comes from this process, over 127.0.0.1, on the same cores.

speed      photos per second of one-photo requests by 16 clients, against an in-process loop that decodes the same files
           and predicts, with one thread and with all, whichever is faster. The two take turns; the ratio is the median
overload   requests at ten times that rate, whatever becomes of them: how many are answered, how quickly the others are
           refused
answers    concurrent requests with other photos and evidence against the library's single answers
memory     growth of the server over a timed run at full load, after a first tenth of it
hostile    malformed uploads and bombs among sound ones: nothing but 4xx for them, sound ones answered, workers bounded

Every turn of the loop is a new process. On a machine that does other things too, turns differ; look at the spread.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import struct
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

from serve_load import Answer, closed_loop, multipart, open_loop, top_of

CLIENTS = 16
PARTS = ("speed", "overload", "answers", "memory", "hostile")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, metavar="RUN", help="a run folder or a model folder")
    parser.add_argument("--data", required=True, metavar="FOLDER", help="a folder with photos, at any depth")
    parser.add_argument("--photos", type=int, default=200, help="how many different photos")
    parser.add_argument("--turns", type=int, default=3, help="how often loop and server take turns")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each turn")
    parser.add_argument("--requests", type=int, default=20_000, help="requests whose answers are compared")
    parser.add_argument("--soak", type=float, default=600.0, help="seconds of the run whose memory is watched")
    parser.add_argument("--malformed", type=int, default=10_000)
    parser.add_argument("--bombs", type=int, default=100)
    parser.add_argument("--only", choices=PARTS, action="append", help="measure only this; repeat it for more")
    parser.add_argument("--loop", type=int, metavar="THREADS", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    found = sorted(path for path in Path(arguments.data).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    paths = found[:: max(1, len(found) // arguments.photos)][: arguments.photos]
    if arguments.loop:
        print(json.dumps(loop(arguments, paths)))
        return
    print(f"{len(paths)} photos; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores before the start")
    wanted = arguments.only or list(PARTS)
    with Running(arguments.model) as server:
        contents = [path.read_bytes() for path in paths]
        rate = 0.0
        if "speed" in wanted or "overload" in wanted:
            rate = speed(arguments, server, contents)
        if "overload" in wanted:
            overload(arguments, server, contents, rate)
        if "answers" in wanted:
            answers(arguments, server, paths, contents)
        if "memory" in wanted:
            memory(arguments, server, contents)
        if "hostile" in wanted:
            hostile(arguments, server, contents)


class Running:
    """The command as a process of its own."""

    def __init__(self, model: str) -> None:
        command = [sys.executable, "-m", "finegraph", "serve", model, "--port", "0", "--json"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Running:
        text = ""
        assert self.process.stdout is not None
        while not text.rstrip().endswith("}"):
            line = self.process.stdout.readline()
            if not line:
                sys.exit("the server did not start")
            text += line
        self.port = int(json.loads(text)["address"].rstrip("/").rpartition(":")[2])
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def megabytes(self) -> tuple[float, float]:
        """The memory of the server, and of all its workers together."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return resident(self.process.pid), sum(resident(int(child)) for child in children)


def resident(process: int) -> float:
    """The resident memory of a process in MB; 0 where it is gone."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def row(name: str, value: str, limit: str = "", good: bool | None = None) -> None:
    """A line of the table."""
    print(f"{name:44} {value:>26}  {limit:26} {'' if good is None else 'ok' if good else 'MISSED'}", flush=True)


# ---- speed ----------------------------------------------------------------------------------------------------------


def loop(arguments: argparse.Namespace, paths: list[Path]) -> dict[str, float]:
    """One turn of the in-process loop: decode and predict, 32 photos at a time."""
    from finegraph.cli.process import prepare_process

    prepare_process()
    import torch

    import finegraph

    torch.set_num_threads(arguments.loop)
    model = finegraph.load(arguments.model)
    files = [str(path) for path in paths]
    model.predict(files[:32])
    started, done = time.perf_counter(), 0
    while time.perf_counter() - started < arguments.seconds:
        start = done % len(files)
        done += len(model.predict(files[start : start + 32]))
    return {"rate": done / (time.perf_counter() - started)}


def speed(arguments: argparse.Namespace, server: Running, contents: list[bytes]) -> float:
    """Loop and server in turns; the server's median rate."""
    requests = [multipart([content], []) for content in contents]
    timed(server, requests, 2.0)
    loops, served, ratios = [], [], []
    for _ in range(arguments.turns):
        rates = []
        for threads in sorted({1, os.cpu_count() or 1}):
            command = [sys.executable, __file__, "--model", arguments.model, "--data", arguments.data]
            command += ["--photos", str(arguments.photos), "--seconds", str(arguments.seconds), "--loop", str(threads)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            rates.append(json.loads(output)["rate"])
        loops.append(max(rates))
        found, seconds = timed(server, requests, arguments.seconds)
        served.append(sum(answer.status == 200 for answer in found) / seconds)
        ratios.append(served[-1] / loops[-1])
    ratio = statistics.median(ratios)
    row("in-process loop, photos/s", spread(loops))
    row("served, photos/s", spread(served))
    row("served / loop", spread(ratios, "{:.2f}"), "at least 0.75", ratio >= 0.75)
    return statistics.median(served)


def timed(server: Running, requests: list[bytes], seconds: float) -> tuple[list[Answer], float]:
    """Full load by a few clients for some seconds."""
    started = time.perf_counter()
    end = started + seconds
    found = closed_loop(
        server.port, lambda number: requests[number % len(requests)] if time.perf_counter() < end else None, CLIENTS
    )
    return [answer for _, answer in found], time.perf_counter() - started


def spread(values: list[float], form: str = "{:.1f}") -> str:
    """Median, lowest and highest."""
    one = form.format(statistics.median(values))
    return f"{one} ({form.format(min(values))} to {form.format(max(values))})"


def overload(arguments: argparse.Namespace, server: Running, contents: list[bytes], rate: float) -> None:
    """Ten times the rate; the rate at full load is measured again before and after, as the machine may have changed."""
    requests = [multipart([content], []) for content in contents]

    def peak() -> float:
        found, seconds = timed(server, requests, arguments.seconds / 2)
        return sum(answer.status == 200 for answer in found) / seconds

    peaks = [peak()]
    started = time.perf_counter()
    found = open_loop(server.port, lambda number: requests[number % len(requests)], 10 * rate, arguments.seconds)
    seconds = time.perf_counter() - started
    peaks.append(peak())
    good = sum(answer.status == 200 for answer in found) / seconds
    refused = sorted(answer.seconds for answer in found if answer.status in (429, 503))
    others = [answer.status for answer in found if answer.status not in (200, 429, 503)]
    share = good / statistics.mean(peaks)
    row("overload: offered / answered per second", f"{10 * rate:.0f} / {good:.1f}")
    row("overload: answered / full load", f"{share:.2f}", "at least 0.90", share >= 0.9)
    if refused:
        median, late = (refused[int(len(refused) * part)] for part in (0.5, 0.95))
        words = f"{1000 * median:.0f} ms, 95%: {1000 * late:.0f} ms"
        row(f"overload: {len(refused)} refused after", words, "at most 100 ms", median <= 0.1)
    row("overload: other answers", str(len(others)), "0", not others)


# ---- answers --------------------------------------------------------------------------------------------------------


def answers(arguments: argparse.Namespace, server: Running, paths: list[Path], contents: list[bytes]) -> None:
    """Concurrent requests against single answers of the library, with other evidence for other requests."""
    import torch

    import finegraph

    torch.set_num_threads(1)
    model = finegraph.load(arguments.model)
    chance = random.Random(0)
    cases: list[tuple[int, str | None]] = []
    for number in range(min(len(paths), 60)):
        kind = chance.choice(model.graph.kinds) if model.graph.kinds else None
        cases += [(number, None), (number, kind and f"{kind}={chance.choice(model.graph.labels(kind))}")]
    expected = []
    for number, given in cases:
        known = dict([given.split("=", 1)]) if given else None
        prediction = model.predict(paths[number], given=known, explain=False)
        found = {f"fine={label}": value for label, value in prediction.top}
        for kind, listed in prediction.kinds.items():
            found.update({f"{kind}={label}": value for label, value in listed})
        expected.append(found)
    requests = [
        multipart([contents[number]], [("explain", "false"), *([("given", given)] if given else [])])
        for number, given in cases
    ]
    order = [chance.randrange(len(cases)) for _ in range(arguments.requests)]
    largest, wrong, failed = 0.0, 0, 0
    for mine, answer in closed_loop(
        server.port, lambda number: requests[order[number]] if number < len(order) else None, 48
    ):
        if answer.status != 200:
            failed += 1
            continue
        worst = difference(top_of(answer.body), expected[order[mine]])
        wrong += worst > 1e-5
        largest = max(largest, worst)
    row(f"answers: {arguments.requests} concurrent, largest difference", f"{largest:.1e}", "at most 1e-05", not wrong)
    row("answers: not answered", str(failed), "0", not failed)


def difference(one: dict[str, float], two: dict[str, float]) -> float:
    """The largest difference of a probability; labels that tie at the end of a list may be missing from one."""
    lowest = max(min(one.values()), min(two.values()))
    shared = one.keys() & two.keys()
    missing = [value for both in (one, two) for name, value in both.items() if name not in shared and value > 1e-3]
    return max([abs(one[name] - two[name]) for name in shared] + [value - lowest for value in missing])


# ---- memory ---------------------------------------------------------------------------------------------------------


def memory(arguments: argparse.Namespace, server: Running, contents: list[bytes]) -> None:
    """Memory after the first tenth of a run, and at its end."""
    requests = [multipart([content], []) for content in contents]
    found, _ = timed(server, requests, arguments.soak / 10)
    before = sum(server.megabytes())
    more, _ = timed(server, requests, arguments.soak * 0.9)
    after = sum(server.megabytes())
    growth = after / before - 1
    bad = sum(answer.status != 200 for answer in found + more)
    row(f"memory: {arguments.soak:.0f} s at full load", f"{before:.0f} to {after:.0f} MB")
    row("memory: growth", f"{growth:+.1%}", "at most 2%", growth <= 0.02)
    row(f"memory: of {len(found) + len(more)} requests failed", str(bad), "0", not bad)


# ---- hostile --------------------------------------------------------------------------------------------------------


def hostile(arguments: argparse.Namespace, server: Running, contents: list[bytes]) -> None:
    """Malformed uploads and bombs from some clients, sound photos from others."""
    chance = random.Random(1)
    sound = multipart([contents[0]], [("explain", "false")])
    ((_, first),) = closed_loop(server.port, lambda number: sound if number < 1 else None, 1)
    expected = top_of(first.body)
    jobs = [malformed(chance, contents) for _ in range(arguments.malformed)]
    jobs += [bomb(number) for number in range(arguments.bombs)]
    chance.shuffle(jobs)
    before, idle_workers = server.megabytes()
    most, over = [0.0, 0.0], threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            for number, value in enumerate(server.megabytes()):
                most[number] = max(most[number], value)

    watching = threading.Thread(target=watch)
    watching.start()

    def request(number: int) -> bytes | None:
        if number >= 2 * len(jobs):
            return None
        return multipart([jobs[number // 2]], [("explain", "false")]) if number % 2 else sound

    found = closed_loop(server.port, request, CLIENTS)
    over.set()
    watching.join()
    good = [answer for number, answer in found if not number % 2]
    bad = [answer for number, answer in found if number % 2]
    statuses = {status: sum(answer.status == status for answer in bad) for status in {answer.status for answer in bad}}
    unexpected = sum(count for status, count in statuses.items() if status not in (200, 400, 413, 422))
    harmed = sum(answer.status != 200 or difference(top_of(answer.body), expected) > 1e-5 for answer in good)
    extra = max(0.0, most[0] - before) + max(0.0, most[1] - idle_workers)
    row(f"hostile: {len(jobs)} uploads, by status", ", ".join(f"{k}: {v}" for k, v in sorted(statuses.items())))
    row("hostile: neither answered nor 4xx", str(unexpected), "0", not unexpected)
    row(f"hostile: of {len(good)} sound requests harmed", str(harmed), "0", not harmed)
    row("hostile: extra memory", f"{extra:.0f} MB", "at most 300 MB", extra <= 300)
    slowest = max(answer.seconds for _, answer in found)
    row("hostile: slowest answer", f"{slowest:.2f} s", "at most 2 s", slowest <= 2.0)


def malformed(chance: random.Random, contents: list[bytes]) -> bytes:
    """A photo that was cut, altered, or is something else."""
    content = bytearray(chance.choice(contents))
    way = chance.randrange(4)
    if way == 0:
        return bytes(content[: chance.randrange(len(content))])
    if way == 1:
        for _ in range(chance.randrange(1, 60)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        return bytes(content)
    if way == 2:
        for place in range(min(len(content), 600)):
            if chance.random() < 0.1:
                content[place] = chance.randrange(256)
        return bytes(content)
    return chance.choice(
        [b"<html></html>", b"GIF89a", b"\x89PNG\r\n\x1a\n", b"%PDF-1.7", bytes(content[:3]), b"II*\0" * 40]
    )


def bomb(number: int) -> bytes:
    """A small PNG of a huge picture: too large by its header, or just below the limits."""
    width, height, colour = [(60_000, 60_000, 2), (6_300, 6_300, 6), (39_000, 1_000, 0), (6_300, 6_300, 2)][number % 4]

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    packer = zlib.compressobj(9)
    line = b"\0" * (1 + width * {0: 1, 2: 3, 6: 4}[colour])
    rows = height if width * height < 50e6 else 10
    packed = b"".join(packer.compress(line) for _ in range(rows)) + packer.flush()
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


if __name__ == "__main__":
    main()
