"""`LabelStore`: all questions and actions of a store, in one class.

    with LabelStore.create("menu.db") as store:
        store.import_graph(LabelGraph.read("menu.csv"), person="ann", edit_id="1")
        cell = store.cell("mapo tofu @ A", "dish")
        store.decide("mapo tofu @ A", "dish", "mapo tofu", person="ann", edit_id="2", seen=cell.version)

Every action is on the disk when it returns. Repeating it with the same `edit_id` does nothing and gives the first
result. All methods may be called from several threads. Cost of a decision: a few milliseconds, whatever the size of the
store.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Connection

from finegraph.errors import (
    ConflictError,
    DamagedStoreError,
    InputError,
    LabelStoreError,
    NoRoomError,
    UnknownNameError,
)
from finegraph.files.durable import place_new, reason_of, temporary_in
from finegraph.graph import LabelGraph
from finegraph.graph.comparisons import Comparison
from finegraph.labelling.edits.changes import StructureChange, change_name
from finegraph.labelling.edits.comparing import plan_comparison, plan_comparisons
from finegraph.labelling.edits.decisions import plan_decisions, plan_note, plan_photo
from finegraph.labelling.edits.structure import plan_change, preview_of
from finegraph.labelling.edits.undo import plan_undo
from finegraph.labelling.exchange.graph_import import (
    add_content,
    add_photo_labels,
    plan_import,
    preview_comparisons,
    preview_import,
    preview_photos,
)
from finegraph.labelling.exchange.graphs import first_import, is_empty, plan_text
from finegraph.labelling.exchange.label_studio import Content
from finegraph.labelling.questions.history import result_of, result_of_record
from finegraph.labelling.store.catalogue import Catalogue, KindEntry
from finegraph.labelling.store.current_rows import check_number, fine_ids
from finegraph.labelling.store.database import Database, store_error
from finegraph.labelling.store.graph_columns import store_columns
from finegraph.labelling.store.log import carry_out, check_person, find_batch, request_digest, write_first
from finegraph.labelling.store.plan import Plan
from finegraph.labelling.store.records import (
    CellValue,
    Conflict,
    Decision,
    EditResult,
    ImportPreview,
    Numbers,
    Outcome,
    PairNumbers,
    PhotoLabel,
    Preview,
)
from finegraph.labelling.store.sql_tables import edits
from finegraph.labelling.store_questions import StoreReader
from finegraph.labelling.suggestions.proposals import Proposal
from finegraph.labelling.suggestions.suggesting import (
    accepted,
    added_labels,
    keep_beliefs,
    keep_suggestions,
    plan_named,
)


class _RollbackError(Exception):
    """Makes the writer roll a job back."""


class LabelStore(StoreReader):
    """Label decisions of several people, in a SQLite file or a PostgreSQL database.

    Make one with `create` or `open`. The arguments of all actions: `person` is the name of the acting person, `edit_id`
    a text that the caller makes once per action and uses again when repeating it.
    """

    # ---- cells ------------------------------------------------------------------------------------------------------

    def decide(
        self,
        fine: str,
        kind: str,
        value: CellValue | bool,
        *,
        person: str,
        edit_id: str,
        seen: int | None,
        numbers: Numbers | None = None,
    ) -> EditResult:
        """Decide one cell.

        Args:
            fine: the class.
            kind: the kind.
            value: the value; see `records`.
            person: the name of the person who decides.
            edit_id: see the class.
            seen: the version of the cell that the person saw. None for a blind vote: it is kept as the person's vote
                and changes no value that somebody else made.
            numbers: the numbers behind the names when the person saw them; they hold after a rename.

        Raises:
            ConflictError: the cell was since changed to another value.
        """
        decision = Decision(fine=fine, kind=kind, value=value, seen=seen, numbers=numbers)  # type: ignore[arg-type]
        return self._decide("decide", [decision], person, edit_id)

    def decide_many(self, decisions: Sequence[Decision], *, person: str, edit_id: str) -> EditResult:
        """Decide several cells as one action, all or none."""
        return self._decide("decide_many", decisions, person, edit_id)

    def resolve(
        self,
        fine: str,
        kind: str,
        value: CellValue | bool,
        *,
        person: str,
        edit_id: str,
        seen: int,
        numbers: Numbers | None = None,
    ) -> EditResult:
        """Settle a disagreement with a value; the votes stay. `numbers` as for `decide`."""
        decision = Decision(fine=fine, kind=kind, value=value, seen=seen, numbers=numbers)  # type: ignore[arg-type]
        return self._decide("resolve", [decision], person, edit_id)

    def _decide(self, action: str, decisions: Sequence[Decision], person: str, edit_id: str) -> EditResult:
        request = [decision.to_dict() for decision in decisions]
        return self._perform(
            action,
            person,
            edit_id,
            request,
            lambda connection, catalogue, name: plan_decisions(
                connection, catalogue, decisions, name, resolve=action == "resolve"
            ),
        )

    def set_note(
        self, fine: str, text: str, *, person: str, edit_id: str, seen: int, numbers: Numbers | None = None
    ) -> EditResult:
        """Change the note of a class; `seen` is the version of the note, `numbers` as for `decide`."""
        request = [fine, text, seen, *_numbers_field(numbers)]
        return self._perform(
            "note", person, edit_id, request, lambda c, _, name: plan_note(c, fine, text, name, seen, numbers)
        )

    def label_photo(
        self,
        photo: str,
        kind: str,
        value: CellValue | bool,
        *,
        person: str,
        edit_id: str,
        seen: int,
        fine: str | None = None,
        numbers: Numbers | None = None,
    ) -> EditResult:
        """Set the photo label of one photo; None removes it. `seen` is its version, 0 if there is none."""
        return self._perform(
            "photo",
            person,
            edit_id,
            [photo, kind, value, seen, fine, *_numbers_field(numbers)],
            lambda connection, catalogue, name: plan_photo(
                connection, catalogue, photo, kind, value, name, seen=seen, fine_label=fine, numbers=numbers
            ),
        )

    def compare(
        self,
        kind: str,
        one: str,
        two: str,
        outcome: Outcome | None,
        *,
        person: str,
        edit_id: str,
        seen: int | None = None,
        photos: bool = False,
        numbers: PairNumbers | None = None,
    ) -> EditResult:
        """Say which of two classes, or of two photos, has more of something. Each person has an answer to each pair.

        Args:
            kind: a kind of numbers, or an ordered one.
            one: the first class, or the key of the first photo.
            two: the second.
            outcome: whether the first has `more`, `less` or the `same`; `skip` if nobody can tell; None takes the
                answer back.
            person: the name of the person who compares.
            edit_id: see the class.
            seen: the version of the person's answer that they saw, 0 if there was none; None for any.
            photos: whether two photos are compared.
            numbers: the numbers behind the names when the person saw them; for photos, those of their classes.

        Raises:
            ConflictError: the same person has since given another answer.
        """
        meant = numbers or PairNumbers()
        request = [kind, one, two, outcome, seen, photos, meant.to_dict()]
        return self._perform(
            "compare",
            person,
            edit_id,
            request,
            lambda connection, catalogue, name: plan_comparison(
                connection, catalogue, kind, one, two, outcome, name, photos=photos, seen=seen, numbers=meant
            ),
        )

    def rehearse(self) -> None:
        """Warm up: ask the usual questions and roll back one decision, so that the first real ones are fast.

        The first use of each statement is many times slower than the next, and after a restart all pages reconnect at
        once. Nothing is written.
        """
        page = self.classes(limit=1)
        self.changes(0)
        if not page.rows or not page.rows[0].cells:
            return
        fine, [cell, *_] = page.rows[0].fine, page.rows[0].cells.values()
        self.one_class(fine), self.cell(fine, cell.kind), self.suggestions(fine=fine)

        def job(connection: Connection) -> None:
            catalogue, number = self._known_catalogue(connection), secrets.token_hex(8)
            find_batch(connection, number, "")
            decision = Decision(fine=fine, kind=cell.kind, value=cell.value, seen=None)
            plan = plan_decisions(connection, catalogue, [decision], "-")
            record = carry_out(connection, catalogue, plan, person="-", edit_id=number, digest="", action="decide")
            result_of_record(connection, plan, record)
            raise _RollbackError

        with contextlib.suppress(_RollbackError, UnknownNameError):  # another server may have renamed it meanwhile
            self._do(job)

    # ---- structure --------------------------------------------------------------------------------------------------

    def preview(self, change: StructureChange) -> Preview:
        """The preview of a change of classes, kinds or labels."""
        return self._ask(
            lambda connection, catalogue: preview_of(
                connection, catalogue, change, plan_change(connection, catalogue, change, "")
            )
        )

    def apply(self, change: StructureChange, *, person: str, edit_id: str, digest: str | None = None) -> EditResult:
        """Carry out a change of classes, kinds or labels.

        Args:
            change: what to do.
            person: the name of the person.
            edit_id: see the class.
            digest: the digest of the preview that the person confirmed.

        Raises:
            ConflictError: it would now do something else than the preview.
        """

        def planning(connection: Connection, catalogue: Catalogue, name: str) -> Plan:
            plan = plan_change(connection, catalogue, change, name)
            if digest is not None:
                new = preview_of(connection, catalogue, change, plan)
                _check_preview(digest, new.digest, lambda: new)
            return plan

        return self._perform(
            change_name(change), person, edit_id, [change.to_dict(), digest], planning, no_timeout=True
        )

    # ---- undo -------------------------------------------------------------------------------------------------------

    def undo(self, batch: int, *, person: str, edit_id: str) -> EditResult:
        """Undo an action; undoing an undo is redo.

        Raises:
            ConflictError: something that it changed was changed again since, or people have decided something in a
                kind or class that would be removed.
            InputError: it is already undone, or is the first import.
        """
        return self._perform(
            "undo", person, edit_id, batch, lambda c, known, _: plan_undo(c, known, batch), no_timeout=True
        )

    def undo_edit(self, number: int, *, person: str, edit_id: str) -> EditResult:
        """Undo one edit of an action; see `undo`."""

        def planning(connection: Connection, catalogue: Catalogue, _: str) -> Plan:
            check_number("edit", number)
            row = connection.execute(edits.select().where(edits.c.number == number)).first()
            if row is None:
                raise InputError(f"there is no edit number {number} in the log")
            return plan_undo(connection, catalogue, row.batch, only=number)

        return self._perform("undo", person, edit_id, ["edit", number], planning)

    # ---- suggestions ------------------------------------------------------------------------------------------------

    def accept(
        self,
        numbers: Sequence[int],
        *,
        person: str,
        edit_id: str,
        seen: Mapping[int, int] | None = None,
        named: Sequence[Decision] = (),
    ) -> EditResult:
        """Accept suggestions as one action.

        Args:
            numbers: the suggestions, at most one for each cell.
            person: the name of the person who accepts.
            edit_id: see the class.
            seen: by suggestion, the version of the cell that the person saw; by default the current one.
            named: labels suggested from the names of classes; labels that their kinds lack are added.
        """

        def planning(connection: Connection, catalogue: Catalogue, name: str) -> Plan:
            stored = accepted(connection, catalogue, numbers, seen) if numbers or not named else []
            decisions = [*stored, *named]
            plan = plan_named(connection, catalogue, decisions, name)
            plan.text = f"accepted {len(decisions)} suggestion{'s' if len(decisions) != 1 else ''}{added_labels(plan)}"
            return plan

        request: list[Any] = [list(numbers), {str(number): version for number, version in (seen or {}).items()}]
        request += [[decision.to_dict() for decision in named]] if named else []
        return self._perform("accept", person, edit_id, request, planning)

    def put_suggestions(self, source: str, proposals: Iterable[Proposal]) -> int:
        """Replace the suggestions of one source; returns their number. This is not an edit."""
        listed = list(proposals)
        return self._do(lambda c: keep_suggestions(c, self._known_catalogue(c), source, listed), no_timeout=True)

    def put_beliefs(self, beliefs: Mapping[str, Mapping[str, Mapping[str, float]]]) -> None:
        """Replace the beliefs of a model: by kind, class and label, a mean probability. This is not an edit."""
        self._do(lambda c: keep_beliefs(c, self._known_catalogue(c), beliefs), no_timeout=True)

    # ---- in and out -------------------------------------------------------------------------------------------------

    def import_graph(self, graph: LabelGraph, *, person: str, edit_id: str, digest: str | None = None) -> EditResult:
        """Make the store hold this graph: fill it, or edit what differs. Only the first import cannot be undone.

        Args:
            graph: the graph.
            person: the name of the person who imports.
            edit_id: see the class.
            digest: the digest of the preview that the person confirmed.

        Raises:
            ConflictError: it would now do something else than the preview.
        """
        return self._import(self._content(graph), graph.digest, person, edit_id, digest)

    def _content(self, graph: LabelGraph) -> Content:
        """A graph in the columns of the store."""
        # A kind that people know as a single column stays one, even if it could now be a group; groups stay groups.
        single, groups = ({kind.name for kind in self.kinds() if kind.mode == mode} for mode in ("one", "all"))
        return Content(graph.fine, store_columns(graph, single, groups))

    def import_content(self, content: Content, *, person: str, edit_id: str, digest: str | None = None) -> EditResult:
        """Import a Label Studio file: graph, votes, notes and photo labels; see `import_graph`."""
        settled = {name: sorted(kinds) for name, kinds in content.settled.items()}
        photos = [vars(photo) for photo in content.photos]
        request = [content.graph.digest, content.votes, settled, content.notes, photos]
        return self._import(content, request, person, edit_id, digest)

    def preview_import(self, found: LabelGraph | Content) -> ImportPreview:
        """The preview of `import_graph` or `import_content`; nothing is written."""
        content = found if isinstance(found, Content) else self._content(found)

        def question(connection: Connection, catalogue: Catalogue) -> ImportPreview:
            plan, kinds = _plan_content(connection, catalogue, content, "")
            return preview_import(connection, catalogue, content, plan, kinds)

        return self._ask(question)

    def _import(self, content: Content, request: Any, person: str, edit_id: str, digest: str | None) -> EditResult:
        """Import a graph with votes, notes and photo labels; `request` identifies a repeated call."""
        seen = digest

        def fill(connection: Connection) -> EditResult | None:
            name = check_person(person)
            digest = request_digest("import", name, request)
            catalogue = self._known_catalogue(connection)
            if (batch := find_batch(connection, edit_id, digest)) is not None:
                return result_of(connection, catalogue, batch.number, repeated=True)
            if not is_empty(connection):
                return None
            number = first_import(
                connection, content.fine, content.columns, person=name, edit_id=edit_id, digest=digest
            )
            catalogue = self._known_catalogue(connection)
            plan, numbers = Plan(""), {fine: place + 1 for place, fine in enumerate(content.fine)}
            add_content(connection, plan, content, numbers, catalogue.by_name, name)
            write_first(connection, catalogue, plan)
            return result_of(connection, catalogue, number)

        def planning(connection: Connection, catalogue: Catalogue, name: str) -> Plan:
            plan, kinds = _plan_content(connection, catalogue, content, name)
            _check_preview(seen, plan.digest, lambda: preview_import(connection, catalogue, content, plan, kinds))
            plan.text = plan_text(plan)
            return plan

        return self._do(fill, no_timeout=True) or self._perform(
            "import", person, edit_id, request, planning, no_timeout=True
        )

    def preview_photos(self, labels: Sequence[PhotoLabel]) -> ImportPreview:
        """The preview of `import_photos`; nothing is written."""
        return self._ask(
            lambda connection, catalogue: preview_photos(catalogue, _plan_photos(connection, catalogue, labels, ""))
        )

    def import_photos(
        self, labels: Sequence[PhotoLabel], *, person: str, edit_id: str, digest: str | None = None
    ) -> EditResult:
        """Import photo labels; photos that are not named keep theirs. For `digest` see `import_graph`."""

        def planning(connection: Connection, catalogue: Catalogue, name: str) -> Plan:
            plan = _plan_photos(connection, catalogue, labels, name)
            _check_preview(digest, plan.digest, lambda: preview_photos(catalogue, plan))
            return plan

        request = [vars(label) for label in labels]
        return self._perform("import_photos", person, edit_id, request, planning, no_timeout=True)

    def preview_comparisons(self, found: Sequence[Comparison]) -> ImportPreview:
        """The preview of `import_comparisons`; nothing is written."""
        return self._ask(
            lambda connection, catalogue: preview_comparisons(
                connection, catalogue, plan_comparisons(connection, catalogue, found, "")
            )
        )

    def import_comparisons(
        self, found: Sequence[Comparison], *, person: str, edit_id: str, digest: str | None = None
    ) -> EditResult:
        """Import comparisons; those without a person belong to the importer. For `digest` see `import_graph`."""

        def planning(connection: Connection, catalogue: Catalogue, name: str) -> Plan:
            plan = plan_comparisons(connection, catalogue, found, name if digest is None else "")
            _check_preview(digest, plan.digest, lambda: preview_comparisons(connection, catalogue, plan))
            return plan if digest is None else plan_comparisons(connection, catalogue, found, name)

        request = [vars(comparison) for comparison in found]
        return self._perform("import_comparisons", person, edit_id, request, planning, no_timeout=True)

    def backup(self, path: str | os.PathLike[str]) -> Path:
        """Write a copy of the whole store, also during edits; the copy is one state, and complete or absent.

        Raises:
            DamagedStoreError: the store is not as it was written; then there is no copy.
            LabelStoreError: the target exists, or the store is on a server, which has its own tools.
        """
        target = Path(path)
        if self._database.file is None:
            raise LabelStoreError(f"{self.place}: a server is backed up by its own tools, such as pg_dump")
        if target.exists():
            raise LabelStoreError(f"{target}: there is a file already; a backup replaces nothing, so name another")
        temporary = temporary_in(target.parent)
        try:
            _copy(self._database.file, temporary)
            self._check_copy(temporary)
            with open(temporary, "rb+") as handle:
                os.fsync(handle.fileno())
            place_new(temporary, target)
        except sqlite3.Error as error:
            failure = store_error(self.place, error)
            if not isinstance(
                failure, DamagedStoreError
            ):  # the damage is in the store; any other error is about the new file
                failure = store_error(str(target), error, needed=self._database.file.stat().st_size)
            raise failure from error
        except OSError as error:
            room = NoRoomError if error.errno == errno.ENOSPC else LabelStoreError
            raise room(f"{target}: the backup could not be written: {reason_of(error)}") from error
        finally:
            temporary.unlink(missing_ok=True)
        return target

    def _check_copy(self, copy: Path) -> None:
        """Check the seals of a copy; unlike the store, which may change meanwhile, the copy is one state."""
        database = Database(copy, write=False)
        try:
            with database.reading() as connection:
                self._check(connection, "all")
        finally:
            database.close()


def _check_preview(seen: str | None, digest: str, preview: Callable[[], Preview | ImportPreview]) -> None:
    """Raise if the plan differs from the preview that the person confirmed."""
    if seen is not None and seen != digest:
        conflict = Conflict(what="preview", yours=seen, theirs=preview().to_dict())
        raise ConflictError("something was edited since the preview; look at the new one", [conflict])


def _plan_photos(connection: Connection, catalogue: Catalogue, labels: Sequence[PhotoLabel], person: str) -> Plan:
    """The plan of importing photo labels."""
    plan = Plan(f"imported {len(labels)} label{'s' if len(labels) != 1 else ''} of photos")
    numbers = fine_ids(connection, {label.fine for label in labels if label.fine is not None})
    add_photo_labels(connection, plan, labels, numbers, catalogue.by_name, person)
    return plan


def _numbers_field(numbers: Numbers | None) -> list[Any]:
    """The numbers in a request; nothing if there are none, so that digests of earlier requests stay valid."""
    return [] if numbers is None else [numbers.to_dict()]


def _plan_content(
    connection: Connection, catalogue: Catalogue, content: Content, person: str
) -> tuple[Plan, dict[str, KindEntry]]:
    """The plan of importing a file, and the kinds after it."""
    plan, numbers, kinds = plan_import(connection, catalogue, content.fine, content.columns, person)
    add_content(connection, plan, content, numbers, kinds, person)
    return plan, kinds


def _copy(file: Path, target: Path) -> None:
    """Copy a SQLite file during writes, and check that the copy is a store."""
    # `as_uri` escapes `#`, `?` and `%` in the file name.
    with (
        contextlib.closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as source,
        contextlib.closing(sqlite3.connect(target)) as copy,
    ):
        # In one step: SQLite would start again whenever somebody edits between two steps.
        source.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")
        if copy.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone() is None:
            raise sqlite3.DatabaseError("the copy holds no store")
