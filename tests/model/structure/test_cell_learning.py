"""Cells that are hidden are found again, cells that are wrong stand out, and nothing that is known changes."""

import numpy as np
import pytest
import torch

from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.model.fitting.class_means import Variances
from finegraph.model.structure.cell_learning import learn_cells
from model.structure.drawn_means import drawn, with_parents


def test_hidden_cells_are_found_by_photos():
    graph, counts, means, variances = drawn()
    hidden = with_parents(
        with_parents(graph, "dish", dict.fromkeys(range(15), -1)), "tofu", dict.fromkeys(range(9), -1)
    )
    learnt = learn_cells(hidden, counts, means, variances, clues=("photos",))
    assert learnt.beliefs["dish"][:15].argmax(dim=1).tolist() == graph.parents("dish")[:15].tolist()
    assert learnt.beliefs["tofu"][:9].argmax(dim=1).tolist() == graph.parents("tofu")[:9].tolist()
    assert min(learnt.trust["photos"].values()) > 0.1
    filled = learnt.filled()
    assert not filled.kind("dish").unknown.any()
    assert filled.parents("tofu")[9:].tolist() == graph.parents("tofu")[9:].tolist()


def test_wrong_cells_come_first():
    graph, counts, means, variances = drawn()
    wrong = {number: int((graph.parents("dish")[number] + 1) % 6) for number in (3, 20, 41)}
    learnt = learn_cells(with_parents(graph, "dish", wrong), counts, means, variances)
    doubtful = [cell for cell in learnt.cells() if cell.contradicts]
    assert {cell.fine for cell in doubtful[:3]} == {"item 3", "item 20", "item 41"}
    worst = doubtful[0]
    assert worst.label == graph.labels("dish")[graph.parents("dish")[graph.fine_index(worst.fine)]]
    assert worst.words.startswith(f"{worst.fine}: photos say dish: {worst.label}, odds ")
    assert worst.words.endswith(f"to 1; the table says {worst.table}")
    assert 0.0 < learnt.error < 0.1


def test_odds_count_the_table_as_far_as_it_is_right():
    graph, counts, means, variances = drawn()
    clean = learn_cells(graph, counts, means, variances)
    assert clean.error < 0.01
    assert not [cell for cell in clean.cells() if cell.contradicts and cell.odds >= 40]
    learnt = learn_cells(graph, counts, 0.3 * means, variances)
    own, others = torch.from_numpy(graph.parents("dish")), len(graph.labels("dish")) - 1
    for row, table in enumerate(own.tolist()):
        alone, given = learnt.beliefs["dish"][row], learnt.weights["dish"][row]
        other = (table + 1) % (others + 1)
        expected = float(alone[other] / alone[table]) * learnt.error / (1.0 - learnt.error) / others
        assert float(given[other] / given[table]) == pytest.approx(expected, rel=1e-6)
    cell = min((cell for cell in learnt.cells() if cell.kind == "dish"), key=lambda one: one.table_posterior)
    assert cell.odds == pytest.approx(cell.posterior / cell.table_posterior)
    hidden = learn_cells(with_parents(graph, "tofu", {3: -1}), counts, means, variances)
    (empty,) = (cell for cell in hidden.cells() if cell.table is None)
    assert empty.odds == pytest.approx(empty.odds_if_empty)


@pytest.mark.deep
@pytest.mark.parametrize("share", [0.0, 0.05, 0.1])
def test_the_share_of_wrong_cells_is_estimated(share):
    """Of 200 cells each of two kinds; by a factor of three where some are wrong, and few where none is."""
    graph, counts, means, variances = drawn(200)
    random = np.random.default_rng(3)
    wrong = 0
    for kind, count in (("dish", 6), ("tofu", 2)):
        rows = np.flatnonzero(random.random(200) < share)
        wrong += len(rows)
        graph = with_parents(graph, kind, {int(row): int((graph.parents(kind)[row] + 1) % count) for row in rows})
    learnt = learn_cells(graph, counts, means, variances)
    low, high = learnt.error_range
    assert low <= wrong / 400 <= high
    assert low < learnt.error < high
    assert learnt.error < 0.01 if not share else share / 3 < learnt.error < 2 * share


def test_doubtful_cells_are_latent_and_the_table_is_their_prior():
    graph, counts, means, variances = drawn()
    own = int(graph.parents("dish")[3])
    learnt = learn_cells(with_parents(graph, "dish", {3: (own + 1) % 6}), counts, means, variances)
    assert learnt.doubtful("dish").nonzero().flatten().tolist() == [3]
    filled = learnt.filled()
    row = filled.kind("dish").matrix()[3]
    assert row.argmax() == own
    assert row[own] == pytest.approx(float(learnt.weights["dish"][3, own]), abs=0.02)
    others = [number for number in range(len(graph)) if number != 3]
    assert np.array_equal(filled.matrix("dish")[others], graph.matrix("dish")[others])
    latent = learnt.latent()
    assert latent is not None
    torch.testing.assert_close(latent.prior["dish"][3], learnt.weights["dish"][3], rtol=0, atol=1e-3)


def test_a_wrong_cell_does_not_support_itself():
    graph, counts, means, variances = drawn()
    told, other = with_parents(graph, "dish", {0: 1}), with_parents(graph, "dish", {0: 2})
    one, two = (learn_cells(own, counts, means, variances, clues=("photos",)) for own in (told, other))
    torch.testing.assert_close(one.beliefs["dish"][0], two.beliefs["dish"][0], rtol=0, atol=0.05)


def test_names_and_related_kinds_speak_where_there_is_no_photo():
    names = [f"{'soup' if number % 2 else 'salad'} number {number}" for number in range(40)]
    _, counts, means, _ = drawn(40, names=names)
    graph = LabelGraph.from_parents(
        names,
        {"course": [number % 2 for number in range(40)], "hot": [number % 2 for number in range(40)]},
        {"course": ["cold dish", "warm dish"], "hot": ["no", "yes"]},
    )
    hidden = with_parents(graph, "hot", {0: -1, 1: -1})
    nothing = Variances(own=0.5, kinds={"course": 0.1, "hot": 0.1}, noise=0.5)
    counts[:2] = 0
    for clues in (("related",), ("words",)):
        learnt = learn_cells(hidden, counts, means, nothing, clues=clues)
        assert learnt.beliefs["hot"][:2].argmax(dim=1).tolist() == [0, 1], clues
    empty = [cell for cell in learnt.cells() if cell.table is None]
    assert {cell.words.partition(":")[0] for cell in empty} == {names[0], names[1]}
    assert "other cells and the name say hot" in empty[0].words


def test_names_are_trusted_for_each_kind_by_itself():
    # Every dish that is named after tofu has some, but for one slip; of those named after tomato every other has none.
    names = [f"rice with {'tofu' if number % 2 else 'tomato'} {number}" for number in range(48)]
    tofu = [number % 2 for number in range(48)]
    tomato = [int(number % 4 == 0) for number in range(48)]
    graph = LabelGraph.from_parents(
        names,
        {"tofu": [0 if number == 7 else own for number, own in enumerate(tofu)], "tomato": tomato},
        {"tofu": ["no", "yes"], "tomato": ["no", "yes"]},
    )
    _, counts, means, _ = drawn(48, names=names)
    variances = Variances(own=0.5, kinds={"tofu": 0.1, "tomato": 0.1}, noise=0.5)
    learnt = learn_cells(graph, counts, means, variances, clues=("named",))
    assert learnt.trust["named"]["tofu"] > 3 * learnt.trust["named"]["tomato"]
    first, second, *_ = learnt.cells()
    assert (first.fine, first.kind, first.label) == (names[7], "tofu", "yes")
    assert first.evidence > 20 * second.evidence


def test_one_of_several_parents_stays():
    graph, counts, means, variances = drawn(12)
    several = LabelGraph.from_table(
        {
            name: {
                "dish": {"d0", "d1"} if number == 0 else f"d{graph.parents('dish')[number]}",
                "tofu": bool(number % 2),
            }
            for number, name in enumerate(graph.fine)
        }
    )
    learnt = learn_cells(several, counts, means, variances)
    assert sorted(learnt.weights["dish"][0].tolist()) == pytest.approx(
        [0.0] * (len(several.labels("dish")) - 2) + [0.5, 0.5]
    )
    assert not [cell for cell in learnt.cells() if (cell.fine, cell.kind) == (graph.fine[0], "dish")]


@pytest.mark.parametrize("fine", [1, 2])
def test_few_fine_labels(fine):
    graph, counts, means, variances = drawn(fine)
    learnt = learn_cells(with_parents(graph, "tofu", {0: -1}), counts, means, variances)
    assert float(learnt.weights["tofu"][0].sum()) == pytest.approx(1.0)
    assert bool(torch.isfinite(learnt.beliefs["dish"]).all())


def test_without_kinds_there_is_nothing_to_learn():
    graph, counts, means, variances = drawn(4)
    with pytest.raises(InputError, match="no kinds"):
        learn_cells(graph.only([]), counts, means, Variances(own=0.1, kinds={}, noise=1.0))
    with pytest.raises(InputError, match="expected some of photos, related, words, named, got 'smell'"):
        learn_cells(graph, counts, means, variances, clues=("smell",))
