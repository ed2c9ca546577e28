"""The questions that a store answers."""

from __future__ import annotations

import time
from array import array
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.graph.comparisons import Comparable, Comparison, format_comparisons, parse_comparisons
from finegraph.graph.formats.csv_writer import format_csv
from finegraph.graph.formats.json_writer import canonical_json
from finegraph.labelling.class_order import (
    Classes,
    ClassOrder,
    Counted,
    KindAnswers,
    read_classes,
    read_order,
    with_compared,
)
from finegraph.labelling.exchange.diffing import diff_versions
from finegraph.labelling.exchange.graphs import read_columns, read_graph
from finegraph.labelling.exchange.label_studio import format_tasks
from finegraph.labelling.exchange.photo_label_file import format_photos, parse_photos
from finegraph.labelling.questions import live_findings as live
from finegraph.labelling.questions.history import Changes, EditFilter, Recent, last_undoable, read_actions, read_history
from finegraph.labelling.questions.past import as_comparisons, read_answers, read_photo_labels
from finegraph.labelling.questions.queries import (
    ClassFilter,
    Order,
    Show,
    cell_states,
    class_numbers,
    classes_of,
    find_classes,
    label_counts,
    one_class,
    photo_cells,
    store_version,
)
from finegraph.labelling.questions.team import Agreement, read_agreement, read_progress
from finegraph.labelling.store.catalogue import Catalogue, KindEntry
from finegraph.labelling.store.current_rows import fine_ids, short
from finegraph.labelling.store.graph_columns import StoreColumn
from finegraph.labelling.store.records import (
    Batch,
    CellState,
    CellValue,
    ClassPage,
    ClassRow,
    Diff,
    Edit,
    KindInfo,
    LiveFinding,
    PairAnswer,
    PhotoLabel,
    Progress,
    Suggestion,
    SuggestionPage,
    Target,
)
from finegraph.labelling.store.renames import Rename, read_renames
from finegraph.labelling.store.sql_tables import batches, cells, fine, meta, notes, votes
from finegraph.labelling.store_access import StoreAccess
from finegraph.labelling.suggestions.suggesting import best_suggestions, has_beliefs, read_beliefs, read_suggestions

Format = Literal["csv", "json", "label-studio", "photos", "comparisons"]
FORMATS = ("csv", "json", "label-studio", "photos", "comparisons")
_MIN_FRESH_SECONDS, _FRESH_FACTOR = 0.1, 10.0
"""How long a count of the progress is reused: at least these seconds, and this many times as long as it took."""


class StoreReader(StoreAccess):
    """The questions; see `LabelStore`."""

    _progress: tuple[float, int, Progress] | None = None
    """The time until which the progress is fresh, its version, and the progress."""
    _findings: tuple[int, tuple[LiveFinding, ...]] | None = None

    @cached_property
    def _recent(self) -> Recent:
        return Recent()

    @property
    def version(self) -> int:
        """The number of the last edit."""
        return self._ask(lambda connection, _: store_version(connection))

    @property
    def imported_digest(self) -> str | None:
        """The fingerprint of the graph that was imported first."""
        return self._ask(lambda connection, _: connection.scalar(sa.select(meta.c.value).where(meta.c.key == "graph")))

    def kinds(self) -> tuple[KindInfo, ...]:
        """The kinds in order."""
        return self._ask(lambda _, catalogue: tuple(kind.info() for kind in catalogue.kinds))

    def label_counts(self, kind: str) -> dict[str, int]:
        """How many classes have each label of a kind."""
        return self._ask(lambda connection, catalogue: label_counts(connection, catalogue.kind(kind)))

    def people(self) -> tuple[str, ...]:
        """All people who have edited."""
        query = sa.select(batches.c.person).distinct().order_by(batches.c.person)
        return self._ask(lambda connection, _: tuple(connection.scalars(query)))

    def classes(
        self,
        *,
        search: str = "",
        kind: str | None = None,
        show: Show = "all",
        label: str | None = None,
        order: Order = "graph",
        offset: int = 0,
        limit: int = 50,
        kinds: Sequence[str] | None = None,
    ) -> ClassPage:
        """A page of classes.

        Args:
            search: words that must all occur in the name; case and accents do not count.
            kind: the kind that `show` and `label` apply to; None for any.
            show: `all`, `unknown`, `known`, `disagreement`, `low_confidence`, `noted`, `suggested`, or `contradicted`:
                the model sees something else on the photos.
            label: only classes that have this label in `kind`.
            order: as in the graph, by name, or those that need attention first: photos contradict the labels, people
                disagree, the model doubts, something is unknown; of contradicted ones, the surest first.
            offset: how many to leave out.
            limit: the largest number of classes to return.
            kinds: the kinds whose cells to return; None for all.
        """
        wanted = ClassFilter(search=search, kind=kind, show=show, label=label, order=order)
        return self._ask(
            lambda connection, catalogue: find_classes(
                connection, catalogue, wanted, offset=offset, limit=limit, kinds=kinds
            )
        )

    def class_numbers(
        self,
        *,
        search: str = "",
        kind: str | None = None,
        show: Show = "all",
        label: str | None = None,
        order: Order = "graph",
    ) -> array[int]:
        """The numbers of all classes of a list, in order; the arguments are those of `classes`.

        Pages of `classes` shift while people decide: a decided class leaves the list of unknown ones. To go through a
        list without gaps, ask for its numbers once, then for the classes by their numbers.
        """
        wanted = ClassFilter(search=search, kind=kind, show=show, label=label, order=order)
        return self._ask(lambda connection, catalogue: class_numbers(connection, catalogue, wanted))

    def numbered_classes(self, numbers: Sequence[int], *, kinds: Sequence[str] | None = None) -> list[ClassRow]:
        """Classes by their numbers, in that order, including removed ones, which are marked.

        Args:
            numbers: the numbers, as `class_numbers` gives them.
            kinds: the kinds whose cells to return; None for all.
        """
        return self._ask(lambda connection, catalogue: classes_of(connection, catalogue, numbers, kinds))

    def one_class(self, fine: str, *, number: int | None = None) -> ClassRow:
        """One class with all its cells; by its number, if that is given and still there, whatever its name is now."""
        return self._ask(lambda connection, catalogue: one_class(connection, catalogue, fine, number))

    def cell(self, fine: str, kind: str) -> CellState:
        """One cell."""

        def question(connection: Connection, catalogue: Catalogue) -> CellState:
            number = fine_ids(connection, [fine])[fine]
            return cell_states(connection, catalogue.kind(kind), {number: fine})[number]

        return self._ask(question)

    def photo_cells(self, photos: Sequence[str]) -> dict[str, dict[str, CellState]]:
        """The photo labels of some photos, by photo and kind; photos without labels are left out."""
        return self._ask(lambda connection, catalogue: photo_cells(connection, catalogue, photos))

    def photo_labels(self, version: int | None = None) -> list[PhotoLabel]:
        """All photo labels, now or at an earlier version, in the order of the photos."""
        return self._ask(lambda connection, catalogue: read_photo_labels(connection, catalogue, version))

    def parse_photos(self, text: str, path: str = "photos.csv") -> list[PhotoLabel]:
        """The photo labels in the text of a CSV file, as `export_text` writes it.

        Raises:
            GraphFileError: with all faults of the file, which is called `path` there.
        """
        return self._ask(lambda _, catalogue: parse_photos(text, catalogue, path))

    def pair_answers(self, version: int | None = None) -> list[PairAnswer]:
        """All comparisons, now or at an earlier version, kind by kind."""
        return self._ask(lambda connection, catalogue: read_answers(connection, catalogue, version))

    def order(self, kind: str, counted: Counted = "classes") -> ClassOrder:
        """The order of the classes that were compared in a kind, with values, spreads and contradictions.

        Args:
            kind: a kind of numbers, or an ordered one.
            counted: which comparisons count: those of `classes`, or those of `photos` too, which tell less.
        """
        return self._ask(lambda connection, catalogue: read_order(connection, catalogue, kind, counted))

    def class_ids(self, names: Collection[str]) -> set[int]:
        """The numbers of the classes among some names."""
        query = sa.select(fine.c.id, fine.c.name).where(fine.c.removed == 0)
        wanted = set(names)
        return self._ask(lambda connection, _: {row.id for row in connection.execute(query) if row.name in wanted})

    def kind_entry(self, kind: str) -> KindEntry:
        """A kind by name, as the store keeps it."""
        return self._ask(lambda _, catalogue: catalogue.kind(kind))

    def read_new(self, answers: KindAnswers) -> list[str]:
        """Bring the answers of a kind up to date; the texts of those that have changed."""
        return self._ask(lambda connection, _: answers.read(connection))

    def classes_with_values(self, kind: str) -> Classes:
        """All classes in order, with the values or steps that they have in a kind."""
        return self._ask(lambda connection, catalogue: read_classes(connection, catalogue, catalogue.kind(kind)))

    def parse_comparisons(self, text: str, path: str = "comparisons.csv") -> list[Comparison]:
        """The comparisons in the text of a CSV file, as `export_text` writes it.

        Raises:
            GraphFileError: with all faults of the file, which is called `path` there.
        """

        def question(connection: Connection, catalogue: Catalogue) -> list[Comparison]:
            classes = set(connection.scalars(sa.select(fine.c.name).where(fine.c.removed == 0)))
            refused = {kind.name: "its labels have no order" for kind in catalogue.kinds if not kind.comparable}
            kinds = [kind.name for kind in catalogue.kinds]
            return parse_comparisons(text, Comparable(classes, None, refused, kinds), path)

        return self._ask(question)

    def progress(self) -> Progress:
        """How much is labelled. The answer may be a tenth of a second old, or ten times as old as counting takes."""
        cached, began = self._progress, time.monotonic()
        if cached is not None and (began < cached[0] or cached[1] == self.version):
            return cached[2]

        def question(connection: Connection, catalogue: Catalogue) -> tuple[int, Progress]:
            return store_version(connection), read_progress(connection, catalogue)

        version, progress = self._ask(question)
        ended = time.monotonic()
        self._progress = (ended + max(_MIN_FRESH_SECONDS, _FRESH_FACTOR * (ended - began)), version, progress)
        return progress

    def history(
        self,
        *,
        fine: str | None = None,
        kind: str | None = None,
        target: Target | None = None,
        photo: str | Collection[str] | None = None,
        person: str | None = None,
        batch: int | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Edit]:
        """Edits, newest first: of a class, a cell, a note, photos, a person, an action; `before`: for the next page."""
        wanted = EditFilter(fine=fine, kind=kind, target=target, photo=photo, person=person, batch=batch, before=before)
        return self._ask(lambda connection, catalogue: read_history(connection, catalogue, wanted, limit))

    def changes(self, since: int) -> Changes:
        """The edits after a version and the cells that they changed; cheap, also when many people ask often."""
        return self._ask(lambda connection, catalogue: self._recent.since(connection, catalogue, since))

    def renames(self, after: int = 0, version: int | None = None) -> list[Rename]:
        """The changes of classes' names after an edit, up to a version, in order; see `present_names`."""
        return self._ask(lambda connection, _: read_renames(connection, after, version))

    def batches(self, *, person: str | None = None, before: int | None = None, limit: int = 50) -> list[Batch]:
        """Actions, newest first."""
        return self._ask(lambda connection, _: read_actions(connection, person=person, before=before, limit=limit))

    def last_undoable(self, person: str) -> int | None:
        """The newest action of a person that is neither undone nor an undo itself."""
        return self._ask(lambda connection, _: last_undoable(connection, person))

    def findings(self) -> tuple[LiveFinding, ...]:
        """What the graph check finds in the present state; counted again only after an edit."""

        def question(connection: Connection, catalogue: Catalogue) -> tuple[int, tuple[LiveFinding, ...]]:
            version = store_version(connection)
            if self._findings is not None and self._findings[0] == version:
                return self._findings
            return version, live.find(read_graph(connection, catalogue), catalogue)

        self._findings = self._ask(question)
        return self._findings[1]

    def agreement(self, kind: str | None = None) -> Agreement:
        """How well people agree, on one kind or on all."""
        return self._ask(lambda connection, catalogue: read_agreement(connection, catalogue, kind))

    def diff(self, one: int, two: int | None = None) -> Diff:
        """What changed from one version to another, by default to the present."""

        def question(connection: Connection, catalogue: Catalogue) -> Diff:
            last = store_version(connection)
            for version in (one, last if two is None else two):
                if not 0 <= version <= last:
                    raise InputError(f"there is no version {short(version)}; versions go from 0 to {last}")
            return diff_versions(connection, catalogue, one, last if two is None else two)

        return self._ask(question)

    def graph(self, version: int | None = None, *, compared: Counted | None = None) -> LabelGraph:
        """The label graph, now or at an earlier version, checked against its seals.

        Args:
            version: the number of the last edit of the state; by default the current state.
            compared: whether compared classes without a value of a number get one, from the comparisons of `classes`
                alone, or from those of `photos` too.

        Raises:
            DamagedStoreError: the store is damaged.
        """
        with self.one_state():
            self.check("labels" if version is None else "all")
            graph = self._ask(lambda connection, catalogue: read_graph(connection, catalogue, version))
            return graph if compared is None else with_compared(graph, self.pair_answers(version), compared)

    def columns(self, version: int | None = None) -> tuple[tuple[str, ...], list[StoreColumn]]:
        """The classes, and the kinds with their cells; all in order, now or at an earlier version."""
        return self._ask(lambda connection, catalogue: read_columns(connection, catalogue, version))

    def suggestions(
        self,
        *,
        kind: str | None = None,
        fine: str | None = None,
        source: str | None = None,
        contradicting: bool = False,
        least: float = 0.0,
        offset: int = 0,
        limit: int = 100,
    ) -> SuggestionPage:
        """Suggestions that differ from the values of their cells, contradictions first, then by score.

        Args:
            kind: only of this kind.
            fine: only of this class.
            source: only from `model`, `similar` or `name`.
            contradicting: only if the cell has another value.
            least: the lowest score.
            offset: how many to skip.
            limit: the largest number of suggestions to return.
        """
        return self._ask(
            lambda connection, catalogue: read_suggestions(
                connection,
                catalogue,
                kind=kind,
                fine_label=fine,
                source=source,
                contradicting=contradicting,
                least=least,
                offset=offset,
                limit=limit,
            )
        )

    def best_suggestions(self, kind: str, fine: Collection[str]) -> dict[str, Suggestion]:
        """By class, the surest suggestion for the cell of a kind that differs from its value, if any."""
        return self._ask(lambda connection, catalogue: best_suggestions(connection, catalogue, kind, fine))

    @property
    def has_beliefs(self) -> bool:
        """Whether the beliefs of a model are stored."""
        return self._ask(lambda connection, _: has_beliefs(connection))

    def beliefs(self, fine: Collection[str], *, kind: str | None = None) -> dict[str, dict[str, dict[str, float]]]:
        """What a model believes of some classes: by class, kind and label, the mean probability over its photos.

        Labels below 0.001 in kinds of one label are left out, and so are classes and kinds without beliefs.

        Args:
            fine: the classes.
            kind: only of this kind.
        """
        return self._ask(lambda connection, catalogue: read_beliefs(connection, catalogue, fine, kind))

    def export_text(
        self, format: Format, *, safe: bool = True, version: int | None = None, compared: Counted | None = None
    ) -> str:
        """A state of the store as the text of a file.

        Args:
            format: `csv` or `json`, a graph file; `label-studio`; `photos`, the photo labels as CSV; or `comparisons`.
            safe: whether CSV cells that a spreadsheet would run as formulas get a backslash, which readers remove.
            version: the number of the last edit of the state; by default the current state. Votes are known only of
                the current state.
            compared: for graph files, whether comparisons fill in missing values; see `graph`.

        Raises:
            GraphError: the graph holds something that CSV cannot.
            InputError: there is no such format or version, or the format cannot hold an earlier version.
            DamagedStoreError: the store is damaged.
        """
        if format not in FORMATS:
            raise InputError(f"format: expected one of {', '.join(FORMATS)}, got {format!r}")
        if compared not in (None, "classes", "photos"):
            raise InputError(f"compared: expected classes or photos, got {compared!r}")
        if format == "json":
            return canonical_json(self.graph(version, compared=compared)) + "\n"
        if format == "csv":
            return format_csv(self.graph(version, compared=compared), safe=safe)
        if compared is not None:
            raise InputError(f"format: comparisons give values to graphs, csv or json, got {format!r}")
        if format == "label-studio" and version is not None:
            raise InputError("format: votes are of the present; an earlier version is written in any other format")
        with self.one_state():
            self.check("labels" if version is None else "all")
            if format == "label-studio":
                return self._ask(_label_studio)
            if format == "comparisons":
                return format_comparisons(as_comparisons(self.pair_answers(version)), safe=safe)
            labels = self.photo_labels(version)
            return format_photos([kind.name for kind in self.kinds()], labels, safe=safe)


def _label_studio(connection: Connection, catalogue: Catalogue) -> str:
    """The store as Label Studio JSON."""
    names, columns = read_columns(connection, catalogue)
    votes_by_class: dict[str, dict[str, dict[str, CellValue]]] = {}
    query = sa.select(votes, fine.c.name).join(fine, fine.c.id == votes.c.fine_id).where(fine.c.removed == 0)
    for row in connection.execute(query.order_by(votes.c.fine_id, votes.c.person, votes.c.kind_id)):
        kind = catalogue.by_id[row.kind_id]
        if not kind.removed:
            votes_by_class.setdefault(row.name, {}).setdefault(row.person, {})[kind.name] = kind.value(row.value)
    noted = sa.select(fine.c.name, notes.c.text).join(fine, fine.c.id == notes.c.fine_id).where(notes.c.text != "")
    note_texts = {row.name: row.text for row in connection.execute(noted.where(fine.c.removed == 0))}
    settled: dict[str, list[str]] = {}
    resolved = sa.select(fine.c.name, cells.c.kind_id).join(fine, fine.c.id == cells.c.fine_id)
    for row in connection.execute(resolved.where(cells.c.resolved == 1, fine.c.removed == 0).order_by(cells.c.kind_id)):
        kind = catalogue.by_id[row.kind_id]
        if not kind.removed:
            settled.setdefault(row.name, []).append(kind.name)
    return format_tasks(names, columns, votes_by_class, note_texts, read_photo_labels(connection, catalogue), settled)
