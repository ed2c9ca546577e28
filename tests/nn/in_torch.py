"""Heads and loss in other people's training loops: autocast, compile, export, pytrees, and several processes.

Run by `test_in_torch.py` in a process of its own, without the checks of shapes, which torch cannot trace.
"""

import os
import subprocess
import sys
import textwrap

import pytest
import torch
from torch.utils import _pytree as pytree

import finegraph as fg

MENU = fg.LabelGraph.from_table(
    {
        "mapo tofu @ A": {"dish": "mapo tofu", "restaurant": "A", "tofu": True},
        "mapo tofu @ B": {"dish": "mapo tofu", "restaurant": "B", "tofu": True},
        "kung pao @ B": {"dish": "kung pao", "restaurant": "B", "tofu": False},
        "soup @ A": {"dish": {"soup", "kung pao"}, "restaurant": "A", "tofu": None},
    }
)
VALUES = MENU.with_number(fg.Number.from_values("price", [12.0, 9.5, None, 8.0], [0.0, 1.5, 0.0, 0.0], scale="log"))
GRAPHS = {"plain": MENU.only(["restaurant"]), "mixed": MENU, "numbers": VALUES}
TARGET = torch.tensor([0, 3, 2, -100, 1])

# torch warns of what its own tracer does with autograd functions.
pytestmark = pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")


def bipartite(features, graph):
    """A bipartite head with random coarse weights, which start at 0 otherwise."""
    head = fg.BipartiteHead(features, graph)
    for part in (head.coarse, head.numbers):
        for parameter in () if part is None else part.parameters():
            torch.nn.init.normal_(parameter)
    return head


@pytest.fixture
def features():
    return torch.randn(5, 8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("graph", [MENU, VALUES], ids=["labels", "numbers"])
def test_autocast_loses_nothing_but_the_precision_of_the_scores(features, graph):
    head = bipartite(8, graph)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        posterior = head(features)
        loss = fg.joint_loss(posterior, TARGET)
        marginal = posterior.log_probs("dish")
        prior = fg.laplacian_prior(head)
    assert posterior.fine_scores.dtype == torch.bfloat16
    assert (loss.dtype, marginal.dtype, prior.dtype) == (torch.float32,) * 3
    numbers = None if posterior.number_scores is None else posterior.number_scores.double()
    scores = posterior.fine_scores.double(), posterior.coarse_scores.double()
    exact = fg.Posterior(graph, *scores, number_scores=numbers)
    assert loss.item() == pytest.approx(fg.joint_loss(exact, TARGET).item(), rel=1e-6)
    assert torch.allclose(marginal.double(), exact.log_probs("dish"), atol=1e-6)
    loss.backward()
    assert torch.isfinite(head.fine.weight.grad).all()


@pytest.mark.parametrize("name", GRAPHS)
def test_compiles_whole(features, name):
    head = bipartite(8, GRAPHS[name])

    def step(x, target):
        posterior = head(x)
        return fg.joint_loss(posterior, target) + 0.1 * fg.laplacian_prior(head), posterior.log_probs("restaurant")

    torch._dynamo.reset()
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    for function in (compiled, step):
        head.zero_grad()
        loss, marginal = function(features, TARGET)
        loss.backward()
        got = [loss.item(), marginal.detach(), *(one.grad.clone() for one in head.parameters())]
        if function is compiled:
            first = got
    assert first[0] == pytest.approx(got[0], rel=1e-5)
    for ours, theirs in zip(first[1:], got[1:], strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_compiled_head_returns_a_posterior(features):
    torch._dynamo.reset()
    head = bipartite(8, MENU)
    posterior = torch.compile(head, fullgraph=True, backend="aot_eager")(features)
    assert isinstance(posterior, fg.Posterior)
    assert torch.allclose(posterior.log_probs(), head(features).log_probs())


@pytest.mark.parametrize("name", GRAPHS)
def test_exports_with_the_inference_inside(features, name):
    class Answers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head = bipartite(8, GRAPHS[name])

        def forward(self, x):
            posterior = self.head(x)
            values = {name: posterior.value(name).mean.float() for name in self.head.graph.numbers}
            kinds = {kind: posterior.log_probs(kind) for kind in self.head.graph.kinds}
            return posterior.log_probs(), {**kinds, **values}

    model = Answers().eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(model, (features,), dynamic_shapes=({0: batch},))
    for size in (1, 5):
        fine, kinds = program.module()(features[:size])
        expected_fine, expected = model(features[:size])
        assert torch.allclose(fine, expected_fine, atol=1e-6)
        for kind, value in expected.items():
            assert torch.allclose(kinds[kind], value, atol=1e-6)
    assert not any("scatter_reduce" in str(node.target) for node in program.graph.nodes)


@pytest.mark.parametrize("graph", [MENU, VALUES], ids=["labels", "numbers"])
def test_an_exported_head_returns_a_posterior_also_after_saving(features, tmp_path, graph):
    head = bipartite(8, graph).eval()
    program = torch.export.export(head, (features,))
    torch.export.save(program, tmp_path / "head.pt2")
    posterior = torch.export.load(tmp_path / "head.pt2").module()(features)
    assert isinstance(posterior, fg.Posterior)
    assert posterior.graph == head.graph
    assert torch.allclose(posterior.log_probs("dish"), head(features).log_probs("dish"), atol=1e-6)


def test_a_posterior_is_a_pytree(features):
    posterior = bipartite(8, MENU)(features).given(restaurant="A")
    half = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor[:1], posterior)
    assert isinstance(half, fg.Posterior)
    assert torch.allclose(half.log_probs(), posterior.log_probs()[:1])


DISTRIBUTED = """
    import sys
    import torch, torch.distributed as dist
    import finegraph as fg
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    rank, port = int(sys.argv[1]), sys.argv[2]
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    graph = fg.LabelGraph.from_table({
        "a": {"dish": "x", "served": {"bowl", "plate"}}, "b": {"dish": "x", "served": "bowl"}, "c": {"dish": "y"}})
    graph = graph.with_number(fg.Number.from_values("price", [12.0, None, 9.0], [1.0, 0.0, 0.0]))
    torch.manual_seed(0)
    head = fg.BipartiteHead(8, graph).double()
    torch.nn.init.normal_(head.coarse.weight)
    torch.nn.init.normal_(head.numbers.weight)
    x, target = torch.randn(6, 8, dtype=torch.float64), torch.tensor([0, 1, 2, 2, 1, 0])
    fg.joint_loss(head(x), target).backward()
    alone = [parameter.grad.clone() for parameter in head.parameters()]
    head.zero_grad()
    model = DistributedDataParallel(head, find_unused_parameters=True)
    mine = slice(3 * rank, 3 * rank + 3)
    fg.joint_loss(model(x[mine]), target[mine]).backward()
    for parameter, expected in zip(head.parameters(), alone, strict=True):
        assert torch.allclose(parameter.grad, expected, atol=1e-12), rank
    print("the same gradient on rank", rank)
    dist.destroy_process_group()
"""


def test_two_processes_find_the_gradient_of_one(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(DISTRIBUTED))
    port = str(20_000 + os.getpid() % 20_000)
    ranks = [
        subprocess.Popen([sys.executable, script, str(rank), port], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for rank in range(2)
    ]
    for rank, process in enumerate(ranks):
        output = process.communicate(timeout=120)[0].decode()
        assert process.returncode == 0, output
        assert f"the same gradient on rank {rank}" in output
