"""What a change of the structure would do, for people to look at before they do it."""

from __future__ import annotations

import hashlib

from sqlalchemy.engine import Connection

from finegraph.labelling.edits.changes import StructureChange, change_name
from finegraph.labelling.edits.plan import Image, Plan, Planned
from finegraph.labelling.store.catalogue import Catalogue, KindEntry
from finegraph.labelling.store.records import CellValue, ExampleChange, Preview
from finegraph.labelling.store.rows import fine_names
from finegraph.labelling.store.values import cell_of_value, dump, parts_of, value_of_cell

_MOST_EXAMPLES = 20


def preview_of(connection: Connection, catalogue: Catalogue, change: StructureChange, plan: Plan) -> Preview:
    """The preview of a plan."""
    changed = [one for one in plan.of("cell") if (one.before or {}).get("value") != (one.after or {}).get("value")]
    shown = changed[:_MOST_EXAMPLES]
    names = fine_names(connection, {one.key.fine_id for one in shown if one.key.fine_id is not None})
    words = {
        (one.key.kind_id, one.key.label_id): (one.after or {})["name"]
        for one in plan.of("label")
        if one.after is not None
    }
    new_kinds = {one.key.kind_id: one.after for one in plan.of("kind") if one.after is not None}
    examples = []
    for one in shown:
        kind = catalogue.by_id.get(one.key.kind_id or 0)
        image = new_kinds.get(one.key.kind_id)
        name = image["name"] if image is not None else kind.name if kind is not None else ""
        mode = kind.mode if kind is not None else (image or {})["mode"]
        before, after = (_value(kind, mode, words, one, picture) for picture in (one.before, one.after))
        examples.append(ExampleChange(fine=names.get(one.key.fine_id or 0, ""), kind=name, before=before, after=after))
    digest = hashlib.sha256(dump([change_name(change), change.to_dict(), plan.digest]).encode()).hexdigest()
    return Preview(
        text=f"{plan.text[0].upper()}{plan.text[1:]}: {len(changed)} cell{'s' if len(changed) != 1 else ''} change",
        cells=len(changed),
        examples=tuple(examples),
        warnings=tuple(plan.warnings),
        digest=digest,
    )


def _value(
    kind: KindEntry | None,
    mode: str,
    words: dict[tuple[int | None, int | None], str],
    change: Planned,
    image: Image | None,
) -> CellValue:
    """A value that may name labels which are not there yet."""
    if image is None or image["value"] is None:
        return None
    parts = parts_of(image["value"])
    old = kind.by_id if kind is not None else {}
    names = [old[label].name if label in old else words[change.key.kind_id, label] for label, _ in parts]
    weights = [weight for _, weight in parts if weight is not None]
    if mode == "all":
        return {"all_of": names}
    if weights:
        return {"weights": dict(zip(names, weights, strict=True))}
    return value_of_cell(cell_of_value({"one_of": names}, "one", "preview"))
