"""From a CSV of very many labels to a served answer: graph check, train, evaluate, report, predict, serve.

    python benchmarks/from_csv.py --folder bench                       100,000 labels, 20,000 photos
    python benchmarks/from_csv.py --folder bench --labels 10000 --photos 4000

Every step is the command that a person types, in a process of its own: wall seconds and the largest resident memory.
Photos are small squares of two colours that tell their dish and their place, and the network is one convolution, so
that what is measured is what grows with the labels. Most labels have no photo: they get what their parents say.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from finegraph.nn.backbones import Backbone
from finegraph.nn.backbones.build import BACKBONES
from finegraph.nn.backbones.preprocessing import Preprocessing

FEATURES = 256
PAGE_FIELDS = {"scores": "true", "risk": 0.05, "top": 100, "questions": 6}
"""What the page sends with a photo: `predict` in web/page/api.js."""


class Small(Backbone):
    """One fixed convolution and a mean."""

    min_size = 16

    def __init__(self) -> None:
        super().__init__()
        self.feature_size = FEATURES
        self.preprocessing = Preprocessing(size=32, resize=32)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.first = nn.Conv2d(3, FEATURES, 8, stride=8)

    def forward(self, images: Tensor) -> Tensor:
        """The features."""
        self._check(images)
        return self.first(images).relu().mean(dim=(2, 3))


def make(folder: Path, labels: int, photos: int) -> None:
    """Write the graph and the photos."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    dishes, places = 3 * labels // 10, labels // 100
    dish = np.concatenate([np.arange(dishes), rng.integers(0, dishes, labels - dishes)])
    place = rng.integers(0, places, labels)
    tofu = rng.integers(0, 2, dishes)
    with (folder / "menu.csv").open("w", encoding="utf-8") as file:
        file.write("fine,dish,place,tofu\n")
        for i in range(labels):
            file.write(f"item {i},dish {dish[i]},place {place[i]},{'yes' if tofu[dish[i]] else 'no'}\n")
    colours = rng.integers(20, 236, (dishes, 3)), rng.integers(20, 236, (places, 3))
    shown = rng.choice(labels, photos // 4, replace=False)
    lines = ["path,label,split"]
    for label in shown:
        for number in range(4):
            pixels = np.empty((32, 32, 3))
            pixels[:16], pixels[16:] = colours[0][dish[label]], colours[1][place[label]]
            name = f"photos/{label % 100}/{label}-{number}.png"
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            noisy = np.clip(pixels + rng.normal(0, 12, pixels.shape), 0, 255).astype(np.uint8)
            Image.fromarray(noisy).save(path, compress_level=1)
            lines.append(f"{name},item {label},{'test' if number == 3 else 'val' if number == 2 else 'train'}")
    (folder / "images.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def command(words: list[str]) -> None:
    """Run one command of finegraph in this process; then print how much memory it took."""
    from finegraph.cli.main import run
    from finegraph.cli.process import prepare_process

    prepare_process()
    BACKBONES["small"] = lambda dropout, auxiliary: Small()
    code = run(words)
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}", file=sys.stderr)
    raise SystemExit(code)


def timed(words: list[str]) -> tuple[float, float, str]:
    """Seconds, MiB and output of a command."""
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, __file__, "--command", json.dumps(words)], capture_output=True, text=True, check=False
    )
    seconds = time.monotonic() - start
    if done.returncode:
        raise SystemExit(f"finegraph {' '.join(words)}\n{done.stdout}\n{done.stderr}")
    return seconds, float(re.findall(r"peak (\d+)", done.stderr)[-1]), done.stdout


def served(folder: Path, photo: Path) -> list[tuple[str, float, float, str]]:
    """Start the server, ask it, and search its labels."""
    start = time.monotonic()
    words = ["serve", str(folder / "run"), "--port", "0"]
    server = subprocess.Popen(
        [sys.executable, __file__, "--command", json.dumps(words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert server.stdout is not None
        lines: list[str] = []
        address = None
        for line in server.stdout:
            lines.append(line)
            found = re.search(r"http://[\w.]+:\d+", line)
            if found:
                address = found.group()
                break
        if address is None:
            raise SystemExit("".join(lines))
        threading.Thread(target=server.stdout.read, daemon=True).start()
        rows = [("serve, until it answers", time.monotonic() - start, memory_of(server.pid), "")]
        for name, seconds, note in answers(address, photo):
            rows.append((name, seconds, memory_of(server.pid), note))
        return rows
    finally:
        server.terminate()
        server.wait()


def answers(address: str, photo: Path) -> list[tuple[str, float, str]]:
    """What the server is asked, with the median seconds and the bytes that move."""
    shown = form(photo, PAGE_FIELDS)
    kept = json.loads(response_of(address + "/v1/predict", shown))["photos"][0]["scores"]
    tap = json.dumps({**PAGE_FIELDS, "scores": kept, "given": {"tofu": ["yes"]}}).encode()
    asked: tuple[tuple[str, str, bytes | None], ...] = (
        ("an answer over HTTP", "/v1/predict", form(photo, {})),
        ("the same, as the page asks", "/v1/predict", shown),
        ("a tap on the page", "/v1/given", tap),
        ("search of the labels", "/v1/labels?search=item%2099", None),
    )
    rows = []
    for name, path, data in asked:
        seconds, size = [], 0
        for _ in range(5):
            start = time.monotonic()
            size = len(response_of(address + path, data))
            seconds.append(time.monotonic() - start)
        sent = f", {len(data) / 1000:.1f} kB sent" if data is not None else ""
        rows.append((name, float(np.median(seconds)), f"{size / 1000:.1f} kB{sent}"))
    return rows


def form(photo: Path, fields: Mapping[str, object]) -> bytes:
    """A multipart body with a photo and fields; its boundary is x."""
    head = b'--x\r\nContent-Disposition: form-data; name="photo"; filename="a.png"\r\nContent-Type: image/png\r\n\r\n'
    parts = [head + photo.read_bytes()]
    for name, value in fields.items():
        parts.append(f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}'.encode())
    return b"\r\n".join(parts) + b"\r\n--x--\r\n"


def response_of(url: str, data: bytes | None) -> bytes:
    """The content that a server answers with; `data` is a form or JSON."""
    request = urllib.request.Request(url, data=data)
    if data is not None:
        kind = "application/json" if data.startswith(b"{") else "multipart/form-data; boundary=x"
        request.add_header("content-type", kind)
    with urllib.request.urlopen(request, timeout=60) as response:
        content: bytes = response.read()
    return content


def memory_of(process: int) -> float:
    """The largest resident memory of a process so far, in MiB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--labels", type=int, default=100_000)
    parser.add_argument("--photos", type=int, default=20_000)
    parser.add_argument("--command", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.command is not None:
        command(json.loads(arguments.command))
    if arguments.folder is None:
        parser.error("--folder is missing: a new folder for the graph, the photos and the run")
    folder: Path = arguments.folder
    start = time.monotonic()
    make(folder, arguments.labels, arguments.photos)
    print(f"made in {time.monotonic() - start:.0f} s", flush=True)
    graph, photos, run = str(folder / "menu.csv"), str(folder / "images.csv"), str(folder / "run")
    photo = next((folder / "photos").rglob("*-3.png"))
    train = ["train", photos, "--graph", graph, "--network", "small", "--weights", "none", "--run", run]
    rows: list[tuple[str, float, float, str]] = []
    for name, words in (
        ("graph check", ["graph", "check", graph]),
        ("train, head on stored features", [*train, "--no-report"]),
        ("evaluate", ["evaluate", run, "--split", "test", "--json"]),
        ("report", ["report", run, "-o", str(folder / "report.html")]),
        ("predict one photo", ["predict", run, str(photo), "--json"]),
    ):
        seconds, mebibytes, output = timed(words)
        note = ""
        if name == "evaluate":
            found = re.search(r'"top1": ([\d.]+)', output)
            note = f"top-1 {float(found.group(1)):.2f}" if found else ""
        if name == "report":
            note = f"{(folder / 'report.html').stat().st_size / 1e6:.1f} MB"
        rows.append((name, seconds, mebibytes, note))
        print(rows[-1], flush=True)
    rows += served(folder, photo)
    table = Table("step", title=f"{arguments.labels:,} labels, {arguments.photos:,} photos", title_justify="left")
    for column in ("seconds", "MiB", ""):
        table.add_column(column, justify="right")
    for name, seconds, mebibytes, note in rows:
        table.add_row(name, f"{seconds:.2f}", f"{mebibytes:,.0f}", note)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
