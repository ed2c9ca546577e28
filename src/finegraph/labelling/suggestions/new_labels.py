"""The plan of decisions that may name labels which their kinds do not have yet: these are added in the same action."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy.engine import Connection

from finegraph.labelling.edits.decisions import plan_decisions
from finegraph.labelling.edits.plan import Plan
from finegraph.labelling.edits.structure import added, new_label
from finegraph.labelling.store.catalogue import Catalogue, KindEntry, LabelEntry
from finegraph.labelling.store.checks import check_names
from finegraph.labelling.store.present_names import present_decisions
from finegraph.labelling.store.records import Decision


def plan_named(connection: Connection, catalogue: Catalogue, decisions: Sequence[Decision], person: str) -> Plan:
    """The plan of decisions, all or none, with the labels that they name; see `plan_decisions`.

    Only a value that is one label of a kind of one label may be new.
    """
    decisions = present_decisions(connection, catalogue, decisions)
    plan, kinds, count = Plan(""), {kind.id: kind for kind in catalogue.all_kinds}, 0
    for decision in decisions:
        kind = kinds[catalogue.kind(decision.kind).id]
        if kind.mode == "one" and isinstance(decision.value, str) and decision.value not in kind.ids:
            key, image = new_label(connection, catalogue.kind(decision.kind), decision.value, count)
            added(plan, key, image)
            kinds[kind.id] = _with_label(
                kind, LabelEntry(key.label_id or 0, decision.value, image["position"], False, 0)
            )
            count += 1
    check_names(plan)
    then = replace(catalogue, all_kinds=tuple(kinds.values()))
    decided = plan_decisions(connection, then, decisions, person)
    decided.changes = {**plan.changes, **decided.changes}
    return decided


def added_labels(plan: Plan) -> str:
    """What a plan adds to kinds, as the end of its sentence; nothing where it adds no label."""
    names = [change.after["name"] for change in plan.of("label") if change.after is not None]
    if not names:
        return ""
    return f" and added {f'the label {names[0]!r}' if len(names) == 1 else f'{len(names)} labels'}"


def _with_label(kind: KindEntry, label: LabelEntry) -> KindEntry:
    return replace(kind, all_labels=(*kind.all_labels, label))
