"""How quickly a person can label by keyboard: decisions per minute, and the time from a key to "saved".

    python benchmarks/label_page.py                  400 decisions in each view on 5,000 classes: about a minute
    python benchmarks/label_page.py --photos 0       without photos
    python benchmarks/label_page.py --classes 100000 on as many classes as are promised
    python benchmarks/label_page.py --folder D       on the disk of folder D rather than that of the temporary files

A real browser shows the real page of the command `finegraph label` with its store on the disk; keys are pressed one
after the other, as soon as the page shows the state "saved". The time runs from the browser's own time stamp of the key
to the moment at which the page shows that the server has acknowledged the edit, which it does once the edit is on the
disk. The first classes have photos, which the page loads and shows meanwhile. The browser is the one that
FINEGRAPH_BROWSER names, or the system's Chromium. The exit code is 1 if a limit is missed.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.table import Table

LEAST_PER_MINUTE = 200
MAX_MILLISECONDS = 50
KINDS = {"dish": 8, "restaurant": 5, "served": 3}
PATIENCE = 60
PATIENCE_PER_CLASS = 0.005
"""Seconds to wait for the command; the first start makes the store and its suggestions."""

WATCH = """() => {
  window.times = [];
  let pressed = null;
  addEventListener("keydown", (event) => { pressed = event.timeStamp; }, true);
  const state = document.querySelector("#state");
  new MutationObserver(() => {
    if (state.dataset.state !== "saved" || pressed === null) return;
    window.times.push(performance.now() - pressed);
    document.documentElement.dataset.saved = window.times.length;
    pressed = null;
  }).observe(state, { attributes: true, attributeFilter: ["data-state"] });
}"""


def write_graph(path: Path, classes: int) -> None:
    """A graph file in which a third of the cells is unknown."""
    draw = random.Random(1)
    lines = [",".join(["fine", *KINDS])]
    for number in range(classes):
        cells = [f"{kind} {draw.randrange(count)}" if draw.random() < 0.67 else "" for kind, count in KINDS.items()]
        lines.append(",".join([f"class number {number}", *cells]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_photos(folder: Path, classes: int) -> Path:
    """Two photos of 800 x 600 for each of the first classes; what is on them does not matter here."""
    draw = random.Random(2)
    small = Image.frombytes("RGB", (80, 60), draw.randbytes(80 * 60 * 3))
    file = io.BytesIO()
    small.resize((800, 600), Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
    for number in range(classes):
        place = folder / f"class number {number}"
        place.mkdir(parents=True)
        for photo in ("a.jpg", "b.jpg"):
            (place / photo).write_bytes(file.getvalue())
    return folder


def start_server(path: Path, port: int, photos: Path | None, patience: float) -> subprocess.Popen[bytes]:
    """The command `finegraph label` as a process that answers."""
    command = [sys.executable, "-m", "finegraph", "label", str(path), "--port", str(port)]
    command += [] if photos is None else ["--data", str(photos)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    until = time.monotonic() + patience
    while time.monotonic() < until:
        if process.poll() is not None:
            raise SystemExit("the server ended before it answered")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/live"):
                return process
        except OSError:
            time.sleep(0.1)
    process.terminate()
    raise SystemExit("the server did not answer")


def press(page: Page, keys: list[str], count: int) -> None:
    """Press keys; with a decision among them, wait until it is saved."""
    for key in keys:
        page.keyboard.press(key)
    page.wait_for_selector(f'html[data-saved="{count}"]', state="attached")


def sweep_grid(page: Page, decisions: int) -> None:
    """Decide one class after the other in the grid: one key each."""
    for number in range(decisions):
        press(page, [str(1 + number % KINDS["served"])], number + 1)


def sweep_classes(page: Page, decisions: int) -> None:
    """Decide all kinds of one class after the other: a digit, then Enter."""
    for number in range(decisions):
        press(page, [str(1 + number % 3)], number + 1)
        page.keyboard.press("Enter")


RUNS = {"grid, a key per class": ("#/grid/served", sweep_grid), "class by class, a key and Enter": ("", sweep_classes)}


def measure(url: str, place: str, run: object, decisions: int, browser: object) -> tuple[list[float], float]:
    """The times from key to saved in milliseconds, and the seconds in all."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})  # type: ignore[attr-defined]
    context.add_init_script("localStorage.setItem('finegraph.person', 'Ann')")
    page = context.new_page()
    page.goto(f"{url}/{place}")
    page.wait_for_selector(".kind.focus, .grid-row.focus")
    page.wait_for_load_state("networkidle")
    page.evaluate(WATCH)
    began = time.monotonic()
    run(page, decisions)  # type: ignore[operator]
    seconds = time.monotonic() - began
    times = page.evaluate("window.times")
    context.close()
    return times, seconds


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    """Run both sweeps and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--classes", type=int, default=5000, help="how many classes the graph has")
    parser.add_argument("--decisions", type=int, default=400, help="how many decisions are made in each view")
    parser.add_argument("--folder", help="where the store is; by default the folder of temporary files")
    parser.add_argument("--photos", type=int, default=500, help="how many classes have photos")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="finegraph-label-", dir=arguments.folder))
    path, port = folder / "graph.csv", free_port()
    write_graph(path, arguments.classes)
    photos = write_photos(folder / "photos", min(arguments.photos, arguments.classes)) if arguments.photos else None
    server = start_server(path, port, photos, PATIENCE + PATIENCE_PER_CLASS * arguments.classes)
    table = Table("view", "decisions", "per minute", f"at least {LEAST_PER_MINUTE}", "key to saved: median")
    for name in ("p95", "largest", f"within {MAX_MILLISECONDS} ms", f"p95 at most {MAX_MILLISECONDS} ms"):
        table.add_column(name)
    well = True
    try:
        with sync_playwright() as playwright:
            chromium = os.environ.get("FINEGRAPH_BROWSER") or shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            for name, (place, run) in RUNS.items():
                url = f"http://127.0.0.1:{port}"
                times, seconds = measure(url, place, run, arguments.decisions, browser)
                rate, p95 = 60 * len(times) / seconds, statistics.quantiles(times, n=20)[-1]
                quick, prompt = rate >= LEAST_PER_MINUTE, p95 <= MAX_MILLISECONDS
                well &= quick and prompt
                table.add_row(
                    name,
                    f"{len(times):,}",
                    f"{rate:,.0f}",
                    "yes" if quick else "[red]no[/red]",
                    f"{statistics.median(times):.1f} ms",
                    f"{p95:.1f} ms",
                    f"{max(times):.1f} ms",
                    f"{sum(one <= MAX_MILLISECONDS for one in times) / len(times):.1%}",
                    "yes" if prompt else "[red]no[/red]",
                )
            browser.close()
    finally:
        server.terminate()
        server.wait(20)
        shutil.rmtree(folder, ignore_errors=True)
    Console(width=120).print(
        f"{arguments.classes:,} classes, {arguments.photos:,} of them with photos, {len(KINDS)} kinds, "
        f"store on {arguments.folder or 'the temporary disk'}"
    )
    Console(width=120).print(table)
    return 0 if well else 1


if __name__ == "__main__":
    raise SystemExit(main())
