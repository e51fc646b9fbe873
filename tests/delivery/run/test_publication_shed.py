"""A run whose engine sheds a rung: its playlist lists the media of another one meanwhile."""

from pathlib import Path

import msgspec
import pytest

from delivery.run.publication import Publication
from delivery.run.run_store import newest_run, read_steps
from media.hls.segment import GapStart, Part, SegmentStart
from media.run_policy import DEFAULTS
from tests.support.storage.engine_reports import (
    HASH,
    LOW,
    NOON_US,
    RUN,
    TOP,
    WINDOW,
    PublicationFixture,
    Report,
    ReportMaker,
    append_all,
    begin_epoch,
    on_disk,
    resume_run,
    variants,
)


@pytest.fixture
def fixture(tmp_path: Path) -> PublicationFixture:
    return PublicationFixture(tmp_path)


def text(fixture: PublicationFixture, name: str) -> list[str]:
    """Return the lines of a playlist at the edge, with the parts."""
    address = f"live/{HASH}/{RUN}/{name}/index.m3u8"
    playlist = fixture.edge.local_playlist(address, low_latency=True)
    assert playlist is not None
    return playlist.body.decode().splitlines()


def heights(fixture: PublicationFixture) -> list[int]:
    return [variant.height for variant in variants(fixture.disk).variants]


def rates(fixture: PublicationFixture) -> list[tuple[str, int, int | None]]:
    return [(each.uri, each.bandwidth, each.average) for each in variants(fixture.disk).variants]


def stored(fixture: PublicationFixture, name: str, file: str) -> bytes:
    return fixture.disk.path(f"live/{HASH}/{RUN}/{name}/{file}").read_bytes()


async def test_a_rung_that_is_shed_lists_the_media_of_another_until_it_returns(
    fixture: PublicationFixture,
) -> None:
    publication, maker = await fixture.begin(TOP, LOW)
    for shed in ((), (LOW.name,), (LOW.name,), (), ()):
        await append_all(publication, maker.step(shed=shed))
        await fixture.same_everywhere()
    low = on_disk(fixture.disk, LOW.name).segments
    assert not any(one.gap or one.discontinuity for one in low)
    assert [one.uri for one in low] == [f"{number}.m4s" for number in range(5)]
    assert [one.map_uri for one in low] == [
        *("init-0.mp4",), *("init-1.mp4",) * 2, *("init-2.mp4",) * 2,
    ]  # fmt: skip
    assert stored(fixture, LOW.name, "init-1.mp4") == stored(fixture, TOP.name, "init-0.mp4")
    assert stored(fixture, LOW.name, "init-2.mp4") == stored(fixture, LOW.name, "init-0.mp4")
    for number in (1, 2):
        media = stored(fixture, LOW.name, f"{number}.m4s")
        assert media == stored(fixture, TOP.name, f"{number}.m4s")
    run = await newest_run(fixture.disk, HASH)
    assert run is not None
    steps = await read_steps(fixture.disk, run, 0)
    assert [step.lacking for step in steps] == [set(), {LOW.name}, {LOW.name}, set(), set()]
    assert not any(step.gaps for step in steps)


async def test_no_player_begins_with_a_rung_that_borrows_and_its_rates_stay(
    fixture: PublicationFixture,
) -> None:
    publication, maker = await fixture.begin(TOP, LOW)
    sizes = {TOP.name: 900_000, LOW.name: 90_000, "audio": 30_000}
    for _ in range(3):
        await append_all(publication, maker.step(size=sizes))
    before = rates(fixture)
    for _ in range(3):
        await append_all(publication, maker.step(size=sizes, shed=(LOW.name,)))
        assert heights(fixture) == [TOP.height]
    await append_all(publication, maker.step(size=sizes))
    assert rates(fixture) == before


async def test_parts_and_hints_of_a_rung_that_is_shed_come_with_those_of_its_lender(
    fixture: PublicationFixture,
) -> None:
    publication, maker = await fixture.begin(TOP, LOW)
    await append_all(publication, maker.step())
    reports = maker.step(shed=(LOW.name,))
    gaps = [each for each in reports if isinstance(each, GapStart)]
    begun = [each for each in reports if isinstance(each, SegmentStart | Part)]
    await append_all(publication, [*gaps, *(each for each in begun if each.rendition == TOP.name)])

    def tail(name: str) -> list[str]:
        lines = text(fixture, name)
        parts = [each for each in lines if each.startswith(("#EXT-X-PART:", "#EXT-X-PRELOAD"))]
        return parts[-3:]

    # The first part has another init section, so it does not have the name of its hint.
    expected = [line.replace('"0.2.m4s"', '"1.0.m4s"') for line in tail(TOP.name)]
    assert tail(LOW.name) == expected
    assert 'URI="1.1.m4s"' in tail(LOW.name)[1]
    assert '#EXT-X-MAP:URI="init-1.mp4"' in text(fixture, LOW.name)
    part = fixture.edge.local_part(f"live/{HASH}/{RUN}/{LOW.name}/1.0.m4s")
    assert part == fixture.edge.local_part(f"live/{HASH}/{RUN}/{TOP.name}/0.2.m4s") is not None


async def shed_in_the_middle(fixture: PublicationFixture, *, low_latency: bool) -> Publication:
    """Shed a rung after the first part of segment 1, and make it again in segment 3."""
    publication = await Publication.open(
        fixture.objects,
        fixture.edge,
        hash=HASH,
        now_us=NOON_US,
        window=WINDOW,
        policy=msgspec.structs.replace(DEFAULTS, latency="low" if low_latency else "normal"),
        clock=fixture.clock,
    )
    maker = ReportMaker(TOP, LOW)
    await begin_epoch(publication, maker)
    await append_all(publication, maker.step())
    whole: list[Report] = ReportMaker(TOP, LOW).step()
    begun = [
        *(each for each in whole if isinstance(each, SegmentStart) and each.rendition == LOW.name),
        *(each for each in whole if isinstance(each, Part) and each.rendition == LOW.name),
    ]
    shed = maker.step(shed=(LOW.name,))
    first = [_numbered(each, 1) for each in begun[:2]]
    await append_all(publication, [*first, *shed])
    await append_all(publication, maker.step(shed=(LOW.name,)))
    await append_all(publication, maker.step())
    return publication


def _numbered(report: Report, sequence: int) -> Report:
    match report:
        case SegmentStart(start=start):
            return SegmentStart(
                rendition=LOW.name,
                sequence=sequence,
                epoch=0,
                start=start + 180_000,
                init=0,
                discontinuity=False,
            )
        case Part(duration=duration, data=data):
            return Part(
                rendition=LOW.name,
                sequence=sequence,
                index=0,
                duration=duration,
                independent=True,
                data=data,
            )
        case _:
            return report


async def test_a_segment_that_was_begun_is_a_gap_where_its_parts_are_listed(
    fixture: PublicationFixture,
) -> None:
    await shed_in_the_middle(fixture, low_latency=True)
    assert fixture.gaps(LOW.name) == [1]
    assert [one.map_uri for one in on_disk(fixture.disk, LOW.name).segments] == [
        "init-0.mp4",
        None,
        "init-1.mp4",
        "init-2.mp4",
    ]


async def test_a_segment_that_was_begun_is_replaced_where_nobody_has_seen_it(
    fixture: PublicationFixture,
) -> None:
    await shed_in_the_middle(fixture, low_latency=False)
    assert fixture.gaps(LOW.name) == []
    assert [one.map_uri for one in on_disk(fixture.disk, LOW.name).segments] == [
        "init-0.mp4",
        *("init-1.mp4",) * 2,
        "init-2.mp4",
    ]
    assert stored(fixture, LOW.name, "1.m4s") == stored(fixture, TOP.name, "1.m4s")


async def test_a_run_is_resumed_while_a_rung_borrows(fixture: PublicationFixture) -> None:
    publication, maker = await fixture.begin(TOP, LOW)
    await append_all(publication, [*maker.step(), *maker.step(shed=(LOW.name,))])
    again = await resume_run(fixture.objects, fixture.edge, fixture.clock)
    assert again is not None
    assert heights(fixture) == [TOP.height]
    assert again.next_inits[LOW.name] == 2
    second = ReportMaker.continuing(again, salt="second")
    await begin_epoch(again, second)
    await append_all(again, second.step(discontinuity=True, shed=(LOW.name,)))
    await append_all(again, second.step())
    assert fixture.gaps(LOW.name) == [2], "of what may have been begun before the restart"
    assert heights(fixture) == [TOP.height, LOW.height]


async def test_init_sections_of_a_long_loan_go_with_its_segments(
    fixture: PublicationFixture,
) -> None:
    publication, maker = await fixture.begin(TOP, LOW)
    await append_all(publication, maker.step())
    for shed in (*((LOW.name,),) * 20, *((),) * 20):
        await append_all(publication, maker.step(shed=shed))
        fixture.clock.now += 2.0
    folder = fixture.disk.path(f"live/{HASH}/{RUN}/{LOW.name}")
    assert [path.name for path in folder.glob("init*")] == ["init-2.mp4"]
