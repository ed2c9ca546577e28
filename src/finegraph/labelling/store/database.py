"""The database under a store: a SQLite file, or a PostgreSQL server, through the same code.

SQLite runs in WAL mode with synchronous=FULL: an edit is acknowledged when it is on the disk. Only the writing
connection moves the WAL into the file (checkpoints); readers may not write and do not checkpoint. One process writes a
file at a time, enforced by a lock file beside it. On PostgreSQL, the writing transactions of several processes are
serialised by an advisory lock, so that edits have one order there too.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url

from finegraph.errors import DamagedStoreError, InputError, LabelStoreError, MissingExtraError, NoRoomError
from finegraph.files.durable import free_bytes
from finegraph.files.system_lock import has_locks, take_lock

WAIT = 30.0
"""Seconds that a connection waits for another process."""
_SECRET_PARAMETERS = frozenset({"password", "sslpassword"})
"""Parameters of a PostgreSQL URL that are secret."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BROKEN_TEXT = "a text that is not UTF-8"
_DAMAGED_SCHEMA = ("no such column", "no such table", "Could not decode to UTF-8", _BROKEN_TEXT)
"""SQLite's errors for a damaged schema, since no query names a table or column that a store lacks."""
_PG_DAMAGED = ("XX001", "XX002")
_PG_DISK_FULL = "53100"
_CHECKPOINT_BYTES = 2**23
"""The bytes that a checkpoint may need: the WAL is moved from 4 MB on, and the file grows by as much."""
_MIN_FREE_BYTES = 2**16
"""The bytes that SQLite needs for its files beside the store."""
_ADVISORY_LOCK = 0x66696E65
"""The advisory lock by which writers take turns on PostgreSQL."""


class Database:
    """Connections to one database.

    Args:
        place: the path of a SQLite file, or a database URL.
        write: whether there will be a writer.
    """

    def __init__(self, place: str | os.PathLike[str], write: bool = True) -> None:
        self.url = url_of(place)
        self.sqlite = self.url.get_backend_name() == "sqlite"
        self.file = Path(self.url.database or "") if self.sqlite else None
        self._lock = _WriterLock(self.file) if write and self.file else None
        try:
            self.readers = self._engine(reads=True)
            self.writers = self._engine(reads=False) if write else None
        except BaseException:
            self._release()
            raise

    def _engine(self, *, reads: bool) -> Engine:
        # More connections than a web server has threads: a thread may hold one while it waits for another thread.
        options: dict[str, Any] = {"pool_size": 8, "max_overflow": 40} if reads else {"pool_size": 1, "max_overflow": 0}
        if self.sqlite:
            options["connect_args"] = {"timeout": WAIT, "check_same_thread": False}
        else:
            options["pool_pre_ping"] = True  # the server may have been restarted since the last query
            if reads:
                options["isolation_level"] = "REPEATABLE READ"
        try:
            engine = sa.create_engine(self.url, poolclass=sa.QueuePool, **options)
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"the database {self.shown} needs {error.name}, which is not installed; install it with "
                '`pip install "finegraph[postgres]"`'
            ) from None
        if self.sqlite:
            sa.event.listen(engine, "connect", _prepare_reader if reads else _prepare_writer)
            sa.event.listen(engine, "begin", _begin_reading if reads else _begin_writing)
        elif not reads:
            sa.event.listen(engine, "begin", _take_advisory_lock)
        return engine

    @property
    def shown(self) -> str:
        """The name of the database in messages, without a password."""
        return shown_place(self.url)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection that sees one state of the database until the block ends."""
        with translated(self.shown), self.readers.connect() as connection, connection.begin():
            yield connection

    def wal_size(self) -> int:
        """How many bytes wait to be moved into the file."""
        with contextlib.suppress(OSError):
            return os.stat(f"{self.file}-wal").st_size
        return 0

    def close(self) -> None:
        """Close all connections, the writing one last, and let other processes write."""
        self.readers.dispose()
        if self.writers is not None:
            self.writers.dispose()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()


def url_of(place: str | os.PathLike[str]) -> URL:
    """The URL of a place: text with `://` is one already, anything else is the path of a SQLite file."""
    text = os.fspath(place)
    if "://" not in text:
        return URL.create("sqlite", database=os.path.abspath(text))
    try:
        url = make_url(text)
    except (sa.exc.ArgumentError, ValueError):  # the text is not repeated: it may hold a password
        raise LabelStoreError(
            f"this is not a database URL (it begins with {text.partition('://')[0]!r}); "
            "expected a file, or such as postgresql+psycopg://user@host/name"
        ) from None
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise LabelStoreError(f"a store lives in SQLite or PostgreSQL, got {url.get_backend_name()!r}")
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() == "sqlite":
        if not url.database or url.database == ":memory:":
            raise LabelStoreError("a store needs a file; a database in memory would be lost")
        url = url.set(database=os.path.abspath(url.database))
    return url


def shown_place(url: URL) -> str:
    """The name of a database in messages, without a password."""
    return str(url.database) if url.get_backend_name() == "sqlite" else without_password(url)


def without_password(place: str | URL) -> str:
    """A URL without its password, which may be shown and saved; PostgreSQL has its own ways to find the password."""
    url = url_of(place) if isinstance(place, str) else place
    query = {name: value for name, value in url.query.items() if name not in _SECRET_PARAMETERS}
    shown = URL.create(url.drivername, url.username, None, url.host, url.port, url.database, query)
    return shown.render_as_string(hide_password=False)


@contextlib.contextmanager
def translated(shown: str) -> Iterator[None]:
    """Turn errors of the database into errors of the store."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise InputError(
            f"a text with {error.object[error.start]!r}, which is not a character; expected UTF-8"
        ) from error
    except sa.exc.DataError as error:  # such as a number that is too large for PostgreSQL, or NUL in a text
        raise InputError(f"a value that the database cannot hold: {driver_reason(error)}") from error
    except UnicodeDecodeError as error:  # SQLite's own error message holds broken text
        raise store_error(shown, sqlite3.DatabaseError(f"{_BROKEN_TEXT} in its tables")) from error
    except sa.exc.DBAPIError as error:
        raise store_error(shown, error.orig or error) from error
    except sa.exc.TimeoutError as error:
        raise LabelStoreError(f"{shown}: too many questions at once; ask again") from error


def store_error(shown: str, error: BaseException, needed: int = _CHECKPOINT_BYTES) -> LabelStoreError:
    """The error of the store for an error of the driver: a full disk, damage, a busy database, or something else.

    Args:
        shown: the name of the store in messages.
        error: the error of the driver.
        needed: the bytes that must be free to continue if the disk is full.
    """
    reason, state = driver_reason(error), str(getattr(error, "sqlstate", None) or "")
    code = getattr(error, "sqlite_errorcode", None) or 0
    if state == _PG_DISK_FULL or (code and _is_full(code, shown)):
        room = _full_disk_text(Path(shown).parent, needed) if not state else "the disk of the database server is full"
        return NoRoomError(f"{shown}: {room}; nothing was changed. Make room and try again")
    if (
        code & 0xFF in _DAMAGED
        or code == sqlite3.SQLITE_IOERR_SHORT_READ
        or state in _PG_DAMAGED
        or reason.startswith(_DAMAGED_SCHEMA)
    ):
        what = f"the store is damaged, or is none: {reason}"
        return DamagedStoreError(f"{shown}: {what}. Keep a copy of it and put a backup in its place", [reason])
    if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return LabelStoreError(f"{shown}: another process keeps the store busy ({reason}); try again")
    advice = "check that it is there and may be written"
    if "password" in reason:
        advice = "give the password in the URL, in the variable PGPASSWORD, or in the file ~/.pgpass"
    return LabelStoreError(f"{shown}: the database refused: {reason}; {advice}")


def _is_full(code: int, shown: str) -> bool:
    """Whether an error of SQLite comes from a full disk, for which its helper files have another error code."""
    if code & 0xFF == sqlite3.SQLITE_IOERR:
        left = free_bytes(Path(shown).parent)
        return left is not None and left < _MIN_FREE_BYTES
    return code & 0xFF == sqlite3.SQLITE_FULL


def _full_disk_text(folder: Path, needed: int) -> str:
    """The message about a full disk: how much is left and how much is needed."""
    left = free_bytes(folder)
    there = "" if left is None else f", {left:,} bytes are left"
    return f"the disk is full{there}; up to {needed:,} are needed to continue"


def driver_reason(error: BaseException) -> str:
    """What an error of the driver says, in one line."""
    inner = error.orig if isinstance(error, sa.exc.DBAPIError) and error.orig else error
    return (str(inner).strip() or type(inner).__name__).splitlines()[0]


def _pragmas(connection: Any, *pragmas: str) -> None:
    cursor = connection.cursor()
    for pragma in pragmas:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _prepare_writer(connection: Any, _: object) -> None:
    connection.isolation_level = None  # transactions begin explicitly
    # No automatic checkpoints: the writer moves the WAL after it has answered, so that no caller waits for it.
    _pragmas(connection, "journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=0", "cache_size=-65536")


def _prepare_reader(connection: Any, _: object) -> None:
    connection.isolation_level = None
    _pragmas(connection, "query_only=ON", "wal_autocheckpoint=0", "cache_size=-16384")


def _begin_writing(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin_reading(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _take_advisory_lock(connection: Connection) -> None:
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")


class _WriterLock:
    """The exclusive right to write a SQLite file, until `release` or the end of the process."""

    def __init__(self, file: Path) -> None:
        self._handle: int | None = None
        if not has_locks():  # SQLite's own locks make two writers wait for each other
            return
        path = f"{file}.lock"
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise LabelStoreError(f"{file}: cannot be opened to write: {error.strerror}; check the folder") from error
        try:
            locked = take_lock(self._handle, "handle")
        except OSError:
            locked = False
        if not locked:
            self.release()
            raise LabelStoreError(
                f"{file}: another process is writing to this store; work in its page, or stop it first"
            )

    def release(self) -> None:
        """Let others write. The empty lock file stays: deleting it could leave a process with a lock on nothing."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
