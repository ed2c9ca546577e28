"""How many photos per second become features: a plain loop, and finegraph with torch and with ONNX Runtime.

    python benchmarks/extraction.py --data grocery:FOLDER
    python benchmarks/extraction.py --data grocery:FOLDER --train

The plain loop is what one writes at first: Pillow opens and resizes, torch runs the network as it comes, 32 photos at a
time. Every turn is a new process on the same photos at the same size, and the ways take turns, so that what else the
machine does falls on all of them. Nothing is stored before a turn. The time of finegraph includes everything between
the list of photos and the matrix: hashing, translating the network, storing. Loading libraries and weights, which all
three need alike, is not part of it. The last row is a second run that finds everything stored.

With `--train`, the whole command `finegraph train` that fits a head to the photos of a source, from the start of the
process to its end, against computing the features of the same photos (splits train and val) alone.

Ratios are those of turns next to each other: their median, lowest and highest. The processor's own time per photo says
more than the clock where the machine has other things to do. Limits for the medians: finegraph with ONNX Runtime, which
it takes where it is installed, at least 3 times as quick as the plain loop; the whole training at most 1.3 times as
long as the features alone. The exit code is 1 if a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BATCH = 32
QUICKER, LONGER = 3.0, 1.3
"""The limits: how many times as quick as the plain loop at least, and as long as extraction alone at most."""
WAYS = {"plain": "plain loop", "torch": "finegraph, torch", "onnx": "finegraph, ONNX Runtime", "stored": "stored"}


def main() -> int:
    """Measure and print; 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, metavar="SOURCE", help="a source of photos, such as grocery:FOLDER")
    parser.add_argument("--photos", type=int, default=400, metavar="N", help="how many photos, spread over the source")
    parser.add_argument("--turns", type=int, default=3, help="how often each way is measured")
    parser.add_argument("--size", type=int, help="pixels of a view; by default those of the network")
    parser.add_argument("--network", default="efficientnet_lite0")
    parser.add_argument("--weights", default="default", help="'default', 'none' or a file")
    parser.add_argument("--train", action="store_true", help="compare the whole training of a head with extraction")
    parser.add_argument("--way", choices=[*WAYS, "splits"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        print(json.dumps(turn(arguments)))
        return 0
    return 0 if (report_training if arguments.train else report)(arguments) else 1


def verdict(ratio: float, limit: float, *, at_least: bool) -> tuple[bool, str]:
    """Whether a ratio keeps its limit, and that in words."""
    kept = ratio >= limit if at_least else ratio <= limit
    return kept, f"at {'least' if at_least else 'most'} {limit:g}: {'reached' if kept else 'NOT REACHED'}"


def report(arguments: argparse.Namespace) -> bool:
    """Let the ways take turns and print a table; whether the limit is kept."""
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.turns):
            for way in WAYS:
                place = Path(folder, f"{number}-{'onnx' if way == 'stored' else way}")
                command = [sys.executable, *sys.argv, "--way", way, "--folder", str(place)]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                found[way].append(json.loads(done.stdout.splitlines()[-1]))
    first = found["plain"][0]
    print(
        f"{first['photos']:.0f} photos at {first['size']:.0f} px, {first['threads']:.0f} threads, {arguments.network}"
    )
    headings = f"{'photos/s':>10}{'ratio':>8}{'lowest':>8}{'highest':>8}{'CPU ms':>8}{'peak MB':>9}{'difference':>12}"
    print(f"{'':<26}{headings}  limit of the ratio")
    well = True
    for way, name in WAYS.items():
        rates = [one["photos"] / one["seconds"] for one in found[way]]
        ratios = [plain["seconds"] / one["seconds"] for plain, one in zip(found["plain"], found[way], strict=True)]
        busy = statistics.median(1000 * one["busy"] / one["photos"] for one in found[way])
        peak = max(one["peak"] for one in found[way])
        apart = max(abs(one["norm"] / plain["norm"] - 1) for plain, one in zip(found["plain"], found[way], strict=True))
        words = ""
        if way == "onnx":
            well, words = verdict(statistics.median(ratios), QUICKER, at_least=True)
        print(
            f"{name:<26}{statistics.median(rates):>10.1f}{statistics.median(ratios):>7.2f}x{min(ratios):>7.2f}x"
            f"{max(ratios):>7.2f}x{busy:>8.1f}{peak:>9.0f}{apart:>12.1e}  {words}".rstrip()
        )
    return well


def report_training(arguments: argparse.Namespace) -> bool:
    """Let the whole command and extraction alone take turns and print the ratio; whether the limit is kept."""
    alone, whole = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.turns):
            place = str(Path(folder, f"{number}-alone"))
            command = [sys.executable, *sys.argv, "--way", "splits", "--folder", place]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            alone.append(json.loads(done.stdout.splitlines()[-1]))
            settings = ["--run", str(Path(folder, f"{number}-run")), "--network", arguments.network]
            settings += [] if arguments.size is None else ["--size", str(arguments.size)]
            command = [sys.executable, "-m", "finegraph", "train", arguments.data, "--weights", arguments.weights]
            began = time.perf_counter()
            subprocess.run(
                [*command, *settings],
                stdout=subprocess.DEVNULL,
                env={**os.environ, "FINEGRAPH_CACHE": str(Path(folder, f"{number}-whole"))},
                check=True,
            )
            whole.append(time.perf_counter() - began)
    ratios = [one / other["seconds"] for one, other in zip(whole, alone, strict=True)]
    print(f"{alone[0]['photos']:.0f} photos at {alone[0]['size']:.0f} px, {alone[0]['threads']:.0f} threads")
    print(f"extraction alone      {statistics.median(one['seconds'] for one in alone):8.1f} s")
    print(f"whole training        {statistics.median(whole):8.1f} s")
    well, words = verdict(statistics.median(ratios), LONGER, at_least=False)
    print(f"ratio                 {statistics.median(ratios):8.2f}   from {min(ratios):.2f} to {max(ratios):.2f}")
    print(f"limit of the ratio    {words}")
    return well


def turn(arguments: argparse.Namespace) -> dict[str, float]:
    """One way, in this process: photos, seconds, the largest memory, and the norm of the features as a check."""
    if arguments.way != "plain":
        from finegraph.cli.process import prepare_process

        prepare_process()
    import torch

    from finegraph.data.samples import Samples
    from finegraph.data.sources import read_samples
    from finegraph.data.transforms import ViewSettings
    from finegraph.nn.backbones import build_backbone

    everything = read_samples(arguments.data)
    if arguments.way == "splits":
        samples = everything.only(lambda sample: sample.split in (None, "train", "val"))
    else:
        step = max(1, len(everything) // arguments.photos)
        samples = Samples(list(everything)[::step][: arguments.photos])
    backbone = build_backbone(arguments.network, None if arguments.weights == "none" else arguments.weights)
    wanted = backbone.preprocessing if arguments.size is None else backbone.preprocessing.at(arguments.size)
    views = ViewSettings(size=wanted.size, resize=wanted.resize, interpolation=wanted.interpolation)
    for sample in samples:
        sample.path.read_bytes()  # the disk is not what is measured
    busy = time.process_time()
    if arguments.way == "plain":
        features, seconds = plain(backbone, [sample.path for sample in samples], views)
    else:
        features, seconds = ours(backbone, samples, views, arguments.way, arguments.folder)
    return {
        "photos": len(features),
        "seconds": seconds,
        "busy": time.process_time() - busy,
        "peak": peak_megabytes(),
        "norm": float(features.double().norm()),
        "size": views.size,
        "threads": torch.get_num_threads(),
    }


def plain(backbone, paths, views):
    """The features of photos, as one writes it at first."""
    import numpy as np
    import torch
    from PIL import Image

    interpolation = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}[views.interpolation]
    start = (views.resize - views.size) // 2
    backbone.eval()
    rows = []
    began = time.perf_counter()
    with torch.no_grad():
        for first in range(0, len(paths), BATCH):
            images = []
            for path in paths[first : first + BATCH]:
                picture = Image.open(path).convert("RGB").resize((views.resize, views.resize), interpolation)
                picture = picture.crop((start, start, start + views.size, start + views.size))
                images.append(torch.from_numpy(np.array(picture)).permute(2, 0, 1))
            rows.append(backbone(backbone.preprocessing.normalise(torch.stack(images))))
        features = torch.cat(rows)
    return features, time.perf_counter() - began


def ours(backbone, samples, views, way, folder):
    """The features of photos from `extract_features`."""
    from finegraph.graph import LabelGraph
    from finegraph.model.features import extract_features
    from finegraph.nn import Network, NetworkDesign, SoftmaxHead

    graph = LabelGraph(["photo", "no photo"])
    network = Network(NetworkDesign(head="softmax"), backbone, SoftmaxHead(backbone.feature_size, graph))
    engine = {"torch": "torch", "splits": "auto"}.get(way, "onnx")
    began = time.perf_counter()
    found = extract_features(network, samples, views, cache=folder, engine=engine)
    seconds = time.perf_counter() - began
    if found.notes or found.cached != (len(samples) if way == "stored" else 0):
        raise SystemExit(f"{found.cached} of {len(samples)} photos were stored before; {found.notes}")
    return found.fine, seconds


def peak_megabytes() -> float:
    """The most memory that this process has used."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


if __name__ == "__main__":
    raise SystemExit(main())
