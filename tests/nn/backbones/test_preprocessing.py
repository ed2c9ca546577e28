"""Preprocessing, and that it is right: real photos are recognised."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch
from PIL import Image
from skimage import data

from finegraph.errors import InputError, UnknownNameError
from finegraph.nn.backbones import Preprocessing, build_backbone
from finegraph.nn.backbones.weights import default_weights, read_tensors

# ImageNet's numbers of its classes.
TABBY, TIGER_CAT, PERSIAN_CAT, SIAMESE_CAT, EGYPTIAN_CAT = 281, 282, 283, 284, 285
MISSILE, PROJECTILE, ESPRESSO = 657, 744, 967


def middle_of(photo, preprocessing):
    """The normalised middle view of a photo."""
    image = Image.fromarray(photo)
    scale = preprocessing.resize / min(image.size)
    size = (round(image.width * scale), round(image.height * scale))
    image = image.resize(size, Image.Resampling[preprocessing.interpolation.upper()])
    left, top = ((side - preprocessing.size) // 2 for side in image.size)
    image = image.crop((left, top, left + preprocessing.size, top + preprocessing.size))
    return preprocessing.normalise(torch.from_numpy(np.array(image)).permute(2, 0, 1)[None])


@pytest.fixture(scope="module", params=["efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2"])
def imagenet(request):
    """ImageNet probabilities of a photo, with the classifier layer that comes with the weights."""
    network = build_backbone(request.param, "default").eval()
    weights = read_tensors(default_weights(request.param))

    @torch.no_grad()
    def probabilities(photo):
        features = network(middle_of(photo, network.preprocessing))
        return (features @ weights["_fc.weight"].T + weights["_fc.bias"]).softmax(dim=1)[0]

    return probabilities


@pytest.mark.deep
def test_recognises_a_cat(imagenet):
    probabilities = imagenet(data.chelsea())
    top = probabilities.topk(3)
    assert set(top.indices.tolist()) == {TABBY, TIGER_CAT, EGYPTIAN_CAT}
    assert top.values.sum() > 0.7
    assert probabilities[[PERSIAN_CAT, SIAMESE_CAT]].sum() < 0.02


def test_recognises_coffee(imagenet):
    probabilities = imagenet(data.coffee())
    assert probabilities.argmax() == ESPRESSO
    assert probabilities[ESPRESSO] > 0.5


def test_recognises_a_rocket(imagenet):
    # Small in the photo, beside its masts and in smoke, so other classes come between.
    probabilities = imagenet(data.rocket())
    assert {MISSILE, PROJECTILE} <= set(probabilities.topk(5).indices.tolist())
    assert probabilities[MISSILE] > 0.05


def test_lite_normalises_as_it_was_trained():
    pixels = torch.arange(256, dtype=torch.uint8).repeat(3).view(1, 3, 16, 16)
    preprocessing = build_backbone("efficientnet_lite0").preprocessing
    assert torch.allclose(preprocessing.normalise(pixels), (pixels.float() - 127) / 128, atol=1e-6)


def test_imagenet_normalisation_per_channel():
    pixels = torch.full((1, 3, 2, 2), 51, dtype=torch.uint8)
    got = Preprocessing(size=2, resize=2).normalise(pixels)[0, :, 0, 0].tolist()
    expected = [(0.2 - mean) / std for mean, std in ((0.485, 0.229), (0.456, 0.224), (0.406, 0.225))]
    assert got == pytest.approx(expected, rel=1e-5)


def test_normalising_keeps_the_pixels_and_the_memory_format():
    pixels = torch.full((1, 3, 4, 4), 9, dtype=torch.uint8).contiguous(memory_format=torch.channels_last)
    images = Preprocessing(size=4, resize=4).normalise(pixels)
    assert (pixels == 9).all()
    assert images.is_contiguous(memory_format=torch.channels_last)


def test_whole_numbers_are_numbers_in_json():
    saved = {"size": 8, "resize": 8, "mean": [0, 0, 0], "std": [1, 1, 1], "interpolation": "bilinear"}
    assert Preprocessing.from_dict(saved).std == (1.0, 1.0, 1.0)


def test_survives_json():
    preprocessing = build_backbone("efficientnet_lite0").preprocessing
    saved = json.loads(json.dumps(asdict(preprocessing)))
    assert Preprocessing.from_dict(saved) == preprocessing
    with pytest.raises(InputError, match=r"expected the settings size, resize, .*; missing: std"):
        Preprocessing.from_dict({name: value for name, value in saved.items() if name != "std"})
    with pytest.raises(UnknownNameError, match="unknown setting 'sise' of the preprocessing; did you mean 'size'"):
        Preprocessing.from_dict({**saved, "sise": 3})
    for odd in (
        {"mean": 0.5},
        {"mean": [0.5]},
        {"std": ["a", 1, 1]},
        {"size": 223.5},
        {"resize": "256"},
        {"size": None},
    ):
        with pytest.raises(InputError, match="expected whole numbers for size and resize, lists of 3 for mean and std"):
            Preprocessing.from_dict({**saved, **odd})


def test_at_another_size():
    preprocessing = Preprocessing(size=224, resize=256)
    assert (preprocessing.at(128).size, preprocessing.at(128).resize) == (128, 146)
    assert preprocessing.at(224) == preprocessing
    assert preprocessing.at(128).mean == preprocessing.mean


def test_refuses_what_makes_no_sense():
    with pytest.raises(InputError, match="expected size >= 1 and resize >= size, got size 9 and resize 8"):
        Preprocessing(size=9, resize=8)
    with pytest.raises(InputError, match="a positive std for each of 3 channels"):
        Preprocessing(size=8, resize=8, std=(1.0, 1.0, 0.0))
    with pytest.raises(UnknownNameError, match="unknown interpolation 'bicubik'; did you mean 'bicubic'"):
        Preprocessing(size=8, resize=8, interpolation="bicubik")


@pytest.mark.usefixtures("unchecked")
def test_floats_are_no_pixels():
    with pytest.raises(InputError, match=r"expected whole numbers 0\.\.255 of type torch\.uint8, got torch\.float32"):
        Preprocessing(size=8, resize=8).normalise(torch.zeros(1, 3, 8, 8))
