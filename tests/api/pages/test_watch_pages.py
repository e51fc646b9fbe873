"""The responses of watch and embed pages, through the framework's routing."""

import gzip
import html
import re
from collections.abc import Generator

import httpx
import msgspec
import pytest

from api.http.static_files import Assets
from storage.catalog.records.common import PlayerOptions, PublicRecord
from tests.support.api.public_records import HIDDEN as TAKEN_BACK
from tests.support.api.public_records import (
    STREAM,
    VIDEO,
    Client,
    Records,
    addresses,
    serving_pages,
)

HASH = STREAM.hash
HIDDEN = TAKEN_BACK.hash


@pytest.fixture(scope="module")
def client() -> Generator[Client]:
    with serving_pages(Records()) as client:
        yield client


def _policy(answer: httpx.Response) -> dict[str, str]:
    text = answer.headers["content-security-policy"]
    return dict(part.strip().split(" ", 1) for part in text.split(";"))


def _named(answer: httpx.Response, suffix: str) -> str:
    match = re.search(rf'(?:src|href)="([^"]+\.{suffix})"', answer.text)
    assert match
    return match[1]


@pytest.mark.parametrize("kind", ["watch", "embed"])
def test_a_stream_that_was_never_live_has_its_page(client: Client, kind: str) -> None:
    answer = client.get(f"/{kind}/{HASH}")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert f'data-playlist="/live/{HASH}/index.m3u8"' in answer.text
    assert answer.text.count("<h1") == answer.text.count("<main") == 1


@pytest.mark.parametrize("kind", ["watch", "embed"])
@pytest.mark.parametrize("hash_", ["Unknown12345", HIDDEN, "a/b", "%2e%2e", "ä", "x" * 5000])
def test_hidden_and_unknown_records_have_no_page(client: Client, kind: str, hash_: str) -> None:
    answer = client.get(f"/{kind}/{hash_}")
    assert answer.status_code == 404
    assert "There is nothing to watch here" in answer.text
    assert _policy(answer)["default-src"] == "'none'"
    assert "A title" not in answer.text


def test_a_path_with_only_the_same_prefix_is_not_found(client: Client) -> None:
    assert client.get(f"/watch{HASH}").status_code == 404
    assert client.get("/watch").status_code == 404
    assert client.get("/static").status_code == 404


def test_an_owner_sees_what_others_do_not_and_no_cache_keeps_it(client: Client) -> None:
    owner = {"authorization": f"Bearer {HIDDEN}"}
    answer = client.get(f"/watch/{HIDDEN}", headers=owner)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "private, no-store"
    stranger = client.get(f"/watch/{HIDDEN}", headers={"authorization": f"Bearer {HASH}"})
    assert stranger.status_code == 404


@pytest.mark.parametrize("kind", ["watch", "embed"])
def test_texts_of_owners_are_escaped_everywhere(client: Client, kind: str) -> None:
    text = client.get(f"/{kind}/{HASH}").text
    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert '"><script' not in text


def test_a_page_may_do_only_what_it_needs(client: Client) -> None:
    answer = client.get(f"/watch/{HASH}")
    policy = _policy(answer)
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "strict-origin-when-cross-origin"
    assert "set-cookie" not in answer.headers
    assert not re.search(r"<script>|<style|\son\w+=|\sstyle=", answer.text)


def test_an_embed_page_may_be_framed_by_any_page(client: Client) -> None:
    answer = client.get(f"/embed/{HASH}")
    assert _policy(answer)["frame-ancestors"] == "*"
    assert "x-frame-options" not in answer.headers


def test_a_playback_address_of_its_own_is_named_and_allowed() -> None:
    elsewhere = addresses("https://headend.test", "https://cdn.test:8443/path")
    with serving_pages(Records(), elsewhere) as client:
        answer = client.get(f"/watch/{HASH}")
    assert f'data-playlist="https://cdn.test:8443/path/live/{HASH}/index.m3u8"' in answer.text
    policy = _policy(answer)
    assert policy["connect-src"] == "'self' https://cdn.test:8443"
    assert policy["media-src"] == "'self' blob: data: https://cdn.test:8443"


def test_a_service_under_a_path_of_its_host_names_its_files_there() -> None:
    with serving_pages(Records(), addresses("https://host.test/tv")) as client:
        answer = client.get(f"/watch/{HASH}")
    assert _named(answer, "js").startswith("/tv/static/watch.")
    assert f'data-playlist="/tv/live/{HASH}/index.m3u8"' in answer.text


def test_files_are_kept_for_ever_under_the_name_of_their_content(client: Client) -> None:
    page = client.get(f"/watch/{HASH}")
    for suffix, kind in [
        ("js", "text/javascript; charset=utf-8"),
        ("css", "text/css; charset=utf-8"),
        ("svg", "image/svg+xml"),
    ]:
        answer = client.get(_named(page, suffix))
        assert answer.status_code == 200
        assert answer.headers["content-type"] == kind
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip, deflate, br, zstd", "gzip"),
        ("GZIP;q=0.5", "gzip"),
        ("gzip;q=0, identity", None),
        ("identity", None),
        ("x-gzipped", None),
    ],
)
def test_files_are_compressed_if_the_client_accepts_it(
    client: Client, accepted: str, encoding: str | None
) -> None:
    built = Assets.read().built["watch.js"]
    with client.stream(
        "GET", f"/static/{built.public}", headers={"accept-encoding": accepted}
    ) as answer:
        raw = b"".join(answer.iter_raw())
    assert answer.headers.get("content-encoding") == encoding
    assert answer.headers["vary"] == "Accept-Encoding"
    assert int(answer.headers["content-length"]) == len(raw)
    assert (gzip.decompress(raw) if encoding else raw) == built.body


def test_a_built_name_or_another_digest_is_not_served(client: Client) -> None:
    assert client.get("/static/watch.js").status_code == 404
    assert client.get("/static/watch.000000000000.js").status_code == 404
    assert client.get("/static/..%2fembed.py").status_code == 404
    assert client.get("/static/THIRD_PARTY.txt").status_code == 200


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS", "DELETE"])
@pytest.mark.parametrize(
    "path",
    [
        "/static/watch.000000000000.js",  # of the release that is being installed on another host
        "/static/watch.js",
        "/static/",
        "/static/deep/watch.js",
        "/static/..%2fembed.py",
        "/static/THIRD_PARTY.txt.bak",
        "/watch/unknown",
        "/embed/unknown",
        "/embed.jsx",
    ],
)
def test_no_cache_keeps_an_error(client: Client, path: str, method: str) -> None:
    headers = {"range": "bytes=9999999-", "if-none-match": "*"}
    answer = client.request(method, path, headers=headers)
    assert answer.status_code in {404, 405}
    assert answer.headers.get_list("cache-control") == ["no-store"]
    assert "etag" not in answer.headers


@pytest.mark.parametrize("method", ["POST", "OPTIONS", "PUT"])
def test_no_cache_keeps_the_refusal_of_a_method(client: Client, method: str) -> None:
    built = Assets.read().built["watch.js"]
    for path in (f"/static/{built.public}", "/embed.js", "/static/THIRD_PARTY.txt"):
        answer = client.request(method, path)
        assert (answer.status_code, answer.headers["cache-control"]) == (405, "no-store")


def test_the_embed_script_is_asked_for_again_now_and_then(client: Client) -> None:
    answer = client.get("/embed.js")
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["cache-control"] == "public, max-age=300"
    assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
    tag = answer.headers["etag"]
    assert tag.startswith('W/"')  # also the gzip's
    unchanged = client.get("/embed.js", headers={"if-none-match": f'"other", {tag}'})
    assert unchanged.status_code == 304
    assert unchanged.content == b""


@pytest.mark.parametrize("path", [f"/watch/{HASH}", f"/embed/{HASH}", "/embed.js", "/watch/none"])
def test_head_answers_as_get_would(client: Client, path: str) -> None:
    get = client.get(path, headers={"accept-encoding": "identity"})
    head = client.head(path, headers={"accept-encoding": "identity"})
    assert head.status_code == get.status_code
    assert head.content == b""
    assert head.headers == get.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_are_refused(client: Client, method: str) -> None:
    answer = client.request(method, f"/watch/{HASH}")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"


# -- videos, players, countries ------------------------------------------------------------------


def _player_attributes(page: str) -> dict[str, str]:
    """Return the player's data attributes, and its attributes without a value as `video`."""
    player = re.search(r"<headend-player([^>]*)>", page)
    assert player
    attributes = dict(re.findall(r'data-([a-z]+)="([^"]*)"', player[1]))
    behaviour = re.search(r'" ([a-z ]*)$', player[1])
    assert behaviour
    return attributes | {"video": behaviour[1].strip()}


@pytest.mark.parametrize("kind", ["watch", "embed"])
def test_a_video_plays_where_a_stream_would(client: Client, kind: str) -> None:
    answer = client.get(f"/{kind}/{VIDEO.hash}")
    assert answer.status_code == 200
    attributes = _player_attributes(answer.text)
    assert attributes["kind"] == "video"
    assert attributes["playlist"] == f"/videos/{VIDEO.hash}/index.m3u8"
    assert attributes["poster"] == f"/videos/{VIDEO.hash}/poster/default.jpg?{VIDEO.posters}"
    assert attributes["video"] == "controls"
    assert attributes["failed"] == "false"
    assert '"><script' not in answer.text


def test_a_stream_plays_at_once_and_muted(client: Client) -> None:
    attributes = _player_attributes(client.get(f"/embed/{HASH}").text)
    assert attributes["kind"] == "stream"
    assert attributes["video"] == "controls autoplay muted"
    assert attributes["poster"] == ""


@pytest.mark.parametrize(
    ("options", "video", "color"),
    [
        (PlayerOptions(), "controls", ""),
        (PlayerOptions(autoplay=True, muted=True, loop=True), "controls autoplay muted loop", ""),
        (PlayerOptions(controls=False, color="#Ff8800"), "", "#Ff8800"),
        (PlayerOptions(color='red" onload="x'), "controls", ""),
    ],
)
def test_a_player_behaves_as_its_owner_set_it_up(
    options: PlayerOptions, video: str, color: str
) -> None:
    records = [msgspec.structs.replace(each, player=options) for each in (STREAM, VIDEO)]
    with serving_pages(Records(*records)) as client:
        attributes = _player_attributes(client.get(f"/embed/{VIDEO.hash}").text)
        assert (attributes["video"], attributes["color"]) == (video, color)
        stream_attributes = _player_attributes(client.get(f"/embed/{HASH}").text)
        assert stream_attributes["video"] == video.replace(" loop", "")


@pytest.mark.parametrize("kind", ["watch", "embed"])
@pytest.mark.parametrize(
    ("record", "service", "expected"),
    [
        (STREAM, "low", "low"),
        (STREAM, "normal", "normal"),
        (msgspec.structs.replace(STREAM, latency="normal"), "low", "normal"),
        (msgspec.structs.replace(STREAM, latency="low"), "normal", "low"),
        (VIDEO, "low", ""),
    ],
)
def test_a_player_knows_the_latency_of_its_stream(
    kind: str, record: PublicRecord, service: str, expected: str
) -> None:
    with serving_pages(Records(record), latency=service) as client:
        page = client.get(f"/{kind}/{record.hash}").text
    assert _player_attributes(page)["latency"] == expected


def test_the_page_of_a_failed_video_says_so() -> None:
    failed = msgspec.structs.replace(VIDEO, media=None, published=False, failed=True)
    with serving_pages(Records(failed)) as client:
        answer = client.get(f"/watch/{VIDEO.hash}")
    assert (answer.status_code, _player_attributes(answer.text)["failed"]) == (200, "true")


@pytest.mark.parametrize("kind", ["watch", "embed"])
@pytest.mark.parametrize("record", [STREAM, VIDEO], ids=["stream", "video"])
def test_a_page_says_where_it_may_not_be_played(kind: str, record: PublicRecord) -> None:
    restricted = msgspec.structs.replace(record, countries=frozenset({"RO"}))
    with serving_pages(Records(restricted)) as client:
        for headers in ({}, {"from": "DE"}):
            answer = client.get(f"/{kind}/{record.hash}", headers=headers)
            assert answer.status_code == 451
            assert "<h1>Not available in your country</h1>" in answer.text
            assert answer.headers["cache-control"] == "private, no-store"
            assert _policy(answer)["frame-ancestors"] == ("*" if kind == "embed" else "'none'")
            assert "alert(1)" not in answer.text
            assert "index.m3u8" not in answer.text
        for headers in ({"from": "RO"}, {"authorization": f"Bearer {record.hash}"}):
            answer = client.get(f"/{kind}/{record.hash}", headers=headers)
            assert answer.status_code == 200
            assert answer.headers["cache-control"] == "private, no-store"


def test_a_watch_page_describes_itself_to_others(client: Client) -> None:
    page = client.get(f"/watch/{VIDEO.hash}").text
    named = dict(re.findall(r'<meta (?:property|name)="([^"]+)" content="([^"]*)">', page))
    assert named["og:title"] == html.escape(VIDEO.title)
    assert named["og:image"] == f"http://headend.test/videos/{VIDEO.hash}/poster/default.jpg"
    assert named["og:video:url"] == named["twitter:player"]
    assert named["twitter:player"] == f"http://headend.test/embed/{VIDEO.hash}"
    assert (named["og:video:width"], named["og:video:height"]) == ("1440", "1080")
    card = re.search(
        r'og:image" content="http://headend.test([^"]+)"', client.get(f"/watch/{HASH}").text
    )
    assert card
    picture = client.get(card[1])
    assert (picture.status_code, picture.headers["content-type"]) == (200, "image/jpeg")
    assert picture.content.startswith(b"\xff\xd8\xff")


@pytest.mark.parametrize("kind", ["watch", "embed"])
def test_a_stream_that_was_on_air_shows_its_newest_poster(kind: str) -> None:
    pictured = msgspec.structs.replace(
        STREAM, poster_labels=("360p", "720p"), width=720, height=1280
    )
    with serving_pages(Records(pictured)) as client:
        page = client.get(f"/{kind}/{HASH}").text
    address = f"/live/{HASH}/poster/default.jpg"
    assert _player_attributes(page)["poster"] == address
    if kind == "watch":
        named = dict(re.findall(r'<meta (?:property|name)="([^"]+)" content="([^"]*)">', page))
        assert named["og:image"] == named["twitter:image"] == f"http://headend.test{address}"
        assert (named["og:video:width"], named["og:video:height"]) == ("720", "1280")


@pytest.mark.parametrize("kind", ["watch", "embed"])
def test_a_page_may_load_media_from_where_viewers_are_redirected(kind: str) -> None:
    cdn = addresses(playback="https://cdn.test")
    for where, origins in ((None, "https://s3.test"), (cdn, "https://cdn.test https://s3.test")):
        with serving_pages(Records(), where, media_origin="https://s3.test") as client:
            policy = _policy(client.get(f"/{kind}/{HASH}"))
        assert policy["connect-src"] == f"'self' {origins}"
        assert policy["media-src"] == f"'self' blob: data: {origins}"
        assert policy["img-src"] == f"'self' data: {origins}"
        assert policy["script-src"] == "'self'"
