"""What is made of a file is on the disk before a row names it."""

from pathlib import Path

from tests.support.storage.disk_trace import Trace, are_synced_before, traced_disk
from tests.support.transcode.spanned_asset import film_with_own_packets
from tests.support.transcode.transcode_fixture import VodFixture


async def test_media_are_on_the_disk_before_the_rows_that_name_them(
    vod: VodFixture, tmp_path: Path
) -> None:
    await vod.add(film_with_own_packets(tmp_path))
    traces: list[Trace] = []
    while True:
        job = await vod.transcoder.lease(f"worker {len(traces)}")
        if job is None:
            break
        with traced_disk(vod.objects.root) as trace:
            await vod.transcoder.do(job)
        traces.append(trace)
    first, *spans, last = traces
    assert are_synced_before(first, "published=")  # what plays early
    assert are_synced_before(first, "outcome=")  # what this worker made in one piece
    assert spans
    assert all(are_synced_before(each, "outcome=") for each in spans)
    assert are_synced_before(last, "DELETE FROM jobs")  # the video is completed
