"""Damage to a store shows when it is read: one error, which names what is damaged, what is whole and what to do."""

import random
import re
import sqlite3

import pytest
import sqlalchemy as sa
import store_damage
from store_damage import cut, drill, flipped, make_store

from finegraph.errors import DamagedStoreError
from finegraph.labelling import LabelStore
from finegraph.labelling.seals import SEALED, seal_of
from finegraph.labelling.tables import metadata
from finegraph.workflows.label import open_store
from finegraph.workflows.stored_labels import read_stored


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
    found = list(drill(tmp_path, good, (flipped(chance, content) for _ in range(40)), all_ways=4))
    assert [fault for judged in found for fault in faults_of(judged)] == []
    assert sum("named" in judged.values() for judged in found) >= 5


def test_every_page_is_looked_at(tmp_path, whole):
    """A flip in the middle of what a page holds, at its end, where rows grow from."""
    good, content = whole
    pages = range(0, len(content), 4096)
    damages = []
    for start in list(pages)[1::2]:
        altered = bytearray(content)
        altered[start + 4090] ^= 4
        damages.append(bytes(altered))
    found = list(drill(tmp_path, good, damages, all_ways=10))
    assert [fault for judged in found for fault in faults_of(judged)] == []
    assert sum("named" in judged.values() for judged in found) > len(found) / 2


def test_a_store_without_its_end_is_named(tmp_path, whole):
    good, content = whole
    chance = random.Random(4)
    found = list(drill(tmp_path, good, (cut(chance, content) for _ in range(6))))
    assert [fault for judged in found for fault in faults_of(judged)] == []
    assert all("named" in judged.values() for judged in found)


@pytest.mark.slow
def test_many_flips_and_cuts(tmp_path, whole):
    good, content = whole
    chance = random.Random(5)
    damages = ((flipped if number % 10 else cut)(chance, content) for number in range(500))
    assert [fault for judged in drill(tmp_path, good, damages, all_ways=5) for fault in faults_of(judged)] == []


# ---- each sort of row, on both databases ---------------------------------------------------------------------------


def alter(store, statement, **values):
    """Change the database behind the back of the store."""
    with store._database.writers.begin() as connection:
        connection.execute(sa.text(statement), values)


@pytest.fixture
def worked(store):
    """A store in which people have worked."""
    store.decide("kung pao @ B", "dish", "mapo tofu", person="ann", edit_id="a", seen=0)
    store.set_note("kung pao @ A", "hot", person="bob", edit_id="b", seen=0)
    store.label_photo("1.jpg", "served", "bowl", person="ann", edit_id="c", seen=0, fine="kung pao @ A")
    store.undo(2, person="ann", edit_id="d")
    before = [dict(row._mapping) for row in rows_of(store, "cells")]
    yield store
    del before


def rows_of(store, table):
    with store._database.reading() as connection:
        return connection.execute(sa.select(metadata.tables[table])).all()


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
        if what == "a vote":
            store.check()
        else:
            store.undo(2, person="ann", edit_id="d")
        store.check()
        alter(store, statement)
        with pytest.raises(DamagedStoreError, match=re.escape(message)) as caught:
            store.check()
        assert str(caught.value).startswith(f"{store.place}: the store is damaged: ")
        with pytest.raises(DamagedStoreError):
            read_stored(place)
