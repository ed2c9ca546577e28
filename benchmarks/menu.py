"""How many photos of the synthetic menu are drawn per second on one core, and what they look like.

    python benchmarks/menu.py
    python benchmarks/menu.py --sheet menu.png --split test --columns 8 --rows 5 --wild-rows 1

Photos are drawn as the command draws them, fine label by fine label, from a new process with nothing made before: the
pictures of ingredients and crockery are part of the time. A second turn over the same photos shows what a photo costs
once they are there. Rates are those of the processor's own time, so that what else the machine does changes little;
the time of the clock stands beside them. JPEG files are made, not written.

With `--sheet`, photos drawn by lot are put side by side in one picture to look at.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from PIL import Image

from finegraph.data.menu import SIZES, SPLITS, Menu, Photo

LIMIT = 60.0
"""Photos per second that one core must draw."""


def main() -> None:
    """Measure and print, or draw a sheet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=list(SIZES), default="full")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--photos", type=int, default=1500, metavar="N", help="how many photos are drawn")
    parser.add_argument("--sheet", metavar="FILE", help="write a contact sheet instead")
    parser.add_argument("--split", choices=SPLITS, default="test", help="which photos are on the sheet")
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--rows", type=int, default=5)
    parser.add_argument("--wild-rows", type=int, default=0, metavar="N", help="rows of wild photos below the others")
    parser.add_argument("--pixels", type=int, default=256, help="how large a photo is on the sheet")
    arguments = parser.parse_args()
    menu = Menu(arguments.size, arguments.seed)
    if arguments.sheet:
        draw_sheet(menu, arguments)
    else:
        report(menu, arguments.photos)


def report(menu: Menu, number: int) -> None:
    """Print the rates against the limit."""
    photos = menu.photos[:number]
    labels = len({photo.label for photo in photos})
    print(f"{len(photos):,} photos of {labels} fine labels, 256 x 256 pixels, one process")
    print(f"{'':<24}{'CPU ms':>8}{'photos/s':>10}{'limit':>8}{'by the clock':>14}")
    for name in ("from nothing", "once all is made"):
        busy, clock = time.process_time(), time.perf_counter()
        size = sum(len(menu.jpeg(photo)) for photo in photos)
        busy, clock = time.process_time() - busy, time.perf_counter() - clock
        rate = len(photos) / busy
        verdict = "ok" if rate >= LIMIT else "too slow"
        print(f"{name:<24}{1000 / rate:>8.1f}{rate:>10.1f}{LIMIT:>8.0f}{len(photos) / clock:>12.1f}/s  {verdict}")
    print(f"mean size of a file: {size / len(photos) / 1024:.1f} KiB")


def draw_sheet(menu: Menu, arguments: argparse.Namespace) -> None:
    """Put photos side by side."""
    random = np.random.default_rng(arguments.seed)
    drawn: list[Photo] = []
    for split, rows in ((arguments.split, arguments.rows), ("wild", arguments.wild_rows)):
        photos = [photo for photo in menu.photos if photo.split == split]
        places = random.choice(len(photos), min(len(photos), arguments.columns * rows), replace=False)
        drawn += [photos[int(place)] for place in places]
    side = arguments.pixels
    sheet = Image.new("RGB", (arguments.columns * side, -(-len(drawn) // arguments.columns) * side))
    for place, photo in enumerate(drawn):
        picture = menu.draw(photo).resize((side, side), Image.Resampling.LANCZOS)
        sheet.paste(picture, (place % arguments.columns * side, place // arguments.columns * side))
    sheet.save(arguments.sheet, quality=76)
    print(f"{arguments.sheet}: {len(drawn)} photos of the {menu.size} menu, seed {menu.seed}")


if __name__ == "__main__":
    main()
