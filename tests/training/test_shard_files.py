"""Checkpoints of heads whose labels are shared out, written and read by different numbers of processes."""

import dataclasses
import threading

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.errors import CheckpointError
from finegraph.graph.label_shards import label_shard
from finegraph.training.checkpoints.shard_files import load_shards, save_shards, saved_steps
from finegraph.training.distributed import Ranks

GRAPH = fg.LabelGraph.from_parents(
    [f"fine {i}" for i in range(24)],
    {"wide": np.arange(24) % 12, "small": np.arange(24) % 2},
    {"wide": [f"w{i}" for i in range(12)], "small": ["no", "yes"]},
)
FINE = torch.arange(24.0).unsqueeze(1) * torch.tensor([[1.0, 10.0]])
COARSE = torch.arange(14.0).bfloat16()


@dataclasses.dataclass(frozen=True)
class Threads(Ranks):
    """One of several threads in place of processes."""

    meeting: threading.Barrier | None = None
    table: list | None = None

    def gather(self, value):
        self.table[self.rank] = value
        self.meeting.wait()
        found = list(self.table)
        self.meeting.wait()
        return found

    def wait(self):
        self.meeting.wait()


def save(folder, size, step=7):
    """Save from so many threads; returns the errors."""
    meeting, table, errors = threading.Barrier(size, timeout=20), [None] * size, []

    def run(rank):
        shard = label_shard(GRAPH, rank, size)
        rows = {"weight": FINE[shard.fine], "momentum": -FINE[shard.fine]}
        try:
            ranks = Threads(rank, size, meeting, table)
            coarse = {"bias": COARSE[shard.coarse(GRAPH)]}
            whole = {"network": torch.eye(2), "one": torch.tensor(3.0), "none": torch.zeros(0, 2)}
            save_shards(folder, GRAPH, shard, ranks, step, rows, coarse, whole, {"epoch": step})
        except CheckpointError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return errors


@pytest.mark.parametrize("written", [1, 2, 3])
@pytest.mark.parametrize("read", [1, 2, 3])
def test_any_number_of_processes_goes_on(tmp_path, written, read):
    assert save(tmp_path, written) == []
    assert len(list((tmp_path / "000007").glob("*.safetensors"))) == written
    for rank in range(read):
        shard = label_shard(GRAPH, rank, read)
        found = load_shards(tmp_path, GRAPH, shard)
        assert (found.step, found.state) == (7, {"epoch": 7})
        assert torch.equal(found.fine["weight"], FINE[shard.fine])
        assert torch.equal(found.fine["momentum"], -FINE[shard.fine])
        assert torch.equal(found.coarse["bias"], COARSE[shard.coarse(GRAPH)])
        assert torch.equal(found.whole["network"], torch.eye(2))
        assert (found.whole["one"].item(), found.whole["none"].shape) == (3.0, (0, 2))


def test_the_newest_whole_one_counts_and_two_are_kept(tmp_path):
    assert load_shards(tmp_path / "none", GRAPH, label_shard(GRAPH, 0, 1)) is None
    for step in (1, 2, 3):
        save(tmp_path, 2, step)
    assert saved_steps(tmp_path) == [2, 3]
    (tmp_path / "000003" / "whole.json").unlink()  # as a kill before the end leaves it
    assert load_shards(tmp_path, GRAPH, label_shard(GRAPH, 0, 1)).step == 2
    assert save(tmp_path, 2, 3) == []
    assert saved_steps(tmp_path) == [2, 3]


def test_damage_and_other_graphs_are_refused(tmp_path):
    save(tmp_path, 2)
    shard = label_shard(GRAPH, 0, 1)
    other = GRAPH.only(["wide"])
    with pytest.raises(CheckpointError, match="of another label graph"):
        load_shards(tmp_path, other, label_shard(other, 0, 1))
    for path in sorted((tmp_path / "000007").iterdir()):
        data = path.read_bytes()
        for wrong in (
            data[:-1],
            data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :],
        ):
            path.write_bytes(wrong)
            with pytest.raises(CheckpointError, match=r"checksum|SHA-256|cut short"):
                load_shards(tmp_path, GRAPH, shard)
        path.write_bytes(data)
    assert load_shards(tmp_path, GRAPH, shard).step == 7


def test_all_processes_hear_of_a_disk_that_refuses(tmp_path):
    (tmp_path / "file").write_text("no folder")
    errors = save(tmp_path / "file", 2)
    assert len(errors) == 2
    assert all("cannot save the rows of step 7" in error for error in errors)
