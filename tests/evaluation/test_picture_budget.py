"""Pictures fit their bytes: large where there are few photos, small where there are many, and never none."""

import io

import numpy as np
import pytest
from PIL import Image

from finegraph.data.samples import Sample
from finegraph.errors import InputError
from finegraph.evaluation.photo_pack import (
    PictureSize,
    fitting_look,
    join_pictures,
    pack_photos,
    small_pictures,
    unpack_photos,
)

LOOKS = (PictureSize(160, 60), PictureSize(96, 50), PictureSize(48, 40))


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    random = np.random.default_rng(0)
    listed = []
    for number in range(40):
        grains = random.integers(0, 256, (30, 40, 3), dtype=np.uint8)
        Image.fromarray(grains).resize((400, 300)).save(folder / f"{number}.jpg", quality=90)
        listed.append(Sample(folder / f"{number}.jpg", "a"))
    return listed


def size_of(photos, look):
    return sum(len(small_pictures(photo, [look])[0]) for photo in photos)


@pytest.mark.deep
def test_the_largest_look_that_fits(photos):
    sizes = [size_of(photos, look) for look in LOOKS]
    assert sizes[0] > 1.3 * sizes[1] > 1.3 * sizes[2]
    for look, size in zip(LOOKS, sizes, strict=True):
        assert fitting_look(photos, LOOKS, int(1.1 * size)) == (look, 40)


@pytest.mark.deep
def test_fewer_pictures_where_even_the_smallest_do_not_fit(photos):
    room = size_of(photos, LOOKS[-1]) // 2
    look, count = fitting_look(photos, LOOKS, room)
    assert look == LOOKS[-1]
    assert 16 <= count <= 24
    assert size_of(photos[:count], look) <= 1.1 * room


def test_no_photos_and_photos_that_cannot_be_read(tmp_path):
    assert fitting_look([], LOOKS, 1000) == (LOOKS[0], 0)
    (tmp_path / "broken.jpg").write_bytes(b"no photo")
    assert fitting_look([Sample(tmp_path / "broken.jpg", "a")], LOOKS, 1000) == (LOOKS[0], 1)


def test_pictures_come_back_as_they_were_saved(photos):
    packs = pack_photos({"some": dict(enumerate(photos[:3]))}, looks={"some": LOOKS[1]})
    found = unpack_photos(packs["some"])
    assert [Image.open(io.BytesIO(found[number])).size for number in range(3)] == [(96, 72)] * 3
    assert Image.open(io.BytesIO(found[0])).format == "WEBP"


def test_without_webp_pictures_are_jpegs(photos, monkeypatch):
    from finegraph.evaluation import photo_pack

    monkeypatch.setattr(photo_pack.features, "check", lambda name: False)
    assert Image.open(io.BytesIO(small_pictures(photos[0], LOOKS)[0])).format == "JPEG"


def test_pictures_of_an_earlier_version_are_read():
    pack = join_pictures([(3, b"abc"), (7, b"de")])
    earlier = {"numbers": pack["numbers"], "ends": pack["ends"], "jpeg": pack["pictures"]}
    assert unpack_photos(earlier) == unpack_photos(pack) == {3: b"abc", 7: b"de"}
    with pytest.raises(InputError, match="do not fit together"):
        unpack_photos({**pack, "pictures": pack["pictures"][:-1]})
