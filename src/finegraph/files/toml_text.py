"""Settings as TOML: files that are read, and text that reads back as the same settings."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from finegraph.errors import FinegraphError, RunFolderError, near_paths


def read_toml(path: str | os.PathLike[str], error: type[FinegraphError]) -> dict[str, Any]:
    """The content of a TOML file.

    Raises:
        FinegraphError: of the type `error`: the file is missing, cannot be read, or is not TOML.
    """
    name = os.fspath(path)
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise error(f"{name}: there is no such file{near_paths(path)}") from None
    except OSError as refusal:
        raise error(f"{name}: cannot be read: {refusal.strerror}") from refusal
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise error(f"{name}: this is not TOML: {fault}") from fault


def toml_text(settings: Mapping[str, object], file: Path) -> str:
    """The text of a TOML file.

    Args:
        settings: values by name, in tables if they are nested; what is None is left out.
        file: where it will be written, for the message.

    Raises:
        RunFolderError: a value has no form in TOML; its name is in the message.
    """
    content = {name: _plain(value, name, file) for name, value in settings.items() if value is not None}
    text = tomli_w.dumps(content)
    # Written once and then relied on for as long as the run lives: better to notice here.
    if tomllib.loads(text) != content:
        raise RunFolderError(f"{file}: these settings do not read back from TOML as they are")
    return text


def _plain(value: object, name: str, file: Path) -> object:
    """A value in the types that reading TOML gives."""
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise RunFolderError(f"{file}: expected names that are text in {name!r}, got others; TOML has no others")
        return {key: _plain(inner, f"{name}.{key}", file) for key, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [_plain(inner, f"{name}[{number}]", file) for number, inner in enumerate(value)]
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise RunFolderError(f"{file}: expected text for {name!r}, got {value!r}; TOML cannot hold it") from None
    for plain in (bool, int, float, str):
        if isinstance(value, plain):
            return plain(value)
    raise RunFolderError(
        f"{file}: expected text, a number, true, false, a list or a table for {name!r}, "
        f"got a {type(value).__name__}; TOML cannot hold it"
    )
