"""What all tests share: the table of proofs that `make prove` prints and keeps; a PostgreSQL.

Tests may run in several processes (pytest-xdist): what these have to say goes to the one that
reports.
"""

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.workermanage import WorkerController

from storage.catalog import open_catalog
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.spread import Spread, write_durations

# Rows of the table: what was shown, what was measured, what was asked for.
_rows = pytest.StashKey[list[tuple[str, str, str]]]()
_seconds: Counter[str] = Counter()  # by file

Proof = Callable[[str, str, str], None]


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_rows] = []


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Spread:
    return Spread(config, log)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid.split("::", 1)[0]] += report.duration


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the rows to the process that reports; keep the durations where that is asked for."""
    output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["rows"] = session.config.stash[_rows]
    elif os.environ.get("HEADEND_TEST_DURATIONS"):
        write_durations(_seconds)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController) -> None:
    output: dict[str, list[tuple[str, str, str]]] = getattr(node, "workeroutput", {})
    node.config.stash[_rows] += [(what, got, asked) for what, got, asked in output.get("rows", [])]


@pytest.fixture(scope="session")
def proof(pytestconfig: pytest.Config) -> Proof:
    """Takes a row: what was shown, the figure that was measured, what it had to be."""

    def row(what: str, measured: str, asked: str) -> None:
        pytestconfig.stash[_rows].append((what, measured, asked))

    return row


@pytest.fixture(scope="session")
def postgres_server() -> Generator[PostgresServer]:
    """A real server; each test takes a database of its own from it (`fresh_database`)."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of SQLite with the catalog's tables, all empty: copying is quicker than making."""
    place = tmp_path_factory.mktemp("migrated") / "catalog.db"

    async def make() -> None:
        async with open_catalog(place, migrate=True):
            pass

    asyncio.run(make())
    return place


@pytest.fixture
def migrated_place(migrated_file: Path, tmp_path: Path) -> Path:
    """A copy of it for one test."""
    return Path(shutil.copy(migrated_file, tmp_path / "catalog.db"))


@pytest.fixture(params=["sqlite", "postgresql"])
def both_places(request: pytest.FixtureRequest) -> Generator[str | Path]:
    """Where a catalog can be opened with `migrate=True`, on either database in turn."""
    if request.param == "sqlite":
        yield request.getfixturevalue("migrated_place")
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.fresh_database() as url:
        yield url


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """Print the table; where the variable PROOFS names a file, keep it there when all passed."""
    rows = config.stash[_rows]
    if not rows:
        return
    table = ["| shown | measured | asked |", "|---|---|---|"]
    table += [f"| {what} | {measured} | {asked} |" for what, measured, asked in sorted(rows)]
    terminalreporter.section("proofs")
    terminalreporter.write_line("\n".join(table))
    page = os.environ.get("PROOFS")
    if page and exitstatus == 0:
        passed = len(terminalreporter.stats.get("passed", []))
        head = (
            "# Proofs\n\nThe last result of `make prove`, which runs every check of `make test` "
            "and those that take\nlonger: the real OBS, every encoder over every road, repeated "
            f"deaths.\n\n{passed} tests passed. What they measured:\n\n"
        )
        Path(page).write_text(head + "\n".join(table) + "\n")
