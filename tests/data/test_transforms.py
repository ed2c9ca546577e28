"""Views: where they are cut, and that chance comes from (seed, epoch, index) alone."""

import numpy as np
import pytest
import torch
from data_files import photo
from PIL import Image

from finegraph.data.transforms import (
    ViewSettings,
    centre_view,
    make_view,
    random_part,
    random_view,
    resize_picture,
    sample_random,
    ten_views,
)
from finegraph.errors import InputError, UnknownNameError

SMALL = ViewSettings(resize=16, size=10)


def numbered(height=16, width=16):
    """Pixels whose values say where they are: red the row, green the column."""
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    return torch.stack([rows, columns, 0 * rows]).to(torch.uint8)


def corner(view):
    """Row and column of the upper left pixel of a view."""
    return tuple(view[:2, 0, 0].tolist())


def test_a_picture_is_squeezed():
    pixels = resize_picture(photo(width=90, height=40), SMALL)
    assert (pixels.shape, pixels.dtype) == ((3, 16, 16), torch.uint8)
    assert torch.equal(
        pixels,
        torch.from_numpy(np.array(photo(width=90, height=40).resize((16, 16), Image.Resampling.BILINEAR))).permute(
            2, 0, 1
        ),
    )


def test_a_picture_may_keep_its_shape_but_not_become_endless():
    keep = ViewSettings(resize=16, size=10, keep_shape=True)
    assert resize_picture(photo(width=96, height=48), keep).shape == (3, 16, 32)
    assert resize_picture(photo(width=48, height=99), keep).shape == (3, 33, 16)
    assert resize_picture(photo(width=500, height=1), keep).shape == (3, 16, 128)
    assert make_view(photo(width=96, height=48), keep, "ten").shape == (10, 3, 10, 10)


def test_centre():
    assert corner(centre_view(numbered(), 10)) == (3, 3)
    assert corner(centre_view(numbered(16, 32), 10)) == (3, 11)


def test_ten_views_are_the_middle_and_the_corners_and_their_mirrors():
    views = ten_views(numbered(), 10)
    assert [corner(view) for view in views[:5]] == [(3, 3), (0, 0), (0, 6), (6, 0), (6, 6)]
    assert torch.equal(views[5:], views[:5].flip(3))
    assert [corner(view) for view in views[5:]] == [(3, 12), (0, 9), (0, 15), (6, 9), (6, 15)]


def test_random_views_reach_every_place_and_both_mirrors():
    seen = {corner(random_view(numbered(), 14, sample_random(0, 0, index))) for index in range(200)}
    plain = {(row, column) for row in range(3) for column in range(3)}
    mirrored = {(row, column + 13) for row, column in plain}
    assert seen == plain | mirrored


def test_chance_comes_from_seed_epoch_and_index():
    def cut(*key):
        return corner(random_view(numbered(64, 64), 10, sample_random(*key)))

    torch.manual_seed(1)
    np.random.seed(1)
    first = cut(1, 2, 3)
    torch.manual_seed(2)
    np.random.seed(2)
    assert cut(1, 2, 3) == first
    assert len({cut(1, 2, 3), cut(2, 2, 3), cut(1, 3, 3), cut(1, 2, 4), cut(3, 2, 1)}) == 5


def test_views_by_name():
    picture = photo()
    pixels = resize_picture(picture, SMALL)
    assert torch.equal(make_view(picture, SMALL, "centre"), centre_view(pixels, 10))
    assert torch.equal(make_view(picture, SMALL, "ten"), ten_views(pixels, 10))
    random = make_view(picture, SMALL, "train", sample_random(0, 0, 7))
    assert torch.equal(random, random_view(pixels, 10, sample_random(0, 0, 7)))
    assert make_view(picture, ViewSettings(), "centre").shape == (3, 224, 224)
    with pytest.raises(InputError, match="a random view needs a generator"):
        make_view(picture, SMALL, "train")
    with pytest.raises(InputError, match="view must be 'train', 'centre' or 'ten', got 'all'"):
        make_view(picture, SMALL, "all")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"resize": 0}, "resize must be a number of pixels, 1 or more, got 0"),
        ({"size": 2.5}, "size must be a number of pixels"),
        ({"size": 300}, "size must be at most resize, 256 pixels, got 300"),
    ],
)
def test_settings_are_checked(settings, words):
    with pytest.raises(InputError, match=words):
        ViewSettings(**settings)
    with pytest.raises(UnknownNameError, match="unknown interpolation 'bilinea'; did you mean 'bilinear'"):
        ViewSettings(interpolation="bilinea")


def test_parts_of_random_size_show_at_least_their_share():
    picture = Image.fromarray(numbered(64, 64).permute(1, 2, 0).numpy())
    settings = ViewSettings(resize=16, size=10)
    spans, mirrored = [], 0
    for index in range(200):
        view = random_part(picture, settings, 0.25, sample_random(0, 0, index)).float()
        assert view.shape == (3, 10, 10)
        rows, columns = view[0].mean(dim=1), view[1].mean(dim=0)
        mirrored += bool(columns[0] > columns[-1])
        # Ten pixels span nine tenths of the part's side.
        spans.append(float((rows[-1] - rows[0]) * (columns[-1] - columns[0]).abs()) / 0.81 / 64**2)
    assert min(spans) > 0.2
    assert max(spans) > 0.9
    assert 70 < mirrored < 130
    one, two = (random_part(picture, settings, 0.25, sample_random(0, 0, 5)) for _ in range(2))
    assert torch.equal(one, two)
