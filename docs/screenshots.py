"""The pictures of the pages, taken from the pages: `make screenshots`.

The script runs the demo on the drawn menu, indexes its photos, starts both servers on this machine, and photographs
what a person sees: the report, the page of `finegraph serve` on a phone and on a desk, the labelling page, and a
search. Pictures are saved as WebP in `docs/_static`, and the script refuses one that is too large to load quickly. It
takes about two minutes.

    python docs/screenshots.py [--work FOLDER] [--only NAME ...]

With `--work` the demo is kept there and used again the next time.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from drawings import BLUE, GREEN, GREY, KIND_COLOURS, Drawing
from PIL import Image

STATIC = Path(__file__).parent / "_static"
MAX_BYTES = 150_000
"""The largest size of a picture."""
MAX_LETTERS = 56
"""How much of a label fits into the overview."""
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--hide-scrollbars"]
DESK = {"viewport": {"width": 1200, "height": 780}, "device_scale_factor": 1.5}
PHONE = {"viewport": {"width": 390, "height": 780}, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}


# ---- what is photographed -------------------------------------------------------------------------------------------


class Demo:
    """The demo in a folder: runs, photos and report, made if they are not there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        os.chdir(folder)  # pages show paths as they were given
        self.run, self.menu, self.report = Path("demo/bipartite"), Path("demo/menu"), Path("demo/report.html")
        if not self.report.exists():
            finegraph("demo", "--output", "demo")
        self.photo, self.truth, self.before, self.after = self._asked()
        self.restaurant = self.truth.rpartition(" @ ")[2]

    def _asked(self) -> tuple[Path, str, dict[str, Any], dict[str, Any]]:
        """A photo of which the truth is the second answer, and the first one once the restaurant is known."""
        with open(self.run / "evaluations/test/samples.csv", newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["rank"] == "2"]
        for row in sorted(rows, key=lambda row: -float(row["log_prob"])):
            photo = self.menu / row["path"] if not Path(row["path"]).is_absolute() else Path(row["path"])
            restaurant = row["label"].rpartition(" @ ")[2]
            before = self._predict(photo)
            after = self._predict(photo, "--given", f"restaurant={restaurant}")
            if after["top"][0]["label"] == row["label"] and not after["contradicts_photo"]:
                return photo, row["label"], before, after
        raise SystemExit("no photo shows what evidence does")

    def _predict(self, photo: Path, *words: str) -> dict[str, Any]:
        document = json.loads(finegraph("predict", self.run, photo, "--json", *words))
        return dict(document["photos"][0])

    @property
    def index(self) -> Path:
        """The index of the training photos."""
        path = Path("photos.index")
        if not path.exists():
            finegraph("index", self.run, self.menu / "images.csv", "--split", "train", "-o", path)
        return path


def finegraph(*words: object) -> str:
    """What a command prints."""
    line = [sys.executable, "-m", "finegraph", *map(str, words)]
    return subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout


@contextlib.contextmanager
def server(*words: object) -> Iterator[str]:
    """The address of a server, which stops at the end."""
    line = [sys.executable, "-m", "finegraph", *map(str, words), "--port", "0", "--json"]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    try:
        yield json.loads(_first_document(process))["address"]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)


def _first_document(process: subprocess.Popen[str]) -> str:
    """The JSON document with which a server says that it is ready."""
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        with contextlib.suppress(json.JSONDecodeError):
            json.loads(text)
            return text
    raise SystemExit(f"the server ended before it was ready:\n{text}")


# ---- the pictures ---------------------------------------------------------------------------------------------------


def report(demo: Demo, browser: Any) -> None:
    """The first screen of the report, its examples and its confusions."""
    page = browser.new_context(**DESK).new_page()
    page.goto(demo.report.resolve().as_uri())
    page.wait_for_timeout(500)
    save(page.screenshot(), "report")
    for section in ("examples", "confusions"):
        page.locator(f"#{section}-h").scroll_into_view_if_needed()
        page.evaluate(f"document.querySelector('#{section}').scrollIntoView()")
        page.wait_for_timeout(500)
        save(page.screenshot(), f"report-{section}")


def serve(demo: Demo, browser: Any) -> None:
    """The page on a phone, before and after a guest says which restaurant it is, and on a desk."""
    with server("serve", demo.run, "--teach", "--index", demo.index, "--samples", demo.menu / "photos") as address:
        phone = _answered(browser.new_context(**PHONE).new_page(), address, demo.photo)
        phone.evaluate("document.querySelector('#photo').scrollIntoView()")
        before = phone.screenshot()
        _know(phone, demo.restaurant)
        phone.evaluate("document.querySelector('#answer').scrollIntoView()")
        phone.wait_for_timeout(500)
        save(_side_by_side(before, phone.screenshot()), "serve-phone")
        desk = _answered(browser.new_context(**DESK).new_page(), address, demo.photo)
        save(desk.screenshot(), "serve")


def _side_by_side(*screens: bytes) -> bytes:
    """Several screens of a phone on a grey card, as wide as a screen of a desk is in proportion."""
    pictures = [Image.open(io.BytesIO(screen)).convert("RGB") for screen in screens]
    width, height = pictures[0].size
    card = Image.new("RGB", (round(1.54 * (height + 80)), height + 80), "#d9dee5")
    gap = (card.width - len(pictures) * width) // (len(pictures) + 1)
    for place, picture in enumerate(pictures):
        card.paste(picture, (gap + place * (width + gap), 40))
    buffer = io.BytesIO()
    card.resize((1440, round(1440 * card.height / card.width)), Image.Resampling.LANCZOS).save(buffer, "PNG")
    return buffer.getvalue()


def _answered(page: Any, address: str, photo: Path) -> Any:
    """The page with the answer to a photo."""
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    page.set_input_files("#file", str(photo))
    page.wait_for_selector("#result:not([hidden])")
    page.wait_for_selector("body:not(.busy)")
    page.wait_for_timeout(1500)  # pictures of similar photos, and movements that end
    return page


def _know(page: Any, label: str) -> None:
    """Tap a label of a kind."""
    page.locator("#kind-list").get_by_role("button", name=label).first.click()
    page.wait_for_selector("body:not(.busy)")
    page.wait_for_timeout(700)


def label(demo: Demo, browser: Any) -> None:
    """One class on the labelling page, and the grid."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(demo.menu / "graph.csv", Path(folder) / "menu.csv")
        words = ("label", Path(folder) / "menu.csv", "--data", demo.menu / "images.csv", "--model", demo.run)
        with server(*words) as address:
            page = browser.new_context(**DESK).new_page()
            page.goto(address)
            page.get_by_label("Your name").fill("Ann")
            page.keyboard.press("Enter")
            page.wait_for_selector(".kind.focus, .grid-row.focus")
            page.wait_for_timeout(2500)
            save(page.screenshot(), "label")
            page.keyboard.press("g")
            page.wait_for_selector(".grid-row.focus")
            page.wait_for_timeout(1500)
            save(page.screenshot(), "label-grid")


def search(demo: Demo, browser: Any) -> None:
    """The same dish of another restaurant."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.html"
        words = ("--same", "dish", "--per-label", 2, "-n", 8, "--html", found)
        finegraph("search", demo.index, demo.photo, *words)
        page = browser.new_context(**DESK).new_page()
        page.goto(found.as_uri())
        page.wait_for_timeout(500)
        save(page.screenshot(), "search")


def plots(demo: Demo, browser: Any) -> None:
    """The static plots of a report that compares two runs."""
    with tempfile.TemporaryDirectory() as folder:
        words = ("-o", Path(folder) / "report.html", "--plots", Path(folder) / "plots")
        finegraph("report", "demo/softmax", demo.run, *words)
        for path in sorted((Path(folder) / "plots").rglob("*.png")):
            picture = Image.open(path).convert("RGB")
            picture.thumbnail((1100, 1100), Image.Resampling.LANCZOS)
            buffer = io.BytesIO()
            picture.save(buffer, "PNG")
            save(buffer.getvalue(), f"plot-{path.stem}")


def overview(demo: Demo, browser: Any) -> None:
    """What it does, in one drawing: a photo, the answers to it, and the answers once the restaurant is known."""
    drawing = Drawing(
        1120,
        372,
        "A photo; the most probable menu items, dishes and restaurants; the same once the restaurant is known",
    )
    picture = Image.open(demo.photo).convert("RGB").resize((320, 320), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=80)
    drawing.text(20, 36, "a photo", bold=True)
    drawing.image(20, 54, 240, "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode())
    dish, _, restaurant = demo.truth.rpartition(" @ ")
    drawing.text(20, 316, "truth:", size=13, colour=GREY)
    drawing.text(20, 336, dish, size=13, colour=GREY)
    drawing.text(20, 354, f"@ {restaurant}", size=13, colour=GREY)
    _answers(drawing, 300, "one posterior over all labels", demo.before, {"dish": 2, "restaurant": 2})
    drawing.arrow(672, 110, 714)
    drawing.text(693, 98, "you say", size=13, anchor="middle", colour=GREEN)
    _answers(drawing, 730, f"given: restaurant is {demo.restaurant}", demo.after, {"dish": 2, "restaurant": 1})
    (STATIC / "overview.svg").write_text(drawing.svg(), encoding="utf-8")
    print("docs/_static/overview.svg")


def _answers(drawing: Drawing, x: float, title: str, prediction: dict[str, Any], kinds: dict[str, int]) -> None:
    """The most probable labels of a prediction with bars, the fine ones first."""
    drawing.text(x, 36, title, bold=True)
    y = 52.0
    rows = [("menu item", BLUE, prediction["top"][:2])]
    rows += [(kind, KIND_COLOURS[kind], prediction["kinds"][kind][:count]) for kind, count in kinds.items()]
    for name, colour, answers in rows:
        drawing.text(x, y + 13, name, colour=colour, size=13, bold=True)
        y += 18
        for answer in answers:
            label = answer["label"]
            drawing.text(x, y + 12, label if len(label) <= MAX_LETTERS else f"{label[: MAX_LETTERS - 1]}…", size=12)
            drawing.bar(x, y + 18, answer["probability"], colour, full=240, height=9)
            y += 34
        y += 10


PICTURES: dict[str, Callable[[Demo, Any], None]] = {
    "overview": overview,
    "report": report,
    "serve": serve,
    "label": label,
    "search": search,
    "plots": plots,
}


def save(png: bytes, name: str) -> None:
    """Save a picture as small as it can be read."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    for quality in (80, 70, 60, 50):
        buffer = io.BytesIO()
        image.save(buffer, "WEBP", quality=quality, method=6)
        if buffer.tell() <= MAX_BYTES:
            break
    else:
        raise SystemExit(f"{name}: {buffer.tell():,} bytes, expected at most {MAX_BYTES:,}; show less of the page")
    (STATIC / f"{name}.webp").write_bytes(buffer.getvalue())
    print(f"docs/_static/{name}.webp: {image.width} x {image.height}, {buffer.tell() / 1000:.0f} kB, quality {quality}")


def main() -> None:
    """Take the pictures that the command line asks for; all by default."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--work", type=Path, help="keep the demo in this folder")
    parser.add_argument("--only", nargs="+", choices=PICTURES, default=list(PICTURES))
    arguments = parser.parse_args()
    from playwright.sync_api import sync_playwright

    path = os.environ.get("FINEGRAPH_BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        raise SystemExit("no browser: install Chromium, or name one in FINEGRAPH_BROWSER")
    STATIC.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        work = arguments.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        work.mkdir(parents=True, exist_ok=True)
        demo = Demo(work.resolve())
        browser = stack.enter_context(sync_playwright()).chromium.launch(executable_path=path, args=FLAGS)
        for name in arguments.only:
            PICTURES[name](demo, browser)
        browser.close()


if __name__ == "__main__":
    main()
