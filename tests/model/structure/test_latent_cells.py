"""Cells that are learnt along with a head: no turn makes things less probable, and hidden cells are found."""

import itertools

import numpy as np
import pytest
import torch

from finegraph.graph import LabelGraph
from finegraph.inference import Posterior, joint_loss
from finegraph.model.fitting import FitSettings
from finegraph.model.structure.latent_cells import LatentCells, Scored, best_weights, fit_with_cells, move_cells


def graph_with_gaps():
    rows = {
        "a": {"dish": "x", "hot": True},
        "b": {"dish": "y", "hot": None},
        "c": {"dish": None, "hot": False},
        "d": {"dish": None, "hot": None},
        "e": {"dish": "z", "hot": True},
    }
    return LabelGraph.from_table(rows)


def cells_of(graph, strength=0.5):
    places = {name: torch.from_numpy(graph.kind(name).unknown.copy()) for name in graph.kinds}
    prior = {
        name: torch.full((len(graph), len(graph.labels(name))), 1.0 / len(graph.labels(name)), dtype=torch.float64)
        for name in graph.kinds
    }
    return LatentCells(places=places, prior=prior, strength=torch.full((len(graph),), strength, dtype=torch.float64))


def scored_photos(graph, photos=12, seed=0, weight=0.7):
    draw = torch.Generator().manual_seed(seed)
    coarse = sum(len(graph.labels(kind)) for kind in graph.kinds)
    return Scored(
        fine_scores=torch.randn(photos, len(graph), generator=draw, dtype=torch.float64),
        coarse_scores=2.0 * torch.randn(photos, coarse, generator=draw, dtype=torch.float64),
        number_scores=None,
        fine=torch.randint(len(graph), (photos,), generator=draw),
        kind_targets={},
        kind_weights=dict.fromkeys(graph.kinds, weight),
    )


def test_members_are_those_of_enumeration():
    graph = cells_of(graph_with_gaps()).on(graph_with_gaps())
    photos, kind = scored_photos(graph), "dish"
    places = torch.tensor([False, False, True, True, False])
    found = photos.statistics(graph, kind, places)
    matrices = {name: graph.kind(name).matrix() for name in graph.kinds}
    members, expected = np.zeros((5, 3)), np.zeros((5, 3))
    for photo in range(len(photos.fine)):
        joint = {}
        for fine, dish, hot in itertools.product(range(5), range(3), range(2)):
            scores = (
                photos.fine_scores[photo, fine]
                + photos.coarse_scores[photo, dish]
                + photos.coarse_scores[photo, 3 + hot]
            )
            joint[fine, dish, hot] = matrices["dish"][fine, dish] * matrices["hot"][fine, hot] * float(scores.exp())
        own = int(photos.fine[photo])
        events = [(1.0, lambda fine, dish, hot, own=own: fine == own)]
        events += [(0.7 * matrices["dish"][own, c], lambda fine, dish, hot, c=c: dish == c) for c in range(3)]
        events += [(0.7 * matrices["hot"][own, c], lambda fine, dish, hot, c=c: hot == c) for c in range(2)]
        total = sum(joint.values())
        for weight, holds in events:
            inside = {place: value for place, value in joint.items() if holds(*place)}
            for (fine, dish, _), value in inside.items():
                members[fine, dish] += weight * value / max(sum(inside.values()), 1e-300)
            for (fine, dish, _), value in joint.items():
                expected[fine, dish] += weight * value / total
    torch.testing.assert_close(found.members.numpy(), members[2:4], rtol=1e-9, atol=1e-9)
    rows = torch.from_numpy(matrices["dish"])[places]
    torch.testing.assert_close((found.expected * rows).numpy(), expected[2:4], rtol=1e-9, atol=1e-9)


@pytest.mark.deep
@pytest.mark.parametrize("weight", [0.0, 0.7, 3.0])
def test_no_step_makes_things_less_probable(weight):
    cells = cells_of(graph_with_gaps())
    for seed in range(5):
        graph = cells.on(graph_with_gaps())
        photos = scored_photos(graph, seed=seed, weight=weight)
        values = []
        for _ in range(12):
            values.append(_value(graph, cells, photos))
            graph = move_cells(graph, cells, photos, passes=1)
        assert all(two >= one for one, two in itertools.pairwise(values))
        assert values[-1] > values[0] + 1e-3
        assert graph.matrix("dish")[:2].tolist() == graph_with_gaps().matrix("dish")[:2].tolist()


def _value(graph, cells, photos):
    """The log likelihood and the log prior, by other means than those of the module."""
    posterior = Posterior(graph, photos.fine_scores, photos.coarse_scores)
    total = -float(joint_loss(posterior, photos.fine, None, photos.kind_weights, "sum"))
    for name, places in cells.places.items():
        rows = torch.from_numpy(graph.kind(name).matrix())[places]
        total += 0.5 * float((cells.prior[name][places] * rows.log()).sum())
    return total


def test_the_best_weights_have_one_slope():
    draw = torch.Generator().manual_seed(3)
    members, expected = (torch.rand(6, 4, generator=draw, dtype=torch.float64) for _ in range(2))
    members[0, 1] = 0.0
    found = best_weights(members, 5.0 * expected)
    torch.testing.assert_close(found.sum(dim=1), torch.ones(6, dtype=torch.float64))
    slope = members / found - 5.0 * expected
    assert found[0, 1] == 0.0
    slope[0, 1] = slope[0, 0]
    torch.testing.assert_close(slope - slope[:, :1], torch.zeros_like(slope), rtol=0, atol=1e-8)


@pytest.mark.deep
def test_hidden_cells_are_found_by_descent():
    random = np.random.default_rng(0)
    parents = np.arange(24) % 4
    graph = LabelGraph.from_parents(
        [f"item {number}" for number in range(24)], {"dish": parents}, {"dish": ["p", "q", "r", "s"]}
    )
    hidden = LabelGraph.from_parents(
        graph.fine, {"dish": np.where(np.arange(24) < 8, -1, parents)}, {"dish": graph.labels("dish")}
    )
    means = random.normal(0, 3.0, (4, 6))[parents] + random.normal(0, 0.5, (24, 6))
    fine = np.repeat(np.arange(24), 6)
    features = torch.from_numpy(means[fine] + random.normal(0, 1.0, (len(fine), 6)))
    cells = cells_of(hidden)
    start = cells.on(hidden)
    found = fit_with_cells(features, torch.from_numpy(fine), start, FitSettings(l2=0.05), cells)
    assert found.fit.head.graph.matrix("dish")[:8].argmax(axis=1).tolist() == parents[:8].tolist()
    assert all(after >= before for before, after in found.values)
    again = fit_with_cells(features, torch.from_numpy(fine), start, FitSettings(l2=0.05), cells)
    assert again.fit.head.graph == found.fit.head.graph
    assert torch.equal(again.fit.head.fine.weight, found.fit.head.fine.weight)
