"""Heads whose labels are shared out among processes: the same as one head, for 1, 2 and 3 of them.

Processes are threads here, which tell each other what they found at a barrier; `tests/training/test_sharded_ranks.py`
has real ones.
"""

import threading

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.errors import InputError, ShapeError
from finegraph.graph.label_shards import label_shard
from finegraph.inference.loss.rows_loss import Exchange
from finegraph.inference.sums import label_rows
from finegraph.inference.sums.targets import FROM_FINE
from finegraph.nn import sharded_head
from finegraph.nn.sharded_head import ShardedHead
from reference.random_graphs import FORMS, random_graph

FEATURES = 4


class Meeting:
    """Where threads meet to add up tensors."""

    def __init__(self, size):
        self.barrier = threading.Barrier(size, timeout=20)
        self.given = [None] * size

    def reduce(self, rank, tensor, how):
        self.given[rank] = tensor.detach().clone()
        self.barrier.wait()
        found = how(torch.stack(self.given))
        self.barrier.wait()
        with torch.no_grad():
            tensor.copy_(found)


class Threads(Exchange):
    """One of several threads."""

    def __init__(self, meeting, rank):
        self.meeting, self.rank = meeting, rank

    def sum(self, tensors):
        for tensor in tensors:
            self.meeting.reduce(self.rank, tensor, lambda all_of: all_of.sum(dim=0))

    def largest(self, values):
        self.meeting.reduce(self.rank, values, lambda all_of: all_of.amax(dim=0))

    def copy_first(self, tensors):
        for tensor in tensors:
            self.meeting.reduce(self.rank, tensor, lambda all_of: all_of[0])


def together(size, work):
    """What `work(rank, exchange)` returns in each of some threads."""
    meeting, found, failures = Meeting(size), [None] * size, []

    def run(rank):
        try:
            found[rank] = work(rank, Threads(meeting, rank))
        except BaseException as error:
            failures.append(error)
            meeting.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    real = [one for one in failures if not isinstance(one, threading.BrokenBarrierError)]
    if failures:
        raise (real or failures)[0]
    return found


def plain_graph(fine=40, seed=0):
    """A graph whose largest kind can be shared out, and one kind of every other form."""
    rng = np.random.default_rng(seed)
    wide = rng.permutation(np.concatenate([np.arange(16), rng.integers(0, 16, fine - 16)]))
    mixed = rng.random((fine, 5)) * (rng.random((fine, 5)) < 0.4)
    mixed[rng.random(fine) < 0.2] = 0
    kinds = [
        fg.Kind.from_parents("small", list("abc"), rng.integers(0, 3, fine)),
        fg.Kind.from_parents("wide", [f"w{i}" for i in range(16)], wide),
        fg.Kind.from_matrix("mixed", list("vwxyz"), mixed),
        fg.Kind.from_parents("yes or no", ("no", "yes"), rng.integers(-1, 2, fine)),
    ]
    return fg.LabelGraph([f"fine {i}" for i in range(fine)], kinds)


def graphs():
    """Graphs with a kind to share out, and random ones of every form."""
    yield plain_graph()
    for number, form in enumerate(FORMS):
        graph = random_graph(np.random.default_rng(number), form).graph
        if len(graph) >= 3:
            yield graph


def whole_head(graph, size=1.0):
    torch.manual_seed(1)
    head = fg.BipartiteHead(FEATURES, graph).double()
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_(size * torch.randn(parameter.shape))
    return head


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("scale", [1.0, 300.0], ids=["plain", "underflow"])
@pytest.mark.deep
def test_loss_prior_and_gradients_equal_one_head(size, scale, monkeypatch):
    monkeypatch.setattr(label_rows, "_LISTED", 4)
    for graph in graphs():
        head = whole_head(graph, scale)
        features = torch.randn(5, FEATURES, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        target = torch.tensor([0, len(graph) - 1, -100, 1, 2])
        seen = {
            name: torch.tensor([FROM_FINE, -100, int(graph.edges(name)[1][0]), FROM_FINE, FROM_FINE])
            for name in graph.kinds[-1:]
            if len(graph.edges(name)[1])
        }
        own = features.clone().requires_grad_()
        posterior, known = head(own), target != -100
        log_probs = posterior.log_probs()
        spread = (log_probs.gather(1, target.clamp_min(0)[:, None])[:, 0] - log_probs.mean(dim=1))[known].sum()
        loss = fg.joint_loss(posterior, target, seen, 0.5) + 0.1 * fg.laplacian_prior(head) + 0.3 * spread
        loss.backward()

        def work(rank, exchange, graph=graph, head=head, features=features, target=target, seen=seen):
            part = ShardedHead(FEATURES, graph, exchange, rank=rank, size=size).double()
            part.take(head)
            mine = features.clone().requires_grad_()
            found = part.loss(mine, target, seen, 0.5) + 0.1 * part.prior() + 0.3 * part.smoothing(mine, target).sum()
            found.backward()
            return found.item(), mine.grad, part

        for value, gradient, part in together(size, work):
            assert value == pytest.approx(loss.item(), rel=1e-12)
            assert torch.allclose(gradient, own.grad, atol=1e-10 * scale)
            rows = {"fine": torch.from_numpy(part.shard.fine), "coarse": torch.from_numpy(part.shard.coarse(graph))}
            for name, layer in (("fine", part.fine), ("coarse", part.coarse)):
                for one, values in layer.named_parameters():
                    expected = getattr(head, name).get_parameter(one).grad
                    expected = torch.zeros_like(values) if expected is None else expected[rows[name]]
                    got = torch.zeros_like(values) if values.grad is None else values.grad
                    assert torch.allclose(got, expected, atol=1e-10 * scale), (name, one)


@pytest.mark.parametrize("batch", [7, 37])
def test_copies_of_rows_stay_alike_to_the_bit(batch):
    """Products of matrices round a row in another way if there are other rows beside it."""
    wide = np.repeat(np.arange(31), [40, *[1] * 30])  # the first process has one label of this kind, others many
    fine, size = len(wide), 12
    graph = fg.LabelGraph.from_parents([f"fine {i}" for i in range(fine)], {"wide": wide, "pair": np.arange(fine) % 2})
    torch.manual_seed(0)
    head, features = fg.BipartiteHead(size, graph), torch.randn(batch, size)
    for parameter in head.parameters():
        parameter.data.normal_()
    target = torch.arange(batch) % fine

    def work(rank, exchange):
        part = ShardedHead(size, graph, exchange, rank=rank, size=3)
        part.take(head)
        mine = features.clone().requires_grad_()
        loss = part.loss(mine, target, reduction="sum") + 0.1 * part.smoothing(mine, target).sum() + part.prior()
        loss.backward()
        return loss.detach(), mine.grad, [parameter.grad for parameter in part.coarse.parameters()], part

    loss, gradient, rows, part = (found := together(3, work))[0]
    assert {len(one.coarse.weight) for *_, one in found} != {len(part.coarse.weight)}  # not all of them are copies
    for other_loss, other_gradient, other_rows, other in found[1:]:
        assert torch.equal(other_loss, loss)
        assert torch.equal(other_gradient, gradient)
        for one, two in zip(rows, other_rows, strict=True):
            for own, theirs in zip(part._shared, other._shared, strict=True):
                assert torch.equal(one[own], two[theirs])


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(
    ("scale", "dtype", "tolerance"),
    [
        (1.0, torch.float64, 1e-12),
        (300.0, torch.float64, 1e-9),
        (1.0, torch.float32, 1e-5),
        (300.0, torch.float32, 3e-3),
    ],
    ids=["plain", "underflow", "float32", "float32-underflow"],
)
def test_answers_equal_one_head(size, scale, dtype, tolerance, monkeypatch):
    monkeypatch.setattr(label_rows, "_MIN_ROWS", 7)  # so that there are several chunks
    monkeypatch.setattr(label_rows, "_CHUNK", 7)
    lowest = 0.0
    for graph in graphs():
        head = whole_head(graph, scale).to(dtype)
        features = torch.randn(3, FEATURES, dtype=dtype, generator=torch.Generator().manual_seed(0))
        posterior = head(features)

        def work(rank, exchange, graph=graph, head=head, features=features, dtype=dtype):
            part = ShardedHead(FEATURES, graph, exchange, rank=rank, size=size).to(dtype)
            part.take(head)
            return part.top(features, 4), part.all_kind_log_probs(features, graph.kinds)

        expected = posterior.log_probs().double().topk(min(4, len(graph)), dim=1)
        for best, kinds in together(size, work):
            assert torch.equal(best.label, expected.indices)
            assert torch.allclose(best.log_prob, expected.values, rtol=0, atol=tolerance)
            for kind, log_probs in kinds.items():
                one = posterior.log_probs(kind).double()
                assert torch.allclose(log_probs, one, rtol=0, atol=tolerance), kind
                lowest = min(lowest, log_probs[log_probs.isfinite()].min().item())
    assert scale == 1.0 or lowest < -800  # where exponentials of float32 and of float64 are 0


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_same_seed_draws_the_same_head_and_comes_back_whole(size, monkeypatch):
    graph = plain_graph()
    torch.manual_seed(3)
    expected = fg.BipartiteHead(FEATURES, graph).state_dict()
    other = whole_head(graph).float()
    lock, made = threading.Lock(), threading.Barrier(size)

    def work(rank, exchange):
        with lock:  # threads share one source of chance
            torch.manual_seed(3)
            part = ShardedHead(FEATURES, graph, exchange, rank=rank, size=size)
        made.wait()  # a whole head draws, too
        whole, in_first = part.whole().state_dict(), part.whole_in_first()
        assert (in_first is None) == (rank > 0)
        part.take_first(other if rank == 0 else None)
        return whole, in_first, part.whole().state_dict()

    monkeypatch.setattr(sharded_head, "_ROWS_AT_ONCE", 7)
    for found, in_first, taken in together(size, work):
        assert all(torch.equal(values, expected[name]) for name, values in found.items())
        assert in_first is None or all(torch.equal(values, expected[n]) for n, values in in_first.state_dict().items())
        assert all(torch.equal(values, other.state_dict()[name]) for name, values in taken.items())


def test_labels_of_the_largest_kind_stay_together():
    graph = plain_graph()
    parts = [label_shard(graph, rank, 3) for rank in range(3)]
    assert sorted(np.concatenate([part.fine for part in parts]).tolist()) == list(range(len(graph)))
    assert sorted(np.concatenate([part.labels for part in parts]).tolist()) == list(range(16))
    assert {part.kind for part in parts} == {"wide"}
    for part in parts:
        assert set(graph.parents("wide")[part.fine]) <= set(part.labels.tolist())
    sizes = [len(part.fine) for part in parts]
    assert max(sizes) <= 2 * min(sizes)


def test_what_is_refused():
    graph = fg.LabelGraph(["a", "b"])
    with pytest.raises(InputError, match="process 1 of 3 would hold none of the 2 fine labels; use fewer"):
        [label_shard(graph, rank, 3) for rank in range(3)]
    part = ShardedHead(FEATURES, graph, Exchange())
    doubting = fg.BipartiteHead(FEATURES, graph)
    doubting.doubt = 0.5
    for take in (part.take, part.take_first):
        with pytest.raises(InputError, match="does not support a doubt"):
            take(doubting)
    with pytest.raises(ShapeError, match="expected a head of the same graph"):
        part.take(fg.BipartiteHead(FEATURES + 1, graph))
    numbers = fg.LabelGraph.from_table({"a": {"price": 1.5}, "b": {"price": 2.5}}, types={"price": "number"})
    with pytest.raises(InputError, match="does not support numbers"):
        ShardedHead(FEATURES, numbers, Exchange())
