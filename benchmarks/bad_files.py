"""What bad files do: thousands of broken photos and graph files, each counted against what must happen to it.

    python benchmarks/bad_files.py          10,000 photos, 5,000 graph files, 2,000 ways out of a folder; some minutes
    python benchmarks/bad_files.py --photos 1000 --graphs 500 --ways 200    a tenth of it

Photos are made in every form that is read (grey, palette, CMYK, 16 bits, turned, see-through, moving, and so on), then
cut, altered or replaced by something else. A tiny classifier is evaluated on them, and `data check` looks at them. What
must hold: nothing but our own error for a bad photo, each named once by both, no file altered, and each readable photo
judged by its own pixels. Graph files are the broken ones of the tests; each must be refused within a second, with the
place of its faults. Ways out are paths that climb in requests to a server, and links in the place of its photos; no
byte from outside may come back. The exit code is 1 if anything was otherwise.
"""

from __future__ import annotations

import argparse
import io
import logging
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from rich.console import Console
from rich.table import Table

from finegraph.data.checks.photo_check import check_samples
from finegraph.data.samples import Sample, Samples
from finegraph.errors import GraphFileError
from finegraph.evaluation import evaluate_photos
from finegraph.graph import LabelGraph
from finegraph.graph.formats.csv_writer import format_csv
from finegraph.graph.formats.json_writer import canonical_json
from finegraph.nn.backbones import build

sys.path.extend(str(Path(__file__).parents[1] / "tests" / name) for name in (".", "data", "graph", "web"))
import data_files  # the folders of the tests are no packages
import test_malformed_graph_files as broken_graphs
import traversal

import tiny_classifier as tiny
from serving import running

PART = 500
"""How many photos are on the disk at a time."""
OTHER_THINGS = (
    b"",
    b"<!DOCTYPE html><html>404</html>",
    b"version https://git-lfs.github.com/spec/v1\n",
    b"\0\0\0\x18ftypheic\0\0\0\0",
    b"%PDF-1.7\n",
    b"GIF89a",
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff",
)


def saved(picture: Image.Image, form: str, **options: object) -> bytes:
    """A picture as the bytes of a file."""
    file = io.BytesIO()
    picture.save(file, form, **options)
    return file.getvalue()


def turned() -> Image.Exif:
    """What a camera says that was held upright."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


def deep(picture: Image.Image) -> Image.Image:
    """A grey picture of 16 bits."""
    return Image.fromarray(np.asarray(picture.convert("L")).astype(np.uint16) * 257)


def moving(picture: Image.Image) -> dict[str, object]:
    """Options for a picture that moves."""
    return {"save_all": True, "append_images": [picture.rotate(90), picture.rotate(180)]}


FORMS: dict[str, Callable[[Image.Image], bytes]] = {
    "jpg": lambda picture: saved(picture, "JPEG"),
    "progressive.jpg": lambda picture: saved(picture, "JPEG", progressive=True),
    "cmyk.jpg": lambda picture: saved(picture.convert("CMYK"), "JPEG"),
    "grey.jpg": lambda picture: saved(picture.convert("L"), "JPEG"),
    "turned.jpg": lambda picture: saved(picture, "JPEG", exif=turned()),
    "png": lambda picture: saved(picture, "PNG"),
    "palette.png": lambda picture: saved(picture.convert("P"), "PNG"),
    "deep.png": lambda picture: saved(deep(picture), "PNG"),
    "clear.png": lambda picture: saved(picture.convert("RGBA"), "PNG"),
    "moving.png": lambda picture: saved(picture, "PNG", **moving(picture)),
    "moving.gif": lambda picture: saved(picture, "GIF", **moving(picture)),
    "moving.webp": lambda picture: saved(picture, "WEBP", **moving(picture)),
    "bmp": lambda picture: saved(picture, "BMP"),
    "ppm": lambda picture: saved(picture, "PPM"),
    "tif": lambda picture: saved(picture, "TIFF"),
    "cmyk.tif": lambda picture: saved(picture.convert("CMYK"), "TIFF"),
    "deep.tif": lambda picture: saved(deep(picture), "TIFF"),
}


def mutant(chance: random.Random, content: bytes) -> bytes:
    """A file that was cut, altered or replaced; one in six stays as it is."""
    way, altered = chance.randrange(6), bytearray(content)
    if way == 1:
        return bytes(content[: chance.randrange(len(content))])
    if way in (2, 3):  # near the beginning, where the structure is, or anywhere
        reach = min(len(content), 300) if way == 2 else len(content)
        for _ in range(chance.randint(1, 12)):
            altered[chance.randrange(reach)] = chance.randrange(256)
    elif way == 4:
        start = chance.randrange(len(content))
        del altered[start : start + chance.randint(1, 60)]
    elif way == 5:
        return chance.choice(OTHER_THINGS)
    return bytes(altered)


def tiny_classifier() -> tiny.PhotoClassifier:
    """A classifier with a very small network."""
    build.BACKBONES["tiny"] = lambda dropout, auxiliary: tiny.TinyBackbone()
    return tiny.classifier()


def photos_drill(folder: Path, count: int, seed: int) -> Counter[str]:
    """Evaluate and check `count` photos, some at a time."""
    classifier = tiny_classifier()
    chance, found = random.Random(seed), Counter[str]()
    for start in range(0, count, PART):
        place = folder / f"{start}"
        place.mkdir()
        samples = []
        for number in range(start, min(start + PART, count)):
            name, make = chance.choice(list(FORMS.items()))
            path = place / f"{number}.{name}"
            path.write_bytes(mutant(chance, make(data_files.photo(number, 60, 44))))
            samples.append(Sample(path, classifier.graph.fine[number % len(classifier.graph)]))
        _judge(classifier, Samples(samples), place, found)
        for path in place.iterdir():
            path.unlink()
    return found


def _judge(classifier: tiny.PhotoClassifier, samples: Samples, place: Path, found: Counter[str]) -> None:
    """Evaluate and check photos, and count what was as it must be."""
    before = data_files.state_of(place)
    evaluation = evaluate_photos(classifier, samples, on_bad_file="skip", engine="torch")
    check = check_samples(samples)
    found["files as they were"] += sum(data_files.state_of(place)[path] == state for path, state in before.items())
    bad = Counter(one.path for one in evaluation.result.bad_photos)
    named = Counter(str(file) for one in check.findings if one.rule == "bad-file" for file in one.files)
    found["bad"] += len(bad.keys() | named.keys())  # a photo that one of the two alone names is a miss
    found["named once, by both"] += sum(bad[path] == named[path] == 1 for path in bad.keys() | named.keys())
    judged = evaluation.samples.sample.tolist()
    good = [number for number, sample in enumerate(samples) if str(sample.path) not in bad]
    found["readable"] += len(good)
    alone = classifier.predict([samples[number].path for number in good], explain=False)
    labels = [classifier.graph.fine[label] for label in evaluation.samples.predicted.tolist()]
    own = dict(zip(judged, labels, strict=True))
    found["judged by their own pixels"] += sum(
        own.get(number) == answer.top[0].label for number, answer in zip(good, alone, strict=True)
    )


def graphs_drill(folder: Path, count: int) -> tuple[Counter[str], float]:
    """Read broken graph files; returns what was found, and the seconds of the slowest."""
    found, slowest = Counter[str](), 0.0
    ways = [("csv", name, make) for name, make in broken_graphs.BREAK_CSV.items()]
    ways += [("json", name, make) for name, make in broken_graphs.BREAK_JSON.items()]
    for number in range(count):
        form, name, make = ways[number % len(ways)]
        chance = random.Random(f"{name} {number}")
        graph = broken_graphs.good_graph(chance)
        content = make(chance, format_csv(graph) if form == "csv" else canonical_json(graph))
        path = folder / f"graph.{form}"
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        began = time.perf_counter()
        try:
            LabelGraph.read(path)
        except GraphFileError as error:
            found["refused"] += 1
            # In JSON a place is a path of keys, and some faults are of the whole document.
            placed = form == "json" or all(fault.line is not None for fault in error.faults)
            found["with file and line of each fault"] += placed and str(error).startswith(f"{path}")
        slowest = max(slowest, time.perf_counter() - began)
    return found, slowest


def ways_drill(folder: Path, count: int, seed: int) -> int:
    """Try so many ways out of a server's folder, a quarter of them links; how many led nowhere."""
    outside, links = traversal.Outside(folder), count // 4
    with running(tiny_classifier(), samples=outside.photos) as server:
        found = traversal.ways_out(server, outside, random.Random(seed), paths=count - links, links=links)
    return count - len(found)


def main() -> int:
    """Run all and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--photos", type=int, default=10_000)
    parser.add_argument("--graphs", type=int, default=5_000)
    parser.add_argument("--ways", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # the decoders' remarks on what is broken
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # the server's on what is no HTTP
    table, well = Table("files", "what must hold", "found", "expected"), True

    def row(files: str, what: str, number: float, expected: float) -> None:
        nonlocal well
        well &= number <= expected if isinstance(expected, float) else number == expected
        limit = f"at most {expected:.0f} s" if isinstance(expected, float) else f"{expected:,}"
        table.add_row(files, what, f"{number:.3f} s" if isinstance(expected, float) else f"{number:,}", limit)

    with tempfile.TemporaryDirectory(prefix="finegraph-bad-") as name:
        found = photos_drill(Path(name), arguments.photos, arguments.seed)
        row(f"{arguments.photos:,} photos", "files as they were", found["files as they were"], arguments.photos)
        row(f"of these {found['bad']:,} bad", "named once, by both", found["named once, by both"], found["bad"])
        row("the others", "judged by their own pixels", found["judged by their own pixels"], found["readable"])
        found, slowest = graphs_drill(Path(name), arguments.graphs)
        row(f"{arguments.graphs:,} graph files", "refused", found["refused"], arguments.graphs)
        what = "with file and line of each fault"
        row("", what, found[what], arguments.graphs)
        row("", "the slowest", slowest, 1.0)
        ways = ways_drill(Path(name) / "ways", arguments.ways, arguments.seed)
        row(f"{arguments.ways:,} ways out", "no byte from outside", ways, arguments.ways)
    Console().print(table)
    return 0 if well else 1


if __name__ == "__main__":
    raise SystemExit(main())
