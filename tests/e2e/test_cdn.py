"""The whole service with a CDN that may read what the docs' policy allows, and nothing else.

The CDN is the bucket of a real S3 server, asked without credentials.
"""

from functools import partial
from pathlib import Path

import httpx
import pytest

from storage.objects.s3_bucket import S3Location
from tests.support.e2e.hls_reader import addresses, media
from tests.support.e2e.publishers import ffmpeg, publishing
from tests.support.e2e.service import fetch, run_headend, service
from tests.support.e2e.uploaded_videos import completed, upload
from tests.support.engine.upload_files import film
from tests.support.storage.cdn_policy import policy_of_the_docs
from tests.support.storage.s3_server import S3Server
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "60", "-c:a", "aac")


def settings(server: S3Server, bucket: S3Location) -> dict[str, str]:
    return {
        **server.settings(bucket),
        "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
        "HEADEND_STORAGE__DELIVERY": "cdn",
        "HEADEND_STORAGE__CDN_URL": f"{bucket.endpoint}/{bucket.bucket}/{bucket.prefix}",
    }


def first_segment(index: str) -> str | None:
    """Return the address of the first segment of sound, once there is one."""
    if fetch(index).status != 200:
        return None
    playlist = addresses(index)["audio"]
    return next(
        (playlist.replace("index.m3u8", each.uri) for each in media(playlist).segments), None
    )


def target(address: str) -> str | None:
    """Return where viewers are redirected; None if they get the object itself."""
    answer = httpx.get(address, follow_redirects=False)
    assert answer.status_code in {200, 302}, address
    return answer.headers.get("location")


def test_viewers_get_copies_and_a_cdn_nothing_else(
    s3_server: S3Server, small_source: Path, tmp_path: Path
) -> None:
    bucket = s3_server.new_bucket("media")
    s3_server.set_policy(bucket.bucket, policy_of_the_docs(bucket))
    environment = settings(s3_server, bucket)
    cdn = environment["HEADEND_STORAGE__CDN_URL"]

    def keys(folder: str) -> list[str]:
        return s3_server.keys(bucket.bucket, f"media/{folder}")

    with service(tmp_path / "data", environment=environment) as headend:
        path = film(tmp_path / "film.mp4", *X264, seconds=5, size=(640, 360), rate=30)
        status, added = upload(headend, path)
        assert status == 201, added
        number, hash_ = added["video"]["id"], added["video"]["hash"]
        completed(headend, number, within=60)
        of_film = first_segment(f"{headend.http}/videos/{hash_}/index.m3u8")
        assert of_film is not None
        own = fetch(of_film).body  # by Headend itself, which gives the film its folder
        send = ffmpeg(small_source, f"{headend.server}/{headend.key}", "-stream_loop", "-1")
        with publishing(send):
            of_stream = poll(partial(first_segment, headend.playlist), within=30)
            for address in (of_film, of_stream):
                place = poll(partial(target, address), within=30, what="a redirect")
                assert place.startswith(f"{cdn}/cdn/")
                assert place.endswith(address.split("/", 5)[5])
                assert httpx.get(place).headers["content-type"] == "audio/mp4"
            assert fetch(of_film).body == own
        assert keys(f"sources/{hash_}")
        assert "media/installation" in keys("")
        for key in keys(""):
            body = s3_server.open_to_all(bucket.bucket, key)
            assert (body is not None) is key.startswith("media/cdn/"), key
        done = run_headend("doctor", "--data", str(headend.data), environment=environment)
        assert "it can read copies of public media alone" in done.stdout, done.stderr
        address = f"{headend.http}/api/videos/{number}"
        assert fetch(address, method="DELETE", token=headend.token).status == 204
        poll(lambda: not keys(f"cdn/{hash_}"), within=30, what="the copies' end")
