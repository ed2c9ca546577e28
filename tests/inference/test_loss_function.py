"""The loss as a function of tensors: who owns which memory, backward again, parts of a batch, and no gradients."""

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.inference.sums.graph_tensors import GraphTensors
from finegraph.inference.sums.strategy import Strategy
from reference.random_graphs import FORMS, random_graph


def case(form="several parents", batch=7, dtype=torch.float32):
    """A small graph with scores and targets; the third sample's target has a vanishing probability."""
    graph = random_graph(np.random.default_rng(8), form).graph
    generator = torch.Generator().manual_seed(1)
    fine = torch.randn(batch, len(graph), generator=generator).to(dtype)
    coarse = torch.randn(batch, sum(len(graph.labels(kind)) for kind in graph.kinds), generator=generator).to(dtype)
    target = torch.randint(len(graph), (batch,), generator=generator)
    fine[2, target[2]] = -900.0
    return graph, fine, coarse, target


BY = [Strategy(by="rows"), Strategy(by="columns")]


def gradients(graph, fine, coarse, tensors, loss_of):
    """The loss and its gradients."""
    fine, coarse = fine.clone().requires_grad_(), coarse.clone().requires_grad_()
    loss = loss_of(fg.Posterior(graph, fine, coarse, tensors=tensors))
    loss.sum().backward()
    return loss.detach(), fine.grad, coarse.grad


@pytest.mark.parametrize("strategy", BY, ids=lambda strategy: strategy.by)
def test_scores_stay_as_they_are(strategy):
    graph, fine, coarse, target = case()
    tensors = GraphTensors(graph, strategy)
    before = fine.clone(), coarse.clone()
    inner = fine.t().contiguous().t()  # samples as the inner axis, as sums by rows have them
    for given in (fine, inner):
        for own in (coarse, None):
            leaf = given.requires_grad_()
            fg.joint_loss(fg.Posterior(graph, leaf, own, tensors=tensors), target).backward()
            assert torch.equal(leaf.detach(), before[0])
    assert torch.equal(coarse, before[1])


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("strategy", BY, ids=lambda strategy: strategy.by)
def test_backward_again_gives_the_same_gradient(strategy, reduction):
    graph, fine, coarse, target = case()
    fine.requires_grad_()
    coarse.requires_grad_()
    posterior = fg.Posterior(graph, fine, coarse, tensors=GraphTensors(graph, strategy))
    loss = fg.joint_loss(posterior, target, reduction=reduction).sum()
    loss.backward(retain_graph=True)
    once = fine.grad.clone(), coarse.grad.clone()
    fine.grad.zero_()  # which must not reach into what the loss keeps
    coarse.grad.zero_()
    loss.backward(retain_graph=True)
    assert torch.equal(fine.grad, once[0])
    assert torch.equal(coarse.grad, once[1])
    loss.backward()
    assert torch.equal(fine.grad, 2 * once[0])


@pytest.mark.parametrize("strategy", BY, ids=lambda strategy: strategy.by)
def test_a_factor_of_the_loss_is_one_of_the_gradient(strategy):
    graph, fine, coarse, target = case()
    tensors = GraphTensors(graph, strategy)
    plain = gradients(graph, fine, coarse, tensors, lambda posterior: fg.joint_loss(posterior, target))
    scaled = gradients(graph, fine, coarse, tensors, lambda posterior: 4096 * fg.joint_loss(posterior, target))
    for one, other in zip(plain, scaled, strict=True):
        assert torch.equal(4096 * one, other)


@pytest.mark.parametrize("strategy", BY, ids=lambda strategy: strategy.by)
def test_without_gradients_the_loss_is_the_same(strategy):
    graph, fine, coarse, target = case()
    tensors = GraphTensors(graph, strategy)
    expected = gradients(graph, fine, coarse, tensors, lambda posterior: fg.joint_loss(posterior, target))[0]
    with torch.no_grad():
        assert fg.joint_loss(fg.Posterior(graph, fine, coarse, tensors=tensors), target).item() == expected.item()


@pytest.mark.deep
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("form", FORMS)
def test_chunks_of_a_batch_make_the_whole(form, reduction):
    graph, fine, coarse, target = case(form, dtype=torch.float64)
    target[4] = -100

    def results(strategy):
        tensors = GraphTensors(graph, strategy)
        found = [
            gradients(graph, fine, coarse, tensors, lambda p: fg.joint_loss(p, target, reduction=reduction)),
            gradients(graph, fine, coarse, tensors, lambda p: fg.joint_loss(p, target, kind_weights=0.5)),
        ]
        alone = fine.clone().requires_grad_()
        fg.joint_loss(fg.Posterior(graph, alone, tensors=tensors), target, reduction=reduction).sum().backward()
        return [value for value in (*found[0], *found[1], alone.grad) if value is not None]

    whole = results(Strategy(by="columns"))
    chunks = results(Strategy(by="columns", chunk=3 * len(graph)))
    for part, expected in zip(chunks, whole, strict=True):
        assert torch.allclose(part, expected, rtol=0, atol=1e-12)


def test_a_mean_over_some_samples_is_as_exact_as_the_scores():
    graph, fine, coarse, target = case(dtype=torch.float64)
    target[4] = -100
    each = fg.joint_loss(fg.Posterior(graph, fine, coarse), target, reduction="none")
    mean = fg.joint_loss(fg.Posterior(graph, fine, coarse), target)
    assert mean.item() == pytest.approx(each.sum().item() / 6, rel=1e-14)


def test_the_loss_does_not_keep_itself_alive():
    import gc
    import weakref

    graph, fine, coarse, target = case()
    gc.disable()
    try:
        loss = fg.joint_loss(fg.Posterior(graph, fine.requires_grad_(), coarse), target, reduction="none")
        gone = weakref.ref(loss)
        del loss
        assert gone() is None
    finally:
        gc.enable()
