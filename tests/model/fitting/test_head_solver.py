"""Which solver fits a head and why, on what strengths are chosen, and that a head is fitted alike a second time."""

import pytest
import torch

from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.model.fitting import FitSettings, fit_head, head_solver
from finegraph.model.fitting.feature_scales import FeatureScales
from finegraph.model.fitting.head_solver import SolverSettings, choose_strengths, closed_form_ignores, solve_head
from finegraph.model.fitting.prototypes import PrototypeSettings, fit_prototypes
from finegraph.model.fitting.selection import LabelledFeatures, compare_settings, grid_settings
from finegraph.model.fitting.solver_choice import SolverChoice
from finegraph.model.structure.latent_cells import CellDescent, LatentCells, fit_with_cells

GRAPH = LabelGraph.from_table({f"c{i}": {"dish": f"d{i // 2}"} for i in range(6)})
DESCENT = SolverSettings(solver="descent")


def samples(count=3, noise=0.3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    means = torch.randn(6, 8, generator=torch.Generator().manual_seed(9))
    targets = torch.arange(6).repeat_interleave(count)
    features = means[targets] + noise * torch.randn(len(targets), 8, generator=generator)
    return LabelledFeatures(5.0 * features, targets)


def same(one, two):
    return all(torch.equal(value, two.state_dict()[name]) for name, value in one.state_dict().items())


@pytest.mark.deep
def test_the_closed_form_unless_held_out_samples_prefer_descent(monkeypatch):
    given = samples()
    solved = solve_head(given, GRAPH)
    assert (solved.solver, "held-out samples" in solved.reason) == ("prototypes", True)
    fit = fit_prototypes(given.features, given.targets, GRAPH)
    assert same(solved.head, fit.head)
    assert same(solved.scaling, fit.scaling)
    assert solved.chosen == fit.strengths
    best = FitSettings(l2=0.02, tolerance=0.5)
    choice = SolverChoice(solver="descent", reason="it is better", settings=best, log_likelihoods={})
    monkeypatch.setattr(head_solver, "choose_solver", lambda *_, **__: choice)
    solved = solve_head(given, GRAPH)
    assert (solved.solver, solved.reason, solved.scaling) == ("descent", "it is better", None)
    assert solved.chosen == FitSettings(l2=0.02)
    assert same(solved.head, fit_head(given.features, given.targets, GRAPH, FitSettings(l2=0.02)).head)


@pytest.mark.parametrize(
    ("more", "settings", "reason"),
    [
        ({}, {"descent_only": ("l2", "choose")}, "the closed form has no l2, choose"),
        ({"coarse_features": torch.eye(18)}, {}, "the closed form has one feature for fine and coarse labels"),
        (
            {"kind_targets": {"dish": torch.arange(18) // 6}},
            {},
            "the closed form knows nothing of photo labels, and there are some of dish",
        ),
    ],
)
def test_descent_where_the_closed_form_has_no_use_for_what_is_given(more, settings, reason):
    solved = solve_head(samples()._replace(**more), GRAPH, SolverSettings(**settings))
    assert (solved.solver, solved.reason) == ("descent", reason)


def test_the_closed_form_alone_where_descent_could_not_come_to_an_end(monkeypatch):
    monkeypatch.setattr(head_solver, "_MAX_PRODUCTS", 100)
    monkeypatch.setattr(head_solver, "choose_solver", lambda *_, **__: pytest.fail("they were compared"))
    solved = solve_head(samples(), GRAPH)
    reason = "each step of descent would take minutes with 6 fine labels and 18 samples"
    assert (solved.solver, solved.reason) == ("prototypes", reason)
    assert solve_head(samples(), GRAPH, SolverSettings(solver="descent")).solver == "descent"


@pytest.mark.deep
def test_a_named_solver_needs_no_reason():
    given = samples()
    descent, closed = (solve_head(given, GRAPH, SolverSettings(solver=name)) for name in ("descent", "prototypes"))
    assert (descent.solver, descent.reason, descent.prototypes) == ("descent", None, None)
    assert (closed.solver, closed.reason, closed.search) == ("prototypes", None, None)
    settings = SolverSettings(solver="prototypes", shrinkage=2.0, doubt=False)
    own = fit_prototypes(given.features, given.targets, GRAPH, PrototypeSettings(shrinkage=2.0, doubt=False))
    assert same(solve_head(given, GRAPH, settings).head, own.head)
    with pytest.raises(InputError, match="solver: expected 'auto', 'descent' or 'prototypes', got 'magic'"):
        SolverSettings(solver="magic")


def test_photo_labels_are_refused_by_the_closed_form():
    given = samples()._replace(kind_targets={"dish": torch.arange(18) // 6})
    with pytest.raises(InputError, match="say nothing about class means; leave out dish, or use solver='descent'"):
        solve_head(given, GRAPH, SolverSettings(solver="prototypes"))
    table = {"a": {"hot": 1.0, "size": (2.0, 1.0)}, "b": {"hot": 2.0, "size": 3.0}}
    numbers = LabelGraph.from_table(table, types={"hot": "number", "size": "number"})
    assert closed_form_ignores(numbers, {"hot": torch.ones(1), "size": torch.ones(1)}) == ["hot"]


def test_labels_of_kinds_without_weight_are_refused_or_ignored():
    given = samples()._replace(kind_targets={"dish": torch.arange(18) // 6})
    softmax = SolverSettings(solver="descent", descent=FitSettings(head="softmax"))
    with pytest.raises(InputError, match="its weight in the loss is 0"):
        solve_head(given, GRAPH, softmax)
    ignored = SolverSettings(solver="descent", descent=FitSettings(head="softmax"), ignore_unused=True)
    assert same(solve_head(given, GRAPH, ignored).head, solve_head(samples(), GRAPH, softmax).head)


def test_a_head_of_scaled_features_takes_unscaled_ones():
    given = samples()
    solved = solve_head(given, GRAPH, SolverSettings(solver="descent", scale=True))
    scale = FeatureScales.of(given.features).fine
    head = fit_head(given.features / scale, given.targets, GRAPH).head
    torch.testing.assert_close(solved.head(given.features).log_probs(), head(given.features / scale).log_probs())
    assert not same(solved.head, solve_head(given, GRAPH, DESCENT).head)


@pytest.mark.deep
def test_strengths_are_chosen_on_validation_samples_else_on_folds_else_not_at_all():
    given, val, grid = samples(noise=2.0), samples(noise=2.0, seed=1), {"l2": [1.0, 0.1, 0.001]}
    settings = SolverSettings(solver="descent", grid=grid, grid_tolerance=1e-3)
    tried = grid_settings(FitSettings(tolerance=1e-3), grid)
    for held_out in (val, None):
        solved = solve_head(given, GRAPH, settings, val=held_out)
        found = compare_settings(tried, GRAPH, given, held_out)
        assert solved.search.best == found.best
        assert solved.chosen == FitSettings(l2=tried[found.best].l2)
    folds = [(torch.arange(17).numpy(), torch.tensor([17]).numpy())]
    assert len(solve_head(given, GRAPH, settings, folds=folds).search.sizes) == 1
    assert choose_strengths(samples(count=1), GRAPH, settings) == (FitSettings(), None)
    assert choose_strengths(given, GRAPH, DESCENT, val) == (FitSettings(), None)
    nobody = LabelledFeatures(val.features[:0], val.targets[:0])
    assert choose_strengths(given, GRAPH, settings, nobody)[1].best == compare_settings(tried, GRAPH, given).best


@pytest.mark.deep
@pytest.mark.parametrize("solver", ["prototypes", "descent"])
def test_a_head_is_fitted_alike_with_what_was_chosen(solver):
    first = solve_head(samples(), GRAPH, SolverSettings(solver=solver, grid={"l2": [0.1, 0.01]}))
    again = solve_head(samples(), GRAPH, chosen=first.chosen)
    assert (again.solver, again.reason, again.chosen) == (solver, None, first.chosen)
    assert same(again.head, first.head)
    other = solve_head(samples(seed=1), GRAPH, chosen=first.chosen)
    assert other.chosen == first.chosen
    assert not same(other.head, first.head)


@pytest.mark.deep
def test_what_is_recorded_is_json_with_a_weight_for_each_kind():
    descent = solve_head(samples(), GRAPH, SolverSettings(solver="descent", descent=FitSettings(l2=0.02)))
    assert (descent.strengths["l2"], descent.strengths["kind_weight"]) == (0.02, {"dish": 1.0})
    plain = solve_head(samples(), GRAPH, SolverSettings(solver="descent", descent=FitSettings(coarse_ratio=torch.inf)))
    assert (plain.strengths["coarse_ratio"], plain.strengths["kind_weight"]) == (None, {"dish": 0.0})
    closed = solve_head(samples(), GRAPH)
    assert closed.strengths["shrinkage"] == closed.prototypes.shrinkage
    assert closed.strengths["held_out"] == closed.prototypes.held_out > 0


@pytest.mark.deep
def test_cells_move_along_with_descent_but_not_with_softmax():
    given = samples()
    prior = torch.full((6, 3), 1 / 3, dtype=torch.float64)
    places = torch.tensor([True, *[False] * 5])
    cells = LatentCells(places={"dish": places}, prior={"dish": prior}, strength=torch.ones(6, dtype=torch.float64))
    graph, descent = cells.on(GRAPH), CellDescent(cells)
    solved = solve_head(given, graph, DESCENT, descent=descent)
    both = fit_with_cells(given.features, given.targets, graph, FitSettings(), cells)
    assert same(solved.head, both.fit.head)
    assert descent.notes == (both.words,)
    softmax = SolverSettings(solver="descent", descent=FitSettings(head="softmax"))
    assert same(solve_head(given, graph, softmax, descent=descent).head, solve_head(given, graph, softmax).head)
    assert descent.notes == ()
