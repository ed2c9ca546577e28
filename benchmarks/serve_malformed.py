"""Malformed uploads for `benchmarks/serve.py`: photos that are broken, and requests that are broken around sound ones.

photo    a photo of any format that the server reads, cut, altered, or something else; some can still be decoded
request  multipart that has no end, other boundaries, no names, too much in it; lengths that lie or are no numbers
cut      a body that ends before the length that it was said to have; there may be nobody left to answer
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from typing import NamedTuple

from PIL import Image
from serve_load import Cut, multipart

FORMATS = ("PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
_MARK = b"finegraph-benchmark"
_FIELDS = (("explain", "false"),)


class Upload(NamedTuple):
    """A malformed upload: what is malformed, and the whole request."""

    kind: str
    request: bytes


def other_formats(contents: list[bytes]) -> list[bytes]:
    """Small copies of some photos in the other formats."""
    found = []
    for content in contents[:10]:
        small = Image.open(io.BytesIO(content)).convert("RGB").resize((200, 150))
        for name in FORMATS:
            buffer = io.BytesIO()
            small.save(buffer, name)
            found.append(buffer.getvalue())
    return found


def malformed(chance: random.Random, contents: list[bytes], others: list[bytes]) -> Upload:
    """An upload; seven of ten are broken photos."""
    way = chance.random()
    if way < 0.7:
        content = broken_photo(chance, contents if chance.random() < 0.6 else others)
        return Upload("photo", multipart([content], _FIELDS))
    sound = multipart([chance.choice(contents)], _FIELDS)
    head, _, body = sound.partition(b"\r\n\r\n")
    if way < 0.95:
        return Upload("request", chance.choice(_WAYS)(chance, head, body))
    return Upload("cut", Cut(head + b"\r\n\r\n" + body[: chance.randrange(len(body))]))


def broken_photo(chance: random.Random, contents: list[bytes]) -> bytes:
    """A photo that was cut, altered, or is something else."""
    content = bytearray(chance.choice(contents))
    way = chance.randrange(4)
    if way == 0:
        return bytes(content[: chance.randrange(len(content))])
    if way == 1:
        for _ in range(chance.randrange(1, 60)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        return bytes(content)
    if way == 2:
        for place in range(min(len(content), 600)):
            if chance.random() < 0.1:
                content[place] = chance.randrange(256)
        return bytes(content)
    return chance.choice(
        [b"<html></html>", b"GIF89a", b"\x89PNG\r\n\x1a\n", b"%PDF-1.7", bytes(content[:3]), b"II*\0" * 40]
    )


Way = Callable[[random.Random, bytes, bytes], bytes]


def _with_body(head: bytes, body: bytes) -> bytes:
    """A request whose length is that of its body."""
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", body])


def _with_length(head: bytes, body: bytes, *lengths: bytes) -> bytes:
    """A request that says something else of its length; the connection is not to be used again."""
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length")]
    return b"\r\n".join([*lines, b"Connection: close", *lengths, b"", body])


def _no_end(chance: random.Random, head: bytes, body: bytes) -> bytes:
    return _with_body(head, body[: chance.randrange(1, len(body) - 8)])


def _garbage(chance: random.Random, head: bytes, body: bytes) -> bytes:
    return _with_body(head, chance.randbytes(chance.randrange(1, 5_000)))


def _too_short(chance: random.Random, head: bytes, body: bytes) -> bytes:
    return _with_length(head, body, b"Content-Length: %d" % chance.randrange(1, len(body) - 8))


_WAYS: tuple[Way, ...] = (
    _no_end,
    _garbage,
    _too_short,
    lambda chance, head, body: _with_body(head, b""),
    lambda chance, head, body: _with_body(head.replace(b"boundary=" + _MARK, b"boundary=other"), body),
    lambda chance, head, body: _with_body(head.replace(b"; boundary=" + _MARK, b""), body),
    lambda chance, head, body: _with_body(head.replace(b"multipart/form-data", b"application/json"), body),
    lambda chance, head, body: _with_body(head, body.replace(b"Content-Disposition: form-data;", b"\xff\0: ", 1)),
    lambda chance, head, body: _with_body(head, body.replace(b'name="photo"', b'name="other"')),
    lambda chance, head, body: _with_body(head, body.replace(b'; name="photo"', b"")),
    lambda chance, head, body: multipart([], [("given", "dish=x")] * 1_000),
    lambda chance, head, body: multipart([body], [("top", "9" * 5_000)]),
    lambda chance, head, body: _with_length(head, body, b"Content-Length: many"),
    lambda chance, head, body: _with_length(head, body, b"Content-Length: -5"),
    lambda chance, head, body: _with_length(head, body, b"Content-Length: 5", b"Content-Length: 7"),
    lambda chance, head, body: _with_length(head, b"zz\r\n" + body, b"Transfer-Encoding: chunked"),
)
