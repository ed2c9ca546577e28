"""Training from comparisons: numbers of the graph, pairs of photos, what is refused and what is told."""

import math

import pytest
import torch

import finegraph as fg
from finegraph.data.dataset import MISSING, PhotoDataset
from finegraph.errors import DataError, GraphFileError, SettingsError
from finegraph.inference import Posterior
from finegraph.training.batches import PhotoPair, PhotoPairs, read_batches
from finegraph.training.distributed import Ranks
from finegraph.training.recipes import RECIPES
from finegraph.training.settings import TrainSettings
from finegraph.training.step import pair_loss
from finegraph.workflows.graph_comparisons import compare_labels
from finegraph.workflows.train import train_run
from finegraph.workflows.training.training_data import make_network, make_views, read_training_data
from training import tiny
from workflows.test_train import Silent

HEADER = "kind,more,less,who,same,of\n"
LABELS = "size,red large,red small,ann,,\nsize,blue large,blue small,ann,,\nsize,blue large,red small,ben,,\n"


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    tiny.register()
    return tiny.make_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture
def told(tmp_path):
    """Writes comparisons, and returns the file."""

    def write(rows):
        path = tmp_path / "comparisons.csv"
        path.write_text(HEADER + rows)
        return path

    return write


def test_the_graph_has_the_numbers_that_graph_compare_writes(manifest, told, tmp_path):
    path = told(LABELS)
    data = read_training_data(tiny.settings_for(manifest, comparisons=str(path)))
    compare_labels(path, manifest.parent / "graph.csv", tmp_path / "graph2.csv")
    assert data.graph == fg.LabelGraph.read(tmp_path / "graph2.csv")
    assert data.graph.numbers == ("size",)
    assert [kind.comparisons for kind in data.compared] == [3]
    assert data.pairs is None
    only = read_training_data(tiny.settings_for(manifest, comparisons=str(path), kinds=["colour"]))
    assert (only.graph.numbers, only.compared) == ((), ())


def test_photos_to_validate_on_do_not_count(manifest, told):
    seen = "size,red-large-0.png,red-small-0.png,,,photos\nsize,red-large-1.png,red-large-0.png,,yes,photos\n"
    hidden = "size,grey-8.png,red-large-0.png,,,photos\n"
    data = read_training_data(tiny.settings_for(manifest, comparisons=str(told(seen + hidden))))
    number = data.graph.number("size")
    assert {label for label, known in zip(data.graph.fine, number.known, strict=True) if known} == {
        "red small",
        "red large",
    }
    names = [sample.path.name for sample in data.train]
    pairs = [(names[pair.more], names[pair.less], pair.same) for pair in data.pairs.pairs]
    assert pairs == [("red-large-0.png", "red-small-0.png", False), ("red-large-1.png", "red-large-0.png", True)]
    assert data.pairs.scales == {"size": 1.0}
    with pytest.raises(DataError, match="expected comparisons of fine labels, or of training photos"):
        read_training_data(tiny.settings_for(manifest, comparisons=str(told(hidden))))


def test_all_faults_come_at_once_with_line_and_column(manifest, told):
    rows = "size,red huge,red small,,,\ncolour,red large,red small,,,\nsize,red-large-0.png,nowhere.png,,,photos\n"
    with pytest.raises(GraphFileError) as caught:
        read_training_data(tiny.settings_for(manifest, comparisons=str(told(rows))))
    assert [(fault.line, fault.column) for fault in caught.value.faults] == [(2, "more"), (3, "kind"), (4, "less")]


@pytest.mark.deep
def test_a_model_has_the_number_and_the_log_says_what_does_not_fit(manifest, told, tmp_path):
    circle = LABELS + "size,red small,blue large,cem,,\n" + "size,red-large-0.png,red-large-1.png,,,photos\n"
    circle += "size,blue small,red large,ann,,\nsize,grey,blue small,ann,,\nsize,red large,grey,ann,,\n"
    watcher = Silent()
    train_run(
        TrainSettings(data=str(manifest), network="tiny", weights="none", comparisons=str(told(circle))),
        watcher,
        run=tmp_path / "run",
    )
    notes = "\n".join(watcher.notes)
    assert "size: a number of the graph, by 7 comparisons of 5 fine labels" in notes
    assert "compared both ways: blue large has more than red small (1 to 1)" in notes
    assert "a cycle: " in notes
    assert "1 comparison of two photos of one fine label says nothing of fine labels" in notes
    model = fg.load(tmp_path / "run")
    assert math.isfinite(model.predict(manifest.parent / "grey-0.png").numbers["size"].mean)


def test_the_loss_of_pairs_is_that_of_their_values():
    prices = fg.Number.from_values("price", [2.0, 4.0, 9.0], scale="log")
    graph = fg.LabelGraph(["a", "b", "c"], numbers=[prices])
    scores = torch.randn(3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    posterior = Posterior(graph, scores)
    pairs = PhotoPairs(
        (PhotoPair("price", 7, 5, False), PhotoPair("price", 5, 9, True), PhotoPair("price", 7, 8, False)),
        {"price": 0.5},
    )
    loss = pair_loss(posterior, pairs, [5, 7, 9], RECIPES["short"])
    values = posterior.value("price").mean.log()
    apart = (values[0] - values[2]) / 0.5
    one = torch.log1p(torch.exp(-(values[1] - values[0]) / 0.5))
    same = (torch.log1p(torch.exp(-apart)) + torch.log1p(torch.exp(apart))) / 2
    torch.testing.assert_close(loss, one + same)
    loss.backward()
    assert scores.grad.abs().min() > 0


def test_a_batch_takes_the_other_photo_of_a_pair_along_without_its_labels(manifest):
    settings = tiny.settings_for(manifest)
    data = read_training_data(settings)
    views = make_views(settings, make_network(settings, data.graph))
    photos = PhotoDataset(data.train, data.graph, views, view="train")
    pairs = PhotoPairs(
        (PhotoPair("size", 0, 1, False), PhotoPair("size", 4, 20, False), PhotoPair("size", 21, 4, True)), {"size": 1.0}
    )
    batches = list(read_batches(photos, iter([(0, [0, 1, 4]), (1, [20])]), Ranks(), 1, pairs))
    assert batches[0].sample.tolist()[:3] == [0, 1, 4]
    assert batches[0].sample.tolist()[3] in (20, 21)
    assert (batches[0].fine == MISSING).tolist() == [False, False, False, True]
    assert (batches[0].kinds["colour"] == MISSING).tolist() == [False, False, False, True]
    assert batches[1].sample.tolist() == [20, 4]
    drawn = {tuple(pairs.partners([4], 0, epoch)) for epoch in range(20)}
    assert drawn == {(20,), (21,)}


@pytest.mark.deep
def test_pairs_of_photos_reach_the_steps_and_a_run_with_them_goes_on_as_if_unbroken(manifest, told, tmp_path):
    rows = "".join(f"size,red-large-{one}.png,red-large-{two}.png,,,photos\n" for one in (0, 1) for two in (2, 3, 4))
    with_pairs = str(told(LABELS + rows))
    whole, watcher = tiny.Watcher(), tiny.asks_at(7)
    tiny.tune(manifest, tmp_path / "whole", watcher=whole, comparisons=with_pairs, epochs=2)
    tiny.tune(manifest, tmp_path / "broken", watcher=watcher, comparisons=with_pairs, epochs=2)
    tiny.tune(manifest, tmp_path / "broken", resume=True, comparisons=with_pairs, epochs=2)
    tiny.same(tmp_path / "whole", tmp_path / "broken")
    with pytest.raises(SettingsError, match="comparisons"):
        tiny.tune(
            manifest,
            tmp_path / "broken",
            resume=True,
            comparisons=str(told(LABELS + rows[: rows.rindex("size")])),
            epochs=2,
        )
    alone = tiny.Watcher()
    tiny.tune(manifest, tmp_path / "alone", watcher=alone, comparisons=str(told(LABELS)), epochs=2)
    assert sum(whole.losses) > sum(alone.losses) + 0.05
