"""Tiny runs in a process of its own, or in several: `tiny_job.py JOB.json`.

The file lists runs; each has what `tiny.tune` takes. In the last process (or in the process `kill_rank`), `kill_at` is
the step in which SIGKILL ends it; in the last one, `poison_at` is that in which NaN begins. `wait` makes each step so
many seconds longer. What became of each run is written to `out` by the first process, and the id of each process beside
it.
"""

import json
import math
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import tiny
import torch

from finegraph.cli.process import leave
from finegraph.errors import FinegraphError
from finegraph.training import loop
from finegraph.training.distributed import joined_ranks
from finegraph.workflows.training import tune_all

written = []


def note_writing(event, arguments):
    """Remember what this process writes in a run folder."""
    if event == "open" and "runs" in str(arguments[0]) and arguments[2] & (os.O_WRONLY | os.O_RDWR):
        written.append(str(arguments[0]))
    if event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir") and "runs" in str(arguments[0]):
        written.append(f"{event} {arguments[0]}")


def recording(seen):
    """Batches as ever, noting which photos this process gets in which step."""

    def read(*arguments):
        for batch in read_batches(*arguments):
            seen.append(batch.sample.tolist())
            yield batch

    return read


def adding_up(weights):
    """Loads as ever, after noting the weights that this process ended with."""

    def load(network, tensors, state):
        weights.update({name: tensor.double().sum().item() for name, tensor in network.state_dict().items()})
        load_network(network, tensors, state)

    return load


def act_in(run, ranks):
    """What happens in the middle of steps."""

    def alter(network):
        calls = []

        def hook(module, inputs):
            if module.training:
                calls.append(None)
                time.sleep(run.get("wait", 0))
                if len(calls) == run.get("kill_at") and ranks.rank == run.get("kill_rank", ranks.size - 1):
                    os.kill(os.getpid(), signal.SIGKILL)
                if len(calls) >= run.get("poison_at", math.inf) and ranks.rank == ranks.size - 1:
                    return (inputs[0] * math.nan,)
            return None

        network.backbone.second.register_forward_pre_hook(hook)

    return alter


def carry_out(run, ranks):
    """Train, and tell what all processes saw of it."""
    seen, weights, text, finished = [], {}, None, None
    loop.read_batches = recording(seen)
    tune_all.load_network = adding_up(weights)
    try:
        tuned = tiny.tune(
            Path(run["manifest"]),
            Path(run["path"]),
            resume=run.get("resume", False),
            ranks=ranks,
            alter=act_in(run, ranks),
            **run["settings"],
        )
        finished = tuned.metrics is not None
        notes = tuned.watcher.notes
    except FinegraphError as error:
        text, notes = f"{type(error).__name__}: {error}", []
    found = ranks.gather((seen, weights, written if ranks.rank else [], text, notes))
    names = ("seen", "weights", "written", "error", "notes")
    return {"finished": finished, **{name: [one[place] for one in found] for place, name in enumerate(names)}}


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where tests run in the background
    torch.set_num_threads(1)
    tiny.register()
    read_batches, load_network = loop.read_batches, tune_all.load_network
    sys.addaudithook(note_writing)
    job = json.loads(Path(sys.argv[1]).read_text())
    with joined_ranks() as ranks:
        Path(f"{job['out']}.{ranks.rank}").write_text(str(os.getpid()))
        results = [carry_out(run, ranks) for run in job["runs"]]
        if ranks.first:
            Path(job["out"]).write_text(json.dumps(results))
    leave(0)
