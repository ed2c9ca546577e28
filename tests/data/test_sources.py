"""The layouts: the same photos give the same list, and every fault is named at its place."""

import os
import shutil
from pathlib import Path

import pytest
from data_files import save
from layouts import PHOTOS, write_cub, write_manifest, write_photos

from finegraph.data import Box, Sample, Samples, read_samples
from finegraph.data.layouts.cub import read_cub
from finegraph.data.layouts.folders import read_folders
from finegraph.data.sources import source_graph
from finegraph.errors import DataError, DataFileError, GraphError, InputError, UnknownNameError


def test_the_same_photos_give_the_same_list_in_every_layout(tmp_path, unchanged):
    write_cub(tmp_path)
    write_manifest(tmp_path / "images.csv", "images")
    for label, name, split, _ in PHOTOS:
        place = tmp_path / "parted" / split / label
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(tmp_path / "images" / label / name, place / name)
    unchanged()
    cub, manifest = read_samples(f"cub:{tmp_path}"), read_samples(tmp_path / "images.csv")
    folder, parted = read_samples(tmp_path / "images"), read_samples(str(tmp_path / "parted"))
    assert cub == manifest
    assert len(cub) == 6
    assert cub[0] == Sample(tmp_path / "images/001.Albatross/a1.jpg", "001.Albatross", "train", Box(10, 5, 30, 20))
    assert [(x.path, x.label) for x in folder] == [(x.path, x.label) for x in cub]
    assert {x.split for x in folder} == {None}
    triples = {(x.path.name, x.label, x.split) for x in cub}
    assert {(x.path.name, x.label, x.split) for x in parted} == triples
    assert source_graph(tmp_path / "images").fine == source_graph(tmp_path / "images.csv").fine[::-1] == cub.labels


def test_a_list_of_samples():
    samples = Samples([Sample(Path(name), label, split) for name, label, split in ("bxs", "axt", "cyt")], "here")
    assert [sample.path.name for sample in samples] == ["a", "b", "c"]
    assert samples.splits == ("s", "t")
    assert samples.counts() == {"x": 2, "y": 1}
    assert samples.split_counts() == {"s": 1, "t": 2}
    assert [sample.path.name for sample in samples.split("t")] == ["a", "c"]
    assert isinstance(samples[1:], Samples)
    assert samples[-1].label == "y"
    assert repr(samples) == "Samples(3 photos of 2 labels; s: 1, t: 2)"
    assert samples == Samples(reversed(samples))
    assert hash(samples) == hash(Samples(reversed(samples)))
    assert samples != samples[:2]
    with pytest.raises(UnknownNameError, match="unknown split 'train' in here; there are: 's', 't'"):
        samples.split("train")


def test_what_is_no_source(tmp_path):
    (tmp_path / "list.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "photos.csv").write_text("path,label\na.jpg,a\n")
    for source, words in {
        "grocary:x": r"grocary:x: there is no such file or folder; did you mean grocery:...\?",
        "cars+orders:x": r"'cars' has no 'orders'; with orders or numbers there are cub\+orders:PATH and cars\+numbers",
        "cub+order:x": r"; did you mean cub\+orders:...\?",
        f"{tmp_path}/photo.csv": r"did you mean '.*photos.csv'\?",
        f"{tmp_path}/zzz": "a source is a folder, a manifest .*, or one of folder:PATH, manifest:PATH, cub:PATH",
        f"{tmp_path}/list.txt": "expected a folder of photos or a manifest",
        f"{tmp_path}/empty": "expected photos, found none",
    }.items():
        with pytest.raises(DataError, match=words):
            read_samples(source)
    assert len(read_samples(f"manifest:{tmp_path}/photos.csv")) == 1


def test_folders_pass_over_what_is_no_photo(tmp_path):
    write_photos(tmp_path)
    folder = tmp_path / "001.Albatross"
    (folder / ".hidden.jpg").write_bytes(b"x")
    (folder / "notes.txt").write_text("x")
    (folder / "Upper.JPG").write_bytes(b"x")
    (folder / "gone.jpg").symlink_to(tmp_path / "nowhere.jpg")
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "a.jpg").write_bytes(b"x")
    (tmp_path / "nothing").mkdir()
    names = [sample.path.name for sample in read_folders(tmp_path)]
    # A link that leads nowhere is called like a photo: whoever opens it says what is wrong.
    assert names == ["Upper.JPG", "a1.jpg", "a2.jpg", "a3.jpg", "gone.jpg", "w1.jpg", "w2.jpg", "w3.jpg"]
    assert read_folders(tmp_path).notes == ("1 .txt file is not a photo and is ignored",)


def test_a_link_that_leads_back_is_a_fault(tmp_path):
    write_photos(tmp_path)
    (tmp_path / "002.Wren" / "loop").symlink_to(tmp_path)
    with pytest.raises(
        DataFileError, match=r"1 fault\n.*loop: is a link to .*, which is read already; remove the link"
    ):
        read_folders(tmp_path)


def test_deep_folders(tmp_path):
    for place in ("train/x/a", "train/y/b", "val/x/a", "test/y/b"):
        save(tmp_path / place / "1.jpg")
    assert [(x.label, x.split) for x in read_folders(tmp_path)] == [
        ("b", "test"),
        ("a", "train"),
        ("b", "train"),
        ("a", "val"),
    ]
    assert read_folders(tmp_path, fine="path").labels == ("x/a", "y/b")
    assert source_graph(tmp_path).kinds == ("level 1",)
    save(tmp_path / "train/z/a/1.jpg")
    with pytest.raises(GraphError, match="several folders with photos have the same name"):
        read_folders(tmp_path)
    with pytest.raises(InputError, match="fine must be 'name' or 'path', got 'all'"):
        read_folders(tmp_path, fine="all")
    save(tmp_path / "1.jpg")
    with pytest.raises(DataFileError, match="photos lie outside any label"):
        read_folders(tmp_path)


def test_manifest_cells(tmp_path):
    path = tmp_path / "images.csv"
    path.write_text('path,dish,label,tofu\n"a,b.jpg",mapo,mapo @ A,yes\nsub/c.jpg,,,\n/abs/d.jpg,kung,kung @ B,\n')
    root, first, second = read_samples(path)
    assert root == Sample(Path("/abs/d.jpg"), "kung @ B", kinds={"dish": "kung"})
    assert first == Sample(tmp_path / "a,b.jpg", "mapo @ A", kinds={"dish": "mapo", "tofu": "yes"})
    assert second == Sample(tmp_path / "sub/c.jpg")
    assert read_samples(path).kinds == ("dish", "tofu")


def test_a_photo_may_have_several_boxes(tmp_path):
    path = tmp_path / "images.csv"
    path.write_text("path,label,x,y,width,height\na.jpg,b,9,0,5,5\na.jpg,a,0,0,5,5\n")
    assert [(sample.label, sample.box) for sample in read_samples(path)] == [("a", (0, 0, 5, 5)), ("b", (9, 0, 5, 5))]


def test_all_faults_of_a_manifest_come_at_once(tmp_path):
    path = tmp_path / "images.csv"
    path.write_text(
        "path,label,split,x,y,width,height,dish\n"
        "a.jpg,a,train,1,2,3,4,d\n"
        "a.jpg,a,train,1,2,3,4,d\n"
        ",a,train,,,,,\n"
        "b.jpg, a,train,1,-2,0,x,d \n"
        "c.jpg,a,train,1,,3,4,d\n"
        "d.jpg,a\n"
        "e.jpg,a,train,1,nan,3,inf,d\n"
    )
    with pytest.raises(DataFileError) as caught:
        read_samples(path)
    text = str(caught.value)
    assert text.startswith(f"the manifest {path}: 11 faults\n")
    for words in (
        ":3: column 'path': value 'a.jpg': this photo is already on line 2; remove one row",
        ":4: column 'path': the row names no photo",
        ":5: column 'label': value ' a': a name must not begin or end with white space",
        ":5: column 'dish': value 'd ': a name must",
        ":5: column 'y': value '-2': expected a number of pixels, 0 or more",
        ":5: column 'width': value '0': expected a number of pixels, more than 0",
        ":5: column 'height': value 'x': expected",
        ":6: column 'y': value '': expected a number of pixels, 0 or more; leave all four cells empty",
        ":7: the row has 2 cells, the header has 8",
        ":8: column 'y': value 'nan'",
        ":8: column 'height': value 'inf'",
    ):
        assert f"  {path}{words}" in text
    assert len(caught.value.faults) == 11


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("file,label", "there is no column 'path'; a manifest begins with the line path,label"),
        ("path,labels", "there is no column 'label'; rename 'labels'"),
        ("path,label,x,y", "a box needs the four columns x, y, width and height; there is no width, height"),
        ("path,label,fine", "value 'fine': a manifest has no such column"),
        ("path,label,dish,dish", "columns number 3 and 4 have the same name"),
        ("path,label", "expected at least one row below the header, got none"),
        ("", "expected a header such as path,label"),
    ],
)
def test_headers(tmp_path, header, words):
    (tmp_path / "images.csv").write_text(header + "\n" if header else "")
    with pytest.raises(DataFileError, match=f"images.csv:1: .*{words}"):
        read_samples(tmp_path / "images.csv")


def test_all_faults_of_a_cub_folder_come_at_once(tmp_path):
    write_cub(tmp_path)
    (tmp_path / "images.txt").write_text("1 a/1.jpg\n2 b/2.jpg\n2 b/3.jpg\nx\n4 ../../4.jpg\n")
    (tmp_path / "image_class_labels.txt").write_text("1 1\n2 3\n4 1\n")
    (tmp_path / "train_test_split.txt").write_text("1 1\n2 2\n4 0\n9 1\n")
    (tmp_path / "bounding_boxes.txt").write_text("1 0 0 5\n2 0 0 0 5\n4 0 0 5 5\n")
    with pytest.raises(DataFileError) as caught:
        read_samples(f"cub:{tmp_path}")
    text = str(caught.value)
    for words in (
        "images.txt:3: value '2 b/3.jpg': photo 2 is already on line 2",
        "images.txt:4: value 'x': expected the number of a photo and 1 field",
        "images.txt:5: value '../../4.jpg': leads outside",
        "image_class_labels.txt:2: value '3': expected the number of a class, 1 to 2, as in classes.txt",
        "train_test_split.txt:2: value '2': expected 1 for training or 0 for testing",
        "train_test_split.txt:4: value '9 1': there is no photo 9 in images.txt",
        "bounding_boxes.txt:1: value '1 0 0 5': expected the number of a photo and 4 fields",
        "bounding_boxes.txt:2: value '0 0 0 5': expected x y width height",
    ):
        assert words in text, words
    assert len(caught.value.faults) == 8


def test_missing_files_of_cub_are_all_named(tmp_path):
    with pytest.raises(DataFileError, match="5 faults") as caught:
        read_samples(f"cub:{tmp_path}")
    for name in ("classes", "images", "image_class_labels", "train_test_split", "bounding_boxes"):
        assert f"{name}.txt: the file cannot be read: No such file" in str(caught.value)


def test_photos_missing_in_a_list_of_cub(tmp_path):
    write_cub(tmp_path)
    (tmp_path / "bounding_boxes.txt").write_text("1 0 0 5 5\n")
    with pytest.raises(DataFileError, match=r"there is no line of photo 2 and of 4 more, which images\.txt lists"):
        read_cub(tmp_path)


ATTRIBUTES = "1 has_bill_shape::hooked\n2 has_bill_shape::dagger\n3 has_wing_color::blue\n4 has_wing_color::red\n"


@pytest.fixture
def cub_with_attributes(tmp_path):
    write_cub(tmp_path)
    (tmp_path / "attributes").mkdir()
    (tmp_path / "attributes" / "attributes.txt").write_text(ATTRIBUTES)
    return tmp_path


def test_attributes_of_photos(cub_with_attributes):
    (cub_with_attributes / "attributes" / "image_attribute_labels.txt").write_text(
        "1 1 1 3 9.5\n1 2 1 4 1.0\n1 3 1 2 1\n1 4 0 4 1\n"  # dagger is surer than hooked; blue was a guess
        "2 1 1 4 1\n2 2 1 4 1\n2 3 1 3 1\n2 4 0 4 1\n"  # hooked and dagger tie
        "3 1 0 0 1 4 1\n3 2 1 3\n3 3 1 4 1\n\n3 4 1 3 1"  # lines with fields too many and too few; no last line end
    )
    samples = read_samples(f"cub:{cub_with_attributes}")
    assert [dict(sample.kinds) for sample in samples[:3]] == [
        {"bill shape": "dagger"},
        {"wing color": "blue"},
        {"wing color": "blue"},
    ]
    assert all(not sample.kinds for sample in samples[3:])
    (note,) = samples.notes
    assert note.endswith("2 lines do not have 5 fields and were left out, the first is line 9")
    assert read_cub(cub_with_attributes, certainty=2)[0].kinds == {"bill shape": "dagger", "wing color": "blue"}
    assert read_cub(cub_with_attributes, certainty=4)[1].kinds == {}
    with pytest.raises(InputError, match=r"certainty must be 1 .* to 4 .*, got 5"):
        read_cub(cub_with_attributes, certainty=5)


def test_attributes_are_read_in_pieces(cub_with_attributes, monkeypatch):
    lines = [f"{photo} {attribute} 1 {attribute} 1.5" for photo in range(1, 7) for attribute in range(1, 5)]
    lines[13] += " 7 7"
    (cub_with_attributes / "attributes" / "image_attribute_labels.txt").write_text("\n".join(lines))
    whole = read_cub(cub_with_attributes, certainty=1)
    monkeypatch.setattr("finegraph.data.layouts.cub._PIECE", 50)
    pieces = read_cub(cub_with_attributes, certainty=1)
    assert pieces == whole
    assert pieces.notes == whole.notes
    assert "line 14 has not 5 fields" in whole.notes[0]
    assert whole[3].kinds == {"bill shape": "hooked", "wing color": "red"}  # line 14 would have said dagger


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("9 1 1 4 1\n", "there is no photo 9 in images.txt"),
        ("1 5 1 4 1\n", "expected attributes from 1 to 4, as in attributes.txt"),
        ("1 1 1 4 1\n1 x 1 4 1\n", "expected nothing but numbers on the lines from here on"),
        ("1 1 1 4 1\n1 1 1 4 nan\n", "expected nothing but numbers"),
    ],
)
def test_faults_of_the_attributes_of_photos(cub_with_attributes, text, words):
    (cub_with_attributes / "attributes" / "image_attribute_labels.txt").write_text(text)
    with pytest.raises(DataFileError, match=f"image_attribute_labels.txt:.* {words}"):
        read_cub(cub_with_attributes)


def test_relative_sources(tmp_path, monkeypatch):
    write_cub(tmp_path / "cub")
    monkeypatch.chdir(tmp_path)
    assert read_samples("cub:cub")[0].path == Path("cub/images/001.Albatross/a1.jpg")
    assert os.path.exists(read_samples("cub/images")[0].path)
