"""Fixtures and hooks for all tests: the table that `make prove` prints, and the database servers.

Tests may run in several processes (`tests.support.crew`), each of which ends with its rows.
"""

import asyncio
import gc
import logging
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import hypothesis
import msgspec
import pytest

from storage.catalog import open_catalog
from tests.support.crew import run_in_forks
from tests.support.engine.engine_forks import begin_at_once
from tests.support.made_media import forget_old
from tests.support.memory_folder import memory_folder, writes_in_memory
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.rings import forbid_the_world, is_pure
from tests.support.shared_engines import ON_SHARED, runs_on_shared
from tests.support.spread import Spread, part_of, prefers_services, write_durations
from tests.support.storage.s3_server import S3Server, running_s3
from tests.support.thread_priority import priority

# Rows of the table: the claim, the measured value, the required value.
_Rows = list[tuple[str, str, str]]
_rows = pytest.StashKey[_Rows]()
_seconds: dict[str, float] = defaultdict(float)  # by file
# `make proofs` writes below this heading.
_LAST_RUN: Final = "## What `make proofs` measured last"
# The niceness of CPU-bound processes: three get as much CPU as two that follow real-time encoders.
_NICE: Final = 2

Proof = Callable[[str, str, str], None]

# The deadline and the check measure time, and would fail on a busy machine.
hypothesis.settings.register_profile(
    "few", max_examples=25, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile(  # of `make fuzz` and `make prove`
    "many", hypothesis.settings.get_profile("few"), max_examples=100
)
hypothesis.settings.load_profile("few")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="run the pure ring only")
    parser.addoption("--processes", type=int, default=0, help="run in so many forks of this one")
    parser.addoption("--part", default="1/1", help="run the N-th of M parts, as N/M")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_rows] = []
    if os.environ.get("HEADEND_TEST_FORKS"):
        begin_at_once()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude modules and tests from garbage collection: they live until the process exits."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with forbid_the_world() if item.config.getoption("--quick") else nullcontext():
        return (yield)


@pytest.fixture(autouse=True)
def root_logger_stays_as_it_is() -> Generator[None]:
    """Fail a test that reconfigures the root logger, which all tests of the process share."""
    root = logging.getLogger()
    before = root.level, [each for each in root.handlers if not _is_pytests(each)]
    yield
    after = root.level, [each for each in root.handlers if not _is_pytests(each)]
    root.setLevel(before[0])
    assert after == before, "this test configured logging for the whole process"


@pytest.fixture(autouse=True)
def priority_stays_as_it_is() -> Generator[None]:
    """Fail a test that changes the priority of the process, or of all processes of the run."""
    before = priority()
    yield
    assert priority() == before, "this test changed the priority of those that follow"


def _is_pytests(handler: logging.Handler) -> bool:
    return type(handler).__module__.startswith("_pytest.")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = items
    if config.getoption("--quick"):
        chosen = [item for item in items if is_pure(item)]
    if ON_SHARED:
        chosen = [item for item in chosen if runs_on_shared(item)]
    chosen = part_of(chosen, *_part(config))
    if len(chosen) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
        items[:] = chosen


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    config = session.config
    processes = int(str(config.getoption("--processes")))
    if not processes or config.option.collectonly or session.testsfailed:
        return None
    spread = Spread([item.nodeid for item in session.items])
    ends = run_in_forks(session, processes, spread.next_for, _begin, lambda: config.stash[_rows])
    for rows in ends:
        config.stash[_rows] += msgspec.convert(rows, _Rows)
    return True


def _begin(process: int) -> None:
    if not prefers_services(process):
        os.nice(_NICE)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid.split("::", 1)[0]] += report.duration


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the durations if the environment says so."""
    forget_old(time.time())
    if os.environ.get("HEADEND_TEST_DURATIONS") and _seconds:  # none if tests were only collected
        proofs = session.config.getoption("markexpr") == "prove"
        write_durations(_seconds, proofs=proofs)


def _part(config: pytest.Config) -> tuple[int, int]:
    number, _, count = str(config.getoption("--part")).partition("/")
    return int(number), int(count)


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest) -> Generator[Path]:
    """A test's folder: pytest's own, or one in memory (`tests.support.memory_folder`)."""
    memory = memory_folder() if writes_in_memory(request.path) else None
    if memory is None or request.config.option.basetemp is not None:
        yield request.getfixturevalue("tmp_path")
        return
    with TemporaryDirectory(prefix="headend-test-", dir=memory) as folder:
        yield Path(folder)


@pytest.fixture
def children_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start engines as child processes, as the service does, instead of forking them."""
    monkeypatch.setattr(
        "transcode.protocol.engine_process.create_subprocess_exec",
        asyncio.create_subprocess_exec,
    )


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio alone."""
    return "asyncio"


@pytest.fixture(scope="session")
def proof(pytestconfig: pytest.Config) -> Proof:
    """Add a row to the table: the claim, the measured value, the required value."""

    def row(what: str, measured: str, required: str) -> None:
        pytestconfig.stash[_rows].append((what, measured, required))

    return row


@pytest.fixture(scope="session")
def postgres_server() -> Generator[PostgresServer]:
    """A real server, on which each test gets its own database (`fresh_database`)."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def s3_server() -> Generator[S3Server]:
    """A real S3 server, on which each test gets its own bucket (`new_bucket`)."""
    with running_s3() as server:
        yield server


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with the catalog's empty tables: copying it is faster than migrating."""
    location = tmp_path_factory.mktemp("migrated") / "catalog.db"

    async def make() -> None:
        async with open_catalog(location, migrate=True):
            pass

    asyncio.run(make())
    return location


@pytest.fixture
def sqlite_database(migrated_file: Path, tmp_path: Path) -> Path:
    """A copy of `migrated_file` for one test."""
    return Path(shutil.copy(migrated_file, tmp_path / "catalog.db"))


@pytest.fixture(params=["postgresql"] if ON_SHARED else ["sqlite", "postgresql"])
def either_database(request: pytest.FixtureRequest) -> str | Path:
    """The path or URL of an empty catalog, on each database in turn."""
    kind = "sqlite_database" if request.param == "sqlite" else "postgres_database"
    return request.getfixturevalue(kind)


@pytest.fixture
def postgres_database(postgres_server: PostgresServer) -> Generator[str]:
    """The URL of an empty catalog on PostgreSQL."""
    with postgres_server.fresh_database() as url:
        yield url


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """Print the table; if all tests passed, also write it to the page named by `PROOFS`.

    With `--part`, the page is written once the last part has passed.
    """
    rows = config.stash[_rows]
    if rows:
        terminalreporter.section("proofs")
        terminalreporter.write_line(_table(rows))
    page = os.environ.get("PROOFS")
    if not page or exitstatus != 0:
        return
    number, count = _part(config)
    passed = len(terminalreporter.stats.get("passed", []))
    folder = config.rootpath / ".proofs"
    folder.mkdir(exist_ok=True)
    (folder / f"{number}-of-{count}.json").write_bytes(msgspec.json.encode((passed, rows)))
    files = [folder / f"{each}-of-{count}.json" for each in range(1, count + 1)]
    if missing := [file.stem for file in files if not file.exists()]:
        terminalreporter.write_line(f"{page} waits for {', '.join(missing)}")
        return
    parts = [msgspec.json.decode(file.read_bytes(), type=tuple[int, _Rows]) for file in files]
    passed = sum(each for each, _ in parts)
    _end_with(Path(page), passed, _table([row for _, rows in parts for row in rows]))


def _end_with(page: Path, passed: int, table: str) -> None:
    """Replace the table at the end of the page."""
    above = page.read_text().partition(_LAST_RUN)[0].rstrip() if page.exists() else "# Proofs"
    summary = f"{passed} checks passed, and measured:"
    page.write_text(f"{above}\n\n{_LAST_RUN}\n\n{summary}\n\n{table}\n")


def _table(rows: _Rows) -> str:
    table = ["| shown | measured | asked |", "|---|---|---|"]
    table += [f"| {what} | {measured} | {asked} |" for what, measured, asked in sorted(rows)]
    return "\n".join(table)
