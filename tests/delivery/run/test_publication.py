"""What viewers are shown of a run, on a real disk."""

import msgspec
import pytest

from delivery.run.publication import Publication
from delivery.run.run_state import LiveWindow
from delivery.run.step_builder import PublicationError
from media.hls import m3u8
from media.hls.playlist import MultivariantPlaylist
from media.hls.segment import InitSection, Part, Segment, SegmentStart
from media.run_policy import DEFAULTS
from tests.support.storage.engine_reports import (
    CODECS,
    HASH,
    LOW,
    NOON_US,
    RUN,
    TOP,
    TWO,
    WINDOW,
    CheckedEdge,
    PublicationFixture,
    ReportMaker,
    append_all,
    append_until_full,
    begin_epoch,
    on_disk,
    variants,
)

NAMES = ("720p", "360p", "audio")
PLAYLIST = f"live/{HASH}/{RUN}/720p/index.m3u8"


async def test_a_step_is_stored_in_all_renditions_at_once_and_only_when_all_have_it(
    publication_fixture: PublicationFixture,
) -> None:
    publication = await publication_fixture.open()
    maker = ReportMaker(TOP, LOW)
    assert (publication.run, publication.next_sequence, publication.end) == (RUN, 0, 0)
    await begin_epoch(publication, maker)
    first = maker.step()
    edge, top = publication_fixture.edge, f"live/{HASH}/index.m3u8"
    for report in first[:-1]:
        await append_all(publication, [report])
        assert not list(publication_fixture.disk.root.rglob("*.m3u8"))
        is_shown = isinstance(report, Part) and report.rendition == "audio"
        assert (edge.local_playlist(top) is not None) is is_shown
        assert edge.local_playlist(f"{top}?latency=normal") is None
        assert publication.end == 0
        assert publication.is_playable is is_shown
    await append_all(publication, first[-1:])
    for name in NAMES:
        assert publication_fixture.uris(name) == ["0.m4s"]
    assert (publication.next_sequence, publication.end) == (1, 1_080_000)
    assert publication.is_playable
    # The media playlists first; then what leads to them.
    announced = [sorted(texts) for texts in publication_fixture.edge.published if texts]
    media = [[f"live/{HASH}/{RUN}/{name}/index.m3u8"] for name in NAMES]
    both = [top, f"{top}?latency=normal"]
    # For low latency by the first part of all renditions, for all by the first segment; then by
    # what is stored.
    assert announced == [*media[:-1], [top], media[-1], both, both]
    await publication_fixture.same_everywhere()


async def test_viewers_get_a_part_and_a_segment_before_anything_is_stored(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    folder = f"live/{HASH}/{RUN}/720p"
    start, first, second, whole, *_ = maker.step()
    await publication.append(start)
    assert publication_fixture.edge.local_playlist(f"{folder}/index.m3u8", low_latency=True) is None
    await publication.append(first)
    playlist = publication_fixture.edge.local_playlist(f"{folder}/index.m3u8", low_latency=True)
    assert playlist is not None
    assert playlist.body.decode().splitlines()[-4:] == [
        '#EXT-X-MAP:URI="init-0.mp4"',
        "#EXT-X-PROGRAM-DATE-TIME:2026-01-31T12:00:00.123Z",
        '#EXT-X-PART:DURATION=1.000000,URI="0.0.m4s",INDEPENDENT=YES',
        '#EXT-X-PRELOAD-HINT:TYPE=PART,URI="0.1.m4s"',
    ]
    assert (
        publication_fixture.edge.local_playlist(f"{folder}/index.m3u8") is None
    )  # no closed segment
    for report in (second, whole):
        await publication.append(report)
    plain = publication_fixture.edge.local_playlist(f"{folder}/index.m3u8")
    assert plain is not None
    assert plain.body.decode().splitlines()[-1] == "0.m4s"
    assert await publication_fixture.edge.get_part(f"{folder}/0.m4s") is not None
    assert not publication_fixture.disk.path(f"{folder}/0.m4s").exists()
    await publication.store_pending()
    assert publication_fixture.disk.path(f"{folder}/0.m4s").is_file()
    assert await publication_fixture.edge.get_part(f"{folder}/0.m4s") is None
    assert await publication_fixture.edge.get_part(f"{folder}/0.1.m4s") is not None


@pytest.mark.parametrize("usual", [TWO, TWO + 1_920], ids=["four parts", "and one of a frame"])
async def test_every_hint_names_the_next_part_however_long_segments_are(
    publication_fixture: PublicationFixture, usual: int
) -> None:
    publication, maker = await publication_fixture.begin(TOP)
    names: list[str] = []
    hints: list[str | None] = []
    for length in (*[usual] * 3, TWO * 8 // 5, TWO // 2, *[usual] * 3):
        for report in maker.step(length, part=TWO // 4):
            await append_all(publication, [report])
            timeline = publication_fixture.edge.timeline(PLAYLIST)
            if report.rendition != "720p" or timeline is None or timeline.newest is None:
                continue
            if isinstance(report, Part):
                names += [part.uri for part in timeline.parts[-1:]]
                hints.append(timeline.hint)
            elif isinstance(report, Segment):
                assert timeline.hint == hints[-1], "also when the segment is closed"
    assert names[1:] == hints[:-1]
    assert len(set(names)) == len(names)
    folder = PLAYLIST.removesuffix("index.m3u8")
    assert await publication_fixture.edge.get_part(folder + names[-1]) is not None


async def test_nothing_is_hinted_where_another_init_section_begins(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP)
    await append_all(publication, maker.step())
    reports = maker.step()
    last = reports.pop(3)
    assert isinstance(last, Segment)
    await append_all(publication, reports[:3])
    before = publication_fixture.edge.timeline(PLAYLIST)
    await append_all(publication, [msgspec.structs.replace(last, followed=False), *reports[3:]])
    closed = publication_fixture.edge.timeline(PLAYLIST)
    await begin_epoch(publication, maker)
    await append_all(publication, maker.step(discontinuity=True)[:2])
    after = publication_fixture.edge.timeline(PLAYLIST)
    assert before is not None
    assert closed is not None
    assert after is not None
    assert (before.hint, closed.hint) == ("1.2.m4s", None)
    assert [part.uri for part in after.parts] == ["2.0.m4s"]
    assert after.hint == "2.1.m4s"
    old_hint = PLAYLIST.replace("index.m3u8", "1.2.m4s")
    assert await publication_fixture.edge.get_part(old_hint) is None


@pytest.mark.parametrize("length", [TWO // 10, TWO, 2 * TWO], ids=str)
async def test_every_listed_part_is_at_the_edge_however_short_segments_are(
    publication_fixture: PublicationFixture, length: int
) -> None:
    publication, maker = await publication_fixture.begin(TOP)
    edge, folder = publication_fixture.edge, PLAYLIST.removesuffix("index.m3u8")
    known: set[str] = set()
    listed: set[str] = set()
    for _ in range(200 if length < TWO else 20):
        await append_all(publication, maker.step(length))
        timeline = edge.timeline(PLAYLIST)
        assert timeline is not None
        listed = {part.uri for part in timeline.listed_parts}
        known |= listed
        assert not [uri for uri in listed if await edge.get_part(folder + uri) is None]
    held = [uri for uri in known if await edge.get_part(folder + uri) is not None]
    # Four seconds longer than they are listed, and what a segment is longer or shorter.
    most = (4 * 90_000 + length) // (length // 2)
    assert len(listed) < len(held) <= len(listed) + most + 2


async def test_a_run_is_announced_by_its_first_parts_whatever_the_store_does(
    publication_fixture: PublicationFixture,
) -> None:
    publication = await publication_fixture.open()
    maker = ReportMaker(TOP, LOW)
    await publication.prepare(0, maker.renditions, NOON_US, reused="720p", part=TWO // 4)
    for report in maker.begin():
        await publication.append(report)
    for report in maker.step(part=TWO // 4, size={"720p": 2_000_000, "360p": 900_000, "audio": 0}):
        if isinstance(report, SegmentStart) or getattr(report, "index", 1) == 0:
            await publication.append(report)
    text = publication_fixture.edge.local_playlist(f"live/{HASH}/index.m3u8")
    assert text is not None
    playlist = m3u8.parse(text.body.decode())
    assert isinstance(playlist, MultivariantPlaylist)
    facts = {
        each.height: (each.bandwidth, each.average, each.frame_rate, each.codecs)
        for each in playlist.variants
    }
    # Half a second of the source, with a margin; the bound and the rate of the encoder. How many
    # frames a second has is unknown.
    assert facts == {
        720: (10_200_000, 8_000_000, 0, (CODECS["720p"], CODECS["audio"])),
        360: (1_150_000, 800_000, 0, (CODECS["360p"], CODECS["audio"])),
    }
    assert not list(publication_fixture.disk.root.rglob("*.m4s")), "nothing is stored"


async def test_renditions_that_run_ahead_wait_for_the_slowest(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    reports = [report for _ in range(3) for report in maker.step()]
    late = [report for report in reports if report.rendition == "360p"]
    await append_all(publication, [report for report in reports if report.rendition != "360p"])
    assert publication.next_sequence == 0
    assert not list(publication_fixture.disk.root.rglob("*.m3u8"))
    for number, report in enumerate(late):
        await append_all(publication, [report])
        assert publication.next_sequence == (number + 1) // 4
    await publication_fixture.same_everywhere()


async def test_a_segment_is_its_parts_joined_and_parts_are_read_by_name_at_the_edge(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP)
    for _ in range(12):
        await append_all(publication, maker.step())
    folder = f"live/{HASH}/{RUN}/720p"
    parts = [
        await publication_fixture.edge.get_part(f"{folder}/{name}.m4s") for name in ("10.2", "11.1")
    ]
    whole = await publication_fixture.objects.get(f"{folder}/11.m4s")
    assert whole == b"".join(part or b"" for part in parts)
    assert await publication_fixture.objects.get(f"{folder}/init-0.mp4") == b"init 720p 0 "
    numbers = [
        n for n in range(12) if await publication_fixture.edge.get_part(f"{folder}/{n}.1.m4s")
    ]
    assert numbers == list(range(4, 12))


async def test_the_window_slides_and_media_stay_for_longer_than_they_are_listed(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    left_at: dict[str, float] = {}
    for _ in range(40):
        before = publication_fixture.uris("720p") if maker.sequence else []
        await append_all(publication, maker.step())
        after = publication_fixture.uris("720p")
        left_at |= dict.fromkeys(set(before) - set(after), publication_fixture.clock.now)
        names = {
            path.name for path in publication_fixture.disk.path(f"live/{HASH}/{RUN}/720p").iterdir()
        }
        assert set(after) <= names
        for uri, left in left_at.items():
            assert (uri in names) == (publication_fixture.clock.now - left < 16.0)
        publication_fixture.clock.now += 2.0
    playlist = on_disk(publication_fixture.disk, "720p")
    assert (len(playlist.segments), playlist.sequence) == (6, 34)
    await publication_fixture.same_everywhere()


async def test_init_sections_go_when_no_segment_on_disk_needs_them(
    publication_fixture: PublicationFixture,
) -> None:
    publication = await publication_fixture.open()
    maker = ReportMaker(TOP)
    for epoch in range(6):
        maker.epoch = epoch
        await begin_epoch(publication, maker)
        for number in range(5):
            await append_all(publication, maker.step(discontinuity=epoch > 0 and number == 0))
            publication_fixture.clock.now += 2.0
    folder = publication_fixture.disk.path(f"live/{HASH}/{RUN}/720p")
    inits = sorted(path.name for path in folder.glob("init-*"))
    needed = {f"init-{int(path.stem) // 5}.mp4" for path in folder.glob("*.m4s")}
    assert set(inits) == needed
    assert len(inits) < 6
    assert publication.next_inits == {"720p": 6, "audio": 6}


async def test_a_new_source_is_a_discontinuity_everywhere_and_has_its_own_wall_clock(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    await append_all(publication, [*maker.step(), *maker.step()])
    maker.epoch = 1
    maker.start += 45_000  # the output clock continues through a hole
    await begin_epoch(publication, maker, NOON_US + 60_000_000)
    await append_all(publication, [*maker.step(discontinuity=True), *maker.step()])
    segments = on_disk(publication_fixture.disk, "360p").segments
    assert [segment.discontinuity for segment in segments] == [False, False, True, False]
    assert [segment.map_uri for segment in segments] == ["init-0.mp4"] * 2 + ["init-1.mp4"] * 2
    walls = [(segment.wall_us or 0) - NOON_US for segment in segments]
    assert walls == [0, 2_000_000, 60_000_000, 62_000_000]
    assert publication.epochs == 2
    await publication_fixture.same_everywhere()


async def test_times_follow_each_renditions_own_first_sample(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP)
    for report in maker.step():
        if isinstance(report, Segment | SegmentStart) and report.rendition == "audio":
            late = msgspec.structs.replace(report, start=report.start + 900)
            await append_all(publication, [late])
        else:
            await append_all(publication, [report])
    (picture,) = on_disk(publication_fixture.disk, "720p").segments
    (sound,) = on_disk(publication_fixture.disk, "audio").segments
    assert (picture.wall_us, sound.wall_us) == (NOON_US, NOON_US + 10_000)


async def test_a_dead_engines_segments_are_closed_and_the_next_continues_the_numbers(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    await append_all(publication, maker.step())
    await append_all(publication, maker.step()[:6])  # one segment, and a part of another
    await publication.close_open()
    await publication.store_pending()
    assert (publication.next_sequence, publication.epochs) == (2, 1)
    second = ReportMaker.continuing(publication, salt="again")
    assert (second.start, second.inits["720p"]) == (1_260_000, 1)
    await begin_epoch(publication, second)
    await append_all(publication, second.step(discontinuity=True))
    for name in NAMES:
        assert publication_fixture.uris(name) == ["0.m4s", "1.m4s", "2.m4s"]
        marks = [one.discontinuity for one in on_disk(publication_fixture.disk, name).segments]
        assert marks == [False, False, True]
    data = await publication_fixture.objects.get(f"live/{HASH}/{RUN}/360p/1.m4s")
    assert data.startswith(b"360p 1.0 ")
    assert len(data) == 500
    assert [one.duration for one in on_disk(publication_fixture.disk, "360p").segments] == [
        TWO,
        TWO // 2,
        TWO,
    ]
    # The rendition without parts gets a gap as long as the other segments.
    assert publication_fixture.gaps("audio") == [1]
    assert on_disk(publication_fixture.disk, "audio").segments[1].duration == TWO
    assert b"again" in await publication_fixture.objects.get(f"live/{HASH}/{RUN}/720p/2.m4s")
    await publication_fixture.same_everywhere()


async def test_a_step_without_published_parts_is_not_listed_when_its_engine_dies(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    await append_all(publication, [*maker.step(), *maker.step()[:1]])
    await publication.close_open()
    assert publication.next_sequence == 1


async def test_the_end_is_written_into_all_playlists_and_the_way_to_them_stays(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    await append_all(publication, [*maker.step(), *maker.step()[:5]])
    await publication.finish()
    for name in NAMES:
        playlist = on_disk(publication_fixture.disk, name)
        assert playlist.ended
        assert len(playlist.segments) == 2  # with what the second had so far
    assert variants(publication_fixture.disk).variants[0].uri.startswith(RUN)
    await publication_fixture.same_everywhere()


async def test_a_run_without_a_part_leaves_nothing(publication_fixture: PublicationFixture) -> None:
    publication, maker = await publication_fixture.begin(TOP)
    await append_all(publication, maker.step()[:1])
    await publication.finish()
    assert await publication_fixture.objects.addresses("live") == []
    assert not any(publication_fixture.edge.published)


async def test_a_run_of_sound_alone_has_one_variant(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin()
    await append_all(publication, maker.step(size=32_000))
    multivariant = variants(publication_fixture.disk)
    assert multivariant.sounds == ()
    (variant,) = multivariant.variants
    assert variant.uri == f"{RUN}/audio/index.m3u8"
    assert (variant.codecs, variant.bandwidth) == (("mp4a.40.2",), 150_000)


async def test_the_variants_describe_the_media(publication_fixture: PublicationFixture) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    await append_all(publication, maker.step(size=500_000))
    multivariant = variants(publication_fixture.disk)
    # Nearest to 2 Mbit/s by its ceiling: 720p is 0.8 off, 360p 1.2.
    assert [variant.uri for variant in multivariant.variants] == [
        f"{RUN}/720p/index.m3u8",
        f"{RUN}/360p/index.m3u8",
    ]
    top = multivariant.variants[0]
    assert top.codecs == ("avc1.64001F", "mp4a.40.2")
    assert (top.width, top.height, top.frame_rate) == (1280, 720, 30_000)
    # Picture and sound, 500 000 bytes in 2 s each; the encoder may reach 3.5 Mbit/s.
    assert (top.bandwidth, top.average) == (5_500_000, 4_000_000)
    assert [sound.uri for sound in multivariant.sounds] == [f"{RUN}/audio/index.m3u8"]


async def test_the_variants_are_written_again_only_when_they_would_mislead(
    publication_fixture: PublicationFixture,
) -> None:
    publication = await publication_fixture.open()
    maker = ReportMaker(TOP)
    await begin_epoch(publication, maker, reused="720p")
    sizes = [100_000, 99_000, 98_000, 100_000, 97_500, 160_000, 99_000, 98_000]
    written: list[int] = []
    for number, size in enumerate(sizes):
        count = len(publication_fixture.edge.published)
        await append_all(publication, maker.step(size=size))
        announced = [text for texts in publication_fixture.edge.published[count:] for text in texts]
        if f"live/{HASH}/index.m3u8" in announced:
            written.append(number)
    assert written == [0, 5]
    assert variants(publication_fixture.disk).variants[0].bandwidth == 1_440_000


@pytest.mark.parametrize(("listed", "kept"), [(11.9, 60.0), (30.0, 33.0)])
def test_a_window_that_the_standard_forbids_is_refused(listed: float, kept: float) -> None:
    with pytest.raises(ValueError, match=r"12 s|4 s"):
        LiveWindow(listed_seconds=listed, kept_seconds=kept)


async def test_the_variants_name_a_decoder_of_all_that_is_listed(
    publication_fixture: PublicationFixture,
) -> None:
    """They name a codec before the media that need it are listed (RFC 8216bis, 4.4.6.2)."""
    publication, maker = await publication_fixture.begin(TOP)
    await append_all(publication, maker.step(size=500_000))

    async def named(codecs: str) -> tuple[str, ...]:
        number = publication.next_inits[TOP.name]
        init = InitSection(rendition=TOP.name, number=number, codecs=codecs, data=b"init")
        await publication.append(init)
        edge = publication_fixture.edge.local_playlist(f"live/{HASH}/index.m3u8")
        assert edge is not None
        multivariant = m3u8.parse(edge.body.decode())
        assert isinstance(multivariant, MultivariantPlaylist)
        return multivariant.variants[0].codecs

    assert await named("avc1.4D0028") == ("avc1.640028", "mp4a.40.2")
    assert await named("avc1.42C01E") == ("avc1.640028", "mp4a.40.2")


async def test_the_arrival_time_of_stored_media_is_known(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    assert publication.stored_until_us is None
    await append_all(publication, maker.step())
    assert publication.stored_until_us == NOON_US + 2_000_000
    publication_fixture.objects.full.add("state.json")
    assert await append_until_full(publication, maker.step()) > 0
    assert publication.stored_until_us == NOON_US + 2_000_000
    publication_fixture.objects.full.clear()
    await append_all(publication, maker.step())
    assert publication.stored_until_us == NOON_US + 6_000_000


async def test_the_end_of_a_previous_run_of_unknown_latency_has_the_tags_of_the_next_ones(
    publication_fixture: PublicationFixture,
) -> None:
    stage = publication_fixture
    before, maker = await stage.begin(TOP)
    await append_all(before, maker.step())
    edge = CheckedEdge(stage.disk)
    normal = msgspec.structs.replace(DEFAULTS, latency="normal")
    await Publication.open(
        stage.objects, edge, hash=HASH, now_us=NOON_US, window=WINDOW, policy=normal
    )
    playlist = edge.local_playlist(f"live/{HASH}/{RUN}/{TOP.name}/index.m3u8", low_latency=True)
    assert playlist is not None
    assert b"#EXT-X-ENDLIST" in playlist.body
    assert b"#EXT-X-PART-INF" not in playlist.body


async def test_init_sections_that_wait_for_a_disk_are_bounded(
    publication_fixture: PublicationFixture,
) -> None:
    publication = await publication_fixture.open()
    maker = ReportMaker(TOP)
    await publication.prepare(0, maker.renditions, NOON_US)
    for number in range(1024):
        await publication.append(init_section(number))
    with pytest.raises(PublicationError, match="too many init sections"):
        await publication.append(init_section(1024))
    assert await publication.store_pending() == 0
    await publication.append(init_section(1024))


def init_section(number: int) -> InitSection:
    return InitSection(rendition=TOP.name, number=number, codecs=CODECS[TOP.name], data=b"x")
