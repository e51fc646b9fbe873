"""The URLs in the API's responses, one by one."""

import msgspec

from media.stream_keys import Slot
from tests.support.api.application import ADDRESSES


def test_every_address_is_where_it_is_promised() -> None:
    assert {
        "live": ADDRESSES.live_playlist("h"),
        "published": ADDRESSES.published_live_playlist("h"),
        "poster": ADDRESSES.live_poster("h", "720p"),
        "video": ADDRESSES.video_playlist("h"),
        "published video": ADDRESSES.published_video_playlist("h"),
        "video poster": ADDRESSES.video_poster("h", "720p"),
        "watch": ADDRESSES.watch("h"),
        "embed": ADDRESSES.embed("h"),
        "script": ADDRESSES.embed_script(),
        "project": ADDRESSES.project_document("k"),
        "video document": ADDRESSES.video_document("h"),
    } == {
        "live": "https://live.example/live/h/index.m3u8",
        "published": "https://cdn.example/live/h/index.m3u8",
        "poster": "https://live.example/live/h/poster/720p.jpg",
        "video": "https://live.example/videos/h/index.m3u8",
        "published video": "https://cdn.example/videos/h/index.m3u8",
        "video poster": "https://live.example/videos/h/poster/720p.jpg",
        "watch": "https://live.example/watch/h",
        "embed": "https://live.example/embed/h",
        "script": "https://live.example/embed.js",
        "project": "https://live.example/json/projects/k.json",
        "video document": "https://live.example/json/videos/h.json",
    }


def test_slots_differ_by_their_application_and_backups_may_have_another_host() -> None:
    assert ADDRESSES.rtmp_ingest(Slot(0)) == "rtmp://in.example:1935/live"
    assert ADDRESSES.rtmps_ingest(Slot(0)) == "rtmps://in.example:1936/live"
    assert ADDRESSES.rtmp_ingest(Slot(2)) == "rtmp://spare.example:1935/live-backup-2"
    assert ADDRESSES.rtmps_ingest(Slot(2)) == "rtmps://spare.example:1936/live-backup-2"


def test_no_address_leads_to_what_is_not_served() -> None:
    addresses = msgspec.structs.replace(ADDRESSES, rtmp="", rtmp_backup="")
    assert [addresses.rtmp_ingest(Slot(number)) for number in (0, 2)] == ["", ""]
    assert addresses.rtmps_ingest(Slot(0)) == "rtmps://in.example:1936/live"
    assert addresses.encoder_server(Slot(0)) == "rtmps://in.example:1936/live"
    assert ADDRESSES.encoder_server(Slot(0)) == "rtmp://in.example:1935/live"
    assert (
        ADDRESSES.encoder_server(Slot(2), secure=True) == "rtmps://spare.example:1936/live-backup-2"
    )
    plain = msgspec.structs.replace(ADDRESSES, rtmps="", rtmps_backup="")
    assert plain.encoder_server(Slot(0), secure=True) == ""
