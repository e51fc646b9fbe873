"""What an engine reads of a slow disk is reported in time."""

import tempfile
from itertools import count, pairwise
from pathlib import Path

from media.ladder import STANDARD_LABELS, ladder_for
from tests.support.transcode.sparse_files import unclosed_flv
from transcode.engine.core.reports import ReportWriter
from transcode.engine.input.container import open_upload
from transcode.engine.vod.survey import survey
from transcode.protocol.engine_process import SILENT_SECONDS
from transcode.protocol.file_messages import AssetOrder
from transcode.protocol.messages import BytesRead, EngineReport, WireReader

MIB = 1 << 20
READ_SECONDS = 40  # for at most 256 KiB: a disk that makes 6.5 kB/s
LADDER = ladder_for(128, 96, STANDARD_LABELS)


def totals(path: Path) -> list[int]:
    """What an engine reported to have read, pass by pass."""
    reports: WireReader[EngineReport] = WireReader(EngineReport)
    return [each.total for each in reports.feed(path.read_bytes()) if isinstance(each, BytesRead)]


def test_a_survey_of_a_slow_disk_is_never_silent_for_long(tmp_path: Path) -> None:
    """Each read advances the clock: 24 MiB take an hour."""
    path = unclosed_flv(tmp_path / "a.flv", 24, padding=MIB)
    ticks = count(step=READ_SECONDS)
    with path.open("rb") as file, tempfile.NamedTemporaryFile() as output:
        reports = ReportWriter(output.fileno())
        with open_upload(file.fileno(), reports, lambda: next(ticks)) as upload:
            result = survey(upload, AssetOrder(ladder=LADDER))
        running_totals = totals(Path(output.name))
    assert result is not None
    assert len(result.shown) == 24
    assert next(ticks) > 60 * SILENT_SECONDS
    steps = [b - a for a, b in pairwise([0, *running_totals])]
    # Each read is reported, and takes less time than an engine may be silent.
    assert READ_SECONDS < SILENT_SECONDS
    assert min(steps) > 0
    assert max(steps) <= MIB // 4
    assert running_totals[-1] >= 24 * MIB
