"""Reading the files of a source, and collecting all their faults.

A builder continues after a fault, so that one error shows all of them: its text names each place as
`file:line`, and its `faults` holds them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from finegraph.errors import Fault, FinegraphError, GraphFileError
from finegraph.graph.faults import MAX_PRINTED, FaultList
from finegraph.graph.formats.text_file import decode


class SourceFaults:
    """The faults of a source of several files or folders, collected while it is read.

    Args:
        source: what the source is called in the error.
        error: makes the error from its text and the faults.
    """

    def __init__(self, source: str, error: Callable[[str, Sequence[Fault]], FinegraphError] = GraphFileError) -> None:
        self._source = source
        self._error = error
        self._lists: dict[Path, FaultList] = {}

    def of(self, path: Path) -> FaultList:
        """The faults of one file or folder, to add to."""
        return self._lists.setdefault(path, FaultList())

    def __bool__(self) -> bool:
        return any(len(faults) for faults in self._lists.values())

    def raise_if_any(self) -> None:
        """Raise one error with all the faults, file by file, or do nothing when there are none."""
        found, lines, full = [], [], False
        for path, faults in self._lists.items():
            # A folder may have any name, so escape what would break the line or could not be printed.
            shown = str(path) if str(path).isprintable() else repr(str(path))
            ordered = sorted(faults.found, key=lambda fault: fault.line or 0)
            lines += [f"  {fault.text(shown)}" for fault in ordered[:MAX_PRINTED]]
            found += ordered
            full |= faults.full
        if not found:
            return
        count = f"more than {len(found)} faults" if full else f"{len(found)} fault{'s' if len(found) > 1 else ''}"
        if len(found) > MAX_PRINTED:
            lines[MAX_PRINTED:] = [f"  ... and {len(found) - MAX_PRINTED} more"]
        raise self._error("\n".join([f"{self._source}: {count}", *lines]), found)


def read_text(path: Path, faults: FaultList) -> str | None:
    """The text of a file with its line ends unchanged; None, with a fault noted, if it cannot be read."""
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        faults.add("unreadable-file", f"the file cannot be read: {reason}")
        return None
    return decode(data, faults)


def read_lines(path: Path, faults: FaultList) -> list[str] | None:
    """The lines of a file without their ends; None, with a fault noted, if it cannot be read."""
    text = read_text(path, faults)
    if text is None:
        return None
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines
