"""The state of an installation for its operator, and the protocol of what collects it.

Sizes are bytes; times are microseconds since the Unix epoch (`_us`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec

from storage.catalog.hosts.repository import HostRecord
from storage.catalog.maintenance.workload import WorkloadRecord


class VersionsReport(msgspec.Struct, frozen=True, kw_only=True):
    """What runs: Headend, Python, the database with its version, the revision of its tables."""

    headend: str
    python: str
    database: str
    tables: str


class MachineReport(msgspec.Struct, frozen=True, kw_only=True):
    """The machine of this process.

    `cores` are those that the process may use, `load` the mean number of runnable tasks in the last
    minute. `live_streams` counts those of the whole installation.
    """

    name: str
    cores: int
    load: float
    memory_bytes: int
    memory_free_bytes: int
    live_streams: int


class SpareRoom(msgspec.Struct, frozen=True, kw_only=True):
    """For how many more streams, `more`, this machine has room, judged by the `basis`.

    `running`: like those on air; `before`: like those that were on air last; `usual`: of 1080p at
    30 pictures a second, by a rule of thumb.
    """

    more: int
    basis: Literal["running", "before", "usual"]


# Returns for how many more streams this machine has room; None: not known.
StreamRoom = Callable[[], SpareRoom | None]


class DiskReport(msgspec.Struct, frozen=True, kw_only=True):
    """The disk of the data folder; `store` is where the media are, a folder or a bucket.

    With less than `min_free_bytes` free, new media are refused.
    """

    store: str
    total_bytes: int
    free_bytes: int
    min_free_bytes: int


class LoggedProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A line that this process logged as a warning or an error."""

    at_us: int
    level: Literal["warning", "error"]
    event: str
    facts: Mapping[str, str]


class OperationsReport(msgspec.Struct, frozen=True, kw_only=True):
    """The installation at one moment.

    `room` is None where this process receives no streams, or was started just now. `hosts` is empty
    where one process receives all streams. `problems` are sentences about what cannot be served
    now, as in `/readyz`. `logged` has the newest line first.
    """

    versions: VersionsReport
    machine: MachineReport
    room: SpareRoom | None
    disk: DiskReport
    hosts: Sequence[HostRecord]
    workload: WorkloadRecord
    problems: Sequence[str]
    logged: Sequence[LoggedProblem]


class FindingItem(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder of a finding: its path below the data folder, and its size if known."""

    path: str
    what: str
    bytes: int | None = None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence of `headend doctor` about one topic.

    `verdict` is `well`, `tidy` (cleaned up automatically, or by `--clean`) or `act` (an operator
    must act).
    """

    topic: str
    verdict: Literal["well", "tidy", "act"]
    text: str
    items: Sequence[FindingItem] = msgspec.field(default=(), name="things")


@runtime_checkable  # Litestar checks the types of dependencies
class OperationsReporter(Protocol):
    """Collects the state of the installation."""

    async def report(self) -> OperationsReport:
        """Return the state of the installation.

        Raises:
            StorageError: the catalog does not answer.
        """
        ...

    async def concerns(self) -> Sequence[Finding]:
        """Return the known findings that need an operator.

        Those on certificates, settings and jobs are of now, the others of the last examination in
        this process.
        """
        ...

    async def examine(self) -> Sequence[Finding]:
        """Examine the installation as `headend doctor` does; it reads the whole database.

        Raises:
            TimeoutError: that takes too long, or another examination has not ended.
        """
        ...
