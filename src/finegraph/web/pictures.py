"""Which photos on this machine clients may see: samples to try, and photos that a search found.

A client never names a file. It names a number in a list, or a key that an answer held; so there is no path to climb out
of a folder with. The files themselves are read in `photo_files.py`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections import OrderedDict
from pathlib import Path

from finegraph.errors import DataError
from finegraph.web.problems import ProblemError
from finegraph.workflows.predict import photos_of

MOST_SAMPLES = 24
MOST_SAMPLE_BYTES = 16 << 20
_MOST_KEYS = 50_000


def photos_below(folder: Path) -> list[str]:
    """The photos in a folder, and in its folders where it is one of a folder per class.

    Raises:
        DataError: there is no photo.
    """
    folders = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))
    found: list[str] = []
    for place in (os.fspath(folder), *folders):
        with contextlib.suppress(DataError):  # one without photos
            found += photos_of([place])
    return found or photos_of([folder])


class SamplePhotos:
    """The photos of a folder, by number.

    Args:
        folder: the folder; None for no photos.

    Raises:
        DataError: there is no such folder, or no photo in it.
    """

    def __init__(self, folder: Path | None) -> None:
        self.paths: list[str] = []
        if folder is not None:
            if not folder.is_dir():
                raise DataError(f"{folder}: expected a folder of photos, got none; name a folder that is there")
            found = [path for path in photos_below(folder) if os.path.getsize(path) <= MOST_SAMPLE_BYTES]
            step = max(1, len(found) // MOST_SAMPLES)
            self.paths = found[::step][:MOST_SAMPLES]  # spread over the folder, whose order often is that of labels

    def path(self, number: int) -> str:
        """The file of a number."""
        if not 0 <= number < len(self.paths):
            raise ProblemError("not-found", f"There are {len(self.paths)} samples, counted from 0; got {number}.")
        return self.paths[number]


class Thumbnails:
    """Photos that answers named, by keys that nobody can guess; the oldest are forgotten."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(16)
        self._paths: OrderedDict[str, str] = OrderedDict()

    def key(self, path: str) -> str:
        """The key of a photo; the same photo has the same one."""
        key = hashlib.blake2b(path.encode(errors="surrogateescape"), key=self._secret, digest_size=16).hexdigest()
        self._paths[key] = path
        self._paths.move_to_end(key)
        while len(self._paths) > _MOST_KEYS:
            self._paths.popitem(last=False)
        return key

    def path(self, key: str) -> str:
        """The photo of a key."""
        try:
            return self._paths[key]
        except KeyError:
            raise ProblemError("not-found", "No photo that was found lately has this key; search again.") from None
