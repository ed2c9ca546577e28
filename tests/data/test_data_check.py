"""The check of photos: what it finds, what it leaves alone, and what it writes."""

import csv
import shutil

import numpy as np
import pytest
from data_files import photo, save
from layouts import write_cub
from PIL import Image

from finegraph.data import Box, Sample, Samples, read_samples
from finegraph.data.checks.duplicates import Fingerprint, find_duplicates, fingerprint, picture_bits
from finegraph.data.checks.photo_check import check_samples
from finegraph.data.checks.photo_findings import COLUMNS, Finding, write_findings
from finegraph.errors import InputError
from finegraph.files.csv_table import defused
from finegraph.graph import LabelGraph


def found(check, rule):
    return [one for one in check.findings if one.rule == rule]


def test_good_data(tmp_path, unchanged):
    write_cub(tmp_path)
    unchanged()
    check = check_samples(read_samples(f"cub:{tmp_path}"))
    assert check.findings == ()
    assert (check.samples, check.files, check.bad_files, check.errors, check.warnings) == (6, 6, 0, 0, 0)
    assert check.counts == {"001.Albatross": {"train": 2, "test": 1}, "002.Wren": {"train": 2, "test": 1}}
    assert check.sizes.width == (64, 64, 64)
    assert check.sizes.height == (48, 48, 48)
    assert (check.formats, check.modes) == ({"JPEG": 6}, {"RGB": 6})


@pytest.mark.parametrize("workers", [1, 3])
def test_bad_files_boxes_and_sizes(tmp_path, workers):
    good, small = save(tmp_path / "a.png"), save(tmp_path / "b.png", 1, 20, 40)
    (tmp_path / "c.jpg").write_bytes(b"")
    samples = Samples(
        [
            *(
                Sample(good, "x", box=Box(*box))
                for box in ((0, 0, 64, 48), (60, 0, 5, 5), (60, 0, 9, 5), (64, 0, 9, 5))
            ),
            Sample(small, "x"),
            Sample(tmp_path / "c.jpg", "x"),
            Sample(tmp_path / "d.jpg", "x"),
        ]
    )
    steps = []
    check = check_samples(samples, progress=lambda done, total: steps.append((done, total)), workers=workers)
    assert [(one.severity, one.files[0][-5:], one.message) for one in check.findings] == [
        ("error", "a.png", "the box misses the photo: the photo has 64 x 48 pixels, the box is 64 0 9 5"),
        ("error", "c.jpg", "the file is empty"),
        ("error", "d.jpg", "there is no such file"),
        ("warning", "a.png", "the box reaches beyond the photo: the photo has 64 x 48 pixels, the box is 60 0 9 5"),
        ("warning", "b.png", "the photo has only 20 x 40 pixels"),
    ]
    assert (check.samples, check.files, check.bad_files) == (7, 4, 2)
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_leakage_is_worse_than_a_duplicate(tmp_path):
    first = save(tmp_path / "train/a/1.png", 1, 200, 150)
    shutil.copy(first, save(tmp_path / "test/a/2.png"))
    photo(1, 200, 150).resize((120, 90)).save(tmp_path / "test/a/3.jpg", quality=60)
    save(tmp_path / "train/a/4.png", 2)
    shutil.copy(tmp_path / "train/a/4.png", save(tmp_path / "train/b/5.png"))
    save(tmp_path / "test/b/6.png", 3)
    check = check_samples(read_samples(tmp_path))
    assert [
        (one.severity, one.rule, [name[len(str(tmp_path)) + 1 :] for name in one.files]) for one in check.findings
    ] == [
        ("error", "leakage-exact", ["test/a/2.png", "train/a/1.png"]),
        ("error", "leakage-re-encoded", ["test/a/2.png", "test/a/3.jpg", "train/a/1.png"]),
        ("warning", "duplicate-exact", ["train/a/4.png", "train/b/5.png"]),
    ]
    assert check.findings[0].message == "the same file is there 2 times, in the splits test and train"
    assert check.findings[2].message == "the same file is there 2 times, with the labels 'a', 'b'"
    assert check.findings[2].hint == "find out which label is right"


def test_one_file_in_two_splits(tmp_path):
    path = save(tmp_path / "a.png")
    samples = Samples([Sample(path, "x", "train", Box(0, 0, 9, 9)), Sample(path, "x", "test", Box(9, 9, 9, 9))])
    (one,) = found(check_samples(samples), "leakage-exact")
    assert one.files == (str(path),)


@pytest.mark.deep
@pytest.mark.parametrize("ending", ["jpg", "png", "webp", "bmp", "tif"])
def test_pictures_are_known_again_in_another_form(tmp_path, ending):
    originals, copies = [], []
    for seed in range(12):
        originals.append(fingerprint(save(tmp_path / f"{seed}.jpg", seed, 348, 260, quality=90)))
        options = {"quality": 50} if ending in ("jpg", "webp") else {}
        other = (
            photo(seed, 348, 260).resize((200, 150), Image.Resampling.BICUBIC) if seed % 2 else photo(seed, 348, 260)
        )
        other.save(tmp_path / f"copy{seed}.{ending}", **options)
        copies.append(fingerprint(tmp_path / f"copy{seed}.{ending}"))
    groups = find_duplicates(originals + copies)
    assert [(group.form, group.members) for group in groups] == [("re-encoded", (i, i + 12)) for i in range(12)]


def test_other_pictures_are_not_duplicates(tmp_path):
    plain = photo(5, 200, 150)
    pictures = {
        "mirror": plain.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        "turned": plain.transpose(Image.Transpose.ROTATE_180),
        "part": plain.crop((0, 0, 140, 105)),
        "darker": plain.point(lambda value: value * 0.8),
        "channels": Image.merge("RGB", plain.split()[::-1]),
        "plain": plain,
    }
    for name, picture in pictures.items():
        picture.save(tmp_path / f"{name}.png")
    assert find_duplicates([fingerprint(path) for path in sorted(tmp_path.glob("*.png"))]) == []


def test_noise_in_even_areas_does_not_change_the_look():
    rng = np.random.default_rng(0)
    even = np.full((64, 64, 3), 180)
    even[:, :20] = np.linspace(0, 180, 20)[None, :, None]
    noisy = even + rng.integers(-8, 9, even.shape)
    looks = [picture_bits(Image.fromarray(pixels.astype(np.uint8))) for pixels in (even, noisy)]
    assert looks[0] == looks[1] != 0


def test_blank_pictures_are_compared_as_files_only(tmp_path):
    for number, grey in enumerate((200, 200, 201)):
        Image.new("L", (40, 40), grey).save(tmp_path / f"{number}.png")
    groups = find_duplicates([fingerprint(tmp_path / f"{number}.png") for number in range(3)])
    assert [(group.form, group.members) for group in groups] == [("exact", (0, 1))]


def random_print(rng, look=None, thumbnail=None):
    thumbnail = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8) if thumbnail is None else thumbnail
    look = int(rng.integers(0, 2**63)) if look is None else look
    return Fingerprint(rng.bytes(32), look, thumbnail, 10, 10, "PNG", "RGB")


def test_every_pair_within_three_bits_is_found():
    rng = np.random.default_rng(0)
    prints = [random_print(rng) for _ in range(2000)]
    expected = set()
    for number in range(200):
        flips = rng.choice(64, size=number % 5, replace=False)
        look = prints[number].look
        for bit in flips:
            look ^= 1 << int(bit)
        prints.append(random_print(rng, look, prints[number].thumbnail))
        if len(flips) <= 3:
            expected.add((number, 2000 + number))
    assert {group.members for group in find_duplicates(prints)} == expected


def test_likeness_of_looks_alone_is_not_enough():
    rng = np.random.default_rng(0)
    prints = [random_print(rng, look=7) for _ in range(500)]
    assert find_duplicates(prints) == []


GRAPH = LabelGraph.from_table(
    {"ramen": {"dish": "noodles", "egg": True}, "udon": {"dish": "noodles", "egg": False}, "curry": {"dish": "rice"}}
)


def test_labels_against_a_graph(tmp_path):
    rows = [
        ("ramen", {"egg": "yes"}),
        ("ramen", {"egg": "no"}),
        ("ramen", {"egg": "no", "weather": "sun"}),
        ("udom", {"dish": "rice"}),
        (None, {"dish": "noodle"}),
        ("curry", {"egg": "no", "dish": "noodles"}),  # the graph does not know of eggs in curry, but of rice
    ]
    samples = []
    for number, (label, kinds) in enumerate(rows):
        samples.append(Sample(save(tmp_path / f"{number}.png", number), label, "train", None, kinds))
    check = check_samples(Samples(samples), GRAPH)
    assert [(one.severity, one.rule, one.message, one.hint) for one in check.findings] == [
        ("error", "unknown-label", "the graph has no fine label 'udom', which 1 photo has", "did you mean 'udon'?"),
        (
            "error",
            "unknown-kind-label",
            "the graph has no label of kind 'dish' 'noodle', which 1 photo has",
            "did you mean 'noodles'?",
        ),
        ("warning", "no-label", "1 of 6 photos have no fine label", None),
        ("warning", "label-without-photos", "there is 1 label of the graph without photos: 'udon'", None),
        ("warning", "unknown-kind", "the graph has no kind 'weather'; its labels on photos are not used", None),
        (
            "warning",
            "contradiction",
            "1 of 1 photos of 'curry' show 'noodles', which the graph excludes for 'dish'",
            "mend the graph or the photos' labels, or let what photos show become weights of the graph",
        ),
        (
            "warning",
            "contradiction",
            "2 of 3 photos of 'ramen' show 'no', which the graph excludes for 'egg'",
            "mend the graph or the photos' labels, or let what photos show become weights of the graph",
        ),
    ]


def test_labels_without_training_photos(tmp_path):
    samples = [
        Sample(save(tmp_path / f"{i}.png", i), label, split)
        for i, (label, split) in enumerate([("a", "train"), ("a", "test"), ("b", "test"), ("c", "val")])
    ]
    (one,) = check_samples(Samples(samples, notes=())).findings
    assert one.message == "there are 2 labels without training photos: 'b', 'c'"
    assert check_samples(Samples(samples[2:])).findings == ()


def test_notes_of_the_source_are_warnings(tmp_path):
    check = check_samples(Samples([Sample(save(tmp_path / "a.png"), "a")], notes=["3 lines were left out"]))
    assert [(one.rule, one.message) for one in check.findings] == [("source", "3 lines were left out")]


def test_table_of_findings(tmp_path):
    path = tmp_path / "out.csv"
    findings = [
        Finding(rule="duplicate-exact", severity="warning", message="m", files=("=cmd()", "+b", "c")),
        Finding(rule="no-label", severity="warning", message='@x, "y"', hint="-1"),
    ]
    write_findings(path, findings)
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [
        list(COLUMNS),
        ["warning", "duplicate-exact", "1", "'=cmd()", "m", ""],
        ["warning", "duplicate-exact", "1", "'+b", "m", ""],
        ["warning", "duplicate-exact", "1", "c", "m", ""],
        ["warning", "no-label", "2", "", '\'@x, "y"', "'-1"],
    ]
    write_findings(path, [])
    assert path.read_text() == ",".join(COLUMNS) + "\n"
    assert [defused(cell) for cell in ("a=b", "\tx", "")] == ["a=b", "'\tx", ""]


def test_other_files_are_not_replaced_by_a_table(tmp_path, unchanged):
    (tmp_path / "images.csv").write_text("path,label\na.jpg,a\n")
    unchanged()
    with pytest.raises(InputError, match=r"images.csv: this file is there and is no table of findings"):
        write_findings(tmp_path / "images.csv", [])


def test_text_of_a_finding():
    files = tuple(f"{letter}.jpg" for letter in "abcdef")
    one = Finding(rule="r", severity="warning", message="twice", files=files, hint="remove one")
    assert one.text() == "a.jpg: warning: twice; also b.jpg, c.jpg, d.jpg and 2 more; remove one"
    assert Finding(rule="r", severity="error", message="no labels").text() == "no labels"
