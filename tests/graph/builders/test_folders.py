"""Hierarchies of folders; the photos are empty files, because none is ever opened."""

import os

import pytest

from finegraph.errors import EmptyGraphError, GraphError, GraphFileError, InputError
from finegraph.graph.builders import graph_from_folders


def make(root, *paths):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    return root


def labels_of(graph, kind):
    return [None if parent < 0 else graph.labels(kind)[parent] for parent in graph.parents(kind)]


@pytest.fixture
def root(tmp_path):
    return make(
        tmp_path / "photos",
        "fruit/apple/royal gala/1.jpg",
        "fruit/apple/pink lady/1.JPG",
        "fruit/apple/pink lady/2.png",
        "fruit/pear/anjou/1.webp",
        "packages/milk/oat/1.jpeg",
    )


def test_levels_become_kinds(root):
    graph = graph_from_folders(root)
    assert graph.fine == ("pink lady", "royal gala", "anjou", "oat")
    assert graph.kinds == ("level 1", "level 2")
    assert labels_of(graph, "level 1") == ["fruit", "fruit", "fruit", "packages"]
    assert labels_of(graph, "level 2") == ["apple", "apple", "pear", "milk"]


def test_kinds_may_be_named(root):
    assert graph_from_folders(str(root), kinds=("top", "family")).kinds == ("top", "family")
    with pytest.raises(InputError, match=r"expected 2 names of kinds, one per level .*, got 1"):
        graph_from_folders(root, kinds=["top"])
    with pytest.raises(GraphError, match="kind 'label': this name is taken"):
        graph_from_folders(root, kinds=["top", "label"])


def test_a_flat_layout_has_no_kinds(tmp_path):
    graph = graph_from_folders(make(tmp_path, "b/1.jpg", "a/1.jpg"))
    assert (graph.fine, graph.kinds) == (("a", "b"), ())


def test_levels_that_are_missing_are_unknown(root):
    graph = graph_from_folders(make(root, "fruit/kiwi/1.jpg", "carton/1.jpg"))
    assert graph.fine == ("carton", "pink lady", "royal gala", "kiwi", "anjou", "oat")
    assert labels_of(graph, "level 1") == [None, "fruit", "fruit", "fruit", "fruit", "packages"]
    assert labels_of(graph, "level 2") == [None, "apple", "apple", None, "pear", "milk"]


def test_one_folder_name_in_two_places_is_one_coarse_label(tmp_path):
    graph = graph_from_folders(make(tmp_path, "audi/sedan/a4/1.jpg", "bmw/sedan/m5/1.jpg"))
    assert graph.labels("level 2") == ("sedan",)


def test_what_is_no_photo_is_passed_over(root):
    expected = graph_from_folders(root)
    make(
        root, "README.md", "fruit/notes.txt", ".cache/x/1.jpg", "fruit/.hidden/1.jpg", "fruit/.1.jpg", "fruit/fig/x.txt"
    )
    (root / "fruit" / "empty").mkdir()
    (root / "fruit" / "folder.jpg").mkdir()
    (root / "fruit" / "apple" / "pink lady" / "dead.jpg").symlink_to("nowhere")
    assert graph_from_folders(root) == expected


@pytest.mark.parametrize("splits", [("train", "val", "test"), ("train", "test")])
def test_splits_on_top_are_no_level(root, tmp_path, splits):
    expected = graph_from_folders(root)
    for split in splits:
        (tmp_path / "all").mkdir(exist_ok=True)
        (tmp_path / "all" / split).symlink_to(root)
    make(tmp_path / "all", "annotations/list.txt")
    assert graph_from_folders(tmp_path / "all") == expected


def test_splits_must_be_all_of_the_top_folders(tmp_path):
    make(tmp_path, "train/a/1.jpg", "test/b/1.jpg", "test/a/1.jpg")
    assert graph_from_folders(tmp_path).fine == ("a", "b")
    make(tmp_path, "plane/c/1.jpg")
    with pytest.raises(GraphError, match="'a': test/a, train/a"):
        graph_from_folders(tmp_path)
    assert graph_from_folders(tmp_path, splits=["train", "test", "plane"]).fine == ("a", "b", "c")
    graph = graph_from_folders(tmp_path, fine="path", splits=())
    assert labels_of(graph, "level 1") == ["plane", "test", "test", "train"]


def test_one_name_in_two_places(tmp_path):
    make(tmp_path, "a/x/1.jpg", "b/x/1.jpg", "b/y/1.jpg")
    with pytest.raises(GraphError) as caught:
        graph_from_folders(tmp_path)
    assert str(caught.value).splitlines() == [
        "several folders with photos have the same name:",
        "  'x': a/x, b/x",
        "rename them, or take the paths as fine labels with fine='path'",
    ]
    graph = graph_from_folders(tmp_path, fine="path")
    assert graph.fine == ("a/x", "b/x", "b/y")
    assert labels_of(graph, "level 1") == ["a", "b", "b"]
    with pytest.raises(InputError, match="fine must be 'name' or 'path', got 'both'"):
        graph_from_folders(tmp_path, fine="both")


def test_many_clashes_are_cut(tmp_path):
    make(tmp_path, *(f"{top}/{number}/1.jpg" for number in range(12) for top in "ab"))
    with pytest.raises(GraphError, match="and 2 more"):
        graph_from_folders(tmp_path)


def test_all_faults_come_at_once(tmp_path):
    root = make(tmp_path / "photos", "1.jpg", "a/1.jpg", "a/b/c/1.jpg", "a/b/d/1.jpg", "bad /x/1.jpg", "bad /y\n/1.jpg")
    (root / "a" / "round").symlink_to(root)
    with pytest.raises(GraphFileError) as caught:
        graph_from_folders(root)
    text = str(caught.value)
    assert f"the folder {root}: 5 faults" in text
    assert f"{root}: photos lie outside any label; move them into the folder of a label" in text
    assert f"{root}/a: holds photos, but photos lie also below it, in '{root}/a/b/c'; photos belong" in text
    assert f"{root}/bad : value 'bad ': a name must not begin or end with white space; rename the folder" in text
    assert f"'{root}/bad /y\\n': value 'y\\n': a name must not begin or end" in text
    assert f"{root}/a/round: is a link to '{root}', which is read already; remove the link" in text


def test_faults_below_splits_name_the_real_folders(tmp_path):
    make(tmp_path, "train/a/1.jpg", "test/a/x/1.jpg", "test/1.jpg", "train/b / c/1.jpg")
    with pytest.raises(GraphFileError) as caught:
        graph_from_folders(tmp_path)
    text = str(caught.value)
    assert f"{tmp_path}/test: photos lie outside any label" in text
    assert f"{tmp_path}/train/a: holds photos, but photos lie also below it, in '{tmp_path}/test/a/x'" in text
    assert f"{tmp_path}/train/b : value 'b '" in text
    assert f"{tmp_path}/train/b / c: value ' c'" in text
    assert len(caught.value.faults) == 4


def test_links_that_lead_round_do_not_hang(tmp_path):
    make(tmp_path, "a/x/1.jpg")
    (tmp_path / "a" / "up").symlink_to(tmp_path / "a")
    with pytest.raises(GraphFileError, match=r"a/up: is a link to '.*/a', which is read already; remove the link"):
        graph_from_folders(tmp_path)


def test_links_between_top_folders_do_not_hang(tmp_path):
    make(tmp_path, "a/x/1.jpg", "b/y/1.jpg")
    (tmp_path / "a" / "to b").symlink_to(tmp_path / "b")
    (tmp_path / "b" / "to a").symlink_to(tmp_path / "a")
    with pytest.raises(GraphFileError, match="2 faults"):
        graph_from_folders(tmp_path)


def test_links_to_folders_are_followed(tmp_path):
    make(tmp_path, "store/1.jpg")
    (tmp_path / "photos" / "a").mkdir(parents=True)
    (tmp_path / "photos" / "a" / "x").symlink_to(tmp_path / "store")
    assert graph_from_folders(tmp_path / "photos").fine == ("x",)


def test_nothing_to_read(tmp_path):
    make(tmp_path, "a/notes.txt")
    with pytest.raises(
        EmptyGraphError, match=r"expected folders with photos under .*, found none; photos end in .*.bmp"
    ):
        graph_from_folders(tmp_path)
    with pytest.raises(GraphFileError, match="nowhere: cannot be read: No such file or directory"):
        graph_from_folders(tmp_path / "nowhere")
    with pytest.raises(GraphFileError, match=r"notes.txt: cannot be read: Not a directory"):
        graph_from_folders(tmp_path / "a" / "notes.txt")


def test_a_name_that_is_no_text_can_be_printed(tmp_path):
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    open(folder + b"/1.jpg", "wb").close()
    with pytest.raises(GraphFileError, match="control character") as caught:
        graph_from_folders(tmp_path)
    str(caught.value).encode()
