"""What a run keeps of what it was trained from: JSON files with a format, a version and a checksum, written once."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from finegraph.errors import RunFolderError
from finegraph.files.durable import reason_of, write_new
from finegraph.files.sealed_json import seal, unseal


def write_kept(path: Path, form: Mapping[str, object], content: Mapping[str, object]) -> None:
    """Write a file of a run; one that is there stays.

    Args:
        path: the file.
        form: its format and version.
        content: the rest.

    Raises:
        RunFolderError: it cannot be written.
    """
    data = seal({**form, **content})
    try:
        with contextlib.suppress(FileExistsError):
            write_new(path, data)
    except OSError as error:
        raise RunFolderError(f"{path}: cannot be written: {reason_of(error)}; it needs {len(data):,} bytes") from error


def read_kept(path: Path, form: Mapping[str, object], what: str) -> dict[str, Any] | None:
    """The content of a file of a run; None where there is none.

    Args:
        path: the file.
        form: the format and version that it must have.
        what: what it holds, for messages.

    Raises:
        RunFolderError: the file is damaged, or of a later version.
    """
    try:
        content = unseal(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunFolderError(f"{path}: cannot be read: {reason_of(error)}") from error
    except ValueError as error:
        raise RunFolderError(f"{path}: expected {what}: {error}") from error
    if {name: content.get(name) for name in form} != form:
        raise RunFolderError(f"{path}: expected {form}, got another form; a later finegraph may read it")
    return content
