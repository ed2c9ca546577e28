"""What the server of a model takes: speed, overload, answers under load, memory, and hostile uploads.

    python benchmarks/serve.py --model RUN --data FOLDER               all, 23 minutes on two cores
    python benchmarks/serve.py --model RUN --data FOLDER --quick       all with small counts, about three minutes
    python benchmarks/serve.py --model RUN --data FOLDER --parts memory hostile

`finegraph serve` runs as its users start it, anew for each part; the load comes from this process, over 127.0.0.1, on
the same cores. A part that fails is said to have failed and the others go on. Ctrl-C ends the part that runs; what was
found until then is in the table. The exit code is 1 where a limit is missed.

speed      photos per second of one-photo requests by 16 clients, against a loop in one process that decodes the same
           files and predicts on the same engine, with one thread and with all, whichever is faster. They take turns;
           the ratio is the median. `model.predict`, which runs in torch, is shown beside it
overload   requests at ten times that rate, whatever becomes of them: how many were sent and answered, how quickly the
           others are refused. The time of an answer counts from when its request was due
answers    concurrent requests with other photos and evidence against the library's single answers
memory     growth of server and workers over a timed run at full load: median of its second tenth and of its last
hostile    broken photos of all formats, broken requests and bombs among sound ones: nothing but 4xx for them, or an
           answer for a photo that can be read even so; sound ones answered, workers bounded

The engine is the one that the server chooses by itself, or the one of `--engine`. Every turn of a loop is a new
process. On a machine that does other things too, turns differ; look at the spread.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from serve_hostile import BOMBS, bomb
from serve_load import Answer, closed_loop, multipart, open_loop, top_of
from serve_loop import LOOPS, loop
from serve_malformed import Upload, malformed, other_formats
from serve_report import Report
from serve_running import Running

from finegraph.cli.progress import progress

CLIENTS = 16
QUICK = {"turns": 1, "seconds": 5.0, "requests": 400, "soak": 30.0, "malformed": 400, "bombs": 12}


def main() -> None:
    """Measure and print."""
    arguments = parsed()
    found = sorted(path for path in Path(arguments.data).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    if not found:
        sys.exit(f"{arguments.data}: there is no photo below this folder")
    arguments.paths = found[:: max(1, len(found) // arguments.photos)][: arguments.photos]
    if arguments.loop:
        rate = loop(arguments.loop, arguments.model, arguments.paths, arguments.engine, arguments.seconds)
        print(json.dumps({"rate": rate}))
        return
    report = Report(
        f"{len(arguments.paths)} photos, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start"
    )
    for number in (signal.SIGTERM, signal.SIGHUP):  # the server is stopped then, too
        signal.signal(number, signal.default_int_handler)
    try:
        for part in arguments.parts:
            report.run(part, lambda part=part: PARTS[part](report, arguments))
    except KeyboardInterrupt:
        report.note("stopped by a signal")
    finally:  # whatever ended it
        report.show()
    sys.exit(not report.well)


def parsed() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, metavar="RUN", help="a run folder or a model folder")
    parser.add_argument("--data", required=True, metavar="FOLDER", help="a folder with photos, at any depth")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="measure only these")
    parser.add_argument("--quick", action="store_true", help="small counts, to see that all goes")
    parser.add_argument("--engine", choices=("auto", "onnx", "torch"), default="auto", help="of the server")
    parser.add_argument("--photos", type=int, default=200, help="how many different photos")
    parser.add_argument("--turns", type=int, default=3, help="how often loop and server take turns")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each turn")
    parser.add_argument("--requests", type=int, default=20_000, help="requests whose answers are compared")
    parser.add_argument("--soak", type=float, default=600.0, help="seconds of the run whose memory is watched")
    parser.add_argument("--malformed", type=int, default=10_000, help="malformed uploads")
    parser.add_argument("--bombs", type=int, default=100, help="bombs among them")
    parser.add_argument("--loop", choices=LOOPS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.quick:
        for name, value in QUICK.items():
            if getattr(arguments, name) == parser.get_default(name):
                setattr(arguments, name, value)
    return arguments


def requests_of(arguments: argparse.Namespace) -> list[bytes]:
    """A request for each photo."""
    return [multipart([path.read_bytes()], []) for path in arguments.paths]


def timed(server: Running, requests: list[bytes], seconds: float, noun: str = "seconds") -> tuple[list[Answer], float]:
    """Full load by a few clients for some seconds; the answers without their contents."""
    started = time.perf_counter()
    with progress(noun) as told:

        def request(number: int) -> bytes | None:
            gone = time.perf_counter() - started
            told(int(min(gone, seconds)), int(seconds))
            return requests[number % len(requests)] if gone < seconds else None

        found = closed_loop(server.port, request, CLIENTS, bodies=False)
    return [answer for _, answer in found], time.perf_counter() - started


def answered(found: list[Answer]) -> int:
    """How many were answered."""
    return sum(answer.status == 200 for answer in found)


def spread(values: list[float], form: str = "{:.1f}") -> str:
    """Median, lowest and highest."""
    one = form.format(statistics.median(values))
    return f"{one} ({form.format(min(values))} to {form.format(max(values))})"


# ---- speed ----------------------------------------------------------------------------------------------------------


def rate_of(name: str, arguments: argparse.Namespace) -> float:
    """Photos per second of a loop, in a new process."""
    command = [sys.executable, __file__, "--model", arguments.model, "--data", arguments.data]
    command += ["--photos", str(arguments.photos), "--seconds", str(arguments.seconds)]
    command += ["--engine", arguments.engine, "--loop", name]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return float(json.loads(output)["rate"])


def speed(report: Report, arguments: argparse.Namespace) -> None:
    """Loops and server in turns."""
    requests = requests_of(arguments)
    rates: dict[str, list[float]] = {"same": [], "predict": [], "served": []}
    for turn in range(arguments.turns):
        report.say(f"turn {turn + 1} of {arguments.turns}")
        for name in LOOPS:
            rates[name].append(rate_of(name, arguments))
        with Running(arguments.model, arguments.engine) as server:
            timed(server, requests, 2.0)
            found, seconds = timed(server, requests, arguments.seconds)
        rates["served"].append(answered(found) / seconds)
    report.add("loop on the engine of the server, photos/s", spread(rates["same"]))
    report.add("loop of model.predict (torch), photos/s", spread(rates["predict"]))
    report.add("served, photos/s", spread(rates["served"]))
    for name, words in (("same", "served / loop on the same engine"), ("predict", "served / model.predict")):
        ratios = [one / two for one, two in zip(rates["served"], rates[name], strict=True)]
        limit = ("at least 0.75", statistics.median(ratios) >= 0.75) if name == "same" else ("", None)
        report.add(words, spread(ratios, "{:.2f}"), *limit)


def overload(report: Report, arguments: argparse.Namespace) -> None:
    """Ten times the rate; the rate at full load is measured before and after, as the machine may have changed."""
    requests = requests_of(arguments)
    with Running(arguments.model, arguments.engine) as server:

        def peak() -> float:
            found, seconds = timed(server, requests, arguments.seconds)
            return answered(found) / seconds

        timed(server, requests, 2.0)
        peaks = [peak()]
        rate = 10 * peaks[0]
        report.say(f"{rate:.0f} requests per second for {arguments.seconds:g} s")
        started = time.perf_counter()
        found, sent = open_loop(server.port, lambda number: requests[number % len(requests)], rate, arguments.seconds)
        good = answered(found) / (time.perf_counter() - started)
        peaks.append(peak())
    refused = sorted(answer.seconds for answer in found if answer.status in (429, 503))
    others = [answer.status for answer in found if answer.status not in (200, 429, 503)]
    offered, share = sent / max(peaks), good / max(peaks)
    report.add("full load before and after, photos/s", " and ".join(f"{one:.1f}" for one in peaks))
    report.add("planned / sent / answered per second", f"{rate:.0f} / {sent:.0f} / {good:.1f}")
    report.add("sent / full load", f"{offered:.1f}", "at least 9.0", offered >= 9.0)
    report.add("answered / full load", f"{share:.2f}", "at least 0.90", share >= 0.9)
    for part in (0.5, 0.95, 0.99) if refused else ():
        late = refused[int(len(refused) * part)]
        limit = ("at most 100 ms", late <= 0.1) if part < 0.99 else ("", None)
        report.add(f"{part:.0%} of {len(refused)} refused within", f"{1000 * late:.0f} ms", *limit)
    report.add("other answers, broken connections", str(len(others)), "0", not others)


# ---- answers --------------------------------------------------------------------------------------------------------


def answers(report: Report, arguments: argparse.Namespace) -> None:
    """Concurrent requests against single answers of the library, with other evidence for other requests."""
    requests, expected = cases(report, arguments)
    chance = random.Random(1)
    order = [chance.randrange(len(requests)) for _ in range(arguments.requests)]
    found: list[tuple[int, Answer]] = []
    try:
        with Running(arguments.model, arguments.engine) as server, progress("requests") as told:

            def request(number: int) -> bytes | None:
                told(number, len(order))
                return requests[order[number]] if number < len(order) else None

            closed_loop(server.port, request, 48, found=found)
    finally:  # also when it is stopped half-way
        worst = [
            difference(top_of(answer.body), expected[order[mine]]) for mine, answer in found if answer.status == 200
        ]
        largest, failed = max(worst, default=0.0), len(found) - len(worst)
        name = f"{len(found)} concurrent, largest difference"
        report.add(name, f"{largest:.1e}", "at most 1e-05", bool(worst) and largest <= 1e-5)
        report.add("not answered", str(failed), "0", not failed)


def cases(report: Report, arguments: argparse.Namespace) -> tuple[list[bytes], list[dict[str, float]]]:
    """Requests with and without evidence, and what the library says."""
    import torch

    import finegraph

    torch.set_num_threads(1)
    model = finegraph.load(arguments.model)
    chance = random.Random(0)
    requests, expected = [], []
    report.say("single answers")
    for path in arguments.paths[:60]:
        kind = chance.choice(model.graph.kinds) if model.graph.kinds else None
        for known in (None, kind and {kind: chance.choice(model.graph.labels(kind))}):
            fields = [("given", f"{name}={label}") for name, label in (known or {}).items()]
            requests.append(multipart([path.read_bytes()], [("explain", "false"), *fields]))
            prediction = model.predict(path, given=known, explain=False)
            listed = {f"fine={label}": value for label, value in prediction.top}
            for name, labels in prediction.kinds.items():
                listed.update({f"{name}={label}": value for label, value in labels})
            expected.append(listed)
    return requests, expected


def difference(one: dict[str, float], two: dict[str, float]) -> float:
    """The largest difference of a probability; labels that tie at the end of a list may be missing from one."""
    lowest = max(min(one.values()), min(two.values()))
    shared = one.keys() & two.keys()
    missing = [value for both in (one, two) for name, value in both.items() if name not in shared and value > 1e-3]
    return max([abs(one[name] - two[name]) for name in shared] + [value - lowest for value in missing])


# ---- memory ---------------------------------------------------------------------------------------------------------


def memory(report: Report, arguments: argparse.Namespace) -> None:
    """Memory over a run at full load."""
    requests = requests_of(arguments)
    found: list[Answer] = []
    with Running(arguments.model, arguments.engine) as server, server.watched(arguments.soak / 300) as samples:
        try:
            found, _ = timed(server, requests, arguments.soak)
        finally:  # also when it is stopped half-way
            sizes = [sum(sample) for sample in samples]
            tenth = max(1, len(sizes) // 10)
            before, after = (statistics.median(part) for part in (sizes[tenth : 2 * tenth] or sizes, sizes[-tenth:]))
            growth = after / before - 1
            report.add("second and last tenth of the run", f"{before:.0f} and {after:.0f} MB")
            report.add("growth", f"{growth:+.1%}", "at most 2%", growth <= 0.02)
    bad = len(found) - answered(found)
    report.add(f"of {len(found)} requests in {arguments.soak:.0f} s failed", str(bad), "0", not bad)


# ---- hostile --------------------------------------------------------------------------------------------------------


def hostile(report: Report, arguments: argparse.Namespace) -> None:
    """Malformed uploads and bombs from some clients, sound photos from others."""
    chance = random.Random(1)
    contents = [path.read_bytes() for path in arguments.paths]
    others = other_formats(contents)
    sound = multipart([contents[0]], [("explain", "false")])
    bombs = [Upload("bomb", multipart([bomb(number)], [("explain", "false")])) for number in range(BOMBS)]
    jobs: list[int | Upload] = list(range(arguments.malformed))  # each is made when it is sent: all of them are large
    jobs += [bombs[number % BOMBS] for number in range(arguments.bombs)]
    chance.shuffle(jobs)
    found: list[tuple[int, Answer]] = []
    kinds: dict[int, str] = {}

    def request(number: int) -> bytes | None:
        if number >= 2 * len(jobs):
            return None
        if not number % 2:
            return sound
        job = jobs[number // 2]
        upload = job if isinstance(job, Upload) else malformed(random.Random(job), contents, others)
        kinds[number] = upload.kind
        return upload.request

    with Running(arguments.model, arguments.engine) as server:
        ((_, first),) = closed_loop(server.port, lambda number: sound if number < 1 else None, 1)
        expected = top_of(first.body)
        timed(server, [sound], 3.0)  # as large as sound photos alone make it
        before = server.megabytes()
        with server.watched(0.05) as samples, progress("uploads") as told:

            def next_request(number: int) -> bytes | None:
                told(number // 2, len(jobs))
                return request(number)

            try:
                closed_loop(server.port, next_request, CLIENTS, found=found)
            finally:  # also when it is stopped half-way
                good = [answer for number, answer in found if not number % 2]
                harmed = sum(
                    answer.status != 200 or difference(top_of(answer.body), expected) > 1e-5 for answer in good
                )
                most = [max(sample[part] for sample in samples) for part in (0, 1)]
                extra = [max(0.0, high - low) for high, low in zip(most, before, strict=True)]
                bad = [(kinds[number], answer) for number, answer in found if number % 2]
                hostile_rows(report, good, bad, harmed, extra)


ALLOWED = {
    "photo": {200, 400, 413, 422},  # some can be decoded even so
    "request": {400, 413, 415, 422},
    "cut": {0, 400, 422},  # nobody may be there any more to be answered
    "bomb": {422},
}
"""What may become of hostile uploads."""


def hostile_rows(
    report: Report, good: list[Answer], bad: list[tuple[str, Answer]], harmed: int, extra: list[float]
) -> None:
    """The rows of the hostile part."""
    for kind, allowed in ALLOWED.items():
        statuses = Counter(answer.status for one, answer in bad if one == kind)
        words = ", ".join(f"{status or 'none'}: {many}" for status, many in sorted(statuses.items()))
        limit = "only " + ", ".join(str(status or "none") for status in sorted(allowed))
        report.add(f"{statuses.total()} x {kind}, by status", words, limit, statuses.keys() <= allowed)
    report.add(f"of {len(good)} sound requests harmed", str(harmed), "0", not harmed)
    words = f"{extra[0]:.0f} + {extra[1]:.0f} MB"
    report.add("extra memory of server + workers", words, "at most 300 MB", sum(extra) <= 300)
    for name, answers_ in (("sound answer", good), ("refusal", [answer for _, answer in bad])):
        slowest = max((answer.seconds for answer in answers_), default=0.0)
        report.add(f"slowest {name}", f"{slowest:.2f} s", "at most 2 s", slowest <= 2.0)


PARTS = {"speed": speed, "overload": overload, "answers": answers, "memory": memory, "hostile": hostile}


if __name__ == "__main__":
    main()
