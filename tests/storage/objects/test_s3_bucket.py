"""What is a bucket's own: pieces of large objects, and errors that an operator understands."""

import random
import time
from pathlib import Path

import msgspec
import pytest

from storage.objects.base import ObjectMissing, ObjectStat, StoreFailed
from storage.objects.s3 import S3Objects
from storage.objects.s3_bucket import S3Bucket, S3Place
from tests.support.storage.s3_server import S3Server, running_s3

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
    place = S3Place.parse(url)
    assert (place.bucket, place.prefix) == (bucket, prefix)
    assert str(place) == url.rstrip("/")


async def test_a_large_object_goes_and_comes_in_pieces(
    bucket_store: S3Objects, tmp_path: Path
) -> None:
    data = random.Random(7).randbytes(LARGE)
    (tmp_path / "film").write_bytes(data)
    await bucket_store.send(tmp_path / "film", "sources/a/1")
    assert await bucket_store.size("sources/a/1") == await bucket_store.size("sources/a") == LARGE
    pieces: dict[int, bytes] = {}

    async def begin(stat: ObjectStat) -> None:
        assert stat.size == LARGE
        assert not pieces

    async def write(start: int, piece: memoryview) -> None:
        pieces[start] = bytes(piece)

    stat = await bucket_store.receive("sources/a/1", begin, write)
    assert stat.size == LARGE
    assert len(pieces) == 3
    assert b"".join(pieces[start] for start in sorted(pieces)) == data


async def test_a_file_that_is_gone_is_not_sent(bucket_store: S3Objects, tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="there is no such bucket, or no such file"):
        await bucket_store.send(tmp_path / "gone", "sources/a/1")


async def test_prefixes_of_one_bucket_are_apart(
    bucket_store: S3Objects, s3_server: S3Server
) -> None:
    place = s3_server.new_bucket("one")
    one = S3Bucket(place)
    other = S3Bucket(msgspec.structs.replace(place, prefix="one-more"))
    whole = S3Bucket(msgspec.structs.replace(place, prefix=""))
    await one.put("live/a", b"1")
    await other.put("live/a", b"2")
    assert await one.get("live/a") == b"1"
    assert await one.addresses("live") == ["live/a"]
    assert await whole.addresses("one") == ["one/live/a"]
    await one.delete_tree("live")
    assert await other.get("live/a") == b"2"


async def test_a_bucket_that_is_not_there_is_no_missing_object(
    bucket_store: S3Objects, s3_server: S3Server
) -> None:
    gone = S3Bucket(S3Place(bucket="none-such", endpoint=s3_server.endpoint, region="us-east-1"))
    with pytest.raises(StoreFailed, match="no such bucket"):
        await gone.put("live/a", b"1")
    with pytest.raises(StoreFailed, match="404"):
        await gone.folders("live")


async def test_wrong_credentials_are_named(
    bucket_store: S3Objects, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    wrong = S3Bucket(s3_server.new_bucket())
    for call in (wrong.put("live/a", b"1"), wrong.get("live/a"), wrong.stat("live/a")):
        with pytest.raises(StoreFailed, match="live/a: the credentials do not allow it") as caught:
            await call
        assert "another" not in str(caught.value)


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
