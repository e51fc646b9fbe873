"""Assembled videos: the sizes that are recorded are those of the stored objects."""

from pathlib import Path

from tests.support.transcode.transcode_fixture import VodFixture


async def test_recorded_sizes_are_those_of_the_stored_objects(
    vod: VodFixture, short_film: Path
) -> None:
    whole = await vod.transcode(short_film)
    sizes: dict[str, int] = {}
    for address in await vod.stored_objects(whole.video.hash):
        stat = await vod.objects.stat(address)
        assert stat is not None
        sizes[address] = stat.size
    assert sum(sizes.values()) == whole.video.storage_size
    for rung in whole.rungs:
        name = {1: "360p", 2: "480p"}[rung.number]
        assert rung.size == sum(size for at, size in sizes.items() if f"/1-1/{name}/" in at)
        assert rung.transcode_seconds >= 1
