"""A real catalog, a real object store and a transcoder over them."""

import asyncio
import posixpath
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import msgspec

from media.hls.m3u8 import parse
from media.hls.playlist import MediaPlaylist, MultivariantPlaylist, PlaylistSegment
from media.no_op import always
from media.stream_keys import new_hash
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change
from storage.catalog.records.videos import VideoStatus, WholeVideo
from storage.catalog.videos.jobs import TRANSCODE
from storage.leases import Lease
from storage.objects.disk import DiskObjects
from tests.support.sql import migrated
from tests.support.storage.new_videos import new_video
from tests.support.waiting import until
from transcode.vod.asset_attempt import TranscodeContext
from transcode.vod.job import VideoTranscoder


def now_us() -> int:
    return time.time_ns() // 1000


class VodFixture(msgspec.Struct, frozen=True):
    """The dependencies of `transcode.vod.job`, and access to its output."""

    catalog: Catalog
    objects: DiskObjects
    context: TranscodeContext
    transcoder: VideoTranscoder

    async def add(self, path: Path, *, project: int = 1) -> WholeVideo:
        """Add a file as an upload does."""
        hash_ = new_hash()
        source = f"sources/{hash_}/1"
        data = await asyncio.to_thread(path.read_bytes)
        await self.objects.put(source, data)
        file = new_video(hash_, size=len(data), source=source)
        return await self.catalog.videos.add(project, file, Change(now_us()))

    async def lease(self, later_us: int = 0) -> Lease:
        """Lease the job that is due at `later_us` from now."""
        job = await self.catalog.jobs.lease(secrets.token_hex(8), now_us() + later_us, TRANSCODE)
        assert job is not None
        return job

    async def transcode(self, path: Path) -> WholeVideo:
        """Transcode a file in one attempt, and return the video."""
        video = (await self.add(path)).video.id
        await self.transcoder.do(await self.lease())
        return await self.whole_video(video)

    async def whole_video(self, video: int) -> WholeVideo:
        whole = await self.catalog.videos.find(video)
        assert whole is not None
        return whole

    async def status(self, video: int) -> VideoStatus:
        status = await self.catalog.videos.find_status(video)
        assert status is not None
        return status

    async def wait_until_ended(self, video: int, *, within: float) -> VideoStatus:
        """Wait until a video is completed or failed."""

        async def is_over() -> bool:
            return (await self.status(video)).state in ("completed", "failed")

        await until(is_over, within=within)
        return await self.status(video)

    async def wait_for_media(self, hash_: str, *, within: float = 30) -> None:
        """Wait until the first segments of a video are stored."""

        async def has_media() -> bool:
            return any(name.endswith(".m4s") for name in await self.stored_objects(hash_))

        await until(has_media, within=within)

    async def stored_objects(self, hash_: str) -> list[str]:
        """Return the addresses of a video's objects, without its source."""
        return await self.objects.addresses(f"videos/{hash_}")

    async def variants(self, whole: WholeVideo) -> MultivariantPlaylist:
        video = whole.video
        playlist = parse(
            (await self.objects.get(f"videos/{video.hash}/{video.media}/index.m3u8")).decode()
        )
        assert isinstance(playlist, MultivariantPlaylist)
        return playlist

    async def playlist(self, whole: WholeVideo, uri: str) -> MediaPlaylist:
        """Return a rendition's playlist by its URI in the multivariant playlist."""
        parsed = parse((await self.objects.get(f"videos/{whole.video.hash}/{uri}")).decode())
        assert isinstance(parsed, MediaPlaylist)
        return parsed

    async def segment_bytes(
        self, whole: WholeVideo, uri: str, segment: PlaylistSegment
    ) -> tuple[bytes, bytes]:
        """Return the init section and the media of a segment; `uri` is that of its playlist."""
        folder = f"videos/{whole.video.hash}/{posixpath.dirname(uri)}"
        init = await self._get(f"{folder}/{segment.map_uri}") if segment.map_uri else b""
        return init, await self._get(f"{folder}/{segment.uri}")

    async def _get(self, reference: str) -> bytes:
        """Return an object by its address, which may contain `..` like a URL."""
        return await self.objects.get(posixpath.normpath(reference))

    async def rendition_files(self, whole: WholeVideo) -> dict[str, list[bytes]]:
        """Return each rendition's media, as one file per init section."""
        variants = await self.variants(whole)
        uris = [*(each.uri for each in variants.variants), *(each.uri for each in variants.sounds)]
        files: dict[str, list[bytes]] = {}
        for uri in dict.fromkeys(uris):
            folder = f"videos/{whole.video.hash}/{uri.removesuffix('/index.m3u8')}"
            joined: dict[str, bytes] = {}
            for segment in (await self.playlist(whole, uri)).segments:
                assert segment.map_uri is not None
                if segment.map_uri not in joined:
                    joined[segment.map_uri] = await self._get(f"{folder}/{segment.map_uri}")
                joined[segment.map_uri] += await self._get(f"{folder}/{segment.uri}")
            files[folder.rsplit("/", 1)[1]] = list(joined.values())
        return files


def transcode_context(
    catalog: Catalog, objects: DiskObjects, may_encode: Callable[[], bool] = always
) -> TranscodeContext:
    return TranscodeContext(
        jobs=catalog.jobs,
        spans=catalog.spans,
        transcoding=catalog.transcoding,
        objects=objects,
        lend=objects.lend,
        now_us=now_us,
        may_encode=may_encode,
    )


@asynccontextmanager
async def vod_fixture(
    folder: Path,
    media: Path | None = None,
    *,
    location: str | Path | None = None,
    store: DiskObjects | None = None,
    may_encode: Callable[[], bool] = always,
) -> AsyncGenerator[VodFixture]:
    """Open the catalog and the objects in a folder, which may exist already.

    `media` is another folder for the objects, `store` another store, `location` another catalog.
    """
    async with open_catalog(
        location or migrated(folder / "catalog.sqlite"), migrate=True
    ) as catalog:
        await catalog.installation.first_start(now_us())
        with nullcontext(store) if store else DiskObjects(media or folder / "objects") as objects:
            context = transcode_context(catalog, objects, may_encode=may_encode)
            yield VodFixture(catalog, objects, context, VideoTranscoder(context))
