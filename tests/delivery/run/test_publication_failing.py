"""A run whose disk fills up, or whose engine says what does not fit."""

import pytest

from delivery.run.step_builder import PublicationError
from tests.support.storage.engine_reports import (
    HASH,
    LOW,
    NOON_US,
    RUN,
    TOP,
    PublicationFixture,
    ReportMaker,
    append_all,
    append_until_full,
    begin_epoch,
    on_disk,
    resume_run,
    variants,
)


@pytest.mark.parametrize(
    ("lost", "failures"),
    [
        pytest.param(("/1.m4s",), 3, id="nothing is stored"),
        pytest.param(("720p/1.m4s", "360p/1.m4s"), 2, id="only the sound is stored"),
        pytest.param(("/state.json",), 1, id="the notes are not stored"),
        pytest.param(("720p/1.m4s", "/state.json"), 2, id="neither a rung nor the notes are"),
    ],
)
async def test_a_step_that_could_not_be_stored_keeps_its_number_and_the_run_continues(
    publication_fixture: PublicationFixture, lost: tuple[str, ...], failures: int
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    await append_all(publication, maker.step())
    publication_fixture.objects.full = set(lost)
    assert await append_until_full(publication, maker.step()) == failures
    assert publication.next_sequence == 2
    publication_fixture.objects.full = set()
    await append_all(publication, [*maker.step(), *maker.step()])
    assert publication_fixture.uris("360p") == ["0.m4s", "1.m4s", "2.m4s", "3.m4s"]
    segments = on_disk(publication_fixture.disk, "audio").segments
    assert not any(segment.discontinuity for segment in segments)
    for name in ("720p", "360p", "audio"):
        address = f"live/{HASH}/{RUN}/{name}/1.m4s"
        unstored = any(address.endswith(end) for end in lost)
        assert publication_fixture.gaps(name) == ([1] if unstored else [])
        assert publication_fixture.disk.path(address).exists() is not unstored
        # Viewers have it from memory.
        assert (await publication_fixture.edge.get_part(address) is not None) is unstored
    await publication_fixture.same_everywhere()


@pytest.mark.parametrize("name", ["720p", "360p", "audio"])
async def test_a_segment_that_could_not_be_stored_is_a_gap_of_its_rendition_alone(
    publication_fixture: PublicationFixture, name: str
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    await append_all(publication, maker.step())
    publication_fixture.objects.full = {f"{name}/1.m4s"}
    assert await append_until_full(publication, maker.step()) == 1
    await append_all(publication, maker.step())
    for each in ("720p", "360p", "audio"):
        assert publication_fixture.uris(each) == ["0.m4s", "1.m4s", "2.m4s"]
        assert publication_fixture.gaps(each) == ([1] if each == name else [])
        segments = on_disk(publication_fixture.disk, each).segments
        assert not any(segment.discontinuity for segment in segments)
    await publication_fixture.same_everywhere()


async def test_in_a_run_of_sound_alone_a_step_that_could_not_be_stored_is_a_gap(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin()
    await append_all(publication, maker.step())
    publication_fixture.objects.full = {"audio/1.m4s"}
    assert await append_until_full(publication, maker.step()) == 1
    await append_all(publication, maker.step())
    segments = on_disk(publication_fixture.disk, "audio").segments
    assert [(one.uri, one.gap, one.discontinuity) for one in segments] == [
        ("0.m4s", False, False),
        ("1.m4s", True, False),
        ("2.m4s", False, False),
    ]


async def test_a_rendition_whose_init_section_found_no_room_is_a_gap_until_it_does(
    publication_fixture: PublicationFixture,
) -> None:
    publication = await publication_fixture.open()
    maker = ReportMaker(TOP, LOW)
    publication_fixture.objects.full = {"720p/init-0.mp4"}
    await publication.prepare(0, maker.renditions, NOON_US)
    assert await append_until_full(publication, maker.begin()) == 1
    for _ in range(2):
        assert await append_until_full(publication, maker.step()) == 1
    assert publication_fixture.gaps("720p") == [0, 1]
    assert [one.height for one in variants(publication_fixture.disk).variants] == [360]
    publication_fixture.objects.full = set()
    await append_all(publication, maker.step())
    assert publication_fixture.gaps("720p") == [0, 1]
    assert on_disk(publication_fixture.disk, "720p").segments[2].map_uri == "init-0.mp4"
    assert [one.height for one in variants(publication_fixture.disk).variants] == [720, 360]
    await publication_fixture.same_everywhere()


@pytest.mark.parametrize("full", ["/state.json", ".m3u8", ".m4s", ""])
async def test_what_left_the_playlists_is_deleted_while_nothing_can_be_stored(
    publication_fixture: PublicationFixture, full: str
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    for _ in range(20):
        await append_all(publication, maker.step())
        publication_fixture.clock.now += 2.0
    folder = publication_fixture.disk.path(f"live/{HASH}/{RUN}/720p")
    listed = {segment.uri for segment in on_disk(publication_fixture.disk, "720p").segments}
    assert {path.name for path in folder.glob("*.m4s")} > listed
    publication_fixture.objects.full = {full}
    for _ in range(10):
        assert await append_until_full(publication, maker.step()) > 0
        publication_fixture.clock.now += 2.0
    names = {path.name for path in folder.glob("*.m4s")}
    listed = {one.uri for one in on_disk(publication_fixture.disk, "720p").segments if not one.gap}
    assert names >= listed
    old = {f"{number}.m4s" for number in range(14)}  # they had left the playlists before
    assert names & old == set()
    if full in {".m4s", ""}:  # nothing new came
        assert names <= {f"{number}.m4s" for number in range(20)}
    publication_fixture.objects.full = set()
    await append_all(publication, maker.step())
    await publication_fixture.same_everywhere()


async def test_after_a_restart_on_a_full_disk_room_is_made_without_a_single_write(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    for _ in range(20):
        await append_all(publication, maker.step())
        publication_fixture.clock.now += 2.0
    publication_fixture.objects.full = {""}
    again = await resume_run(
        publication_fixture.objects, publication_fixture.edge, publication_fixture.clock
    )
    assert again is not None
    second = ReportMaker.continuing(again, salt="again")
    await again.prepare(second.epoch, second.renditions, NOON_US)
    await append_until_full(again, second.begin())
    folder = publication_fixture.disk.path(f"live/{HASH}/{RUN}/720p")
    listed = set(publication_fixture.uris("720p"))
    counts: list[int] = []
    for _ in range(10):
        await append_until_full(again, second.step(discontinuity=True))
        counts.append(len({path.name for path in folder.glob("*.m4s")} - listed))
        publication_fixture.clock.now += 2.0
    # All kept segments expire in time. Only the step that left last stays: as far as the notes
    # tell, playlists that were not replaced may still name it.
    assert counts == [8] * 8 + [1] * 2
    assert {path.name for path in folder.glob("*.m4s")} >= listed


async def test_a_run_ends_at_the_edge_and_the_next_one_ends_it_on_disk(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    await append_all(publication, maker.step())
    publication_fixture.objects.full = {""}
    await publication.finish()
    text = publication_fixture.edge.local_playlist(f"live/{HASH}/{RUN}/720p/index.m3u8")
    assert text is not None
    assert text.body.endswith(b"#EXT-X-ENDLIST\n")
    assert not on_disk(publication_fixture.disk, "720p").ended
    await publication_fixture.open(NOON_US + 60_000_000)
    assert not on_disk(publication_fixture.disk, "720p").ended
    publication_fixture.objects.full = set()
    await publication_fixture.open(NOON_US + 120_000_000)
    assert on_disk(publication_fixture.disk, "720p").ended


async def test_a_run_is_resumed_on_a_full_disk(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    await append_all(publication, maker.step())
    publication_fixture.objects.full = {".m3u8"}
    assert await append_until_full(publication, maker.step()) == 1
    publication_fixture.objects.full = {""}
    again = await resume_run(
        publication_fixture.objects, publication_fixture.edge, publication_fixture.clock
    )
    assert again is not None
    assert again.next_sequence == 3  # the second may have been begun
    text = publication_fixture.edge.local_playlist(f"live/{HASH}/{RUN}/720p/index.m3u8")
    assert text is not None
    assert b"\n1.m4s\n" in text.body
    assert publication_fixture.uris("720p") == ["0.m4s"]
    publication_fixture.objects.full = set()
    second = ReportMaker.continuing(again, salt="again")
    await begin_epoch(again, second)
    await append_all(again, second.step(discontinuity=True))
    assert publication_fixture.uris("720p") == ["0.m4s", "1.m4s", "2.m4s", "3.m4s"]
    assert publication_fixture.gaps("720p") == [2]
    await publication_fixture.same_everywhere()


async def test_an_init_section_that_found_no_room_is_stored_with_its_first_segment(
    publication_fixture: PublicationFixture,
) -> None:
    publication = await publication_fixture.open()
    maker = ReportMaker(TOP)
    await publication.prepare(0, maker.renditions, NOON_US)
    publication_fixture.objects.full = {"720p/init-0.mp4"}
    sections = list(maker.begin())
    assert await append_until_full(publication, sections) == 1
    publication_fixture.objects.full = set()
    await append_all(publication, maker.step())
    assert publication_fixture.uris("720p") == ["0.m4s"]


async def test_playlists_that_find_no_room_are_still_published_at_the_edge(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    await append_all(publication, maker.step())
    publication_fixture.objects.full = {"audio/index.m3u8"}
    assert await append_until_full(publication, maker.step()) == 1
    text = publication_fixture.edge.local_playlist(f"live/{HASH}/{RUN}/audio/index.m3u8")
    assert text is not None
    assert b"\n1.m4s\n" in text.body
    publication_fixture.objects.full = set()
    await append_all(publication, maker.step())
    assert publication_fixture.uris("audio") == ["0.m4s", "1.m4s", "2.m4s"]
    await publication_fixture.same_everywhere()


async def test_the_way_to_the_playlists_is_written_as_soon_as_there_is_room(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    top = f"live/{HASH}/index.m3u8"
    publication_fixture.objects.full = {top}
    assert await append_until_full(publication, maker.step()) == 1
    assert publication_fixture.edge.local_playlist(top) is not None
    publication_fixture.objects.full = set()
    await append_all(publication, maker.step())
    assert variants(publication_fixture.disk).variants[0].uri.startswith(RUN)


async def test_reports_that_do_not_fit_are_the_engines_fault(
    publication_fixture: PublicationFixture,
) -> None:
    publication = await publication_fixture.open()
    maker = ReportMaker(TOP)
    sections = list(maker.begin())
    start, part, other, segment, *_ = maker.step()
    with pytest.raises(PublicationError, match="not prepared"):
        await publication.append(sections[0])
    await publication.prepare(0, maker.renditions, NOON_US)
    with pytest.raises(PublicationError, match="unknown source or init section"):
        await publication.append(start)
    await append_all(publication, sections)
    with pytest.raises(PublicationError, match=r"part 0\.0 of"):
        await publication.append(part)
    await publication.append(start)
    with pytest.raises(PublicationError, match="two segments at once"):
        await publication.append(start)
    with pytest.raises(PublicationError, match=r"part 0\.1 of"):
        await publication.append(other)
    await publication.append(part)
    with pytest.raises(PublicationError, match="not its parts"):
        await publication.append(segment)
    await append_all(publication, [other, segment])
    with pytest.raises(PublicationError, match="too late"):
        await publication.append(segment)
    maker.step()
    with pytest.raises(PublicationError, match="does not follow the previous one"):
        await publication.append(maker.step()[0])


async def test_a_run_keeps_its_renditions(publication_fixture: PublicationFixture) -> None:
    publication = await publication_fixture.open()
    await publication.prepare(0, (LOW,), NOON_US)  # no viewer has seen anything yet
    maker = ReportMaker(TOP, LOW)
    await begin_epoch(publication, maker)
    await append_all(publication, maker.step())
    with pytest.raises(PublicationError, match="keeps its renditions"):
        await publication.prepare(1, (TOP,), NOON_US)
    assert publication.renditions == (TOP, LOW)
