"""The operations on the installation as a whole; they need a token for all projects."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, Literal

import msgspec
from litestar import Controller, get
from litestar.di import NamedDependency

from api.http.auth import needs_all_projects
from api.http.errors import documented, unavailable
from api.operations.report import (
    DiskReport,
    Finding,
    MachineReport,
    OperationsReport,
    OperationsReporter,
    SpareRoom,
    VersionsReport,
)
from api.schemas.timestamps import format_timestamp
from media.ticks import MICROSECONDS
from storage.catalog.hosts.repository import HostRecord
from storage.catalog.maintenance.workload import JobCount, ListedJob

_ERRORS: Final = (HTTPStatus.FORBIDDEN,)
_RETRY_SECONDS: Final = 60


class HostBody(msgspec.Struct, frozen=True, kw_only=True):
    """A process that receives streams; `silent_seconds` is how long ago it was last seen."""

    name: str
    role: str
    version: str
    alive: bool
    streams: int
    started_at: str
    silent_seconds: float


class QueuedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a video; `progress` in percent, `eta` in seconds (0: unknown)."""

    kind: str
    state: str
    attempt: int
    video: int
    title: str
    project: str
    progress: int
    eta: int
    created_at: str


class JobQueue(msgspec.Struct, frozen=True, kw_only=True):
    """All jobs counted by kind and state, and the first of them: those that run, then by age."""

    counts: list[JobCount]
    jobs: list[QueuedJob]


class LoggedLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that the answering process logged as a warning or an error."""

    at: str
    level: Literal["warning", "error"]
    event: str
    facts: dict[str, str]


class Operations(msgspec.Struct, frozen=True, kw_only=True):
    """The installation at one moment; `hosts` is empty where one process receives all streams.

    `room` says for how many more streams the machine has room, null where that is not known.
    `problems` are sentences about what cannot be served now, `concerns` the doctor's findings that
    need an operator, as far as they are known without an examination; `logged` has the newest line
    first.
    """

    versions: VersionsReport
    machine: MachineReport
    room: SpareRoom | None
    disk: DiskReport
    hosts: list[HostBody]
    queue: JobQueue
    problems: list[str]
    concerns: list[Finding]
    logged: list[LoggedLine]


class OperationsData(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to showing the installation."""

    data: Operations


class Examination(msgspec.Struct, frozen=True, kw_only=True):
    """What `headend doctor` finds; `healthy`: nothing needs an operator."""

    healthy: bool
    findings: list[Finding]


class ExaminationData(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to an examination."""

    data: Examination


class OperationsController(Controller):
    """The installation as a whole."""

    path = "/operations"
    tags = ("operations",)

    @get(
        guards=[needs_all_projects],
        summary="Show the state of the installation",
        responses=documented(*_ERRORS),
    )
    async def show_operations(
        self, operations: NamedDependency[OperationsReporter]
    ) -> OperationsData:
        """Show hosts, machine, queue, disk and recent errors; this takes a token for all
        projects.
        """
        report = await operations.report()
        return OperationsData(data=_operations(report, await operations.concerns()))

    @get(
        "/doctor",
        guards=[needs_all_projects],
        summary="Examine the installation",
        responses=documented(*_ERRORS),
    )
    async def examine(
        self, operations: NamedDependency[OperationsReporter], command: NamedDependency[str]
    ) -> ExaminationData:
        """Examine the installation as `headend doctor` does, one at a time.

        It reads the whole database and looks for every file: do not ask for it every minute. This
        takes a token for all projects.
        """
        try:
            findings = await operations.examine()
        except TimeoutError as error:
            message = f"The examination takes too long: run `{command} doctor` on the machine."
            raise unavailable(message, _RETRY_SECONDS) from error
        healthy = not any(each.verdict == "act" for each in findings)
        return ExaminationData(data=Examination(healthy=healthy, findings=list(findings)))


def _operations(report: OperationsReport, concerns: Sequence[Finding]) -> Operations:
    return Operations(
        versions=report.versions,
        machine=report.machine,
        room=report.room,
        disk=report.disk,
        hosts=[_host(each) for each in report.hosts],
        queue=JobQueue(
            counts=list(report.workload.counts), jobs=[_job(each) for each in report.workload.jobs]
        ),
        problems=list(report.problems),
        concerns=list(concerns),
        logged=[
            LoggedLine(
                at=format_timestamp(each.at_us),
                level=each.level,
                event=each.event,
                facts=dict(each.facts),
            )
            for each in report.logged
        ],
    )


def _host(record: HostRecord) -> HostBody:
    seconds = max(0, record.silent_us) / MICROSECONDS
    shown = {"started_at": format_timestamp(record.started_us), "silent_seconds": seconds}
    return msgspec.convert(msgspec.structs.asdict(record) | shown, HostBody)


def _job(job: ListedJob) -> QueuedJob:
    shown = {"created_at": format_timestamp(job.created_us)}
    return msgspec.convert(msgspec.structs.asdict(job) | shown, QueuedJob)
