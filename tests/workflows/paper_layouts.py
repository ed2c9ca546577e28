"""The data sets of the paper's four experiments in small: a few made-up photos in each layout, with boxes."""

from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat

TRAIN, TEST = 6, 2
"""Photos of each class."""
CARS = ("Acura RL Sedan 2012", "Acura TL Sedan 2012", "BMW M3 Coupe 2012", "BMW X5 SUV 2007")
BIRDS = ("001.Albatross", "002.Wren", "003.Gull", "004.Finch")
_SIDE, _BOX = 48, (8, 6, 30, 34)
"""A photo's side, and the object's x, y, width and height."""


def _photo(path: Path, number: int, random: np.random.Generator) -> None:
    """A grey photo with a rectangle in the colour of its class."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = random.integers(0, 255, (_SIDE, _SIDE, 3)).astype(np.uint8)
    x, y, width, height = _BOX
    colour = np.array([60 * number, 255 - 60 * number, 90]) + random.integers(-30, 30, 3)
    pixels[y : y + height, x : x + width] = colour.clip(0, 255)
    Image.fromarray(pixels).save(path)


def cars(folder: Path) -> str:
    """Stanford Cars; returns the source."""
    random = np.random.default_rng(0)
    (folder / "devkit").mkdir(parents=True)
    savemat(folder / "devkit/cars_meta.mat", {"class_names": np.array([CARS], dtype=object)})
    fields = [(name, object) for name in ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "fname")]
    x, y, width, height = _BOX
    for split, many, file in (
        ("train", TRAIN, "devkit/cars_train_annos.mat"),
        ("test", TEST, "cars_test_annos_withlabels.mat"),
    ):
        table = np.zeros((1, many * len(CARS)), dtype=fields)
        for place in range(table.size):
            name = f"{place:05d}.png"
            number = place % len(CARS)
            _photo(folder / f"cars_{split}" / name, number, random)
            table[0, place] = (x + 1.0, y + 1.0, float(x + width), float(y + height), number + 1, name)
        savemat(folder / file, {"annotations": table})
    return f"cars:{folder}"


def cub(folder: Path) -> str:
    """CUB-200-2011 with three groups of attributes; returns the source."""
    random = np.random.default_rng(0)
    lines: dict[str, list[str]] = {
        name: [] for name in ("images", "image_class_labels", "train_test_split", "bounding_boxes")
    }
    for place in range((TRAIN + TEST) * len(BIRDS)):
        number = place % len(BIRDS)
        path = f"{BIRDS[number]}/{place:04d}.png"
        _photo(folder / "images" / path, number, random)
        lines["images"].append(f"{place + 1} {path}")
        lines["image_class_labels"].append(f"{place + 1} {number + 1}")
        lines["train_test_split"].append(f"{place + 1} {int(place < TRAIN * len(BIRDS))}")
        lines["bounding_boxes"].append(f"{place + 1} " + " ".join(f"{side:.1f}" for side in _BOX))
    lines["classes"] = [f"{number + 1} {bird}" for number, bird in enumerate(BIRDS)]
    (folder / "attributes").mkdir()
    choices = [f"has_{group}::{one}" for group in ("wing_color", "wing_shape", "bill_shape") for one in ("a", "b")]
    lines["attributes/attributes"] = [f"{number + 1} {choice}" for number, choice in enumerate(choices)]
    lines["attributes/class_attribute_labels_continuous"] = [
        " ".join("80 20" if number >> bit & 1 else "10 90" for bit in (0, 1, 0)) for number in range(len(BIRDS))
    ]
    for name, rows in lines.items():
        (folder / f"{name}.txt").write_text("\n".join(rows) + "\n")
    return f"cub:{folder}"


def manifest(folder: Path, graph: str, splits: dict[str, int]) -> tuple[str, str]:
    """A manifest with boxes and a graph file, as for sets that were never published; returns both."""
    random = np.random.default_rng(0)
    rows = ["path,label,split,x,y,width,height"]
    for number, line in enumerate(graph.splitlines()[1:]):
        label = line.split(",")[0]
        for split, many in splits.items():
            for place in range(many):
                path = f"photos/{number}-{split}-{place}.png"
                _photo(folder / path, number, random)
                rows.append(f"{path},{label},{split}," + ",".join(map(str, _BOX)))
    (folder / "images.csv").write_text("\n".join(rows) + "\n")
    (folder / "graph.csv").write_text(graph)
    return str(folder / "images.csv"), str(folder / "graph.csv")
