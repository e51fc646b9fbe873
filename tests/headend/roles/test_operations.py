"""The operator's report on a real installation."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from api.operations.report import LoggedProblem, OperationsReporter
from headend.install.certificates import ensure_local_certificates
from headend.install.installation import catalog_location
from headend.roles.operations import InstallationReporter, memory_of
from storage.catalog import open_catalog
from storage.catalog.migrations import REVISION
from storage.catalog.records.common import Change
from storage.wall_clock import wall_clock_us
from tests.support.headend.installed import installed
from tests.support.storage.new_videos import new_video

LINE = LoggedProblem(at_us=1, level="error", event="engine lost", facts={"stream": "AAAA"})


async def no_problems() -> list[str]:
    return []


async def test_concerns_are_known_without_a_complete_examination(
    tmp_path: Path,
) -> None:
    settings = await installed(tmp_path / "data")
    made = datetime.now(UTC) - timedelta(days=795)
    ensure_local_certificates(tmp_path / "data" / "tls", ["localhost"], made)
    async with open_catalog(catalog_location(settings), migrate=False) as catalog:
        reporter = InstallationReporter(
            settings, catalog, version="1", store="/here", problems=no_problems, logged=list
        )
        assert [each.topic for each in await reporter.concerns()] == ["certificate rtmps.pem"]
        # Findings of a complete examination are remembered.
        await catalog.videos.add(1, new_video(), Change(wall_clock_us()))
        assert [each.topic for each in await reporter.concerns()] == ["certificate rtmps.pem"]
        await reporter.examine()
        ensure_local_certificates(tmp_path / "data" / "tls", ["localhost"], datetime.now(UTC))
        assert [each.topic for each in await reporter.concerns()] == ["files"]


async def test_the_report_describes_this_machine_and_its_catalog(tmp_path: Path) -> None:
    settings = await installed(tmp_path / "data")

    async def problems() -> list[str]:
        return ["the bucket does not answer"]

    async with open_catalog(catalog_location(settings), migrate=False) as catalog:
        reporter = InstallationReporter(
            settings,
            catalog,
            version="1.2.3",
            store="/here",
            problems=problems,
            logged=lambda: [LINE],
        )
        assert isinstance(reporter, OperationsReporter)
        await catalog.videos.add(1, new_video(title="Film"), Change(wall_clock_us()))
        report = await reporter.report()
        assert report.versions.headend == "1.2.3"
        assert report.versions.tables == REVISION
        assert report.versions.database.startswith("SQLite 3.")
        assert report.machine.cores >= 1
        assert 0 < report.machine.memory_free_bytes < report.machine.memory_bytes
        assert 0 < report.disk.free_bytes < report.disk.total_bytes
        assert report.disk.store == "/here"
        assert report.disk.min_free_bytes == settings.storage.min_free_bytes
        assert report.problems == ["the bucket does not answer"]
        assert report.logged == [LINE]
        assert report.hosts == ()
        assert [job.title for job in report.workload.jobs] == ["Film"]

        findings = {each.topic: each for each in await reporter.examine()}
        assert findings["database"].verdict == "well"
        # The file of the video above was never stored.
        assert findings["files"].verdict == "act"
        assert [each.what for each in findings["files"].items] == ["uploaded file"]


def test_memory_is_read_from_the_kernels_text() -> None:
    text = "MemTotal:        8000 kB\nMemFree: 10 kB\nMemAvailable:    3000 kB\n"
    assert memory_of(text) == (8000 * 1024, 3000 * 1024)
    assert memory_of("") == (0, 0)
