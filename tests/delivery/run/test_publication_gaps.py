"""A run whose engine leaves rungs out for a while."""

import msgspec
import pytest

from delivery.run.step_builder import PublicationError
from media.hls.segment import Segment
from media.ladder import AUDIO_RENDITION
from tests.support.storage.engine_reports import (
    HASH,
    LOW,
    NOON_US,
    RUN,
    TOP,
    PublicationFixture,
    ReportMaker,
    append_all,
    begin_epoch,
    named_addresses,
    on_disk,
    resume_run,
    variants,
)


def heights(publication_fixture: PublicationFixture) -> list[int]:
    return [variant.height for variant in variants(publication_fixture.disk).variants]


async def test_a_rung_that_goes_and_returns_is_a_gap_and_no_discontinuity(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    for gaps in ((), ("720p",), ("720p",), ()):
        await append_all(publication, maker.step(gaps=gaps))
        await publication_fixture.same_everywhere()
    assert publication_fixture.gaps("720p") == [1, 2]
    assert publication_fixture.gaps("360p") == publication_fixture.gaps("audio") == []
    top = on_disk(publication_fixture.disk, "720p").segments
    assert [one.uri for one in top] == ["0.m4s", "1.m4s", "2.m4s", "3.m4s"]
    assert [one.duration for one in top] == [180_000] * 4
    assert not any(one.discontinuity for one in top)
    # Segments that viewers may request exist, and gaps do not.
    folder = publication_fixture.disk.path(f"live/{HASH}/{RUN}/720p")
    assert sorted(path.name for path in folder.glob("*.m4s")) == ["0.m4s", "3.m4s"]


async def test_only_rungs_that_are_there_are_variants(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    variant_heights: list[list[int]] = []
    for gaps in (("720p",), (), ("360p",), ("720p",), ()):
        await append_all(publication, maker.step(gaps=gaps))
        variant_heights.append(heights(publication_fixture))
    assert variant_heights == [[360], [720, 360], [720], [360], [720, 360]]


async def test_the_variants_tell_the_same_of_a_rung_that_was_away(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    for _ in range(3):
        await append_all(publication, maker.step(size=500_000))
    before = variants(publication_fixture.disk)
    for _ in range(20):  # longer than the window
        await append_all(publication, maker.step(size=500_000, gaps=("720p",)))
        publication_fixture.clock.now += 2.0
    assert heights(publication_fixture) == [360]
    await append_all(publication, maker.step(size=500_000))
    assert variants(publication_fixture.disk) == before


async def test_the_variants_are_published_together_with_the_step(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    top: list[bool] = []
    for gaps in ((), (), ("720p",), ("720p",), (), ()):
        published = len(publication_fixture.edge.published)
        await append_all(publication, maker.step(gaps=gaps))
        top.append(
            any(
                f"live/{HASH}/index.m3u8" in texts
                for texts in publication_fixture.edge.published[published:]
            )
        )
    assert top == [True, False, True, False, True, False]


async def test_a_rung_returns_with_the_init_section_that_it_had(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    await append_all(publication, maker.step())
    for _ in range(40):
        await append_all(publication, maker.step(gaps=("720p",)))
        publication_fixture.clock.now += 2.0
    folder = publication_fixture.disk.path(f"live/{HASH}/{RUN}/720p")
    assert not list(folder.glob("*.m4s"))
    await append_all(publication, maker.step())
    (*gaps, last) = on_disk(publication_fixture.disk, "720p").segments
    assert all(one.gap and one.map_uri is None for one in gaps)
    assert last.map_uri == "init-0.mp4"
    assert (folder / "init-0.mp4").read_bytes() == b"init 720p 0 "


async def test_older_init_sections_go_and_numbers_are_used_once_over_a_long_gap(
    publication_fixture: PublicationFixture,
) -> None:
    publication = await publication_fixture.open()
    maker = ReportMaker(TOP, LOW)
    for epoch in range(3):
        maker.epoch = epoch
        await begin_epoch(publication, maker)
        await append_all(publication, maker.step(discontinuity=epoch > 0))
    for _ in range(40):
        await append_all(publication, maker.step(gaps=("720p",)))
        publication_fixture.clock.now += 2.0
    folder = publication_fixture.disk.path(f"live/{HASH}/{RUN}/720p")
    assert [path.name for path in folder.glob("init*")] == ["init-2.mp4"]
    # After a restart only the notes name the init section.
    again = await resume_run(
        publication_fixture.objects, publication_fixture.edge, publication_fixture.clock
    )
    assert again is not None
    assert again.next_inits == {"720p": 3, "360p": 3, "audio": 3}
    # The new engine does not make the rung at first, and says that it has no init section.
    second = ReportMaker.continuing(again, salt="second")
    await again.prepare(second.epoch, second.renditions, NOON_US)
    await append_all(again, second.begin("360p", "audio"))
    for number in range(20):
        step = second.step(gaps=("720p",), discontinuity=number == 0)
        unknown = [
            msgspec.structs.replace(one, init=0) if isinstance(one, Segment) and one.gap else one
            for one in step
        ]
        await append_all(again, unknown)
        publication_fixture.clock.now += 2.0
    third = await resume_run(
        publication_fixture.objects, publication_fixture.edge, publication_fixture.clock
    )
    assert third is not None
    assert third.next_inits["720p"] == 3


async def test_a_rung_that_was_never_made_has_a_playlist_of_gaps(
    publication_fixture: PublicationFixture,
) -> None:
    publication = await publication_fixture.open()
    maker = ReportMaker(TOP, LOW)
    await publication.prepare(0, maker.renditions, NOON_US)
    await append_all(publication, maker.begin("360p", "audio"))
    await append_all(publication, [*maker.step(gaps=("720p",)), *maker.step(gaps=("720p",))])
    address = f"live/{HASH}/{RUN}/720p/index.m3u8"
    text = publication_fixture.disk.path(address).read_text()
    assert "EXT-X-MAP" not in text
    assert named_addresses(address, text) == ()
    assert heights(publication_fixture) == [360]
    await publication_fixture.same_everywhere()


async def test_a_step_without_a_picture_is_a_gap_in_all_rungs_and_the_variants_stay(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    await append_all(publication, maker.step(gaps=("360p",)))
    await append_all(publication, maker.step(gaps=("720p", "360p")))
    assert heights(publication_fixture) == [720]
    assert publication_fixture.uris("audio") == ["0.m4s", "1.m4s"]
    await append_all(publication, maker.step(gaps=("360p",)))
    assert publication_fixture.uris("audio") == ["0.m4s", "1.m4s", "2.m4s"]
    assert publication_fixture.gaps("audio") == []
    assert publication_fixture.gaps("720p") == [1]
    assert not any(one.discontinuity for one in on_disk(publication_fixture.disk, "audio").segments)
    assert heights(publication_fixture) == [720]


async def test_a_run_that_begins_without_a_picture_is_announced_with_the_first_one(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    await append_all(publication, maker.step(gaps=("720p", "360p")))
    assert not publication.is_playable
    await append_all(publication, maker.step())
    playlist = on_disk(publication_fixture.disk, "720p")
    assert publication.is_playable
    assert (playlist.sequence, publication_fixture.uris("audio")) == (0, ["0.m4s", "1.m4s"])
    assert publication_fixture.gaps("720p") == [0]
    assert not any(one.discontinuity for one in playlist.segments)
    await publication_fixture.same_everywhere()


async def test_sound_that_is_missing_is_a_gap_and_stays_announced(
    publication_fixture: PublicationFixture,
) -> None:
    publication = await publication_fixture.open()
    maker = ReportMaker(TOP, LOW)
    await publication.prepare(0, maker.renditions, NOON_US)
    await append_all(publication, maker.begin("720p", "360p"))
    await append_all(publication, maker.step(gaps=(AUDIO_RENDITION,)))
    assert publication_fixture.gaps("audio") == [0]
    (first, _) = variants(publication_fixture.disk).variants
    assert first.codecs == ("avc1.64001F",)
    await append_all(publication, maker.begin("audio"))
    await append_all(publication, maker.step())
    (first, _) = variants(publication_fixture.disk).variants
    assert first.codecs == ("avc1.64001F", "mp4a.40.2")
    assert len(variants(publication_fixture.disk).sounds) == 1


async def test_a_run_with_gaps_is_whole_and_continues_after_a_restart(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    await append_all(publication, [*maker.step(), *maker.step(gaps=("720p",))])
    again = await resume_run(
        publication_fixture.objects, publication_fixture.edge, publication_fixture.clock
    )
    assert again is not None
    assert heights(publication_fixture) == [360]
    assert publication_fixture.gaps("720p") == [1, 2]  # the second may have been begun
    assert publication_fixture.gaps("360p") == [2]
    await publication_fixture.same_everywhere()


async def test_a_gap_that_has_media_is_the_engines_fault(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP)
    (gap, *_) = maker.step(gaps=("720p",))
    assert isinstance(gap, Segment)
    with pytest.raises(PublicationError, match="not its parts"):
        await publication.append(msgspec.structs.replace(gap, size=1))
    with pytest.raises(PublicationError, match="unknown source or init section"):
        await publication.append(msgspec.structs.replace(gap, epoch=7))
