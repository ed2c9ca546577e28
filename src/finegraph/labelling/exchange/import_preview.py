"""What taking over a file would do, for people to look at before: the plan of the import, in words.

Classes, kinds, labels and values are compared by names. What only the plan knows is added to that: votes, settled
disagreements, notes and labels of photos, and another order of kinds or labels. Cost: linear in the cells of both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy.engine import Connection

from finegraph.labelling.edits.plan import NO_VOTE, Plan, Planned
from finegraph.labelling.exchange.diffing import diff_graphs
from finegraph.labelling.exchange.graphs import read_graph
from finegraph.labelling.exchange.label_studio import Content
from finegraph.labelling.store.catalogue import Catalogue, KindEntry
from finegraph.labelling.store.records import Change, ImportPreview
from finegraph.labelling.store.rows import fine_names
from finegraph.labelling.store.values import value_text


def preview_import(
    connection: Connection, catalogue: Catalogue, content: Content, plan: Plan, kinds: Mapping[str, KindEntry]
) -> ImportPreview:
    """What a planned import would change.

    Args:
        connection: where the store is.
        catalogue: its kinds now.
        content: what is imported.
        plan: the plan of that.
        kinds: the kinds by name as they are after it.
    """
    found = list(diff_graphs(read_graph(connection, catalogue), content.graph).changes)
    entries = {kind.id: kind for kind in kinds.values()}
    names = _names(connection, plan)
    for change in plan.of("cell"):
        if change.key.kind_id in entries:
            found += _votes(change, names[change.key.fine_id or 0], catalogue, entries[change.key.kind_id])
    for change in plan.of("note"):
        before, after = ((image or {}).get("text", "") for image in (change.before, change.after))
        name = names[change.key.fine_id or 0]
        found.append(Change(what="note", fine=name, before=before, after=after, text=f"note of {name!r}: {after}"))
    for change in plan.of("photo"):
        if change.key.kind_id in entries:
            found.append(_photo(change, catalogue, entries[change.key.kind_id]))
    if plan.changes and not found:
        found.append(Change(what="order", text="the kinds or labels stand in another order"))
    return _preview(found, plan)


def preview_photos(catalogue: Catalogue, plan: Plan) -> ImportPreview:
    """What a planned import of image-level labels would change."""
    return _preview(
        [_photo(change, catalogue, catalogue.by_id[change.key.kind_id or 0]) for change in plan.of("photo")], plan
    )


def _preview(found: Sequence[Change], plan: Plan) -> ImportPreview:
    counts = dict(Counter(change.what for change in found))
    return ImportPreview(changes=tuple(found), counts=counts, digest=plan.digest)


def _names(connection: Connection, plan: Plan) -> dict[int, str]:
    """The names of all classes that a plan speaks of, also of those that it adds."""
    names = fine_names(connection, {key.fine_id for key in plan.changes if key.fine_id is not None})
    added = {change.key.fine_id: change.after["name"] for change in plan.of("fine") if change.after}
    return names | {number: name for number, name in added.items() if number is not None}


def _text(catalogue: Catalogue, kind: KindEntry, encoded: str | None, *, before: bool) -> str:
    """A kept value in words; what was before may name labels that go."""
    entry = catalogue.by_id.get(kind.id, kind) if before else kind
    return value_text(entry.value(encoded)) or "unknown"


def _votes(change: Planned, fine: str, catalogue: Catalogue, kind: KindEntry) -> Iterator[Change]:
    """The votes on a cell that change, and whether it becomes settled."""
    assert change.before is not None, "the picture of a cell that was never set is one too"
    assert change.after is not None, "a cell may become unknown, but never goes"
    place = f"{fine!r}, {kind.name!r}"
    for person, vote in change.after["votes"].items():
        old = change.before["votes"].get(person, NO_VOTE)
        if old != vote:
            one = "none" if old is NO_VOTE else _text(catalogue, kind, old, before=True)
            two = "none" if vote is NO_VOTE else _text(catalogue, kind, vote, before=False)
            text = f"vote of {person} on {place}: {one} -> {two}"
            yield Change(what="vote", fine=fine, kind=kind.name, before=one, after=two, text=text)
    if change.after["resolved"] and not change.before["resolved"]:
        yield Change(what="settled", fine=fine, kind=kind.name, text=f"settled: {place}")


def _photo(change: Planned, catalogue: Catalogue, kind: KindEntry) -> Change:
    """A label of a photo that changes."""
    old, new = ((image or {}).get("value") for image in (change.before, change.after))
    one = _text(catalogue, kind, old, before=True) if old is not None else "as its class"
    two = _text(catalogue, kind, new, before=False) if new is not None else "as its class"
    changed = f"{one} -> {two}" if one != two else f"{two}, of another class"
    text = f"photo {change.key.photo!r}, {kind.name!r}: {changed}"
    return Change(what="photo", kind=kind.name, before=one, after=two, text=text)
