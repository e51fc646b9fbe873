"""Streams of the catalog as bodies."""

import msgspec

from api.schemas.presenter import Presenter
from media.stream_keys import StreamKey
from storage.catalog.records.common import BackupRecord, ResolutionChoice, StreamRecord
from tests.support.api.application import ADDRESSES

PRESENTER = Presenter(addresses=ADDRESSES, broadcaster_key="key")
RECORD = StreamRecord(
    id=3,
    project=1,
    key=StreamKey(hash="abcABC012345", secret="6ba7b810-9dad-41d1-80b4-00c04fd430c8"),
    title="Title",
    description="Words",
    created_us=1,
    updated_us=2,
    published=True,
    published_us=3,
    hidden=False,
    live=True,
    processing=True,
    receiving_count=2,
    on_air=2,
    no_audio=True,
    version=9,
    resolutions=(
        ResolutionChoice(number=1, active=False),
        ResolutionChoice(number=6, active=True),
    ),
    backups=(
        BackupRecord(id=10, number=2, live=True, on_air=True),
        BackupRecord(id=11, number=5, live=False, on_air=False),
    ),
)


def test_every_flag_and_count_of_a_record_is_shown() -> None:
    stream = PRESENTER.stream(RECORD, show_key=True)
    assert (stream.published, stream.live, stream.processing) == (True, True, True)
    assert (stream.receiving_count, stream.no_audio_stream) == (2, True)
    assert stream.description == "Words"
    assert [(each.id, each.name, each.active) for each in stream.resolutions] == [
        (1, "360p", False),
        (6, "2160p", True),
    ]


def test_a_backup_shows_whether_it_sends_and_whether_viewers_get_it() -> None:
    backups = PRESENTER.stream(RECORD, show_key=True).backups
    assert [(each.id, each.name, each.live, each.publish) for each in backups] == [
        (10, "Backup 2", True, True),
        (11, "Backup 5", False, False),
    ]
    assert backups[1].rtmp_url == "rtmp://spare.example:1935/live-backup-5"


def test_posters_are_null_until_there_are_some() -> None:
    assert PRESENTER.stream(RECORD, show_key=True).image_urls is None
    assert PRESENTER.stream_item(RECORD, show_key=True).image_urls is None
    pictured = msgspec.structs.replace(RECORD, poster_labels=("360p", "720p"))
    urls = PRESENTER.stream(pictured, show_key=True).image_urls
    assert urls == {
        label: f"{ADDRESSES.http}/live/abcABC012345/poster/{label}.jpg"
        for label in ("360p", "720p")
    }
    assert PRESENTER.stream_item(pictured, show_key=True).image_urls == urls


def test_an_item_is_the_full_form_less_what_a_list_omits() -> None:
    full = msgspec.to_builtins(PRESENTER.stream(RECORD, show_key=True))
    item = msgspec.to_builtins(PRESENTER.stream_item(RECORD, show_key=True))
    assert full["stream"] == "abcABC012345_6ba7b810-9dad-41d1-80b4-00c04fd430c8"
    assert item["stream"] == "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
    assert {**full, "stream": item["stream"]} == {**full, **item}


def test_a_key_that_is_not_shown_is_masked_in_either_form() -> None:
    full, item = (
        PRESENTER.stream(RECORD, show_key=False),
        PRESENTER.stream_item(RECORD, show_key=False),
    )
    assert (full.stream, item.stream) == ("abcABC012345_********", "********")
    assert RECORD.key.secret not in f"{msgspec.json.encode(full)} {msgspec.json.encode(item)}"
