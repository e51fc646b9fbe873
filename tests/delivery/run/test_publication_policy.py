"""What was set when a run began stays, whoever continues it, and whatever is set by then."""

from pathlib import Path

import msgspec
import pytest

from delivery.edge.memory import MemoryEdge
from delivery.run.observers import ObservedRun
from delivery.run.publication import Publication
from media.run_policy import DEFAULTS, ResolvedPolicy, RunRecording
from storage.objects.disk import DiskObjects
from tests.support.manual_clock import ManualClock
from tests.support.storage.engine_reports import (
    HASH,
    RUN,
    TOP,
    ReportMaker,
    append_all,
    begin_epoch,
    open_run,
    resume_run,
)

STEPS = 40  # of 2 s: more than a window without a policy lists
LONG = msgspec.structs.replace(
    DEFAULTS,
    latency="normal",
    dvr_seconds=600.0,
    recording=RunRecording(enabled=False, keep_days=1),
)
SHORT = msgspec.structs.replace(DEFAULTS, recording=RunRecording(enabled=True, keep_days=2))


class World:
    """A store, and the edge of the process that has the run now."""

    def __init__(self, folder: Path) -> None:
        self.disk, self.edge, self.clock = DiskObjects(folder), MemoryEdge(), ManualClock()
        self.state = folder / "live" / HASH / RUN / "state.json"

    async def begin(self, policy: ResolvedPolicy) -> None:
        """Publish a run, and leave it to another process."""
        publication = await open_run(self.disk, self.edge, self.clock, policy=policy)
        maker = ReportMaker(TOP)
        await begin_epoch(publication, maker)
        for _ in range(STEPS):
            await append_all(publication, maker.step())
            await publication.store_pending()
        await publication.suspend()
        self.edge = MemoryEdge()

    async def resume(self, policy: ResolvedPolicy | None) -> Publication:
        publication = await resume_run(self.disk, self.edge, self.clock, policy=policy)
        assert publication is not None
        return publication

    def text(self) -> str:
        address = f"live/{HASH}/{RUN}/{TOP.name}/index.m3u8"
        playlist = self.edge.local_playlist(address, low_latency=True)
        assert playlist is not None
        return playlist.body.decode()


def policies_of(publication: Publication, policy: ResolvedPolicy | None) -> list[object]:
    """Return what an observer is told."""
    told: list[object] = []

    def observe(run: ObservedRun) -> None:
        told.append(run.policy)

    publication.add_observer(observe, policy)
    return told


@pytest.mark.parametrize("now", [LONG, SHORT, None], ids=["same", "changed", "only to be ended"])
async def test_a_run_that_goes_back_far_does_so_in_the_next_process(
    tmp_path: Path, now: ResolvedPolicy | None
) -> None:
    world = World(tmp_path)
    await world.begin(LONG)
    publication = await world.resume(now)
    assert world.text().count("#EXTINF") == STEPS
    await publication.finish()
    assert world.text().count("#EXTINF") == STEPS
    assert "#EXT-X-ENDLIST" in world.text()


async def test_a_run_that_another_one_follows_ends_as_it_was(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.begin(LONG)
    await open_run(world.disk, world.edge, world.clock, policy=SHORT)
    assert world.text().count("#EXTINF") == STEPS
    assert "#EXT-X-ENDLIST" in world.text()
    assert "#EXT-X-PART-INF" not in world.text()


@pytest.mark.parametrize(("began", "now"), [(LONG, SHORT), (SHORT, LONG)])
async def test_latency_and_recording_are_those_of_the_beginning(
    tmp_path: Path, began: ResolvedPolicy, now: ResolvedPolicy
) -> None:
    world = World(tmp_path)
    await world.begin(began)
    publication = await world.resume(now)
    assert publication.low_latency is began.is_low_latency
    assert ("#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD" in world.text()) is began.is_low_latency
    assert policies_of(publication, now) == [began]
    assert policies_of(publication, None) == [None]  # nothing is begun for a run that ends


async def test_a_run_without_a_stored_policy_takes_the_present_one_and_keeps_it(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    await world.begin(LONG)
    state = msgspec.json.decode(world.state.read_bytes())
    del state["policy"]  # of version 0.2
    world.state.write_bytes(msgspec.json.encode(state))
    publication = await world.resume(SHORT)
    assert publication.low_latency
    assert policies_of(publication, SHORT) == [SHORT]
    await publication.suspend()
    world.edge = MemoryEdge()
    assert (await world.resume(LONG)).low_latency
