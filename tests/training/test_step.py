"""One step: its loss, its gradient, its chance, and what a learning rate means."""

import math
from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch
from torch.nn import functional

from finegraph.data.dataset import MISSING, Batch
from finegraph.errors import NonFiniteError, PhotoFileError
from finegraph.graph import LabelGraph, Number
from finegraph.inference import Posterior, joint_loss
from finegraph.nn import NetworkDesign, build_network, laplacian_prior
from finegraph.training.distributed import Ranks
from finegraph.training.guard import StopRequest
from finegraph.training.optimizer import make_optimizer
from finegraph.training.recipes import RECIPES
from finegraph.training.settings import TrainSettings
from finegraph.training.step import Stepper, moving_statistics, observed, summed_loss

GRAPH = LabelGraph.from_table(
    {
        "a": {"dish": "x", "egg": True},
        "b": {"dish": "x", "egg": False},
        "c": {"dish": "y", "egg": True},
        "d": {"dish": "z"},
    }
)
BARE = LabelGraph.from_table({"a": {}, "b": {}, "c": {}, "d": {}})
PLAIN = replace(RECIPES["short"], label_smoothing=0.0, momentum=0.0, weight_decay=0.0, lr=0.1, new_rate=1.0)


def make_batch(fine=(0, 1, 2, 3), bad=(), **kinds):
    images = torch.randint(0, 256, (len(fine), 3, 32, 32), dtype=torch.uint8, generator=torch.manual_seed(1))
    targets = {kind: torch.tensor(labels) for kind, labels in kinds.items()}
    return Batch(images, torch.tensor(fine), targets, torch.arange(len(fine)), tuple(bad))


def make_stepper(graph=GRAPH, recipe=PLAIN, network="tiny", dropout=0.0, head="bipartite", fixed=True, **settings):
    tiny.register()
    torch.manual_seed(0)
    built = build_network(graph, NetworkDesign(network=network, head=head), dropout=dropout)
    if fixed:
        built.backbone.fix_statistics()
    built.train()
    return Stepper(
        network=built,
        optimizer=make_optimizer(built, recipe),
        settings=TrainSettings(**settings),
        recipe=recipe,
        ranks=Ranks(),
        names=[f"photos/{number}.jpg" for number in range(10)],
    )


def weights_of(stepper):
    return {name: weight.detach().clone() for name, weight in stepper.network.named_parameters()}


@pytest.mark.parametrize("head", ["bipartite", "softmax"])
@pytest.mark.parametrize(
    "batch",
    [
        make_batch(),
        make_batch(fine=(0, MISSING, 2, MISSING), egg=[1, 0, MISSING, MISSING]),
        make_batch(fine=(MISSING, MISSING), dish=[MISSING, 2]),
    ],
    ids=["whole", "gaps", "kinds alone"],
)
def test_the_loss_is_the_mean_joint_loss_and_the_step_goes_down_its_gradient(head, batch):
    stepper = make_stepper(recipe=replace(PLAIN, kind_weight=0.5, scale_rates=False), head=head)
    before = weights_of(stepper)
    mean = joint_loss(stepper.network(batch.images), batch.fine, batch.kinds, 0.5)
    gradients = torch.autograd.grad(mean, list(stepper.network.parameters()), allow_unused=True)
    result = stepper(0, batch, StopRequest())
    assert result.loss / result.count == pytest.approx(mean.item(), rel=1e-5)
    for (name, weight), gradient in zip(stepper.network.named_parameters(), gradients, strict=True):
        expected = before[name] - 0.1 * (0.0 if gradient is None else gradient)
        torch.testing.assert_close(weight.detach(), expected, rtol=1e-4, atol=1e-6, msg=name)


def test_by_default_the_kinds_weigh_as_much_as_the_fine_label():
    stepper, batch = make_stepper(), make_batch()
    mean = joint_loss(stepper.network(batch.images), batch.fine, None, 1 / 2)
    result = stepper(0, batch, StopRequest())
    assert result.loss / result.count == pytest.approx(mean.item(), rel=1e-5)


@pytest.mark.parametrize("share", [0.1, 0.7])
def test_label_smoothing_is_that_of_torch(share):
    scores = torch.randn(5, len(GRAPH), dtype=torch.float64, requires_grad=True)
    fine = torch.tensor([0, 3, MISSING, 1, 1])
    recipe = replace(PLAIN, label_smoothing=share, kind_weight=0.0)
    ours = summed_loss(Posterior(GRAPH, scores), fine, {}, recipe)
    torchs = functional.cross_entropy(scores, fine, label_smoothing=share, reduction="sum", ignore_index=MISSING)
    torch.testing.assert_close(ours, torchs)
    (one,), (two,) = torch.autograd.grad(ours, scores), torch.autograd.grad(torchs, scores)
    torch.testing.assert_close(one, two)


def test_which_samples_count():
    batch = make_batch(fine=(0, MISSING, MISSING), egg=[MISSING, 1, MISSING], dish=[MISSING, MISSING, MISSING])
    assert observed(batch).tolist() == [True, True, False]
    assert make_stepper()(0, batch, StopRequest()).count == 2


def test_auxiliary_heads_count_for_less():
    stepper, batch = make_stepper(network="tiny_auxiliary"), make_batch()
    posterior, (auxiliary,) = stepper.network.forward_with_auxiliary(batch.images)
    expected = joint_loss(posterior, batch.fine, None, 0.5) + 0.3 * joint_loss(auxiliary, batch.fine, None, 0.5)
    result = stepper(0, batch, StopRequest())
    assert result.loss / result.count == pytest.approx(expected.item(), rel=1e-5)
    assert all(weight.grad is not None for weight in stepper.network.auxiliary_heads.parameters())


def test_the_prior_counts_once_whatever_the_batch():
    moved = []
    for strength in (0.0, 0.25):
        stepper = make_stepper(recipe=replace(PLAIN, scale_rates=False), laplacian=strength)
        before, prior = weights_of(stepper), laplacian_prior(stepper.network.head)
        (gradient,) = torch.autograd.grad(prior, stepper.network.head.fine.weight)
        stepper(0, make_batch(), StopRequest())
        moved.append(stepper.network.head.fine.weight.detach() - before["head.fine.weight"])
    torch.testing.assert_close(moved[1] - moved[0], -0.1 * 0.25 * gradient, rtol=1e-4, atol=1e-6)


def test_a_batch_without_photos_moves_nothing_of_its_own():
    bad = PhotoFileError("a.jpg", "no photo")
    stepper = make_stepper(recipe=replace(PLAIN, momentum=0.5))
    stepper(0, make_batch(), StopRequest())
    before = weights_of(stepper)
    nothing = Batch(torch.empty(0, dtype=torch.uint8), torch.empty(0, dtype=torch.int64), {}, torch.empty(0), (bad,))
    result = stepper(1, nothing, StopRequest())
    assert (result.loss, result.count, result.bad) == (0.0, 0, (bad,))
    fine = stepper.network.head.fine.weight
    assert not torch.equal(fine, before["head.fine.weight"])  # the momentum of the step before
    assert bool(fine.isfinite().all())


def test_a_graph_without_kinds():
    stepper = make_stepper(BARE)
    before = weights_of(stepper)
    result = stepper(0, make_batch(), StopRequest())
    assert math.isfinite(result.loss)
    assert not torch.equal(stepper.network.head.fine.weight, before["head.fine.weight"])


def test_chance_depends_on_seed_and_step_alone():
    def loss(step, seed=0, noise=0):
        stepper = make_stepper(dropout=0.5, seed=seed)
        torch.manual_seed(noise)
        return stepper(step, make_batch(), StopRequest()).loss

    assert loss(3) == loss(3, noise=9)
    assert len({loss(3), loss(4), loss(3, seed=1)}) == 3


@pytest.mark.parametrize("precision", ["bfloat16", "float64"])
def test_other_precisions(precision):
    losses = []
    for name in ("float32", precision):
        stepper = make_stepper(precision=name)
        stepper.network.to(torch.float64 if name == "float64" else torch.float32)
        losses.append(stepper(0, make_batch(), StopRequest()).loss)
        assert stepper.network.head.fine.weight.dtype == (torch.float64 if name == "float64" else torch.float32)
    assert losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


def test_statistics_that_are_fixed_are_no_business_of_others():
    assert len(moving_statistics(make_stepper(fixed=False).network)) == 2
    assert moving_statistics(make_stepper(fixed=True).network) == []


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_step_that_meets_nan_is_not_taken(value):
    stepper = make_stepper(recipe=replace(PLAIN, momentum=0.9))
    stepper(0, make_batch(), StopRequest())
    stepper.network.head.fine.bias.data[2] = value
    before = weights_of(stepper)
    pattern = r"step 8: the loss became NaN or infinite, first in head.fine\..*The photos: photos/0.jpg, photos/1.jpg"
    with pytest.raises(NonFiniteError, match=pattern):
        stepper(7, make_batch(), StopRequest())
    for name, weight in stepper.network.named_parameters():
        assert torch.equal(weight.nan_to_num(5.0), before[name].nan_to_num(5.0)), name


def test_a_request_is_heard_in_the_step_in_which_it_comes():
    stepper, request = make_stepper(), StopRequest()
    hook = stepper.network.backbone.first.register_forward_hook(lambda *_: request(2, None))
    assert stepper(0, make_batch(), request).stop
    hook.remove()
    assert not stepper(1, make_batch(), StopRequest()).stop
    late = StopRequest()
    stepper.optimizer.register_step_post_hook(lambda *_: late(2, None))
    assert stepper(2, make_batch(), late).stop


def many_kinds(kinds, fine=40):
    random = np.random.default_rng(kinds)
    return LabelGraph.from_table(
        {f"fine {i}": {f"kind {j}": f"label {random.integers(4)}" for j in range(kinds)} for i in range(fine)}
    )


def move_of_joint_scores(kinds, scaled, head="bipartite"):
    """How far one step at the same rate moves the joint scores."""
    recipe = replace(PLAIN, lr=0.05, scale_rates=scaled, kind_weight=0.0 if head == "softmax" else None)
    stepper = make_stepper(many_kinds(kinds), recipe, head=head)
    batch = make_batch(fine=tuple(range(0, 40, 3)))
    stepper.network.backbone.requires_grad_(False)

    def scores():
        with torch.no_grad():
            found = stepper.network(batch.images).log_probs()
        return found - found.mean(dim=1, keepdim=True)

    before = scores()
    stepper(0, batch, StopRequest())
    return (scores() - before).norm().item()


def test_a_rate_means_the_same_for_every_head_and_graph():
    softmax = move_of_joint_scores(3, scaled=True, head="softmax")
    scaled = [move_of_joint_scores(kinds, scaled=True) / softmax for kinds in (0, 3, 30)]
    plain = [move_of_joint_scores(kinds, scaled=False) / softmax for kinds in (0, 3, 30)]
    assert scaled[0] == pytest.approx(1.0)
    assert all(1 / 3 < one < 3 for one in scaled), scaled
    assert plain[0] == pytest.approx(1.0)
    assert plain[1] > 3
    assert plain[2] > 3 * plain[1], plain


def test_values_measured_on_photos_are_in_the_loss():
    graph = GRAPH.with_number(Number.from_values("mass", [100.0, 200.0, None, 50.0], 10.0))
    stepper = make_stepper(graph)
    batch = make_batch((0, MISSING, MISSING, 3), mass=[120.0, 90.0, math.nan, math.nan])
    batch = batch._replace(kinds={"mass": batch.kinds["mass"].double()})
    assert observed(batch).tolist() == [True, True, False, True]
    posterior = Posterior(graph, torch.randn(4, 4))
    expected = joint_loss(posterior, batch.fine, batch.kinds, 1 / 3, "sum")
    torch.testing.assert_close(summed_loss(posterior, batch.fine, batch.kinds, PLAIN), expected)
    assert stepper(0, batch, StopRequest()).count == 3
