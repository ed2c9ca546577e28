"""Ways to hurt an index while it is written: a disk that is full, a kill at each step, kills at random moments.

What must be there follows from the number of changes that were acknowledged, so what is found can be compared with it.
"""

import os
import random
import signal
import time

from finegraph.search.index_writer import IndexWriter
from finegraph.search.photo_index import Index
from search.tiny_index import columns, new_writer
from training import checkpoint_drills as drills

OPERATIONS = (*drills.OPERATIONS, "replace", "link")
"""All by which an index changes the disk."""
ROWS = 6


def begin(folder):
    """An index with two segments."""
    with new_writer(folder) as writer:
        for number in (0, 1):
            writer.add(columns(ROWS, seed=number))
        writer.finish()


def change(folder, kind):
    """One change of a kind; None for what is there already."""
    with IndexWriter(folder) as writer:
        places = writer.places()
        if kind == "add":
            writer.add(columns(ROWS, seed=7))
        elif kind == "replace":
            writer.add(columns(ROWS, seed=7), list(places.values())[:4])
        elif kind == "remove":
            writer.remove(list(places.values())[::2])
        elif kind == "compact":
            writer.remove(list(places.values())[:1])
            writer.compact()


def content(folder):
    """All that is in an index, by path; whether its vectors can be searched too."""
    index = Index.open(folder)
    found = {}
    for photo in range(len(index)):
        segment, row = index.engine.table.place(photo)
        found[segment.path(row)] = (segment.label(row), segment.arrays["vectors"][row].tobytes())
    if found:
        assert len(index.search(columns(1).vectors[0], len(found))[0]) == len(found)
    return found


def strays(folder):
    """Files that the state does not name."""
    named = {file.name for file in Index.open(folder).state.files} | {"index.json"}
    return sorted(set(os.listdir(folder)) - named)


def change_and_die(folder, kind, point):
    """Make a change in a process that is killed before its operation number `point`; whether it was."""
    child = os.fork()
    if child == 0:
        code = 1

        def before(name, arguments, number):
            if number == point:
                drills.write_half(name, arguments)
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            with drills.operations(before):
                change(folder, kind)
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def add_for_ever(folder, first, writer_end):
    """Add, remove and merge without pause, and say which photos were acknowledged."""
    try:
        with IndexWriter(folder) as writer:
            os.write(writer_end, b"begun\n")
            number = first
            while True:
                writer.add(columns(ROWS, seed=number, prefix="kept"))
                os.write(writer_end, b"%d\n" % number)
                writer.add(columns(2, seed=number, prefix="gone"))
                writer.remove([place for identity, place in writer.places().items() if "/gone-" in identity[0]])
                if number % 3 == 0:
                    writer.compact()
                number += 1
    finally:
        os._exit(1)  # only an error leads here


def kill_drill(folder, kills, seed):
    """Kill a process that writes without pause at random moments; how many photos were acknowledged in all."""
    chance = random.Random(seed)
    new_writer(folder).close()
    acknowledged = set()
    following = 0
    for _ in range(kills):
        reader, writer_end = os.pipe()
        child = os.fork()
        if child == 0:
            add_for_ever(folder, following, writer_end)
        os.close(writer_end)
        with open(reader, "rb") as file:
            file.readline()  # it has begun
            # Some children are killed after a few changes at the earliest, however slow the machine is.
            lines = [file.readline() for _ in range(chance.randrange(4))]
            time.sleep(chance.uniform(0.005, 0.12))
            os.kill(child, signal.SIGKILL)
            assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "the writer ended by itself"
            acknowledged |= {int(line) for line in (*lines, *file.read().split(b"\n")[:-1])}
        kept = [path for path in content(folder) if "/kept-" in path]
        found = {path.split("-")[1] for path in kept}
        assert {str(number) for number in acknowledged} <= found, "an acknowledged change was lost"
        following = max([-1, *map(int, found)]) + 1
        assert len(kept) == len(found) * ROWS, "a part of a change was made"
        with IndexWriter(folder):
            assert strays(folder) == [".lock"], "something half done was left"
    return len(acknowledged)
