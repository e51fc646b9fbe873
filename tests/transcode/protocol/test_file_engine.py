"""An engine over a file: what it reports, how it ends, and that nothing of it stays behind."""

import asyncio
import signal
from pathlib import Path

import pytest

from tests.support.transcode.scripted_engine import script_engines
from tests.transcode.inspect.test_probe import descriptors
from tests.transcode.vod.test_job import engines
from transcode.protocol.file_engine import EngineEnd, file_engine
from transcode.protocol.messages import BytesRead, EngineReport, Probed, WireError

pytestmark = pytest.mark.usefixtures("children_start")

PROBED = Probed(container="mp4", length_us=1)


async def end_over(
    path: Path, *, silent_seconds: float = 60.0
) -> tuple[list[EngineReport], EngineEnd]:
    async with file_engine("probe", "Ab3", path, silent_seconds=silent_seconds) as engine:
        reports = [report async for report in engine.reports()]
        return reports, await engine.end()


async def test_an_engine_reads_the_file_that_it_is_given(short_film: Path) -> None:
    reports, end = await end_over(short_film)
    assert [each.width for each in reports if isinstance(each, Probed)] == [854]
    assert end == EngineEnd(0)


async def test_its_output_names_the_file_in_the_log(
    short_film: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with file_engine("nothing", "Ab3", short_film) as engine:
        assert [each async for each in engine.reports()] == []
        assert (await engine.end()).status == 2
    (output,) = [each for each in caplog.records if each.message == "engine output"]
    assert output.__dict__["stream"] == "Ab3"


async def test_an_engine_that_falls_silent_is_killed(
    tmp_path: Path, short_film: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script_engines(monkeypatch, tmp_path, [PROBED], lasts=True)
    reports, end = await end_over(short_film, silent_seconds=0.5)
    assert reports == [PROBED]
    assert end.silent
    assert end.status == -signal.SIGKILL


async def test_an_engine_that_reports_nonsense_is_killed(
    tmp_path: Path, short_film: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script_engines(monkeypatch, tmp_path, [], lasts=True)
    (tmp_path / "reports").write_bytes(b"\xff" * 100)
    reports, end = await end_over(short_film)
    assert reports == []
    assert isinstance(end.failure, WireError)
    assert not end.silent
    assert end.status == -signal.SIGKILL


async def test_an_error_of_the_block_is_raised_as_it_is_and_ends_the_engine(
    tmp_path: Path, short_film: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script_engines(monkeypatch, tmp_path, [BytesRead(total=1)], lasts=True)
    with pytest.raises(KeyError):
        async with file_engine("probe", "Ab3", short_film) as engine:
            async for _ in engine.reports():
                raise KeyError
    assert engines() == []


async def test_the_file_is_closed_however_the_engine_ends(short_film: Path, tmp_path: Path) -> None:
    before = descriptors()
    await end_over(short_film)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await end_over(short_film)
    with pytest.raises(FileNotFoundError):
        await end_over(tmp_path / "none.mp4")
    assert descriptors() == before
