"""A real PostgreSQL for tests: one server for all of them, a database of its own for each.

Making a database takes the server 0.4 s of CPU, emptying one 0.03 s: so one that a test is done
with is emptied for the next, unless the test changed more than rows.

It listens on a socket in a folder of its own, and at an address where a test asks for one, writes
nothing through to the disk, and is gone with the tests. `postgres_server` (tests/conftest.py) is
the way to it.
"""

import asyncio
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql

from storage.catalog import open_catalog
from tests.support.free_ports import free_port
from tests.support.waiting import poll

__all__ = ["PASSWORD", "PostgresServer", "running_postgres"]

PASSWORD: Final = "S3CRET-of-the-guarded"
_SECONDS: Final = 60
_MADE: Final = "made"  # a database with the catalog's tables, which others are copied from
_MISSING: Final = "the tests need PostgreSQL: apt-get install postgresql"
# Waits for the end of the tests, however they ended, and takes the server and its folder away.
_GUARD: Final = 'cat >/dev/null; "$0" stop --mode=immediate --silent -D "$1/data"; rm -rf "$1"'
# What a database is but for its rows. A server's own objects have numbers below 16384.
_SHAPE: Final = """
    SELECT sum(hashtext(said)::bigint) FROM (
        SELECT (oid, relname, relkind, relnamespace)::text AS said FROM pg_class WHERE oid >= 16384
        UNION ALL SELECT a::text FROM pg_attribute a WHERE attrelid >= 16384
        UNION ALL SELECT i::text FROM pg_index i WHERE indexrelid >= 16384
        UNION ALL SELECT c::text FROM pg_constraint c WHERE oid >= 16384
        UNION ALL SELECT t::text FROM pg_trigger t
        UNION ALL SELECT p::text FROM pg_proc p WHERE oid >= 16384
        UNION ALL SELECT version_num FROM alembic_version
        UNION ALL SELECT s::text FROM pg_db_role_setting s
        UNION ALL SELECT (datallowconn, datconnlimit)::text FROM pg_database
            WHERE datname = current_database()
    ) AS everything"""
_END_OTHERS: Final = """
    SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()"""
# Rows go, and numbers begin anew; the schema's version stays. Says how large the largest table is:
# what was deleted keeps its place in it. To truncate all costs five times as much.
_EMPTY: Final = """
    DO $$ DECLARE place regclass; BEGIN
        SET LOCAL session_replication_role = replica;  -- or foreign keys ask for an order
        FOR place IN SELECT oid FROM pg_class WHERE relkind = 'r' AND pg_relation_size(oid) > 0
            AND relnamespace = 'public'::regnamespace AND relname <> 'alembic_version'
        LOOP
            EXECUTE format('DELETE FROM %s', place);
        END LOOP;
        PERFORM setval(seqrelid, seqstart, false) FROM pg_sequence;
    END $$"""
_LARGEST: Final = """
    SELECT max(pg_relation_size(oid)) FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"""
_MOST_BYTES: Final = 1 << 17  # of a table; where more was written, a new database is the cheaper
_SETTINGS: Final = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "max_connections": "100",
    "autovacuum": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}


def _program(name: str) -> str:
    """Return a program of the server: Debian has them beside the path, by version."""
    found = shutil.which(name)
    if found is None:
        beside = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
        assert beside, _MISSING
        return str(beside[-1])
    return found


def _user() -> str | None:
    """Return whom the server runs as where we are root, whom it refuses; else None."""
    if os.getuid() != 0:
        return None
    known = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


class PostgresServer:
    """A running server; its role `guarded` needs `PASSWORD` to log in.

    With an `address` it listens there, too, and lets everybody in.
    """

    def __init__(self, folder: Path, address: str = "") -> None:
        self.folder = folder
        self.address = address
        self.port = free_port() if address else 5432  # by which its socket is named
        self.user = _user()  # whom it runs as; None: who runs the tests
        self._numbers = itertools.count(1)
        self._server: subprocess.Popen[bytes] | None = None
        self._shape: object = None  # of a database with the catalog's tables
        self._empty: list[str] = []  # databases with these, all empty, that nobody uses

    def url(self, database: str, user: str = "postgres", password: str = "") -> str:
        """Return the address of a database."""
        login = f"{user}:{password}@" if password else f"{user}@"
        if self.address:
            return f"postgresql://{login}{self.address}:{self.port}/{database}"
        return f"postgresql://{login}/{database}?host={self.folder}"

    def make(self) -> None:
        """Make the server's folder, and start it."""
        if self.user is not None:
            account = pwd.getpwnam(self.user)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        # Sorts as people read, unlike SQLite: where both are to sort alike, a test sees it.
        self._do("initdb", "--pgdata", str(self._data), "--username=postgres", "--auth=trust",
                 "--encoding=UTF8", "--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en",
                 "--no-sync", "--no-instructions")  # fmt: skip
        rules = self._data / "pg_hba.conf"
        everybody = f"host all all {self.address}/24 trust\n" if self.address else ""
        rules.write_text("local all guarded scram-sha-256\n" + everybody + rules.read_text())
        self.start()
        self.execute(f"CREATE ROLE guarded SUPERUSER LOGIN PASSWORD '{PASSWORD}'")
        self.execute(f"CREATE DATABASE {_MADE} TEMPLATE template0")
        asyncio.run(_migrate(self.url(_MADE)))
        [(self._shape,)] = self.execute(_SHAPE, _MADE)

    def start(self) -> None:
        """Start it, and wait until it lets callers in."""
        places = {
            "listen_addresses": self.address,
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
        }
        settings = _SETTINGS | places
        if self.address:  # hosts rely on what it has confirmed, also when it is killed
            settings["synchronous_commit"] = "on"
        options = [f"-c{name}={value}" for name, value in settings.items()]
        self._do(
            *("pg_ctl", "start", "--wait", "--silent", f"--pgdata={self._data}"),
            f"--log={self.folder / 'log'}",
            "--options=" + " ".join(f"'{each}'" for each in options),
        )

    def stop(self) -> None:
        """Stop it as an operator does: sessions are ended."""
        self._do("pg_ctl", "stop", "--wait", "--silent", "--mode=fast", f"--pgdata={self._data}")

    def kill(self) -> None:
        """Kill it: what it had not written through to the disk has to be recovered."""
        for each in self.processes():
            with suppress(ProcessLookupError):  # the first one ends the others, too
                os.kill(each, signal.SIGKILL)
        poll(lambda: not self.is_running(), within=20, what="the end of PostgreSQL")

    def is_running(self) -> bool:
        """Say whether the server's first process runs."""
        done = self._call("pg_ctl", "status", f"--pgdata={self._data}")
        return done.returncode == 0

    def processes(self) -> list[int]:
        """Return the numbers of the server's processes."""
        first = int((self._data / "postmaster.pid").read_text().split()[0])
        found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(first)], capture_output=True,
                               check=True)  # fmt: skip
        return [first, *(int(each) for each in found.stdout.split())]

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run a statement, and return its rows where it has any."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            # A test's own text, not a stranger's.
            done = connection.execute(sql.SQL(statement))  # pyright: ignore[reportArgumentType]
            return done.fetchall() if done.description else []

    @contextmanager
    def empty_database(self, template: str = "template0") -> Generator[str]:
        """Make a database without tables for the length of the block; its address."""
        name = f"test{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield self.url(name)
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    @contextmanager
    def fresh_database(self) -> Generator[str]:
        """Lend a database with the catalog's tables for the length of the block; its address.

        All are empty, and nobody else uses it.
        """
        if self._empty:
            name = self._empty.pop()
        else:
            name = f"test{next(self._numbers)}"
            self.execute(f"CREATE DATABASE {name} TEMPLATE {_MADE}")
        try:
            yield self.url(name)
        finally:
            if self._emptied(name):
                self._empty.append(name)
            else:
                self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _emptied(self, name: str) -> bool:
        """End all sessions of a database and delete its rows: is it as a new one would be?"""
        try:
            with psycopg.connect(self.url(name), autocommit=True) as connection:
                connection.execute(_END_OTHERS)
                if connection.execute(_SHAPE).fetchone() != (self._shape,):
                    return False
                connection.execute(_EMPTY)
                largest = connection.execute(_LARGEST).fetchone()
        except psycopg.Error:  # no such table any more, nobody let in: a test went far
            return False
        return largest is not None and largest[0] <= _MOST_BYTES

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _do(self, program: str, *arguments: str) -> None:
        done = self._call(program, *arguments)
        assert done.returncode == 0, (program, done.stderr)

    def _call(self, program: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [_program(program), *arguments],
            user=self.user,
            extra_groups=[] if self.user else None,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            # A server keeps what it inherits open.
            capture_output=arguments[0] != "start",
            timeout=_SECONDS,
            check=False,
        )


async def _migrate(url: str) -> None:
    async with open_catalog(url, migrate=True):
        pass


@contextmanager
def running_postgres(address: str = "") -> Generator[PostgresServer]:
    """Run a server for the length of the block, also at an address that others reach."""
    # Short: a socket's path has room for 107 bytes.
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        server = PostgresServer(Path(folder), address)
        server.make()
        with subprocess.Popen(
            ["sh", "-c", _GUARD, _program("pg_ctl"), folder],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            user=server.user,
            extra_groups=[] if server.user else None,
            # Apart, so that Ctrl-C and a time that ran out do not end it with the tests.
            start_new_session=True,
        ):
            try:
                yield server
            finally:
                server.stop()
