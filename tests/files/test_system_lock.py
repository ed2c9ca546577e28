"""The system's locks: each kind excludes processes that take the same kind by the plain call of the system."""

import errno
import os
import subprocess
import sys

import pytest

from finegraph.errors import LabelStoreError, RunFolderError
from finegraph.files.folder_lock import LOCK_FILE, FolderLock
from finegraph.files.folder_swap import locked_folder
from finegraph.files.system_lock import take_lock
from finegraph.labelling import LabelStore

fcntl = pytest.importorskip("fcntl")
HOLD = """
import fcntl, os, sys
handle = os.open(sys.argv[2], os.O_RDONLY if os.path.isdir(sys.argv[2]) else os.O_RDWR | os.O_CREAT)
try:
    getattr(fcntl, sys.argv[1])(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit("refused")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other():
    """Starts processes that hold a lock, by the plain call of the system; False if it is refused."""
    started = []

    def hold(call, path):
        command = [sys.executable, "-c", HOLD, call, str(path)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        started.append(process)
        return process.stdout.readline() == "held\n"

    yield hold
    for process in started:
        process.communicate("")


@pytest.mark.parametrize(("owner", "call"), [("process", "lockf"), ("handle", "flock")])
def test_a_kind_excludes_its_own_call(tmp_path, other, owner, call):
    path = tmp_path / "file"
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
    assert take_lock(handle, owner)
    assert not other(call, path)
    os.close(handle)
    assert other(call, path)
    handle = os.open(path, os.O_RDWR)
    with pytest.raises(BlockingIOError):
        take_lock(handle, owner)
    os.close(handle)


def test_every_lock_keeps_its_kind(tmp_path, other):
    with FolderLock(tmp_path, noun="run", purpose="training", error=RunFolderError):
        assert not other("lockf", tmp_path / LOCK_FILE)
    with locked_folder(tmp_path):
        assert not other("flock", tmp_path)
    with LabelStore.create(tmp_path / "menu.db"):
        assert not other("flock", tmp_path / "menu.db.lock")
    assert other("flock", tmp_path / "menu.db.lock")
    with pytest.raises(LabelStoreError, match="another process is writing to this store"):
        LabelStore.open(tmp_path / "menu.db")


@pytest.mark.parametrize(("owner", "call"), [("process", "lockf"), ("handle", "flock")])
def test_where_there_are_no_locks_nothing_is_locked(monkeypatch, owner, call):
    def refuse_with(number):
        def refuse(*_):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(fcntl, call, refuse)

    for number in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
        refuse_with(number)
        assert not take_lock(0, owner)
    refuse_with(errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        take_lock(0, owner)
    monkeypatch.setattr("finegraph.files.system_lock.fcntl", None)
    assert not take_lock(0, owner)
