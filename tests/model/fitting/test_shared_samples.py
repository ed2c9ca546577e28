"""The closed form of several processes: that of one process on all samples, however they are shared out."""

from dataclasses import asdict, replace

import pytest
import torch

import finegraph as fg
from finegraph.errors import TargetError
from finegraph.inference.processes import ONE_PROCESS
from finegraph.model.fitting import shared_samples
from finegraph.model.fitting.labelled_samples import usable_samples
from finegraph.model.fitting.prototypes import PrototypeSettings, fit_prototypes, fit_shared_prototypes
from finegraph.model.fitting.shared_samples import SharedSamples
from thread_ranks import ThreadRanks

SIZE = 16


def graph_of(fine=20):
    table = {f"label {i}": {"dish": f"dish {i // 3}", "shop": f"shop {i % 4}"} for i in range(fine)}
    return fg.LabelGraph.from_table(table)


def photos(graph, counts, seed=0, dtype=torch.float64):
    """Samples of classes that differ, in an order that mixes them, with copies among them."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.repeat_interleave(torch.arange(len(graph)), torch.tensor(counts))
    means = torch.randn(len(graph), SIZE, generator=generator, dtype=torch.float64)
    features = (means[targets] + 0.7 * torch.randn(len(targets), SIZE, generator=generator)).to(dtype) + 5.0
    order = torch.randperm(len(targets), generator=generator)
    order = torch.cat([order, order[:5]])
    return features[order], targets[order]


def compare(alone, shared, tolerance):
    """Strengths and heads are the same."""
    one, other = asdict(alone.strengths), asdict(shared.strengths)
    assert one.pop("covariance") == other.pop("covariance")
    variances = one.pop("variances"), other.pop("variances")
    kinds = variances[0].pop("kinds"), variances[1].pop("kinds")
    assert variances[0].pop("numbers") == variances[1].pop("numbers") == {}
    for first, second in ((one, other), variances, kinds):
        assert first == pytest.approx(second, rel=tolerance, abs=tolerance)
    for (name, mine), theirs in zip(alone.head.state_dict().items(), shared.head.state_dict().values(), strict=True):
        torch.testing.assert_close(theirs, mine, rtol=tolerance, atol=tolerance, msg=name)
    torch.testing.assert_close(shared.sums.sums, alone.sums.sums, rtol=tolerance, atol=tolerance)
    assert torch.equal(shared.sums.counts, alone.sums.counts)


@pytest.mark.deep
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("counts", [[4] * 20, [1] * 20, [9, 0, 1, 2] * 5], ids=["four", "one", "uneven"])
def test_several_processes_fit_what_one_fits(monkeypatch, size, counts):
    monkeypatch.setattr(shared_samples, "_MAX_NUMBERS", 1)  # 64 samples at a time
    graph = graph_of()
    x, y = photos(graph, counts)
    val = photos(graph, [2] * 20, seed=1) if size == 2 else None
    alone = fit_prototypes(x, y, graph, val=val)

    def work(rank):
        own = slice(rank.rank, None, size)
        return fit_shared_prototypes(x[own], y[own], graph, val=val if rank.first else None, processes=rank)

    first, *others = ThreadRanks(size).run(work)
    assert others == [None] * (size - 1)
    compare(alone, first, 1e-6)


def test_skewed_features_are_compressed_alike():
    graph = graph_of()
    x, y = photos(graph, [4] * 20)
    x = (x - 5.0).exp()
    alone = fit_prototypes(x, y, graph)

    def work(rank):
        return fit_shared_prototypes(x[rank.rank :: 3], y[rank.rank :: 3], graph, processes=rank)

    compare(alone, ThreadRanks(3).run(work)[0], 1e-6)
    assert alone.scaling.compressed


def test_views_blocks_and_weights_are_shared_out_too(monkeypatch):
    monkeypatch.setattr(shared_samples, "MAX_SELECTION_LABELS", 9)
    graph = graph_of()
    x, y = photos(graph, [6] * 20, dtype=torch.float32)
    views = x[:, None] + 0.3 * torch.randn(len(x), 3, SIZE, generator=torch.Generator().manual_seed(2))
    weight = torch.rand(len(x), generator=torch.Generator().manual_seed(3)) + 0.5
    given = {"block_sizes": (10, 6)}
    alone = fit_prototypes(views.mean(dim=1), y, graph, views=views, sample_weight=weight, **given)

    def work(rank):
        own = [slice(0, 0), slice(0, 70), slice(70, None)][rank.rank]  # the first process has no photo
        mean = views[own].mean(dim=1)
        more = {"views": views[own], "sample_weight": weight[own], "processes": rank}
        return fit_shared_prototypes(mean, y[own], graph, **given, **more)

    compare(alone, ThreadRanks(3).run(work)[0], 1e-5)


def test_no_process_gets_more_than_a_part_of_the_samples(monkeypatch):
    graph = graph_of(40)
    x, y = photos(graph, [30] * 40)
    monkeypatch.setattr(shared_samples, "MAX_SELECTION_LABELS", 8)
    most = []

    def work(rank):
        class Counted(type(rank)):
            def all_rows(self, rows):
                found = super().all_rows(rows)
                most.append(len(found))
                return found

        own = slice(rank.rank, None, 2)
        shared = SharedSamples(usable_samples(x[own], y[own], graph, None, (SIZE,)), graph, Counted(rank.rank, 2))
        part = shared.selected(max_samples=40)
        shared.axes("within")
        return part

    for samples, labels, part in ThreadRanks(2).run(work):
        assert len(samples) == 40
        assert [graph.fine[label] for label in labels] == list(part.fine)
    assert max(most) <= 2 * 40


def test_what_is_selected_does_not_depend_on_order_or_processes():
    graph = graph_of()
    x, y = photos(graph, [9] * 20)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(7))

    def selected(rank, rows):
        shared = SharedSamples(usable_samples(x[rows], y[rows], graph, None, (SIZE,)), graph, rank)
        return shared.selected(7, 21)[0]

    alone = selected(ONE_PROCESS, order)
    for found in ThreadRanks(3).run(lambda rank: selected(rank, order[rank.rank :: 3])):
        torch.testing.assert_close(found.features, alone.features, rtol=1e-12, atol=1e-12)
        assert torch.equal(found.targets, alone.targets)
        assert torch.equal(found.weight, alone.weight)


def test_all_processes_are_told_that_there_are_no_samples():
    graph = graph_of()
    x, y = photos(graph, [2] * 20)

    def work(rank):
        with pytest.raises(TargetError, match="at least one sample with a fine label"):
            fit_shared_prototypes(x[:9], torch.full_like(y[:9], -100), graph, processes=rank)

    ThreadRanks(2).run(work)


def test_strengths_that_are_given_are_used_by_all():
    graph = graph_of()
    x, y = photos(graph, [4] * 20)
    strengths = replace(fit_prototypes(x, y, graph).strengths, shrinkage=0.7)
    alone = fit_prototypes(x, y, graph, PrototypeSettings(doubt=False), strengths=strengths)

    def work(rank):
        own, settings = slice(rank.rank, None, 2), PrototypeSettings(doubt=False)
        return fit_shared_prototypes(x[own], y[own], graph, settings, strengths=strengths, processes=rank)

    compare(alone, ThreadRanks(2).run(work)[0], 1e-9)
