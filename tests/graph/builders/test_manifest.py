"""Manifests: one row per photo, one column per kind."""

import math

import pytest

from finegraph.errors import GraphFileError, InputError, UnknownNameError
from finegraph.graph.builders import graph_from_manifest

MENU = """\
path,label,split,dish,restaurant,tofu
1.jpg,mapo tofu @ A,train,mapo tofu,A,yes
2.jpg,mapo tofu @ A,test,mapo tofu,,
3.jpg,"noodles, fried @ B",train,"noodles, fried",B,no
4.jpg,soup @ B,train,,B,yes
"""


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "images.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def faults_of(path, **options):
    with pytest.raises(GraphFileError) as caught:
        graph_from_manifest(path, **options)
    lines = str(caught.value).splitlines()
    assert len(lines) == len(caught.value.faults) + 1
    return [line.removeprefix(f"{path}:") for line in lines[1:]]


def test_columns_become_kinds(write):
    graph = graph_from_manifest(write(MENU))
    assert graph.fine == ("mapo tofu @ A", "noodles, fried @ B", "soup @ B")
    assert graph.kinds == ("dish", "restaurant", "tofu")
    assert graph.labels("dish") == ("mapo tofu", "noodles, fried")
    assert graph.labels("tofu") == ("no", "yes")
    assert graph.parents("dish").tolist() == [0, 1, -1]
    assert graph.parents("restaurant").tolist() == [0, 1, 1]
    assert graph.parents("tofu").tolist() == [1, 0, 1]


def test_columns_of_the_manifest_are_no_kinds(write):
    graph = graph_from_manifest(write("path,label,split,x,y,width,height,dish\n1.jpg,a,train,1,2,3,4,d\n"))
    assert graph.kinds == ("dish",)


def test_kinds_and_fine_may_be_chosen(write):
    path = write(MENU)
    assert graph_from_manifest(path, kinds=["tofu", "dish"]).kinds == ("tofu", "dish")
    assert graph_from_manifest(path, kinds=[]).kinds == ()
    graph = graph_from_manifest(str(path), kinds=["tofu"], fine="split", on_conflict="weights")
    assert graph.fine == ("train", "test")
    assert graph.matrix("tofu").tolist() == [[pytest.approx(1 / 3), pytest.approx(2 / 3)], [0, 0]]


def test_fine_rows_without_the_chosen_column_are_faults(write):
    assert faults_of(write(MENU), fine="restaurant", kinds=[]) == [
        "3: column 'restaurant': value '': a name must not be empty; give the photo a fine label, or leave the row out"
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fine": "lable"}, "unknown column 'lable' for the fine labels in .*; did you mean 'label'"),
        ({"kinds": ["dsh"]}, "unknown column 'dsh' for a kind in .*; did you mean 'dish'"),
    ],
)
def test_columns_that_are_not_there(write, options, message):
    with pytest.raises(UnknownNameError, match=message):
        graph_from_manifest(write(MENU), **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": ["split"]}, "the column 'split' of .* cannot be a kind: this name is taken"),
        ({"kinds": ["dish", "dish"]}, "the column 'dish' of .* is asked for twice"),
        ({"kinds": ["dish"], "fine": "dish"}, "the column 'dish' of .* is asked for twice"),
        ({"on_conflict": "ignore"}, "on_conflict must be 'error' or 'weights', got 'ignore'"),
    ],
)
def test_columns_that_cannot_be_used(write, options, message):
    with pytest.raises(InputError, match=message):
        graph_from_manifest(write(MENU), **options)


CONFLICT = "path,label,pork,dish\n1,a,yes,d\n2,a,no,d\n3,a,yes,\n4,b,,e\n5,a,,f\n6,b,no,e\n"


def test_photos_that_disagree_are_faults(write):
    hint = "; make them agree, leave the column out, or take how often each was seen with on_conflict='weights'"
    assert faults_of(write(CONFLICT)) == [
        "3: column 'pork': value 'no': other photos of 'a' have 'yes' (line 2)" + hint,
        "6: column 'dish': value 'f': other photos of 'a' have 'd' (line 2)" + hint,
    ]


def test_photos_that_disagree_give_weights(write):
    graph = graph_from_manifest(write(CONFLICT), on_conflict="weights")
    assert graph.matrix("pork").tolist() == [[pytest.approx(1 / 3), pytest.approx(2 / 3)], [1, 0]]
    assert graph.labels("dish") == ("d", "f", "e")
    assert graph.matrix("dish").tolist() == [[pytest.approx(2 / 3), pytest.approx(1 / 3), 0], [0, 0, 1]]


def test_a_cell_is_one_label_letter_by_letter(write):
    graph = graph_from_manifest(write('path,label,dish\n1,a,"x|y:0.5 & z"\n'))
    assert graph.labels("dish") == ("x|y:0.5 & z",)


def test_line_ends_of_other_systems(write):
    expected = graph_from_manifest(write(MENU))
    assert graph_from_manifest(write(MENU.replace("\n", "\r\n"))) == expected


def test_all_faults_come_at_once_with_their_lines(write):
    path = write('path,label,dish\n1,a,"two\nlines"\n2,a\n3,,d\n4,b ,d\n5,c, d\n6,c,d,e\n7,é,d\n8,e\u0301,d\n')
    assert faults_of(path) == [
        "2: value 'two\\nlines': a cell may not contain a line break; remove it",
        "4: the row has 2 cells, the header has 3; an unknown cell is left empty",
        "5: column 'label': value '': a name must not be empty; give the photo a fine label, or leave the row out",
        "6: column 'label': value 'b ': a name must not begin or end with white space",
        "7: column 'dish': value ' d': a name must not begin or end with white space",
        "8: the row has 4 cells, the header has 3; put double quotes around a cell that contains a comma",
        "10: column 'label': value 'e\u0301': this and 'é' of line 9 read the same but are spelt in two Unicode forms",
    ]


def test_twins_among_the_labels_of_a_kind(write):
    assert faults_of(write("path,label,dish\n1,a,é\n2,b,e\u0301\n")) == [
        "3: column 'dish': value 'e\u0301': this and 'é' of line 2 read the same but are spelt in two Unicode forms"
    ]


def test_bad_headers(write):
    assert faults_of(write("")) == ["1: expected a header such as path,label,dish"]
    assert faults_of(write("path,label\n")) == ["1: expected at least one row below the header, got none"]
    assert faults_of(write("path,label,dish,,fine,dish, x,é,e\u0301\n1,a,b,c,d,e,f,g,h\n")) == [
        "1: value '': column number 4: a name must not be empty",
        "1: value 'dish': columns number 3 and 6 have the same name; rename or remove one",
        "1: value ' x': column number 7: a name must not begin or end with white space",
        "1: value 'e\u0301': this column and 'é' read the same but are spelt in two Unicode forms",
    ]
    assert faults_of(write("path,label,dish\n1,a,\n")) == ["1: column 'dish': no row has a label here; leave it out"]


def test_broken_files(write, tmp_path):
    broken = faults_of(write('path,label,dish\n1,a,b\n2,a,"b\n3,,b\n'))
    assert broken[0].startswith("3: value '2,a,\"b': a quote is opened and not closed on this line; close it")
    assert broken[1].startswith("4: column 'label': value '': a name must not be empty")
    assert faults_of(write(b"path,label\n1,a\n2,caf\xe9\n"))[0].startswith("3: byte 20 (0xE9) is not UTF-8; save the")
    with pytest.raises(GraphFileError, match=r"nowhere.csv: the file cannot be read: No such file or directory"):
        graph_from_manifest(tmp_path / "nowhere.csv")


def test_many_photos(write):
    rows = "".join(f"{i},c{i % 1000},g{i % 10},{'yes' if i % 2 else 'no'}\n" for i in range(20_000))
    graph = graph_from_manifest(write("path,label,group,odd\n" + rows))
    assert len(graph) == 1000
    assert graph.parents("group").tolist() == [i % 10 for i in range(1000)]
    assert graph.parents("odd").tolist() == [i % 2 for i in range(1000)]


# ---- typed columns ---------------------------------------------------------------------------------------------------

MEASURED = """\
path,label,"mass [number, g]",price [log number],heat [mild < medium < hot]
1.jpg,mapo,300,10,hot
2.jpg,mapo,320 g,40,hot
3.jpg,ramen,,,mild
4.jpg,udon,500,7,
"""


def test_numbers_of_photos_become_means_with_spreads(write):
    graph = graph_from_manifest(write(MEASURED))
    mass, price, heat = graph.number("mass"), graph.number("price"), graph.kind("heat")
    assert (mass.unit, price.scale) == ("g", "log")
    assert mass.values.tolist() == pytest.approx([310, float("nan"), 500], nan_ok=True)
    assert mass.spreads.tolist() == [10, 0, 0]
    assert price.values[0] == pytest.approx(20)
    assert price.spreads[0] / 20 == pytest.approx(math.log(2))
    assert heat.ordered
    assert heat.labels == ("mild", "medium", "hot")
    assert heat.parents.tolist() == [2, 0, -1]


def test_faults_of_typed_columns_have_lines(write):
    text = (
        MEASURED.replace("320 g", "320 kg")
        .replace("mild\n", "milt\n")
        .replace(",7,", ",-7,")
        .replace(",300,", ",3 +- 1,")
    )
    found = " ".join(faults_of(write(text)))
    for part in ("2: column 'mass'", "3: column 'mass'", "4: column 'heat'"):
        assert part in found
    assert "5: column 'price'" in found
    assert "did you mean 'mild'" in found
