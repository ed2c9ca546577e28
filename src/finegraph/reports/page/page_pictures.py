"""The pictures that stand in a page: of each photo one, and training photos of classes that are taken for each other.

A photo answered wrongly is shown close if the evaluation kept such a picture and the page has room for it, those of
the run that is looked at first; every other photo is shown small. Cost: linear in the photos.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from finegraph.data.dataset import MISSING
from finegraph.evaluation.photo_pack import CLOSE_BYTES
from finegraph.reports.run_results import RunResults

_WEBP = b"RIFF"


def data_address(picture: bytes | None) -> str | None:
    """A picture as an address that holds it."""
    if picture is None:
        return None
    kind = "webp" if picture.startswith(_WEBP) else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode('ascii')}"


def page_pictures(runs: Sequence[RunResults], other: int) -> list[str]:
    """The address of a picture of each photo; empty if none was kept.

    Args:
        runs: on the same photos.
        other: the run that is looked at closely.
    """
    order = [runs[other], *(run for place, run in enumerate(runs) if place != other)]
    pictures: dict[int, bytes] = {}
    room = CLOSE_BYTES
    for run in order:
        wrong = np.flatnonzero((run.arrays["fine"] != MISSING) & ~run.right)
        for row in wrong.tolist():
            picture = run.gallery.get(int(run.arrays["sample"][row]))
            if picture is not None and row not in pictures and len(picture) <= room:
                pictures[row] = picture
                room -= len(picture)
    for row in range(len(runs[0].photos)):
        if row not in pictures:
            small = (run.thumbnails.get(int(run.arrays["sample"][row])) for run in order)
            pictures[row] = next((picture for picture in small if picture is not None), b"")
    return [data_address(pictures[row]) or "" if pictures[row] else "" for row in range(len(runs[0].photos))]


def training_pictures(run: RunResults) -> dict[str, list[dict[str, Any]]]:
    """Training photos of fine labels, by the number of the label: the address of each picture, and its file."""
    numbers = {label: number for number, label in enumerate(run.graph.fine)}
    listed: dict[str, list[dict[str, Any]]] = {}
    for place, photo in enumerate(run.about.get("training_photos") or []):
        picture = data_address(run.training.get(place))
        if picture is not None and photo["label"] in numbers:
            photos_of_label = listed.setdefault(str(numbers[photo["label"]]), [])
            photos_of_label.append({"picture": picture, "name": photo["path"].replace("\\", "/").rsplit("/", 1)[-1]})
    return listed
