"""Writing the photos of a menu, one file at a time, so that it can be interrupted and go on.

A photo is written under a temporary name and then renamed in one step. A file that is there and whole is kept: it
would be drawn with the same bytes. Whole means that it begins and ends as JPEG files do.

Several processes can draw at once. Each is this module run as a program, takes every n-th group of fine labels, and
says on its standard output how many more photos are done; they share nothing but the folder.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from finegraph.data.menu.drawn_menu import Menu, Photo
from finegraph.files.durable import reason_of, temporary_in

_BEGIN, _END = b"\xff\xd8", b"\xff\xd9"
_TOGETHER = 40
"""About how many photos a group has."""
_FAILED = "failed: "


def is_whole(path: Path) -> bool:
    """Whether a file is there and was written to its end."""
    try:
        with path.open("rb") as file:
            begin = file.read(2)
            file.seek(-2, os.SEEK_END)
            return begin == _BEGIN and file.read(2) == _END
    except OSError:
        return False


def write_photo(menu: Menu, photo: Photo, folder: Path) -> None:
    """Draw a photo and write it in one step."""
    path = folder / photo.path
    temporary = temporary_in(path.parent)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        temporary.write_bytes(menu.jpeg(photo))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def write_photos(menu: Menu, missing: Sequence[Photo], folder: Path, workers: int) -> Iterator[int]:
    """Write the photos of a menu that are missing; yields how many more are done.

    Args:
        menu: whose photos they are.
        missing: those that are not there, in their order.
        folder: the folder of the menu.
        workers: how many processes draw; with 1 it is this one.

    Raises:
        OSError: a photo cannot be written. Those that are there stay.
    """
    if workers <= 1 or len(missing) < 2 * _TOGETHER:
        for photo in missing:
            write_photo(menu, photo, folder)
            yield 1
    else:
        yield from _in_processes(menu, folder, workers)


def _in_processes(menu: Menu, folder: Path, workers: int) -> Iterator[int]:
    """Let processes draw, and pass on what they say."""
    command = [sys.executable, "-m", __name__, str(folder), menu.size, str(menu.seed), str(workers)]
    reports: queue.Queue[str | None] = queue.Queue()
    started: list[subprocess.Popen[str]] = []
    try:
        for number in range(workers):
            one = subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE, text=True)
            started.append(one)
            threading.Thread(target=_listen, args=(one, reports), daemon=True).start()
        silent = 0
        while silent < workers:
            line = reports.get()
            if line is None:
                silent += 1
            elif line.startswith(_FAILED):
                raise OSError(line.removeprefix(_FAILED).strip())
            else:
                yield int(line)
        for one in started:
            if one.wait():
                raise OSError(f"a process that draws ended with {one.returncode}")
    finally:
        for one in started:
            one.terminate()
        for one in started:
            one.wait()


def _listen(process: subprocess.Popen[str], reports: queue.Queue[str | None]) -> None:
    """Pass on the lines of a process, and None when it is silent for good."""
    assert process.stdout is not None  # it was asked for
    with process.stdout as lines:
        for line in lines:
            reports.put(line)
    reports.put(None)


def _groups(photos: Sequence[Photo]) -> Iterator[list[Photo]]:
    """Photos in groups of about the same size; those of a fine label stay together, for its pictures are made once."""
    group: list[Photo] = []
    for _, same in groupby(photos, key=lambda photo: photo.label):
        group += same
        if len(group) >= _TOGETHER:
            yield group
            group = []
    if group:
        yield group


def draw_share(folder: Path, menu: Menu, workers: int, number: int) -> Iterator[int]:
    """Draw what is missing of every n-th group of fine labels; yields how many more are done."""
    done = 0
    for index, group in enumerate(_groups(menu.photos)):
        if index % workers != number:
            continue
        for photo in group:
            if not is_whole(folder / photo.path):
                write_photo(menu, photo, folder)
                done += 1
                if done == 8:
                    yield done
                    done = 0
    yield done


def main(arguments: Sequence[str]) -> int:
    """Draw the share of one of several processes."""
    folder, size, seed, workers, number = arguments
    try:
        for done in draw_share(Path(folder), Menu(size, int(seed)), int(workers), int(number)):
            print(done, flush=True)
    except BrokenPipeError:  # the reader is gone
        return 0
    except OSError as error:
        print(f"{_FAILED}{reason_of(error)}", flush=True)
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
