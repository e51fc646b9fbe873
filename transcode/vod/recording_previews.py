"""The previews of recordings: jobs that read keyframes from a recording's own segments.

A recording is a video as soon as its run is over, because nothing is encoded again; its previews
follow. Of the smallest rendition, the first chunk of each sampled segment is read, at most 400 of
150 kB at 360p, and decoded by a sandboxed engine. Segments that are gaps, or missing, have no
thumbnail. A video that has no poster, or that of its stream, gets the best of a few keyframes of
the largest rendition. The video also plays without previews.
"""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import ClassVar, Final

import msgspec

from media.hls.fmp4 import first_chunk_bytes
from media.hls.m3u8 import M3u8Error, parse
from media.hls.playlist import MediaPlaylist, MultivariantPlaylist, Variant
from media.ladder import BOX_NUMBERS, Rendition
from media.sample_times import coarse_to_fine, sample_times
from media.ticks import MICROSECONDS, MILLISECONDS, VIDEO_SCALE, rescale
from storage.catalog.records.transcoding import MadePreviews, PreviewWork
from storage.catalog.videos.jobs import PREVIEWS
from storage.catalog.videos.previews import RecordingPreviews
from storage.leases import Lease
from storage.objects.addresses import video_folder, video_variants
from storage.objects.base import ObjectError, ObjectMissing, Objects
from storage.workers.context import WorkContext
from storage.workers.leased_task import AttemptFailed, InputRefused, LeasedTask, TaskEvents
from storage.workers.patient_objects import PatientObjects
from storage.workers.worker_pool import WorkSource
from transcode.protocol.engine_process import (
    SILENT_SECONDS,
    EngineLost,
    EngineProcess,
    spawn_engine,
)
from transcode.protocol.file_messages import Keyframe, PosterKeyframe, PreviewOrder
from transcode.protocol.messages import Poster, Previews, WireError
from transcode.vod.attempt_cleanup import remove_folders
from transcode.vod.images import VodImages, store_images

log = logging.getLogger(__name__)

# The best of this many keyframes becomes the poster: each costs 20 ms at 1080p, 80 ms at 2160p.
_POSTER_CANDIDATES: Final = 8
_HEAD_BYTES: Final = 1 << 16  # the head of a chunk is 16 bytes for each of its pictures
_MOST_CHUNK_BYTES: Final = 16 << 20  # half a second of 160 Mbit/s is 10 MB
_BROKE: Final = "The engine broke off."
_NOT_READ: Final = "The recording could not be read, or its previews not be stored."
_NO_PLAYLIST: Final = "The recording has no playlist that can be read."


class SampledSegment(msgspec.Struct, frozen=True):
    """A segment whose first picture is shown `at` milliseconds; its files below the rendition."""

    at: int
    init: str
    media: str


def sampled_segments(playlist: MediaPlaylist) -> list[SampledSegment]:
    """Return the segments of a playlist whose first pictures become thumbnails, in order."""
    starts: list[int] = []
    length = 0
    for segment in playlist.segments:
        starts.append(length)
        length += segment.duration
    by_number: dict[int, SampledSegment] = {}
    for at_us in sample_times(rescale(length, VIDEO_SCALE, MICROSECONDS)):
        number = bisect_right(starts, rescale(at_us, MICROSECONDS, VIDEO_SCALE)) - 1
        segment = playlist.segments[number] if number >= 0 else None
        if segment is not None and segment.map_uri is not None:  # not a gap
            at = rescale(starts[number], VIDEO_SCALE, MILLISECONDS)
            by_number[number] = SampledSegment(at, segment.map_uri, segment.uri)
    return list(by_number.values())


def read_keyframe(init: Path, media: Path) -> bytes | None:
    """Return an init section and a segment's first chunk; None if either is missing or damaged.

    Raises:
        OSError: the disk failed.
    """
    try:
        with media.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            size = first_chunk_bytes(head)
            if size > _MOST_CHUNK_BYTES:
                return None
            return init.read_bytes() + head[:size] + file.read(max(0, size - len(head)))
    except (FileNotFoundError, ValueError):
        return None


class _SampledRendition(msgspec.Struct, frozen=True):
    """The sampled segments of a rendition, whose files are in `folder`; it lasts `duration`."""

    folder: str
    duration: int
    samples: list[SampledSegment]


class PreviewContext(WorkContext, frozen=True, kw_only=True):
    """What previews are made with; `lend` gives a file with an object's bytes."""

    previews: RecordingPreviews
    objects: Objects
    lend: Callable[[str], AbstractAsyncContextManager[Path]]


class PreviewMaker(WorkSource[PreviewContext]):
    """Leases and does the jobs that make previews of recordings.

    What is made is stored while the store is well.
    """

    kind: ClassVar = PREVIEWS

    def __init__(self, context: PreviewContext) -> None:
        objects = PatientObjects(context.objects, context.health)
        super().__init__(msgspec.structs.replace(context, objects=objects))

    async def do(self, held: Lease) -> None:
        """Do a job to its end; see `WorkSource.do`."""
        work = await self.context.write(self.context.previews.begin, held)
        await PreviewJob(self.context, work, held).run()


class PreviewJob(LeasedTask[PreviewContext, MadePreviews]):
    """One attempt at the previews of a recording.

    An engine that neither reads nor reports for `seconds` is killed.
    """

    events: ClassVar = TaskEvents(
        what="previews",
        begun="previews begun",
        failed="no previews",
        given_up="no previews",
    )
    spent_reason: ClassVar = "Making the previews broke off {} times and was given up."

    def __init__(
        self,
        context: PreviewContext,
        work: PreviewWork,
        job: Lease,
        *,
        seconds: float = SILENT_SECONDS,
    ) -> None:
        super().__init__(context, job, video=work.hash)
        self._work = work
        self._seconds = seconds
        self._unused: str | None = None  # a folder that the recorded outcome leaves behind

    def _folder(self, attempt: int) -> str:
        return f"previews-{self._work.generation}-{attempt}"

    def _poster_folder(self, attempt: int) -> str:
        return f"poster-{self._work.generation}-{attempt}"

    async def make(self) -> MadePreviews:
        """Make the images and store them; see `LeasedTask.make`."""
        try:
            return await self._make()
        except (ObjectMissing, M3u8Error) as error:
            raise InputRefused(_NO_PLAYLIST) from error
        except (ObjectError, OSError) as error:
            log.warning("previews not stored", extra={**self.facts, "cause": str(error)})
            raise AttemptFailed(_NOT_READ) from error

    async def _make(self) -> MadePreviews:
        work, objects = self._work, self._context.objects
        variants = parse((await objects.get(video_variants(work.hash, work.media))).decode())
        shown = _largest_first(variants)
        if not shown:
            return MadePreviews()
        smallest = await self._rendition(shown[-1])
        largest = smallest if len(shown) == 1 else None
        if work.needs_poster and largest is None:
            largest = await self._rendition(shown[0])
        images = await self._run_engine(shown, smallest, largest if work.needs_poster else None)
        return await self._store(images, rescale(smallest.duration, VIDEO_SCALE, MICROSECONDS))

    async def _rendition(self, variant: Variant) -> _SampledRendition:
        work = self._work
        address = f"{video_folder(work.hash, work.media)}/{variant.uri.partition('/')[2]}"
        text = (await self._context.objects.get(address)).decode()
        playlist = await asyncio.to_thread(parse, text)  # half a second for a day
        if not isinstance(playlist, MediaPlaylist):
            raise M3u8Error("no media playlist")
        folder = address.rpartition("/")[0]
        return _SampledRendition(folder, playlist.duration, sampled_segments(playlist))

    async def _store(self, images: VodImages, length_us: int) -> MadePreviews:
        hash_, objects, attempt = self._work.hash, self._context.objects, self.held.attempt
        previews, posters = self._folder(attempt), self._poster_folder(attempt)
        size = await store_images(objects, hash_, images, posters, previews, length_us)
        if images.previews is not None:
            await objects.make_durable(video_folder(hash_, previews))
        if images.posters:
            await objects.make_durable(video_folder(hash_, posters))
        return MadePreviews(
            previews=previews if size else None,
            size=size,
            posters=posters if images.posters else None,
            poster_labels=tuple(poster.label for poster in images.posters),
        )

    async def _run_engine(
        self,
        shown: Sequence[Variant],
        smallest: _SampledRendition,
        largest: _SampledRendition | None,
    ) -> VodImages:
        """Make previews of the keyframes of `smallest`, and posters of those of `largest`."""
        order = PreviewOrder(width=shown[-1].width, height=shown[-1].height, rungs=_rungs(shown))
        previews: Previews | None = None
        posters: list[Poster] = []
        failure: Exception | None = None
        arguments = msgspec.json.encode(order).decode()
        async with spawn_engine("previews", self._work.hash, arguments) as engine:
            try:
                if largest is not None:
                    await self._send_candidates(engine, largest)
                await self._send(engine, smallest)
                engine.close_input()
                async for report in engine.reports(silent_seconds=self._seconds):
                    if isinstance(report, Previews):
                        previews = report
                    elif isinstance(report, Poster):
                        posters.append(report)
            except (EngineLost, WireError, TimeoutError) as error:
                failure = error
                engine.kill()
            status = await engine.wait()
        if failure is not None or status != 0:
            facts = {**self.facts, "status": status, "cause": repr(failure)}
            log.warning("engine lost", extra=facts)
            raise AttemptFailed(_BROKE)
        return VodImages(previews=previews, posters=tuple(posters))

    async def _send_candidates(self, engine: EngineProcess, rendition: _SampledRendition) -> None:
        """Send the keyframes of which the best becomes the poster, from all over the video."""
        samples = rendition.samples
        step = max(1, len(samples) // _POSTER_CANDIDATES)
        for sample in samples[step // 2 :: step][:_POSTER_CANDIDATES]:
            data = await self._read(rendition, sample)
            if data is not None:
                async with asyncio.timeout(self._seconds):
                    await engine.send(PosterKeyframe(data=data))

    async def _send(self, engine: EngineProcess, rendition: _SampledRendition) -> None:
        missing = 0
        for number in coarse_to_fine(len(rendition.samples)):
            sample = rendition.samples[number]
            data = await self._read(rendition, sample)
            if data is None:
                missing += 1
                continue
            async with asyncio.timeout(self._seconds):
                await engine.send(Keyframe(at=sample.at, data=data))
        if missing:
            log.warning("segments not read", extra={**self.facts, "segments": missing})

    async def _read(self, rendition: _SampledRendition, sample: SampledSegment) -> bytes | None:
        """Return the keyframe that a segment begins with, None if it cannot be read."""
        init, media = (f"{rendition.folder}/{name}" for name in (sample.init, sample.media))
        try:
            async with self._context.lend(init) as start, self._context.lend(media) as rest:
                return await asyncio.to_thread(read_keyframe, start, rest)
        except ObjectMissing:
            return None

    async def finish(self, outcome: MadePreviews) -> None:
        """Record the images in the video's row; see `LeasedTask.finish`."""
        now_us = self._context.now_us()
        self._unused = await self._context.previews.finish(self.held, outcome, now_us)
        facts = {"bytes": outcome.size, "posters": len(outcome.poster_labels)}
        log.info("previews made", extra={**self.facts, **facts})

    async def fail(self, reason: str) -> None:
        """End the job; the video remains as it is."""
        del reason  # the log has it
        await self._context.previews.fail(self.held)

    async def clean_up(self) -> None:
        """Remove the folders of older attempts, whose workers were killed, and an unused one."""
        folders = [
            each for attempt in range(1, self.held.attempt) for each in self._folders(attempt)
        ]
        folders += [] if self._unused is None else [self._unused]
        await remove_folders(self._context.objects, self._work.hash, folders)

    async def discard(self) -> None:
        """Remove the folders of this attempt."""
        folders = self._folders(self.held.attempt)
        await remove_folders(self._context.objects, self._work.hash, folders)

    def _folders(self, attempt: int) -> list[str]:
        """Return the folders that an attempt makes."""
        return [
            self._folder(attempt),
            *([self._poster_folder(attempt)] if self._work.needs_poster else []),
        ]


def _largest_first(variants: MediaPlaylist | MultivariantPlaylist) -> list[Variant]:
    """Return the variants with a picture; none if there is sound alone."""
    if not isinstance(variants, MultivariantPlaylist):
        raise M3u8Error("no multivariant playlist")
    pictures = [each for each in variants.variants if each.width and each.height]
    return sorted(pictures, key=lambda each: each.width * each.height, reverse=True)


def _rungs(shown: Sequence[Variant]) -> tuple[Rendition, ...]:
    """Return the renditions that posters are made for: those that have a label."""
    named = [(each.uri.split("/")[-2], each) for each in shown]
    return tuple(
        Rendition(name=name, width=each.width, height=each.height, rate=each.bandwidth)
        for name, each in named
        if name in BOX_NUMBERS
    )
