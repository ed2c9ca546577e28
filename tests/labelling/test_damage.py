"""Damage to a store shows when it is read: one error, which names what is damaged, what is whole and what to do."""

import lzma
import random
import re
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
import store_damage
from store_damage import cut, drill, flipped, make_store

from finegraph.errors import DamagedStoreError
from finegraph.labelling import AddKind, LabelStore, Proposal
from finegraph.labelling.store.sealed_rows import SEALED, seal_of
from finegraph.workflows.labels.graph_sources import read_stored
from finegraph.workflows.labels.label_stores import open_store

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A store with every sort of row, what its ways out give, and its bytes."""
    place = make_store(tmp_path_factory.mktemp("whole") / "menu.db")
    return store_damage.answers(place), place.read_bytes()


def faults_of(judged):
    return [one for one in judged.values() if one not in ("same", "named")]


def test_one_flipped_bit_is_named_or_changes_nothing(tmp_path, whole):
    good, content = whole
    chance = random.Random(3)
    found = list(drill(tmp_path, good, content, (flipped(chance, content) for _ in range(60)), all_ways=15))
    assert [fault for judged in found for fault in faults_of(judged)] == []
    assert sum("named" in judged.values() for judged in found) >= 5


def test_every_page_is_looked_at(tmp_path, whole):
    """A flip in the middle of what a page holds, at its end, where rows grow from."""
    good, content = whole
    pages = range(0, len(content), 4096)
    damages = []
    for start in list(pages)[1:]:
        altered = bytearray(content)
        altered[start + 4090] ^= 4
        damages.append(bytes(altered))
    found = list(drill(tmp_path, good, content, damages, all_ways=15))
    assert [fault for judged in found for fault in faults_of(judged)] == []
    assert sum("named" in judged.values() for judged in found) > len(found) / 2


def test_a_store_without_its_end_is_named(tmp_path, whole):
    good, content = whole
    chance = random.Random(4)
    found = list(drill(tmp_path, good, content, (cut(chance, content) for _ in range(10)), all_ways=5))
    assert [fault for judged in found for fault in faults_of(judged)] == []
    assert all("named" in judged.values() for judged in found)


@pytest.mark.slow
def test_many_flips_and_cuts(tmp_path, whole):
    good, content = whole
    chance = random.Random(5)
    damages = ((flipped if number % 10 else cut)(chance, content) for number in range(500))
    assert [
        fault for judged in drill(tmp_path, good, content, damages, all_ways=5) for fault in faults_of(judged)
    ] == []


# ---- each sort of row, on both databases ---------------------------------------------------------------------------


def alter(store, statement, **values):
    """Change the database behind the back of the store."""
    with store._database.writers.begin() as connection:
        connection.execute(sa.text(statement), values)


ALTERED = {
    "a cell": (
        "UPDATE cells SET value = '[2]' WHERE kind_id = 1 AND fine_id = 1",
        "the cell of class 'mapo tofu @ A' in kind 'dish' is not as it was written",
    ),
    "a cell that is gone": (
        "DELETE FROM cells WHERE kind_id = 2 AND fine_id = 1",
        "the table cells in kind 'restaurant' has 3 rows, and 4 were written",
    ),
    "a label": ("UPDATE labels SET name = 'mapo topu' WHERE id = 1", "label 'mapo topu' (number 1) of kind 'dish' is"),
    "a class": ("UPDATE fine SET position = 9 WHERE id = 2", "class 'mapo tofu @ B' (number 2) is not as it"),
    "a kind": ("UPDATE kinds SET removed = 1 WHERE id = 2", "kind 'restaurant' (number 2) is not as it was written"),
    "a vote": ("UPDATE votes SET person = 'eve'", "the vote of 'eve' on class 'kung pao @ B' in kind 'dish' is not"),
    "a note": ("UPDATE notes SET text = 'hat'", "the note of class 'kung pao @ A' is not as it was written"),
    "a photo": ("UPDATE photo_labels SET photo = '2.jpg'", "the label of photo '2.jpg' in kind 'served' is not as"),
    "a comparison": (
        "UPDATE comparisons SET value = 'same'",
        "the comparison of 'bob' in kind 'heat' is not as it was",
    ),
    "an edit": (
        "UPDATE edits SET after = replace(after, 'ann', 'amn') WHERE number = 2",
        "edit 2 of the log is not as it was written",
    ),
    "an action": ("UPDATE batches SET person = 'eve' WHERE number = 3", "action 3 of the log is not as it was written"),
    "a mark": ("UPDATE undone SET batch = 4 WHERE edit = 2", "the mark that edit 2 is undone is not as it was written"),
    "the end of the log": (
        "DELETE FROM batches WHERE number = 5",
        "the log ends at action 4 and edit 4, and was written to action 5, edit 5",
    ),
    "an edit that is gone": ("DELETE FROM edits WHERE number = 3", "the log lacks the edits 3 to 3"),
    "an entry": ("UPDATE meta SET value = 'x' WHERE key = 'graph'", "the entry 'graph' of the table meta is not as it"),
    "a sum": ("UPDATE seals SET count = 7 WHERE name = 'cells' AND part = 1", "the table seals is not as it was"),
    "a row of an older finegraph": (
        "INSERT INTO undone (edit, batch) VALUES (1, 5)",
        "the mark that edit 1 is undone has no seal: it was written by an older finegraph, or by something else",
    ),
}


@pytest.mark.parametrize("what", ALTERED)
def test_what_was_altered_is_named(place, menu, what):
    statement, message = ALTERED[what]
    with LabelStore.create(place) as store:
        store.import_graph(menu, person="import", edit_id="first")
        store.decide("kung pao @ B", "dish", "mapo tofu", person="ann", edit_id="a", seen=0)
        store.set_note("kung pao @ A", "hot", person="bob", edit_id="b", seen=0)
        store.label_photo("1.jpg", "served", "bowl", person="ann", edit_id="c", seen=0, fine="kung pao @ A")
        store.undo(4 if what == "a vote" else 2, person="ann", edit_id="d")  # an undo takes back the vote too
        if what == "a comparison":
            store.apply(AddKind(name="heat", labels=(), type="number"), person="bob", edit_id="e")
            store.compare("heat", "kung pao @ A", "kung pao @ B", "more", person="bob", edit_id="f")
        store.check()
        alter(store, statement)
        with pytest.raises(DamagedStoreError, match=re.escape(message)) as caught:
            store.check()
        assert str(caught.value).startswith(f"{store.place}: the store is damaged: ")
        with pytest.raises(DamagedStoreError):
            read_stored(place)


def test_what_is_whole_and_how_to_restore_is_told(file_store):
    file_store.decide("kung pao @ B", "dish", "mapo tofu", person="ann", edit_id="a", seen=0)
    alter(file_store, "UPDATE cells SET value = '[4]' WHERE kind_id = 2 AND fine_id = 1")
    with pytest.raises(DamagedStoreError) as caught:
        file_store.export_text("csv")
    assert str(caught.value) == (
        f"{file_store.place}: the store is damaged: the cell of class 'mapo tofu @ A' in kind 'restaurant' is not as "
        "it was written. Still whole: the log of 2 edits; of the kinds: 'dish', 'with', 'served'. Keep a copy of the "
        "file and put a backup in its place; what was decided since the backup stands in the history, which can still "
        "be read."
    )
    file_store.check("history")
    assert len(file_store.history()) == 2


def test_the_labels_are_exported_where_only_the_log_is_damaged(file_store):
    file_store.decide("kung pao @ B", "dish", "mapo tofu", person="ann", edit_id="a", seen=0)
    file_store.decide("kung pao @ A", "dish", "mapo tofu", person="ann", edit_id="b", seen=0)
    before = file_store.export_text("csv")
    alter(file_store, "UPDATE edits SET fine_id = 1 WHERE number = 3")
    assert file_store.export_text("csv") == before
    told = (
        "edit 3 of the log is not as it was written. Still whole: the log up to edit 2 of 3; all labels of now. "
        "Export the labels and make a new store from that file, or put a backup in its place"
    )
    for way in (lambda: file_store.check("history"), lambda: file_store.graph(version=2), file_store.check):
        with pytest.raises(DamagedStoreError, match=re.escape(told)):
            way()


def test_a_damaged_store_is_neither_edited_nor_copied(file_store, tmp_path):
    place = file_store.place
    alter(file_store, "UPDATE cells SET value = '[1]' WHERE kind_id = 1 AND fine_id = 3")
    with pytest.raises(
        DamagedStoreError, match="with kind_id 1, fine_id 3 is not as it was written; nothing was changed"
    ):
        file_store.decide("kung pao @ B", "dish", "kung pao", person="ann", edit_id="a", seen=0)
    assert file_store.version == 1
    with pytest.raises(DamagedStoreError, match="the cell of class 'kung pao @ B' in kind 'dish'"):
        file_store.backup(tmp_path / "copy.db")
    assert not list(tmp_path.glob("*copy.db*"))
    file_store.close()
    with pytest.raises(DamagedStoreError, match="the cell of class 'kung pao @ B' in kind 'dish'"):
        open_store(place)
    LabelStore.open(place).close()  # the store that could not be opened to work in is not held


def test_an_edit_that_is_damaged_is_not_undone(file_store):
    done = file_store.decide("kung pao @ B", "dish", "mapo tofu", person="ann", edit_id="a", seen=0)
    alter(file_store, "UPDATE edits SET before = replace(before, '[2]', '[1]') WHERE number = 2")
    with pytest.raises(DamagedStoreError, match="the row of edits with number 2 is not as it was written"):
        file_store.undo(done.batch, person="ann", edit_id="b")
    assert file_store.cell("kung pao @ B", "dish").value == "mapo tofu"


def test_a_damaged_index_is_made_anew(file_store):
    place = file_store.place
    file_store.close()
    with sqlite3.connect(place) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, '(fine_id, kind_id)', '(kind_id, fine_id)') "
            "WHERE name = 'cells_by_fine'"
        )
    connection.close()
    told = "Still whole: all rows. Only an index is damaged: keep a copy of the file, then `sqlite3"
    with LabelStore.open(place) as store, pytest.raises(DamagedStoreError, match=told):
        store.check()
    with sqlite3.connect(place) as connection:
        connection.execute("REINDEX")
    connection.close()
    with LabelStore.open(place) as store:
        store.check()


def test_suggestions_that_are_damaged_are_made_anew(place, menu):
    with LabelStore.create(place) as store:
        store.import_graph(menu, person="import", edit_id="first")
        told = {"kind": "dish", "source": "name", "score": 0.9, "reason": "its name says so"}
        store.put_suggestions("name", [Proposal(fine="kung pao @ B", value="mapo tofu", **told)])
        alter(store, "UPDATE suggestions SET value = '[7'")
        with pytest.raises(
            DamagedStoreError, match=r"suggestion 1 is not as it was written.*made again at the next start"
        ):
            store.suggestions()
        store.check()
    store, notes = open_store(place)
    with store:
        assert notes == ("the suggestions in the store were damaged; those that can be made now are made again",)
        assert store.suggestions().total == 0
        assert not store.make_anew()


def test_what_is_counted_beside_the_cells_is_counted_again(file_store):
    alter(file_store, "UPDATE fine SET known = known + 1 WHERE id = 2")
    assert file_store.make_anew()
    assert not file_store.make_anew()


def test_a_fault_that_is_no_damage_stays_what_it_is(file_store):
    with pytest.raises(ZeroDivisionError):
        file_store._ask(lambda connection, catalogue: 1 // 0)


def test_a_store_with_the_version_of_another_is_damaged(file_store):
    """One flipped bit makes a 2 of a 3; the store must not be brought up to date a second time."""
    place = file_store.place
    alter(file_store, "UPDATE meta SET value = '2' WHERE key = 'schema'")
    file_store.close()
    with pytest.raises(DamagedStoreError, match="the entry of its version is lost or altered"):
        LabelStore.open(place)


def test_a_store_that_is_damaged_by_now_is_not_sealed(tmp_path):
    place = tmp_path / "menu.db"
    content = bytearray(lzma.decompress((GOLDEN / "store-2.db.xz").read_bytes()))
    content[4096 * 30 + 3] ^= 1  # how many entries a page of an index has
    place.write_bytes(content)
    with pytest.raises(DamagedStoreError, match="page 31"):
        LabelStore.open(place)
    with sqlite3.connect(place) as connection:
        assert connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone() == ("2",)
    connection.close()


def test_seals_are_those_of_yesterday():
    """A seal must be the same in all versions of Python and of finegraph, or old stores would seem damaged."""
    assert seal_of("cells", (1, 2, "[3]", "ann", "2026-01-01T00:00:00.000Z", 0, 0, 4)) == 2122555908
    assert seal_of("labels", (1, 1, "crème 豆腐 \U0001fae8\x00'\"", 0, 0, None)) == 2441142888
    assert SEALED["votes"] == ("kind_id", "fine_id", "person", "value", "at")
