"""What may go wrong around a store: kill -9, old and later versions, two writers, other files, backups."""

import itertools
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from finegraph import LabelGraph
from finegraph.errors import LabelStoreError
from finegraph.labelling import AddLabel, LabelStore
from finegraph.labelling.store import schema
from finegraph.labelling.store.sealed_rows import add_rows, seal_of
from finegraph.labelling.store.sql_tables import SCHEMA_VERSION, meta
from finegraph.labelling.store.store_writer import Writer

DRILL = Path(__file__).with_name("store_drill.py")


def kill_after(process, count):
    """Read so many acknowledgements, then kill the process; all that it acknowledged."""
    acknowledged = [int(process.stdout.readline()) for _ in range(count)]
    os.kill(process.pid, signal.SIGKILL)
    acknowledged += [int(line) for line in process.stdout.read().splitlines() if line.strip()]
    process.wait()
    process.stdout.close()
    return acknowledged


def kills(place, times, counts):
    """Kill a process that edits, several times; check that nothing acknowledged is lost and nothing is there twice."""
    first = 0
    for count in counts(times):
        process = subprocess.Popen([sys.executable, DRILL, place, str(first)], stdout=subprocess.PIPE, text=True)
        acknowledged = kill_after(process, count)
        with LabelStore.open(place) as store:
            made = {edit.text for edit in store.history(person="ann", limit=10_000)}
            assert made
            ids = edit_ids(store)
            assert [number for number in acknowledged if f"drill {number}" not in ids] == []
            assert len(ids) == len(set(ids))
            store.graph()
        first = acknowledged[-1] + 1 if f"drill {acknowledged[-1] + 1}" not in ids else acknowledged[-1] + 2
    return first


def edit_ids(store):
    with store._database.reading() as connection:
        return list(connection.scalars(sa.text("SELECT edit_id FROM batches")))


def test_kill_9_loses_no_acknowledged_edit(file_place, menu):
    with LabelStore.create(file_place) as store:
        store.import_graph(menu, person="import", edit_id="first")
    assert kills(file_place, 2, lambda times: [3, 11][:times]) > 10


@pytest.mark.slow
def test_many_kills(file_place, menu):
    with LabelStore.create(file_place) as store:
        store.import_graph(menu, person="import", edit_id="first")
    assert kills(file_place, 20, lambda times: [1 + 7 * number % 30 for number in range(times)]) > 100


def test_an_edit_that_was_made_but_not_acknowledged_is_not_made_again(file_place, menu):
    """The answer is lost, as in a crash between the commit and the answer; the caller repeats the edit."""
    with LabelStore.create(file_place) as store:
        store.import_graph(menu, person="import", edit_id="first")
        store.decide("kung pao @ B", "dish", None, person="ann", edit_id="lost", seen=0)
    with LabelStore.open(file_place) as store:
        again = store.decide("kung pao @ B", "dish", None, person="ann", edit_id="lost", seen=0)
        assert again.repeated
        assert len(store.history(person="ann")) == 1


def test_one_process_writes_and_others_read(file_place, menu):
    with LabelStore.create(file_place) as store:
        store.import_graph(menu, person="import", edit_id="first")
        with pytest.raises(LabelStoreError, match="another process is writing to this store"):
            LabelStore.open(file_place)
        with LabelStore.open(file_place, write=False) as reader:
            assert reader.graph() == menu
            with pytest.raises(LabelStoreError, match="opened to be read only"):
                reader.decide("kung pao @ B", "dish", None, person="ann", edit_id="x", seen=0)
            store.decide("kung pao @ B", "dish", None, person="ann", edit_id="x", seen=0)
            assert reader.cell("kung pao @ B", "dish").value is None
    LabelStore.open(file_place).close()


def test_two_processes_write_to_one_server_in_turn(postgres, menu):
    place = postgres.new_database()
    with LabelStore.create(place) as one, LabelStore.open(place) as two:
        one.import_graph(menu, person="import", edit_id="first")
        failures = []

        def edit(store, name):
            try:
                for number in range(20):
                    fine = menu.fine[number % 4]
                    store.decide(fine, "dish", "kung pao", person=name, edit_id=f"{name} {number}", seen=None)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=edit, args=pair) for pair in ((one, "ann"), (two, "bob"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        numbers = [edit.number for edit in one.history(limit=100)]
        assert numbers == list(range(41, 0, -1))
        one.apply(AddLabel(kind="dish", name="ramen"), person="ann", edit_id="a")
        two.decide(
            "kung pao @ A", "dish", "ramen", person="bob", edit_id="b", seen=two.cell("kung pao @ A", "dish").version
        )


def test_sqlite_is_set_up_as_promised(file_store):
    with file_store._database.writers.connect() as connection:
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")
        }
        assert found == {"journal_mode": "wal", "synchronous": 2}
        assert connection.exec_driver_sql("PRAGMA wal_autocheckpoint").scalar() == 0
    with file_store._database.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA query_only").scalar() == 1
        assert connection.exec_driver_sql("PRAGMA wal_autocheckpoint").scalar() == 0


def test_the_wal_is_moved_into_the_file_when_nothing_happens(file_store):
    file_store.decide("kung pao @ B", "dish", None, person="ann", edit_id="x", seen=0)
    assert file_store._database.wal_size() > 0
    for _ in range(100):
        if file_store._database.wal_size() == 0:
            break
        time.sleep(0.1)
    assert file_store._database.wal_size() == 0


OLD = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE batches (number INTEGER PRIMARY KEY, edit_id TEXT NOT NULL UNIQUE, digest TEXT NOT NULL,
  person TEXT NOT NULL, at TEXT NOT NULL, action TEXT NOT NULL, text TEXT NOT NULL, size INTEGER NOT NULL,
  last INTEGER NOT NULL, undoes INTEGER);
CREATE TABLE edits (number INTEGER PRIMARY KEY, batch INTEGER NOT NULL, target TEXT NOT NULL, fine_id INTEGER,
  kind_id INTEGER, label_id INTEGER, before TEXT, after TEXT, undoes INTEGER);
CREATE TABLE undone (edit INTEGER PRIMARY KEY, batch INTEGER NOT NULL);
CREATE TABLE kinds (id INTEGER PRIMARY KEY, name TEXT NOT NULL, position INTEGER NOT NULL, mode TEXT NOT NULL,
  prior TEXT NOT NULL, removed INTEGER NOT NULL, version INTEGER NOT NULL);
CREATE TABLE labels (id INTEGER PRIMARY KEY, kind_id INTEGER NOT NULL, name TEXT NOT NULL, position INTEGER NOT NULL,
  removed INTEGER NOT NULL, version INTEGER NOT NULL);
CREATE TABLE fine (id INTEGER PRIMARY KEY, name TEXT NOT NULL, form TEXT NOT NULL, folded TEXT NOT NULL,
  position INTEGER NOT NULL, removed INTEGER NOT NULL, known INTEGER NOT NULL, version INTEGER NOT NULL);
CREATE TABLE notes (fine_id INTEGER PRIMARY KEY, text TEXT NOT NULL, "by" TEXT, at TEXT, version INTEGER NOT NULL);
CREATE TABLE cells (kind_id INTEGER NOT NULL, fine_id INTEGER NOT NULL, value TEXT, "by" TEXT, at TEXT,
  resolved INTEGER NOT NULL, disagreement INTEGER NOT NULL, version INTEGER NOT NULL, PRIMARY KEY (kind_id, fine_id));
CREATE TABLE votes (kind_id INTEGER NOT NULL, fine_id INTEGER NOT NULL, person TEXT NOT NULL, value TEXT,
  at TEXT NOT NULL, PRIMARY KEY (kind_id, fine_id, person));
INSERT INTO meta VALUES ('schema', '1');
INSERT INTO meta VALUES ('structure', 'a');
INSERT INTO batches VALUES (1, 'first', 'd', 'ann', '2026-01-01T00:00:00.000Z', 'import', 'imported', 1, 1, NULL);
INSERT INTO edits VALUES (1, 1, 'graph', NULL, NULL, NULL, NULL, '{"fine":2,"kinds":1}', NULL);
INSERT INTO batches VALUES (2, 'two', 'd', 'bob', '2026-01-02T00:00:00.000Z', 'decide', 'decided', 1, 2, NULL);
INSERT INTO edits VALUES (2, 2, 'cell', 2, 1, NULL,
  '{"value":null,"by":null,"at":null,"resolved":0,"disagreement":0,"votes":{"bob":false}}',
  '{"value":"[2]","by":"bob","at":"2026-01-02T00:00:00.000Z","resolved":0,"disagreement":0,"votes":{"bob":"[2]"}}',
  NULL);
INSERT INTO kinds VALUES (1, 'dish', 0, 'one', 'frequency', 0, 0);
INSERT INTO labels VALUES (1, 1, 'ramen', 0, 0, 0);
INSERT INTO labels VALUES (2, 1, 'udon', 1, 0, 0);
INSERT INTO fine VALUES (1, 'ramen @ A', 'ramen @ A', 'ramen @ a', 0, 0, 1, 0);
INSERT INTO fine VALUES (2, 'udon @ A', 'udon @ A', 'udon @ a', 1, 0, 1, 0);
INSERT INTO cells VALUES (1, 1, '[1]', 'ann', '2026-01-01T00:00:00.000Z', 0, 0, 0);
INSERT INTO cells VALUES (1, 2, '[2]', 'bob', '2026-01-02T00:00:00.000Z', 0, 0, 2);
INSERT INTO votes VALUES (1, 2, 'bob', '[2]', '2026-01-02T00:00:00.000Z')
"""
"""A store of version 1, before photo labels and suggestions."""


def old_store(place):
    engine = sa.create_engine(f"sqlite:///{place}" if "://" not in place else place, poolclass=sa.NullPool)
    with engine.begin() as connection:
        for statement in OLD.split(";"):
            connection.exec_driver_sql(statement)
    engine.dispose()


def test_a_store_of_an_older_version_is_brought_up_to_date(place):
    old_store(place)
    LabelStore.open(place, write=False).close()  # reading it suffices
    with LabelStore.open(place) as store:
        assert store.graph() == LabelGraph.from_table({"ramen @ A": {"dish": "ramen"}, "udon @ A": {"dish": "udon"}})
        assert store.cell("udon @ A", "dish").votes == {"bob": "udon"}
        store.label_photo("1.jpg", "dish", "ramen", person="ann", edit_id="three", seen=0)
        store.put_beliefs({"dish": {"udon @ A": {"ramen": 0.9, "udon": 0.1}}})
        assert store.progress().kinds[0].low_confidence == 1
        store.undo(2, person="bob", edit_id="four")
        assert store.cell("udon @ A", "dish").value is None
    with LabelStore.open(place) as store:
        assert len(store.history()) == 4


def test_what_is_no_store_is_refused(tmp_path):
    with pytest.raises(LabelStoreError, match="there is no such store; make one by importing"):
        LabelStore.open(tmp_path / "none.db")
    with pytest.raises(LabelStoreError, match="is not there; make it first"):
        LabelStore.create(tmp_path / "nowhere" / "x.db")
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE people (name TEXT)")
    connection.close()
    with pytest.raises(LabelStoreError, match="holds something else"):
        LabelStore.open(other)
    text = tmp_path / "text.db"
    text.write_text("fine,dish\na,b\n" * 100)
    with pytest.raises(LabelStoreError, match="not a database"):
        LabelStore.open(text)
    with pytest.raises(LabelStoreError, match="in memory would be lost"):
        LabelStore.create("sqlite:///:memory:")
    with pytest.raises(LabelStoreError, match="SQLite or PostgreSQL, got 'mysql'"):
        LabelStore.open("mysql://x/y")
    with pytest.raises(LabelStoreError, match="is not a database URL"):
        LabelStore.open("://")


def test_a_store_of_a_later_version_is_refused(file_place, menu):
    with LabelStore.create(file_place):
        pass
    with sqlite3.connect(file_place) as connection:
        seal = seal_of("meta", ("schema", "99"))
        connection.execute("UPDATE meta SET value = '99', seal = ? WHERE key = 'schema'", (seal,))
    connection.close()
    with pytest.raises(LabelStoreError, match="version 99, and this finegraph knows up to 4; update finegraph"):
        LabelStore.open(file_place)
    with pytest.raises(LabelStoreError, match="there is a store already"):
        LabelStore.create(file_place)


def test_a_server_that_is_not_there(tmp_path):
    with pytest.raises(LabelStoreError, match="the database refused"):
        LabelStore.open(f"postgresql+psycopg://nobody:secret@/x?host={tmp_path}")


def test_questions_and_edits_go_on_when_the_server_has_closed_all_connections(postgres, menu):
    """As after a restart of the server: the connections that were kept are of no use any more."""
    place = postgres.new_database()
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with LabelStore.create(place) as store:
        store.import_graph(menu, person="import", edit_id="first")
        assert store.graph() == menu
        engine = sa.create_engine(postgres.url(), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            assert connection.execute(sa.text(f"SELECT pg_terminate_backend(pid) {others}")).all()
            while connection.scalar(sa.text(f"SELECT count(*) {others}")):
                time.sleep(0.01)
        assert store.graph() == menu
        store.decide("kung pao @ B", "dish", None, person="ann", edit_id="1", seen=0)


def test_a_backup_while_others_edit_is_one_state(file_store, tmp_path):
    stop = threading.Event()

    def edit():
        number = 0
        while not stop.is_set():
            seen = store_version(file_store)
            file_store.decide("kung pao @ A", "dish", "kung pao", person="ann", edit_id=f"e{number}", seen=seen)
            number += 1

    def store_version(store):
        return store.cell("kung pao @ A", "dish").version

    thread = threading.Thread(target=edit)
    thread.start()
    try:
        while file_store.version < 5:
            time.sleep(0.01)
        copy = file_store.backup(tmp_path / "copy.db")
    finally:
        stop.set()
        thread.join()
    with LabelStore.open(copy) as store:
        assert store.graph() == file_store.graph()
        assert 5 <= store.version <= file_store.version
        assert store.cell("kung pao @ A", "dish").version == store.version
    with pytest.raises(LabelStoreError, match="a backup replaces nothing"):
        file_store.backup(copy)
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def test_a_closed_store_says_so(file_place, menu):
    store = LabelStore.create(file_place)
    store.close()
    with pytest.raises(LabelStoreError, match="the store is closed"):
        store.import_graph(menu, person="ann", edit_id="1")


@pytest.mark.parametrize("name", ["x#1.db", "y%20z.db", "what?.db"])
def test_a_backup_of_a_file_with_an_odd_name_holds_everything(tmp_path, menu, name):
    with LabelStore.create(tmp_path / name) as store:
        store.import_graph(menu, person="import", edit_id="first")
        copy = store.backup(tmp_path / f"copy of {name}")
    with LabelStore.open(copy) as store:
        assert store.graph() == menu


def test_an_idle_writer_does_not_wait_for_a_reader(file_store, monkeypatch):
    """The WAL cannot be emptied while somebody reads an older state; an edit must not wait for that."""
    tried = threading.Event()
    checkpoint = Writer._checkpoint

    def watched(writer, *args, **options):
        checkpoint(writer, *args, **options)
        tried.set()

    monkeypatch.setattr(Writer, "_checkpoint", watched)
    with file_store._database.reading() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM cells").all()
        file_store.decide("kung pao @ B", "dish", None, person="ann", edit_id="x", seen=0)
        assert tried.wait(10)  # it came back though the reader is still there
        assert file_store._database.wal_size() > 0
    for _ in range(100):
        if file_store._database.wal_size() == 0:
            break
        time.sleep(0.1)
    assert file_store._database.wal_size() == 0  # and is tried again, also without another edit


@pytest.mark.parametrize("together", [1, 5])
def test_a_job_that_fails_leaves_nothing_and_harms_no_other(file_store, together):
    """Alone in its transaction, or among others that wait with it."""
    key = "number of {}"
    gate, begun = threading.Event(), threading.Event()

    def write(number, fails):
        def job(connection):
            add_rows(connection, meta, [{"key": key.format(number), "value": "1"}])
            if fails:
                raise ZeroDivisionError("a fault of this job")
            return number

        return job

    def wait(connection):
        begun.set()
        gate.wait(10)

    outcomes = {}

    def run(number, fails):
        try:
            outcomes[number] = file_store._do(write(number, fails))
        except ZeroDivisionError:
            outcomes[number] = "failed"

    holder = threading.Thread(target=file_store._do, args=(wait,))
    holder.start()
    assert begun.wait(10)
    crowd = [threading.Thread(target=run, args=(number, number == 0)) for number in range(together)]
    for one in crowd:
        one.start()
    while file_store._writer._jobs.qsize() < together:
        time.sleep(0.01)
    gate.set()
    for one in (holder, *crowd):
        one.join()
    assert outcomes == {number: "failed" if number == 0 else number for number in range(together)}
    with file_store._database.reading() as connection:
        kept = set(connection.scalars(sa.text("SELECT key FROM meta WHERE key LIKE 'number of %'")))
    assert kept == {key.format(number) for number in range(1, together)}
    assert file_store._do(write(9, fails=False)) == 9


FULL_DISK = """
import os, resource, signal, sys, time
import sqlalchemy as sa
from finegraph.labelling.store import store_writer
from finegraph.labelling import LabelStore
from finegraph.labelling.store.sealed_rows import add_rows
from finegraph.labelling.store.sealed_rows import seal_of
from finegraph.labelling.store.sql_tables import meta
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store_writer._IDLE_SECONDS = 0.05
store = LabelStore.open(sys.argv[1])
fill = lambda name, size: store._do(lambda c: c.execute(sa.insert(meta), {"key": name, "value": "x" * size}))
fill("large", 2**21)
while store._database.wal_size():
    time.sleep(0.02)
size = os.stat(sys.argv[1]).st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 4096, resource.RLIM_INFINITY))
fill("small", 2**18)  # there is room for it in the WAL, and none to move it into the file
time.sleep(0.5)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store._writer._timeout = 5
print(store.decide("kung pao @ A", "dish", None, person="ann", edit_id="later", seen=0).version)
store.close()
"""


def test_the_writer_goes_on_after_a_disk_that_was_full(file_place, menu):
    with LabelStore.create(file_place) as store:
        store.import_graph(menu, person="import", edit_id="first")
    run = subprocess.run([sys.executable, "-c", FULL_DISK, file_place], capture_output=True, text=True, timeout=60)
    assert "the WAL could not be moved into the file" in run.stderr, run.stderr
    assert run.returncode == 0, run.stderr
    with LabelStore.open(file_place) as store:
        assert store.version == int(run.stdout)
        assert store.cell("kung pao @ A", "dish").value is None


def test_a_backup_of_a_large_store_ends_while_people_edit(file_store, tmp_path):
    """SQLite copies in steps, and begins anew when somebody commits between two of them."""
    filler = [{"key": f"filler {number}", "value": "x" * 2**20} for number in range(80)]
    file_store._do(lambda connection: add_rows(connection, meta, filler))
    stop, copied = threading.Event(), threading.Event()

    def edit():
        for number in itertools.count():
            if stop.is_set():
                return
            seen = file_store.cell("kung pao @ A", "dish").version
            file_store.decide("kung pao @ A", "dish", "kung pao", person="ann", edit_id=f"e{number}", seen=seen)

    def copy():
        file_store.backup(tmp_path / "copy.db")
        copied.set()

    threads = [threading.Thread(target=edit), threading.Thread(target=copy)]
    for thread in threads:
        thread.start()
    try:
        assert copied.wait(20)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    with LabelStore.open(tmp_path / "copy.db", write=False) as store:
        assert store.graph() == file_store.graph()


def test_an_old_store_is_brought_up_to_date_once_by_whoever_comes_first(file_store):
    """Two servers may find the same old version; the second finds the tables made when its turn comes."""
    version = SCHEMA_VERSION
    for _ in range(2):
        file_store._do(schema.migrate)
        assert file_store._ask(lambda connection, _: schema.version_of(connection, "")) == version
