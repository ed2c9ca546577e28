"""Samples of the Grocery Store data set, from its folder as published.

    classes.csv                       class and coarse class, by name and number
    train.txt, val.txt, test.txt      one line per photo: path, number of the class, number of the coarse class

The coarse classes and the groups belong to the classes, so they are in the graph (`graph_from_grocery`), not on the
photos. Cost: linear in the lists.
"""

from __future__ import annotations

import os
from pathlib import Path

from finegraph.data.samples import Sample, Samples
from finegraph.errors import DataFileError
from finegraph.graph.builders.grocery import SPLITS, read_grocery_classes, read_grocery_list
from finegraph.graph.builders.text_files import SourceFaults


def read_grocery(folder: str | os.PathLike[str]) -> Samples:
    """The samples of a folder with the layout of the Grocery Store data set.

    Args:
        folder: the folder with `classes.csv` in it.

    Raises:
        DataFileError: files that are missing or wrong, all faults at once.
    """
    folder = Path(folder)
    faults = SourceFaults(f"the grocery folder {folder}", DataFileError)
    classes = read_grocery_classes(folder, faults)
    samples = []
    for split in SPLITS:
        listed = read_grocery_list(folder, split, classes, faults)
        samples += [Sample(folder / path, label, split) for path, label in listed]
    faults.raise_if_any()
    return Samples(samples, str(folder))
