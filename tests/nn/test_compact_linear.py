"""Layers with rounded weights: how far scores and probabilities move."""

import pytest
import torch

import finegraph as fg
from finegraph.errors import InputError
from finegraph.nn import compact_linear
from finegraph.nn.compact_linear import CompactLinear, compact_head

GRAPH = fg.LabelGraph.from_table({f"fine {i}": {"dish": f"dish {i % 5}", "tofu": bool(i % 2)} for i in range(30)})


def made_head():
    torch.manual_seed(0)
    head = fg.BipartiteHead(16, GRAPH)
    torch.nn.init.normal_(head.coarse.weight)
    return head


@pytest.mark.parametrize("form", ["bfloat16", "int8"])
@pytest.mark.parametrize("batch", [1, 3])
def test_scores_are_off_by_the_rounding_of_weights_alone(form, batch, monkeypatch):
    monkeypatch.setattr(compact_linear, "_ROWS_AT_ONCE", 7)
    layer = made_head().fine
    small, x = CompactLinear(layer, form), torch.randn(batch, 16)
    largest = layer.weight.abs().amax(dim=1)
    off = largest / 127 / 2 if form == "int8" else largest / 256
    bound = x.abs().sum(dim=1, keepdim=True) * off * 1.001 + 1e-5
    difference = (small(x) - layer(x)).abs().detach()
    assert bool((difference <= bound).all())
    assert float(difference.max()) > 1e-5  # they are rounded
    assert small.rows.element_size() == (1 if form == "int8" else 2)


def test_a_compact_head_answers_as_the_head_does():
    head, x = made_head(), torch.randn(4, 16)
    before = {name: value.clone() for name, value in head.state_dict().items()}
    for form, limit in (("bfloat16", 0.02), ("int8", 0.03)):
        small = compact_head(head, form)
        for kind in (None, *GRAPH.kinds):
            assert torch.allclose(small(x).probs(kind), head(x).probs(kind), atol=limit)
    assert all(torch.equal(value, before[name]) for name, value in head.state_dict().items())
    assert isinstance(head.fine, torch.nn.Linear)
    softmax = fg.SoftmaxHead(16, GRAPH)
    assert torch.allclose(compact_head(softmax, "int8")(x).probs(), softmax(x).probs(), atol=0.01)


def test_a_row_of_zeros_and_no_bias():
    layer = torch.nn.Linear(4, 3, bias=False)
    torch.nn.init.zeros_(layer.weight)
    assert torch.equal(CompactLinear(layer, "int8")(torch.randn(2, 4)), torch.zeros(2, 3))


def test_features_per_kind_are_refused():
    head = fg.BipartiteHead(4, GRAPH, coarse_features={"dish": 2, "tofu": 3})
    with pytest.raises(InputError, match="no compact form"):
        compact_head(head, "int8")
