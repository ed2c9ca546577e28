"""JSON that carries its own checksum: `{"sha256": "...", "content": ...}`.

The checksum is that of the bytes of the content as they stand in the file, and the bytes around it are fixed, so any
changed, missing or added byte is noticed. What is written comes back equal, floats to the last bit; what JSON would
change on the way (tuples, keys that are no text, NaN) is refused. This frame is the same in all versions of a format.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

_BEFORE = b'{"sha256": "'
_BETWEEN = b'", "content": '
_AFTER = b"}\n"
_DIGITS = 64


def seal(content: Mapping[str, object]) -> bytes:
    """The content as the bytes of a file.

    Raises:
        ValueError: something in it would not come back from JSON as it is; its place is in the message.
    """
    try:
        _check(content, "")
        body = json.dumps(content, allow_nan=False).encode("ascii")
    except RecursionError:
        raise ValueError("expected values that are not nested deeply, nor within themselves") from None
    return b"".join((_BEFORE, hashlib.sha256(body).hexdigest().encode(), _BETWEEN, body, _AFTER))


def unseal(data: bytes) -> dict[str, object]:
    """The content of a sealed file.

    Raises:
        ValueError: the bytes are not those that were sealed.
    """
    start = len(_BEFORE) + _DIGITS + len(_BETWEEN)
    body = data[start : len(data) - len(_AFTER)]
    digest = hashlib.sha256(body).hexdigest()
    if data != b"".join((_BEFORE, digest.encode(), _BETWEEN, body, _AFTER)):
        raise ValueError(f"its checksum is not that of its {len(data)} bytes")
    content = json.loads(body)
    if not isinstance(content, dict):
        raise ValueError(f"expected names and values, got a {type(content).__name__}")
    return content


def _check(value: object, place: str) -> None:
    """Refuse what would not come back equal."""
    where = f"at {place}" if place else "at the top"
    if isinstance(value, dict):
        for name, inner in value.items():
            if not isinstance(name, str):
                raise ValueError(f"expected names that are text {where}, got {name!r}; JSON has no others")
            _check(inner, f"{place}.{name}" if place else name)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            _check(inner, f"{place}[{number}]")
    elif isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError(f"expected a finite number {where}, got {value!r}; JSON has no such number")
    elif not (value is None or isinstance(value, str | int)):
        hint = "; make it a list" if isinstance(value, tuple | set) else ""
        raise ValueError(
            f"expected text, a number, true, false, null, a list or a dict {where}, got a {type(value).__name__}{hint}"
        )
