"""Features of buckets alone: pieces of large objects, and errors for operators."""

import asyncio
import hashlib
import json
import os
import random
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from storage.objects.base import ObjectChanged, ObjectMissing, StoreFailed
from storage.objects.s3 import S3Objects
from storage.objects.s3_bucket import PIECE_BYTES, S3Bucket, S3Location
from tests.support.e2e.service import fetch
from tests.support.storage.s3_server import S3Server, running_s3
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

LARGE = 40_000_001  # bytes: two whole pieces, and a part of one


@pytest.mark.parametrize(
    ("url", "bucket", "prefix"),
    [
        ("s3://media", "media", ""),
        ("s3://media/", "media", ""),
        ("s3://media.example.org/a/b/", "media.example.org", "a/b"),
    ],
)
def test_a_place_is_a_bucket_and_a_prefix(url: str, bucket: str, prefix: str) -> None:
    bucket_place = S3Location.parse(url)
    assert (bucket_place.bucket, bucket_place.prefix) == (bucket, prefix)
    assert str(bucket_place) == url.rstrip("/")


async def test_a_large_object_goes_and_comes_in_pieces(
    bucket_store: S3Objects, tmp_path: Path
) -> None:
    data = random.Random(7).randbytes(LARGE)
    (tmp_path / "film").write_bytes(data)
    await bucket_store.send(tmp_path / "film", "sources/a/1")
    assert await bucket_store.size("sources/a/1") == await bucket_store.size("sources/a") == LARGE
    version = await bucket_store.version("sources/a/1")
    assert version is not None
    assert version.strip('"').endswith("-3")  # the tag of an object counts its pieces
    pieces: dict[int, bytes] = {}

    async def begin(size: int) -> None:
        assert size == LARGE
        assert not pieces

    async def write(start: int, piece: memoryview) -> None:
        pieces[start] = bytes(piece)

    stat = await bucket_store.receive("sources/a/1", begin, write)
    assert stat.size == LARGE
    assert len(pieces) == 3
    assert b"".join(pieces[start] for start in sorted(pieces)) == data


@pytest.mark.parametrize("prefix", ["", "some/prefix"])
async def test_a_bucket_tells_its_folders_and_an_object_in_each(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    for name, value in s3_server.credentials.items():
        monkeypatch.setenv(name, value)
    bucket = S3Bucket(s3_server.new_bucket(prefix))
    assert await bucket.folder_names("") == set()
    assert await bucket.first_address("live") is None
    stored = {f"{top}/a/{number}" for top in ("live", "later") for number in range(3)}
    await bucket.put_all(dict.fromkeys([*stored, "installation", "liver/a"], b"x"))
    assert await bucket.folder_names("") == {"live", "later", "liver"}
    assert await bucket.first_address("live") in stored
    assert await bucket.first_address("liver") == "liver/a"


async def test_a_file_that_is_gone_is_not_sent(bucket_store: S3Objects, tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="there is no such bucket, or no such file"):
        await bucket_store.send(tmp_path / "gone", "sources/a/1")


class OneObject(ThreadingHTTPServer):
    """A server that has one object, and knows tags in `If-Match` with quotes or without."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), OneObjectHandler)
        self.quoted = True
        self.data: bytes | None = None

    @property
    def tag(self) -> str:
        return f'"{hashlib.md5(self.data or b"", usedforsecurity=False).hexdigest()}"'


class OneObjectHandler(BaseHTTPRequestHandler):
    @property
    def _one(self) -> OneObject:
        assert isinstance(self.server, OneObject)
        return self.server

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        expected = self.headers.get("If-Match")
        tag = self._one.tag if self._one.quoted else self._one.tag.strip('"')
        if self._one.data is not None and expected != tag:
            self._answer(412)
            return
        self._one.data = data
        self._answer(200)

    def do_HEAD(self) -> None:
        self._answer(200)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("ETag", self._one.tag)
        self.send_header("Last-Modified", "Sat, 31 Jan 2026 12:00:00 GMT")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as it is called
        """Print nothing."""


async def test_a_server_is_replaced_by_one_with_another_form_of_tags(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with OneObject() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        bucket = S3Bucket(S3Location(bucket="one", endpoint=endpoint, region="us-east-1"))
        version = await bucket.put_if("live/a", b"0", None)
        for number, quoted in enumerate([True, False, False, True, True], start=1):
            server.quoted = quoted
            older = version
            version = await bucket.put_if("live/a", b"%d" % number, version)
            assert server.data == b"%d" % number
            with pytest.raises(ObjectChanged):
                await bucket.put_if("live/a", b"late", older)
            assert server.data == b"%d" % number
        server.shutdown()


class OtherTimeHandler(BaseHTTPRequestHandler):
    """Answers as Ceph's gateway does to a client whose clock is a month ahead."""

    def do_GET(self) -> None:
        text = b"<Error><Code>RequestTimeTooSkewed</Code><Message></Message></Error>"
        self.send_response(403)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as it is called
        """Print nothing."""


async def test_a_clock_that_the_bucket_does_not_accept_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with ThreadingHTTPServer(("127.0.0.1", 0), OtherTimeHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        bucket = S3Bucket(S3Location(bucket="one", endpoint=endpoint, region="us-east-1"))
        for call in (bucket.get("installation"), bucket.folder_names("live"), bucket.check()):
            with pytest.raises(StoreFailed, match="clock and this machine's differ too much"):
                await call
        server.shutdown()


async def test_an_object_that_is_too_large_for_one_copy_can_be_moved(
    bucket_store: S3Objects, s3_server: S3Server, tmp_path: Path
) -> None:
    bucket_place = s3_server.new_bucket()
    bucket = S3Bucket(bucket_place, copy_bytes=1000)
    data = random.Random(8).randbytes(LARGE)
    (tmp_path / "film").write_bytes(data)
    await bucket.send(tmp_path / "film", "sources/a/1")
    await bucket.put("sources/a/2", b"small")
    await bucket.move("sources/a", "trash/now/sources/a")
    assert await bucket.addresses("sources") == []
    assert await bucket.addresses("trash") == ["trash/now/sources/a/1", "trash/now/sources/a/2"]
    assert await bucket.get("trash/now/sources/a/1") == data
    await bucket.move("trash/now/sources/a/1", "sources/a/1")
    assert await bucket.get("sources/a/1") == data
    # In pieces, as the tag of such an object says, and not in one request.
    assert "-3" in (await bucket.version("sources/a/1") or "")


async def test_a_signed_address_gives_an_object_to_anyone_for_a_while(
    bucket_store: S3Objects, s3_server: S3Server
) -> None:
    await bucket_store.put("videos/a/1.m4s", b"0123456789")
    await bucket_store.put("live/a/poster/720p.jpg", b"picture")
    plain = f"{s3_server.endpoint}/{bucket_store.location.removeprefix('s3://')}/videos/a/1.m4s"
    assert fetch(plain).status == 403
    url = await bucket_store.sign("videos/a/1.m4s", "GET", 600)
    assert url.startswith(f"{bucket_store.origin}/")
    answer = fetch(url)
    assert (answer.status, answer.body) == (200, b"0123456789")
    assert answer.headers["Content-Type"] == "video/mp4"
    part = fetch(url, headers={"Range": "bytes=2-4"})
    assert (part.status, part.body) == (206, b"234")
    assert fetch(url, method="HEAD").status == 403
    head = await bucket_store.sign("videos/a/1.m4s", "HEAD", 600)
    assert fetch(head, method="HEAD").status == 200
    assert fetch(url.replace("1.m4s", "2.m4s")).status == 403
    poster = fetch(await bucket_store.sign("live/a/poster/720p.jpg", "GET", 600))
    assert poster.headers["Content-Type"] == "image/jpeg"
    missing = await bucket_store.sign("videos/a/2.m4s", "GET", 600)
    assert fetch(missing).status == 404
    short = await bucket_store.sign("videos/a/1.m4s", "GET", 1)
    await until(lambda: fetch(short).status == 403)


def test_signed_addresses_lead_to_the_server_of_the_bucket() -> None:
    amazon = S3Location(bucket="media", region="eu-central-1")
    assert amazon.origin == "https://s3.eu-central-1.amazonaws.com"
    assert S3Location(bucket="media", endpoint="https://s3.example/").origin == "https://s3.example"


async def test_prefixes_of_one_bucket_are_apart(
    bucket_store: S3Objects, s3_server: S3Server
) -> None:
    bucket = s3_server.new_bucket("one")
    one = S3Bucket(bucket)
    other = S3Bucket(msgspec.structs.replace(bucket, prefix="one-more"))
    whole = S3Bucket(msgspec.structs.replace(bucket, prefix=""))
    await one.put("live/a", b"1")
    await other.put("live/a", b"2")
    assert await one.get("live/a") == b"1"
    assert await one.addresses("live") == ["live/a"]
    assert await whole.addresses("one") == ["one/live/a"]
    await one.delete_tree("live")
    assert await other.get("live/a") == b"2"


async def test_what_others_put_into_the_bucket_is_no_object(
    s3_server: S3Server, bucket_store: S3Objects
) -> None:
    del bucket_store  # its credentials are in the environment
    location = s3_server.new_bucket("media")
    bucket = S3Bucket(location)
    await bucket.put("videos/a/1-1/0.m4s", b"four")
    client = s3_server.client(location.bucket)
    for key in ("videos/.DS_Store", "videos/a/0.m4s~", "videos/lost+found/1"):
        await client.put_async(f"media/{key}", b"foreign")
    assert await bucket.addresses("videos") == ["videos/a/1-1/0.m4s"]
    assert await bucket.sizes("videos") == {"videos/a/1-1/0.m4s": 4}
    assert await bucket.folder_names("videos") == {"a"}
    await bucket.delete_tree("videos")
    assert await bucket.addresses("videos") == []


async def test_a_bucket_that_is_not_there_is_no_missing_object(
    bucket_store: S3Objects, s3_server: S3Server
) -> None:
    missing = S3Bucket(
        S3Location(bucket="none-such", endpoint=s3_server.endpoint, region="us-east-1")
    )
    with pytest.raises(StoreFailed, match="no such bucket"):
        await missing.put("live/a", b"1")
    with pytest.raises(StoreFailed, match="404"):
        await missing.folder_names("live")


async def test_wrong_credentials_are_named(
    bucket_store: S3Objects, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    wrong = S3Bucket(s3_server.new_bucket())
    for call in (wrong.put("live/a", b"1"), wrong.get("live/a"), wrong.stat("live/a")):
        with pytest.raises(StoreFailed, match="live/a: the credentials do not allow it") as caught:
            await call
        assert "another" not in str(caught.value)


async def test_a_wrong_clock_is_not_taken_for_wrong_credentials(s3_server: S3Server) -> None:
    bucket = s3_server.new_bucket()
    script = f"""
import asyncio
from storage.objects.s3_bucket import S3Bucket, S3Location
where = S3Location(bucket={bucket.bucket!r}, endpoint={bucket.endpoint!r}, region="us-east-1")
asyncio.run(S3Bucket(where).get("installation"))
"""
    child = await asyncio.create_subprocess_exec(
        "faketime", "-f", "+5h", sys.executable, "-c", script,
        env={**os.environ, **s3_server.credentials}, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, errors = await child.communicate()
    last = errors.decode().splitlines()[-1]
    assert "StoreFailed: installation: the bucket's clock and this machine's differ" in last


async def test_a_server_that_is_away_fails_soon_and_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with running_s3() as server:
        for name, value in server.credentials.items():
            monkeypatch.setenv(name, value)
        bucket = S3Bucket(server.new_bucket())
        await bucket.put("live/a", b"1")
        server.stop_gateway()
        began = time.monotonic()
        with pytest.raises(StoreFailed, match="the bucket cannot be reached"):
            await bucket.put("live/a", b"2")
        assert time.monotonic() - began < 20
        server.start_gateway()
        assert await bucket.get("live/a") == b"1"
        with pytest.raises(StoreFailed, match="another installation's"):
            await bucket.check()
        await bucket.put("installation", b"key")
        await bucket.check(thorough=True)
        with pytest.raises(ObjectMissing):
            await bucket.get("live/b")


@pytest.mark.parametrize(
    ("folder", "action"),
    [
        ("videos", "PutObject"),
        ("live", "GetObject"),
        ("trash", "DeleteObject"),
        ("pieces", "PutObject"),
        ("cdn", "PutObject"),
    ],
)
async def test_a_folder_that_a_policy_closes_is_named(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, folder: str, action: str
) -> None:
    for name, value in s3_server.credentials.items():
        monkeypatch.setenv(name, value)
    location = s3_server.new_bucket("some/prefix")
    bucket = S3Bucket(location, has_cdn_copies=True)
    await bucket.put("installation", b"key")
    await bucket.check(thorough=True)
    statement = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": f"s3:{action}",
        "Resource": f"arn:aws:s3:::{location.bucket}/some/prefix/{folder}/*",
    }
    policy = {"Version": "2012-10-17", "Statement": [statement]}
    s3_server.set_policy(location.bucket, json.dumps(policy))
    await bucket.check()
    reason = f"the folder {folder} of the bucket: the credentials do not allow it"
    with pytest.raises(StoreFailed, match=f"^{reason}$"):
        await bucket.check(thorough=True)
    if folder == "cdn":
        await S3Bucket(location).check(thorough=True)


async def test_a_file_that_no_bucket_takes_is_not_sent(
    bucket_store: S3Objects, tmp_path: Path
) -> None:
    assert bucket_store.most_bytes == 10_000 * PIECE_BYTES  # that S3 takes of an object
    with (tmp_path / "film").open("wb") as file:
        file.truncate(bucket_store.most_bytes + 1)
    with pytest.raises(StoreFailed, match="it has 167772160001 bytes, and a bucket takes at most"):
        await bucket_store.send(tmp_path / "film", "sources/a/1")
    assert await bucket_store.addresses("sources") == []
