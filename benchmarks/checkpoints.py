"""What checkpoints survive: kills, full disks, flipped bits and cuts, each counted against what must be found.

    python benchmarks/checkpoints.py            1,000 kills, 10,000 flips, 1,000 cuts, 200 points without space: minutes
    python benchmarks/checkpoints.py --quick    a tenth of it
    python benchmarks/checkpoints.py --folder D on the disk of folder D rather than that of the temporary files

The drills are those of the tests (`tests/training/checkpoint_drills.py`). At the end stands what a save costs: its time
beside that of one plain write and fsync of the same bytes, and the memory it needs beyond the tensors. The exit code is
1 if anything was not found as it must be.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from finegraph.training.checkpoints.checkpoint import CheckpointFolder

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "training"))
import checkpoint_drills as drills  # the folder of the tests is no package

MEGABYTE = 2**20


class Report:
    """The table that is printed, and whether all is well."""

    def __init__(self) -> None:
        self.table = Table("drill", "what must hold", "found", "expected", "seconds")
        self.well = True

    def add(self, drill: str, found: Mapping[str, int], expected: Mapping[str, int], seconds: float) -> None:
        """Add a drill; what is not expected by name is only shown."""
        took = f"{seconds:.1f}"
        for name in sorted(found.keys() | expected.keys(), key=list({**found, **expected}).index):
            count, must = found.get(name, 0), expected.get(name)
            good = must is None or count == must
            self.well &= good
            shown = f"{count:,}" if good else f"[red]{count:,}[/red]"
            self.table.add_row(drill, name, shown, "" if must is None else f"{must:,}", took)
            drill = took = ""
        self.table.add_section()


def run_drills(folder: Path, share: float) -> Report:
    """All drills, with this share of the full counts."""
    report = Report()
    kills, flips, cuts, points = (round(share * count) for count in (1000, 10_000, 1000, 200))

    began = time.monotonic()
    found = drills.kill_drill(folder / "kills", kills, seed=1)
    names = ("loaded", "fresh", "best fresh", "clean")
    report.add(f"{kills:,} kills at random moments", found, dict.fromkeys(names, kills), time.monotonic() - began)

    began = time.monotonic()
    found = drills.crash_points_drill(folder / "points")
    expected = dict.fromkeys(names, found["points"])
    report.add("a kill at each operation", found, expected, time.monotonic() - began)

    for name, count, cut in (("flipped bits", flips, False), ("cuts", cuts, True)):
        began = time.monotonic()
        found = drills.damage_drill(folder / name, count, 2, cut=cut)
        expected = dict.fromkeys(("detected", "fell back", "best fell back"), count)
        report.add(f"{count:,} {name}", found, expected, time.monotonic() - began)

    began = time.monotonic()
    # So many tensors that the save ends a little before the last point.
    found = drills.no_space_drill(folder / "space", points, tensors=max(points - 20, 1))
    expected = {"named": found["refused"], "old ones intact": found["refused"]}
    expected.update(dict.fromkeys(("loaded", "goes on", "clean"), points))
    report.add(f"no space at {points:,} operations", found, expected, time.monotonic() - began)
    return report


def cost(folder: Path, console: Console, megabytes: int) -> None:
    """Print what saving and loading cost."""
    tensors = {f"network.{i}": torch.randn(MEGABYTE // 4) for i in range(megabytes)}
    checkpoints = CheckpointFolder(folder / "cost")
    saves, plain, loads = [], [], []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for step in range(5):
        began = time.monotonic()
        checkpoints.save(step, tensors, {})
        saves.append(time.monotonic() - began)
        began = time.monotonic()
        _plain_write(folder / "plain", tensors)
        plain.append(time.monotonic() - began)
    extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    for _ in range(5):
        began = time.monotonic()
        checkpoints.last()
        loads.append(time.monotonic() - began)
    save, write, load = (statistics.median(times) for times in (saves, plain, loads))
    console.print(
        f"{megabytes} MB: saving takes {save:.2f} s ({save / write:.2f} of a plain write and fsync) and {extra:.0f} MB "
        f"of memory beyond the tensors; loading takes {load:.2f} s"
    )


def _plain_write(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    with path.open("wb") as file:
        for tensor in tensors.values():
            file.write(tensor.numpy().data)
        file.flush()
        os.fsync(file.fileno())


def main() -> int:
    """Run all drills and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the counts")
    parser.add_argument("--folder", help="where to write; by default the folder of temporary files")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    folder = Path(tempfile.mkdtemp(prefix="finegraph-checkpoints-", dir=arguments.folder))
    console = Console()
    try:
        report = run_drills(folder, 0.1 if arguments.quick else 1.0)
        console.print(report.table)
        cost(folder, console, 32 if arguments.quick else 256)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if report.well else 1


if __name__ == "__main__":
    raise SystemExit(main())
