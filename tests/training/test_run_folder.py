"""Run folders: made once, never overwritten, trained in by one process at a time."""

import errno
import os
import signal
import socket
import subprocess
import sys
import textwrap

import checkpoint_drills as drills
import pytest

from finegraph import __version__
from finegraph.errors import RunFolderError
from finegraph.files.folder_lock import FolderLock
from finegraph.training.records.run_folder import RunFolder


def new_run(tmp_path, name="menu"):
    run = RunFolder.create(tmp_path / "runs" / name)
    run.write_config({"seed": 0})
    return run


def test_a_new_run_has_its_settings_and_paths(tmp_path):
    settings = {
        "data": 'cub:"birds"\n\\é',
        "lr": 0.1 + 0.2,
        "tiny": 5e-324,
        "epochs": 2**53 + 1,
        "box": False,
        "kinds": ("dish", "restaurant"),
        "none": None,
        "views": {"size": 224, "resize": None},
        "last": 1,
    }
    run = RunFolder.create(tmp_path / "runs" / "menu")
    run.write_config(settings)
    again = RunFolder.open(str(run.path))
    expected = {name: value for name, value in settings.items() if value is not None}
    assert again.read_config() == {**expected, "kinds": ["dish", "restaurant"], "views": {"size": 224}}
    assert run.config_file.read_text().startswith("# The settings of this run, by finegraph ")
    places = [run.config_file, run.log_file, run.metrics_file, run.checkpoints, run.evaluations, run.model]
    assert [place.name for place in places] == [
        "config.toml",
        "log.jsonl",
        "metrics.csv",
        "checkpoints",
        "evaluations",
        "model",
    ]
    assert os.listdir(run.path) == ["config.toml"]


def test_a_run_is_never_made_twice_nor_its_settings_written_twice(tmp_path):
    run = new_run(tmp_path)
    with pytest.raises(RunFolderError, match="expected a new name, but this run exists already; resume it, or choose"):
        RunFolder.create(run.path)
    with pytest.raises(RunFolderError, match=r"config.toml: the settings of this run are written already and never"):
        run.write_config({"seed": 1})
    assert run.read_config() == {"seed": 0}
    assert os.listdir(run.path) == ["config.toml"]


def test_other_folders_are_not_taken(tmp_path):
    for name in "abcd":
        (tmp_path / name).write_text("mine")
    with pytest.raises(RunFolderError, match=r"there is something else in it \(a, b, c, \.\.\.\); choose another name"):
        RunFolder.create(tmp_path)
    with pytest.raises(RunFolderError, match="a: cannot make the folder of a run: "):
        RunFolder.create(tmp_path / "a")
    with pytest.raises(RunFolderError, match="cannot make the folder of a run: Not a directory"):
        RunFolder.create(tmp_path / "a" / "b")


def test_a_start_that_died_before_it_wrote_anything_is_no_run(tmp_path):
    path = tmp_path / "menu"
    path.mkdir()
    (path / ".lock").write_text("")
    (path / ".finegraph-0123456789abcdef.tmp").write_text("half")
    run = RunFolder.create(path)
    with run.lock():
        assert os.listdir(path) == [".lock"]
    assert os.listdir(path) == []


def test_what_is_no_run_is_not_opened(tmp_path):
    run = new_run(tmp_path)
    new_run(tmp_path, "other")
    with pytest.raises(
        RunFolderError, match=r"runs/mneu: expected the folder of a run, but there is no .*'.*runs/menu'\?"
    ):
        RunFolder.open(tmp_path / "runs" / "mneu")
    with pytest.raises(RunFolderError, match=r"nowhere/x: .* there is no such folder$"):
        RunFolder.open(tmp_path / "nowhere" / "x")
    with pytest.raises(RunFolderError, match=r"config.toml: expected the folder of a run, got a file"):
        RunFolder.open(run.config_file)
    with pytest.raises(
        RunFolderError, match=r"it has no config.toml; there are runs in it: .*runs/menu, .*runs/other$"
    ):
        RunFolder.open(tmp_path / "runs")
    run.model.mkdir()
    with pytest.raises(RunFolderError, match=r"model: this is no folder of a run, .*; the run is .*runs/menu$"):
        RunFolder.open(run.model)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"a": {"b": [1, None]}}, r"for 'a\.b\[1\]', got a NoneType"),
        ({"graph": object()}, "for 'graph', got a object; TOML cannot hold it"),
        ({"a": {1: 2}}, "expected names that are text in 'a'"),
        ({"a": "\udcff"}, "expected text for 'a', got '.udcff'"),
        ({"a": float("nan")}, "do not read back from TOML"),
    ],
)
def test_settings_that_toml_cannot_hold(tmp_path, settings, text):
    run = RunFolder.create(tmp_path / "menu")
    with pytest.raises(RunFolderError, match=text):
        run.write_config(settings)
    assert os.listdir(run.path) == []


def test_settings_that_cannot_be_read(tmp_path):
    run = new_run(tmp_path)
    run.config_file.write_text("seed = 0\nlr = \n")
    with pytest.raises(RunFolderError, match=r"config.toml: expected the settings .* \(at line 2, column 6\)"):
        run.read_config()
    run.config_file.write_bytes(b"seed = '\xff'")
    with pytest.raises(RunFolderError, match=r"config.toml: expected the settings"):
        run.read_config()
    run.config_file.unlink()
    with pytest.raises(RunFolderError, match=r"config.toml: cannot be read: No such file"):
        run.read_config()


@pytest.mark.parametrize("first", range(1, 5))
def test_no_space_for_the_settings(tmp_path, first):
    run = RunFolder.create(tmp_path / "menu")
    size = len(f"# The settings of this run, by finegraph {__version__}.\nseed = 0\n")
    with (
        drills.no_space_at(first),
        pytest.raises(RunFolderError, match=rf"config.toml: cannot be written: No space .*; it needs {size} bytes"),
    ):
        run.write_config({"seed": 0})
    assert not [name for name in os.listdir(run.path) if name != "config.toml"]
    if first < 4:  # the fourth is the last: the file is there, but perhaps not for ever
        run.write_config({"seed": 0})
    assert run.read_config() == {"seed": 0}


def test_where_there_are_no_hard_links(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    run = new_run(tmp_path)
    with pytest.raises(RunFolderError, match=r"config.toml: cannot be written: Operation not permitted"):
        run.write_config({"seed": 1})
    assert run.read_config() == {"seed": 0}
    assert os.listdir(run.path) == ["config.toml"]


HOLD = """
    import os, sys, time
    from finegraph.training.records.run_folder import RunFolder
    assert "torch" not in sys.modules
    with RunFolder.open(sys.argv[1]).lock():
        worker = os.fork() if "worker" in sys.argv else None
        if worker == 0:
            time.sleep(60)
            os._exit(0)
        print("held", worker or "", flush=True)
        sys.stdin.read(1)
    print("given back", flush=True)
"""


def holder(run, *arguments):
    """Another process that holds the lock until it reads a letter."""
    command = [sys.executable, "-c", textwrap.dedent(HOLD), str(run.path), *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_run_in_use_is_refused_with_the_process_named(tmp_path):
    run = new_run(tmp_path)
    with holder(run) as other:
        assert other.stdout.readline() == "held \n"
        for _ in range(2):
            with pytest.raises(RunFolderError, match=rf"menu: this run is in use by process {other.pid}; wait for it"):
                run.lock()
        run.lock(take=False).__enter__()
        with new_run(tmp_path, "other").lock():
            pass
        other.communicate("x")
    with run.lock():
        pass
    assert os.listdir(run.path) == ["config.toml"]


def test_the_lock_of_a_dead_process_is_taken_over_even_if_its_workers_live(tmp_path):
    run = new_run(tmp_path)
    stale = run.path / ".finegraph-0123456789abcdef.tmp"
    with holder(run, "worker") as other:
        worker = int(other.stdout.readline().removeprefix("held "))
        stale.write_text("half")
        other.kill()
        other.wait()
        os.kill(worker, 0)
        assert (run.path / ".lock").exists()
        with run.lock():
            assert not stale.exists()
        os.kill(worker, signal.SIGKILL)
    assert os.listdir(run.path) == ["config.toml"]


def test_one_process_cannot_lock_twice(tmp_path):
    run = new_run(tmp_path)
    with run.lock():
        with pytest.raises(RunFolderError, match=rf"in use by this process \({os.getpid()}\) already"):
            run.lock()
        with holder(run) as other:  # the attempt above has not ended the lock
            assert other.stdout.read() == ""
        assert other.returncode == 1
    lock = run.lock()
    lock.close()
    with run.lock():
        lock.close()  # a second time: does not touch the lock of the other
        assert (run.path / ".lock").exists()


def test_a_lock_that_was_given_back_while_it_was_opened_is_taken_anew(tmp_path, monkeypatch):
    run = new_run(tmp_path)
    real = FolderLock._lock
    calls = []

    def lock(self, handle):
        if not calls:
            self.path.unlink()  # what another process does that gives its lock back
        calls.append(handle)
        real(self, handle)

    monkeypatch.setattr(FolderLock, "_lock", lock)
    with run.lock():
        assert len(calls) == 2
        assert (run.path / ".lock").exists()


def test_without_locks_of_the_system_the_living_are_respected_and_the_dead_are_not(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.lockf", refuse)
    run = new_run(tmp_path)
    file = run.path / ".lock"
    host = socket.gethostname()
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    file.write_text(f'{{"pid": {os.getppid()}, "host": "{host}"}}')
    with pytest.raises(RunFolderError, match=f"in use by process {os.getppid()}; wait"):
        run.lock()
    file.write_text('{"pid": 7, "host": "elsewhere"}')
    with pytest.raises(RunFolderError, match=r"in use by process 7 on elsewhere; .*remove .*\.lock"):
        run.lock()
    for text in ("", "[1", f'{{"pid": {done.pid}, "host": "{host}"}}'):
        file.write_text(text)
        with run.lock():
            assert f'"pid": {os.getpid()}' in file.read_text()


def test_a_folder_that_cannot_be_locked(tmp_path):
    run = new_run(tmp_path)
    with (
        drills.no_space_at(1, errno.EROFS),
        pytest.raises(RunFolderError, match="cannot be locked for training: Read-only file system"),
    ):
        run.lock()


def test_a_run_of_which_something_came_is_never_forgotten(tmp_path):
    run = RunFolder.create(tmp_path / "run")
    with run.lock():
        run.write_config({"seed": 0})
        run.log_file.write_text("{}\n")
        run.remove_if_unused()
        assert run.config_file.is_file()
        run.log_file.unlink()
        run.remove_if_unused()
    assert not run.path.exists()
