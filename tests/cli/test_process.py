"""Settings of the process, which the command makes and the library does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

from finegraph.cli import main as main_module
from finegraph.cli import process

_MALLINFO = """
import ctypes, json, os, sys
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]
def mapped():
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = Info
    before = library.mallinfo2().hblks
    block = ctypes.create_string_buffer(50 << 20)
    return library.mallinfo2().hblks - before
"""


def run(script, **environment):
    """What a script prints as JSON in a process of its own, without settings of the user's."""
    left_out = (*process._OF_THE_ALLOCATOR, *process._OF_THREADS)
    own = {name: value for name, value in os.environ.items() if name not in left_out}
    command = [sys.executable, "-c", _MALLINFO + script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**own, **environment})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_large_blocks_are_kept_by_the_command_and_not_by_the_library():
    prepare = "from finegraph.cli.process import prepare_process; prepare_process(); print(mapped())"
    library = "import finegraph, finegraph.cli.main, finegraph.cli.process; print(mapped())"
    on_glibc = process._is_glibc()
    assert run(prepare if on_glibc else "print(0)") == 0
    assert run(library if on_glibc else "print(1)") == 1


@pytest.mark.parametrize("name", process._OF_THE_ALLOCATOR)
def test_what_the_user_says_of_memory_is_left_alone(monkeypatch, name):
    for other in process._OF_THE_ALLOCATOR:
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setattr(process.ctypes, "CDLL", lambda *_: pytest.fail("the C library was asked"))
    monkeypatch.setenv(name, "1")
    assert process.keep_memory() is False


def test_only_glibc_is_asked(monkeypatch):
    for name in process._OF_THE_ALLOCATOR:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(process.ctypes, "CDLL", lambda *_: pytest.fail("the C library was asked"))

    def unknown(name):
        raise ValueError("unrecognized configuration name")

    for confstr in (unknown, lambda name: None, lambda name: "musl 1.2"):
        monkeypatch.setattr(process.os, "confstr", confstr)
        assert process.keep_memory() is False
    monkeypatch.delattr(process.os, "confstr")
    assert process.keep_memory() is False


# ---- threads ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("max 100000\n", 8),
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),
        ("20000 100000\n", 1),
        ("1600000 100000\n", 8),
    ],
)
def test_a_container_has_as_many_cores_as_it_may_use(monkeypatch, tmp_path, quota, cores):
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(process, "_CPU_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(process.os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert process.usable_cores() == cores


@pytest.mark.parametrize("content", [None, "", "broken\n", "a b\n", "1 0\n"])
def test_without_a_known_limit_all_cores_count(monkeypatch, tmp_path, content):
    if content is not None:
        (tmp_path / "cpu.max").write_text(content)
    monkeypatch.setattr(process, "_CPU_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(process.os, "sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    assert process.usable_cores() == 3
    monkeypatch.delattr(process.os, "sched_getaffinity")
    monkeypatch.setattr(process.os, "cpu_count", lambda: 6)
    assert process.usable_cores() == 6


def test_threads_are_limited_where_cores_are(monkeypatch):
    for name in process._OF_THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(process.os, "cpu_count", lambda: 8)
    monkeypatch.setattr(process, "usable_cores", lambda: 8)
    process.limit_threads()
    assert "OMP_NUM_THREADS" not in os.environ
    monkeypatch.setattr(process, "usable_cores", lambda: 3)
    process.limit_threads()
    assert os.environ["OMP_NUM_THREADS"] == "3"
    os.environ["OMP_NUM_THREADS"] = "1"  # as torchrun has it
    process.limit_threads()
    assert os.environ["OMP_NUM_THREADS"] == "1"
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setenv("MKL_NUM_THREADS", "2")
    process.limit_threads()
    assert "OMP_NUM_THREADS" not in os.environ


# ---- when ------------------------------------------------------------------------------------------------------------


def test_the_entry_point_prepares_the_process_before_anything_else(monkeypatch):
    order = []
    monkeypatch.setattr(main_module, "prepare_process", lambda: order.append("prepare"))
    monkeypatch.setattr(main_module, "run", lambda arguments: order.append("run") or 0)
    with pytest.raises(SystemExit) as stopped:
        main_module.main()
    assert (order, stopped.value.code) == (["prepare", "run"], 0)


def test_as_a_module_torch_comes_later():
    script = (
        "import runpy\n"
        "from finegraph.cli import main\n"
        "seen = []\n"
        "main.prepare_process = lambda: seen.append('torch' in sys.modules)\n"
        "sys.argv = ['finegraph', '--version']\n"
        "try:\n"
        "    runpy.run_module('finegraph', run_name='__main__')\n"
        "except SystemExit:\n"
        "    pass\n"
        "print()\n"
        "print(json.dumps(seen))\n"
    )
    command = [sys.executable, "-c", _MALLINFO + script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [False]


# ---- several processes -----------------------------------------------------------------------------------------------


def test_the_launcher_is_told_why_a_process_failed(finegraph, tmp_path, monkeypatch):
    said = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(said))
    assert finegraph("--version").code == 0
    assert not said.exists()
    outcome = finegraph("graph", "check", tmp_path / "none.csv")
    assert outcome.code == 3
    (message,) = json.loads(said.read_text()).values()
    assert outcome.err == f"error: {message['message']}\n"
    assert str(tmp_path / "none.csv") in message["message"]
    failure = ProcessFailure(local_rank=0, pid=1, exitcode=3, error_file=str(said))  # as torchrun reads it
    assert str(ChildFailedError("finegraph", {0: failure})).strip("\n=").endswith(f": {message['message']}")
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "gone" / "error.json"))
    assert finegraph("graph", "check", tmp_path / "none.csv").err == outcome.err
