"""What `joint_loss` takes, and what it refuses."""

import math

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

import finegraph as fg
from finegraph.errors import InputError, ShapeError, TargetError, UnknownNameError
from finegraph.inference.sums.graph_tensors import GraphTensors
from finegraph.inference.sums.targets import FROM_FINE

GRAPH = fg.LabelGraph.from_table(
    {
        "mapo tofu @ A": {"dish": "mapo tofu", "restaurant": "A", "tofu": True},
        "mapo tofu @ B": {"dish": "mapo tofu", "restaurant": "B", "tofu": True},
        "kung pao @ B": {"dish": "kung pao", "restaurant": "B", "tofu": False},
        "soup @ B": {"dish": "soup", "restaurant": "B", "tofu": None},
    }
)


def uniform(batch=1, graph=GRAPH):
    """A posterior in which all fine labels are equally probable."""
    return fg.Posterior(graph, torch.zeros(batch, len(graph), dtype=torch.float64))


def random(batch, seed=0, requires_grad=False):
    generator = torch.Generator().manual_seed(seed)
    fine = torch.randn(batch, 4, dtype=torch.float64, generator=generator, requires_grad=requires_grad)
    coarse = torch.randn(batch, 7, dtype=torch.float64, generator=generator, requires_grad=requires_grad)
    return fine, coarse


def test_the_terms_of_one_sample_by_hand():
    # dish mapo tofu 2/4, restaurant A 1/4; tofu: yes 2/4 and 2/3 (the known frequency) of the unknown quarter
    expected = -math.log(1 / 4) - math.log(2 / 4) - math.log(1 / 4) - math.log(2 / 4 + 2 / 3 / 4)
    assert fg.joint_loss(uniform(), torch.tensor([0])).item() == pytest.approx(expected)


def test_an_unknown_parent_adds_no_term():
    expected = -math.log(1 / 4) - math.log(1 / 4) - math.log(3 / 4)
    assert fg.joint_loss(uniform(), torch.tensor([3])).item() == pytest.approx(expected)


def test_kind_weights_scale_the_terms():
    losses = [fg.joint_loss(uniform(), torch.tensor([0]), kind_weights=w).item() for w in (0.0, 1.0, 0.5)]
    assert losses[0] == pytest.approx(math.log(4))
    assert losses[2] == pytest.approx((losses[0] + losses[1]) / 2)
    only_dish = fg.joint_loss(uniform(), torch.tensor([0]), kind_weights={"restaurant": 0.0, "tofu": 0.0}).item()
    assert only_dish == pytest.approx(math.log(4) + math.log(2))


def test_no_kinds_is_plain_cross_entropy():
    graph = fg.LabelGraph(["a", "b", "c"])
    scores = torch.randn(5, 3, requires_grad=True)
    target = torch.tensor([0, 1, 2, 1, -100])
    ours = torch.autograd.grad(fg.joint_loss(fg.Posterior(graph, scores), target), scores)[0]
    theirs = torch.autograd.grad(torch.nn.functional.cross_entropy(scores, target), scores)[0]
    assert torch.allclose(ours, theirs, atol=1e-6)


def test_reductions_agree():
    target = torch.tensor([0, 3, -100])
    each = fg.joint_loss(uniform(3), target, reduction="none")
    assert each.shape == (3,)
    assert each[2].item() == 0.0
    assert fg.joint_loss(uniform(3), target, reduction="sum").item() == pytest.approx(each.sum().item())
    assert fg.joint_loss(uniform(3), target).item() == pytest.approx(each.sum().item() / 2)


def test_a_batch_with_nothing_observed_is_zero_with_zero_gradient():
    fine, coarse = random(3, requires_grad=True)
    for target in (torch.full((3,), -100), None, torch.zeros(3, 4, dtype=torch.bool)):
        loss = fg.joint_loss(fg.Posterior(GRAPH, fine, coarse), target)
        grads = torch.autograd.grad(loss, (fine, coarse))
        assert loss.item() == 0.0
        assert all(torch.equal(grad, torch.zeros_like(grad)) for grad in grads)


def test_an_empty_batch_is_zero():
    loss = fg.joint_loss(uniform(0), torch.zeros(0, dtype=torch.int64))
    assert loss.item() == 0.0


def test_a_missing_fine_label_leaves_what_was_seen_on_the_photo():
    loss = fg.joint_loss(uniform(), torch.tensor([-100]), {"dish": torch.tensor([0])})
    assert loss.item() == pytest.approx(math.log(2))


def test_an_image_level_label_takes_the_place_of_the_classs():
    loss = fg.joint_loss(uniform(), torch.tensor([0]), {"restaurant": torch.tensor([1])})
    class_level = fg.joint_loss(uniform(), torch.tensor([0]))
    assert loss.item() == pytest.approx(class_level.item() - math.log(4) - math.log(3 / 4))
    ignored = fg.joint_loss(uniform(), torch.tensor([0]), {"restaurant": torch.tensor([-100])})
    assert ignored.item() == pytest.approx(class_level.item() - math.log(4))


def test_another_ignore_index():
    target = torch.tensor([0, -1])
    assert fg.joint_loss(uniform(2), target, ignore_index=-1).item() == pytest.approx(
        fg.joint_loss(uniform(), torch.tensor([0])).item()
    )
    with_zero = fg.joint_loss(uniform(2), torch.tensor([0, 1]), ignore_index=0, reduction="none")
    assert with_zero[0].item() == 0.0
    assert with_zero[1].item() > 0


def test_a_set_of_one_equals_its_label_where_parents_are_single():
    mask = torch.tensor([[False, True, False, False]])
    assert fg.joint_loss(uniform(), mask).item() == pytest.approx(fg.joint_loss(uniform(), torch.tensor([1])).item())


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_gradcheck(reduction):
    fine, coarse = random(3, seed=1, requires_grad=True)
    target = torch.tensor([0, 3, -100])
    seen = {"dish": torch.tensor([-100, 1, 2])}

    def loss(fine, coarse):
        return fg.joint_loss(fg.Posterior(GRAPH, fine, coarse), target, seen, 0.7, reduction)

    assert gradcheck(loss, (fine, coarse))


def test_the_gradient_scales_with_what_flows_into_it():
    fine, coarse = random(3, requires_grad=True)
    each = fg.joint_loss(fg.Posterior(GRAPH, fine, coarse), torch.tensor([0, 1, 2]), reduction="none")
    factor = torch.tensor([2.0, 0.0, -1.0], dtype=torch.float64)
    whole = torch.autograd.grad(each, fine, factor, retain_graph=True)[0]
    rows = [torch.autograd.grad(each[row], fine, retain_graph=True)[0][row] for row in range(3)]
    assert torch.allclose(whole, factor[:, None] * torch.stack(rows))


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (
            {"target": torch.tensor([0, 1])},
            ShapeError,
            r"target: expected one label per sample, shape \(1,\), got \(2,\)",
        ),
        ({"target": torch.tensor([4])}, TargetError, "target: sample 0 has label 4, expected 0 to 3, or -100"),
        ({"target": torch.tensor([-1])}, TargetError, "target: sample 0 has label -1"),
        ({"target": torch.tensor([0.0])}, TargetError, "expected label indices"),
        ({"target": torch.ones(1, 3).bool()}, ShapeError, r"expected a mask of shape \(1, 4\), got \(1, 3\)"),
        (
            {"target": None, "kind_targets": {"dsh": torch.tensor([0])}},
            UnknownNameError,
            "unknown kind 'dsh'; did you mean 'dish'",
        ),
        (
            {"target": None, "kind_targets": {"dish": torch.tensor([3])}},
            TargetError,
            r"kind_targets\['dish'\]: sample 0 has label 3, expected 0 to 2",
        ),
        ({"target": None, "kind_weights": {"dsh": 1.0}}, UnknownNameError, "unknown kind 'dsh' in kind_weights"),
        ({"target": None, "kind_weights": -1.0}, InputError, "the weight of kind 'dish' must be a finite number"),
        ({"target": None, "kind_weights": {"dish": math.nan}}, InputError, "the weight of kind 'dish' must be"),
        ({"target": None, "reduction": "average"}, InputError, "reduction is 'mean', 'sum' or 'none', got 'average'"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_targets_are_refused(arguments, error, text):
    with pytest.raises(error, match=text):
        fg.joint_loss(uniform(), **arguments)


def test_a_label_that_no_fine_label_can_have_is_refused():
    graph = fg.LabelGraph.from_parents(["a", "b"], {"kind": [0, 1]}, {"kind": ["x", "y", "never"]})
    for target in (None, torch.ones(1, 2).bool()):
        with pytest.raises(
            TargetError, match=r"kind_targets\['kind'\]: no fine label of the graph can have .* 'never'"
        ):
            fg.joint_loss(uniform(1, graph), target, {"kind": torch.tensor([2])})


def test_one_row_with_very_many_parents_does_not_widen_all():
    names = [f"{i}" for i in range(1000)]
    weights = np.zeros((1000, 800))
    weights[np.arange(1000), np.arange(1000) % 800] = 1.0
    weights[3] = 1.0
    graph = fg.LabelGraph.from_matrix(names, {"k": weights}, {"k": [f"c{c}" for c in range(800)]})
    table = GraphTensors(graph).by_groups.targets
    assert table.column.shape == (1000, 0)  # a table of parents would have 800 columns
    assert table.of_batch(torch.tensor([5, 6]), weighted=False).column.shape == (2, 1)
    assert table.of_batch(torch.tensor([5, 3]), weighted=False).column.shape == (2, 800)
    scores, coarse = torch.randn(4, 1000, dtype=torch.float64), torch.randn(4, 800, dtype=torch.float64)
    target = torch.tensor([5, 3, 803, 3])
    posterior = fg.Posterior(graph, scores, {"k": coarse})
    fine, kind = posterior.log_probs(), posterior.log_probs("k")
    expected = -fine.gather(1, target[:, None]).squeeze(1) - torch.stack(
        [kind[0, 5], kind[1].mean(), kind[2, 3], kind[3].mean()]
    )
    assert torch.allclose(fg.joint_loss(posterior, target, reduction="none"), expected, atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("as_sets", [False, True])
def test_a_photo_without_a_label_of_its_own_has_what_the_graph_says_of_its_class(weighted, as_sets):
    rows = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.2, 0.3, 0.5], [0.0, 0.1, 0.9]]).numpy()
    if not weighted:
        rows = (rows > 0).astype(float)
    graph = fg.LabelGraph.from_matrix(["a", "b", "c", "d"], {"dish": rows}, {"dish": ("x", "y", "z")})
    torch.manual_seed(0)
    posterior = fg.Posterior(graph, torch.randn(4, 4), {"dish": torch.randn(4, 3)})
    target = torch.tensor([0, 1, 2, 3])
    target = torch.eye(4, dtype=torch.bool) if as_sets else target
    seen = {"dish": torch.tensor([FROM_FINE, 0, FROM_FINE, -100])}
    found = fg.joint_loss(posterior, target, seen, reduction="none")
    of_class = fg.joint_loss(posterior, target, reduction="none")
    of_photo = fg.joint_loss(posterior, target, {"dish": torch.tensor([0, 0, 0, -100])}, reduction="none")
    expected = torch.stack([of_class[0], of_photo[1], of_class[2], of_photo[3]])
    torch.testing.assert_close(found, expected)
    assert (of_class[0] - of_photo[0]).abs() > 1e-3
