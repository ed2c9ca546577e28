"""Photos on this machine that clients may see: samples to try, search hits, and small pictures of both.

A client never names a file. It sends a number in a list, or a key from an earlier answer, so that no path can lead out
of a folder. Each photo has a root, a folder that links must not lead out of.

A worker process of the pool reads and decodes the files, one at a time; no thread of the server touches them. Recent
small pictures are cached until their file changes. Cost: one decoding, or one `stat` of the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from finegraph.data.roots import PhotoRoot
from finegraph.errors import DataError
from finegraph.web.decoding import DecodingPool
from finegraph.web.problems import ProblemError
from finegraph.workflows.predict import photos_of

SIDE = 320
"""The longer side of a small picture at most."""
MAX_CACHE_BYTES = 16 << 20
"""How many bytes of small pictures are kept."""
MAX_SAMPLES = 24
MAX_SAMPLE_BYTES = 16 << 20
_MAX_KEYS = 50_000
_LOG = logging.getLogger("finegraph.web")


class PhotoFile(NamedTuple):
    """The bytes of a photo, and a tag that changes with its file."""

    content: bytes
    tag: str

    def response(self, request: Request, media_type: str) -> Response:
        """The answer to a request; browsers revalidate each time and receive the photo again only if it changed."""
        headers = {"etag": self.tag, "cache-control": "private, no-cache"}
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        return Response(self.content, media_type=media_type, headers=headers)


class PhotoFiles:
    """Reads photos on this machine.

    Args:
        pool: the workers that read them.
    """

    def __init__(self, pool: DecodingPool) -> None:
        self._pool = pool
        self._cache: OrderedDict[str, tuple[list[int], bytes]] = OrderedDict()
        self._bytes = 0

    async def small(self, photo: PhotoPlace) -> PhotoFile:
        """A small JPEG of a photo.

        Raises:
            PhotoFileError: it cannot be read, lies outside its root, is too large, or takes too long.
            ProblemError: too many wait already, or the worker did not become free.
        """
        path = photo.path
        stamp, jpeg = self._cache.get(path, (None, b""))
        answer, data = await self._read(photo, SIDE, stamp)
        if answer["stamp"] != stamp:
            jpeg = data
            self._keep(path, answer["stamp"], data)
        elif path in self._cache:
            self._cache.move_to_end(path)
        return PhotoFile(jpeg, _tag(path, answer["stamp"]))

    async def whole(self, photo: PhotoPlace) -> PhotoFile:
        """A photo as it is; see `small`."""
        answer, data = await self._read(photo, None, None)
        return PhotoFile(data, _tag(photo.path, answer["stamp"]))

    async def _read(self, photo: PhotoPlace, side: int | None, stamp: list[int] | None) -> tuple[dict[str, Any], bytes]:
        return await self._pool.read(
            path=photo.path, root=photo.root, side=side, stamp=stamp, max_bytes=MAX_SAMPLE_BYTES
        )

    def _keep(self, path: str, stamp: list[int], jpeg: bytes) -> None:
        """Cache a small picture and drop the least recently used ones."""
        self._bytes += len(jpeg) - len(self._cache.pop(path, (stamp, b""))[1])
        self._cache[path] = stamp, jpeg
        while self._bytes > MAX_CACHE_BYTES:
            self._bytes -= len(self._cache.popitem(last=False)[1][1])


def _tag(path: str, stamp: list[int]) -> str:
    """An entity tag of a file as it is now."""
    text = f"{path}\0{stamp}".encode(errors="surrogateescape")
    return f'"{hashlib.blake2b(text, digest_size=16).hexdigest()}"'


class PhotoPlace(NamedTuple):
    """A photo on this machine: its path, and the folder that it must lie in after links are resolved."""

    path: str
    root: str


def photos_below(folder: Path) -> list[str]:
    """The photos in a folder, and in the folders inside it if there is one per class.

    Raises:
        DataError: there is no photo.
    """
    folders = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))
    photos: list[str] = []
    for place in (os.fspath(folder), *folders):
        with contextlib.suppress(DataError):  # one without photos
            photos += photos_of([place])
    return photos or photos_of([folder])


class SamplePhotos:
    """The photos of a folder, or photos to label in their order, by number.

    Args:
        folder: the folder; None for no photos.
        to_label: photos to label; each must lie in its own folder after links are resolved.

    Raises:
        DataError: there is no such folder, or no photo in it, or a photo to label is not there.
    """

    def __init__(self, folder: Path | None, to_label: Sequence[Path] = ()) -> None:
        self.paths: list[str] = []
        self.to_label = bool(to_label)
        self._root = os.path.abspath(folder or "")
        if to_label:
            missing = [path for path in to_label if not path.is_file()]
            if missing:
                raise DataError(f"{missing[0]}: expected a photo to label, but there is no such file")
            self.paths = [os.path.abspath(path) for path in to_label]
        if folder is not None:
            if not folder.is_dir():
                raise DataError(f"{folder}: expected a folder of photos, got none; name an existing folder")
            named, root = photos_below(folder), PhotoRoot(folder)
            inside = [path for path in named if root.holds(path)]
            if len(inside) < len(named):
                _LOG.warning(
                    "%s: %d of %d photos are links that lead out of the folder; they are not offered",
                    folder,
                    len(named) - len(inside),
                    len(named),
                )
            offered = [path for path in inside if os.path.getsize(path) <= MAX_SAMPLE_BYTES]
            step = max(1, len(offered) // MAX_SAMPLES)
            self.paths = offered[::step][:MAX_SAMPLES]  # spread out: photos of one label are often next to each other

    def photo(self, number: int) -> PhotoPlace:
        """The photo of a number."""
        if not 0 <= number < len(self.paths):
            raise ProblemError("not-found", f"There are {len(self.paths)} samples, counted from 0; got {number}.")
        path = self.paths[number]
        return PhotoPlace(path, os.path.dirname(path) if self.to_label else self._root)


class Thumbnails:
    """The photos named in answers, by keys that cannot be guessed; the oldest are dropped."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(16)
        self._photos: OrderedDict[str, PhotoPlace] = OrderedDict()

    def key(self, photo: PhotoPlace) -> str:
        """The key of a photo; the same photo has the same one."""
        name = photo.path.encode(errors="surrogateescape")
        key = hashlib.blake2b(name, key=self._secret, digest_size=16).hexdigest()
        self._photos[key] = photo
        self._photos.move_to_end(key)
        while len(self._photos) > _MAX_KEYS:
            self._photos.popitem(last=False)
        return key

    def photo(self, key: str) -> PhotoPlace:
        """The photo of a key."""
        try:
            return self._photos[key]
        except KeyError:
            raise ProblemError("not-found", "No photo that was found lately has this key; search again.") from None
