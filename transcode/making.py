"""From a file to the objects of a video: examined, planned, made by an engine, with posters.

Whose job it is and what becomes of it is `transcode.video`'s to know; here it is held, and when it
is not any more that comes out as `JobLost`.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Final

import msgspec

from media.ladder import BOXES, ladder_for
from media.segment import InitSection, Part, Segment
from media.ticks import VIDEO_SCALE, rescale
from storage.catalog.transcoding import MadeRung, MadeVideo, PlannedRung, Transcoding, VideoWork
from storage.errors import CatalogError
from storage.jobs import BEAT_SECONDS, HeldJob, JobLost
from storage.objects.addresses import video_poster
from storage.objects.base import ObjectError, Objects
from transcode.posters import PosterError, posters
from transcode.probe import NotMedia, Probed, ProbeSlow, probe
from transcode.process import Engine, engine
from transcode.renditions import OutOfStep, Renditions
from transcode.wire import (
    Finished,
    Make,
    Poster,
    Prepared,
    Progress,
    Refused,
    Report,
    Trouble,
    WireError,
)

__all__ = ["NotDone", "VideoMaker", "eta_of", "folders_of", "order_for"]

log = logging.getLogger(__name__)

_MICROSECONDS: Final = 1_000_000
# Nobody waits for the answer here, so a slow disk may take its time.
_PROBE_SECONDS: Final = 60.0
# An engine reports about once a second, unless it gets nowhere.
_SILENT_SECONDS: Final = 60.0
# Of what the container claims; less is worth a warning.
_WHOLE: Final = 0.95
_STANDARD: Final = frozenset(box.label for box in BOXES if box.standard)
_NUMBERS: Final = {box.label: box.number for box in BOXES}
_SENTENCES: Final = {
    "picture not decoded": "Some pictures are damaged and could not be decoded.",
    "sound not decoded": "Some of the sound is damaged and could not be decoded.",
    "sound decoder not opened": "The sound could not be decoded: the video is silent.",
    "no posters": "No poster could be made.",
}


class NotDone(Exception):
    """The job came to nothing through no fault of the file; `reason` says to its owner what was."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Engine(msgspec.Struct):
    """What an engine said of its work."""

    reused: str | None = None
    cpu_ms: dict[str, int] = {}
    warnings: dict[str, int] = {}
    refused: str | None = None
    finished: bool = False


def folders_of(work: VideoWork, held: HeldJob) -> tuple[str, str]:
    """Return the folders of an attempt's media and posters, below the video's own."""
    return f"{work.generation}-{held.attempt}", f"poster-{work.generation}-{held.attempt}"


def order_for(found: Probed) -> Make:
    """Return what is to be made of a file: the standard rungs, none above the source."""
    if not found.width:
        return Make(ladder=None)
    upright = (found.width, found.height) == (found.codec_width, found.codec_height)
    return Make(
        ladder=ladder_for(found.width, found.height, _STANDARD),
        reuse=upright and not found.rotation,
    )


def eta_of(done: float, elapsed: float) -> int:
    """Return the seconds that are left; `done` is the part that took `elapsed` seconds."""
    return round(elapsed * (1 - done) / done) if 0 < done < 1 else 0


class VideoMaker:
    """Makes videos. `path_of` is where an object stands as a file; `clock` never goes back."""

    def __init__(
        self,
        *,
        transcoding: Transcoding,
        objects: Objects,
        path_of: Callable[[str], Path],
        now_us: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        self._transcoding = transcoding
        self._objects = objects
        self._path_of = path_of
        self._now_us = now_us
        self._clock = clock

    async def make(self, work: VideoWork, held: HeldJob) -> MadeVideo:
        """Make a video of a file, in the folders of the attempt; nothing is shown yet.

        Raises:
            NotMedia: nothing can be made of the file.
            NotDone: nothing was made of it this time.
            JobLost: another worker has the job.
        """
        path = self._path_of(work.source)
        try:
            found = await probe(path, seconds=_PROBE_SECONDS)
            order = order_for(found)
            await self._plan(held, found, order)
            media, stills = folders_of(work, held)
            rungs = order.ladder.renditions if order.ladder is not None else ()
            renditions = Renditions(self._objects, hash_=work.hash, media=media, rungs=rungs)
            said = await self._run(work, held, path, order, renditions, found)
            await renditions.finish()
            made = await self._posters(work, path, order, stills, said)
        except ProbeSlow as error:
            raise NotDone("The file could not be examined in time.") from error
        except (OSError, ObjectError) as error:
            log.warning("media not stored", extra={"video": work.hash, "cause": str(error)})
            raise NotDone(
                "The file could not be read, or what was made of it not stored."
            ) from error
        except OutOfStep as error:
            log.error("renditions out of step", extra={"video": work.hash, "cause": str(error)})  # noqa: TRY400  # one line
            raise NotDone("Transcoding made renditions that do not fit together.") from error
        except CatalogError as error:
            raise NotDone("The catalog could not be written.") from error
        length_us, short = _length(found, renditions.length)
        sizes = renditions.sizes()
        return MadeVideo(
            media=media,
            size=renditions.size + sum(len(still.data) for still in made),
            length_us=length_us,
            rungs=tuple(
                MadeRung(
                    number=_NUMBERS[rung.name],
                    size=sizes[rung.name],
                    seconds=_seconds(said, rung.name),
                )
                for rung in rungs
            ),
            posters=stills if made else None,
            poster_labels=tuple(still.label for still in made),
            warnings=(*short, *_warnings(said)),
        )

    async def _plan(self, held: HeldJob, found: Probed, order: Make) -> None:
        rungs = order.ladder.renditions if order.ladder is not None else ()
        await self._transcoding.plan(
            held,
            [
                PlannedRung(number=_NUMBERS[rung.name], width=rung.width, height=rung.height)
                for rung in rungs
            ],
            self._now_us(),
            length_us=found.length_us,
            width=found.width,
            height=found.height,
        )

    async def _run(
        self,
        work: VideoWork,
        held: HeldJob,
        path: Path,
        order: Make,
        renditions: Renditions,
        found: Probed,
    ) -> _Engine:
        """Have an engine make the renditions, and store them as they come."""
        said = _Engine()
        failure: Exception | None = None
        pace = _Pace(found.length_us, self._clock())
        file = await asyncio.to_thread(os.open, path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            wanted = msgspec.json.encode(order).decode()
            async with engine("video", work.hash, wanted, file=file) as child:
                try:
                    async for report in _reports(child):
                        if isinstance(report, InitSection | Part | Segment):
                            await renditions.take(report)
                        elif isinstance(report, Progress):
                            said.cpu_ms = report.rung_cpu_ms
                            await self._progress(held, pace, report.made)
                        else:
                            _note(said, report)
                except (ObjectError, OutOfStep, JobLost, WireError, TimeoutError) as error:
                    # Out of this block it would come as a group.
                    failure = error
                    child.kill()
                status = await child.wait()
        finally:
            os.close(file)
        if failure is not None and not isinstance(failure, WireError | TimeoutError):
            raise failure
        if said.refused is not None:
            raise NotMedia(said.refused)
        if status != 0 or failure is not None or not said.finished:
            facts = {"video": work.hash, "status": status, "cause": repr(failure)}
            log.warning("engine lost", extra=facts)
            raise NotDone("The transcoder broke off; the file may be damaged.")
        return said

    async def _progress(self, held: HeldJob, pace: "_Pace", made_ms: int) -> None:
        told = pace.told(made_ms, self._clock())
        if told is None:
            return
        try:
            await self._transcoding.progress(held, *told, self._now_us())
        except CatalogError as error:
            log.warning("progress not written", extra={"job": held.id, "cause": str(error)})

    async def _posters(
        self, work: VideoWork, path: Path, order: Make, folder: str, said: _Engine
    ) -> tuple[Poster, ...]:
        if order.ladder is None:
            return ()
        try:
            made = await posters(path, order.ladder)
        except (NotMedia, PosterError) as error:
            log.warning("no posters", extra={"video": work.hash, "cause": str(error)})
            said.warnings["no posters"] = 1
            return ()
        for still in made:
            await self._objects.put(video_poster(work.hash, folder, still.label), still.data)
        return made


class _Pace:
    """How far an engine is and what is left; a change is worth writing once a second."""

    def __init__(self, length_us: int, begun: float) -> None:
        self._length_us = length_us
        self._begun = self._written = begun
        self._percent = 0

    def told(self, made_ms: int, now: float) -> tuple[int, int] | None:
        """Return percent and seconds left where they are worth writing down."""
        if not self._length_us:
            return None
        done = min(1.0, made_ms * 1000 / self._length_us)
        percent = int(done * 100)
        if percent == self._percent and now - self._written < BEAT_SECONDS:
            return None
        self._percent, self._written = percent, now
        return percent, eta_of(done, now - self._begun)


async def _reports(child: Engine) -> AsyncGenerator[Report, None]:
    """Yield an engine's reports.

    Raises:
        TimeoutError: it said nothing for too long.
        WireError: it said something that is no report.
    """
    reports = child.reports()
    while True:
        async with asyncio.timeout(_SILENT_SECONDS):
            report = await anext(reports, None)
        if report is None:
            return
        yield report


def _note(said: _Engine, report: Report) -> None:
    match report:
        case Prepared():
            said.reused = report.reused
        case Finished():
            said.finished = True
        case Refused():
            said.refused = report.reason
        case Trouble():
            said.warnings[report.what] = said.warnings.get(report.what, 0) + report.count
        case _:
            pass


def _seconds(said: _Engine, name: str) -> int:
    """Return the CPU seconds that a rung took: at least one, where it was encoded at all."""
    spent = round(said.cpu_ms.get(name, 0) / 1000)
    return 0 if name == said.reused else max(1, spent)


def _warnings(said: _Engine) -> list[str]:
    return [sentence for what, sentence in _SENTENCES.items() if what in said.warnings]


def _length(found: Probed, ticks: int) -> tuple[int, list[str]]:
    """Return a video's length, and a sentence where it is not what the file claims."""
    made_us = rescale(ticks, VIDEO_SCALE, _MICROSECONDS)
    if not found.length_us:
        return made_us, []
    if made_us >= found.length_us * _WHOLE or found.length_us - made_us < _MICROSECONDS:
        return found.length_us, []
    claimed, there = found.length_us / _MICROSECONDS, made_us / _MICROSECONDS
    return made_us, [
        f"The file claims {claimed:.1f} s, but ends after {there:.1f} s: it may be cut off."
    ]
