"""The pure ring: the tests of `make quick`, which use no process, socket or database server.

A test belongs to it by its folder, unless it has one of the markers or fixtures listed here. With
`--quick`, a test that starts a process or opens a socket anyway fails (`forbid_the_world`).
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import pytest

# The folders and file name prefixes of pure tests.
_PURE: Final = (
    "tests/api/http/",
    "tests/api/pages/",
    "tests/api/pusher/",
    "tests/api/schemas/",
    "tests/headend/config/test_settings",
    "tests/ingest/publishing/",
    "tests/ingest/report/",
    "tests/ingest/rtmp/",
    "tests/ingest/stream/",
    "tests/media/",
    "tests/storage/bus/test_memory",
    "tests/storage/catalog/queries/test_digest",
    "tests/storage/catalog/records/",
    "tests/delivery/edge/test_changes",
    "tests/delivery/run/test_expiry",
    "tests/delivery/run/test_run_state",
    "tests/delivery/run/test_step_builder",
    "tests/delivery/run/test_variants",
    "tests/delivery/recording/test_pages",
    "tests/storage/test_file_intake",
    "tests/tests/support/hls/",
    "tests/transcode/engine/core/test_reports",
    "tests/transcode/live/test_backlog",
    "tests/transcode/live/test_epochs",
    "tests/transcode/live/test_load_shedding",
    "tests/transcode/live/test_metrics",
    "tests/transcode/protocol/test_file_messages",
    "tests/transcode/protocol/test_messages",
)
# The fixtures of catalogs, and of applications that use one.
_REAL_FIXTURES: Final = frozenset(
    {
        "either_database",
        "catalog",
        "pusher_service",
        "api_service",
        "migrated_file",
        "location",
        "postgres_server",
    }
)
_MARKERS: Final = ("e2e", "prove", "real")
_FORBIDDEN: Final = frozenset(
    {"os.fork", "os.posix_spawn", "socket.bind", "socket.connect", "subprocess.Popen"}
)
_forbidding: list[bool] = []  # one element once the audit hook is installed: whether it is active


def is_pure(item: pytest.Item) -> bool:
    """Return whether a test belongs to the pure ring."""
    if not item.nodeid.startswith(_PURE) or any(map(item.get_closest_marker, _MARKERS)):
        return False
    return _REAL_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


@contextmanager
def forbid_the_world() -> Generator[None]:
    """Make starting a process or using a socket fail for the length of the block."""
    if not _forbidding:
        sys.addaudithook(_refuse)  # audit hooks cannot be removed
    _forbidding[:] = [True]
    try:
        yield
    finally:
        _forbidding[:] = [False]


def _refuse(event: str, _arguments: tuple[object, ...]) -> None:
    if _forbidding[-1] and event in _FORBIDDEN:
        raise RuntimeError(f"{event}: mark this test `real`, it is not of the pure ring")
