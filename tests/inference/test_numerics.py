"""Extreme scores stay finite, and float32 is as exact as its inputs allow."""

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.inference.sums.graph_tensors import GraphTensors
from finegraph.inference.sums.strategy import Strategy


def menu_sized_graph(fine, kinds, seed=0):
    """A graph with binary kinds, kinds of a few labels, and one with many labels."""
    rng = np.random.default_rng(seed)
    parents = {"many": rng.integers(0, max(2, fine // 3), fine)}
    for j in range(kinds - 1):
        parents[f"kind {j}"] = rng.integers(0, 2 if j % 2 else 7, fine)
    for index in parents.values():
        index[0] = index.max()
    return fg.LabelGraph.from_parents([f"fine {i}" for i in range(fine)], parents)


def answers(graph, fine, coarse, target, tensors=None):
    """Everything that a training step computes, from leaves of the dtype of the scores."""
    fine, coarse = fine.clone().requires_grad_(), coarse.clone().requires_grad_()
    posterior = fg.Posterior(graph, fine, coarse, tensors=tensors)
    loss = fg.joint_loss(posterior, target, reduction="none")
    loss.sum().backward()
    with torch.no_grad():
        kinds = torch.cat([posterior.log_probs(kind) for kind in graph.kinds[:3]], dim=1)
        return {
            "fine": posterior.log_probs(),
            "kinds": kinds,
            "loss": loss,
            "grad": fine.grad,
            "coarse grad": coarse.grad,
        }


def largest_error(value, expected):
    """The largest error relative to max(1, |expected|); infinite where one is minus infinity, or not finite, alone."""
    if not torch.equal(value.isneginf(), expected.isneginf()):
        return torch.inf
    error = (value.double() - expected).abs() / expected.abs().clamp_min(1)
    return error[~expected.isneginf()].nan_to_num(nan=torch.inf).max().item()


@pytest.fixture(scope="module")
def large():
    graph = menu_sized_graph(10_000, 300)
    return graph, sum(len(graph.labels(kind)) for kind in graph.kinds)


@pytest.mark.deep
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_large_scores_are_finite_and_exact(large, dtype, scale):
    graph, columns = large
    generator = torch.Generator().manual_seed(3)
    fine = (torch.rand(2, len(graph), generator=generator) * 2 - 1) * scale
    coarse = (torch.rand(2, columns, generator=generator) * 2 - 1) * scale
    target = torch.tensor([5, 9_000])
    got = answers(graph, fine.to(dtype), coarse.to(dtype), target)
    expected = answers(graph, fine.to(dtype).double(), coarse.to(dtype).double(), target)
    for name, value in got.items():
        error = largest_error(value, expected[name])
        # A gradient comes back in the narrow format of the scores, so only its size can be compared there.
        narrow = dtype != torch.float32 and "grad" in name
        assert error <= (torch.finfo(dtype).eps if narrow else 1e-5), name


@pytest.mark.deep
@pytest.mark.parametrize("scale", [0.5, 1, 2, 4, 10, 30, 100, 1000, 1e4])
@pytest.mark.parametrize(("fine_count", "kinds"), [(30, 3), (200, 28), (300, 52)])
def test_float32_is_within_1e5_of_float64(fine_count, kinds, scale):
    graph = menu_sized_graph(fine_count, kinds, seed=kinds)
    generator = torch.Generator().manual_seed(int(scale * 10))
    fine = torch.randn(8, fine_count, generator=generator) * scale
    coarse = torch.randn(8, sum(len(graph.labels(kind)) for kind in graph.kinds), generator=generator) * scale
    target = torch.randint(fine_count, (8,), generator=generator)
    got, expected = (answers(graph, f, c, target) for f, c in ((fine, coarse), (fine.double(), coarse.double())))
    for name, value in got.items():
        assert largest_error(value, expected[name]) <= 1e-5, name


def percentages(fine, kinds, labels, seed=0):
    """A graph of weighted kinds, as percentages make them: all rows of a kind differ."""
    rng = np.random.default_rng(seed)
    rows = {f"kind {j}": rng.dirichlet(np.full(labels, 0.3), fine) for j in range(kinds)}
    for matrix in rows.values():
        matrix[rng.random(matrix.shape) < 0.1] = 0.0
        matrix[matrix.sum(axis=1) < 0.1] = 1.0
        matrix[0] = 0.0  # unknown
    names = [f"fine {i}" for i in range(fine)]
    return fg.LabelGraph.from_matrix(names, rows, {kind: [f"{c}" for c in range(labels)] for kind in rows})


@pytest.mark.deep
@pytest.mark.parametrize("scale", [0.5, 4, 30, 300, 1e4])
@pytest.mark.parametrize(("kinds", "labels"), [(5, 9), (70, 2)])
def test_weighted_kinds_are_as_exact_by_products_as_by_edges(kinds, labels, scale):
    graph = percentages(40, kinds, labels)
    generator = torch.Generator().manual_seed(int(scale * 10))
    fine = torch.randn(6, 40, generator=generator) * scale
    coarse = torch.randn(6, kinds * labels, generator=generator) * scale
    target = torch.randint(40, (6,), generator=generator)
    quick, edges = GraphTensors(graph), GraphTensors(graph, Strategy(weights=False))
    assert quick.by_weights is not None
    assert edges.by_weights is None
    expected = answers(graph, fine.double(), coarse.double(), target, edges)
    for dtype in (torch.float32, torch.float64):
        got = answers(graph, fine.to(dtype), coarse.to(dtype), target, quick)
        for name, value in got.items():
            assert largest_error(value, expected[name]) <= (1e-5 if dtype == torch.float32 else 1e-9), name


def test_a_weighted_target_of_vanishing_probability_keeps_its_exact_loss_and_gradient():
    share = np.linspace(0.2, 0.8, 12)
    rows = np.stack([np.where(np.arange(12) < 5, share, 0), 1 - share, np.where(np.arange(12) < 5, 0, share)], axis=1)
    graph = fg.LabelGraph.from_matrix([f"{i}" for i in range(12)], {"k": rows}, {"k": ["x", "y", "z"]})
    fine, coarse = torch.zeros(1, 12, dtype=torch.float64), torch.zeros(1, 3, dtype=torch.float64)
    fine[0, 5:] = -1000.0  # so z, the label of these alone, has a probability of about e^-1000
    tensors = GraphTensors(graph)
    got = answers(graph, fine, coarse, torch.tensor([7]), tensors)
    assert tensors.tables_for(coarse) is tensors.by_weights
    expected = answers(graph, fine, coarse, torch.tensor([7]), GraphTensors(graph, Strategy(weights=False)))
    assert got["loss"].item() > 1000 + 1000 * share[7]
    for name, value in got.items():
        assert largest_error(value, expected[name]) <= 1e-12, name


def test_a_target_of_vanishing_probability_keeps_its_exact_loss_and_gradient():
    graph = fg.LabelGraph.from_table(
        {"a": {"dish": "x", "tofu": True}, "b": {"dish": "x", "tofu": False}, "c": {"dish": "y", "tofu": False}}
    )
    scores = torch.tensor([[-500.0, -600.0, 300.0]], requires_grad=True)
    loss = fg.joint_loss(fg.Posterior(graph, scores), torch.tensor([0]))
    loss.backward()
    # p_a = e^-800; both x and tofu: yes have the same tiny probability, up to b's share of e^-100
    assert loss.item() == pytest.approx(3 * 800)
    assert scores.grad.tolist() == [[pytest.approx(-3.0), pytest.approx(0.0, abs=1e-12), pytest.approx(3.0)]]


def test_nothing_is_clamped_at_the_edge_of_underflow():
    """Losses rise smoothly through the point where float32 probabilities vanish."""
    graph = menu_sized_graph(12, 4)
    target = torch.tensor([3])
    losses = []
    for gap in torch.linspace(60, 110, 101):
        fine = torch.zeros(1, 12)
        fine[0, 3] = -gap
        losses.append(fg.joint_loss(fg.Posterior(graph, fine), target).item())
    steps = np.diff(losses)
    assert np.allclose(steps, steps[0], atol=2e-4)


def test_minus_infinity_rules_a_label_out_without_nan():
    graph = menu_sized_graph(12, 4)
    scores = torch.zeros(1, 12)
    scores[0, :6] = -torch.inf
    scores.requires_grad_()
    posterior = fg.Posterior(graph, scores)
    assert posterior.log_probs()[0, :6].isneginf().all()
    loss = fg.joint_loss(posterior, torch.tensor([7]))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.equal(scores.grad[0, :6], torch.zeros(6))


def test_a_removed_edge_gives_exactly_nothing():
    graph = fg.LabelGraph.from_matrix(
        ["a", "b"], {"kind": np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])}, {"kind": ["x", "y", "z"]}
    )
    posterior = fg.Posterior(graph, torch.zeros(1, 2), {"kind": torch.randn(1, 3)}).given(fine="a")
    assert posterior.probs("kind")[0, 2].item() == 0.0
    assert posterior.log_probs("kind")[0, 2].isneginf()


@pytest.mark.parametrize("chunk", [1 << 21, 30_000])
def test_chunks_with_weighted_and_plain_kinds_side_by_side_are_exact(chunk):
    """The plain kinds go by rows, whose gradients have memory of their own."""
    rng = np.random.default_rng(4)
    share = rng.beta(0.5, 1.5, (40, 6))
    rows = {f"weighted {j}": np.stack([1 - share[:, j], share[:, j]], axis=1) for j in range(6)}
    rows |= {f"plain {j}": np.eye(5)[rng.integers(5, size=40)] for j in range(8)}
    labels = {kind: [f"{c}" for c in range(matrix.shape[1])] for kind, matrix in rows.items()}
    graph = fg.LabelGraph.from_matrix([f"fine {i}" for i in range(40)], rows, labels)
    tensors = GraphTensors(graph, Strategy(by="rows", weights=True, chunk=chunk))
    generator = torch.Generator().manual_seed(2)
    fine = torch.randn(64, 40, generator=generator)
    coarse = torch.randn(64, 6 * 2 + 8 * 5, generator=generator)
    target = torch.randint(40, (64,), generator=generator)
    expected = answers(graph, fine.double(), coarse.double(), target, GraphTensors(graph, Strategy(weights=False)))
    for name, value in answers(graph, fine, coarse, target, tensors).items():
        assert largest_error(value, expected[name]) <= 1e-5, name


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("dense_kinds", [0, 4])
@pytest.mark.parametrize("by", ["rows", "columns"])
def test_no_sample_depends_on_how_many_others_there_are(by, dense_kinds):
    graph = menu_sized_graph(25, 4)
    tensors = GraphTensors(graph, Strategy(by=by, dense_kinds=dense_kinds, blocks=False))
    generator = torch.Generator().manual_seed(5)
    fine = torch.randn(40, len(graph), generator=generator)
    coarse = torch.randn(40, tensors.coarse_count, generator=generator)
    together = fg.Posterior(graph, fine, coarse, tensors=tensors).marginals()
    for count in (1, 2, 3, 7, 16, 19, 33):
        some = fg.Posterior(graph, fine[-count:], coarse[-count:], tensors=tensors).marginals()
        assert torch.equal(some.fine, together.fine[-count:])
        assert torch.equal(some.coarse, together.coarse[-count:])


@pytest.mark.usefixtures("one_thread")
def test_mixed_rows_of_a_sample_do_not_depend_on_others():
    weights = np.random.default_rng(1).dirichlet(np.ones(40), size=30)
    table = {f"fine {i}": {"part": {f"part {j}": float(w) for j, w in enumerate(row)}} for i, row in enumerate(weights)}
    graph = fg.LabelGraph.from_table(table)
    tensors = GraphTensors(graph, Strategy(weights=True))
    fine, coarse = torch.randn(2, 24, 40, generator=torch.Generator().manual_seed(6))
    together = fg.Posterior(graph, fine[:, :30], coarse, tensors=tensors).log_probs()
    for row in range(24):
        alone = fg.Posterior(graph, fine[row : row + 1, :30], coarse[row : row + 1], tensors=tensors).log_probs()
        assert torch.equal(alone[0], together[row])
