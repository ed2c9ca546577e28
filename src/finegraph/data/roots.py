"""Photos that stay inside the folder they were named by, wherever links lead.

Whoever shows photos of this machine to others shows those of some folders, their roots. A link in such a folder may
lead to any file of the machine. So a photo is opened first, and then the system is asked where the open file lies:
nothing can be exchanged between the look and the reading. Links that stay inside a root are followed. Cost: one look at
the path of an open file; `holds` looks at each folder once.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from pathlib import Path

from finegraph.data.photo_decoding import open_photo
from finegraph.errors import PhotoFileError

LEADS_OUT = "it is a link that leads out of the folder of its photos; put the photo itself there"


class PhotoRoot:
    """A folder that its photos do not lead out of.

    Args:
        folder: the folder; it may itself be a link.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._real = os.path.realpath(folder)
        self._folders: dict[str, str] = {}

    def holds(self, path: str | os.PathLike[str]) -> bool:
        """Whether a path leads inside the folder after links are followed; the file need not exist."""
        folder, name = os.path.split(os.path.abspath(path))
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder)
        real = os.path.join(self._folders[folder], name)
        return _is_inside(os.path.realpath(real) if os.path.islink(real) else real, self._real)

    def open(self, path: str | os.PathLike[str]) -> io.BufferedReader:
        """Open a file that lies inside.

        Raises:
            PhotoFileError: it lies elsewhere, is no file, or cannot be opened.
        """
        file = open_photo(path)
        try:
            if not _is_inside(_place_of(file.fileno(), path), self._real):
                raise PhotoFileError(path, LEADS_OUT)
        except BaseException:
            file.close()
            raise
        return file


def paths_outside(paths: Iterable[Path], folder: str | os.PathLike[str]) -> frozenset[Path]:
    """The photos that are links out of a folder or, if named elsewhere, out of their own folder."""
    roots: dict[str, PhotoRoot] = {}
    outside = set()
    for path in paths:
        root = root_of(path, (folder,))
        if not roots.setdefault(root, PhotoRoot(root)).holds(path):
            outside.add(path)
    return frozenset(outside)


def root_of(path: str | os.PathLike[str], roots: Iterable[str | os.PathLike[str]]) -> str:
    """The deepest of some folders that a path names a file in; that of the file itself if none does."""
    place = Path(os.path.abspath(path))
    inside = [folder for folder in map(os.path.abspath, roots) if place.is_relative_to(folder)]
    return max(inside, key=len, default=os.fspath(place.parent))


def _place_of(descriptor: int, path: str | os.PathLike[str]) -> str:
    """The place of an open file, whatever its path leads to now."""
    link = f"/proc/self/fd/{descriptor}"
    if os.path.islink(link):
        return os.readlink(link)
    real = os.path.realpath(path)  # other systems than Linux do not tell; see whether it is the same file
    if not os.path.samestat(os.stat(real), os.fstat(descriptor)):
        raise PhotoFileError(path, "the file was exchanged while it was opened; try again")
    return real


def _is_inside(place: str, folder: str) -> bool:
    return place.startswith(folder if folder.endswith(os.sep) else folder + os.sep)
