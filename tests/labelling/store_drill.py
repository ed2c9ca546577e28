"""A process that edits a store and says what was acknowledged, to be killed at any moment.

Usage: store_drill.py STORE FIRST: makes the edits FIRST, FIRST + 1, ... and prints each number once it is acknowledged.
"""

import sys

from finegraph.labelling import LabelStore


def main(place, first):
    with LabelStore.open(place) as store:
        fine = [row.fine for row in store.classes(limit=1000).rows]
        number = first
        while True:
            name = fine[number % len(fine)]
            seen = store.cell(name, "dish").version
            value = "kung pao" if number % 2 else "mapo tofu"
            store.decide(name, "dish", value, person="ann", edit_id=f"drill {number}", seen=seen)
            print(number, flush=True)
            number += 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
