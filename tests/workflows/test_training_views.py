"""Several views of a training photo count as one photo."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import finegraph as fg
from finegraph.data.photo_parts import MAX_VIEWS
from finegraph.data.samples import Box, Sample, Samples
from finegraph.data.transforms import ViewSettings
from finegraph.errors import SettingsError
from finegraph.model.features import extract_features
from finegraph.nn.network import NetworkDesign, build_network
from finegraph.training.settings import TrainSettings, check_settings_used
from finegraph.workflows.train import train_run
from finegraph.workflows.training.training_views import mean_of_views, view_parts
from training import tiny
from workflows.test_train import Silent

VIEWS = ViewSettings(size=32, resize=36)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    tiny.register()
    return tiny.make_photos(tmp_path_factory.mktemp("photos"))


def save_photo(path, seed, **options):
    pixels = np.random.default_rng(seed).integers(0, 256, (6, 10, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((80, 48), Image.Resampling.BILINEAR).save(path, **options)
    return Sample(path, "a")


def test_parts_lie_in_the_corners_of_the_upright_photo(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side: 48 x 80 when it is upright
    samples = Samples([save_photo(tmp_path / "1.png", 1), save_photo(tmp_path / "2.jpg", 2, exif=exif)])
    found = [[tuple(one.box) for one in part] for part in view_parts(samples, MAX_VIEWS, box=False)]
    assert found == [
        [(0, 0, 60, 36), (0, 0, 36, 60)],
        [(20, 12, 60, 36), (12, 20, 36, 60)],
        [(20, 0, 60, 36), (12, 0, 36, 60)],
        [(0, 12, 60, 36), (0, 20, 36, 60)],
    ]
    assert view_parts(samples, 1, box=False) == []


def test_parts_of_boxes_lie_in_the_boxes(tmp_path):
    photo = save_photo(tmp_path / "1.png", 1)
    boxed = Samples([Sample(photo.path, "a", box=Box(-10, 8, 50, 20)), photo])
    for views, expected in ((2, [(0, 8, 30, 15), (0, 0, 60, 36)]), (3, [(10, 13, 30, 15), (20, 12, 60, 36)])):
        part = view_parts(boxed, views, box=True)[-1]
        assert {boxed[number].box: tuple(one.box) for one, number in part.items()} == {
            Box(-10, 8, 50, 20): expected[0],
            None: expected[1],
        }
    assert {tuple(one.box) for one in view_parts(boxed, 2, box=False)[0]} == {(0, 0, 60, 36)}  # boxes that are not used


def test_features_are_the_mean_over_the_views_that_can_be_read(tmp_path):
    tiny.register()
    graph = fg.LabelGraph(["a", "b"])
    network = build_network(graph, NetworkDesign(network="tiny")).eval()
    samples = Samples([save_photo(tmp_path / f"{number}.png", number) for number in range(3)])

    def features(photos):
        return extract_features(network, Samples(photos), ViewSettings(size=32, resize=36, box=True), cache=False)

    first, parts = features(samples), view_parts(samples, 3, box=False)
    pictures = [Image.open(one.path) for one in samples]
    corners = ((0, 0, 60, 36), (20, 12, 80, 48))
    cut = [
        [picture.crop(corner).resize((36, 36), Image.Resampling.BILINEAR) for corner in corners] for picture in pictures
    ]
    pixels = torch.from_numpy(np.array([[np.asarray(one)[2:34, 2:34] for one in two] for two in cut]))
    with torch.no_grad():
        expected, _ = network.features(pixels.flatten(0, 1).permute(0, 3, 1, 2))
    expected = (first.fine + expected.reshape(3, 2, -1).sum(dim=1)) / 3
    found = mean_of_views(first, [(part, features(part)) for part in parts])
    assert found.samples == samples
    assert torch.allclose(found.fine, expected, atol=1e-5)
    assert torch.equal(found.views[:, 0], first.fine)
    assert torch.allclose(found.views.mean(dim=1), expected, atol=1e-5)
    assert mean_of_views(first, []) is first
    read = [one for one, number in parts[0].items() if number != 1]
    missing = mean_of_views(first, [(parts[0], features(read)), (parts[1], features(parts[1]))])
    assert torch.allclose(missing.fine[[0, 2]], expected[[0, 2]], atol=1e-5)
    assert torch.allclose(missing.fine[1], (first.fine[1] + features(parts[1]).fine[1]) / 2, atol=1e-5)


@pytest.mark.parametrize("network", ["tiny", "tiny+tiny_auxiliary"])
@pytest.mark.deep
def test_training_with_views(manifest, tmp_path, monkeypatch, network):
    given = {"data": str(manifest), "network": network, "weights": "none", "photo_labels": "ignore"}
    runs = {}
    for views in (1, 3):
        settings = TrainSettings(**given, fit="prototypes", train_views=views)
        runs[views] = train_run(settings, Silent(), run=tmp_path / str(views))
    one, three = (fg.load(tmp_path / str(views)).network.head.fine.weight for views in (1, 3))
    assert not torch.allclose(one, three)
    assert fg.load(tmp_path / "3").about["settings"]["train_views"] == 3
    monkeypatch.setattr(tiny.Tiny, "forward", None)  # all views are stored
    again = train_run(TrainSettings(**given, fit="prototypes", train_views=3), Silent(), run=tmp_path / "again")
    assert again.metrics == runs[3].metrics


def test_heads_are_fitted_to_three_views_by_default():
    assert TrainSettings(data="photos").resolve().train_views == 3
    assert TrainSettings(data="photos", tune="all").resolve().train_views == 3
    assert TrainSettings(data="photos", train_views=2).resolve().train_views == 2


def test_views_are_those_of_a_fitted_last_layer():
    with pytest.raises(SettingsError, match="train_views: no effect with start = new"):
        check_settings_used({"tune": "all", "start": "new", "train_views": 3})
    with pytest.raises(SettingsError, match="train_views: expected a whole number from 1 to 5, got 6"):
        TrainSettings(train_views=6)


@pytest.mark.deep
def test_a_taught_photo_is_seen_as_the_fit_saw_photos(manifest, tmp_path):
    settings = TrainSettings(data=str(manifest), graph=str(manifest.parent / "graph.csv"), network="tiny", tune="head",
                             weights="none", fit="prototypes", train_views=3, photo_labels="ignore")  # fmt: skip
    train_run(settings, Silent(), run=tmp_path / "run")
    model = fg.load(tmp_path / "run")
    assert model.statistics.views == 3
    exif = Image.Exif()
    exif[0x0112] = 6
    photo = save_photo(tmp_path / "taught.jpg", 5, exif=exif)
    samples = Samples([photo])
    parts = [
        (part, extract_features(model.network, Samples(part), replace(model.views, box=True), cache=False))
        for part in view_parts(samples, 3, box=False)
    ]
    fitted_to = mean_of_views(extract_features(model.network, samples, model.views, cache=False), parts).fine
    expected = model.network.scaling(fitted_to)[0].numpy()
    lesson = model.teach(model.graph.fine[0], photo.path)
    np.testing.assert_allclose(lesson.photos[0].features, expected, atol=1e-4)
    with Image.open(photo.path) as picture:
        picture.load()
        open_picture = model.teach(model.graph.fine[0], picture)
    np.testing.assert_allclose(open_picture.photos[0].features, expected, atol=1e-2)  # the file is decoded smaller
    one_view = model.network.scaling(extract_features(model.network, samples, model.views, cache=False).fine)[0].numpy()
    assert np.abs(lesson.photos[0].features - one_view).max() > 1e-3
