"""A worker process that decodes photos, so that a hostile or unreadable photo cannot harm the server.

    python -m finegraph.web.decode_worker MEGABYTES

It reads jobs from standard input and writes pictures to standard output, one after the other: a line of JSON, then
bytes. Its memory is limited and it may not write files. It does not load torch, so it starts quickly. The operating
system ends it when one photo takes too much processor time; the server ends it when it does not answer. It ends when
its input ends. Cost: one decoding and one resizing.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import sys
from typing import IO, Any

from PIL.Image import Image

from finegraph.data.photo_decoding import OpenFile, decode_photo, load_formats, unreadable
from finegraph.data.photo_parts import middle, part_of, resized, whole
from finegraph.data.roots import PhotoRoot
from finegraph.errors import PhotoFileError, PhotoTooLargeError

READY = b"ready\n"
PIPE_BYTES = 1 << 18
"""The capacity of a worker's pipe: a picture of 290 x 290 pixels. The pipes of a user share a few megabytes."""
MAX_REASON = 300
"""The largest number of characters of an error; decoders may quote the file."""
MAX_SCANS = 100
"""A progressive JPEG has about ten scans; one with many more is made to keep decoders busy."""
SCANS_PER_PIXEL = 16
"""How many times faster a scan of a JPEG pixel is than a pixel of other formats, since JPEGs are decoded smaller."""
CHECK_SIDE = 64
"""The size at which a photo is decoded only to check that it can be."""
_JPEG = b"\xff\xd8\xff"
_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]", re.DOTALL)
_MAX_MARKERS = 1000
_START, _END, _SCAN = 0xD8, 0xD9, 0xDA
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Frame headers, which hold the size of the picture."""
_OTHER_MEMORY = 12 << 20
"""The most memory that decoding takes beyond the file and the coefficients, in bytes."""
_MARKERS_WITHOUT_LENGTH = (_START, 0x01)
"""Markers without a length field; reading a length behind them would skip other markers."""


def limit_process(megabytes: int) -> None:
    """Limit the additional memory of this process and forbid it to write files, where the system supports that."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # only Linux tells how much is used now
        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        limit = now + (megabytes << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def limit_computing(seconds: float) -> None:
    """Let the system end this process after this many more seconds of processor time; 0 removes the limit.

    Waiting for a busy processor does not count.
    """
    if hasattr(signal, "setitimer"):  # not on Windows
        signal.setitimer(signal.ITIMER_PROF, seconds)


def decode_upload(content: bytes, job: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Decode one photo.

    Args:
        content: the file.
        job: `size`, `resize`, `keep_shape` and `interpolation` as in `ViewSettings`, `max_pixels` and
            `max_jpeg_pixels`; with `quick_pixels` a photo that takes as long as one with more pixels than this is not
            decoded. `megabytes` is the memory limit of this process, if it has one. `view` is the part of the photo to
            decode, from 2 on; see `photo_parts`.

    Returns:
        An empty object and the pixels of the middle of the photo, `size` x `size`, as RGB; or `error` with the reason
        and no pixels; or `large` with the number of pixels of a photo that was not decoded.
    """
    side, max_pixels, quick = job["resize"], job["max_pixels"], job.get("quick_pixels")
    try:
        scans, coefficients = jpeg_scans(content)
        if scans > MAX_SCANS:
            return {"error": f"the JPEG has more than {MAX_SCANS} scans; save it again in the usual way"}, b""
        if quick is not None and scans:
            quick = min(quick * SCANS_PER_PIXEL // scans, max_pixels)
        if scans:
            max_pixels = job["max_jpeg_pixels"]
        if "megabytes" in job and coefficients + len(content) + _OTHER_MEMORY > job["megabytes"] << 20:
            raise MemoryError  # the decoder would report a broken photo instead
        limit = max_pixels if quick is None else min(max_pixels, quick)
        box = None
        if job.get("view", 1) > 1:
            preview = decode_photo(content, "photo", at_least=(CHECK_SIDE, CHECK_SIDE), max_pixels=limit)
            box = part_of(whole((preview.width, preview.height)), job["view"])
        picture = decode_photo(content, "photo", box, at_least=(side, side), max_pixels=limit).picture
        small = resized(picture, side, keep_shape=job["keep_shape"], interpolation=job["interpolation"])
        return {}, middle(small, job["size"]).tobytes()
    except PhotoTooLargeError as error:
        if error.pixels <= max_pixels:
            return {"large": error.pixels}, b""
        size, _, _ = error.reason.partition(";")
        return {"error": f"{size}; at most {max_pixels / 1e6:g} million are decoded"}, b""
    except PhotoFileError as error:
        if not isinstance(error.__cause__, MemoryError):
            return {"error": error.reason[:MAX_REASON]}, b""
    except MemoryError:
        pass
    if quick is not None:
        return {"large": 0}, b""
    return {"error": "the photo takes more memory than is allowed; send a smaller one"}, b""


def read_local_photo(job: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Read a photo on this machine: the file itself, or a small JPEG without its metadata.

    A file that cannot be decoded is never sent.

    Args:
        job: `path`; `root`, the folder that the file must lie in after links are resolved; `stamp`, the stamp of the
            file when it was last read, or None; `side`, the longer side of the JPEG, or None for the file itself of at
            most `max_bytes`; `max_pixels`, `max_jpeg_pixels` and `megabytes` as in `decode_upload`.

    Returns:
        `stamp` and the bytes, which are empty if the stamp has not changed; or `error` with the reason and no bytes.
    """
    try:
        with PhotoRoot(job["root"]).open(job["path"]) as file:
            status = os.fstat(file.fileno())
            stamp = [status.st_ino, status.st_size, status.st_mtime_ns]
            if stamp == job["stamp"]:
                return {"stamp": stamp}, b""
            if job["side"] is not None:
                return {"stamp": stamp}, _small_jpeg(file, job)
            if status.st_size > job["max_bytes"]:
                return {"error": f"the file has {status.st_size} bytes; at most {job['max_bytes']} are sent"}, b""
            content = file.read(job["max_bytes"])
            _picture(io.BytesIO(content), CHECK_SIDE, job)
            return {"stamp": stamp}, content
    except PhotoFileError as error:
        if not isinstance(error.__cause__, MemoryError):
            return {"error": error.reason[:MAX_REASON]}, b""
    except OSError as error:
        return {"error": unreadable(error)[:MAX_REASON]}, b""
    except MemoryError:
        pass
    return {"error": "the photo takes more memory than is allowed"}, b""


def _small_jpeg(file: OpenFile, job: dict[str, Any]) -> bytes:
    """A small JPEG of the photo in a file."""
    picture = _picture(file, job["side"], job)
    picture.thumbnail((job["side"], job["side"]))
    picture.info.clear()  # otherwise comments and profiles of the file would be written too
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=82)
    return buffer.getvalue()


def _picture(file: OpenFile, side: int, job: dict[str, Any]) -> Image:
    """The decoded photo in a file, no smaller than `side`; only JPEG files are read into memory whole."""
    max_pixels, source = job["max_pixels"], file
    if file.read(len(_JPEG)) == _JPEG:
        file.seek(0)
        content = file.read()
        _, coefficients = jpeg_scans(content)
        if coefficients + len(content) + _OTHER_MEMORY > job["megabytes"] << 20:
            raise MemoryError
        max_pixels, source = job["max_jpeg_pixels"], io.BytesIO(content)
    source.seek(0)
    return decode_photo(source, "photo", at_least=(side, side), max_pixels=max_pixels).picture


def jpeg_scans(content: bytes) -> tuple[int, int]:
    """The number of scans of a JPEG, and the bytes that its coefficients need; 0 and 0 for other formats.

    The number exceeds `MAX_SCANS` if too many markers hide it. A JPEG with one scan keeps no coefficients. Markers
    inside other segments, such as those of an embedded thumbnail, do not count.
    """
    if not content.startswith(_JPEG):
        return 0, 0
    offset, scans, size = 2, 0, 0
    for _ in range(_MAX_MARKERS):
        marker = _MARKER.search(content, offset)
        if marker is None or marker[0][1] == _END:
            return max(1, scans), size if scans > 1 else 0
        scans += marker[0][1] == _SCAN
        if marker[0][1] in _FRAMES:
            size = _coefficient_bytes(content[marker.end() + 2 : marker.end() + 8 + 3 * 255])
        offset = marker.end()
        if marker[0][1] not in _MARKERS_WITHOUT_LENGTH:
            offset += max(2, int.from_bytes(content[offset : offset + 2], "big"))
    return MAX_SCANS + 1, 0


def _coefficient_bytes(frame: bytes) -> int:
    """The bytes of the coefficients of a picture, two for each, by its frame header."""
    height, width, components = int.from_bytes(frame[1:3], "big"), int.from_bytes(frame[3:5], "big"), frame[5:6]
    factors = [(byte >> 4, byte & 15) for byte in frame[7 : 6 + 3 * (components[0] if components else 0) : 3]]
    max_factor = max((across for across, _ in factors), default=0) * max((down for _, down in factors), default=0)
    return 2 * width * height * sum(across * down for across, down in factors) // max_factor if max_factor else 0


def widen_pipe() -> None:
    """Make the pipe hold a whole picture, where the system supports that, so that the reader wakes up once."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(sys.stdout.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def work(source: IO[bytes], sink: IO[bytes]) -> None:
    """Report that the worker is ready, then run jobs until the source ends; a job with a path reads that file."""
    sink.write(READY)
    sink.flush()
    while line := source.readline():
        job = json.loads(line)
        content = source.read(job["bytes"])
        if len(content) < job["bytes"]:
            return
        limit_computing(job["seconds"])
        answer, data = read_local_photo(job) if "path" in job else decode_upload(content, job)
        limit_computing(0)
        sink.write(json.dumps({**answer, "bytes": len(data)}).encode() + b"\n")
        sink.write(data)
        sink.flush()


if __name__ == "__main__":
    widen_pipe()
    load_formats()
    limit_process(int(sys.argv[1]))
    work(sys.stdin.buffer, sys.stdout.buffer)
