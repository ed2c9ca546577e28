"""The one writer: a thread with its own connection that does all writing.

Waiting jobs are carried out together with one commit (group commit); each has a savepoint, so that one that fails does
not affect the others. A caller gets its answer only after the commit. The thread also moves the WAL of SQLite into the
file, after the answers. Cost per edit: a few statements and a share of one fsync.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, NestedTransaction, Transaction

from finegraph.errors import LabelStoreError
from finegraph.labelling.store.database import WAIT, Database, translated

Answer = TypeVar("Answer")
Job = Callable[[Connection], Any]
_MAX_JOBS = 64
_MAX_WAL_BYTES = 2**22
"""The size of the WAL from which it is moved into the file."""
_MIN_TRANSACTIONS = 256
"""The smallest number of transactions between two such moves."""
_LOG = logging.getLogger("finegraph.labelling")
_IDLE_SECONDS = 1.0
"""The seconds without work after which the WAL is moved into the file."""


class Writer:
    """Carries out jobs one after the other.

    Args:
        database: where to write.
        timeout: seconds after which a caller gets an error; the job may still be carried out.
    """

    def __init__(self, database: Database, timeout: float = 30.0) -> None:
        self._database, self._timeout = database, timeout
        self._jobs: queue.SimpleQueue[tuple[Job, Future[Any]] | None] = queue.SimpleQueue()
        self._closed = self._checkpoint_failed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="label-store-writer", daemon=True)
        self._thread.start()

    def do(self, job: Callable[[Connection], Answer], *, no_timeout: bool = False) -> Answer:
        """Carry out a job in a transaction and wait until what it did is on the disk.

        Args:
            job: what to do.
            no_timeout: whether to wait however long it takes, as for an import.

        Raises:
            LabelStoreError: there was no answer in time, or the database failed.
        """
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise LabelStoreError(f"{self._database.shown}: the store is closed")
            self._jobs.put((job, future))
        try:
            answer: Answer = future.result(None if no_timeout else self._timeout)
        except NotInTime:
            if future.cancel():
                raise LabelStoreError(
                    f"{self._database.shown}: the edit was not begun within {self._timeout:g} seconds; try again"
                ) from None
            raise LabelStoreError(
                f"{self._database.shown}: no answer within {self._timeout:g} seconds; the edit may have been made: "
                "repeat it with the same edit id, which makes it once at most"
            ) from None
        return answer

    def close(self) -> None:
        """Finish what waits, and end."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._jobs.put(None)
        self._thread.join()

    # ---- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        idle = False
        transactions = 0  # transactions since the last checkpoint; the file of the WAL keeps its size after one
        while True:
            try:
                first = self._jobs.get(timeout=None if idle else _IDLE_SECONDS)
            except queue.Empty:
                self._checkpoint(min_bytes=1)
                idle = self._database.wal_size() == 0  # a reader may have blocked it; then try again
                continue
            idle = False
            waiting, last = self._take_waiting(first)
            if waiting:
                self._carry_out(waiting)
                transactions += 1
                if transactions >= _MIN_TRANSACTIONS:
                    self._checkpoint(min_bytes=_MAX_WAL_BYTES)
                    transactions = 0
            if last:
                self._checkpoint(min_bytes=1)
                return

    def _take_waiting(self, first: tuple[Job, Future[Any]] | None) -> tuple[list[tuple[Job, Future[Any]]], bool]:
        """The waiting jobs, and whether they are the last."""
        jobs: list[tuple[Job, Future[Any]]] = []
        item = first
        while item is not None:
            if item[1].set_running_or_notify_cancel():
                jobs.append(item)
            if len(jobs) >= _MAX_JOBS:
                return jobs, False
            try:
                item = self._jobs.get_nowait()
            except queue.Empty:
                return jobs, False
        return jobs, True

    def _carry_out(self, waiting: list[tuple[Job, Future[Any]]]) -> None:
        """Carry out jobs in one transaction, and answer them when it is on the disk."""
        assert self._database.writers is not None, "a store that is only read has no writer"
        answers: list[tuple[Future[Any], Any, BaseException | None]] = []
        try:
            with (
                translated(self._database.shown),
                self._database.writers.connect() as connection,
                connection.begin() as transaction,
            ):
                for job, future in waiting:
                    # A single job needs no savepoint: if it fails, the transaction is rolled back.
                    step = transaction if len(waiting) == 1 else connection.begin_nested()
                    answers.append((future, *_attempt(connection, step, job, self._database.shown)))
        except BaseException as error:
            for _, future in waiting:
                future.set_exception(error)
            return
        for future, answer, failure in answers:
            if failure is None:
                future.set_result(answer)
            else:
                future.set_exception(failure)

    def _checkpoint(self, min_bytes: int) -> None:
        """Move the WAL into the file, as far as readers allow, without waiting.

        If it fails, for example because the disk is full, nothing is lost: acknowledged edits stay in the WAL, and the
        next checkpoint tries again.
        """
        if not self._database.sqlite or self._database.wal_size() < min_bytes or self._database.writers is None:
            return
        try:
            with contextlib.closing(self._database.writers.raw_connection()) as raw:
                cursor = raw.cursor()
                cursor.execute("PRAGMA busy_timeout=0")
                try:
                    cursor.execute(f"PRAGMA wal_checkpoint({'TRUNCATE' if min_bytes == 1 else 'PASSIVE'})")
                    cursor.fetchall()
                finally:
                    cursor.execute(f"PRAGMA busy_timeout={int(1000 * WAIT)}")
            self._checkpoint_failed = False
        except (sa.exc.DBAPIError, sqlite3.Error) as error:  # the raw connection raises its own errors
            if not self._checkpoint_failed:  # it is tried every second; log it once
                _LOG.warning("%s: the WAL could not be moved into the file: %s", self._database.shown, error)
            self._checkpoint_failed = True


def _attempt(connection: Connection, step: Transaction, job: Job, shown: str) -> tuple[Any, BaseException | None]:
    """The answer of a job, or the error that rolled it back."""
    try:
        with translated(shown):
            answer = job(connection)
        if isinstance(step, NestedTransaction):
            step.commit()
        return answer, None
    except Exception as error:
        step.rollback()
        return None, error
