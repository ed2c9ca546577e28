"""Processes of a job that start at once: forked from processes that have imported all they need.

A process takes two seconds to import torch and what trains with it, and most jobs of tests are over in a tenth of that.
Two processes are there to be forked, as each process of a real job orders its sets in its own way: were all forked from
one, none would find out that they depend on it. Those are made when they are first needed, and end with this process.

Starting by torchrun is tested too: where a process is killed, and where its report has to end with the reason.
"""

import atexit
import functools
import json
import os
import random
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import SimpleNamespace

IMPORTED = (
    "faiss", "onnx", "onnxruntime", "torch._dynamo", "torch.distributed.device_mesh", "torch.distributed.nn.functional",
    "finegraph.cli.main", "finegraph.workflows.evaluate", "finegraph.workflows.index", "finegraph.workflows.predict",
    "finegraph.workflows.train",
)  # fmt: skip
"""What most jobs need; the rest is imported by those that need it."""


def run(processes, script, words, variables, seconds=180):
    """Run a script in the processes of a job, as torchrun does: the first failure ends all.

    Args:
        processes: how many.
        script: the Python file.
        words: its arguments.
        variables: its environment, without what tells a process which one it is.
        seconds: how long it may take.

    Returns:
        What `subprocess.run` does: the `returncode`, and what all of them wrote to `stdout` and `stderr`.
    """
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        job = {"WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes, "MASTER_ADDR": "127.0.0.1"}
        job["MASTER_PORT"] = probe.getsockname()[1]
        probe.close()
        places = [Path(folder) / str(rank) for rank in range(processes)]
        for rank, place in enumerate(places):
            own = {"RANK": rank, "LOCAL_RANK": rank}
            around = {**variables, **{name: str(value) for name, value in {**job, **own}.items()}}
            order = {"place": str(place), "argv": [str(script), *map(str, words)], "variables": around}
            source = _source(rank % 2)
            source.stdin.write(json.dumps({**order, "folder": os.getcwd()}) + "\n")
            source.stdin.flush()
        code = _end_of(places, time.monotonic() + seconds)
        said, faults = ("".join(place.with_suffix(end).read_text() for place in places) for end in (".out", ".err"))
    return SimpleNamespace(returncode=code, stdout=said, stderr=faults)


def _end_of(places, deadline):
    """Wait for all processes; returns the first exit code that is not 0, after ending the others."""
    first, waiting = 0, set(places)
    while waiting:
        for place in sorted(waiting):
            if not place.with_suffix(".code").exists():
                continue
            waiting.remove(place)
            code = int(place.with_suffix(".code").read_text())
            if code != 0 and first == 0:
                first = code
                _signal(waiting, signal.SIGTERM)
                deadline = min(deadline, time.monotonic() + 30)
        if time.monotonic() > deadline:
            first = first or -signal.SIGKILL
            _signal(waiting, signal.SIGKILL)
        time.sleep(0.01)
    return first


def _signal(places, number):
    for place in places:
        if place.with_suffix(".pid").exists() and not place.with_suffix(".code").exists():
            os.kill(int(place.with_suffix(".pid").read_text()), number)


@functools.cache
def _source(number):
    """A process to fork from."""
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, env=variables, text=True)

    def end():
        process.stdin.close()
        process.wait()

    atexit.register(end)
    return process


# ---- in a process that is forked from --------------------------------------------------------------------------------


def _serve():
    """Fork a process for each line, until there are no more."""
    for name in IMPORTED:
        __import__(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    for line in sys.stdin:
        if os.fork() == 0:
            _watch(json.loads(line))


def _watch(order):
    """Carry out an order in a process of its own, and note which one it is and how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    place = Path(order["place"])
    child = os.fork()
    if child == 0:
        _carry_out(order, place)
    _note(place.with_suffix(".pid"), child)
    _, status = os.waitpid(child, 0)
    _note(place.with_suffix(".code"), os.waitstatus_to_exitcode(status))
    os._exit(0)


def _note(path, number):
    half = path.with_suffix(path.suffix + "-half")
    half.write_text(str(number))
    half.replace(path)


def _carry_out(order, place):
    """Run the script as a new process does."""
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, file in enumerate((nothing, *(_written(place.with_suffix(end)) for end in (".out", ".err")))):
            os.dup2(file, number)
        os.environ.clear()
        os.environ.update(order["variables"])
        os.chdir(order["folder"])
        random.seed()
        sys.argv = order["argv"]
        runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _written(path):
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)


if __name__ == "__main__":
    _serve()
