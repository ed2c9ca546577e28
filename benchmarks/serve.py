"""What the server of a model takes: speed, overload, answers under load, memory, and hostile uploads.

    python benchmarks/serve.py --model RUN --data FOLDER               all, 20 minutes on two cores
    python benchmarks/serve.py --model RUN --data FOLDER --quick       all with small counts, about two minutes
    python benchmarks/serve.py --model RUN --data FOLDER --parts memory hostile

`finegraph serve` runs as its users start it, anew for each part; the load comes from this process, over 127.0.0.1, on
the same cores. A part that fails is said to have failed and the others go on. Ctrl-C ends the part that runs; what was
found until then is in the table. The exit code is 1 where a limit is missed.

speed      photos per second of one-photo requests by 16 clients, against an in-process loop that decodes the same files
           and predicts, with one thread and with all, whichever is faster. The two take turns; the ratio is the median
overload   requests at ten times that rate, whatever becomes of them: how many are answered, how quickly the others are
           refused
answers    concurrent requests with other photos and evidence against the library's single answers
memory     growth of server and workers over a timed run at full load: median of its second tenth and of its last
hostile    malformed uploads and bombs among sound ones: nothing but 4xx for them, sound ones answered, workers bounded

The loop is `model.predict`, which runs in torch; the server runs with the engine that it chooses by itself, or with the
one of `--engine`. Every turn of the loop is a new process. On a machine that does other things too, turns differ; look
at the spread.
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
from pathlib import Path

from serve_hostile import bomb, malformed
from serve_load import Answer, closed_loop, multipart, open_loop, top_of
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
        print(json.dumps(loop(arguments)))
        return
    report = Report(
        f"{len(arguments.paths)} photos, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start"
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the server is stopped then, too
    try:
        for part in arguments.parts:
            report.run(part, lambda part=part: PARTS[part](report, arguments))
    except KeyboardInterrupt:
        report.note("stopped by hand")
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
    parser.add_argument("--loop", type=int, metavar="THREADS", help=argparse.SUPPRESS)
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


def loop(arguments: argparse.Namespace) -> dict[str, float]:
    """One turn of the in-process loop: decode and predict, 32 photos at a time."""
    from finegraph.cli.process import prepare_process

    prepare_process()
    import torch

    import finegraph

    torch.set_num_threads(arguments.loop)
    model = finegraph.load(arguments.model)
    files = [str(path) for path in arguments.paths]
    model.predict(files[:32])
    started, done = time.perf_counter(), 0
    while time.perf_counter() - started < arguments.seconds:
        start = done % len(files)
        done += len(model.predict(files[start : start + 32]))
    return {"rate": done / (time.perf_counter() - started)}


def speed(report: Report, arguments: argparse.Namespace) -> None:
    """Loop and server in turns."""
    requests = requests_of(arguments)
    loops, served, ratios = [], [], []
    for turn in range(arguments.turns):
        report.say(f"turn {turn + 1} of {arguments.turns}")
        rates = []
        for threads in sorted({1, os.cpu_count() or 1}):
            command = [sys.executable, __file__, "--model", arguments.model, "--data", arguments.data]
            command += ["--photos", str(arguments.photos), "--seconds", str(arguments.seconds), "--loop", str(threads)]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            rates.append(json.loads(output)["rate"])
        loops.append(max(rates))
        with Running(arguments.model, arguments.engine) as server:
            timed(server, requests, 2.0)
            found, seconds = timed(server, requests, arguments.seconds)
        served.append(answered(found) / seconds)
        ratios.append(served[-1] / loops[-1])
    report.add("in-process loop, photos/s", spread(loops))
    report.add("served, photos/s", spread(served))
    ratio = statistics.median(ratios)
    report.add("served / loop", spread(ratios, "{:.2f}"), "at least 0.75", ratio >= 0.75)


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
        found = open_loop(server.port, lambda number: requests[number % len(requests)], rate, arguments.seconds)
        good = answered(found) / (time.perf_counter() - started)
        peaks.append(peak())
    refused = sorted(answer.seconds for answer in found if answer.status in (429, 503))
    others = [answer.status for answer in found if answer.status not in (200, 429, 503)]
    share = good / statistics.mean(peaks)
    report.add("full load before and after, photos/s", " and ".join(f"{one:.1f}" for one in peaks))
    report.add("offered / answered per second", f"{rate:.0f} / {good:.1f}")
    report.add("answered / full load", f"{share:.2f}", "at least 0.90", share >= 0.9)
    for part in (0.5, 0.95, 0.99) if refused else ():
        late = refused[int(len(refused) * part)]
        limit = ("at most 100 ms", late <= 0.1) if part < 0.99 else ("", None)
        report.add(f"{part:.0%} of {len(refused)} refused within", f"{1000 * late:.0f} ms", *limit)
    report.add("other answers", str(len(others)), "0", not others)


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
    sound = multipart([contents[0]], [("explain", "false")])
    bombs = [bomb(number) for number in range(min(arguments.bombs, 8))]
    jobs = [malformed(chance, contents) for _ in range(arguments.malformed)]
    jobs += [bombs[number % len(bombs)] for number in range(arguments.bombs)]
    chance.shuffle(jobs)
    kinds = {id(content): number for number, content in enumerate(bombs)}
    found: list[tuple[int, Answer]] = []
    with Running(arguments.model, arguments.engine) as server:
        ((_, first),) = closed_loop(server.port, lambda number: sound if number < 1 else None, 1)
        expected = top_of(first.body)
        timed(server, [sound], 3.0)  # as large as sound photos alone make it
        before = server.megabytes()
        with server.watched(0.05) as samples, progress("uploads") as told:

            def request(number: int) -> bytes | None:
                told(number // 2, len(jobs))
                if number >= 2 * len(jobs):
                    return None
                return multipart([jobs[number // 2]], [("explain", "false")]) if number % 2 else sound

            try:
                closed_loop(server.port, request, CLIENTS, found=found)
            finally:  # also when it is stopped half-way
                good = [answer for number, answer in found if not number % 2]
                bad = [answer for number, answer in found if number % 2]
                harmed = sum(
                    answer.status != 200 or difference(top_of(answer.body), expected) > 1e-5 for answer in good
                )
                exploded = [answer for number, answer in found if number % 2 and id(jobs[number // 2]) in kinds]
                most = [max(sample[part] for sample in samples) for part in (0, 1)]
                extra = [max(0.0, high - low) for high, low in zip(most, before, strict=True)]
                hostile_rows(report, good, bad, exploded, harmed, extra)


def hostile_rows(
    report: Report, good: list[Answer], bad: list[Answer], exploded: list[Answer], harmed: int, extra: list[float]
) -> None:
    """The rows of the hostile part."""
    statuses = {status: sum(answer.status == status for answer in bad) for status in {answer.status for answer in bad}}
    unexpected = sum(count for status, count in statuses.items() if status not in (200, 400, 413, 422))
    report.add(f"{len(bad)} uploads, by status", ", ".join(f"{one}: {many}" for one, many in sorted(statuses.items())))
    report.add("neither answered nor 4xx", str(unexpected), "0", not unexpected)
    refused = sum(answer.status == 422 for answer in exploded)
    report.add(f"of {len(exploded)} bombs refused", str(refused), str(len(exploded)), refused == len(exploded))
    report.add(f"of {len(good)} sound requests harmed", str(harmed), "0", not harmed)
    words = f"{extra[0]:.0f} + {extra[1]:.0f} MB"
    report.add("extra memory of server + workers", words, "at most 300 MB", sum(extra) <= 300)
    for name, answers_ in (("sound answer", good), ("refusal", bad)):
        slowest = max((answer.seconds for answer in answers_), default=0.0)
        report.add(f"slowest {name}", f"{slowest:.2f} s", "at most 2 s", slowest <= 2.0)


PARTS = {"speed": speed, "overload": overload, "answers": answers, "memory": memory, "hostile": hostile}


if __name__ == "__main__":
    main()
