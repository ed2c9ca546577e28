"""Stores that are damaged, and what each way out of them does then: the same as before, or an error that names damage.

Shared by the tests and `benchmarks/bad_files.py`.
"""

import random
import shutil
from pathlib import Path

from finegraph import LabelGraph
from finegraph.errors import DamagedStoreError, FinegraphError
from finegraph.labelling import (
    AddFine,
    AddKind,
    AddLabel,
    LabelStore,
    MergeLabels,
    Proposal,
    RemoveFine,
    RenameFine,
    RenameLabel,
)
from finegraph.workflows.labels.graph_sources import read_stored

FORMATS = ("csv", "json", "label-studio", "photos", "comparisons")


def make_store(place, classes=60):
    """A store with every sort of row, most of its pages full."""
    chance = random.Random(0)
    table = {
        f"dish {number} @ {'ABC'[number % 3]}": {
            "dish": f"dish {number % 20}",
            "restaurant": "ABC"[number % 3],
            "with": chance.sample(["tofu", "pork", "chili", "peanut"], number % 4) if number % 5 else None,
            "served": chance.choice(["bowl", "plate", {"bowl", "plate"}, {"bowl": 0.25, "plate": 0.75}]),
        }
        for number in range(classes)
    }
    graph = LabelGraph.from_table(table)
    with LabelStore.create(place) as store:
        store.import_graph(graph, person="import", edit_id="first")
        for number, fine in enumerate(graph.fine[:20]):
            own = {"person": "ann" if number % 3 else "bob", "edit_id": f"edit {number}"}
            seen = store.cell(fine, "dish").version
            done = store.decide(fine, "dish", f"dish {(number * 7) % 20}", seen=seen, **own)
            if number % 4 == 0:
                store.undo(done.batch, person="cleo", edit_id=f"undo {number}")
        for number, fine in enumerate(graph.fine[20:26]):
            said = {"person": "bob", "edit_id": f"note {number}"}
            store.set_note(fine, f"a note on 豆腐, number {number}", seen=0, **said)
            said = {"person": "ann", "edit_id": f"photo {number}"}
            store.label_photo(f"{fine}/{number}.jpg", "served", "bowl", seen=0, fine=fine, **said)
        store.apply(AddKind(name="heat", labels=(), type="number"), person="ann", edit_id="heat")
        for number, fine in enumerate(graph.fine[1:20]):
            said = {"person": "ann" if number % 3 else "bob", "edit_id": f"pair {number}", "seen": 0}
            outcome = ("more", "less", "same", "skip")[number % 4]
            store.compare("heat", fine, graph.fine[31 + number], outcome, **said)
        changes = (
            AddLabel(kind="dish", name="crème brûlée"),
            RenameFine(name=graph.fine[0], to="the first dish"),
            RenameLabel(kind="served", name="plate", to="large plate"),
            MergeLabels(kind="dish", labels=("dish 1", "dish 2"), into="dish 1"),
            AddFine(name="ramen @ A"),
            RemoveFine(name=graph.fine[30]),
        )
        for number, change in enumerate(changes):
            store.apply(change, person="ann", edit_id=f"change {number}")
        told = {"kind": "restaurant", "source": "name", "score": 0.9, "reason": "its name says so"}
        store.put_suggestions("name", [Proposal(fine=fine, value="A", **told) for fine in graph.fine[1:30]])
        store.put_beliefs({"restaurant": {fine: {"A": 1.0} for fine in graph.fine[1:30]}})
    return Path(place)


def _history(store):
    with store.one_state():
        store.check("history")
        return [edit.to_dict() for edit in store.history(limit=10_000)], store.batches(limit=10)


def _backup(store):
    copy = Path(f"{store.place}.copy")
    copy.unlink(missing_ok=True)
    with LabelStore.open(store.backup(copy), write=False) as copied:
        return copied.export_text("json"), _history(copied)


def _training(store):
    stored = read_stored(store.place)
    return stored.graph, stored.photos, stored.renamed


WAYS_OUT = {
    **{form: (lambda store, form=form: store.export_text(form)) for form in FORMATS},
    "version 1": lambda store: store.export_text("json", version=1),
    "history": _history,
    "backup": _backup,
    "training": _training,
}


def answers(place):
    """What each way out of a store that is whole gives."""
    with LabelStore.open(place, write=False) as store:
        return {name: way(store) for name, way in WAYS_OUT.items()}


def judge(place, good):
    """What happens to all ways out of a store that may be damaged: `same`, `named`, or a fault in words."""
    found = {}
    try:
        with LabelStore.open(place, write=False) as store:
            for name, way in WAYS_OUT.items():
                found[name] = _outcome(place, name, lambda way=way: way(store), good)
    except Exception as error:
        found["open"] = _outcome(place, "open", lambda error=error: _raise(error), good)
    try:
        _page(place)
        found["page"] = "same"
    except FinegraphError:
        found["page"] = "named"
    except Exception as error:
        found["page"] = f"page: {type(error).__name__}: {error}"
    return found


class Kept:
    """An open store whose file is replaced again and again: twenty times as quick as opening each.

    Two ways out read every table between them.
    """

    WAYS = ("label-studio", "history")

    def __init__(self, place):
        self.place = place
        self._store = LabelStore.open(place, write=False)

    def judge(self, content, good):
        """As `judge`, by few ways."""
        self._store._database.readers.dispose()
        self._store._catalogue = None
        self.place.write_bytes(content)
        ways = {name: WAYS_OUT[name] for name in self.WAYS}
        return {name: _outcome(self.place, name, lambda way=way: way(self._store), good) for name, way in ways.items()}

    def close(self):
        self._store.close()


def _outcome(place, name, way, good):
    try:
        return "same" if way() == good[name] else f"{name}: silently different"
    except DamagedStoreError as error:
        named = str(error).startswith(f"{place}: the store is damaged") and error.damage
        return "named" if named else f"{name}: damage that is not named: {error}"
    except Exception as error:
        return f"{name}: {type(error).__name__}: {error}"


def _raise(error):
    raise error


def _page(place):
    """What the page asks for; it may be told anything, but by an error of ours where there is one."""
    with LabelStore.open(place) as store:
        store.kinds(), store.classes(order="attention"), store.progress(), store.changes(0), store.suggestions()
        store.one_class("ramen @ A"), store.agreement(), store.findings(), store.batches()
        store.decide("ramen @ A", "restaurant", "B", person="ann", edit_id="on damage", seen=None)


def flipped(chance, content):
    """A file with one bit altered."""
    altered = bytearray(content)
    altered[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return bytes(altered)


def cut(chance, content):
    """A file without its end; at least one byte stays, since an empty file is a store that was never begun."""
    return content[: chance.randrange(1, len(content))]


def drill(folder, good, content, damages, *, all_ways=1):
    """Judge a store after each of some damages, by all ways out for one in `all_ways`, else by few.

    Where it goes all ways, each is in a folder of its own, so that nothing of an earlier one is left beside it.
    """
    kept = Kept(_put(folder / "kept", content))
    try:
        for number, damaged in enumerate(damages):
            if number % all_ways:
                yield kept.judge(damaged, good)
                continue
            place = _put(folder / str(number), damaged)
            yield judge(place, good)
            shutil.rmtree(place.parent)
    finally:
        kept.close()


def _put(folder, content):
    folder.mkdir()
    place = folder / "menu.db"
    place.write_bytes(content)
    return place
