"""Thumbnails of the photos of the data set, by number: nothing else of the disk can be asked for, links or no links.

A thumbnail has one of three sizes and is made when it is first asked for; the last ones are kept in memory. At most two
photos are decoded at a time, and very large ones are refused from their header.
"""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Literal

from fastapi import APIRouter
from fastapi.responses import Response
from PIL import Image

from finegraph.data.images import decode_image
from finegraph.data.roots import PhotoRoot
from finegraph.web.label.json_routes import JsonRouter
from finegraph.web.label.photo_numbers import PhotoNumbers

if TYPE_CHECKING:
    from finegraph.workflows.label import LabelSession, SessionPhoto

SIDES = {"small": 96, "medium": 288, "large": 1080}
"""The longer side of a thumbnail in pixels."""
MOST_PIXELS = 100_000_000
MOST_KEPT = 48 << 20
"""How many bytes of thumbnails are kept in memory."""
_AT_A_TIME = threading.Semaphore(2)


class Thumbnails:
    """Thumbnails that were made lately, up to a number of bytes."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most, self._bytes = most, 0
        self._kept: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, number: str, size: str, photo: SessionPhoto) -> bytes:
        """The thumbnail of a photo as JPEG."""
        key = (number, size)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        with _AT_A_TIME:
            made = thumbnail(photo, SIDES[size])
        with self._lock:
            if key not in self._kept:
                self._kept[key] = made
                self._bytes += len(made)
            while self._bytes > self._most:
                self._bytes -= len(self._kept.popitem(last=False)[1])
        return made


def thumbnail(photo: SessionPhoto, side: int) -> bytes:
    """A photo as a JPEG whose longer side has at most `side` pixels.

    Raises:
        ImageFileError: the file is missing, broken, too large, or lies outside the folder of the photos.
    """
    with PhotoRoot(photo.root).open(photo.path) as file:
        picture = decode_image(file, photo.path, at_least=(side, side), most_pixels=MOST_PIXELS).picture
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=85)
    return buffer.getvalue()


def photo_routes(session: LabelSession) -> APIRouter:
    """The route of the thumbnails."""
    router = JsonRouter()
    photos, kept = PhotoNumbers(session), Thumbnails()

    @router.get("/photos/{number}/{size}")
    def photo(number: str, size: Literal["small", "medium", "large"]) -> Response:
        found = photos.photo(number)
        headers = {"cache-control": "private, max-age=3600"}
        return Response(kept.get(number, size, found), media_type="image/jpeg", headers=headers)

    return router
