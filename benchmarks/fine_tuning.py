"""What training the whole network buys over its last layer, at the same size and on the same photos.

    python benchmarks/fine_tuning.py --data grocery:FOLDER                  some ten minutes on two cores
    python benchmarks/fine_tuning.py --data grocery:FOLDER --head softmax

It runs the commands themselves, `finegraph train` and `finegraph evaluate`, and prints the metrics of the test photos.
One run each: differences of a point or two are chance.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time

from rich.console import Console
from rich.table import Table


def main() -> None:
    """Train both ways, evaluate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="photos with the splits train and test, as for `finegraph train`")
    parser.add_argument("--graph", help="a graph file; by default what the source implies")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--head", default="bipartite", choices=("bipartite", "softmax"))
    parser.add_argument("--epochs", type=int, help="of training the whole network; by default those of the recipe")
    options = parser.parse_args()
    table = Table(title=f"{options.data}, {options.head} head, {options.size} px, test photos", title_justify="left")
    for heading in ("tune", "top-1", "top-5", "nll", "minutes"):
        table.add_column(heading, justify="left" if heading == "tune" else "right")
    with tempfile.TemporaryDirectory() as folder:
        for tune in ("head", "all"):
            began = time.perf_counter()
            own = ["--size", str(options.size), "--head", options.head, "--tune", tune, "--run", f"{folder}/{tune}"]
            own += ["--graph", options.graph] if options.graph else []
            own += ["--epochs", str(options.epochs)] if options.epochs and tune == "all" else []
            command("train", options.data, *own)
            minutes = (time.perf_counter() - began) / 60
            found = command("evaluate", f"{folder}/{tune}")
            shares = (f"{found[name]:.1%}" for name in ("top1", "top5"))
            table.add_row(tune, *shares, f"{found['nll']:.3f}", f"{minutes:.1f}")
    Console().print(table)


def command(*arguments: str) -> dict:
    """What a command of finegraph prints as JSON; its progress goes to the terminal."""
    own = [sys.executable, "-m", "finegraph", *arguments, "--json"]
    return json.loads(subprocess.run(own, stdout=subprocess.PIPE, text=True, check=True).stdout)


if __name__ == "__main__":
    main()
