"""Heads whose labels are sharded among processes: the same as one head, for 1, 2 and 3 of them.

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
from finegraph.inference.numerics import Constants
from finegraph.inference.processes import Processes
from finegraph.inference.sums import label_rows
from finegraph.inference.sums.targets import FROM_FINE
from finegraph.nn import sharded_head
from finegraph.nn.sharded_head import ShardedHead
from reference.random_graphs import FORMS, random_graph
from reference.random_numbers import random_number

FEATURES = 4
SIZES = [1, pytest.param(2, marks=pytest.mark.slow), 3]


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


class Threads(Processes):
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


class NoExchange(Processes):
    """Other processes are never asked."""

    def sum(self, tensors):
        raise AssertionError

    largest = copy_first = sum


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
    """A graph whose largest kind can be sharded, and one kind of every other form."""
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


def sizes_of(form, graph):
    """The features of coarse labels and numbers: those of the fine labels, others, or others for each."""
    names = (*graph.kinds, *graph.numbers)
    return {
        "one": None,
        "two": FEATURES - 1,
        "two alike": FEATURES,
        "each": {name: 2 + place % 3 for place, name in enumerate(names)},
        "each alike": dict.fromkeys(names, FEATURES),
    }[form]


def photos_of(sizes, batch, dtype=torch.float64, features=FEATURES):
    """Features of photos, and those for coarse labels and numbers."""
    chance = torch.Generator().manual_seed(0)
    fine = torch.randn(batch, features, dtype=dtype, generator=chance)
    if isinstance(sizes, dict):
        return fine, {name: torch.randn(batch, size, dtype=dtype, generator=chance) for name, size in sizes.items()}
    return fine, None if sizes is None else torch.randn(batch, sizes, dtype=dtype, generator=chance)


def changed(photos, change):
    """Photos with all features changed."""
    fine, coarse = photos
    if isinstance(coarse, dict):
        return change(fine), {name: change(one) for name, one in coarse.items()}
    return change(fine), None if coarse is None else change(coarse)


def leaves(photos):
    """Photos that gradients are asked of."""
    return changed(photos, lambda one: one.clone().requires_grad_())


def assert_gradients_alike(photos, expected, **tolerance):
    """Compare the gradients of all features; what a loss does not depend on has none."""

    def check(one):
        own, wanted = (torch.zeros_like(each) if each.grad is None else each.grad for each in (one, next(others)))
        assert torch.allclose(own, wanted, **tolerance)

    others = []
    changed(expected, others.append)
    others = iter(others)
    changed(photos, check)


def rows_with_gradient(tensor, rows):
    """Some rows of a leaf, with their gradient."""
    found = tensor.detach()[rows]
    found.grad = None if tensor.grad is None else tensor.grad[rows]
    return found


def whole_head(graph, size=1.0, sizes=None):
    torch.manual_seed(1)
    head = fg.BipartiteHead(FEATURES, graph, coarse_features=sizes).double()
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_(size * torch.randn(parameter.shape))
    return head


def gradients(part, head):
    """The gradients of the rows of a process, each with that of the whole head."""
    coarse, start = part.shard.coarse(part.graph), 0
    rows = {"fine": torch.from_numpy(part.shard.fine), "coarse": torch.from_numpy(coarse)}
    for place, kind in enumerate(part.graph.kinds):
        count = len(part.graph.labels(kind))
        rows[f"coarse.{place}"] = torch.from_numpy(coarse[(coarse >= start) & (coarse < start + count)] - start)
        start += count
    found = {}
    for name, values in part.named_parameters():
        expected = head.get_parameter(name).grad
        expected = torch.zeros_like(head.get_parameter(name)) if expected is None else expected
        own = torch.zeros_like(values) if values.grad is None else values.grad
        found[name] = own, expected[rows.get(name.rsplit(".", 1)[0], slice(None))]
    return found


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scale", [1.0, 300.0], ids=["plain", "underflow"])
@pytest.mark.parametrize("form", ["one", "two", "two alike", "each", "each alike"])
@pytest.mark.deep
def test_loss_prior_and_gradients_equal_one_head(size, scale, form, monkeypatch):
    monkeypatch.setattr(label_rows, "_LISTED", 4)
    for graph in graphs():
        sizes = sizes_of(form, graph)
        head, photos = whole_head(graph, scale, sizes), photos_of(sizes, 5)
        prior = 0.1 if form in ("one", "two alike") or (form == "each alike" and graph.kinds) else 0.0
        target = torch.tensor([0, len(graph) - 1, -100, 1, 2])
        seen = {
            name: torch.tensor([FROM_FINE, -100, int(graph.edges(name)[1][0]), FROM_FINE, FROM_FINE])
            for name in graph.kinds[-1:]
            if len(graph.edges(name)[1])
        }
        seen |= {
            name: torch.tensor([torch.nan, 1.5, torch.nan, 4.0, torch.nan]).double() for name in graph.numbers[-1:]
        }
        own = leaves(photos)
        posterior, known = head(*own), target != -100
        log_probs = posterior.log_probs()
        spread = (log_probs.gather(1, target.clamp_min(0)[:, None])[:, 0] - log_probs.mean(dim=1))[known].sum()
        loss = fg.joint_loss(posterior, target, seen, 0.5) + 0.3 * spread
        loss = loss + prior * fg.laplacian_prior(head) if prior else loss
        loss.backward()

        def work(rank, exchange, graph=graph, head=head, photos=photos, target=target, seen=seen, prior=prior):
            sizes = head.coarse_features
            part = ShardedHead(FEATURES, graph, exchange, rank=rank, size=size, coarse_features=sizes).double()
            part.take(head)
            mine, coarse = leaves(photos)
            found = part.loss(mine, target, seen, 0.5, coarse_features=coarse)
            found = found + 0.3 * part.smoothing(mine, target, coarse_features=coarse).sum()
            found = found + prior * part.prior() if prior else found
            found.backward()
            return found.item(), (mine, coarse), part

        for value, mine, part in together(size, work):
            assert value == pytest.approx(loss.item(), rel=1e-12)
            assert_gradients_alike(mine, own, atol=1e-10 * scale)
            for name, (got, expected) in gradients(part, head).items():
                assert torch.allclose(got, expected, atol=1e-10 * scale), name


@pytest.mark.deep
@pytest.mark.parametrize(("groups", "size"), [(2, 2), (3, 1), (3, 2)])
@pytest.mark.parametrize("form", ["one", "two", "each"])
def test_a_grid_adds_up_to_one_head(groups, size, form):
    """Each group has photos of its own; the third of three has one."""
    for graph in (
        with_numbers(plain_graph(), 5),
        *(random_graph(np.random.default_rng(1), form).graph for form in FORMS[2:6]),
    ):
        if len(graph) < size:
            continue
        sizes = sizes_of(form, graph)
        head, photos = whole_head(graph, sizes=sizes), photos_of(sizes, 7)
        target = torch.tensor([0, len(graph) - 1, -100, 1, 0, 1, 1])
        own = leaves(photos)
        loss = fg.joint_loss(head(*own), target, kind_weights=0.5, reduction="sum")
        loss.backward()

        def work(exchange, others, graph=graph, head=head, photos=photos, target=target):
            part = ShardedHead(FEATURES, graph, exchange, groups=others, coarse_features=head.coarse_features).double()
            part.take_first(head if exchange.rank == others.rank == 0 else None)
            mine = slice(others.rank, None, others.size)
            features, coarse = own = leaves(changed(photos, lambda one: one[mine]))
            found = part.loss(features, target[mine], kind_weights=0.5, reduction="sum", coarse_features=coarse)
            found.backward()
            part.sum_gradients()
            total = found.detach().clone().reshape(1)
            others.sum([total])
            whole = part.whole_in_first()
            assert (whole is None) == (exchange.rank + others.rank > 0)
            for name, weight in () if whole is None else whole.named_parameters():
                assert torch.equal(weight, head.get_parameter(name))
            return mine, own, total.item(), part

        parts = in_grid(groups, size, work)
        for mine, features, total, part in parts:
            assert total == pytest.approx(loss.item(), rel=1e-12)
            expected = changed(own, lambda one, mine=mine: rows_with_gradient(one, mine))
            assert_gradients_alike(features, expected, rtol=0, atol=1e-10)
            first = parts[part.shard.rank][-1]  # that of the first group with these labels
            for name, (got, expected) in gradients(part, head).items():
                assert torch.allclose(got, expected, rtol=0, atol=1e-10), name
                assert torch.equal(got, first.get_parameter(name).grad)


@pytest.mark.parametrize("form", ["one", "two alike", "each alike"])
def test_all_tensors_are_where_the_weights_are(form):
    """There is no other device here: a tensor that is made without a device becomes a meta tensor, and fails."""
    graph = with_numbers(plain_graph(), 5)
    sizes = sizes_of(form, graph)
    head, photos = whole_head(graph, sizes=sizes), photos_of(sizes, 5)
    target, seen = torch.tensor([0, 1, -100, 2, 3]), {"small": torch.tensor([0, 1, -100, FROM_FINE, 2])}
    seen["exact"] = torch.tensor([2.5, torch.nan, 1.0, torch.nan, torch.nan])

    def work(rank, exchange):
        part = ShardedHead(FEATURES, graph, exchange, coarse_features=sizes).double()
        with torch.device("meta"):
            part.take_first(head if rank == 0 else None)
            own = leaves(photos)
            rows, coarse = changed(own, exchange.all_rows)
            targets, other = torch.cat([target, target]), {"coarse_features": coarse}
            loss = part.loss(rows, targets, {name: torch.cat([one, one]) for name, one in seen.items()}, **other)
            (loss + part.prior() + part.smoothing(rows, targets, **other).sum()).backward()
            part.sum_gradients()
            answers = [part.top(rows, 3, **other).label, part.own_scores(rows, coarse)]
            answers += part.all_kind_log_probs(rows, graph.kinds, **other).values()
            answers += [part.value(rows, name, **other).mean for name in graph.numbers]
            gradients = []
            changed(own, lambda one: gradients.append(one.grad))
            return [loss, *gradients, part.fine.weight.grad, *answers, part.whole().fine.weight], part

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
@pytest.mark.parametrize("form", ["one", "two", "each"])
def test_copies_of_rows_stay_alike_to_the_bit(batch, form):
    """Products of matrices round a row in another way if there are other rows beside it."""
    wide = np.repeat(np.arange(31), [40, *[1] * 30])  # the first process has one label of this kind, others many
    fine, features = len(wide), 12
    graph = fg.LabelGraph.from_parents([f"fine {i}" for i in range(fine)], {"wide": wide, "pair": np.arange(fine) % 2})
    graph = with_numbers(graph, 0)
    names = (*graph.kinds, *graph.numbers)
    sizes = {"one": None, "two": 14, "each": {name: 12 + place for place, name in enumerate(names)}}[form]
    torch.manual_seed(0)
    head, photos = (
        fg.BipartiteHead(features, graph, coarse_features=sizes),
        photos_of(sizes, batch, torch.float32, features),
    )
    for parameter in head.parameters():
        parameter.data.normal_()
    target = torch.arange(batch) % fine

    def work(rank, exchange):
        part = ShardedHead(features, graph, exchange, rank=rank, size=3, coarse_features=sizes)
        part.take(head)
        mine, coarse = own = leaves(photos)
        loss = part.loss(mine, target, reduction="sum", coarse_features=coarse)
        loss = loss + 0.1 * part.smoothing(mine, target, coarse_features=coarse).sum()
        (loss + part.prior() if form == "one" else loss).backward()
        gradients = []
        changed(own, lambda one: gradients.append(one.grad))
        return loss.detach(), gradients, part

    loss, gradients, part = (found := together(3, work))[0]
    held = [[len(rows) for name, rows in one.named_parameters() if "coarse" in name] for *_, one in found]
    assert held[0] != held[1]  # not all of them are copies
    for other_loss, other_gradients, other in found[1:]:
        assert torch.equal(other_loss, loss)
        assert all(torch.equal(one, two) for one, two in zip(other_gradients, gradients, strict=True))
        for one, two in zip(copies(part), copies(other), strict=True):
            assert torch.equal(one, two)
        for own, theirs in zip(part.numbers.parameters(), other.numbers.parameters(), strict=True):
            assert torch.equal(own.grad, theirs.grad)


def copies(part):
    """The gradients of the coarse labels that all processes hold."""
    rows = {kind: part.shard.labels if kind == part.shard.kind else None for kind in part.graph.kinds}
    if isinstance(part.coarse, torch.nn.ModuleList):
        layers = [layer for layer, own in zip(part.coarse, rows.values(), strict=True) if own is None]
        return [parameter.grad for layer in layers for parameter in layer.parameters()]
    counts = [len(part.graph.labels(kind)) if own is None else len(own) for kind, own in rows.items()]
    shared = torch.tensor([own is None for own in rows.values()]).repeat_interleave(torch.tensor(counts))
    return [parameter.grad[shared] for parameter in part.coarse.parameters()]


@pytest.mark.deep
@pytest.mark.parametrize("size", SIZES)
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
@pytest.mark.parametrize("form", ["one", "two", "each"])
def test_answers_equal_one_head(size, form, scale, dtype, tolerance, monkeypatch):
    monkeypatch.setattr(label_rows, "_MIN_ROWS", 7)  # so that there are several chunks
    monkeypatch.setattr(label_rows, "_CHUNK", 7)
    lowest, close = 0.0, max(1e-9, 100 * tolerance)
    for graph in graphs():
        sizes = sizes_of(form, graph)
        head = whole_head(graph, scale, sizes).to(dtype)
        features, coarse = photos_of(sizes, 3, dtype)
        posterior = head(features, coarse)

        def work(rank, exchange, graph=graph, head=head, features=features, coarse=coarse, dtype=dtype):
            sizes, other = head.coarse_features, {"coarse_features": coarse}
            part = ShardedHead(FEATURES, graph, exchange, rank=rank, size=size, coarse_features=sizes).to(dtype)
            part.take(head)
            values = {name: part.value(features, name, **other) for name in graph.numbers}
            return part.top(features, 4, **other), part.all_kind_log_probs(features, graph.kinds, **other), values

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
@pytest.mark.parametrize("form", ["one", "two", "each"])
def test_the_same_seed_draws_the_same_head_and_comes_back_whole(size, form, monkeypatch):
    graph = with_numbers(plain_graph(), 5)
    sizes = sizes_of(form, graph)
    torch.manual_seed(3)
    expected = fg.BipartiteHead(FEATURES, graph, coarse_features=sizes).state_dict()
    other = whole_head(graph, sizes=sizes).float()
    lock, made = threading.Lock(), threading.Barrier(size)

    def work(rank, exchange):
        with lock:  # threads share one source of chance
            torch.manual_seed(3)
            part = ShardedHead(FEATURES, graph, exchange, rank=rank, size=size, coarse_features=sizes)
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
    part = ShardedHead(FEATURES, graph, Processes())
    doubting = fg.BipartiteHead(FEATURES, graph)
    doubting.doubt = 0.5
    for take in (part.take, part.take_first):
        with pytest.raises(InputError, match="does not support a doubt"):
            take(doubting)
    with pytest.raises(
        ShapeError, match="of the same graph, with 4 features and the same for coarse labels; got 5 and"
    ):
        part.take(fg.BipartiteHead(FEATURES + 1, graph))
    with pytest.raises(ShapeError, match="with 4 features and the same for coarse labels; got 4 and 3"):
        part.take(fg.BipartiteHead(FEATURES, graph, coarse_features=3))


@pytest.mark.usefixtures("unchecked")
def test_features_that_do_not_fit_are_refused_before_anything_is_exchanged():
    graph, photos = plain_graph(), torch.zeros(2, FEATURES)
    one, two, each = (
        ShardedHead(FEATURES, graph, NoExchange(), rank=0, size=2, coarse_features=sizes_of(form, graph))
        for form in ("one", "two", "each")
    )
    named = photos_of(sizes_of("each", graph), 2)[1]
    with pytest.raises(InputError, match="takes no coarse features"):
        one.top(photos, coarse_features=photos)
    for ask in (two.loss, two.smoothing):
        with pytest.raises(
            InputError, match=r"needs coarse features too: a tensor of shape \(batch, 3\), got NoneType"
        ):
            ask(photos, torch.tensor([0, 1]))
    with pytest.raises(ShapeError, match=r"coarse features: expected shape \(batch, 3\), got \(2, 4\)"):
        two.kind_log_probs(photos, "small", coarse_features=photos)
    with pytest.raises(ShapeError, match="coarse features: expected 2 rows, as many as features, got 1"):
        two.top(photos, coarse_features=photos[:1, :3])
    with pytest.raises(InputError, match="needs features per kind: a mapping from each of"):
        each.top(photos, coarse_features=photos)
    with pytest.raises(InputError, match="the kind 'wide' is missing"):
        each.top(photos, coarse_features={name: one for name, one in named.items() if name != "wide"})
    for head, what in ((two, "got 4 and 3"), (each, r"different feature sizes per kind, \[2, 3, 4\]")):
        with pytest.raises(ShapeError, match=what):
            head.prior()
    with pytest.raises(InputError, match="the kind 'small' is missing; give every kind a size"):
        ShardedHead(FEATURES, graph, NoExchange(), rank=0, size=2, coarse_features={"wide": 2})
