"""Posters of streams in the catalog, on both databases."""

from media.stream_keys import PublicHash, new_hash
from storage.catalog import Catalog
from storage.catalog.records.common import Change, PublicRecord, StreamRecord

# The same statements on both: what differs between them has tests of its own.
NOW = 1_800_000_000_000_000
LABELS = ("360p", "480p", "720p")


async def stream_of(catalog: Catalog) -> StreamRecord:
    stream = (await catalog.installation.first_start(NOW)).stream
    assert stream is not None
    return stream


async def now(catalog: Catalog, stream: StreamRecord) -> tuple[StreamRecord, PublicRecord]:
    record, visibility = (
        await catalog.streams.find(stream.id),
        await catalog.visibility.find(stream.hash),
    )
    assert record is not None
    assert visibility is not None
    return record, visibility


async def count_notices(catalog: Catalog, hash_: PublicHash) -> int:
    """Return how many notices there are of a stream."""
    notices, _ = await catalog.outbox.read_after(0, 1000)
    return len([each for each in notices if hash_ in each.channel])


async def test_a_stream_has_no_posters_at_first(catalog: Catalog) -> None:
    record, visibility = await now(catalog, await stream_of(catalog))
    assert (record.poster_labels, visibility.poster_labels, visibility.width) == ((), (), 0)


async def test_posters_are_visible_to_owners_and_viewers_and_announced(catalog: Catalog) -> None:
    stream = await stream_of(catalog)
    before = await count_notices(catalog, stream.hash)
    assert await catalog.streams.set_posters(stream.hash, LABELS, (1280, 720), now_us=NOW)
    record, visibility = await now(catalog, stream)
    assert record.poster_labels == visibility.poster_labels == LABELS
    assert (visibility.width, visibility.height) == (1280, 720)
    assert record.version == stream.version + 1
    assert await count_notices(catalog, stream.hash) == before + 1


async def test_the_next_picture_is_no_news_and_other_labels_are(catalog: Catalog) -> None:
    stream = await stream_of(catalog)
    await catalog.streams.set_posters(stream.hash, LABELS, (1280, 720), now_us=NOW)
    before, notices = (await now(catalog, stream))[0], await count_notices(catalog, stream.hash)
    await catalog.streams.set_posters(stream.hash, LABELS, (1280, 720), now_us=NOW + 1)
    assert (await now(catalog, stream))[0] == before
    assert await count_notices(catalog, stream.hash) == notices
    await catalog.streams.set_posters(stream.hash, ("240p",), (240, 426), now_us=NOW + 2)
    record, visibility = await now(catalog, stream)
    assert (record.poster_labels, visibility.width, visibility.height) == (("240p",), 240, 426)
    assert await count_notices(catalog, stream.hash) == notices + 1


async def test_posters_of_a_deleted_stream_change_nothing(catalog: Catalog) -> None:
    stream = await stream_of(catalog)
    assert not await catalog.streams.set_posters(new_hash(), LABELS, (640, 360), now_us=NOW)
    await catalog.streams.remove(stream.id, Change(NOW))
    assert not await catalog.streams.set_posters(stream.hash, LABELS, (640, 360), now_us=NOW)
