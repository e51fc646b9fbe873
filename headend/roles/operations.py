"""Collects the state of the installation for its operator (see `api.operations`)."""

import asyncio
import os
import platform
import shutil
import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from api.operations.report import (
    DiskReport,
    Finding,
    LoggedProblem,
    MachineReport,
    OperationsReport,
    StreamRoom,
    VersionsReport,
)
from headend.config.settings import ServiceSettings
from headend.install.doctor import examine, examine_briefly
from media.no_op import do_nothing
from storage.catalog import Catalog
from storage.objects.disk_threads import FILES
from storage.wall_clock import wall_clock_us

_MOST_JOBS: Final = 50  # that are listed; all are counted
_DISK_SECONDS: Final = 5.0
# An installation of 100,000 videos takes a minute; a caller's connection waits no longer than this.
_EXAMINE_SECONDS: Final = 120.0
_MEMINFO: Final = Path("/proc/meminfo")
_KIB: Final = 1024


class InstallationReporter:
    """Collects the state of the installation, as this process sees it.

    `problems` are those of `/readyz`, `logged` the newest lines of the log, newest first; `room` is
    that of this machine. `store` is where the media are. `version` is Headend's.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        catalog: Catalog,
        *,
        version: str,
        store: str,
        problems: Callable[[], Awaitable[list[str]]],
        logged: Callable[[], Sequence[LoggedProblem]],
        room: StreamRoom = do_nothing,
    ) -> None:
        self._settings = settings
        self._catalog = catalog
        self._version = version
        self._store = store
        self._problems = problems
        self._logged = logged
        self._room = room
        self._examining = asyncio.Lock()
        self._examined: Sequence[Finding] = ()

    async def report(self) -> OperationsReport:
        """Return the state of the installation.

        Raises:
            StorageError: the catalog does not answer.
        """
        catalog = self._catalog
        workload = await catalog.workload.find(_MOST_JOBS)
        hosts = await catalog.hosts.find_all(self._settings.hosts.dead_seconds)
        database, tables = await catalog.health.versions()
        total, free = await _disk(Path(self._settings.data))
        memory, memory_free = memory_of(await FILES.run(partial(_MEMINFO.read_text)))
        return OperationsReport(
            versions=VersionsReport(
                headend=self._version,
                python=platform.python_version(),
                database=database,
                tables=tables,
            ),
            machine=MachineReport(
                name=socket.gethostname(),
                cores=len(os.sched_getaffinity(0)),
                load=round(os.getloadavg()[0], 2),
                memory_bytes=memory,
                memory_free_bytes=memory_free,
                live_streams=workload.live_streams,
            ),
            room=self._room(),
            disk=DiskReport(
                store=self._store,
                total_bytes=total,
                free_bytes=free,
                min_free_bytes=self._settings.storage.min_free_bytes,
            ),
            hosts=hosts,
            workload=workload,
            problems=await self._problems(),
            logged=self._logged(),
        )

    async def examine(self) -> Sequence[Finding]:
        """Examine the installation as `headend doctor` does, one call at a time.

        Raises:
            TimeoutError: it takes too long.
        """
        async with asyncio.timeout(_EXAMINE_SECONDS), self._examining:
            self._examined = await examine(self._settings, wall_clock_us())
            return self._examined

    async def concerns(self) -> Sequence[Finding]:
        """Return the known findings that need an operator."""
        brief = await examine_briefly(self._settings, self._catalog, wall_clock_us())
        newer = {finding.topic for finding in brief}
        findings = [
            *brief,
            *(finding for finding in self._examined if finding.topic not in newer),
        ]
        # The present state of the disk and the store is among the problems.
        return [
            finding
            for finding in findings
            if finding.verdict == "act" and finding.topic not in {"disk", "store"}
        ]


async def _disk(folder: Path) -> tuple[int, int]:
    """Return the size and the free bytes of a folder's disk; 0 if it does not answer."""
    try:
        async with asyncio.timeout(_DISK_SECONDS):
            usage = await FILES.run(partial(shutil.disk_usage, folder))
    except (OSError, TimeoutError):
        return 0, 0
    return usage.total, usage.free


def memory_of(meminfo: str) -> tuple[int, int]:
    """Return the machine's memory and what is available of it, in bytes (proc_meminfo(5)).

    A value that the text does not have is 0.
    """
    sizes = {"MemTotal": 0, "MemAvailable": 0}
    for line in meminfo.splitlines():
        name, _, rest = line.partition(":")
        if name in sizes:
            sizes[name] = int(rest.split()[0]) * _KIB
    return sizes["MemTotal"], sizes["MemAvailable"]
