"""A disk that forgets: what a folder may hold after a loss of power at any moment of a change.

All operations that change the folder are watched and kept. The disk is then played again: what was written reaches it
by `fsync` of the file, and names (made, linked, renamed, removed) by `fsync` of the folder. Before that they may be
there or not: none of the names that are waiting, all of them, each alone, all but each; and files with what was brought
to the disk last, or with all that was written. A way of writing that is not watched shows as a folder that differs
from the played one.
"""

import contextlib
import os
import shutil
from pathlib import Path

_OPERATIONS = ("open", "close", "write", "fsync", "replace", "rename", "link", "unlink")
_IGNORED = ".lock"


class Disk:
    """A folder of files as names and as contents, on the disk and in the memory of the system."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.contents = {}
        """Per file: what is on the disk, and what was written."""
        self.names = {}
        """The names that are on the disk, and the file of each."""
        for entry in self.folder.iterdir():
            if entry.name != _IGNORED:
                self.names[entry.name] = len(self.contents)
                self.contents[len(self.contents)] = [entry.read_bytes()] * 2
        self.now = dict(self.names)
        self.waiting = []
        """Changes of names that are not on the disk: functions of the names."""

    def change(self, what):
        """Change names, for now in memory."""
        what(self.now)
        self.waiting.append(what)

    def sync_folder(self):
        """Bring the names to the disk."""
        self.names, self.waiting = dict(self.now), []

    def possible(self):
        """What the folder may hold after a loss of power: names to contents."""
        every = range(len(self.waiting))
        chosen = {(), tuple(every), *((one,) for one in every), *(tuple(set(every) - {one}) for one in every)}
        for done in sorted(chosen):
            names = dict(self.names)
            for number in done:
                self.waiting[number](names)
            for newest in (0, 1):
                yield {name: self.contents[file][newest] for name, file in names.items() if file is not None}


class Watch:
    """The operations on a folder, played on a `Disk` as they happen; `look(disk)` is called after each."""

    def __init__(self, folder, look):
        self.disk, self.look = Disk(folder), look
        self.handles = {}
        self.real = {name: getattr(os, name) for name in _OPERATIONS}

    def name(self, path):
        """The name of a file in the folder; None for others."""
        path = Path(os.fsdecode(path)) if isinstance(path, str | bytes | os.PathLike) else None
        inside = path is not None and path.absolute().parent == self.disk.folder.absolute()
        return path.name if inside and path.name != _IGNORED else None

    def __enter__(self):
        for name in _OPERATIONS:
            setattr(os, name, getattr(self, name))
        return self.disk

    def __exit__(self, kind, error, trace):
        for name, function in self.real.items():
            setattr(os, name, function)
        if kind is None:
            found = {path.name: path.read_bytes() for path in self.disk.folder.iterdir() if path.name != _IGNORED}
            played = {name: self.disk.contents[file][1] for name, file in self.disk.now.items() if file is not None}
            assert found == played, "something was written in a way that is not watched"

    def open(self, path, flags, *rest, **options):
        """Open a file, or the folder itself."""
        handle = self.real["open"](path, flags, *rest, **options)
        name = self.name(path)
        if Path(os.fsdecode(path)).absolute() == self.disk.folder.absolute():
            self.handles[handle] = None
        elif name is not None and flags & (os.O_WRONLY | os.O_RDWR):
            if self.disk.now.get(name) is None:
                file = len(self.disk.contents)
                self.disk.contents[file] = [b"", b""]
                self.disk.change(lambda names: names.update({name: file}))
            self.handles[handle] = file = self.disk.now[name]
            if flags & os.O_TRUNC:
                self.disk.contents[file][1] = b""
            self.look(self.disk)
        return handle

    def close(self, handle):
        """Close it; nothing reaches the disk by that."""
        self.handles.pop(handle, None)
        self.real["close"](handle)

    def write(self, handle, data):
        """Write to a file, in memory."""
        if self.handles.get(handle) is not None:
            content, half = self.disk.contents[self.handles[handle]], len(data) // 2
            content[1] += bytes(data[:half])
            self.look(self.disk)
            content[1] += bytes(data[half:])
        written = self.real["write"](handle, data)
        if self.handles.get(handle) is not None:
            assert written == len(data)
            self.look(self.disk)
        return written

    def fsync(self, handle):
        """Bring a file, or the names, to the disk."""
        self.real["fsync"](handle)
        if handle in self.handles:
            if self.handles[handle] is None:
                self.disk.sync_folder()
            else:
                content = self.disk.contents[self.handles[handle]]
                content[0] = content[1]
            self.look(self.disk)

    def replace(self, source, target):
        """Give a file another name, which another file may have had."""
        self.real["replace"](source, target)
        one, two = self.name(source), self.name(target)
        if one is not None and two is not None:
            file = self.disk.now[one]
            self.disk.change(lambda names: names.update({two: file, one: None}))
            self.look(self.disk)

    rename = replace

    def link(self, source, target):
        """Give a file a second name."""
        self.real["link"](source, target)
        if (two := self.name(target)) is not None:
            file = self.disk.now[self.name(source)]
            self.disk.change(lambda names: names.update({two: file}))
            self.look(self.disk)

    def unlink(self, path, **options):
        """Remove a name."""
        self.real["unlink"](path, **options)
        if (name := self.name(path)) is not None:
            self.disk.change(lambda names: names.update({name: None}))
            self.look(self.disk)


def lose_power(folder, change, judge, spare):
    """Make a change, and judge what the folder may hold after a loss of power at each moment of it, and at its end.

    Args:
        folder: what is changed.
        change: makes the change.
        judge: is given a folder, and whether the change was acknowledged.
        spare: a place for folders.

    Returns:
        How many different folders there were.
    """
    judged = set()

    def look(disk, acknowledged=False):
        with unwatched(watch):
            for held in disk.possible():
                key = (acknowledged, *sorted((name, hash(content)) for name, content in held.items()))
                if key not in judged:
                    judged.add(key)
                    _lay_out(held, spare)
                    judge(spare, acknowledged)

    watch = Watch(folder, look)
    with watch as disk:
        change(folder)
        look(disk, acknowledged=True)
    return len(judged)


@contextlib.contextmanager
def unwatched(watch):
    """The operations as they are, for looking at a folder in between."""
    watched = {name: getattr(os, name) for name in _OPERATIONS}
    for name, function in watch.real.items():
        setattr(os, name, function)
    try:
        yield
    finally:
        for name, function in watched.items():
            setattr(os, name, function)


def _lay_out(held, spare):
    shutil.rmtree(spare, ignore_errors=True)
    spare.mkdir()
    for name, content in held.items():
        (spare / name).write_bytes(content)
