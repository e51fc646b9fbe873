"""Transcodes one file by the workers of one process, in a data folder of its own.

    python -m bench.vod.ours FILE FOLDER WORKERS MODULE

Prints when the video first played and when it was complete, in seconds, and writes each rung as one
file.
"""

import asyncio
import json
import posixpath
import sys
import time
from functools import partial
from pathlib import Path
from typing import Final

from media.hls.m3u8 import parse
from media.hls.playlist import MediaPlaylist, MultivariantPlaylist
from media.stream_keys import new_hash
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change
from storage.catalog.records.videos import NewVideo, WholeVideo
from storage.objects.disk import DiskObjects
from storage.workers.worker_pool import WorkerPool
from transcode.protocol import file_engine
from transcode.protocol.engine_process import spawn_engine
from transcode.vod.asset_attempt import TranscodeContext
from transcode.vod.core_budget import CoreBudget
from transcode.vod.job import VideoTranscoder

_SAMPLE_SECONDS: Final = 0.1


def _now_us() -> int:
    return time.time_ns() // 1000


async def _make(file: Path, size: int, folder: Path, workers: int) -> dict[str, object]:
    async with open_catalog(folder / "catalog.sqlite", migrate=True) as catalog:
        await catalog.installation.first_start(_now_us())
        with DiskObjects(folder / "objects") as objects:
            hash_ = new_hash()
            source = f"sources/{hash_}/1"
            place = objects.path(source)
            place.parent.mkdir(parents=True)
            place.symlink_to(file)
            arrived = NewVideo(hash=hash_, file_title="film", name="film", size=size, source=source)
            begun = time.monotonic()
            video = (await catalog.videos.add(1, arrived, Change(_now_us()))).video.id
            transcoder = VideoTranscoder(
                TranscodeContext(
                    jobs=catalog.jobs,
                    spans=catalog.spans,
                    transcoding=catalog.transcoding,
                    objects=objects,
                    lend=objects.lend,
                    now_us=_now_us,
                    cores=CoreBudget(workers),
                )
            )
            pool = WorkerPool(transcoder, size=workers)
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(pool.run())
                result = await _follow(catalog, video, begun)
                running.cancel()
            whole = await catalog.videos.find(video)
            if whole is None or whole.video.state != "completed":
                raise SystemExit(f"not completed: {whole}")
            await _join(objects, whole, folder)
            return result


async def _follow(catalog: Catalog, video: int, begun: float) -> dict[str, object]:
    played: float | None = None
    looks: list[tuple[float, int, int]] = []
    while True:
        whole = await catalog.videos.find(video)
        now = time.monotonic() - begun
        if whole is None:
            raise SystemExit("the video is gone")
        record = whole.video
        if played is None and record.media is not None:
            played = now
        looks.append((round(now, 2), record.progress, record.eta))
        if record.state in ("completed", "failed"):
            spent = {rung.number: rung.transcode_seconds for rung in whole.rungs}
            return {"played": played, "completed": now, "looks": looks, "rungs": spent}
        await asyncio.sleep(_SAMPLE_SECONDS)


async def _join(objects: DiskObjects, whole: WholeVideo, folder: Path) -> None:
    """Write each rendition as one file: its init section and its segments, joined."""
    root = f"videos/{whole.video.hash}"
    variants = parse((await objects.get(f"{root}/{whole.video.media}/index.m3u8")).decode())
    if not isinstance(variants, MultivariantPlaylist):
        raise TypeError("no multivariant playlist")
    for variant in variants.variants:
        place = f"{root}/{posixpath.dirname(variant.uri)}"
        playlist = parse((await objects.get(f"{root}/{variant.uri}")).decode())
        if not isinstance(playlist, MediaPlaylist):
            raise TypeError("no media playlist")
        first = playlist.segments[0].map_uri or ""
        names = [first, *(segment.uri for segment in playlist.segments)]
        with (folder / f"{posixpath.basename(place)}.mp4").open("wb") as out:
            for name in names:
                out.write(await objects.get(posixpath.normpath(f"{place}/{name}")))


def main() -> None:
    """Make the file that the command line names."""
    file, folder, workers, module = sys.argv[1:]
    file_engine.spawn_engine = partial(spawn_engine, module=module)
    path = Path(file).resolve()
    result = asyncio.run(_make(path, path.stat().st_size, Path(folder), int(workers)))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
