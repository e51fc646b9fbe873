"""Copies for a CDN in a real bucket: made once, deleted with their objects, and nothing else."""

from collections.abc import Generator
from pathlib import Path

import pytest

from storage.objects.addresses import cdn_copy, live_segment, video_segment, video_source
from storage.objects.cdn_copies import CopyFinder, copy_for_cdn
from storage.objects.disk import DiskObjects
from storage.objects.s3 import S3Objects
from storage.objects.trash import discard
from tests.support.manual_clock import ManualClock
from tests.support.storage.s3_server import S3Server

pytestmark = pytest.mark.anyio

FILM, STREAM, RUN = "AAAAAAAAAAAA", "BBBBBBBBBBBB", "20260131T120000123"
ONE, TWO = "1" * 32, "2" * 32
SEGMENTS = [video_segment(FILM, "1-1", "720p", number) for number in range(3)]


@pytest.fixture
def store(
    s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Generator[S3Objects]:
    """An empty bucket whose objects may have copies."""
    for name, value in s3_server.credentials.items():
        monkeypatch.setenv(name, value)
    with DiskObjects(tmp_path / "scratch") as scratch:
        bucket = s3_server.new_bucket("some/prefix")
        yield S3Objects(bucket, scratch, cache_bytes=1 << 20, has_cdn_copies=True)


def copy_of(address: str, token: str) -> str:
    copy = cdn_copy(address, token)
    assert copy is not None
    return copy


async def test_a_copy_is_made_of_what_exists(store: S3Objects) -> None:
    await store.put_all({each: each.encode() for each in SEGMENTS})
    for _ in range(2):
        assert await copy_for_cdn(store, SEGMENTS[0], copy_of(SEGMENTS[0], ONE))
    assert not await copy_for_cdn(store, f"{SEGMENTS[0]}x", copy_of(f"{SEGMENTS[0]}x", ONE))
    assert await store.addresses("cdn") == [f"cdn/{FILM}/{ONE}/1-1/720p/0.m4s"]
    assert await store.get(f"cdn/{FILM}/{ONE}/1-1/720p/0.m4s") == SEGMENTS[0].encode()
    assert cdn_copy(video_source(FILM, 1), ONE) is None
    assert cdn_copy("installation", ONE) is None


async def test_copies_are_deleted_with_their_objects(store: S3Objects) -> None:
    live = [live_segment(STREAM, RUN, "720p", number) for number in range(4)]
    await store.put_all(dict.fromkeys((*SEGMENTS, *live), b"media"))
    for address in (*SEGMENTS, *live):
        for token in (ONE, TWO):
            assert await copy_for_cdn(store, address, copy_of(address, token))
    await store.delete_all(live[:2])  # as they leave the window
    await store.delete(SEGMENTS[0])
    expected = {copy_of(each, token) for each in (*SEGMENTS[1:], *live[2:]) for token in (ONE, TWO)}
    assert set(await store.addresses("cdn")) == expected
    await store.delete_tree(f"live/{STREAM}")
    await discard(store, f"videos/{FILM}", 1_700_000_000_000_000)
    assert await store.addresses("cdn") == []
    assert len(await store.addresses("trash")) == 2


async def test_names_of_folders_are_listed_once_a_minute_for_each_stream() -> None:
    asked: list[str] = []

    async def names(prefix: str) -> set[str]:
        asked.append(prefix)
        return {ONE}

    clock = ManualClock()
    finder = CopyFinder(names, clock=clock)
    for _ in range(3):
        assert await finder.find([SEGMENTS[0], "installation", "slates/s-a/b.jpg"]) == [
            copy_of(SEGMENTS[0], ONE)
        ]
        clock.now += 25
    assert asked == [f"cdn/{FILM}"]
    clock.now += 1
    await finder.find(SEGMENTS)
    assert asked == [f"cdn/{FILM}"] * 2


async def test_without_copies_nothing_is_listed_or_deleted_besides(
    bucket_store: S3Objects,
) -> None:
    await bucket_store.put_all({SEGMENTS[0]: b"x", copy_of(SEGMENTS[0], ONE): b"x"})
    await bucket_store.delete_tree(f"videos/{FILM}")
    assert await bucket_store.addresses("cdn") == [copy_of(SEGMENTS[0], ONE)]
