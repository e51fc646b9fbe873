"""Addresses of media: which paths can be requested at all."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.origin.media_request import MediaRequest, parse_media_request
from api.origin.viewer import NOBODY
from storage.catalog.records.common import PublicRecord
from storage.objects.addresses import checked

HASH = "abcdefABCDEF"
RUN = "20260131T120000123"
STREAM = PublicRecord(
    hash=HASH, project=1, title="", description="", published=True, hidden=False, live=True
)
VIDEO = PublicRecord(
    hash=HASH, project=1, title="", description="", published=True, hidden=False, live=False,
    kind="video", media="1-1", posters="own-3", poster_labels=("360p",),
)  # fmt: skip


def parsed(path: str) -> MediaRequest | None:
    return parse_media_request("GET", path, "", NOBODY)


PICTURED = msgspec.structs.replace(STREAM, poster_labels=("360p", "720p"))


@pytest.mark.parametrize(
    ("path", "record", "address"),
    [
        (f"/live/{HASH}/index.m3u8", STREAM, f"live/{HASH}/index.m3u8"),
        (f"/live/{HASH}/{RUN}/720p/1.m4s", STREAM, f"live/{HASH}/{RUN}/720p/1.m4s"),
        (f"/live/{HASH}/index.m3u8", VIDEO, None),
        (f"/videos/{HASH}/index.m3u8", VIDEO, f"videos/{HASH}/1-1/index.m3u8"),
        (f"/videos/{HASH}/1-1/audio/0.m4s", VIDEO, f"videos/{HASH}/1-1/audio/0.m4s"),
        (f"/videos/{HASH}/1-s4-2-1/360p/0.m4s", VIDEO, f"videos/{HASH}/1-s4-2-1/360p/0.m4s"),
        (f"/videos/{HASH}/2-1/audio/0.m4s", VIDEO, None),
        (f"/videos/{HASH}/0-7/audio/0.m4s", VIDEO, f"videos/{HASH}/0-7/audio/0.m4s"),
        (f"/videos/{HASH}/0-s4-2-1/360p/0.m4s", VIDEO, f"videos/{HASH}/0-s4-2-1/360p/0.m4s"),
        (f"/videos/{HASH}/0/audio/0.m4s", VIDEO, None),
        (f"/videos/{HASH}/poster-0-1/360p/0.m4s", VIDEO, None),
        (f"/videos/{HASH}/11-1/audio/0.m4s", VIDEO, None),
        (f"/videos/{HASH}/own-3/360p/0.m4s", VIDEO, None),
        (
            f"/videos/{HASH}/previews-1-1/previews.vtt",
            VIDEO,
            f"videos/{HASH}/previews-1-1/previews.vtt",
        ),
        (
            f"/videos/{HASH}/previews-1-2/sheet-3.jpg",
            VIDEO,
            f"videos/{HASH}/previews-1-2/sheet-3.jpg",
        ),
        (f"/videos/{HASH}/previews-2-1/sheet-0.jpg", VIDEO, None),
        (f"/videos/{HASH}/previews-1-1/sheet-0.jpg", STREAM, None),
        (f"/videos/{HASH}/poster/360p.jpg", VIDEO, f"videos/{HASH}/own-3/360p.jpg"),
        (f"/videos/{HASH}/poster/default.jpg", VIDEO, f"videos/{HASH}/own-3/360p.jpg"),
        (f"/videos/{HASH}/poster/480p.jpg", VIDEO, None),
        (f"/videos/{HASH}/index.m3u8", STREAM, None),
        (f"/videos/{HASH}/poster/default.jpg", STREAM, None),
        (f"/live/{HASH}/poster/360p.jpg", STREAM, None),
        (f"/live/{HASH}/poster/360p.jpg", PICTURED, f"live/{HASH}/poster/360p.jpg"),
        (f"/live/{HASH}/poster/default.jpg", PICTURED, f"live/{HASH}/poster/720p.jpg"),
        (f"/live/{HASH}/poster/480p.jpg", PICTURED, None),
        (f"/live/{HASH}/poster/360p.jpg", VIDEO, None),
        (f"/videos/{HASH}/poster/360p.jpg", PICTURED, None),
    ],
)
def test_an_address_leads_to_an_object_of_what_is_shown(
    path: str, record: PublicRecord, address: str | None
) -> None:
    request = parsed(path)
    assert request is not None
    assert request.address(record) == address


_PARTS = st.sampled_from(
    ["live", "videos", HASH, RUN, "1-1", "own-3", "poster", "720p", "audio", "..", ".", "", "%2e"]
)
_LAST = st.sampled_from(["index.m3u8", "0.m4s", "1.0.m4s", "init-0.mp4", "360p.jpg", "state.json"])


@given(st.lists(_PARTS | st.text(max_size=4), max_size=5), _LAST | st.text(max_size=9))
def test_no_address_leads_out_of_its_own_folder(parts: list[str], last: str) -> None:
    """For every path, the object is below the hash for which access was checked."""
    request = parsed("/" + "/".join([*parts, last]))
    if request is None:
        return
    for record in (STREAM, PICTURED, VIDEO):
        address = request.address(record)
        if address is not None and request.hash == HASH:
            assert address == checked(address)
            assert address.split("/")[:2] in (["live", HASH], ["videos", HASH])
    kind, caching = request.form
    assert kind
    assert caching.startswith("public, max-age=")


VARIANTS = (f"live/{HASH}/index.m3u8", f"{RUN}/720p/index.m3u8")
FILM = f"videos/{HASH}/1-1"


@pytest.mark.parametrize(
    ("path", "record", "lists"),
    [
        (f"/live/{HASH}/index.m3u8", STREAM, [(VARIANTS[0], "")]),
        (f"/live/{HASH}/{RUN}/720p/index.m3u8", STREAM, [VARIANTS]),
        (
            f"/live/{HASH}/{RUN}/720p/7.m4s",
            STREAM,
            [VARIANTS, (f"live/{HASH}/{RUN}/720p/index.m3u8", "7.m4s")],
        ),
        (f"/videos/{HASH}/index.m3u8", VIDEO, [(f"{FILM}/index.m3u8", "")]),
        (
            f"/videos/{HASH}/1-1/720p/index.m3u8",
            VIDEO,
            [(f"{FILM}/index.m3u8", "720p/index.m3u8")],
        ),
        (f"/videos/{HASH}/0-7/720p/index.m3u8", VIDEO, []),
        (
            f"/videos/{HASH}/1-s4-2-1/720p/init-0.mp4",
            VIDEO,
            [
                (f"{FILM}/index.m3u8", "720p/index.m3u8"),
                (f"{FILM}/720p/index.m3u8", "1-s4-2-1/720p/init-0.mp4"),
            ],
        ),
        (f"/videos/{HASH}/previews-1-1/sheet-0.jpg", VIDEO, []),
    ],
)
def test_lists_lead_to_what_players_request(
    path: str, record: PublicRecord, lists: list[tuple[str, str]]
) -> None:
    request = parsed(path)
    assert request is not None
    assert request.lists(record) == lists
    for address, _ in lists:
        assert checked(address) == address


def test_previews_are_named_by_their_list() -> None:
    record = msgspec.structs.replace(VIDEO, previews="previews-1-1")
    listed = f"videos/{HASH}/previews-1-1/previews.vtt"
    for name, uri in (("previews.vtt", ""), ("sheet-3.jpg", "sheet-3.jpg")):
        request = parsed(f"/videos/{HASH}/previews-1-1/{name}")
        assert request is not None
        assert request.lists(record) == [(listed, uri)]
