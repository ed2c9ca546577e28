"""Photos and fields of a multipart request, in memory only.

Starlette's parser writes larger files to the disk; here no upload ever reaches the disk. The guard limits the size of a
body; this module limits its time and its number of photos and fields. Cost: one copy of the body.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect

from finegraph.errors import InputError
from finegraph.web.problems import ProblemError

MAX_FIELDS = 200
MAX_FIELD_BYTES = 64 << 10
MAX_DIGITS = 18
"""Longer numbers are never valid, and Python refuses to parse very long ones."""
MAX_NAME = 200
"""Names of files are cut to this many characters."""


class _MemoryParser(MultiPartParser):
    spool_max_size = 1 << 62
    ended = False

    def on_end(self) -> None:
        self.ended = True


class UploadedPhoto(NamedTuple):
    """An uploaded file: its name on the client, and its bytes."""

    name: str
    content: bytes


class Upload(NamedTuple):
    """A multipart request."""

    photos: list[UploadedPhoto]
    fields: dict[str, list[str]]

    def one(self, name: str, default: str) -> str:
        """A field that is given at most once."""
        values = self.fields.get(name, [])
        if len(values) > 1:
            raise InputError(f"{name}: expected it once, got it {len(values)} times")
        return values[0] if values else default

    def whole(self, name: str, default: int, least: int, largest: int) -> int:
        """A field that is a whole number."""
        text = self.one(name, str(default))
        digits = text.removeprefix("-")
        sound = text.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS
        if not sound or not least <= int(text) <= largest:
            raise InputError(f"{name}: expected a whole number from {least} to {largest}, got {text[:40]!r}")
        return int(text)

    def number(self, name: str, default: float) -> float:
        """A field that is a number."""
        text = self.one(name, str(default))
        try:
            return float(text)
        except ValueError:
            raise InputError(f"{name}: expected a number, got {text[:40]!r}") from None

    def flag(self, name: str, default: bool) -> bool:
        """A field that is true or false."""
        text = self.one(name, str(default).lower())
        if text not in ("true", "false"):
            raise InputError(f"{name}: expected true or false, got {text[:40]!r}")
        return text == "true"


async def read_upload(
    request: Request, fields: Sequence[str], *, max_photos: int, seconds: float, min_photos: int = 1
) -> Upload:
    """The photos (files called `photo`) and the fields of a request.

    Args:
        request: the request, not yet read.
        fields: the names of the known fields.
        max_photos: how many photos it may hold.
        seconds: how long it may take to arrive.
        min_photos: how many photos it must hold, 0 or 1.

    Raises:
        ProblemError: the body is not multipart, is broken, holds too much, or takes too long.
        InputError: a field that is not known, or no photo.
    """
    kind = request.headers.get("content-type", "")
    if not kind.lower().startswith("multipart/form-data"):
        raise ProblemError("media-type", f"Expected multipart/form-data, got {kind[:80]!r}.")
    parser = _MemoryParser(
        request.headers,
        request.stream(),
        max_files=max_photos,
        max_fields=MAX_FIELDS,
        max_part_size=MAX_FIELD_BYTES,
    )
    try:
        async with asyncio.timeout(seconds):
            form = await parser.parse()
    except MultiPartException as error:
        raise ProblemError("bad-request", f"The multipart body cannot be read: {error.message}") from None
    except (UnicodeError, LookupError, ValueError) as error:
        raise ProblemError("bad-request", f"The multipart body cannot be read: {type(error).__name__}.") from None
    except TimeoutError:
        raise ProblemError("timeout", f"The request took longer than {seconds:g} seconds to arrive.") from None
    except ClientDisconnect:
        raise ProblemError("bad-request", "The request ended early.") from None
    try:
        if not parser.ended:  # photos may be missing, so the others are not answered as if complete
            raise ProblemError("bad-request", "The multipart body cannot be read: it has no end.")
        return await _sort_parts(form.multi_items(), fields, min_photos)
    finally:
        for file in parser._files_to_close_on_error:  # includes files of parts that never ended
            file.close()


async def _sort_parts(items: Sequence[tuple[str, str | UploadFile]], known: Sequence[str], min_photos: int) -> Upload:
    """The parts of a request, sorted into photos and fields."""
    upload = Upload([], {})
    for name, value in items:
        if isinstance(value, UploadFile) and name == "photo":
            content = await value.read()
            upload.photos.append(
                UploadedPhoto((value.filename or "")[:MAX_NAME] or f"photo {len(upload.photos) + 1}", content)
            )
        elif isinstance(value, str) and name in known:
            upload.fields.setdefault(name, []).append(value)
        else:
            what = "file" if isinstance(value, UploadFile) else "field"
            raise InputError(
                f"the {what} {name[:40]!r}: expected files called 'photo' and the fields {', '.join(known)}"
            )
    if len(upload.photos) < min_photos:
        raise InputError("expected at least one file called 'photo', got none")
    return upload
