"""Assembled videos: the sizes that are recorded are those of the stored objects."""

from pathlib import Path

from tests.support.transcode.transcode_fixture import VodFixture


async def test_what_is_told_of_sizes_is_what_is_stored(vod: VodFixture, short_film: Path) -> None:
    whole = await vod.transcode(short_film)
    sizes: dict[str, int] = {}
    for address in await vod.stored_objects(whole.video.hash):
        found = await vod.objects.stat(address)
        assert found is not None
        sizes[address] = found.size
    assert sum(sizes.values()) == whole.video.storage_size
    for rung in whole.rungs:
        name = {1: "360p", 2: "480p"}[rung.number]
        assert rung.size == sum(size for at, size in sizes.items() if f"/1-1/{name}/" in at)
        assert rung.transcode_seconds >= 1
