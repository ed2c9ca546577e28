"""The label graph of the Grocery Store data set: 81 classes with their products and groups.

`classes.csv` names each class and its coarse class, which is the product ("Pear", "Milk"); the group (Fruit, Packages,
Vegetables) is the folder right below the split, in the paths of the lists `train.txt`, `val.txt` and `test.txt`:

    train/Fruit/Apple/Golden-Delicious/Golden-Delicious_001.jpg, 0, 0

A class without a finer name is its own coarse class ("Banana"). Cost: linear in the lists; no photo is opened.
"""

from __future__ import annotations

import os
from pathlib import Path

from finegraph.graph.builders.text_files import SourceFaults, read_lines, read_text
from finegraph.graph.formats.csv_rows import rows
from finegraph.graph.label_graph import LabelGraph
from finegraph.graph.names import name_fault

_COLUMNS = ("Class Name (str)", "Class ID (int)", "Coarse Class Name (str)", "Coarse Class ID (int)")
SPLITS = ("train", "val", "test")

Classes = dict[int, tuple[str, str]]
"""The number of a class -> its name and the name of its coarse class."""


def graph_from_grocery(folder: str | os.PathLike[str]) -> LabelGraph:
    """The graph of a folder with the layout of the Grocery Store data set, with the kinds `product` and `group`.

    Args:
        folder: the folder with `classes.csv` in it.

    Raises:
        GraphFileError: files that are missing or wrong, all faults at once.
    """
    folder = Path(folder)
    faults = SourceFaults(f"the grocery folder {folder}")
    classes = read_grocery_classes(folder, faults)
    groups: dict[str, set[str]] = {}
    for split in SPLITS:
        for path, label in read_grocery_list(folder, split, classes, faults):
            groups.setdefault(label, set()).add(Path(path).parts[1])
    for label, found in groups.items():
        if len(found) > 1:
            message = f"photos of {label!r} lie in several groups: {', '.join(sorted(found))}"
            faults.of(folder).add("several-groups", message, hint="move them into one")
    faults.raise_if_any()
    table = {
        name: {"product": coarse, "group": next(iter(groups.get(name, ())), None)}
        for _, (name, coarse) in sorted(classes.items())
    }
    return LabelGraph.from_table(table)


def read_grocery_classes(folder: Path, found: SourceFaults) -> Classes:
    """The classes, from `classes.csv`."""
    path = folder / "classes.csv"
    faults = found.of(path)
    lines = rows(read_text(path, faults) or "", faults)
    _, header = next(lines, (1, []))
    missing = [name for name in _COLUMNS if name not in header]
    if missing and not len(faults):
        faults.add(
            "missing-column", f"there is no column {missing[0]!r}", line=1, hint="expected " + ",".join(_COLUMNS)
        )
    if missing:
        return {}
    places = [header.index(name) for name in _COLUMNS]
    classes: Classes = {}
    names: set[str] = set()
    for line, row in lines:
        if len(row) != len(header):
            continue  # a fault already
        name, number, coarse, _ = (row[place] for place in places)
        for text in (name, coarse):
            if fault := name_fault(text):
                faults.add("bad-name", fault, line=line, value=text)
        if not number.isdecimal() or int(number) in classes or name in names:
            faults.add("bad-class", "expected a class and a number of its own", line=line, value=f"{name},{number}")
            continue
        names.add(name)
        classes[int(number)] = name, coarse
    if not classes and not len(faults):
        faults.add("no-rows", "expected at least one class below the header, got none", line=1)
    return classes


def read_grocery_list(folder: Path, split: str, classes: Classes, found: SourceFaults) -> list[tuple[str, str]]:
    """Path and fine label of each photo of a split, from its list."""
    path = folder / f"{split}.txt"
    faults = found.of(path)
    listed = []
    for line, text in enumerate(read_lines(path, faults) or [], start=1):
        cells = [cell.strip() for cell in text.rsplit(",", 2)]
        parts = Path(cells[0]).parts
        if len(cells) != 3 or len(parts) < 3 or parts[0] != split or ".." in parts or not cells[1].isdecimal():
            message = f"expected '{split}/group/.../photo, class, coarse class'"
            faults.add("bad-line", message, line=line, value=text)
        elif int(cells[1]) in classes:
            listed.append((cells[0], classes[int(cells[1])][0]))
        elif classes:
            message = f"there is no class {cells[1]} in classes.csv"
            faults.add("bad-class", message, line=line, value=text)
    return listed
