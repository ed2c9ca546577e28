"""A PostgreSQL server of the tests' own, in a temporary folder, reached by a socket in it."""

import getpass
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
import sqlalchemy as sa


def find_programs():
    """The folder of the newest server that is installed, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("postgres")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


class Server:
    """A running server."""

    def __init__(self, programs):
        self.folder = Path(tempfile.mkdtemp(prefix="finegraph-pg-"))
        self._as = {}
        if os.geteuid() == 0:  # the server refuses to run as root
            user = pwd.getpwnam("postgres")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        data = self.folder / "data"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "cwd": self.folder, **self._as}
        subprocess.run(
            [programs / "initdb", "-D", data, "-A", "trust", "-U", "tests", "-E", "UTF8", "--no-locale", "-N"],
            check=True,
            **quiet,
        )
        command = [programs / "postgres", "-D", data, "-k", self.folder, "-c", "listen_addresses=", "-c", "fsync=off"]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder, **self._as
        )
        self._names = (f"store{number}" for number in itertools.count())
        self._wait()

    def url(self, options=""):
        return f"postgresql+psycopg://tests@/postgres?host={self.folder}{options}"

    def _wait(self):
        engine = sa.create_engine(self.url(), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        for _ in range(200):
            try:
                with engine.connect():
                    self._engine = engine
                    return
            except sa.exc.OperationalError:
                assert self._process.poll() is None, "the server has ended"
                time.sleep(0.05)
        raise AssertionError(f"no server answers as {getpass.getuser()}")

    def new_database(self):
        """The URL of an empty schema, which is as good as a database and made at once."""
        name = next(self._names)
        with self._engine.connect() as connection:
            connection.execute(sa.text(f"CREATE SCHEMA {name}"))
        return self.url(f"&options=-csearch_path%3D{name}")

    def stop(self):
        self._engine.dispose()
        self._process.send_signal(signal.SIGQUIT)  # at once: nothing of it is wanted any more
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server; a machine without one may leave these tests out, but not the one that checks releases."""
    programs = find_programs()
    if programs is None:
        missing = "no PostgreSQL server is installed (Debian: apt-get install postgresql)"
        if os.environ.get("CI"):
            pytest.fail(f"{missing}; where CI is set, these tests are not left out")
        pytest.skip(missing)
    server = Server(programs)
    yield server
    server.stop()
