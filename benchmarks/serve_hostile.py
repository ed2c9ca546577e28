"""Uploads that mean harm, for `benchmarks/serve.py`: small files that are large to decode."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable

from PIL import Image

_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def bomb(number: int) -> bytes:
    """One of `BOMBS`."""
    return _BOMBS[number % BOMBS]()


def png(width: int, height: int, colour: int, rows: int | None = None, padding: int = 0) -> bytes:
    """A PNG of zeros; `padding` bytes of text make its size that of an honest photo."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    packer = zlib.compressobj(9)
    line = b"\0" * (1 + width * {0: 1, 2: 3, 6: 4}[colour])
    packed = b"".join(packer.compress(line) for _ in range(height if rows is None else rows)) + packer.flush()
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0))
    more = chunk(b"prVt", b"x" * padding) if padding else b""
    return _SIGNATURE + header + more + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def many_scans(width: int, height: int, hidden: bool = False) -> bytes:
    """A JPEG that goes over its pixels again and again; hidden behind a marker that stands alone, without a length."""
    buffer = io.BytesIO()
    Image.new("RGB", (width, height)).save(buffer, "JPEG", progressive=True)
    content = buffer.getvalue()
    last = content.rindex(b"\xff\xda")
    scan = content[last:-2]
    return content[:last] + (scan + b"\xff\x01" if hidden else b"") + scan * 2_000 + content[-2:]


def progressive(width: int, height: int) -> bytes:
    """A JPEG whose scans must all be in memory before the first pixel is there."""
    buffer = io.BytesIO()
    Image.new("RGB", (width, height)).save(buffer, "JPEG", progressive=True)
    return buffer.getvalue()


def webp(width: int, height: int) -> bytes:
    """A WebP without losses, of one colour."""
    buffer = io.BytesIO()
    Image.new("RGB", (100, 100)).save(buffer, "WEBP", lossless=True)
    content = bytearray(buffer.getvalue())
    place = content.index(b"VP8L") + 9  # behind the length and the sign; 14 bits for each side less one
    sizes = int.from_bytes(content[place : place + 4], "little")
    sizes = sizes >> 28 << 28 | (height - 1) << 14 | (width - 1)
    content[place : place + 4] = sizes.to_bytes(4, "little")
    return bytes(content)


_BOMBS: tuple[Callable[[], bytes], ...] = (
    lambda: png(60_000, 60_000, 2, rows=10),
    lambda: png(6_300, 6_300, 6),
    lambda: png(39_000, 1_000, 0),
    lambda: png(6_300, 6_300, 2),
    lambda: png(6_300, 6_300, 6, padding=1 << 20),
    lambda: png(6_300, 6_300, 2, padding=1 << 20),
    lambda: many_scans(5_000, 4_000),
    lambda: many_scans(5_000, 4_000, hidden=True),
    lambda: progressive(11_000, 10_900),
    lambda: webp(16_000, 16_000),
)
"""Too large by its header, just below the limits, padded to look like a photo, of many scans."""
BOMBS = len(_BOMBS)
