"""What was learnt about the graph of a run, kept in the run so that its report can show it.

Its form is that of reports/structure_results.py. Parts are replaced one by one, the others stay. It follows from the
run and can be made again; nothing but reports reads it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from finegraph.data.samples import Sample, Samples
from finegraph.errors import RunFolderError
from finegraph.evaluation.photo_pack import pack_photos
from finegraph.files.durable import reason_of, write_over
from finegraph.reports.structure_results import STRUCTURE, STRUCTURE_FORMAT, STRUCTURE_PICTURES, read_structure

MAX_PICTURES = 600
"""How many photos have a small picture at the most."""


def keep_structure(run: Path, parts: Mapping[str, Any]) -> None:
    """Keep parts of what was learnt; parts that are not given stay as they were.

    Args:
        run: the run folder.
        parts: by name, as JSON can hold them: suggested, cells, tree. Photos are lists of paths under the key `photos`.

    Raises:
        RunFolderError: the files cannot be written.
    """
    from safetensors.numpy import save

    known = read_structure(run) or {}
    content = {
        **STRUCTURE_FORMAT,
        **{name: value for name, value in known.items() if name not in STRUCTURE_FORMAT},
        **parts,
    }
    paths = list(dict.fromkeys(_photos_in(content)))[:MAX_PICTURES]
    content["pictures"] = paths
    samples = {number: Sample(path=Path(path), label=None) for number, path in enumerate(paths)}
    pack = pack_photos({"photos": samples})["photos"]
    try:
        write_over(run / STRUCTURE_PICTURES, save({name: np.ascontiguousarray(array) for name, array in pack.items()}))
        text = json.dumps(content, allow_nan=False, ensure_ascii=False) + "\n"
        write_over(run / STRUCTURE, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise RunFolderError(f"{run}: what was learnt cannot be written: {reason_of(error)}") from error


def _photos_in(value: Any) -> Iterator[str]:
    """The paths of all photos that are named somewhere."""
    if isinstance(value, dict):
        for name, own in value.items():
            if name == "photos" and isinstance(own, list | tuple):
                yield from (path for path in own if isinstance(path, str))
            elif name != "pictures":
                yield from _photos_in(own)
    elif isinstance(value, list | tuple):
        for own in value:
            yield from _photos_in(own)


def photos_by_label(samples: Samples) -> dict[str, list[str]]:
    """The paths of photos by fine label."""
    found: dict[str, list[str]] = {}
    for sample in samples:
        found.setdefault(sample.label or "", []).append(os.fspath(sample.path))
    return found


def photos_of(fine: Sequence[str], by_label: dict[str, list[str]], count: int) -> tuple[str, ...]:
    """A few photos of some fine labels, one of each before a second one of any."""
    found: list[str] = []
    for turn in range(count):
        for label in fine:
            photos = by_label.get(label, [])
            if len(found) < count and turn < len(photos):
                found.append(photos[turn])
    return tuple(found)
