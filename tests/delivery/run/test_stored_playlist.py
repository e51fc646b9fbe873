"""Windows that are longer than the playlists on disk, put together again."""

import msgspec

from delivery.run.publication import Publication
from delivery.run.run_state import PAGE_STEPS, LiveWindow, Step, StepSegment
from delivery.run.stored_playlist import PlaylistTail, StoredPlaylists
from media.hls.m3u8 import parse
from media.hls.playlist import MediaPlaylist
from tests.support.storage.engine_reports import (
    HASH,
    LOW,
    NOON_US,
    RUN,
    TOP,
    TWO,
    PublicationFixture,
    ReportMaker,
    append_all,
    begin_epoch,
    check_named_addresses,
    on_disk,
    open_run,
)

NAMES = ("720p", "360p", "audio")
LONG = LiveWindow(listed_seconds=150.0, kept_seconds=154.0)  # 75 steps: more than four pages


def address(name: str) -> str:
    return f"live/{HASH}/{RUN}/{name}/index.m3u8"


async def whole(stored: StoredPlaylists, name: str) -> MediaPlaylist:
    playlist = parse(await stored.read(address(name)))
    assert isinstance(playlist, MediaPlaylist)
    return playlist


def at_edge(publication_fixture: PublicationFixture, name: str) -> MediaPlaylist:
    text = publication_fixture.edge.local_playlist(address(name))
    assert text is not None
    playlist = parse(text.body.decode())
    assert isinstance(playlist, MediaPlaylist)
    return playlist


async def broadcast(
    publication_fixture: PublicationFixture,
    publication: Publication,
    maker: ReportMaker,
    steps: int,
) -> None:
    for _ in range(steps):
        gaps = ("720p",) if maker.sequence % 10 == 3 else ()
        await append_all(publication, maker.step(gaps=gaps))
        publication_fixture.clock.now += 2.0


async def test_a_window_on_disk_is_the_one_at_the_edge_while_it_grows_and_slides(
    publication_fixture: PublicationFixture,
) -> None:
    publication = await open_run(
        publication_fixture.objects,
        publication_fixture.edge,
        publication_fixture.clock,
        window=LONG,
    )
    maker, stored = ReportMaker(TOP, LOW), StoredPlaylists(publication_fixture.disk)
    for epoch in range(6):
        maker.epoch = epoch
        await begin_epoch(publication, maker, NOON_US + epoch * 1_000_000)
        await append_all(publication, maker.step(discontinuity=epoch > 0))
        for _ in range(5):
            await broadcast(publication_fixture, publication, maker, 5)
            for name in NAMES:
                playlist = await whole(stored, name)
                assert playlist == at_edge(publication_fixture, name)
                assert playlist == await whole(StoredPlaylists(publication_fixture.disk), name)
                text = await stored.read(address(name))
                check_named_addresses(publication_fixture.disk, address(name), text)
    playlist = await whole(stored, "audio")
    assert len(playlist.segments) == 75
    assert playlist.sequence == 6 * 26 - 75
    assert playlist.discontinuities == 3
    await publication.finish()
    assert (await whole(stored, "360p")).ended


async def test_the_file_is_a_playlist_of_the_newest_segments_by_itself(
    publication_fixture: PublicationFixture,
) -> None:
    publication = await open_run(
        publication_fixture.objects,
        publication_fixture.edge,
        publication_fixture.clock,
        window=LONG,
    )
    maker = ReportMaker(TOP, LOW)
    for epoch in range(2):
        maker.epoch = epoch
        await begin_epoch(publication, maker)
        await append_all(publication, maker.step(discontinuity=epoch > 0))
        await broadcast(publication_fixture, publication, maker, 44)
    for name in NAMES:
        alone, edge = on_disk(publication_fixture.disk, name), at_edge(publication_fixture, name)
        assert PAGE_STEPS <= len(alone.segments) < 2 * PAGE_STEPS
        assert alone.segments == edge.segments[-len(alone.segments) :]
        assert alone.sequence + len(alone.segments) == edge.sequence + len(edge.segments) == 90
        assert alone.discontinuities == 1


async def test_without_a_page_of_the_log_the_newest_segments_are_left(
    publication_fixture: PublicationFixture,
) -> None:
    publication = await open_run(
        publication_fixture.objects,
        publication_fixture.edge,
        publication_fixture.clock,
        window=LONG,
    )
    maker, stored = ReportMaker(TOP, LOW), StoredPlaylists(publication_fixture.disk)
    await begin_epoch(publication, maker)
    await broadcast(publication_fixture, publication, maker, 60)
    publication_fixture.disk.path(f"live/{HASH}/{RUN}/log/1.json").write_bytes(b"")
    assert await whole(stored, "audio") == on_disk(publication_fixture.disk, "audio")


async def test_a_playlist_of_another_kind_is_read_unchanged(
    publication_fixture: PublicationFixture,
) -> None:
    publication, maker = await publication_fixture.begin(TOP, LOW)
    await broadcast(publication_fixture, publication, maker, 40)
    stored = StoredPlaylists(publication_fixture.disk)
    for path in publication_fixture.disk.root.rglob("index.m3u8"):
        assert (
            await stored.read(path.relative_to(publication_fixture.disk.root).as_posix())
            == path.read_text()
        )


def test_a_tail_counts_the_discontinuities_of_what_it_dropped() -> None:
    segment = StepSegment(start=0, duration=TWO, size=1, frames=1, parts=1, init=0)
    step = Step(sequence=0, epoch=0, discontinuity=False, origin_us=0, segments={"audio": segment})
    tail = PlaylistTail(("audio",), (), discontinuities=4)
    assert tail.render(first=0, discontinuities=4, ended=False) == {}
    for number in range(8):
        tail.append(msgspec.structs.replace(step, sequence=number, discontinuity=number in {1, 4}))
    tail.drop(3)
    for first, sequence, before in ((0, 3, 5), (3, 3, 5), (4, 4, 5), (5, 5, 6)):
        discontinuities = 4 + (first > 1) + (first > 4)
        (text,) = tail.render(first=first, discontinuities=discontinuities, ended=False).values()
        playlist = parse(text)
        assert isinstance(playlist, MediaPlaylist)
        assert (playlist.sequence, playlist.discontinuities) == (sequence, before)
        assert ("HEADEND-WINDOW" in text) is (first < 3)
