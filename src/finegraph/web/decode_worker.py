"""The process that decodes uploads, so that a hostile one can harm nothing else.

    python -m finegraph.web.decode_worker MEGABYTES

It reads jobs from standard input and writes pictures to standard output, one after the other: a line of JSON, then
bytes. It may take only so much memory, may write no file, and loads no torch, so a new one is there in a moment. When a
photo keeps it busy too long its owner kills it. It ends when its input ends. Cost: one decoding and one resizing.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import IO, Any

from finegraph.data.images import decode_image
from finegraph.data.resizing import resized
from finegraph.errors import ImageFileError

READY = b"ready\n"
MOST_REASON = 300
"""A reason is cut to this many characters; decoders may quote the file."""


def limit_process(megabytes: int) -> None:
    """Let this process take so much more memory than it has now, and write no file; where the system can do that."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # only Linux tells how much there is now
        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        most = now + (megabytes << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def decode(content: bytes, job: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Decode one photo.

    Args:
        content: the file.
        job: `resize`, `keep_shape` and `interpolation` as in `ViewSettings`, and `most_pixels`.

    Returns:
        `width`, `height` and the pixels as RGB; or `error` with the reason and nothing.
    """
    side = job["resize"]
    try:
        picture = decode_image(content, "photo", at_least=(side, side), most_pixels=job["most_pixels"]).picture
        small = resized(picture, side, keep_shape=job["keep_shape"], interpolation=job["interpolation"])
        return {"width": small.width, "height": small.height}, small.tobytes()
    except ImageFileError as error:
        if isinstance(error.__cause__, MemoryError):
            return {"error": "the photo takes more memory than is allowed; send a smaller one"}, b""
        return {"error": error.reason[:MOST_REASON]}, b""
    except MemoryError:
        return {"error": "the photo takes more memory than is allowed; send a smaller one"}, b""


def work(source: IO[bytes], sink: IO[bytes]) -> None:
    """Say that it is there, then decode photo after photo until the source ends."""
    sink.write(READY)
    sink.flush()
    while line := source.readline():
        job = json.loads(line)
        content = source.read(job["bytes"])
        if len(content) < job["bytes"]:
            return
        answer, pixels = decode(content, job)
        sink.write(json.dumps({**answer, "bytes": len(pixels)}).encode() + b"\n")
        sink.write(pixels)
        sink.flush()


if __name__ == "__main__":
    limit_process(int(sys.argv[1]))
    work(sys.stdin.buffer, sys.stdout.buffer)
