"""Photos of the data set by number, and the route of their thumbnails.

A request names a photo by its position in the data set, so no path ever comes from outside. A page may outlive the
server, and the next server at its address may have other photos. So a number has two parts, such as `1f0c2ab94d77-12`:
a digest of the data set and the position in it. A number of another data set is refused. A thumbnail has one of three
sizes, is made at the first request and cached in memory. At most two photos are decoded at a time, and very large ones
are refused from their header.
"""

from __future__ import annotations

import hashlib
import io
import threading
from collections import OrderedDict
from typing import Literal

from fastapi import APIRouter
from fastapi.responses import Response
from PIL import Image

from finegraph.data.photo_decoding import decode_photo
from finegraph.data.roots import PhotoRoot
from finegraph.errors import UnknownNameError
from finegraph.web.label.json_routes import JsonRouter
from finegraph.workflows.label import LabelSession, SessionPhoto

_DIGEST_LENGTH = 12
_MAX_DIGITS = 10


class PhotoNumbers:
    """The photos of a session, numbered in the order of its samples."""

    def __init__(self, session: LabelSession) -> None:
        self._session = session
        self._samples = session.samples or ()
        self._places = {sample.path: place for place, sample in enumerate(self._samples)}
        digest = hashlib.sha256()
        for sample in self._samples:  # without their classes, which may be renamed
            digest.update(f"{sample.path}\0".encode("utf-8", "surrogateescape"))
        self._digest = digest.hexdigest()[:_DIGEST_LENGTH]

    def of_class(self, fine: str, limit: int | None = None) -> list[tuple[str, SessionPhoto]]:
        """The photos of a class with their numbers."""
        return [(f"{self._digest}-{self._places[photo.path]}", photo) for photo in self._session.photos(fine, limit)]

    def named(self, fine: str, name: str) -> tuple[str, SessionPhoto] | None:
        """The photo of a class with its number, by its key or by the part of its key after a slash."""
        photos = self.of_class(fine)
        by_ending = [photo for photo in photos if photo[1].key.endswith(f"/{name}")]
        return next((photo for photo in photos if photo[1].key == name), by_ending[0] if by_ending else None)

    def number(self, key: str) -> str:
        """The number of a photo by its key.

        Raises:
            UnknownNameError: the session has no such photo.
        """
        return f"{self._digest}-{self._places[self._session.photo(key).path]}"

    def photo(self, number: str) -> SessionPhoto:
        """The photo of a number.

        Raises:
            UnknownNameError: no photo of a class has it, or it is a number of another data set.
        """
        digest, _, place = number.rpartition("-")
        if digest != self._digest:
            raise UnknownNameError(
                f"expected the number of a photo of this data set, {self._digest}-N, got {number[:99]!r}: other photos "
                "are served now than when the page was loaded; load it again"
            )
        if place.isascii() and place.isdigit() and len(place) <= _MAX_DIGITS and int(place) < len(self._samples):
            photo = self._session.photo_at(self._samples[int(place)].path)
            if photo is not None and photo.fine is not None:
                return photo
        raise UnknownNameError(f"expected the number of one of {len(self._samples)} photos, got {number[:100]!r}")


SIDES = {"small": 96, "medium": 288, "large": 1080}
"""The longer side of a thumbnail in pixels."""
MAX_PIXELS = 100_000_000
MAX_CACHE_BYTES = 48 << 20
"""How many bytes of thumbnails are kept in memory."""
_DECODING = threading.Semaphore(2)


class ThumbnailCache:
    """A cache of thumbnails, up to a number of bytes."""

    def __init__(self, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._max_bytes, self._bytes = max_bytes, 0
        self._cache: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, number: str, size: str, photo: SessionPhoto) -> bytes:
        """The thumbnail of a photo as JPEG."""
        key = (number, size)
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        with _DECODING:
            jpeg = thumbnail(photo, SIDES[size])
        with self._lock:
            if key not in self._cache:
                self._cache[key] = jpeg
                self._bytes += len(jpeg)
            while self._bytes > self._max_bytes:
                self._bytes -= len(self._cache.popitem(last=False)[1])
        return jpeg


def thumbnail(photo: SessionPhoto, side: int) -> bytes:
    """A photo as a JPEG whose longer side has at most `side` pixels.

    Raises:
        PhotoFileError: the file is missing, broken, too large, or lies outside the folder of the photos.
    """
    with PhotoRoot(photo.root).open(photo.path) as file:
        picture = decode_photo(file, photo.path, at_least=(side, side), max_pixels=MAX_PIXELS).picture
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=85)
    return buffer.getvalue()


def photo_routes(session: LabelSession) -> APIRouter:
    """The route of the thumbnails."""
    router = JsonRouter()
    photos, thumbnails = PhotoNumbers(session), ThumbnailCache()

    @router.get("/photos/{number}/{size}")
    def photo(number: str, size: Literal["small", "medium", "large"]) -> Response:
        session_photo = photos.photo(number)
        headers = {"cache-control": "private, max-age=3600"}
        return Response(thumbnails.get(number, size, session_photo), media_type="image/jpeg", headers=headers)

    return router
