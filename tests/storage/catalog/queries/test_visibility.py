"""What viewers may learn, on both databases, after the calls that change it."""

from media.countries import find_country
from media.stream_keys import new_hash
from storage.catalog import Catalog
from storage.catalog.records.common import Change, PlayerOptions, PublicRecord
from storage.catalog.records.details import StreamDetails, VideoDetails
from storage.catalog.records.settings import SettingsChange
from storage.catalog.records.transcoding import MadeVideo
from storage.catalog.videos.jobs import TRANSCODE
from tests.support.storage.new_videos import new_video

# The same statements on both: what differs between them has tests of its own.
NOW = 1_800_000_000_000_000
ORANGE = PlayerOptions(autoplay=True, loop=True, color="#ff8800")


def lands(*codes: str) -> tuple[int, ...]:
    countries = [find_country(code) for code in codes]
    return tuple(each.number for each in countries if each is not None)


async def shown(catalog: Catalog, hash_: str) -> PublicRecord:
    visibility = await catalog.visibility.find(hash_)
    assert visibility is not None
    return visibility


async def add_video(catalog: Catalog) -> tuple[int, str]:
    hash_ = new_hash()
    file = new_video(
        hash_,
        file_title="A film.cut",
        description="Words",
        name="a-film-cut",
        length_us=61_000_000,
        width=1920,
        height=800,
    )
    return (await catalog.videos.add(1, file, Change(NOW))).video.id, hash_


async def test_a_stream_is_known_with_its_countries_and_its_player(catalog: Catalog) -> None:
    await catalog.installation.first_start(NOW)
    stream = await catalog.streams.add(1, "A stream", Change(NOW))
    before = await shown(catalog, stream.hash)
    assert (before.kind, before.title, before.published) == ("stream", "A stream", False)
    assert (before.countries, before.player) == (frozenset(), None)
    player = await catalog.players.add(1, "Orange", ORANGE, Change(NOW))
    change = StreamDetails.edit(
        title="Another", countries=lands("RO", "DE", "AD"), player=player.id
    )
    await catalog.streams.edit(stream.id, change, Change(NOW))
    after = await shown(catalog, stream.hash)
    assert (after.title, after.countries) == ("Another", {"RO", "DE", "AD"})
    assert after.player == ORANGE
    await catalog.players.remove(player.id, Change(NOW))
    change = StreamDetails.edit(countries=())
    await catalog.streams.edit(stream.id, change, Change(NOW))
    last = await shown(catalog, stream.hash)
    assert (last.countries, last.player) == (frozenset(), None)


async def test_a_streams_latency_is_its_own_or_its_projects(catalog: Catalog) -> None:
    await catalog.installation.first_start(NOW)
    stream = await catalog.streams.add(1, "A stream", Change(NOW))
    assert (await shown(catalog, stream.hash)).latency is None
    normal, low = SettingsChange(latency="normal"), SettingsChange(latency="low")
    await catalog.project_settings.change(1, normal, Change(NOW))
    assert (await shown(catalog, stream.hash)).latency == "normal"
    await catalog.stream_settings.change(stream.id, low, Change(NOW))
    assert (await shown(catalog, stream.hash)).latency == "low"


async def test_a_stream_that_its_owner_takes_back_is_hidden(catalog: Catalog) -> None:
    await catalog.installation.first_start(NOW)
    stream = await catalog.streams.add(1, "A stream", Change(NOW))
    await catalog.streams.unpublish(stream.id, Change(NOW))
    assert (await shown(catalog, stream.hash)).hidden
    await catalog.streams.publish(stream.id, Change(NOW))
    assert not (await shown(catalog, stream.hash)).hidden


async def test_a_video_is_known_from_its_upload_to_its_media(catalog: Catalog) -> None:
    await catalog.installation.first_start(NOW)
    number, hash_ = await add_video(catalog)
    early = await shown(catalog, hash_)
    assert (early.kind, early.title, early.description) == ("video", "A film.cut", "Words")
    assert (early.length_us, early.width, early.height) == (61_000_000, 1920, 800)
    assert (early.published, early.media, early.posters, early.failed) == (False, None, None, False)
    player = await catalog.players.add(1, "Orange", ORANGE, Change(NOW))
    change = VideoDetails.edit(title="A title", countries=lands("RO"))
    await catalog.videos.edit(number, change, Change(NOW))
    await catalog.videos.set_player(number, player.id, Change(NOW))
    job = await catalog.jobs.lease("one", NOW, TRANSCODE)
    assert job is not None
    await catalog.transcoding.begin(job, NOW)
    made_video = MadeVideo(
        media="1-1",
        size=5,
        length_us=61_500_000,
        rungs=(),
        posters="poster-1-1",
        poster_labels=("1080p", "720p", "360p"),
    )
    await catalog.transcoding.complete(job, made_video, NOW)
    late = await shown(catalog, hash_)
    assert (late.title, late.countries, late.player) == ("A title", {"RO"}, ORANGE)
    assert (late.published, late.media, late.posters) == (True, "1-1", "poster-1-1")
    assert late.poster_labels == ("360p", "720p", "1080p")
    assert late.length_us == 61_500_000


async def test_a_video_that_cannot_be_made_is_shown_as_failed(catalog: Catalog) -> None:
    await catalog.installation.first_start(NOW)
    _, hash_ = await add_video(catalog)
    job = await catalog.jobs.lease("one", NOW, TRANSCODE)
    assert job is not None
    await catalog.transcoding.begin(job, NOW)
    await catalog.transcoding.fail(job, "It is empty.", NOW)
    visibility = await shown(catalog, hash_)
    assert (visibility.failed, visibility.published, visibility.media) == (True, False, None)


async def test_what_is_not_there_is_not_known(catalog: Catalog) -> None:
    await catalog.installation.first_start(NOW)
    assert await catalog.visibility.find("zzzzzzzzzzzz") is None
    assert await catalog.visibility.find("") is None
