"""Photos on this machine for clients: whole samples, and small pictures of samples and of search hits.

A worker process of the pool reads and decodes them, one at a time; no thread of the server touches the files. Recent
small pictures are cached until their file changes. Cost: one decoding, or one `stat` of the file.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from finegraph.web.decoding import DecodingPool
from finegraph.web.serve.pictures import MAX_SAMPLE_BYTES, PhotoPlace

SIDE = 320
"""The longer side of a small picture at most."""
MAX_CACHE_BYTES = 16 << 20
"""How many bytes of small pictures are kept."""


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
