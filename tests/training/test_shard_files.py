"""Checkpoints of heads whose labels are sharded, written and read by different numbers of processes."""

import dataclasses
import errno
import re
import threading

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.errors import CheckpointError, UnknownNameError
from finegraph.files.durable import temporary_in
from finegraph.graph.label_shards import label_shard
from finegraph.training.checkpoints.shard_files import ShardFolder
from finegraph.training.distributed import Ranks

GRAPH = fg.LabelGraph.from_parents(
    [f"fine {i}" for i in range(24)],
    {"wide": np.arange(24) % 12, "small": np.arange(24) % 2},
    {"wide": [f"w{i}" for i in range(12)], "small": ["no", "yes"]},
)
FINE = torch.arange(24.0).unsqueeze(1) * torch.tensor([[1.0, 10.0]])
COARSE = torch.arange(14.0).bfloat16()
WIDE, YES = torch.arange(36.0).view(12, 3), torch.tensor([[5.0], [6.0]])
"""Of the labels of a kind alone."""


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


SMALL = fg.LabelGraph.from_parents([f"fine {i}" for i in range(4)], {"small": np.arange(4) % 2})
"""Of its coarse labels all processes have copies, which the first one writes."""


def load(folder, rank=0, size=1, graph=GRAPH):
    """The checkpoints as one of so many processes sees them."""
    return ShardFolder(folder, graph, label_shard(graph, rank, size), Ranks(rank, size))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def save(folder, size, step=7, best=False):
    """Save from so many threads; returns the errors."""
    meeting, table, errors = threading.Barrier(size, timeout=20), [None] * size, []

    def run(rank):
        shard = label_shard(GRAPH, rank, size)
        rows = {"weight": FINE[shard.fine], "momentum": -FINE[shard.fine]}
        try:
            ranks = Threads(rank, size, meeting=meeting, table=table)
            coarse = {"bias": COARSE[shard.coarse(GRAPH)]}
            whole = {"network": torch.eye(2), "one": torch.tensor(3.0), "none": torch.zeros(0, 2)}
            kinds = {"small": {"weight": YES + rank}, "wide": {"weight": WIDE[shard.labels]}}
            checkpoints = ShardFolder(folder, GRAPH, shard, ranks)
            checkpoints.save(step, rows, coarse, whole, {"epoch": step}, kinds=kinds, best=best)
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
    assert len(list((tmp_path / "000001-step-7").glob("*.safetensors"))) == written
    for rank in range(read):
        shard = label_shard(GRAPH, rank, read)
        found = load(tmp_path, rank, read).last()
        assert (found.step, found.state) == (7, {"epoch": 7})
        assert torch.equal(found.fine["weight"], FINE[shard.fine])
        assert torch.equal(found.fine["momentum"], -FINE[shard.fine])
        assert torch.equal(found.coarse["bias"], COARSE[shard.coarse(GRAPH)])
        assert shard.kind == "wide"
        assert found.kinds.keys() == {"wide", "small"}
        assert torch.equal(found.kinds["wide"]["weight"], WIDE[shard.labels])
        assert torch.equal(found.kinds["small"]["weight"], YES)  # copies are those of the first process
        assert torch.equal(found.whole["network"], torch.eye(2))
        assert (found.whole["one"].item(), found.whole["none"].shape) == (3.0, (0, 2))


@pytest.mark.parametrize("size", [1, 2])
def test_copies_are_written_once(tmp_path, size):
    meeting, table = threading.Barrier(size, timeout=20), [None] * size

    def run(rank):
        shard = label_shard(SMALL, rank, size)
        coarse = {"bias": torch.arange(2.0) + 10 * rank}
        folder = ShardFolder(tmp_path, SMALL, shard, Threads(rank, size, meeting=meeting, table=table))
        folder.save(1, {"weight": torch.from_numpy(shard.fine)}, coarse)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    found = load(tmp_path, graph=SMALL).last()
    assert found.fine["weight"].tolist() == [0, 1, 2, 3]
    assert found.coarse["bias"].tolist() == [0, 1]
    assert found.kinds == {}


def test_tensors_of_an_unknown_kind_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(UnknownNameError, match="unknown kind 'wid'"):
        load(tmp_path / "folder").save(1, {}, {}, kinds={"wid": {"weight": WIDE}})
    assert not (tmp_path / "folder").exists()


def test_the_newest_whole_one_counts_and_older_ones_go(tmp_path):
    assert load(tmp_path / "none").last() is None
    for step in (1, 2, 3):
        save(tmp_path, 2, step, best=step == 1)
    assert names(tmp_path) == ["000001-step-1-best", "000002-step-2", "000003-step-3"]
    assert load(tmp_path).best().step == 1
    assert save(tmp_path, 2, 3, best=True) == []  # the same step once more, as after a validation that was stopped
    assert names(tmp_path) == ["000001-step-1-best", "000003-step-3", "000004-step-3-best"]
    found = load(tmp_path)
    assert (found.last().step, found.best().step, found.last().notes) == (3, 3, ())
    assert save(tmp_path, 3, 4) == []
    assert names(tmp_path) == ["000001-step-1-best", "000004-step-3-best", "000005-step-4"]


def test_what_a_killed_job_left_goes_with_the_next_save(tmp_path):
    save(tmp_path, 2, 1)
    left = temporary_in(tmp_path)
    left.mkdir()
    (left / "shard-00001-of-00002.safetensors").write_bytes(b"half")
    assert load(tmp_path).last().step == 1
    save(tmp_path, 2, 2)
    assert names(tmp_path) == ["000001-step-1", "000002-step-2"]


def test_damage_is_passed_over_and_other_graphs_are_refused(tmp_path):
    save(tmp_path, 2, 6, best=True)
    save(tmp_path, 2, 7)
    with pytest.raises(CheckpointError, match="of another label graph"):
        load(tmp_path, graph=GRAPH.only(["wide"])).last()
    newest = tmp_path / "000002-step-7"
    for path in sorted(newest.iterdir()):
        data = path.read_bytes()
        changed = bytes([data[len(data) // 2] ^ 1])
        for wrong in (data[:-1], data[: len(data) // 2] + changed + data[len(data) // 2 + 1 :], None):
            if wrong is None:
                path.unlink()
            else:
                path.write_bytes(wrong)
            found = load(tmp_path).last()
            assert found.step == 6
            assert re.search(r"checksum|SHA-256|cut short|No such file", found.notes[0]), found.notes
            assert "took the checkpoint of step 6" in found.notes[1]
        path.write_bytes(data)
    assert load(tmp_path).last().step == 7
    newest.rename(tmp_path / "000003-step-7")
    assert "its name was changed" in load(tmp_path).last().notes[0]
    for folder in tmp_path.iterdir():
        (folder / "whole.json").unlink()
    with pytest.raises(CheckpointError, match="all 2 are damaged"):
        load(tmp_path).last()


@pytest.mark.parametrize("fails", ["os.mkdir", "os.rename"])
def test_all_processes_hear_of_a_disk_that_refuses(tmp_path, fails, monkeypatch):
    save(tmp_path, 2, 6)

    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(fails, refuse)
    errors = save(tmp_path, 2)
    assert len(errors) == 2
    assert all("cannot save the rows of step 7: " in error and "No space left" in error for error in errors)
    monkeypatch.undo()
    assert names(tmp_path) == ["000001-step-6"]
    assert save(tmp_path, 2) == []
