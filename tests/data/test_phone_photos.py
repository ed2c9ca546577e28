"""Photos of phones: HEIC and AVIF, made here, read as all others are; and what is said where they cannot be."""

import io
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from finegraph.data import photo_decoding
from finegraph.data.checks.photo_check import check_samples
from finegraph.data.photo_decoding import decode_photo, read_picture
from finegraph.data.sources import read_samples
from finegraph.errors import DataError, PhotoFileError
from finegraph.graph.builders import folders
from finegraph.web.decode_worker import decode_upload

SAVED = {"heic": "HEIF", "heif": "HEIF", "hif": "HEIF", "avif": "AVIF"}


def photo(width=160, height=96):
    """A picture with a red half on the left and a blue one on the right."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[:, : width // 2] = (220, 30, 30)
    pixels[:, width // 2 :] = (30, 30, 220)
    return Image.fromarray(pixels)


def save(path, **options):
    photo_decoding.load_formats()
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    photo().save(buffer, SAVED[path.suffix[1:].lower()], quality=90, **options)
    path.write_bytes(buffer.getvalue())
    return path


def colours(picture):
    width, height = picture.size
    return [picture.getpixel((x, height // 2)) for x in (width // 4, 3 * width // 4)]


@pytest.mark.parametrize("ending", SAVED)
def test_are_read_like_all_others(tmp_path, ending):
    path = save(tmp_path / f"a.{ending}")
    for options in ({}, {"at_least": (32, 32)}):
        picture = read_picture(path, **options)
        assert (picture.mode, picture.size) == ("RGB", (160, 96))
        left, right = colours(picture)
        assert left[0] > 180 > 80 > left[2]
        assert right[2] > 180 > 80 > right[0]
    decoded = decode_photo(path.read_bytes(), path)
    assert (decoded.width, decoded.height, decoded.format) == (160, 96, SAVED[ending])


@pytest.mark.parametrize("ending", ["heic", "avif"])
def test_are_turned_upright(tmp_path, ending):
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side: to be turned clockwise
    picture = read_picture(save(tmp_path / f"a.{ending}", exif=exif.tobytes()))
    assert picture.size == (96, 160)
    assert picture.getpixel((48, 20))[0] > 180  # what was on the left is above
    assert picture.getpixel((48, 140))[2] > 180


@pytest.mark.parametrize("ending", ["heic", "avif"])
def test_too_large_ones_are_refused_by_their_header(tmp_path, ending):
    path = save(tmp_path / f"a.{ending}")
    with pytest.raises(PhotoFileError, match=r"the photo has 160 x 96 pixels; at most 0\.01 million are decoded"):
        read_picture(path, max_pixels=10_000)


@pytest.mark.parametrize("ending", ["heic", "avif"])
def test_mutants_give_a_picture_or_our_error(tmp_path, ending):
    whole = save(tmp_path / f"a.{ending}").read_bytes()
    rng = np.random.default_rng(0)
    outcomes = set()
    for number in range(60):
        data = bytearray(whole)
        for place in rng.integers(0, len(data), 4):
            data[place] = rng.integers(256)
        try:
            decode_photo(bytes(data[: rng.integers(1, len(data))] if number % 3 == 0 else data), "x", max_pixels=10**6)
            outcomes.add("picture")
        except PhotoFileError:
            outcomes.add("error")
    assert "error" in outcomes


@pytest.mark.parametrize("ending", ["heic", "avif"])
def test_uploads_of_phones_are_decoded_by_the_server(tmp_path, ending):
    content = save(tmp_path / f"a.{ending}").read_bytes()
    views = {"size": 24, "resize": 32, "keep_shape": False, "interpolation": "bilinear"}
    limits = {"max_pixels": 10**6, "max_jpeg_pixels": 10**6}
    answer, pixels = decode_upload(content, {**views, **limits})
    assert (answer, len(pixels)) == ({}, 24 * 24 * 3)


@pytest.mark.deep
def test_a_limited_process_decodes_them(tmp_path):
    """The decoder's code is there before memory is limited."""
    content = save(tmp_path / "a.heic").read_bytes()
    job = f'{{"bytes": {len(content)}, "seconds": 10, "size": 24, "resize": 32, "keep_shape": false, '
    job += '"interpolation": "bilinear", "max_pixels": 1000000, "max_jpeg_pixels": 1000000}\n'
    command = [sys.executable, "-m", "finegraph.web.decode_worker", "64"]
    done = subprocess.run(command, input=job.encode() + content, capture_output=True, check=True)
    ready, answer = done.stdout.split(b"\n", 2)[:2]
    assert (ready, answer) == (b"ready", b'{"bytes": 1728}')


def test_a_folder_with_some(tmp_path):
    save(tmp_path / "photos" / "ramen" / "IMG_1.HEIC")
    save(tmp_path / "photos" / "udon" / "2.avif")
    samples = read_samples(tmp_path / "photos")
    assert (samples.labels, samples.notes) == (("ramen", "udon"), ())
    check = check_samples(samples)
    assert (check.errors, check.formats) == (0, {"HEIF": 1, "AVIF": 1})


class TestWithoutWhatReadsThem:
    @pytest.fixture(autouse=True)
    def _none(self, monkeypatch):
        known = frozenset({".jpg", ".png"})
        monkeypatch.setattr(folders, "PHOTO_SUFFIXES", known)
        monkeypatch.setattr(photo_decoding, "load_formats", lambda: None)
        monkeypatch.setattr(photo_decoding, "FORMATS", photo_decoding.FORMATS[:-2])

    def test_they_are_counted_by_their_ending(self, tmp_path):
        photo().save(tmp_path / "ramen.jpg")
        for label in ("ramen", "udon"):
            folder = tmp_path / "photos" / label
            folder.mkdir(parents=True)
            for name in ("1.jpg", "1.HEIC", "2.heic", "notes.txt", ".hidden.txt"):
                (folder / name).write_bytes((tmp_path / "ramen.jpg").read_bytes())
        (tmp_path / "photos" / "README").write_text("")
        notes = read_samples(tmp_path / "photos").notes
        assert notes[0].lower() == "4 .heic files cannot be read: pip install 'finegraph[heif]'"
        assert notes[1:] == ("2 .txt files and 1 file without an ending are not photos and are ignored",)
        found = check_samples(read_samples(tmp_path / "photos")).findings
        assert [one.message for one in found if one.rule == "source"] == list(notes)

    def test_a_folder_of_nothing_else_says_so(self, tmp_path):
        (tmp_path / "photos" / "ramen").mkdir(parents=True)
        (tmp_path / "photos" / "ramen" / "1.HEIC").write_bytes(b"x")
        with pytest.raises(DataError, match=r"expected photos, found none; 1 .HEIC file cannot be read: pip install"):
            read_samples(tmp_path / "photos")

    def test_a_file_that_is_named_says_what_to_install(self, tmp_path):
        (tmp_path / "a.jpg").write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic")
        with pytest.raises(PhotoFileError, match=r"it may be a HEIC or AVIF photo: pip install 'finegraph\[heif\]'"):
            read_picture(tmp_path / "a.jpg")
