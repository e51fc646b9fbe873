"""Restricted streams and videos are refused in other countries, at every kind of address."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast
from urllib.parse import quote, urljoin

import pytest

from tests.support.browser import Chromium
from tests.support.e2e.foreign_site import site
from tests.support.e2e.hls_reader import addresses, has_segments, media, multivariant
from tests.support.e2e.publishers import ffmpeg, publishing, tool
from tests.support.e2e.service import SCALE, Answer, ServiceProcess, fetch, service
from tests.support.geo_database import GERMAN, NOWHERE, ROMANIAN, SIXTH, countries
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

SENTENCE = "Not available in your country"


@pytest.fixture(scope="module")
def headend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service behind a proxy on this machine, with a database of countries."""
    folder = tmp_path_factory.mktemp("geo")
    environment = {
        "HEADEND_GEO__DATABASE": str(countries(folder / "countries.mmdb")),
        "HEADEND_HTTP__TRUSTED_PROXIES": "127.0.0.1",
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
    }
    with service(folder / "data", environment=environment) as running:
        yield running


def from_(address: str | None, url: str, token: str | None = None) -> Answer:
    """Send a request as the proxy does for a viewer at this address."""
    headers = {} if address is None else {"X-Forwarded-For": address}
    return fetch(url, headers=headers, token=token)


def restrict(headend: ServiceProcess, kind: str, number: object, allowed: list[object]) -> None:
    answer = fetch(
        f"{headend.http}/api/{kind}/{number}",
        method="PUT",
        token=headend.token,
        body={"countries": allowed},
    )
    assert answer.status == 200, answer.text


def below(playlist: str) -> set[str]:
    """Return one address of each kind below a playlist, which must still be open."""
    urls: set[str] = set()
    for address in addresses(playlist).values():
        segments = [each for each in media(address).segments if not each.gap]
        first = segments[-1]
        assert first.map_uri is not None
        urls |= {address, urljoin(address, first.map_uri), urljoin(address, first.uri)}
    return {playlist, *urls}


def pages(headend: ServiceProcess, hash_: str) -> set[str]:
    watch = f"{headend.http}/watch/{hash_}"
    return {watch, f"{headend.http}/embed/{hash_}", f"{headend.http}/oembed?url={quote(watch)}"}


def statuses(urls: set[str], address: str | None, token: str | None = None) -> set[int]:
    return {from_(address, url, token).status for url in urls}


def must_be_closed_to_others(headend: ServiceProcess, urls: set[str]) -> None:
    """Request every address as every kind of viewer, once the restriction applies."""
    poll(lambda: statuses(urls, GERMAN) == {451}, within=10, what="451 everywhere")
    assert statuses(urls, NOWHERE) == {451}, "an address that the database does not know"
    assert statuses(urls, None) == {451}, "a proxy that does not say for whom"
    assert statuses(urls, f"{ROMANIAN}, {GERMAN}") == {451}, "a viewer who makes up a proxy"
    assert statuses(urls, GERMAN, "headend_wrong") == {451}, "a token that is none"
    for allowed in (ROMANIAN, SIXTH, f"{GERMAN}, {ROMANIAN}"):
        assert statuses(urls, allowed) == {200}
    assert statuses(urls, GERMAN, headend.token) == {200}, "the owner"
    for url in urls:
        for address in (ROMANIAN, GERMAN):
            headers = {name.lower(): text for name, text in from_(address, url).headers.items()}
            assert headers["cache-control"] == "private, no-store", url
            assert "set-cookie" not in headers


def test_a_live_stream_plays_in_its_countries_only(
    headend: ServiceProcess, small_source: Path
) -> None:
    url = f"{headend.server}/{headend.key}"
    with publishing(ffmpeg(small_source, url, "-stream_loop", "-1")):
        poll(lambda: has_segments(headend.playlist), within=15, what="playlists")
        poster = f"{headend.http}/live/{headend.hash}/poster/360p.jpg"
        poll(lambda: fetch(poster).status == 200, within=15, what="a poster")
        default = poster.replace("360p", "default")
        urls = {*below(headend.playlist), *pages(headend, headend.hash), poster, default}
        assert len(urls) >= 12
        assert statuses(urls, GERMAN) == statuses(urls, None) == {200}
        restrict(headend, "streams", 1, ["ro"])
        must_be_closed_to_others(headend, urls)
        restrict(headend, "streams", 1, [642, "DE"])
        poll(lambda: statuses(urls, GERMAN) == {200}, within=10, what="open in Germany too")
        assert statuses(urls, NOWHERE) == {451}
        restrict(headend, "streams", 1, [])
        poll(lambda: statuses(urls, NOWHERE) == {200}, within=10, what="open to all")


def upload(headend: ServiceProcess, file: Path) -> dict[str, object]:
    done = subprocess.run(
        [
            *(tool("curl"), "-sS", "-H", f"Authorization: Bearer {headend.token}"),
            *("-F", "title=A film", "-F", f"video=@{file}"),
            f"{headend.http}/api/projects/1/videos",
        ],
        capture_output=True,
        check=True,
        timeout=60 * SCALE,
    )
    return cast("dict[str, object]", json.loads(done.stdout)["video"])


def test_a_video_plays_in_its_countries_only(headend: ServiceProcess, small_source: Path) -> None:
    video = upload(headend, small_source)
    hash_, playlist = str(video["hash"]), str(video["video"])
    document = str(video["video_json"])
    urls = {*pages(headend, hash_), document, f"{headend.http}/videos/{hash_}/poster/default.jpg"}
    assert statuses(urls, GERMAN) == {200}, "before it plays"
    poll(lambda: multivariant(playlist), within=60, what="a playlist")
    poll(lambda: json.loads(fetch(document).text)["posters"], within=60, what="posters")
    posters = cast("dict[str, str]", json.loads(fetch(document).text)["posters"])
    urls |= {*below(playlist), *posters.values()}
    assert statuses(urls, GERMAN) == {200}
    restrict(headend, "videos", video["id"], ["RO"])
    must_be_closed_to_others(headend, urls)


@pytest.mark.prove
def test_a_frame_on_another_site_says_that_it_may_not_be_played_here(
    headend: ServiceProcess, browser: Chromium
) -> None:
    added = headend.add_stream("Somewhere else")
    hash_ = added["hash"]
    restrict(headend, "streams", added["id"], ["RO"])
    poll(
        lambda: from_(None, f"{headend.http}/embed/{hash_}").status == 451,
        within=10,
        what="a page that is closed",
    )
    page = f'<!doctype html><title>A stranger</title><iframe src="{headend.http}/embed/{hash_}">'
    with site({"/": f"{page}</iframe>"}) as stranger:
        frame = browser.open(f"{stranger}/").framed()
        assert frame.text("h1") == SENTENCE
        assert frame.breaches() == []
        assert frame.evaluate("() => document.cookie") == ""
        frame.close()


@pytest.mark.prove
def test_a_viewer_who_is_excluded_while_waiting_sees_the_reason(
    headend: ServiceProcess, browser: Chromium
) -> None:
    added = headend.add_stream("Not for long")
    viewer = browser.open(f"{headend.http}/watch/{added['hash']}")
    viewer.wait_for("waiting", 10)
    restrict(headend, "streams", added["id"], ["RO"])
    viewer.wait_for("blocked", 20)
    assert SENTENCE in viewer.text(".curtain")
    restrict(headend, "streams", added["id"], [])
    viewer.wait_for("waiting", 40)
    viewer.close()


@pytest.mark.prove
def test_a_newer_database_is_used_without_a_restart(headend: ServiceProcess) -> None:
    added = headend.add_stream("Moved")
    urls = pages(headend, str(added["hash"]))
    restrict(headend, "streams", added["id"], ["DE"])
    poll(lambda: statuses(urls, ROMANIAN) == {451}, within=10, what="closed to others")
    assert statuses(urls, GERMAN) == {200}
    file = headend.data.parent / "countries.mmdb"
    countries(file, german="AT")
    poll(lambda: statuses(urls, GERMAN) == {451}, within=15, what="another country")
    countries(file)
    poll(lambda: statuses(urls, GERMAN) == {200}, within=15, what="the country of before")


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("HEADEND_GEO__DATABASE", "/nowhere/countries.mmdb", "geo.database: /nowhere/countries"),
        pytest.param(
            "HEADEND_HTTP__TRUSTED_PROXIES",
            "*",
            "http.trusted_proxies: '*'",
            marks=pytest.mark.prove,
        ),
        pytest.param(
            "HEADEND_GEO__PRIVATE_COUNTRY",
            "Romania",
            "geo.private_country: 'Romania'",
            marks=pytest.mark.prove,
        ),
    ],
)
def test_an_invalid_setting_ends_the_start_with_one_sentence(
    tmp_path: Path, variable: str, value: str, words: str
) -> None:
    with (
        pytest.raises(AssertionError),
        service(tmp_path / "data", environment={variable: value}),
    ):
        pass
    log = (tmp_path / "data.log").read_text()
    assert words in log
    assert "Traceback" not in log
