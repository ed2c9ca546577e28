"""Changes of classes, kinds and labels: previews, effects, and that undo and earlier versions give the old graph."""

import pytest

from finegraph import LabelGraph
from finegraph.errors import ConflictError, GraphError, InputError, UnknownNameError
from finegraph.labelling import (
    AddFine,
    AddKind,
    AddLabel,
    LabelStore,
    MergeKinds,
    MergeLabels,
    RemoveFine,
    RemoveKind,
    RemoveLabel,
    RenameFine,
    RenameKind,
    RenameLabel,
    SplitKind,
    SplitLabel,
    change_from_dict,
)
from finegraph.labelling.edits.changes import CHANGES, change_name

ALL = [
    AddFine(name="ramen @ C", note="new"),
    RenameFine(name="kung pao @ A", to="kung pao @ Z"),
    RemoveFine(name="kung pao @ A"),
    AddKind(name="hot", labels=("no", "yes")),
    AddKind(name="sauce", labels=("soy", "chili"), mode="all"),
    RenameKind(name="with", to="made of"),
    RemoveKind(name="with"),
    MergeKinds(kinds=("dish", "restaurant"), into="both"),
    SplitKind(name="served", into={"flat": ("plate",)}),
    SplitKind(name="with", into={"meat": ("pork",), "bean": ("tofu",)}),
    AddLabel(kind="with", name="egg"),
    RenameLabel(kind="with", name="pork", to="beef"),
    RemoveLabel(kind="with", name="pork"),
    RemoveLabel(kind="served", name="plate"),
    MergeLabels(kind="served", labels=("plate", "bowl"), into="dishes"),
    MergeLabels(kind="with", labels=("pork",), into="tofu"),
    SplitLabel(kind="restaurant", name="A", into={"A north": ("mapo tofu @ A",), "A south": ("kung pao @ A",)}),
    SplitLabel(kind="with", name="pork", into={"minced pork": ("mapo tofu @ A",)}),
]


@pytest.mark.deep
@pytest.mark.parametrize("change", ALL, ids=lambda change: f"{change_name(change)}")
def test_each_change_can_be_previewed_undone_redone_and_looked_back_at(store, menu, new_id, change):
    version = store.version
    # People have voted, and photos have labels: they go along with every change.
    store.decide("kung pao @ A", "with", "pork", person="ann", edit_id=new_id(), seen=0)
    store.label_photo("1.jpg", "served", "plate", person="ann", edit_id=new_id(), seen=0, fine="kung pao @ A")
    before, votes = store.graph(), store.export_text("label-studio")
    preview = store.preview(change)
    assert store.graph() == before  # looking changes nothing
    made = store.apply(change, person="ann", edit_id=new_id(), digest=preview.digest)
    after = store.graph()
    assert after != before
    assert preview.text[0].isupper()
    assert len(preview.examples) == min(preview.cells, 20)
    undone = store.undo(made.batch, person="bob", edit_id=new_id())
    assert store.graph() == before
    assert store.export_text("label-studio") == votes
    store.undo(undone.batch, person="bob", edit_id=new_id())
    assert store.graph() == after
    assert store.graph(made.version) == after
    assert store.graph(made.version - made.edits) == before
    assert store.graph(version) == menu


def apply(store, change, new_id):
    return store.apply(change, person="ann", edit_id=new_id())


def test_merged_labels_are_one_everywhere(file_store, new_id):
    file_store.decide("kung pao @ A", "dish", "kung pao", person="ann", edit_id=new_id(), seen=0)
    file_store.label_photo("1.jpg", "dish", "kung pao", person="ann", edit_id=new_id(), seen=0)
    change = MergeLabels(kind="dish", labels=("mapo tofu", "kung pao"), into="dish of the day")
    assert file_store.preview(change).cells == 4
    apply(file_store, change, new_id)
    assert file_store.kinds()[0].labels == ("dish of the day",)
    assert file_store.cell("kung pao @ A", "dish").votes == {"ann": "dish of the day"}
    assert file_store.photo_labels()[0].value == "dish of the day"


def test_weights_of_merged_labels_are_added(file_store, new_id):
    apply(file_store, AddLabel(kind="served", name="tray"), new_id)
    value = {"weights": {"plate": 0.5, "bowl": 0.25, "tray": 0.25}}
    file_store.decide("mapo tofu @ A", "served", value, person="ann", edit_id=new_id(), seen=0)
    file_store.decide("kung pao @ B", "served", {"one_of": ["bowl", "plate", "tray"]}, person="a", edit_id="o", seen=0)
    apply(file_store, MergeLabels(kind="served", labels=("tray",), into="plate"), new_id)
    assert file_store.cell("mapo tofu @ A", "served").value == {"weights": {"bowl": 0.25, "plate": 0.75}}
    found = file_store.cell("kung pao @ B", "served").value["weights"]
    assert found == {"bowl": pytest.approx(1 / 3), "plate": pytest.approx(2 / 3)}


def test_merged_kinds_keep_both_where_they_differ_and_say_so(file_store, new_id):
    change = MergeKinds(kinds=("dish", "restaurant"), into="dish")
    assert file_store.preview(change).warnings == (
        "the kinds say different things of 4 classes; both become possible there",
    )
    apply(file_store, change, new_id)
    assert file_store.cell("kung pao @ B", "dish").value == {"one_of": ["kung pao", "B"]}
    assert [kind.name for kind in file_store.kinds()] == ["dish", "with", "served"]
    with pytest.raises(InputError, match="cannot be merged"):
        file_store.preview(MergeKinds(kinds=("dish", "with"), into="x"))


def test_a_kind_that_is_filled_from_another_keeps_who_decided(new_id, tmp_path):
    graph = LabelGraph.from_table({"a": {"k": "1", "l": None}, "b": {"k": None, "l": "2"}, "c": {"k": "1", "l": "2"}})
    with LabelStore.create(tmp_path / "s.db") as store:
        store.import_graph(graph, person="import", edit_id="first")
        store.decide("b", "l", "2", person="bob", edit_id=new_id(), seen=0)
        apply(store, MergeKinds(kinds=("k", "l"), into="m"), new_id)
        cell = store.cell("b", "m")
        assert (cell.value, cell.by, cell.votes) == ("2", "bob", {"bob": "2"})


def test_splitting_a_label_names_only_classes_that_have_it(file_store, new_id):
    with pytest.raises(InputError, match="the class 'kung pao @ B' does not have this label"):
        file_store.preview(SplitLabel(kind="restaurant", name="A", into={"A2": ("kung pao @ B",)}))
    with pytest.raises(InputError, match="is named for two labels"):
        file_store.preview(
            SplitLabel(kind="restaurant", name="A", into={"x": ("kung pao @ A",), "y": ("kung pao @ A",)})
        )
    apply(file_store, SplitLabel(kind="restaurant", name="A", into={"A2": ("kung pao @ A",)}), new_id)
    assert file_store.kinds()[1].labels == ("A", "B", "A2")
    apply(file_store, SplitLabel(kind="restaurant", name="A", into={"A1": ("mapo tofu @ A",)}), new_id)
    assert file_store.kinds()[1].labels == ("B", "A2", "A1")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (AddFine(name="kung pao @ A"), GraphError, "class 'kung pao @ A' is there already"),
        (AddFine(name=" x"), GraphError, "white space"),
        (RenameFine(name="kung pao @ A", to="mapo tofu @ A"), GraphError, "is there already"),
        (RenameFine(name="nothing", to="x"), UnknownNameError, "unknown class"),
        (AddKind(name="dish", labels=("a",)), GraphError, "'dish' is there already"),
        (AddKind(name="fine", labels=("a",)), GraphError, "taken by a column"),
        (AddKind(name="empty", labels=()), GraphError, "would have no label"),
        (AddKind(name="twice", labels=("a", "a")), GraphError, "'a' is there already"),
        (AddKind(name="with: pork", labels=("no", "yes")), GraphError, "'with: pork' is there already"),
        (AddLabel(kind="dish", name="kung pao"), GraphError, "'kung pao' is there already"),
        (AddLabel(kind="dish", name="a\x07"), GraphError, "control character"),
        (RenameLabel(kind="dish", name="kung pao", to="mapo tofu"), GraphError, "'mapo tofu' is there already"),
        (SplitKind(name="dish", into={"a": ("kung pao",), "b": ("kung pao",)}), InputError, "each label once"),
    ],
)
def test_what_no_graph_can_have_is_refused(file_store, menu, new_id, change, error, message):
    with pytest.raises(error, match=message):
        apply(file_store, change, new_id)
    assert file_store.graph() == menu


def test_names_that_read_the_same_are_refused(file_store, new_id):
    apply(file_store, AddLabel(kind="dish", name="caf\u00e9"), new_id)
    with pytest.raises(GraphError, match="another Unicode form"):
        apply(file_store, AddLabel(kind="dish", name="cafe\u0301"), new_id)
    apply(file_store, AddFine(name="caf\u00e9"), new_id)
    with pytest.raises(GraphError, match="is there already"):
        apply(file_store, AddFine(name="cafe\u0301"), new_id)


def test_the_last_class_and_the_last_label_stay(new_id, tmp_path):
    with LabelStore.create(tmp_path / "s.db") as store:
        store.import_graph(LabelGraph.from_table({"a": {"k": "1"}}), person="import", edit_id="first")
        with pytest.raises(GraphError, match="remove the last class"):
            apply(store, RemoveFine(name="a"), new_id)
        with pytest.raises(GraphError, match="would have no label; remove the kind instead"):
            apply(store, RemoveLabel(kind="k", name="1"), new_id)


def test_a_stale_preview_is_answered_with_the_new_one(store, new_id):
    change = RemoveLabel(kind="dish", name="kung pao")
    digest = store.preview(change).digest
    store.decide("mapo tofu @ A", "dish", "kung pao", person="bob", edit_id=new_id(), seen=0)
    with pytest.raises(ConflictError, match="edited since the preview") as caught:
        store.apply(change, person="ann", edit_id=new_id(), digest=digest)
    assert caught.value.conflicts[0].theirs["cells"] == 3


def test_changes_have_a_json_form():
    for change in ALL:
        content = {"change": change_name(change), **change.to_dict()}
        assert change_from_dict(content).to_dict() == change.to_dict()
    assert {change_name(change) for change in ALL} == set(CHANGES)
    with pytest.raises(InputError, match="did you mean 'add_fine'"):
        change_from_dict({"change": "add_fin"})
    with pytest.raises(InputError, match="the field 'to' is missing"):
        change_from_dict({"change": "rename_kind", "name": "a"})
    with pytest.raises(InputError, match="unknown field 'too'"):
        change_from_dict({"change": "rename_kind", "name": "a", "too": "b"})
    with pytest.raises(InputError, match="must be a list of names"):
        change_from_dict({"change": "add_kind", "name": "a", "labels": "b"})
    with pytest.raises(InputError, match="'name' must be text"):
        change_from_dict({"change": "add_fine", "name": 3})


def test_merged_groups_stay_unknown_where_one_of_them_is(tmp_path, new_id):
    """A cell that names all labels that hold says that the others do not; nobody has said that of the unknown ones."""
    table = {
        "a": {"with": ["egg"], "side": None},
        "b": {"with": ["pork", "egg"], "side": ["rice", "bread"]},
        "c": {"with": None, "side": ["bread"]},
        "d": {"with": [], "side": []},
    }
    with LabelStore.create(tmp_path / "s.db") as store:
        store.import_graph(LabelGraph.from_table(table), person="import", edit_id="first")
        store.decide("b", "with", {"all_of": ["egg"]}, person="ann", edit_id=new_id(), seen=0)
        for photo, kind, label in (("1.jpg", "with", "egg"), ("1.jpg", "side", "rice"), ("2.jpg", "with", "egg")):
            store.label_photo(photo, kind, label, person="ann", edit_id=new_id(), seen=0)
        change = MergeKinds(kinds=("with", "side"), into="all")
        assert (
            store.preview(change).warnings[0].startswith("2 classes are known in some of the kinds only; they become")
        )
        assert store.preview(change).warnings[1] == "1 photos have labels in some of the kinds only; they lose them"
        apply(store, change, new_id)
        found = {name: store.cell(name, "all").value for name in "abcd"}
        assert (found["a"], found["c"], found["d"]) == (None, None, {"all_of": []})
        assert set(found["b"]["all_of"]) == {"egg", "rice", "bread"}
        assert store.cell("b", "all").votes == {"ann": None}  # what ann says of the side is not known
        assert [label.photo for label in store.photo_labels()] == ["1.jpg"]
        assert set(store.photo_labels()[0].value["all_of"]) == {"egg", "rice"}
