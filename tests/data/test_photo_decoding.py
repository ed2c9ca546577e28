"""Every photo comes out as the same upright RGB picture, or is named with the reason."""

import io
import pickle
import struct
import zlib

import numpy as np
import pytest
from data_files import photo, save
from PIL import Image

from finegraph.data import photo_decoding
from finegraph.data.photo_decoding import decode_photo, read_picture
from finegraph.data.samples import Box
from finegraph.errors import PhotoFileError

TURNS = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,  # what a camera stores when 270 degrees put it right again
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


def values(picture):
    return np.asarray(picture).astype(int)


def difference(one, other):
    assert one.size == other.size
    assert one.mode == "RGB"
    return np.abs(values(one) - values(other)).mean()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("ending", ["jpg", "png", "webp", "tif"])
def test_all_orientations_give_the_same_upright_picture(tmp_path, orientation, ending):
    upright = photo(3)
    turn = TURNS[orientation]
    stored = upright if turn is None else upright.transpose(turn)
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"jpg": {"quality": 95}, "webp": {"lossless": True}}.get(ending, {})
    stored.save(tmp_path / f"a.{ending}", exif=exif, **options)
    read = read_picture(tmp_path / f"a.{ending}")
    assert difference(read, upright) < (3 if ending == "jpg" else 0.01)
    decoded = decode_photo((tmp_path / f"a.{ending}").read_bytes(), "a")
    assert (decoded.width, decoded.height) == upright.size


def test_box_is_of_the_upright_picture(tmp_path):
    upright = photo(4)
    exif = Image.Exif()
    exif[0x0112] = 6
    upright.transpose(TURNS[6]).save(tmp_path / "a.png", exif=exif)
    assert difference(read_picture(tmp_path / "a.png", Box(10, 5, 30, 20)), upright.crop((10, 5, 40, 25))) == 0


def test_grey_and_black_and_white(tmp_path):
    grey = photo(1).convert("L")
    grey.save(tmp_path / "a.png")
    assert difference(read_picture(tmp_path / "a.png"), grey.convert("RGB")) == 0
    grey.convert("1").save(tmp_path / "b.png")
    assert set(np.unique(values(read_picture(tmp_path / "b.png")))) == {0, 255}


@pytest.mark.parametrize("ending", ["png", "tif"])
def test_sixteen_bits_become_eight_by_scaling(tmp_path, ending):
    ramp = np.linspace(0, 65535, 64 * 48).reshape(48, 64).astype(np.uint16)
    Image.fromarray(ramp).save(tmp_path / f"a.{ending}")
    read = values(read_picture(tmp_path / f"a.{ending}"))[:, :, 0]
    assert read.min() == 0
    assert read.max() == 255
    assert np.abs(read - ramp / 257).max() <= 0.51


def test_more_bits_than_sixteen_are_refused(tmp_path):
    Image.fromarray(np.full((4, 4), 70_000, dtype=np.int32)).save(tmp_path / "a.tif")
    Image.fromarray(np.full((4, 4), 70, dtype=np.int32)).save(tmp_path / "small values.tif")
    Image.fromarray(np.full((4, 4), 0.5, dtype=np.float32)).save(tmp_path / "b.tif")
    with pytest.raises(PhotoFileError, match=r"small values\.tif: expected 8 or 16 bits per pixel, got 32"):
        read_picture(tmp_path / "small values.tif")
    with pytest.raises(PhotoFileError, match=r"a\.tif: expected 8 or 16 bits per pixel, got 32"):
        read_picture(tmp_path / "a.tif")
    with pytest.raises(PhotoFileError, match="got floating-point numbers"):
        read_picture(tmp_path / "b.tif")


def test_cmyk(tmp_path):
    picture = photo(2)
    picture.convert("CMYK").save(tmp_path / "a.jpg", quality=95)
    assert decode_photo((tmp_path / "a.jpg").read_bytes(), "a").mode == "CMYK"
    assert difference(read_picture(tmp_path / "a.jpg"), picture) < 3


def test_see_through_parts_are_white(tmp_path):
    layer = Image.new("RGBA", (4, 2), (200, 0, 0, 255))
    layer.putpixel((0, 0), (0, 0, 0, 0))
    layer.save(tmp_path / "a.png")
    layer.convert("LA").save(tmp_path / "b.png")
    palette = Image.new("P", (4, 2), 1)
    palette.putpalette([0, 0, 0, 200, 0, 0])
    palette.putpixel((0, 0), 0)
    palette.save(tmp_path / "c.png", transparency=0)
    palette.save(tmp_path / "d.png", transparency=bytes([0, 255]))
    palette.save(tmp_path / "e.gif", transparency=0)
    for name, rest in {"a.png": (200, 0, 0), "b.png": None, "c.png": (200, 0, 0), "d.png": (200, 0, 0)}.items():
        read = read_picture(tmp_path / name)
        assert read.mode == "RGB"
        assert read.getpixel((0, 0)) == (255, 255, 255), name
        assert rest is None or read.getpixel((1, 1)) == rest, name
    assert read_picture(tmp_path / "e.gif").getpixel((0, 0)) == (255, 255, 255)


def layered(kind, path):
    """Save a photo of 48 x 64 pixels that is see-through in one way or another, or has 16 bits."""
    picture = photo(6).resize((48, 64))
    alpha = photo(7).resize((48, 64)).convert("L")
    options = {}
    if kind in ("RGBA", "LA"):
        picture.putalpha(alpha)
        picture = picture.convert(kind)
    elif kind == "16 bits":
        picture = Image.fromarray(np.asarray(picture.convert("L")).astype(np.uint16) * 250)
    elif kind.startswith("P"):
        picture = picture.quantize(16)
        options["transparency"] = 3 if kind == "P, one" else bytes(range(0, 256, 16))
    else:
        picture = picture.convert(kind)
        options["transparency"] = picture.getpixel((5, 40))
    picture.save(path, **options)


@pytest.mark.parametrize("kind", ["RGBA", "LA", "P, one", "P, several", "RGB", "L", "16 bits"])
def test_a_photo_that_is_converted_in_bands_has_the_same_pixels(tmp_path, monkeypatch, kind):
    path = tmp_path / "a.png"
    layered(kind, path)
    with Image.open(path) as file:
        file.load()
        if kind == "16 bits":
            whole = Image.fromarray(((np.asarray(file).astype(np.uint32) + 128) // 257).astype(np.uint8)).convert("RGB")
        else:
            layer = file.convert("RGBA")
            assert layer.getchannel("A").getextrema()[0] < 255
            whole = Image.new("RGB", layer.size, "white")
            whole.paste(layer, mask=layer.getchannel("A"))
    for pixels in (1, 48 * 7, 1 << 20):
        monkeypatch.setattr(photo_decoding, "_BAND", pixels)
        assert difference(read_picture(path), whole) == 0, pixels


@pytest.mark.parametrize("ending", ["gif", "webp", "png", "tif"])
def test_first_frame_of_a_moving_picture(tmp_path, ending):
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue", "green")]
    frames[0].save(tmp_path / f"a.{ending}", save_all=True, append_images=frames[1:])
    red, green, blue = read_picture(tmp_path / f"a.{ending}").getpixel((4, 4))
    assert red > 240
    assert max(green, blue) < 15


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def huge_png(width=100_000, height=100_000):
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(b"\0" * 1000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def test_size_is_checked_before_decoding(tmp_path, monkeypatch):
    path = tmp_path / "a.png"
    path.write_bytes(huge_png())
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("decoded"))
    with pytest.raises(PhotoFileError, match=r"a\.png: the photo has 100000 x 100000 pixels; at most 200 million"):
        read_picture(path)


def test_limit_of_pixels_is_the_callers(tmp_path):
    path = save(tmp_path / "a.png")
    with pytest.raises(PhotoFileError, match=r"64 x 48 pixels; at most 0.003 million are decoded"):
        read_picture(path, max_pixels=3000)
    assert read_picture(path, max_pixels=64 * 48).size == (64, 48)


def broken_files():
    whole = io.BytesIO()
    photo(0, 640, 480).save(whole, "JPEG")
    jpeg = whole.getvalue()
    whole = io.BytesIO()
    photo().save(whole, "PNG")
    return {
        "truncated.jpg": (jpeg[: len(jpeg) // 2], "the photo is broken: .*truncated"),
        "truncated.png": (whole.getvalue()[:400], "the photo is broken: "),
        "header.jpg": (jpeg[:10], "the photo is broken: "),
        "empty.jpg": (b"", "the file is empty"),
        "page.jpg": (b"<!DOCTYPE html><html>404</html>", "no photo of a known format .*looks like a web page"),
        "pointer.jpg": (b"version https://git-lfs.github.com/spec/v1\n", "looks like a Git LFS pointer"),
        "text.png": (b"hello there, this is text", r"no photo of a known format \(JPEG, PNG, .*\)$"),
        "icon.jpg": (b"\0\0\1\0\1\0\x10\x10" + b"\0" * 60, "no photo of a known format"),
        "drawing.jpg": (b"%!PS-Adobe-3.0 EPSF-3.0\n", "no photo of a known format"),
        "phone.jpg": (
            b"\0\0\0\x18ftypmp42\0\0\0\0",
            "may be a HEIC or AVIF photo: pip install .*, or convert it",
        ),
        "cut off.heic": (b"\0\0\0\x18ftypheic\0\0\0\0", "the photo is broken: "),
    }


@pytest.mark.parametrize("name", broken_files())
def test_bad_files_are_named_with_the_reason(tmp_path, unchanged, name):
    data, reason = broken_files()[name]
    (tmp_path / name).write_bytes(data)
    unchanged()
    with pytest.raises(PhotoFileError, match=reason) as caught:
        read_picture(tmp_path / name)
    with pytest.raises(PhotoFileError, match=reason):
        read_picture(tmp_path / name, at_least=(32, 32))
    assert caught.value.path == str(tmp_path / name)
    assert str(caught.value) == f"{tmp_path / name}: {caught.value.reason}"


def test_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(PhotoFileError, match=r"no\.jpg: there is no such file"):
        read_picture(tmp_path / "no.jpg")
    with pytest.raises(PhotoFileError, match="expected a file, got a folder"):
        read_picture(tmp_path)
    with pytest.raises(PhotoFileError, match="the file cannot be read: embedded null byte"):
        read_picture("a\0.jpg")


@pytest.mark.parametrize("ending", ["jpg", "png", "gif", "bmp", "tif", "webp"])
@pytest.mark.filterwarnings("ignore::UserWarning")  # the decoder's remarks on what is broken
def test_mutants_give_a_picture_or_our_error(tmp_path, ending):
    whole = save(tmp_path / f"a.{ending}", width=24, height=16).read_bytes()
    rng = np.random.default_rng(0)
    outcomes = set()
    for number in range(120):
        data = bytearray(whole)
        for place in rng.integers(0, min(len(data), 400), size=1 + number % 5):
            data[place] = rng.integers(256)
        data = data[: rng.integers(1, len(data))] if number % 3 == 0 else data
        try:
            outcomes.add(decode_photo(bytes(data), "mutant", max_pixels=10**6).picture.mode)
        except PhotoFileError as error:
            outcomes.add(str(error).partition(": ")[0])
    assert outcomes == {"RGB", "mutant"}


def test_broken_exif_data_do_not_spoil_a_photo(tmp_path):
    photo().save(tmp_path / "a.png", exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff\0")
    assert read_picture(tmp_path / "a.png").size == (64, 48)


@pytest.mark.deep
def test_large_jpegs_are_decoded_smaller_but_large_enough(tmp_path):
    path = save(tmp_path / "a.jpg", width=1601, height=1200)
    small = read_picture(path, at_least=(256, 256))
    assert small.size == (401, 300)
    full = read_picture(path).resize(small.size, Image.Resampling.BILINEAR)
    assert difference(small, full) < 2
    part = read_picture(path, Box(800, 600, 300, 300), at_least=(256, 256))
    assert part.size == (300, 300)
    part = read_picture(path, Box(800, 600, 600, 600), at_least=(256, 256))
    assert part.size == (300, 300)
    assert difference(part, read_picture(path, Box(800, 600, 600, 600)).resize((300, 300))) < 2


def test_box_is_cut_and_must_touch_the_photo(tmp_path):
    path = save(tmp_path / "a.png")
    assert difference(read_picture(path, Box(60, 40, 100, 100)), photo().crop((60, 40, 64, 48))) == 0
    with pytest.raises(PhotoFileError, match="the box 64 0 5 5 has nothing of the photo in it, which has 64 x 48"):
        read_picture(path, Box(64, 0, 5, 5))


def test_the_error_survives_the_way_between_processes():
    error = pickle.loads(pickle.dumps(PhotoFileError("a.jpg", "broken")))  # noqa: S301
    assert (error.path, error.reason, str(error)) == ("a.jpg", "broken", "a.jpg: broken")
    assert str(PhotoFileError("the whole text")) == "the whole text"
