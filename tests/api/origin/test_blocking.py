"""Requests that wait for a part: their answers, and that access is checked again."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from api.http.response import HttpResponse, PendingResponse
from api.origin.origin import Origin
from api.origin.viewer import Viewer
from api.origin.visibility import VisibilityCache
from delivery.edge.base import CachedPlaylist
from delivery.edge.memory import MemoryEdge
from media.hls.playlist import PartialSegment
from media.hls.timeline import Timeline
from storage.objects.disk import DiskObjects
from tests.support.api.origin_client import PLAYLIST, FakePublicRecords, is_owner
from tests.support.manual_clock import ManualClock
from tests.support.storage.engine_reports import HASH, RUN
from tests.support.waiting import until

PARTS = 45_000
FOLDER = f"live/{HASH}/{RUN}"
NEXT = "_HLS_msn=0&_HLS_part=1"


class Viewers:
    """An origin with a run of one part, and viewers that wait for the next one."""

    def __init__(self, folder: Path, edge: MemoryEdge) -> None:
        self.edge = edge
        self.clock = ManualClock()
        self.public_records = FakePublicRecords()
        self.public_records.put()
        self.visibility = VisibilityCache(
            self.public_records, is_owner, lambda peer, _: peer, clock=self.clock
        )
        self.origin = Origin(objects=DiskObjects(folder), edge=edge, visibility=self.visibility)
        part = PartialSegment(uri="0.0.m4s", duration=PARTS, independent=True)
        self.timeline = Timeline(part_target=PARTS).open("init-0.mp4").with_part(part)
        self.answers: list[HttpResponse] = []

    @property
    def statuses(self) -> list[int]:
        return [each.status for each in self.answers]

    async def show(self) -> None:
        await self.edge.put_timelines(FOLDER, {"720p": self.timeline}, low_latency=True)

    async def publish_part(self) -> None:
        """Publish the awaited part."""
        part = PartialSegment(uri="0.1.m4s", duration=PARTS, independent=False)
        self.timeline = self.timeline.with_part(part)
        await self.show()

    def change(self, **fields: object) -> None:
        self.public_records.streams[HASH] = msgspec.structs.replace(
            self.public_records.streams[HASH], **fields
        )

    async def query_catalog(self) -> None:
        """Let another viewer query the catalog."""
        await self.visibility.lookup(HASH, Viewer("RO", []))

    def hint(self) -> None:
        """Hint at the next part in the playlist, whether or not it follows."""
        part = PartialSegment(uri="0.0.m4s", duration=PARTS, independent=True)
        timeline = Timeline(part_target=PARTS).open("init-0.mp4")
        self.timeline = timeline.with_part(part, hint="0.1.m4s")

    def park(self, peer: str = "RO", query: str = NEXT, path: str = PLAYLIST) -> PendingResponse:
        pending = self.origin.fast_path("GET", f"{path}?{query}", [], peer)
        assert isinstance(pending, PendingResponse)
        pending.subscribe(self.answers.append)
        return pending


@asynccontextmanager
async def open_viewers(folder: Path, edge: MemoryEdge | None = None) -> AsyncGenerator[Viewers]:
    viewers = Viewers(folder, edge or MemoryEdge())
    await viewers.show()
    async with asyncio.TaskGroup() as tasks:
        background = tasks.create_task(viewers.visibility.run_queries())
        await asyncio.sleep(0)  # it begins
        await viewers.query_catalog()
        yield viewers
        background.cancel()


async def test_a_request_for_the_next_part_is_answered_when_it_is_listed(tmp_path: Path) -> None:
    async with open_viewers(tmp_path) as viewers:
        viewers.park()
        await viewers.publish_part()
        assert viewers.statuses == [200]
        assert b"0.1.m4s" in viewers.answers[0].body


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"hidden": True}, id="unpublished"),
        pytest.param({"countries": frozenset({"DE"})}, id="restricted"),
    ],
)
async def test_a_waiting_viewer_that_lost_access_gets_no_media(
    tmp_path: Path, change: dict[str, object]
) -> None:
    async with open_viewers(tmp_path) as viewers:
        viewers.park()
        viewers.clock.now += 1
        viewers.change(**change)
        await viewers.query_catalog()
        await viewers.publish_part()
        assert viewers.statuses == [503]
        assert viewers.answers[0].body == b""
        assert dict(viewers.answers[0].headers)[b"cache-control"] == b"no-store"


async def test_a_change_without_effect_on_access_does_not_affect_waiting_requests(
    tmp_path: Path,
) -> None:
    async with open_viewers(tmp_path) as viewers:
        viewers.park()
        viewers.clock.now += 1
        viewers.change(title="Now live", live=False, countries=frozenset[str]())
        await viewers.query_catalog()
        await viewers.publish_part()
        assert viewers.statuses == [200]


async def test_after_a_long_wait_the_catalog_is_asked_once_for_all(tmp_path: Path) -> None:
    async with open_viewers(tmp_path) as viewers:
        for _ in range(5):
            viewers.park()
        viewers.clock.now += 2
        viewers.change(hidden=True)
        queries = viewers.public_records.asked
        await viewers.publish_part()
        await until(lambda: len(viewers.answers) == 5)
        assert viewers.statuses == [503] * 5
        assert viewers.public_records.asked == queries + 1


async def test_waiting_viewers_are_answered_while_the_catalog_is_unavailable(
    tmp_path: Path,
) -> None:
    async with open_viewers(tmp_path) as viewers:
        viewers.park()
        viewers.clock.now += 5
        viewers.public_records.broken = True
        await viewers.publish_part()
        await until(lambda: bool(viewers.answers))
        assert viewers.statuses == [200]


async def test_a_viewer_that_left_during_the_catalogs_query_is_not_called(tmp_path: Path) -> None:
    async with open_viewers(tmp_path) as viewers:
        leaving = viewers.park()
        viewers.park()
        viewers.clock.now += 2
        await viewers.publish_part()
        leaving.cancel()
        await until(lambda: bool(viewers.answers))
        assert viewers.statuses == [200]


async def test_the_end_of_the_run_answers_with_what_is_there(tmp_path: Path) -> None:
    async with open_viewers(tmp_path) as viewers:
        viewers.park()
        viewers.timeline = viewers.timeline.close("0.m4s", PARTS).end()
        await viewers.show()
        assert viewers.statuses == [200]
        assert viewers.answers[0].body.rstrip().endswith(b"#EXT-X-ENDLIST")
        late = viewers.origin.fast_path("GET", f"{PLAYLIST}?_HLS_msn=9", [], "RO")
        assert isinstance(late, HttpResponse)
        assert late.status == 200


async def test_requests_for_a_removed_run_are_answered_at_once(tmp_path: Path) -> None:
    async with open_viewers(tmp_path) as viewers:
        viewers.park()
        await viewers.edge.drop_folder(FOLDER)
        assert viewers.statuses == [503]


async def test_a_hinted_part_that_does_not_come_in_time_may_be_asked_for_again(
    tmp_path: Path,
) -> None:
    async with open_viewers(tmp_path, MemoryEdge(wait_seconds=0)) as viewers:
        viewers.hint()
        await viewers.show()
        viewers.park(path=f"/{FOLDER}/720p/0.1.m4s", query="")
        await until(lambda: bool(viewers.answers))
        assert viewers.statuses == [503]
        assert viewers.public_records.asked == 1


async def test_a_hinted_part_that_the_run_ended_without_is_not_found(tmp_path: Path) -> None:
    async with open_viewers(tmp_path) as viewers:
        viewers.hint()
        await viewers.show()
        viewers.park(path=f"/{FOLDER}/720p/0.1.m4s", query="")
        viewers.timeline = viewers.timeline.close("0.m4s", PARTS).end()
        await viewers.show()
        assert viewers.statuses == [404]


@pytest.mark.parametrize("query", ["_HLS_msn=999999999999", "_HLS_msn=0&_HLS_part=999999999999"])
async def test_a_request_too_far_ahead_is_refused_at_once(tmp_path: Path, query: str) -> None:
    async with open_viewers(tmp_path) as viewers:
        answer = viewers.origin.fast_path("GET", f"{PLAYLIST}?{query}", [], "RO")
        assert isinstance(answer, HttpResponse)
        assert answer.status == 400
        assert viewers.edge.waiting == 0


class FaultyEdge(MemoryEdge):
    """An edge with a bug: delta updates cannot be rendered."""

    def local_playlist(
        self, address: str, *, low_latency: bool = False, skip: bool = False
    ) -> CachedPlaylist | None:
        if skip:
            raise ValueError("a mistake of ours")
        return super().local_playlist(address, low_latency=low_latency, skip=skip)


async def test_a_failing_answer_affects_neither_others_nor_the_publication(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_viewers(tmp_path, FaultyEdge()) as viewers:
        viewers.park(query=f"{NEXT}&_HLS_skip=YES")
        viewers.park()
        await viewers.publish_part()
        assert viewers.statuses == [500, 200]
    assert [each.message for each in caplog.records] == ["request failed"]
