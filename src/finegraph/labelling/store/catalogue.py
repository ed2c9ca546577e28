"""The kinds and labels of a store with their numbers, as one value in memory.

They change seldom and every edit needs them, so they are read again only when the structure has changed: each change of
the structure writes a new mark to the database, and each edit compares it with one small query. Removed labels stay
known by number, because the log refers to them. Memory: linear in the labels.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.errors import unknown_name
from finegraph.graph.kind import BINARY_LABELS
from finegraph.graph.kind_columns import TableCell
from finegraph.labelling.store.graph_columns import is_ordered, number_type
from finegraph.labelling.store.records import CellValue, KindInfo, Mode
from finegraph.labelling.store.sql_tables import kinds, labels, meta
from finegraph.labelling.store.values import cell_of_value, encode, value_of_cell

_STRUCTURE = sa.select(meta.c.value).where(meta.c.key == "structure")


@dataclass(frozen=True)
class LabelEntry:
    """A label of a kind; `removed` ones are known only so that the log can be read."""

    id: int
    name: str
    position: int
    removed: bool
    version: int


@dataclass(frozen=True)
class KindEntry:
    """A kind with its labels, also the removed ones."""

    id: int
    name: str
    position: int
    mode: Mode
    prior: str
    removed: bool
    version: int
    all_labels: tuple[LabelEntry, ...]

    @cached_property
    def labels(self) -> tuple[LabelEntry, ...]:
        """The labels in order."""
        return tuple(label for label in self.all_labels if not label.removed)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the labels in order."""
        return tuple(label.name for label in self.labels)

    @cached_property
    def ids(self) -> Mapping[str, int]:
        """The number of each label by name."""
        return {label.name: label.id for label in self.labels}

    @cached_property
    def by_id(self) -> Mapping[int, LabelEntry]:
        """All labels by number."""
        return {label.id: label for label in self.all_labels}

    @cached_property
    def living(self) -> frozenset[int]:
        """The numbers of the labels."""
        return frozenset(label.id for label in self.labels)

    @cached_property
    def _order(self) -> Mapping[int, tuple[int, int]]:
        return {label.id: (label.position, label.id) for label in self.all_labels}

    @cached_property
    def _decoded(self) -> dict[str, TableCell]:
        return {}

    @cached_property
    def comparable(self) -> bool:
        """Whether one class can have more of it than another: numbers, and labels in rising order."""
        return is_ordered(self.prior) or number_type(self.prior) is not None

    def label(self, name: str) -> LabelEntry:
        """A label by name."""
        if name not in self.ids:
            raise unknown_name("label", name, self.names, f"of kind {self.name!r}")
        return self.by_id[self.ids[name]]

    def encode(self, value: object, where: str | None = None) -> str | None:
        """A value in the form that the store keeps."""
        cell = cell_of_value(value, self.mode, where or f"kind {self.name!r}")
        return encode(cell, self.ids, self.name)

    def cell(self, encoded: str | None) -> TableCell | None:
        """The cell of a stored value, with its labels in order. Equal texts are parsed once."""
        if encoded is None:
            return None
        cell = self._decoded.get(encoded)
        if cell is None:
            cell = self._decoded[encoded] = self._decode(encoded)
        return cell

    def _decode(self, encoded: str) -> TableCell:
        content = json.loads(encoded)
        weighted = bool(content) and isinstance(content[0], list)
        pairs = [tuple(part) for part in content] if weighted else [(part, 0.0) for part in content]
        pairs.sort(key=lambda pair: self._order[pair[0]])
        names = tuple(self.by_id[number].name for number, _ in pairs)
        return TableCell(names, tuple(weight for _, weight in pairs) if weighted else None, all_of=self.mode == "all")

    def value(self, encoded: str | None) -> CellValue:
        """The value that callers see."""
        return value_of_cell(self.cell(encoded))

    def info(self) -> KindInfo:
        """The kind for callers."""
        return KindInfo(
            number=self.id,
            name=self.name,
            mode=self.mode,
            binary=self.mode == "one" and self.names == BINARY_LABELS,
            unknown_prior=self.prior,
            labels=self.names,
            label_numbers=tuple(label.id for label in self.labels),
            version=max([self.version, *(label.version for label in self.labels)]),
            comparable=self.comparable,
        )


@dataclass(frozen=True)
class Catalogue:
    """All kinds of a store, at one state of its structure."""

    structure: str
    all_kinds: tuple[KindEntry, ...]

    @cached_property
    def kinds(self) -> tuple[KindEntry, ...]:
        """The kinds in order."""
        return tuple(kind for kind in self.all_kinds if not kind.removed)

    @cached_property
    def by_id(self) -> Mapping[int, KindEntry]:
        """All kinds by number, also removed ones."""
        return {kind.id: kind for kind in self.all_kinds}

    @cached_property
    def by_name(self) -> Mapping[str, KindEntry]:
        """The kinds by name."""
        return {kind.name: kind for kind in self.kinds}

    def kind(self, name: str) -> KindEntry:
        """A kind by name."""
        if name not in self.by_name:
            raise unknown_name("kind", name, tuple(self.by_name))
        return self.by_name[name]


def read_catalogue(connection: Connection, known: Catalogue | None = None) -> Catalogue:
    """The catalogue as the connection sees it; the known one if it is still current."""
    structure = connection.scalar(_STRUCTURE) or ""
    if known is not None and known.structure == structure:
        return known
    labels_by_kind: dict[int, list[LabelEntry]] = {}
    for row in connection.execute(sa.select(labels).order_by(labels.c.position, labels.c.id)):
        entry = LabelEntry(row.id, row.name, row.position, bool(row.removed), row.version)
        labels_by_kind.setdefault(row.kind_id, []).append(entry)
    entries = [
        KindEntry(
            row.id,
            row.name,
            row.position,
            row.mode,
            row.prior,
            bool(row.removed),
            row.version,
            tuple(labels_by_kind.get(row.id, ())),
        )
        for row in connection.execute(sa.select(kinds).order_by(kinds.c.position, kinds.c.id))
    ]
    return Catalogue(structure, tuple(entries))
