"""What damage does to label stores: thousands of flipped bits and lost ends, each either named or without effect.

    python benchmarks/damaged_stores.py                              10,000 flips and 1,000 cuts, some minutes
    python benchmarks/damaged_stores.py --flips 1000 --cuts 100      a tenth of it

A store with every sort of row has one bit flipped anywhere in its file, or loses its end. Then what leaves it must be
what it was before, to the last bit, or be refused by the one error that names the damage: an export with everything and
the history; for one in twenty also the other exports, an earlier version, a backup, training and questions of the page.
The exit code is 1 if anything was otherwise.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.append(str(Path(__file__).parents[1] / "tests" / "labelling"))
import store_damage  # the folders of the tests are no packages

MAX_FAULTS = 20


def drill(folder: Path, flips: int, cuts: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Damage a store in many ways; returns what was found of its ways out, and the faults in words."""
    place = store_damage.make_store(folder / "menu.db")
    good, content, chance = store_damage.answers(place), place.read_bytes(), random.Random(seed)
    ways = [store_damage.flipped] * flips + [store_damage.cut] * cuts
    chance.shuffle(ways)
    drilled = folder / "damaged"
    drilled.mkdir()
    found, faults = Counter[str](), list[str]()
    damages = (way(chance, content) for way in ways)
    for number, judged in enumerate(store_damage.drill(drilled, good, content, damages, all_ways=20), 1):
        wrong = [one for one in judged.values() if one not in ("same", "named")]
        found["answers"] += len(judged)
        found["as before"] += sum(one == "same" for one in judged.values())
        found["damage named"] += sum(one == "named" for one in judged.values())
        found["stores with named damage"] += "named" in judged.values()
        found["silently different"] += sum("silently different" in one for one in wrong)
        found["other errors"] += sum("silently different" not in one for one in wrong)
        faults += wrong
        if number % max(1, len(ways) // 20) == 0:
            print(f"{number:,} of {len(ways):,}, {len(faults)} faults", file=sys.stderr, flush=True)
    return found, faults


def main() -> int:
    """Run it and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--flips", type=int, default=10_000)
    parser.add_argument("--cuts", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="finegraph-damage-") as name:
        found, faults = drill(Path(name), chosen.flips, chosen.cuts, chosen.seed)
    table = Table("metric", "found", "expected")
    for what, number in found.items():
        expected = "0" if what in ("silently different", "other errors") else ""
        table.add_row(what, f"{number:,}", expected)
    for fault in faults[:MAX_FAULTS]:
        print(fault)
    Console().print(table)
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
