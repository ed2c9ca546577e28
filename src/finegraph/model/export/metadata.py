"""What an exported file says about itself, as texts by name: plain words and JSON.

    format, format_version    what the file is, and the version of its names and layout
    finegraph_version         what wrote it
    labels                    JSON: the fine labels, and per kind its name, its columns (start, stop) and its labels; if
                              there are numbers, per number its name, unit, scale and resolution, and which quantiles
                              the file has
    graph                     JSON: the whole label graph, as in `graph.json`
    preprocessing             JSON: how a photo is resized and cut; the file does the rest
    temperature               what all scores are divided by, inside the file
    network, head             what the model consists of
    lessons                   JSON, if it was taught since it was fitted: how many lessons and photos, the labels that
                              they name, those that are new, and when the last one was taught

With `labels` and `preprocessing` alone a program can use the file; the other texts are optional.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from finegraph._version import __version__
from finegraph.graph import LabelGraph, Number
from finegraph.graph.formats.json_writer import canonical_json
from finegraph.model.export.export_names import FORMAT, FORMAT_VERSION, QUANTILES
from finegraph.model.photo_classifier import PhotoClassifier
from finegraph.model.teaching.lesson import lesson_summary


def metadata_of(classifier: PhotoClassifier) -> dict[str, str]:
    """The texts that go into the file."""
    design, summary = classifier.network.design, lesson_summary(classifier.lessons)
    networks = [name for name in (design.network, design.coarse_network) if name is not None]
    return {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "finegraph_version": __version__,
        "labels": _json(label_layout(classifier.graph)),
        "graph": canonical_json(classifier.graph),
        "preprocessing": _json(preprocessing_of(classifier)),
        "temperature": repr(classifier.temperature),
        "network": " and ".join(networks),
        "head": design.head,
        **({"lessons": _json(summary._asdict())} if summary.lessons else {}),
    }


def label_layout(graph: LabelGraph) -> dict[str, Any]:
    """The labels in the order of the columns."""
    kinds, start = [], 0
    for name in graph.kinds:
        labels = list(graph.labels(name))
        kinds.append({"name": name, "start": start, "stop": start + len(labels), "labels": labels})
        start += len(labels)
    layout: dict[str, Any] = {"fine": list(graph.fine), "kinds": kinds}
    if graph.numbers:
        numbers = [graph.number(name) for name in graph.numbers]
        layout["numbers"] = [
            {"name": one.name, "unit": one.unit, "scale": one.scale, "resolution": resolution_of(one)}
            for one in numbers
        ]
        layout["quantiles"] = list(QUANTILES)
    return layout


def resolution_of(number: Number) -> float:
    """How far from a value counts as this value: a difference, or on a log scale a factor."""
    inner = number.resolution * number.width
    return math.exp(inner) if number.scale == "log" else inner


def preprocessing_of(classifier: PhotoClassifier) -> dict[str, Any]:
    """The steps from a photo to the input of the file: the settings, and the same in words."""
    views = classifier.views
    shape = (
        f"so that its shorter side has {views.resize} pixels"
        if views.keep_shape
        else f"to {views.resize} x {views.resize} pixels, whatever its shape"
    )
    box = "cut it to the box of the object if there is one; " if views.box else ""
    words = (
        f"turn the photo upright as its EXIF data say, make it RGB; {box}resize it {shape} ({views.interpolation}, "
        f"smoothing as Pillow does); cut out the middle {views.size} x {views.size}; give it as uint8, (batch, height, "
        "width, 3)"
    )
    return {**asdict(views), "words": words}


def _json(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))
