"""A real PostgreSQL for tests: one server for all of them, with a database for each test.

Creating a database costs the server 0.4 s of CPU, emptying one 0.03 s. A test's database is
therefore emptied and reused by the next test, unless the test changed more than rows.

The server listens on a socket in its own folder, and on an address if a test needs one. It never
syncs to the disk, and is removed after the tests. Use the fixture `postgres_server`
(tests/conftest.py).
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
from tests.support.memory_folder import memory_folder
from tests.support.waiting import poll

PASSWORD: Final = "S3CRET-of-the-guarded"
_SECONDS: Final = 60
_MADE: Final = "made"  # the template database, with the catalog's tables
_MISSING: Final = "the tests need PostgreSQL: apt-get install postgresql"
# Waits until the test process has ended for any reason, then removes the server and its folder.
_GUARD: Final = 'cat >/dev/null; "$0" stop --mode=immediate --silent -D "$1/data"; rm -rf "$1"'
# Everything in a database except its rows. OIDs below 16384 are PostgreSQL's own objects.
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
# Deletes all rows but the schema version, and restarts the sequences. Returns the size of the
# largest table, as deleted rows still take space. Truncating all tables costs five times as much.
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
_MOST_BYTES: Final = 1 << 17  # of a table; above it, creating a new database is cheaper
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
    """Return the path of a server program; Debian installs them by version, outside of PATH."""
    path = shutil.which(name)
    if path is None:
        beside = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
        assert beside, _MISSING
        return str(beside[-1])
    return path


def _user() -> str | None:
    """Return the user to run the server as, since it refuses to run as root; None if not root."""
    if os.getuid() != 0:
        return None
    users = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in users else "nobody"


class PostgresServer:
    """A running server; its role `guarded` needs `PASSWORD` to log in.

    With an `address`, it also listens there and accepts all other roles without a password.
    """

    def __init__(self, folder: Path, address: str = "") -> None:
        self.folder = folder
        self.address = address
        self.port = free_port() if address else 5432  # by which its socket is named
        self.user = _user()  # that it runs as; None: the user of the tests
        self._numbers = itertools.count(1)
        self._server: subprocess.Popen[bytes] | None = None
        self._shape: object = None  # of a database with the catalog's tables
        self._empty: list[str] = []  # unused databases with the catalog's empty tables

    def url(self, database: str, user: str = "postgres", password: str = "") -> str:
        """Return the URL of a database."""
        login = f"{user}:{password}@" if password else f"{user}@"
        if self.address:
            return f"postgresql://{login}{self.address}:{self.port}/{database}"
        return f"postgresql://{login}/{database}?host={self.folder}"

    def make(self) -> None:
        """Create the server's folder, and start the server."""
        if self.user is not None:
            account = pwd.getpwnam(self.user)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        # A linguistic collation, unlike SQLite's: tests then notice queries that sort differently.
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
        """Start the server, and wait until it accepts connections."""
        places = {
            "listen_addresses": self.address,
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
        }
        settings = _SETTINGS | places
        if self.address:  # hosts rely on committed transactions, also after a kill
            settings["synchronous_commit"] = "on"
        options = [f"-c{name}={value}" for name, value in settings.items()]
        self._do(
            *("pg_ctl", "start", "--wait", "--silent", f"--pgdata={self._data}"),
            f"--log={self.folder / 'log'}",
            "--options=" + " ".join(f"'{each}'" for each in options),
        )

    def stop(self) -> None:
        """Stop the server as an operator does, which ends all sessions."""
        self._do("pg_ctl", "stop", "--wait", "--silent", "--mode=fast", f"--pgdata={self._data}")

    def kill(self) -> None:
        """Kill the server, which has to recover at its next start."""
        for each in self.processes():
            with suppress(ProcessLookupError):  # killing the first ends the others
                os.kill(each, signal.SIGKILL)
        poll(lambda: not self.is_running(), within=20, what="the end of PostgreSQL")

    def is_running(self) -> bool:
        """Return whether the server's main process runs."""
        done = self._call("pg_ctl", "status", f"--pgdata={self._data}")
        return done.returncode == 0

    def processes(self) -> list[int]:
        """Return the IDs of the server's processes."""
        first = int((self._data / "postmaster.pid").read_text().split()[0])
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(first)], capture_output=True,
                               check=True)  # fmt: skip
        return [first, *(int(each) for each in children.stdout.split())]

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Execute a statement, and return its rows, if any."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            # The text is a constant of a test, not user input.
            done = connection.execute(sql.SQL(statement))  # pyright: ignore[reportArgumentType]
            return done.fetchall() if done.description else []

    @contextmanager
    def empty_database(self, template: str = "template0") -> Generator[str]:
        """Create a database without tables for the length of the block, and return its URL."""
        name = f"test{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield self.url(name)
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    @contextmanager
    def fresh_database(self) -> Generator[str]:
        """Reserve a database with the catalog's empty tables for the block, and return its URL."""
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
        """End all sessions of a database and delete its rows; return whether it is as new."""
        try:
            with psycopg.connect(self.url(name), autocommit=True) as connection:
                connection.execute(_END_OTHERS)
                if connection.execute(_SHAPE).fetchone() != (self._shape,):
                    return False
                connection.execute(_EMPTY)
                largest = connection.execute(_LARGEST).fetchone()
        except psycopg.Error:  # a test dropped tables or locked roles out
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
            # The server would keep inherited pipes open.
            capture_output=arguments[0] != "start",
            timeout=_SECONDS,
            check=False,
        )


async def _migrate(url: str) -> None:
    async with open_catalog(url, migrate=True):
        pass


@contextmanager
def running_postgres(address: str = "") -> Generator[PostgresServer]:
    """Run a server for the length of the block, optionally listening on an address."""
    # A short path: a socket's path has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="pg-", dir=memory_folder()) as folder:
        server = PostgresServer(Path(folder), address)
        server.make()
        with subprocess.Popen(
            ["sh", "-c", _GUARD, _program("pg_ctl"), folder],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            user=server.user,
            extra_groups=[] if server.user else None,
            # In its own session, so that Ctrl-C or a timeout does not end it with the tests.
            start_new_session=True,
        ):
            try:
                yield server
            finally:
                server.stop()
