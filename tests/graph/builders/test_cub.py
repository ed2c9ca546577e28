"""The CUB-200-2011 layout in small: the same files and forms, with three species and five attributes."""

import numpy as np
import pytest

from finegraph.errors import GraphError, GraphFileError, InputError, UnknownNameError
from finegraph.graph import LabelGraph
from finegraph.graph.builders import graph_from_cub

CLASSES = ["001.Black_footed_Albatross", "002.Laysan_Albatross", "003.Sooty_Albatross"]
ATTRIBUTES = [
    "has_bill_shape::curved_(up_or_down)",
    "has_bill_shape::dagger",
    "has_wing_color::blue",
    "has_wing_color::grey",
    "has_wing_color::large_(16_-_32_in)",
]
PERCENT = [
    [10.5, 80.0, 0.0, 0.0, 0.0],
    [50.0, 50.0, 100.0, 0.0, 33.3],
    [0.0, 100.0, 12.0, 2.5e1, 24.9],
]
PERCENT_FILE = "attributes/class_attribute_labels_continuous.txt"


def numbered(names):
    return "".join(f"{number} {name}\n" for number, name in enumerate(names, start=1))


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "CUB_200_2011"
    (folder / "attributes").mkdir(parents=True)
    (folder / "classes.txt").write_text(numbered(CLASSES))
    (folder / "attributes" / "attributes.txt").write_text(numbered(ATTRIBUTES))
    rows = [" ".join(f"{value:.15e}" for value in row) for row in PERCENT]
    (folder / PERCENT_FILE).write_text("\n".join(rows) + "\n")
    return folder


def test_choice_takes_the_most_confident_choice_of_each_group(folder):
    graph = graph_from_cub(folder)
    assert graph.fine == tuple(CLASSES)
    assert graph.kinds == ("bill shape", "wing color")
    assert graph.labels("bill shape") == ("curved (up or down)", "dagger")
    assert graph.labels("wing color") == ("blue", "grey", "large (16 - 32 in)")
    # The tie of the second bill shape goes to the first choice; the first wing colour has no percentage at all.
    assert graph.parents("bill shape").tolist() == [1, 0, 1]
    assert graph.parents("wing color").tolist() == [-1, 0, 1]


def test_percent_gives_weighted_binary_kinds(folder):
    graph = graph_from_cub(str(folder), attributes="percent")
    assert graph.kinds == (
        "bill shape: curved (up or down)",
        "bill shape: dagger",
        "wing color: blue",
        "wing color: grey",
        "wing color: large (16 - 32 in)",
    )
    for kind, column in zip(graph.kinds, np.array(PERCENT).T, strict=True):
        assert graph.labels(kind) == ("no", "yes")
        np.testing.assert_allclose(graph.matrix(kind), np.stack([1 - column / 100, column / 100], axis=1))
    fine, coarse, weight = graph.edges("wing color: blue")
    assert (fine.tolist(), coarse.tolist()) == ([0, 1, 2, 2], [0, 1, 0, 1])  # 0 is a plain no and 100 a plain yes
    assert weight.tolist() == pytest.approx([1, 1, 0.88, 0.12])


def test_groups_choose_and_order(folder):
    assert graph_from_cub(folder, groups=["wing color", "bill shape"]).kinds == ("wing color", "bill shape")
    assert graph_from_cub(folder, "percent", groups=["bill shape"]).kinds == (
        "bill shape: curved (up or down)",
        "bill shape: dagger",
    )
    assert graph_from_cub(folder, groups=[]).kinds == ()
    with pytest.raises(UnknownNameError, match="unknown group of attributes 'bill shpe'; did you mean 'bill shape'"):
        graph_from_cub(folder, groups=["bill shpe"])
    with pytest.raises(GraphError, match="the kind 'bill shape' is given twice"):
        graph_from_cub(folder, groups=["bill shape", "bill shape"])


@pytest.mark.parametrize("attributes", ["choice", "percent"])
def test_graph_survives_a_file(folder, tmp_path, attributes):
    graph = graph_from_cub(folder, attributes)
    graph.write(tmp_path / "graph.csv")
    assert LabelGraph.read(tmp_path / "graph.csv") == graph


@pytest.mark.parametrize("place", ["attributes.txt", "../attributes.txt"])
def test_names_of_attributes_may_lie_elsewhere(folder, place):
    expected = graph_from_cub(folder)
    (folder / "attributes" / "attributes.txt").rename(folder / place)
    assert graph_from_cub(folder) == expected


def test_line_ends_of_other_systems(folder):
    expected = graph_from_cub(folder)
    for name in ("classes.txt", "attributes/attributes.txt", PERCENT_FILE):
        text = (folder / name).read_text()
        (folder / name).write_bytes(text.rstrip("\n").replace("\n", " \r\n").encode())
    assert graph_from_cub(folder) == expected


def test_missing_files_are_all_named(tmp_path):
    with pytest.raises(GraphFileError) as caught:
        graph_from_cub(tmp_path / "nowhere")
    text = str(caught.value)
    assert "nowhere: 3 faults" in text
    assert "classes.txt: the file cannot be read: No such file or directory" in text
    assert "there is no attributes.txt; looked for " in text
    assert "class_attribute_labels_continuous.txt: the file cannot be read: No such file" in text
    assert {fault.rule for fault in caught.value.faults} == {"unreadable-file", "missing-file"}


def test_all_faults_come_at_once_with_their_lines(folder):
    (folder / "classes.txt").write_text("1 a\n3 b\nx\n4 a\n")
    (folder / "attributes" / "attributes.txt").write_text(
        "1 has_a::b\n2 has_a_b\n3 has_a::b\n4 has_::c\n5 has_a::\n6 has_label::x\n"
    )
    (folder / PERCENT_FILE).write_text("1 2 3 4 5 6\n1 2 x 4 5 101\n-1 nan 3 4 5 6\n1 2 3\n1 2 3 4 5 6\n")
    with pytest.raises(GraphFileError) as caught:
        graph_from_cub(folder)
    text = str(caught.value)
    attributes, percent = f"{folder}/attributes/attributes.txt", f"{folder}/{PERCENT_FILE}"
    for line in (
        f"{folder}/classes.txt:2: value '3 b': expected the number 2 and a name, as in '1 001.Black_footed_Albatross'",
        f"{folder}/classes.txt:3: value 'x': expected the number 3 and a name",
        f"{folder}/classes.txt:4: value 'a': this class is already on line 1; each class needs a name of its own",
        f"{attributes}:2: value 'has_a_b': expected 'group::choice'",
        f"{attributes}:3: value 'has_a::b': this attribute is already on line 1",
        f"{attributes}:4: value 'has_::c': a name must not be empty",
        f"{attributes}:5: value 'has_a::': a name must not be empty",
        f"{attributes}:6: value 'has_label::x': this name is taken",
        f"{percent}:5: expected 4 lines, one per class of classes.txt, got 5; the whole data set has 200",
        f"{percent}:2: value 'x': number 3 of the line must be a percentage from 0 to 100",
        f"{percent}:2: value '101': number 6 of the line must",
        f"{percent}:3: value '-1': number 1 of the line must",
        f"{percent}:3: value 'nan': number 2 of the line must",
        f"{percent}:4: expected 6 numbers, one per line of attributes.txt, got 3; the whole data set has 312",
    ):
        assert line in text, line
    assert len(caught.value.faults) == 14


def test_empty_and_undecodable_files(folder):
    (folder / "classes.txt").write_text("")
    (folder / "attributes" / "attributes.txt").write_bytes(b"1 has_a::b\n2 has_a::\xff\n")
    with pytest.raises(GraphFileError, match=r"classes.txt:1: expected lines such as .*, got an empty file") as caught:
        graph_from_cub(folder)
    assert "attributes.txt:2: byte 20 (0xFF) is not UTF-8; save the file as UTF-8" in str(caught.value)


def test_a_flood_of_faults_is_counted_not_printed(folder):
    (folder / PERCENT_FILE).write_text(("x " * 5000 + "\n") * 3)
    with pytest.raises(GraphFileError, match="more than 10000 faults") as caught:
        graph_from_cub(folder)
    assert len(str(caught.value).splitlines()) == 52
    assert len(caught.value.faults) == 10_000


def test_attributes_argument_is_checked(folder):
    with pytest.raises(InputError, match="attributes must be 'choice' or 'percent', got 'all'"):
        graph_from_cub(folder, attributes="all")


@pytest.mark.deep
def test_the_size_of_the_real_data_set(tmp_path):
    rng = np.random.default_rng(0)
    percent = rng.integers(0, 101, (200, 312))
    (tmp_path / "attributes").mkdir()
    (tmp_path / "classes.txt").write_text(numbered([f"{i:03}.Bird" for i in range(200)]))
    (tmp_path / "attributes.txt").write_text(numbered([f"has_g{i % 28}::c{i}" for i in range(312)]))
    np.savetxt(tmp_path / PERCENT_FILE, percent)
    choice, weighted = graph_from_cub(tmp_path), graph_from_cub(tmp_path, "percent")
    assert (len(choice), len(choice.kinds), len(weighted.kinds)) == (200, 28, 312)
    # Groups need not lie together in the file: group g3 has the columns 3, 31, 59, ...
    best = percent[:, 3::28].argmax(axis=1)
    assert [choice.labels("g3")[parent] for parent in choice.parents("g3")] == [f"c{3 + 28 * b}" for b in best]


def test_sizes_in_rising_order_if_asked(folder):
    names = ["large (16 - 32 in)", "small (5 - 9 in)", "very large (32 - 72 in)", "medium (9 - 16 in)"]
    attributes = [f"has_size::{name}".replace(" ", "_") for name in names] + ["has_back::blue"]
    for place in ("attributes/attributes.txt", "attributes.txt", "../attributes.txt"):
        if (folder / place).is_file():
            (folder / place).write_text(numbered(attributes))
    rows = ["40 40 5 15 100", "0 90 0 10 0", "0 0 0 0 0"]
    (folder / "attributes" / "class_attribute_labels_continuous.txt").write_text("\n".join(rows) + "\n")
    plain, ordered = graph_from_cub(folder), graph_from_cub(folder, ordered=True)
    # The tie of the first species goes to the choice that is first in the file, whatever the order of sizes.
    names = [[graph.labels("size")[place] for place in graph.parents("size")[:2]] for graph in (plain, ordered)]
    assert names == [["large (16 - 32 in)", "small (5 - 9 in)"]] * 2
    assert not plain.kind("size").ordered
    assert ordered.kind("size").ordered
    assert [label.split(" (")[0] for label in ordered.labels("size")] == ["small", "medium", "large", "very large"]
    assert ordered.parents("size").tolist() == [2, 0, -1]
    assert ordered.kinds == plain.kinds
    with pytest.raises(InputError, match="choice"):
        graph_from_cub(folder, "percent", ordered=True)
