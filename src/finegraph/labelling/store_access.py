"""Opening a store, and its two kinds of access: questions, and actions by the one writer.

Questions run concurrently, each on one state of the database. Actions go through the writer; each has an id from its
caller, so that a repeated action is carried out once. Opening a store of an older version migrates it.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, Self, TypeVar

from sqlalchemy.engine import Connection

from finegraph.errors import FinegraphError, LabelStoreError, near_paths
from finegraph.files.closing import Closing
from finegraph.labelling.questions.history import result_of, result_of_record
from finegraph.labelling.store import schema
from finegraph.labelling.store.catalogue import Catalogue, read_catalogue
from finegraph.labelling.store.damage import DECIDED_NAMES, DERIVED_NAMES, LOG_NAMES, VIEW_NAMES, find_damage
from finegraph.labelling.store.damage_report import damaged
from finegraph.labelling.store.database import Database
from finegraph.labelling.store.log import carry_out, check_person, find_batch, request_digest
from finegraph.labelling.store.plan import Plan
from finegraph.labelling.store.records import EditResult
from finegraph.labelling.store.sql_tables import SCHEMA_VERSION
from finegraph.labelling.store.store_writer import Writer
from finegraph.labelling.suggestions.suggesting import make_anew

Answer = TypeVar("Answer")
Planning = Callable[[Connection, Catalogue, str], Plan]
Checked = Literal["all", "labels", "history"]
_TABLES: Mapping[Checked, frozenset[str]] = {
    "all": DECIDED_NAMES,
    "labels": VIEW_NAMES,
    "history": LOG_NAMES | {"meta", "kinds", "labels", "fine"},
}


class StoreAccess(Closing):
    """An open store; see `LabelStore`, which has the questions and the actions."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writer = Writer(database) if database.writers is not None else None
        self._catalogue: Catalogue | None = None
        self._lock = threading.Lock()
        self._local = threading.local()

    @classmethod
    def create(cls, place: str | os.PathLike[str]) -> Self:
        """Make a new store; import a graph into it next.

        Raises:
            LabelStoreError: it exists already, or cannot be created there.
        """
        return cls._opened(place, write=True, new=True)

    @classmethod
    def open(cls, place: str | os.PathLike[str], *, write: bool = True) -> Self:
        """Open a store.

        Args:
            place: the path of a SQLite file, or a database URL.
            write: whether to allow edits; without, others may edit at the same time.

        Raises:
            LabelStoreError: it does not exist, is of a later version, or another process writes to it.
        """
        return cls._opened(place, write=write, new=False)

    @classmethod
    def _opened(cls, place: str | os.PathLike[str], *, write: bool, new: bool) -> Self:
        database = Database(place, write=False)
        exists = database.file is None or database.file.exists()
        database.close()
        if not exists and not new:
            near = near_paths(database.file) if database.file is not None else ""
            raise LabelStoreError(
                f"{database.shown}: there is no such store{near or '; make one by importing a graph'}"
            )
        if not exists and database.file is not None and not database.file.parent.is_dir():
            raise LabelStoreError(f"{database.shown}: the folder {database.file.parent} is not there; make it first")
        version = _version(database) if exists else None
        if version is None and not new:
            raise LabelStoreError(f"{database.shown}: no label store there yet; make one by importing a graph")
        if version is not None and new:
            raise LabelStoreError(f"{database.shown}: there is a store already; open it, or name another place")
        if version is not None:
            schema.refuse_later(version, database.shown)
            if version < SCHEMA_VERSION and not write:
                cls._opened(place, write=True, new=False).close()
        store = cls(Database(place, write=write))
        try:
            if new:
                store._do(schema.create, no_timeout=True)
            elif version is not None and version < SCHEMA_VERSION and write:
                store._do(schema.migrate, no_timeout=True)
        except BaseException:
            store.close()
            raise
        return store

    @property
    def place(self) -> str:
        """The place of the store, for messages."""
        return self._database.shown

    def close(self) -> None:
        """Finish waiting edits and close the store."""
        if self._writer is not None:
            self._writer.close()
        self._database.close()

    # ---- access -----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def one_state(self) -> Iterator[None]:
        """Answer all questions of this thread in the block from one state of the store.

        Edits made during the block, also by this thread, are seen after it. Answers that all callers share
        (`changes`, `progress`) may describe a later state.
        """
        if getattr(self._local, "state", None) is not None:
            yield
            return
        with self._explained(), self._database.reading() as connection:
            self._local.state = connection, self._known_catalogue(connection)
            try:
                yield
            finally:
                self._local.state = None

    def _ask(self, question: Callable[[Connection, Catalogue], Answer]) -> Answer:
        """The answer to a question, on one state of the store."""
        with self._explained():
            if (state := getattr(self._local, "state", None)) is not None:
                return question(*state)
            with self._database.reading() as connection:
                return question(connection, self._known_catalogue(connection))

    def _known_catalogue(self, connection: Connection) -> Catalogue:
        with self._lock:
            known = self._catalogue
        catalogue = read_catalogue(connection, known)
        if catalogue is not known:
            with self._lock:
                self._catalogue = catalogue
        return catalogue

    def _do(self, job: Callable[[Connection], Answer], *, no_timeout: bool = False) -> Answer:
        """Carry out a job by the writer."""
        if self._writer is None:
            raise LabelStoreError(f"{self.place}: the store was opened to be read only")
        with self._explained():
            return self._writer.do(job, no_timeout=no_timeout)

    # ---- damage -----------------------------------------------------------------------------------------------------

    def check(self, of: Checked = "all") -> None:
        """Check all rows against their seals; linear in the rows.

        Args:
            of: `all` decisions, the current `labels`, or the `history`.

        Raises:
            DamagedStoreError: names what is damaged, what is whole, and what to do.
        """
        if (state := getattr(self._local, "state", None)) is not None:
            self._check(state[0], of)
            return
        with self._database.reading() as connection:
            self._check(connection, of)

    def _check(self, connection: Connection, of: Checked) -> None:
        if find_damage(connection, _TABLES[of]).damage:
            raise damaged(connection, self.place, find_damage(connection, DECIDED_NAMES))

    def make_anew(self) -> bool:
        """Drop damaged suggestions and beliefs, which can be rebuilt; returns whether any were damaged."""
        with self._database.reading() as connection:
            damage = find_damage(connection, DERIVED_NAMES).damage
        if damage:
            self._do(make_anew, no_timeout=True)
        return bool(damage)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Report errors that come from damage as damage; raise all others unchanged."""
        try:
            yield
        except FinegraphError:
            raise
        except Exception:
            with self._database.reading() as connection:
                if (check := find_damage(connection)).damage:
                    raise damaged(connection, self.place, check) from None
            raise

    def _perform(
        self,
        action: str,
        person: str,
        edit_id: str,
        request: Any,
        planning: Planning,
        *,
        no_timeout: bool = False,
    ) -> EditResult:
        """Carry out an action once: plan it, log it, and answer when it is on the disk.

        Args:
            action: its name in the log.
            person: the name of the person who acts.
            edit_id: the id of the call, by which a repeated call is recognised.
            request: the request as JSON values; a repeated call must be equal.
            planning: makes the plan, in the transaction of the writer.
            no_timeout: whether to wait without a timeout.
        """
        name = check_person(person)
        digest = request_digest(action, name, request)

        def job(connection: Connection) -> EditResult:
            catalogue = self._known_catalogue(connection)
            if (batch := find_batch(connection, edit_id, digest)) is not None:
                return result_of(connection, catalogue, batch.number, repeated=True)
            plan = planning(connection, catalogue, name)
            record = carry_out(connection, catalogue, plan, person=name, edit_id=edit_id, digest=digest, action=action)
            return result_of_record(connection, plan, record)

        return self._do(job, no_timeout=no_timeout)


def _version(database: Database) -> int | None:
    """The version of the store in a database; None if there is none."""
    probe = Database(database.url.render_as_string(hide_password=False), write=False)
    try:
        with probe.reading() as connection:
            return schema.version_of(connection, database.shown)
    finally:
        probe.close()
