"""A head whose labels are sharded among real processes: killed, continued with another number of them, and equal."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from finegraph.training.checkpoints.checkpoint_reader import checkpoint_names

EXAMPLE = Path(__file__).parents[2] / "examples" / "sharded_labels.py"


def command(processes, folder, *words):
    start = [sys.executable]
    if processes > 1:
        start += ["-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--master-addr", "127.0.0.1"]
        start += ["--master-port", "0", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    return [*start, str(EXAMPLE), "--folder", str(folder), "--labels", "300", "--double", *words]


def variables():
    return {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


def lines(text):
    """The lines of the steps, by step, and the last line."""
    steps = {line.split(":")[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith("step")}
    return steps, text.strip().splitlines()[-1]


def workers(launcher):
    """The processes that a launcher started."""
    found = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    return [int(one) for one in found]


def finished(words):
    """What a job that comes to its end says."""
    job = subprocess.run(words, env=variables(), capture_output=True, text=True, timeout=120)
    assert job.returncode == 0, job.stdout + job.stderr
    return lines(job.stdout)


@pytest.mark.slow  # test_typed_shards.py kills a process of `finegraph train`; this is the loop of the example
def test_a_killed_process_ends_all_and_any_number_goes_on(tmp_path):
    broken = subprocess.Popen(
        command(3, tmp_path / "shards", "--steps", "100000"),
        env=variables(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        seen = []
        for line in broken.stdout:
            seen.append(line)
            if line.startswith("step 15:"):
                break
        os.kill(workers(broken.pid)[1], signal.SIGKILL)
        began = time.monotonic()
        broken.communicate(timeout=30)
        assert time.monotonic() - began < 30
        assert broken.returncode != 0
    finally:
        if broken.poll() is None:
            os.killpg(broken.pid, signal.SIGKILL)
            broken.wait()
    kept = max(name.step for name in checkpoint_names(tmp_path / "shards"))
    assert kept >= 10
    steps = ("--steps", str(kept + 20))
    expected, right = finished(command(1, tmp_path / "one", *steps))
    before, _ = lines("".join(seen) + "end")
    assert all(before[step] == pytest.approx(expected[step], rel=1e-10) for step in before)
    after, right_after = finished(command(2, tmp_path / "shards", *steps))
    assert list(after) == list(expected)[kept:]
    assert all(after[step] == pytest.approx(expected[step], rel=1e-10) for step in after)
    assert right_after == right
