"""Comparisons in a store: kept like every decision, undone, exported and taken over, and the order that they make."""

import numpy as np
import pytest

from finegraph import LabelGraph
from finegraph.errors import ConflictError, GraphFileError, InputError, UnknownNameError
from finegraph.graph.comparisons import Comparison
from finegraph.graph.graph_files import graph_from_json
from finegraph.labelling import AddFine, LabelStore, PairNumbers, RemoveFine, RenameFine

GRAPH = LabelGraph.from_table(
    {
        "mapo": {"dish": "tofu", "heat": None, "size": "large"},
        "ramen": {"dish": "noodles", "heat": None, "size": "small"},
        "udon": {"dish": "noodles", "heat": None, "size": None},
        "soba": {"dish": "noodles", "heat": None, "size": "small"},
    },
    {"heat": "number", "size": ("small", "large")},
)


@pytest.fixture
def store(place):
    with LabelStore.create(place) as made:
        made.import_graph(GRAPH, person="import", edit_id="first")
        yield made
        made.check()


@pytest.fixture
def say(store, new_id):
    """Say what holds of two things: "mapo>udon", "mapo=udon", "mapo?udon"."""

    def compare(text, person="ann", kind="heat", **options):
        sign = next(sign for sign in "><=?" if sign in text)
        outcome = {">": "more", "<": "less", "=": "same", "?": "skip"}[sign]
        one, two = text.split(sign)
        return store.compare(kind, one, two, outcome, person=person, edit_id=new_id(), **options)

    return compare


def answers(store, version=None):
    signs = {"more": ">", "less": "<", "same": "=", "skip": "?"}
    return [f"{one.person}: {one.one}{signs[one.outcome]}{one.two}" for one in store.pair_answers(version)]


def test_each_person_has_one_answer_to_each_pair(store, say):
    say("mapo>udon")
    say("udon>mapo", "ben")
    assert answers(store) == ["ann: mapo>udon", "ben: mapo<udon"]
    say("udon=mapo")
    assert answers(store) == ["ann: mapo=udon", "ben: mapo<udon"]
    [newest, *_] = store.history()
    assert (newest.target, newest.kind, newest.before, newest.after) == (
        "comparison",
        "heat",
        "mapo > udon",
        "mapo = udon",
    )
    assert newest.photo is None
    assert [edit.person for edit in store.history(fine="udon")] == ["ann", "ben", "ann"]
    assert store.history(fine="soba") == []
    assert {one.person: one.decisions for one in store.progress().people} == {"ann": 1, "ben": 1}
    assert [change.text for change in store.diff(1).changes] == [
        "comparison 'heat': nothing -> mapo = udon",
        "comparison 'heat': nothing -> mapo < udon",
    ]


def test_undo_redo_and_earlier_versions(store, say, new_id):
    first = say("mapo>udon")
    second = say("mapo<udon")
    undone = store.undo(second.batch, person="ann", edit_id=new_id())
    assert answers(store) == ["ann: mapo>udon"]
    with pytest.raises(InputError, match="undone already"):
        store.undo(second.batch, person="ann", edit_id=new_id())
    store.undo(undone.batch, person="ann", edit_id=new_id())
    assert answers(store) == ["ann: mapo<udon"]
    with pytest.raises(ConflictError, match="changed again since") as caught:
        store.undo(first.batch, person="ann", edit_id=new_id())
    assert (caught.value.conflicts[0].yours, caught.value.conflicts[0].theirs) == (None, "mapo < udon")
    assert answers(store, first.version) == ["ann: mapo>udon"]
    assert answers(store, 1) == []


def test_a_repeated_call_happens_once_and_an_old_page_conflicts(store):
    said = {"person": "ann", "edit_id": "one", "seen": 0}
    assert not store.compare("heat", "mapo", "udon", "more", **said).repeated
    assert store.compare("heat", "mapo", "udon", "more", **said).repeated
    elsewhere = {"person": "ann", "edit_id": "two", "seen": 0}
    with pytest.raises(ConflictError, match="elsewhere meanwhile: udon < mapo"):
        store.compare("heat", "udon", "mapo", "same", **elsewhere)
    store.compare("heat", "udon", "mapo", "less", **elsewhere)  # the same answer is no conflict
    assert answers(store) == ["ann: mapo>udon"]


def test_what_cannot_be_compared(store, say):
    with pytest.raises(InputError, match="'dish' has labels without an order"):
        say("mapo>udon", kind="dish")
    with pytest.raises(InputError, match="with itself"):
        say("mapo>mapo")
    with pytest.raises(UnknownNameError, match="sobba"):
        say("mapo>sobba")
    with pytest.raises(InputError, match="expected one of more, less, same, skip"):
        store.compare("heat", "mapo", "udon", "hotter", person="ann", edit_id="x")


def test_renamed_and_removed_classes(store, say, new_id):
    numbers = PairNumbers(one=1, two=3)
    store.apply(RenameFine(name="udon", to="thick noodles"), person="ben", edit_id=new_id())
    say("mapo>udon", numbers=numbers)
    assert answers(store) == ["ann: mapo>thick noodles"]
    gone = store.apply(RemoveFine(name="thick noodles"), person="ben", edit_id=new_id())
    assert answers(store) == []
    assert store.order("heat").order == ()
    store.undo(gone.batch, person="ben", edit_id=new_id())
    assert answers(store) == ["ann: mapo>thick noodles"]


def test_adding_a_class_is_not_undone_while_it_is_compared(store, say, new_id):
    added = store.apply(AddFine(name="laksa"), person="ben", edit_id=new_id())
    said = say("laksa>mapo")
    with pytest.raises(ConflictError, match="the class 'laksa' holds 1 decision made since"):
        store.undo(added.batch, person="ben", edit_id=new_id())
    store.undo(said.batch, person="ann", edit_id=new_id())
    store.undo(added.batch, person="ben", edit_id=new_id())


def test_a_file_goes_out_and_in(store, say, new_id, tmp_path):
    say("mapo>udon")
    say("udon=soba", "=ben")
    say("mapo?ramen")
    say("a/1.jpg<b/2.jpg", photos=True, numbers=PairNumbers(one=1, two=2))
    text = store.export_text("comparisons")
    assert text.splitlines() == [
        "kind,more,less,who,same,of",
        "heat,mapo,udon,ann,,",
        "heat,udon,soba,\\=ben,yes,",
        "heat,b/2.jpg,a/1.jpg,ann,,photos",
    ]
    with LabelStore.create(tmp_path / "other.db") as other:
        other.import_graph(GRAPH, person="import", edit_id="first")
        found = other.parse_comparisons(text)
        preview = other.preview_comparisons(found)
        assert preview.counts == {"comparison": 3}
        assert preview.changes[0].text == "comparison of ann in 'heat': nothing -> mapo > udon"
        done = other.import_comparisons(found, person="cleo", edit_id="in", digest=preview.digest)
        assert done.edits == 3
        assert other.export_text("comparisons") == text
        assert other.preview_comparisons(found).changes == ()
        with pytest.raises(ConflictError):
            other.import_comparisons(found, person="cleo", edit_id="again", digest=preview.digest)
        other.undo(done.batch, person="cleo", edit_id="back")
        assert other.export_text("comparisons") == "kind,more,less,who,same\n"
        unnamed = [Comparison("heat", "mapo", "soba")]
        seen = other.preview_comparisons(unnamed).digest
        other.import_comparisons(unnamed, person="cleo", edit_id="own", digest=seen)
        assert answers(other) == ["cleo: mapo>soba"]
        other.check()


def test_all_faults_of_a_file_at_once(store):
    with pytest.raises(GraphFileError) as caught:
        store.parse_comparisons("kind,more,less\nheet,mapo,udon\ndish,mapo,udon\nheat,mapo,udn\n")
    assert [(fault.line, fault.column, fault.rule) for fault in caught.value.faults] == [
        (2, "kind", "unknown-kind"),
        (3, "kind", "bad-kind"),
        (4, "less", "unknown-label"),
    ]


def test_the_order_and_the_graph_with_its_values(store, say):
    for person in ("ann", "ben"):
        say("mapo>ramen", person)
        say("ramen>udon", person)
    say("udon>mapo", "cleo")
    say("ramen<udon", "cleo")
    found = store.order("heat")
    assert [one.fine for one in found.order] == ["mapo", "udon", "ramen"]
    assert (found.comparisons, found.unknown, found.people) == (6, 1, {"ann": 2, "ben": 2, "cleo": 2})
    assert (found.agreement.pairs, found.agreement.people) == (2, 3)
    assert found.agreement.observed == pytest.approx((1 / 3 + 1) / 2)
    assert found.divided == (("ramen", "udon", 2, 1),)
    assert found.circles == (("mapo", "ramen", "udon"),)
    plain, filled = store.graph(), store.graph(compared="classes").number("heat")
    assert not plain.number("heat").known.any()
    assert filled.known.tolist() == [True, True, True, False]
    assert filled.values[0] == pytest.approx(found.order[0].value)
    assert filled.spreads[0] == pytest.approx(found.order[0].spread)
    assert graph_from_json(store.export_text("json", compared="classes")).number("heat") == filled
    with pytest.raises(InputError, match="comparisons give values to graphs"):
        store.export_text("photos", compared="classes")


def test_photos_count_if_asked_and_tell_less(store, say):
    say("a/1.jpg>b/1.jpg", photos=True, numbers=PairNumbers(one=1, two=2))
    say("a/1.jpg>c/1.jpg", photos=True)  # of a class that is not known
    assert store.order("heat").order == ()
    photos = store.order("heat", "photos")
    assert ([one.fine for one in photos.order], photos.comparisons) == (["mapo", "ramen"], 1)
    say("mapo>ramen", "ben")
    assert store.order("heat").order[0].value > photos.order[0].value
    assert store.graph(compared="photos").number("heat").values[0] > store.graph(compared="classes").values("heat")[0]


def test_ordered_labels_hold_and_those_without_get_one(store, say):
    for person in "abcdefgh":
        say("udon>mapo", person, kind="size")
    found = store.order("size")
    assert [one.fine for one in found.order] == ["udon", "mapo"]
    assert [one.given for one in found.order] == [False, True]
    assert 1.5 < found.order[1].value < 2.5  # large is the second step
    filled = store.graph(compared="classes")
    assert filled.labels("size")[filled.parents("size")[GRAPH.fine.index("udon")]] == "large"
    assert filled.with_kind(GRAPH.kind("size")) == GRAPH


def test_values_that_people_gave_stay(tmp_path):
    table = {"mapo": {"heat": 9.0}, "ramen": {"heat": (1.0, 0.5)}, "udon": {"heat": None}}
    graph = LabelGraph.from_table(table, {"heat": "number, SHU"})
    with LabelStore.create(tmp_path / "menu.db") as store:
        store.import_graph(graph, person="import", edit_id="first")
        store.compare("heat", "mapo", "udon", "more", person="ann", edit_id="1")
        store.compare("heat", "udon", "ramen", "more", person="ann", edit_id="2")
        heat = store.graph(compared="classes").number("heat")
        assert np.array_equal(heat.values[:2], [9.0, 1.0])
        assert 1 < heat.values[2] < 9
        assert store.order("heat").unit == "SHU"
