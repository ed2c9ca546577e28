"""Heads whose labels are shared out among processes: the same as one head, for 1, 2 and 3 of them.

Processes are threads here, which tell each other what they found at a barrier; `tests/training/test_sharded_ranks.py`
has real ones.
"""

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.errors import InputError, ShapeError
from finegraph.graph.label_shards import label_shard
from finegraph.inference.loss.rows_loss import Exchange
from finegraph.inference.numerics import Constants
from finegraph.inference.sums import label_rows
from finegraph.inference.sums.targets import FROM_FINE
from finegraph.nn import sharded_head
from finegraph.nn.sharded_head import ShardedHead
from reference.random_graphs import FORMS, random_graph
from reference.random_numbers import random_number

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
        self.meeting, self.rank, self.size = meeting, rank, len(meeting.given)

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
    return in_grid(1, size, lambda exchange, _: work(exchange.rank, exchange))


def in_grid(groups, size, work):
    """What `work(exchange, groups)` returns in each thread of a grid, group after group."""
    sharing, alike = [Meeting(size) for _ in range(groups)], [Meeting(groups) for _ in range(size)]
    found, failures = [None] * (groups * size), []

    def run(number):
        group, rank = divmod(number, size)
        try:
            found[number] = work(Threads(sharing[group], rank), Threads(alike[rank], group))
        except BaseException as error:
            failures.append(error)
            for meeting in (*sharing, *alike):
                meeting.barrier.abort()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(groups * size)]
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
        replace(fg.Kind.from_parents("heat", ("mild", "medium", "hot"), rng.integers(0, 3, fine)), ordered=True),
    ]
    return fg.LabelGraph([f"fine {i}" for i in range(fine)], kinds)


def with_numbers(graph, seed):
    """The same with a number of exact values, and others with spreads and unknown values."""
    rng = np.random.default_rng(seed)
    fine = len(graph)
    exact = fg.Number("exact", 1.0 + np.arange(fine) % 5, np.zeros(fine))
    numbers = [exact, *(random_number(rng, f"number {place}", fine).number for place in range(rng.integers(1, 4)))]
    return fg.LabelGraph(graph.fine, [graph.kind(name) for name in graph.kinds], numbers)


def graphs():
    """Graphs with a kind to share out, and random ones of every form."""
    yield plain_graph()
    for number, form in enumerate(FORMS):
        graph = random_graph(np.random.default_rng(number), form).graph
        if len(graph) >= 3:
            yield graph
    yield with_numbers(plain_graph(), 5)
    yield from graphs_with_numbers()


def graphs_with_numbers():
    for number, form in list(enumerate(FORMS))[::3]:
        graph = random_graph(np.random.default_rng(number), form).graph
        if len(graph) >= 3:
            yield with_numbers(graph, number)


def whole_head(graph, size=1.0):
    torch.manual_seed(1)
    head = fg.BipartiteHead(FEATURES, graph).double()
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_(size * torch.randn(parameter.shape))
    return head


def gradients(part, head):
    """The gradients of the rows of a process, each with that of the whole head."""
    rows = {"fine": torch.from_numpy(part.shard.fine), "coarse": torch.from_numpy(part.shard.coarse(part.graph))}
    found = {}
    for name, values in part.named_parameters():
        expected = head.get_parameter(name).grad
        expected = torch.zeros_like(head.get_parameter(name)) if expected is None else expected
        own = torch.zeros_like(values) if values.grad is None else values.grad
        found[name] = own, expected[rows.get(name.split(".")[0], slice(None))]
    return found


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
        seen |= {
            name: torch.tensor([torch.nan, 1.5, torch.nan, 4.0, torch.nan]).double() for name in graph.numbers[-1:]
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
            for name, (got, expected) in gradients(part, head).items():
                assert torch.allclose(got, expected, atol=1e-10 * scale), name


@pytest.mark.deep
@pytest.mark.parametrize(("groups", "size"), [(2, 2), (3, 1), (3, 2)])
def test_a_grid_adds_up_to_one_head(groups, size):
    """Each group has photos of its own; the third of three has one."""
    for graph in (
        with_numbers(plain_graph(), 5),
        *(random_graph(np.random.default_rng(1), form).graph for form in FORMS[2:6]),
    ):
        if len(graph) < size:
            continue
        head = whole_head(graph)
        features = torch.randn(7, FEATURES, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        target = torch.tensor([0, len(graph) - 1, -100, 1, 0, 1, 1])
        own = features.clone().requires_grad_()
        loss = fg.joint_loss(head(own), target, kind_weights=0.5, reduction="sum")
        loss.backward()

        def work(exchange, others, graph=graph, head=head, features=features, target=target):
            part = ShardedHead(FEATURES, graph, exchange, groups=others).double()
            part.take_first(head if exchange.rank == others.rank == 0 else None)
            mine = slice(others.rank, None, others.size)
            photos = features[mine].clone().requires_grad_()
            found = part.loss(photos, target[mine], kind_weights=0.5, reduction="sum")
            found.backward()
            part.sum_gradients()
            total = found.detach().clone().reshape(1)
            others.sum([total])
            whole = part.whole_in_first()
            assert (whole is None) == (exchange.rank + others.rank > 0)
            assert whole is None or torch.equal(whole.fine.weight, head.fine.weight)
            return mine, photos.grad, total.item(), part

        parts = in_grid(groups, size, work)
        for mine, gradient, total, part in parts:
            assert total == pytest.approx(loss.item(), rel=1e-12)
            assert torch.allclose(gradient, own.grad[mine], rtol=0, atol=1e-10)
            first = parts[part.shard.rank][-1]  # that of the first group with these labels
            for name, (got, expected) in gradients(part, head).items():
                assert torch.allclose(got, expected, rtol=0, atol=1e-10), name
                assert torch.equal(got, first.get_parameter(name).grad)


def test_all_tensors_are_where_the_weights_are():
    """There is no other device here: a tensor that is made without a device becomes a meta tensor, and fails."""
    graph = with_numbers(plain_graph(), 5)
    head, features = whole_head(graph), torch.randn(5, FEATURES, dtype=torch.float64)
    target, seen = torch.tensor([0, 1, -100, 2, 3]), {"small": torch.tensor([0, 1, -100, FROM_FINE, 2])}
    seen["exact"] = torch.tensor([2.5, torch.nan, 1.0, torch.nan, torch.nan])

    def work(rank, exchange):
        part = ShardedHead(FEATURES, graph, exchange).double()
        with torch.device("meta"):
            part.take_first(head if rank == 0 else None)
            photos = features.clone().requires_grad_()
            rows = exchange.all_rows(photos)
            targets = torch.cat([target, target])
            loss = part.loss(rows, targets, {name: torch.cat([one, one]) for name, one in seen.items()})
            (loss + part.prior() + part.smoothing(rows, targets).sum()).backward()
            part.sum_gradients()
            answers = [part.top(features, 3).label, *part.all_kind_log_probs(features, graph.kinds).values()]
            answers += [part.value(features, name).mean for name in graph.numbers]
            return [loss, photos.grad, part.fine.weight.grad, *answers, part.whole().fine.weight], part

    for found, part in together(2, work):
        assert {tensor.device.type for tensor in found} == {"cpu"}
        moved = list(tensors_in(part.to("meta")._tensors))
        assert len(moved) > 10
        assert {tensor.device.type for tensor in moved} == {"meta"}


def tensors_in(value):
    """The tensors of a holder and of the holders in it."""
    if isinstance(value, torch.Tensor):
        yield value
    for one in vars(value).values() if isinstance(value, Constants) else value if isinstance(value, list) else ():
        yield from tensors_in(one)


@pytest.mark.parametrize("batch", [7, 37])
def test_copies_of_rows_stay_alike_to_the_bit(batch):
    """Products of matrices round a row in another way if there are other rows beside it."""
    wide = np.repeat(np.arange(31), [40, *[1] * 30])  # the first process has one label of this kind, others many
    fine, size = len(wide), 12
    graph = fg.LabelGraph.from_parents([f"fine {i}" for i in range(fine)], {"wide": wide, "pair": np.arange(fine) % 2})
    graph = with_numbers(graph, 0)
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
        for own, theirs in zip(part.numbers.parameters(), other.numbers.parameters(), strict=True):
            assert torch.equal(own.grad, theirs.grad)


@pytest.mark.deep
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
    lowest, close = 0.0, max(1e-9, 100 * tolerance)
    for graph in graphs():
        head = whole_head(graph, scale).to(dtype)
        features = torch.randn(3, FEATURES, dtype=dtype, generator=torch.Generator().manual_seed(0))
        posterior = head(features)

        def work(rank, exchange, graph=graph, head=head, features=features, dtype=dtype):
            part = ShardedHead(FEATURES, graph, exchange, rank=rank, size=size).to(dtype)
            part.take(head)
            values = {name: part.value(features, name) for name in graph.numbers}
            return part.top(features, 4), part.all_kind_log_probs(features, graph.kinds), values

        expected = posterior.log_probs().double().topk(min(4, len(graph)), dim=1)
        for best, kinds, values in together(size, work):
            if graph.numbers and dtype == torch.float32 and scale > 1.0:
                continue  # terms of numbers are squares of these scores, and so their rounding
            assert torch.equal(best.label, expected.indices)
            assert torch.allclose(best.log_prob, expected.values, rtol=0, atol=tolerance)
            for kind, log_probs in kinds.items():
                one = posterior.log_probs(kind).double()
                assert torch.allclose(log_probs, one, rtol=0, atol=tolerance), kind
                lowest = min(lowest, log_probs[log_probs.isfinite()].min().item())
            for name, value in values.items():
                one = posterior.value(name)
                assert torch.allclose(value.weights, one.weights, rtol=0, atol=tolerance), name
                for found, wanted in ((value.mean, one.mean), (value.spread, one.spread)):
                    assert torch.allclose(found, wanted, rtol=close, atol=close, equal_nan=True), name
            if len(graph) == 40:
                for name in values:
                    for ask in (lambda one: one.quantile(0.3), lambda one: one.probability("<= 3")):
                        found, wanted = ask(values[name]), ask(posterior.value(name))
                        assert torch.allclose(found, wanted, rtol=close, atol=close), name
    assert scale == 1.0 or lowest < -800  # where exponentials of float32 and of float64 are 0


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_same_seed_draws_the_same_head_and_comes_back_whole(size, monkeypatch):
    graph = with_numbers(plain_graph(), 5)
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
