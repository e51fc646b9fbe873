"""The origin as a part of an application."""

import gzip
from pathlib import Path

import pytest

from api.http.response import HttpResponse
from api.origin.origin import Origin
from api.origin.visibility import VisibilityCache
from delivery.edge.memory import MemoryEdge
from storage.objects.disk import DiskObjects
from tests.support.api.origin_client import (
    PLAYLIST,
    SEGMENT,
    TOKEN,
    VARIANTS,
    FakePublicRecords,
    OnSite,
    OriginSite,
    is_owner,
    later,
    origin_of,
)
from tests.support.manual_clock import ManualClock
from tests.support.shared_engines import ON_SHARED
from tests.support.storage.engine_reports import HASH, RUN

OTHER = "zzzzzzZZZZZZ"
# Segments from the edge have no tag; stored objects are cached for a second.
of_one_process = pytest.mark.skipif(ON_SHARED, reason="the origin of a process that makes the run")


def test_everything_that_is_published_can_be_fetched(on_site: OnSite) -> None:
    async def scenario(site: OriginSite) -> None:
        kinds = {
            VARIANTS: "application/vnd.apple.mpegurl",
            PLAYLIST: "application/vnd.apple.mpegurl",
            SEGMENT: "video/mp4",
            f"/live/{HASH}/{RUN}/720p/init-0.mp4": "video/mp4",
            f"/live/{HASH}/{RUN}/audio/2.m4s": "audio/mp4",
            f"/live/{HASH}/{RUN}/audio/init-0.mp4": "audio/mp4",
        }
        for path, kind in kinds.items():
            answer = await site.get(path)
            assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
            # Other processes serve what is on disk, which has no tags of low latency.
            plain = await site.get(f"{path}?latency=normal")
            stored = await site.objects.get(path[1:])
            assert plain.content.replace(b"?latency=normal", b"") == stored
            assert path == PLAYLIST or answer.content == stored
            assert answer.headers["content-length"] == str(len(answer.content))
            assert answer.headers["access-control-allow-origin"] == "*"
            assert "ETag" in answer.headers["access-control-expose-headers"]
            head = await site.client.head(path)
            assert (head.status_code, head.content) == (200, b"")
            assert head.headers == answer.headers

    on_site(scenario)


def test_a_part_is_read_at_the_edge_and_is_a_piece_of_its_segment(on_site: OnSite) -> None:
    async def scenario(site: OriginSite) -> None:
        # As they were hinted: the first one when the segment before had two parts.
        names = ("0.2.m4s", "1.1.m4s")
        parts = [await site.get(SEGMENT.replace("1.m4s", name)) for name in names]
        whole = await site.get(SEGMENT)
        assert b"".join(part.content for part in parts) == whole.content
        assert (await site.get(SEGMENT.replace("1.m4s", "1.0.m4s"))).status_code == 404

    on_site(scenario)


@pytest.mark.parametrize(
    "path",
    [
        f"/live/{HASH}/{RUN}/state.json",
        f"/live/{HASH}/{RUN}/720p/state.json",
        f"/live/{HASH}/{RUN}/log/0.json",
        f"/live/{HASH}/{RUN}/720p/3.m4s",
        f"/live/{HASH}/{RUN}/720p/1.m4s/x",
        f"/live/{HASH}/{RUN}/480p/1.m4s",
        f"/live/{HASH}/{RUN}/720p/",
        f"/live/{HASH}/{RUN}/index.m3u8",
        f"/live/{HASH}/{RUN}",
        f"/live/{HASH}",
        f"/live/{OTHER}/index.m3u8",
        f"/live/{HASH}/index.m3u8.tmp",
        f"/live{HASH}/index.m3u8",
        "/live/.temporary/x",
        "/live/",
        "/live",
        f"/live/{HASH}/../{HASH}/{RUN}/state.json",
        f"/live/{HASH}/%2e%2e/{HASH}/index.m3u8",
        f"/live/{HASH}/{RUN}/720p/index.m3u8%00",
        f"/live/{HASH}/{RUN}/720p/index.m3u8%0a",
        f"/live/{HASH}/{RUN}/720p%2Fstate.json",
        f"/live/{HASH}/{RUN}/%C3%A9/1.m4s",
    ],
)
def test_what_is_not_published_does_not_exist(on_site: OnSite, path: str) -> None:
    async def scenario(site: OriginSite) -> None:
        answer = await site.get(path)
        assert answer.status_code == 404
        assert answer.headers["cache-control"] == "no-store"
        assert answer.text == "not found\n"
        assert answer.headers["access-control-allow-origin"] == "*"

    on_site(scenario)


def test_media_are_kept_for_ever_and_playlists_briefly(on_site: OnSite) -> None:
    async def scenario(site: OriginSite) -> None:
        for path in (SEGMENT, f"/live/{HASH}/{RUN}/720p/init-0.mp4"):
            caching = (await site.get(path)).headers["cache-control"]
            assert caching == "public, max-age=31536000, immutable"
        for path in (PLAYLIST, VARIANTS):
            assert (await site.get(path)).headers["cache-control"] == "public, max-age=1"

    on_site(scenario)


@of_one_process
def test_a_request_with_the_current_tag_is_answered_with_304(on_site: OnSite) -> None:
    async def scenario(site: OriginSite) -> None:
        for path in (SEGMENT, PLAYLIST, VARIANTS):
            first = await site.get(path)
            unchanged = await site.get(path, if_none_match=first.headers["etag"])
            assert (unchanged.status_code, unchanged.content) == (304, b"")
            assert unchanged.headers["etag"] == first.headers["etag"]
            assert unchanged.headers["cache-control"] == first.headers["cache-control"]
            assert "content-length" not in unchanged.headers
            other = await site.get(path, if_none_match='"other"')
            assert other.status_code == 200

    on_site(scenario)


def test_ranges_of_files_and_of_what_is_in_memory(on_site: OnSite) -> None:
    async def scenario(site: OriginSite) -> None:
        for path in (SEGMENT, SEGMENT.replace("1.m4s", "1.1.m4s")):
            answer = await site.get(path)
            assert answer.headers["accept-ranges"] == "bytes"
            whole = answer.content
            size = len(whole)
            some = await site.get(path, range="bytes=5-14")
            assert (some.status_code, some.content) == (206, whole[5:15])
            assert some.headers["content-range"] == f"bytes 5-14/{size}"
            assert some.headers["content-length"] == "10"
            rest = await site.get(path, range=f"bytes={size - 3}-")
            assert (rest.status_code, rest.content) == (206, whole[-3:])
            head = await site.client.head(path, headers={"Range": "bytes=5-14"})
            assert (head.status_code, head.content) == (206, b"")
            many = await site.get(path, range="bytes=0-1,4-5")
            assert (many.status_code, many.content) == (200, whole)
            beyond = await site.get(path, range=f"bytes={size}-")
            assert beyond.status_code == 416
            assert beyond.headers["content-range"] == f"bytes */{size}"

    on_site(scenario)


def test_a_playlist_is_sent_whole_to_a_player_that_asks_for_as_much_as_it_has(
    on_site: OnSite,
) -> None:
    """Chromium's own HLS player reloads a playlist with a range of the length of its last text."""

    async def scenario(site: OriginSite) -> None:
        for path in (VARIANTS, PLAYLIST, f"{PLAYLIST}?latency=normal", f"{PLAYLIST}?_HLS_skip=YES"):
            whole = await site.get(path)
            assert "accept-ranges" not in whole.headers, path
            for wanted in (f"bytes=0-{len(whole.content) - 20}", "bytes=5-14", "bytes=9999999-"):
                for tag in ("", whole.headers["etag"]):
                    condition = {"if_range": tag} if tag else {}
                    answer = await site.get(path, range=wanted, **condition)
                    assert (answer.status_code, answer.content) == (200, whole.content), wanted
                    assert answer.headers == whole.headers
            head = await site.client.head(path, headers={"Range": "bytes=5-14"})
            assert (head.status_code, head.headers) == (200, whole.headers)
            unchanged = await site.get(
                path, range="bytes=5-14", if_none_match=whole.headers["etag"]
            )
            assert unchanged.status_code == 304

    on_site(scenario)


def test_the_fast_path_sends_playlists_whole_too(on_site: OnSite) -> None:
    async def scenario(site: OriginSite) -> None:
        await site.get(PLAYLIST)  # access is known from now on
        for path in (VARIANTS, PLAYLIST):
            for asked in ([], [(b"range", b"bytes=0-20")]):
                found = site.origin.fast_path("GET", path, asked)
                answer = found if isinstance(found, HttpResponse) else await later(found)
                assert answer.status == 200
                assert answer.body.startswith(b"#EXTM3U")
                assert len(answer.body) > 100
                assert b"accept-ranges" not in dict(answer.headers)

    on_site(scenario)


@of_one_process
def test_a_range_of_another_version_is_not_sent(on_site: OnSite) -> None:
    async def scenario(site: OriginSite) -> None:
        tag = (await site.get(SEGMENT)).headers["etag"]
        same = await site.get(SEGMENT, range="bytes=5-14", if_range=tag)
        assert same.status_code == 206
        other = await site.get(SEGMENT, range="bytes=5-14", if_range='"old"')
        assert (other.status_code, len(other.content)) == (200, 300_000)

    on_site(scenario)


def test_playlists_are_compressed_if_accepted_with_a_vary_header(on_site: OnSite) -> None:
    async def scenario(site: OriginSite) -> None:
        plain = await site.get(PLAYLIST)
        assert plain.headers["vary"] == "Accept-Encoding"
        assert "content-encoding" not in plain.headers
        async with site.client.stream(
            "GET", PLAYLIST, headers={"Accept-Encoding": "gzip, br"}
        ) as packed:
            raw = b"".join([piece async for piece in packed.aiter_raw()])
        assert packed.headers["content-encoding"] == "gzip"
        assert packed.headers["vary"] == "Accept-Encoding"
        assert packed.headers["content-length"] == str(len(raw))
        assert gzip.decompress(raw) == plain.content
        assert packed.headers["etag"] != plain.headers["etag"]
        segment = await site.get(SEGMENT, accept_encoding="gzip")
        assert "content-encoding" not in segment.headers

    on_site(scenario)


@of_one_process
def test_playlists_come_from_disk_where_the_edge_has_none_and_follow_its_changes(
    on_site: OnSite,
) -> None:
    async def scenario(site: OriginSite) -> None:
        before = await site.get(f"{PLAYLIST}?latency=normal")
        await site.edge.drop_folder("live")
        after = await site.get(PLAYLIST)
        assert after.content == before.content
        assert after.headers["etag"] == before.headers["etag"]
        await site.objects.put(PLAYLIST[1:], before.content + b"#EXT-X-ENDLIST\n")
        assert (await site.get(PLAYLIST)).content == before.content + b"#EXT-X-ENDLIST\n"
        await site.objects.delete(PLAYLIST[1:])
        assert (await site.get(PLAYLIST)).status_code == 404

    on_site(scenario)


def test_only_reading_is_allowed_and_preflights_are_answered(on_site: OnSite) -> None:
    async def scenario(site: OriginSite) -> None:
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            answer = await site.client.request(method, SEGMENT)
            assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
        headers = {"Origin": "https://other.example", "Access-Control-Request-Method": "GET"}
        preflight = await site.client.options(SEGMENT, headers=headers)
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == "*"
        assert "Range" in preflight.headers["access-control-allow-headers"]
        for path in (VARIANTS, PLAYLIST, SEGMENT, f"/live/{HASH}/poster/default.jpg", "/live/none"):
            headers["Access-Control-Request-Headers"] = "cmcd-session,x-anything-else"
            preflight = await site.client.options(path, headers=headers)
            allowed = preflight.headers["access-control-allow-headers"].lower().split(", ")
            assert {"*", "cmcd-session", "authorization"} <= set(allowed), path
            # The same for all, so that no cache in between mixes them up.
            assert "x-anything-else" not in allowed
            assert "access-control-allow-credentials" not in preflight.headers

    on_site(scenario)


@pytest.mark.parametrize("path", [VARIANTS, PLAYLIST, SEGMENT])
@pytest.mark.parametrize("hidden", [True, False])
def test_an_unpublished_stream_is_visible_to_its_owner_only(
    on_site: OnSite, path: str, hidden: bool
) -> None:
    async def scenario(site: OriginSite) -> None:
        site.public_records.put(published=False, hidden=hidden)
        for headers in ({}, {"authorization": "Bearer another"}):
            answer = await site.get(path, **headers)
            assert answer.status_code == 404
        owners = await site.get(path, authorization=TOKEN)
        assert owners.status_code == 200
        assert owners.headers["cache-control"] == "private, no-store"

    on_site(scenario)


def test_a_published_stream_is_visible_without_a_token(on_site: OnSite) -> None:
    async def scenario(site: OriginSite) -> None:
        answer = await site.get(SEGMENT, authorization="Bearer wrong")
        assert answer.status_code == 200
        assert answer.headers["cache-control"].startswith("public")

    on_site(scenario)


def test_requests_are_503_while_the_catalog_is_unavailable(on_site: OnSite) -> None:
    async def scenario(site: OriginSite) -> None:
        site.public_records.broken = True
        answer = await site.get(SEGMENT)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        site.public_records.broken = False
        assert (await site.get(SEGMENT)).status_code == 200

    on_site(scenario)


async def test_access_is_cached_for_one_second(tmp_path: Path) -> None:
    clock, public_records = ManualClock(), FakePublicRecords()
    origin = Origin(
        objects=DiskObjects(tmp_path), edge=MemoryEdge(),
        visibility=VisibilityCache(public_records, is_owner, clock=clock),
    )  # fmt: skip
    await origin_of(origin, f"/live/{HASH}/index.m3u8")
    await origin_of(origin, f"/live/{HASH}/{RUN}/720p/1.m4s")
    assert public_records.asked == 1
    clock.now += 0.99
    await origin_of(origin, f"/live/{HASH}/index.m3u8")
    assert public_records.asked == 1
    clock.now += 0.01
    await origin_of(origin, f"/live/{HASH}/index.m3u8")
    assert public_records.asked == 2
