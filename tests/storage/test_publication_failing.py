"""A run whose disk fills up, or whose engine says what does not fit."""

import asyncio
from pathlib import Path

import pytest

from storage.objects.base import StoreFull
from storage.publication import PublicationError
from tests.storage.runmaker import (
    HASH,
    LOW,
    NOON_US,
    RUN,
    TOP,
    Stage,
    Studio,
    begin,
    on_disk,
    take,
    variants,
)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.mark.parametrize("lost", ["/1.m4s", "/state.json", "360p/1.m4s", "audio/1.m4s"])
def test_a_step_that_could_not_be_stored_is_not_listed_and_the_run_goes_on(
    stage: Stage, lost: str
) -> None:
    async def go() -> None:
        publication = await stage.open()
        studio = Studio(TOP, LOW)
        await begin(publication, studio)
        await take(publication, studio.step())
        stage.objects.full = {lost}
        failures = 0
        for report in studio.step():
            try:
                await publication.take(report)
            except StoreFull:
                failures += 1
        assert failures == (3 if lost == "/1.m4s" else 1)
        assert publication.next_sequence == 2
        stage.objects.full = set()
        await take(publication, [*studio.step(), *studio.step()])
        assert stage.uris("360p") == ["0.m4s", "2.m4s", "3.m4s"]
        segments = on_disk(stage.disk, "audio").segments
        assert [segment.discontinuity for segment in segments] == [False, True, False]
        assert not stage.disk.path(f"live/{HASH}/{RUN}/720p/1.m4s").exists()
        await stage.same_everywhere()

    asyncio.run(go())


def test_an_init_section_that_found_no_room_is_stored_with_its_first_segment(
    stage: Stage,
) -> None:
    async def go() -> None:
        publication = await stage.open()
        studio = Studio(TOP)
        await publication.prepare(0, studio.renditions, NOON_US)
        stage.objects.full = {"720p/init-0.mp4"}
        sections = list(studio.begin())
        with pytest.raises(StoreFull):
            await publication.take(sections[0])
        await publication.take(sections[1])
        stage.objects.full = set()
        await take(publication, studio.step())
        assert stage.uris("720p") == ["0.m4s"]

    asyncio.run(go())


def test_playlists_that_find_no_room_are_still_told_at_the_edge(stage: Stage) -> None:
    async def go() -> None:
        publication = await stage.open()
        studio = Studio(TOP, LOW)
        await begin(publication, studio)
        await take(publication, studio.step())
        stage.objects.full = {"audio/index.m3u8"}
        with pytest.raises(StoreFull):
            await take(publication, studio.step())
        text = await stage.edge.text(f"live/{HASH}/{RUN}/audio/index.m3u8")
        assert text is not None
        assert b"\n1.m4s\n" in text.body
        stage.objects.full = set()
        await take(publication, studio.step())
        assert stage.uris("audio") == ["0.m4s", "1.m4s", "2.m4s"]
        await stage.same_everywhere()

    asyncio.run(go())


def test_the_way_to_the_playlists_is_written_as_soon_as_there_is_room(stage: Stage) -> None:
    async def go() -> None:
        publication = await stage.open()
        studio = Studio(TOP, LOW)
        await begin(publication, studio)
        top = f"live/{HASH}/index.m3u8"
        stage.objects.full = {top}
        with pytest.raises(StoreFull):
            await take(publication, studio.step())
        assert await stage.edge.text(top) is not None
        stage.objects.full = set()
        await take(publication, studio.step())
        assert variants(stage.disk).variants[0].uri.startswith(RUN)

    asyncio.run(go())


def test_reports_that_do_not_fit_are_the_engines_fault(stage: Stage) -> None:
    async def go() -> None:
        publication = await stage.open()
        studio = Studio(TOP)
        sections = list(studio.begin())
        part, other, segment, *_ = studio.step()
        with pytest.raises(PublicationError, match="not prepared"):
            await publication.take(sections[0])
        await publication.prepare(0, studio.renditions, NOON_US)
        with pytest.raises(PublicationError):
            await publication.take(other)
        await publication.take(part)
        with pytest.raises(PublicationError, match="not its parts"):
            await publication.take(segment)
        await take(publication, [part, other])
        with pytest.raises(PublicationError, match="from nowhere"):
            await publication.take(segment)
        await publication.drop_partial()
        await take(publication, [*sections, part, other, segment, part, other])
        with pytest.raises(PublicationError, match="too late"):
            await publication.take(segment)

    asyncio.run(go())


def test_a_run_keeps_its_renditions(stage: Stage) -> None:
    async def go() -> None:
        publication = await stage.open()
        await publication.prepare(0, (LOW,), NOON_US)  # nobody has seen anything yet
        studio = Studio(TOP, LOW)
        await begin(publication, studio)
        await take(publication, studio.step())
        with pytest.raises(PublicationError, match="keeps its renditions"):
            await publication.prepare(1, (TOP,), NOON_US)
        assert publication.renditions == (TOP, LOW)

    asyncio.run(go())
