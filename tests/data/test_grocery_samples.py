"""The Grocery Store data set: lists, classes, and the graph of both."""

import pytest
from data_files import save

from finegraph.data import Sample, read_samples
from finegraph.data.sources import source_graph
from finegraph.errors import DataFileError, GraphFileError

HEADER = "Class Name (str),Class ID (int),Coarse Class Name (str),Coarse Class ID (int),Iconic Image Path (str)\n"


@pytest.fixture
def grocery(tmp_path):
    rows = "Royal-Gala,0,Apple,0,/a\nPink-Lady,1,Apple,0,/b\nLeek,2,Leek,1,/c\nOat-Milk,3,Milk,2,/d\n"
    (tmp_path / "classes.csv").write_text(HEADER + rows)
    (tmp_path / "train.txt").write_text(
        "train/Fruit/Apple/Royal-Gala/1.jpg, 0, 0\ntrain/Vegetables/Leek/1.jpg, 2, 1\ntrain/Fruit/Apple/P/1.jpg, 1, 0\n"
    )
    (tmp_path / "val.txt").write_text("val/Fruit/Apple/Royal-Gala/1.jpg, 0, 0\n")
    (tmp_path / "test.txt").write_text("test/Vegetables/Leek/1.jpg, 2, 1\n")
    save(tmp_path / "train/Fruit/Apple/Royal-Gala/1.jpg")
    return tmp_path


def test_samples(grocery):
    samples = read_samples(f"grocery:{grocery}")
    assert samples.split_counts() == {"test": 1, "train": 3, "val": 1}
    assert samples.split("train")[0] == Sample(grocery / "train/Fruit/Apple/P/1.jpg", "Pink-Lady", "train")


def test_graph(grocery):
    graph = source_graph(f"grocery:{grocery}")
    assert graph.fine == ("Royal-Gala", "Pink-Lady", "Leek", "Oat-Milk")
    assert graph.labels("product") == ("Apple", "Leek", "Milk")
    assert graph.labels("group") == ("Fruit", "Vegetables")
    assert graph.parents("product").tolist() == [0, 0, 1, 2]
    assert graph.parents("group").tolist() == [0, 0, 1, -1]


def test_faults_come_at_once(grocery):
    (grocery / "train.txt").write_text("train/Fruit/1.jpg, 9, 0\nFruit/a/1.jpg, 0, 0\ntrain/../x/1.jpg, 0, 0\nx\n")
    (grocery / "test.txt").unlink()
    with pytest.raises(DataFileError) as caught:
        read_samples(f"grocery:{grocery}")
    for words in (
        "train.txt:1: value 'train/Fruit/1.jpg, 9, 0': there is no class 9 in classes.csv",
        "train.txt:2: value 'Fruit/a/1.jpg, 0, 0': expected 'train/group/.../photo, class, coarse class'",
        "train.txt:3: ",
        "train.txt:4: value 'x'",
        "test.txt: the file cannot be read: No such file",
    ):
        assert words in str(caught.value)


def test_faults_of_the_classes(grocery):
    (grocery / "classes.csv").write_text(HEADER + "a,0,x,0,/\nb,0,x,0,/\na,1,x,0,/\n,2,x,0,/\n")
    with pytest.raises(GraphFileError) as caught:
        source_graph(f"grocery:{grocery}")
    for words in (":3: value 'b,0': expected a class and a number", ":4: value 'a,1'", ":5: value '': a name must not"):
        assert f"classes.csv{words}" in str(caught.value)
    (grocery / "classes.csv").write_text("name,id\na,0\n")
    with pytest.raises(GraphFileError, match=r"there is no column 'Class Name \(str\)'"):
        source_graph(f"grocery:{grocery}")


def test_a_class_in_two_groups(grocery):
    (grocery / "val.txt").write_text("val/Vegetables/Apple/Royal-Gala/1.jpg, 0, 0\n")
    with pytest.raises(GraphFileError, match="photos of 'Royal-Gala' lie in several groups: Fruit, Vegetables"):
        source_graph(f"grocery:{grocery}")
