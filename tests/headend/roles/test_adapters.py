"""A grant's settings on their way to the run that is opened for it."""

from pathlib import Path

from headend.roles.adapters import EngineSinks
from ingest.stream.ports import Grant
from media.stream_keys import Slot
from storage.edge.memory import MemoryEdge
from storage.live.publication import LiveWindow
from storage.objects.disk import DiskObjects
from transcode.live.live_run import LiveRun
from transcode.live.ports import RunSettings
from transcode.live.service import LiveTranscoding


async def test_a_run_has_the_settings_of_the_grant_that_opens_it(tmp_path: Path) -> None:
    grant = Grant(
        stream=1,
        hash="Ab3dEf6hIj9k",
        slot=Slot(0),
        active=frozenset(),
        reconnect_seconds=7.0,
        goodbye_seconds=3.0,
        low_latency=False,
        dvr_seconds=3600.0,
    )
    with DiskObjects(tmp_path) as objects:
        transcoding = LiveTranscoding(objects=objects, edge=MemoryEdge(), window=LiveWindow())
        sinks = EngineSinks(transcoding, part_seconds=0.25)
        async with sinks.run(grant, lambda: None) as run:
            assert isinstance(run, LiveRun)
            assert run.settings == RunSettings(
                resume_seconds=7.0, low_latency=False, part_seconds=0.25, dvr_seconds=3600.0
            )
