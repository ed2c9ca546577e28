"""Tables of very many indices are kept in 32 bits and without weights of 1: answers, losses and gradients stay."""

import numpy as np
import torch

import finegraph as fg
from finegraph.inference import numerics
from finegraph.inference.sums import graph_tensors as graph_tensors_file
from finegraph.inference.sums.graph_tensors import GraphTensors, GroupMembers, graph_tensors

TABLE = {
    f"item {n}": {
        "dish": f"dish {n % 12}",
        "place": {f"place {n % 3}": 0.3, f"place {(n + 1) % 3}": 0.7} if n % 4 == 0 else f"place {n % 3}",
        "hot": None if n % 5 == 0 else n % 2 == 0,
        "side": f"side {n % 2}",
    }
    for n in range(36)
}


def computed():
    """Everything that reads the tables, of a new graph."""
    graph = fg.LabelGraph.from_table(TABLE)
    torch.manual_seed(0)
    fine = torch.randn(9, len(graph), dtype=torch.float64, requires_grad=True)
    coarse = {
        kind: torch.randn(9, len(graph.labels(kind)), dtype=torch.float64, requires_grad=True) for kind in graph.kinds
    }
    target = torch.arange(9) * 4 % 36
    target[2] = -100
    posterior = fg.Posterior(graph, fine, coarse)
    loss = fg.joint_loss(
        posterior, target, kind_targets={"dish": torch.tensor([1, -100, 3, -100, 2, -100, 0, 5, -100])}
    )
    loss = loss + posterior.kind_log_probs("place", posterior.log_probs()).exp().square().sum()
    loss.backward()
    with torch.no_grad():
        marginals = posterior.marginals()
        shares = [posterior.unknown_share(kind) for kind in graph.kinds]
    values = [loss.detach(), fine.grad, *(part.grad for part in coarse.values()), *marginals, *shares]
    return values, graph


def test_compact_tables_change_nothing(monkeypatch):
    wide, graph = computed()
    tensors = graph_tensors(graph)
    assert tensors.by_groups.targets.column.dtype == torch.int64
    monkeypatch.setattr(numerics, "_MANY_INDICES", 0)
    monkeypatch.setattr(graph_tensors_file, "MAX_COPIED", 0)
    narrow, graph = computed()
    tensors = graph_tensors(graph)
    assert tensors.by_groups.targets.column.dtype == torch.int32
    assert {table.dtype for table in tensors.kinds[0].members.tables if table.numel()} == {torch.int32}
    own = {table.data_ptr() for kind in tensors.kinds for table in kind.members.tables if table.numel()}
    members = numerics.shared_constants(GroupMembers, graph, numerics.CPU)
    assert {table.data_ptr() for table in members.tables if table.numel()} == own  # shared, not copied
    for before, after in zip(wide, narrow, strict=True):
        torch.testing.assert_close(before, after, rtol=1e-13, atol=1e-13)


def test_weights_of_one_are_not_kept():
    plain = GraphTensors(fg.LabelGraph.from_table({name: {"side": row["side"]} for name, row in TABLE.items()}))
    assert (plain.by_groups.targets.all_one, plain.by_groups.targets.weight.numel()) == (True, 0)
    graph = fg.LabelGraph.from_table(TABLE)
    table = GraphTensors(graph).by_groups.targets
    unit = [kind for place, kind in enumerate(table.kind) if place not in table.weighted.tolist()]
    assert [graph.kinds[kind] for kind in unit] == ["dish", "side"]
    found = table.of_batch(torch.arange(len(graph)), weighted=True)
    for place, kind in enumerate(found.kind):
        own = graph.kind(graph.kinds[kind])
        step = place - found.kind.index(kind)
        expected = np.zeros(len(graph))
        for fine in np.flatnonzero(own.row_sizes > step):
            expected[fine] = own.weight[own.starts[fine] + step]
        np.testing.assert_array_equal(found.weight[:, 1 + place].numpy(), expected)


def test_indices_that_do_not_fit_stay_wide(monkeypatch):
    monkeypatch.setattr(numerics, "_MANY_INDICES", 1)
    assert numerics.compact_indices(np.array([0, 2**31 - 1])).dtype == np.int32
    assert numerics.compact_indices(np.array([0, 2**31])).dtype == np.int64
    assert numerics.compact_indices(np.array([7])).dtype == np.int64
