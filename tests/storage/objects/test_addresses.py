"""Which texts are addresses, and where objects are stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.objects.addresses import (
    BadAddress,
    cdn_copy,
    cdn_folder,
    cdn_folders,
    checked,
    is_address,
    is_arriving,
    is_live_part,
    is_live_segment,
    live_init,
    live_page,
    live_part,
    live_part_name,
    live_playlist,
    live_run,
    live_segment,
    live_state,
    live_variants,
    printable,
)

HASH, RUN = "abcdefABCDEF", "20260131T120000123"


def test_live_media_have_the_addresses_that_viewers_request() -> None:
    addresses = [
        live_variants(HASH),
        live_run(HASH, RUN),
        live_state(HASH, RUN),
        live_page(HASH, RUN, 7),
        live_playlist(HASH, RUN, "720p"),
        live_init(HASH, RUN, "720p", 3),
        live_segment(HASH, RUN, "audio", 17),
        live_part(HASH, RUN, "audio", live_part_name(17, 2)),
    ]
    run = f"live/{HASH}/{RUN}"
    assert addresses == [
        f"live/{HASH}/index.m3u8",
        run,
        f"{run}/state.json",
        f"{run}/log/7.json",
        f"{run}/720p/index.m3u8",
        f"{run}/720p/init-3.mp4",
        f"{run}/audio/17.m4s",
        f"{run}/audio/17.2.m4s",
    ]
    assert [checked(address) for address in addresses] == addresses


@pytest.mark.parametrize(
    "text",
    [
        "", "/", "/etc/passwd", "a/", "a//b", "..", "a/../b", "a/..", ".", "./a", "a/.b", "a\0b",
        "a\n", "a b", "a\\b", "é", "a/" + "b" * 81, "a/" * 8 + "b", "/".join(["x" * 60] * 7), "~",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(BadAddress):
        checked(text)


@given(st.text(alphabet="ab./\0~\\-_", max_size=30))
def test_no_address_leads_out_of_the_root_or_to_a_hidden_name(text: str) -> None:
    try:
        address = checked(text)
    except BadAddress:
        return
    parts = address.split("/")
    assert all(part and not part.startswith(".") and "\0" not in part for part in parts)


@pytest.mark.parametrize(
    ("address", "arriving"),
    [
        ("uploads/one", True),
        ("pieces/one/0-0123456789abcdef", False),
        ("sources/AAAAAAAAAAAA/import", True),
        ("sources/AAAAAAAAAAAA/import-2", True),
        ("sources/AAAAAAAAAAAA/1-2", False),
        ("videos/AAAAAAAAAAAA/import", False),
        ("installation", False),
    ],
)
def test_files_that_are_being_received_have_their_own_addresses(
    address: str, *, arriving: bool
) -> None:
    assert is_address(address)
    assert is_arriving(address) == arriving


def test_copies_for_a_cdn_are_in_a_folder_with_a_secret_name() -> None:
    token = "0123456789abcdef" * 2
    segment = live_segment(HASH, RUN, "720p", 7)
    copy = cdn_copy(segment, token)
    assert copy is not None
    assert copy == f"cdn/{HASH}/{token}/{RUN}/720p/7.m4s"
    assert checked(copy).startswith(f"{cdn_folder(HASH, token)}/")
    assert cdn_folder(HASH, token).startswith(f"{cdn_folders(HASH)}/")
    others = ("installation", f"sources/{HASH}/1", f"videos/{HASH}", f"trash/now/videos/{HASH}/1")
    for address in others:
        assert cdn_copy(address, token) is None
        assert printable(address) == address
    assert printable(copy) == f"cdn/{HASH}/.../{RUN}/720p/7.m4s"
    assert printable(cdn_folder(HASH, token)) == f"cdn/{HASH}/..."


def test_parts_segments_and_init_sections_are_told_apart_by_their_names() -> None:
    folder = f"live/{HASH}/{RUN}/720p/"
    names = ["17.m4s", "17.2.m4s", "init-0.mp4", "index.m3u8", "17.2.3.m4s", "17..m4s", "a.2.m4s"]
    assert [name for name in names if is_live_part(folder + name)] == ["17.2.m4s"]
    assert [name for name in names if is_live_segment(folder + name)] == ["17.m4s"]
