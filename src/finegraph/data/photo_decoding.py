"""From a file to an upright RGB picture.

Every photo comes out the same way, whatever it was: turned as its EXIF data says, CMYK, grey and palettes as RGB, 16
bits as 8, see-through parts on white, the first frame of a moving one. Only common formats are tried, and the size is
read from the header and checked before any pixel is decoded. What cannot be read raises `PhotoFileError` with the file
and the reason; nothing is guessed, nothing swapped, no file written. Cost: one decoding; a large JPEG of which only a
small picture is needed is decoded at a half, a quarter or an eighth of its size.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
from PIL import Image, TiffImagePlugin, WebPImagePlugin  # noqa: F401  # the last two register their formats

from finegraph.data.samples import Box
from finegraph.errors import PhotoFileError, PhotoTooLargeError

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "HEIF")
"""The formats that are tried, the frequent ones first; the last two only if what reads them is installed."""
OpenFile = io.BytesIO | io.BufferedReader
MAX_PIXELS = 200_000_000
"""Photos with more pixels than this are refused unless the caller allows them."""

_BOXES = b"ftyp"
"""What HEIC and AVIF have after the first four bytes."""
_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_SIDEWAYS = {_TURNS[number] for number in (5, 6, 7, 8)}
"""Those that swap width and height."""
_SIXTEEN_BITS = ("I;16", "I;16B", "I;16L", "I;16N", "I")
_BITS_PER_SAMPLE = 258  # a tag of TIFF
_WHITE = (255, 255, 255)
_BAND = 1 << 20
"""How many pixels are converted at a time where that needs a copy, which would be large for a whole photo."""


class Decoded(NamedTuple):
    """A decoded photo: the picture, and the size of the upright photo, which may be larger than the picture."""

    picture: Image.Image
    width: int
    height: int
    format: str
    mode: str


def read_picture(
    path: str | os.PathLike[str],
    box: Box | None = None,
    *,
    at_least: tuple[int, int] | None = None,
    max_pixels: int = MAX_PIXELS,
) -> Image.Image:
    """The picture in a file: RGB, upright, cut to a box.

    Args:
        path: the file.
        box: the part that is wanted, in pixels of the upright picture; what lies outside the picture is left out.
        at_least: width and height that the result needs; a JPEG that is much larger is decoded smaller, but not below
            this. By default every pixel is decoded.
        max_pixels: a photo with more pixels is refused before it is decoded.

    Raises:
        PhotoFileError: the file cannot be read, is no photo, is broken, too large, or has nothing inside the box.
    """
    with open_photo(path) as file:
        return decode_photo(file, path, box, at_least=at_least, max_pixels=max_pixels).picture


def open_photo(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Open the file of a photo: a plain file, as a pipe or a device could keep its reader waiting for ever.

    Raises:
        PhotoFileError: the file does not exist, is no regular file, or cannot be read.
    """
    flags = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOCTTY", "O_BINARY"))
    try:
        handle = os.open(path, flags)  # does not wait for a writer, unlike `open`
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError) and os.path.islink(path):
            raise PhotoFileError(path, f"it is a link to {os.readlink(path)!r}, which is not there") from error
        raise PhotoFileError(path, unreadable(error)) from error
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        what = next((words for test, words in _NO_FILES if test(mode)), "something else")
        raise PhotoFileError(path, f"expected a file, got {what}")
    return os.fdopen(handle, "rb")


_NO_FILES = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_photo(path: str | os.PathLike[str]) -> bytes:
    """The bytes of the file of a photo; see `open_photo`."""
    with open_photo(path) as file:
        try:
            return file.read()
        except OSError as error:
            raise PhotoFileError(path, unreadable(error)) from error


@cache
def load_formats() -> None:
    """Make the formats known that need a package, if it is installed; it is called when a photo needs one.

    Where memory is about to be limited it is called before, as the decoder's code takes some.
    """
    with contextlib.suppress(ImportError):  # Pillow before 11.3
        import PIL.AvifImagePlugin  # noqa: F401  # registers its format
    with contextlib.suppress(ImportError):
        from pillow_heif import register_heif_opener

        register_heif_opener(decode_threads=1)  # photos are decoded in threads, or processes, already


def decode_photo(
    file: OpenFile | bytes,
    path: str | os.PathLike[str],
    box: Box | None = None,
    *,
    at_least: tuple[int, int] | None = None,
    max_pixels: int = MAX_PIXELS,
) -> Decoded:
    """The picture in an open file or in bytes; see `read_picture`. The path is for messages only."""
    try:
        image = _open(io.BytesIO(file) if isinstance(file, bytes) else file, path)
        size = image.size
        pixels = size[0] * size[1]
        if pixels > max_pixels:
            reason = f"the photo has {size[0]} x {size[1]} pixels; at most {max_pixels / 1e6:g} million are decoded"
            raise PhotoTooLargeError(path, reason, pixels)
        if at_least is not None:
            _draft(image, box, at_least)
        return _upright(image, path, box, size)
    except PhotoFileError:
        raise
    except Exception as error:  # broken files make decoders fail in any way
        raise PhotoFileError(path, f"the photo is broken: {str(error) or type(error).__name__}") from error


def convert_picture(image: Image.Image, name: str, box: Box | None = None) -> Image.Image:
    """A picture that is open already, as `read_picture` gives those of files; the picture itself stays as it is.

    Args:
        image: the picture, in any mode.
        name: what messages call it.
        box: the part that is wanted; see `read_picture`.
    """
    try:
        return _upright(image, name, box, image.size).picture
    except PhotoFileError:
        raise
    except Exception as error:  # it may not be loaded yet, and its file may be broken
        raise PhotoFileError(name, f"the photo is broken: {str(error) or type(error).__name__}") from error


def unreadable(error: OSError | ValueError) -> str:
    """Why a file cannot be opened, in words."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"the file cannot be read: {reason}"


def _open(file: OpenFile, path: str | os.PathLike[str]) -> Image.Image:
    """The header of a photo, in one of the known formats.

    `Image.open` has a limit of its own on the number of pixels, which is a setting of the whole process; here the limit
    is the caller's.
    """
    Image.preinit()
    prefix = file.read(16)
    if not prefix:
        raise PhotoFileError(path, "the file is empty")
    if prefix[4:8] == _BOXES:
        load_formats()
    for name in FORMATS:
        factory, accept = Image.OPEN.get(name, (None, None))
        if factory is not None and (accept is None or accept(prefix) is True or accept(prefix) == 1):
            file.seek(0)
            return factory(file, "")
    load_formats()
    known = ", ".join(name for name in FORMATS if name in Image.OPEN)
    raise PhotoFileError(path, f"this is no photo of a known format ({known}){_guess(prefix)}")


def _upright(image: Image.Image, path: str | os.PathLike[str], box: Box | None, size: tuple[int, int]) -> Decoded:
    """The pixels of an opened image of a size, which is larger than its pixels if it is decoded smaller."""
    image.load()
    if image.width * image.height > size[0] * size[1]:  # HEIC says its size twice
        raise PhotoFileError(path, f"the photo is broken: it has more pixels than the {size[0]} x {size[1]} it says")
    mode = image.mode
    picture, turn = _to_rgb(image, path), _turn(image)
    if turn is not None:
        picture = picture.transpose(turn)
    width, height = size[::-1] if turn in _SIDEWAYS else size
    if box is not None:
        picture = _cut(picture, box, width, height, path)
    return Decoded(picture, width, height, image.format or "", mode)


def _guess(prefix: bytes) -> str:
    """What a file that is no photo probably is."""
    start = prefix.lstrip().lower()
    known: Iterable[tuple[tuple[bytes, ...], str]] = (
        ((b"<!doc", b"<html", b"<?xml", b"<head"), "; it looks like a web page, perhaps of a failed download"),
        ((b"version http",), "; it looks like a Git LFS pointer; fetch the photo itself"),
        ((b"%pdf",), "; it is a PDF"),
        ((b"pk\x03\x04",), "; it is a ZIP archive"),
    )
    for signs, words in known:
        if start.startswith(signs):
            return words
    if prefix[4:8] != _BOXES:
        return ""
    return "; it may be a HEIC or AVIF photo: pip install 'finegraph[heif]', or convert it to JPEG"


def _draft(image: Image.Image, box: Box | None, at_least: tuple[int, int]) -> None:
    """Let a JPEG be decoded smaller, when what is wanted of it stays large enough."""
    short = min(image.size)
    needed = max(at_least)  # of both sides, as the photo may lie on its side
    part = short if box is None else max(1.0, min(box.width, box.height, short))
    wanted = round(needed * short / part)
    image.draft(None, (wanted, wanted))


def _to_rgb(image: Image.Image, path: str | os.PathLike[str]) -> Image.Image:
    """The picture in RGB, on white if it is see-through."""
    if image.mode in _SIXTEEN_BITS:
        return _from_sixteen_bits(image, path)
    if image.mode == "F":
        raise PhotoFileError(path, "expected 8 or 16 bits per pixel, got floating-point numbers; save an 8-bit photo")
    if image.mode in ("PA", "LA", "La", "RGBA", "RGBa") or "transparency" in image.info:
        ground = Image.new("RGB", image.size, _WHITE)
        for top, band in _bands(image):
            layer = band if band.mode == "RGBA" else band.convert("RGBA")
            ground.paste(layer, (0, top), layer.getchannel("A"))
        return ground
    return image.convert("RGB") if image.mode != "RGB" else image


def _from_sixteen_bits(image: Image.Image, path: str | os.PathLike[str]) -> Image.Image:
    """A picture of 16 bits per pixel in RGB, scaled to 8."""
    wide = image.format == "TIFF" and 32 in getattr(image, "tag_v2", {}).get(_BITS_PER_SAMPLE, ())
    picture = Image.new("RGB", image.size)
    for top, band in _bands(image):
        values = np.asarray(band)
        if wide or values.min() < 0 or values.max() > 0xFFFF:
            raise PhotoFileError(path, "expected 8 or 16 bits per pixel, got 32; save it as an 8-bit photo")
        grey = Image.fromarray(((values.astype(np.uint32) + 128) // 257).astype(np.uint8))
        picture.paste(grey, (0, top))
    return picture


def _bands(image: Image.Image) -> Iterator[tuple[int, Image.Image]]:
    """Copies of parts of an image, one below the other, each with its first row."""
    rows = max(1, _BAND // max(1, image.width))
    for top in range(0, image.height, rows):
        yield top, image.crop((0, top, image.width, min(top + rows, image.height)))


def _turn(image: Image.Image) -> Image.Transpose | None:
    """How a loaded image must be turned or mirrored, as its EXIF data say; broken data say nothing."""
    try:
        return _TURNS.get(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # EXIF data are an aside: a photo with broken ones is still a photo
        return None


def _cut(picture: Image.Image, box: Box, width: int, height: int, path: str | os.PathLike[str]) -> Image.Image:
    """The part inside a box, given in pixels of the upright photo of `width` x `height`."""
    across, down = picture.width / width, picture.height / height
    left, top = max(0, round(box.x * across)), max(0, round(box.y * down))
    right = min(picture.width, round((box.x + box.width) * across))
    bottom = min(picture.height, round((box.y + box.height) * down))
    if right <= left or bottom <= top:
        place = " ".join(f"{number:g}" for number in box)
        raise PhotoFileError(
            path, f"the box {place} has nothing of the photo in it, which has {width} x {height} pixels"
        )
    return picture.crop((left, top, right, bottom))
