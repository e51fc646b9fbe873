"""From a file to the objects of a video: what its job's holder makes, and all of it put together.

A short film is made at once. The stretches of a long one are left to all workers
(`transcode.vod.span_job`), and put together when all are there. What becomes of the job is
`transcode.vod.job`'s to know.
"""

import logging
from collections.abc import Sequence

import msgspec

from media.ladder import BOX_NUMBERS
from storage.catalog.records.transcoding import MadeRung, MadeVideo, VideoWork
from storage.errors import CatalogError
from storage.job_leases import HeldJob
from storage.objects.base import ObjectError
from transcode.inspect.probe import ProbeSlow
from transcode.jobs.leased_task import AttemptFailed
from transcode.vod.asset_attempt import Filming, Studio
from transcode.vod.asset_plan import Original, folders_of, length_of
from transcode.vod.engine_task import sentences
from transcode.vod.playlists import Stitched, stitch, stitched
from transcode.vod.rendition_store import NOT_STORED, OUT_OF_STEP, MadePiece, OutOfStep

__all__ = ["Assembled", "VideoMaker"]

log = logging.getLogger(__name__)


class Assembled(msgspec.Struct, frozen=True, kw_only=True):
    """A video whose playlists are written, and the folders that they name."""

    video: MadeVideo
    folders: tuple[str, ...]


class VideoMaker:
    """Makes videos."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio

    async def make(self, work: VideoWork, held: HeldJob) -> Assembled | None:
        """Make of a video what is to be made now; None where its stretches are awaited.

        Returns with the video the folders that it consists of. Nothing is shown yet but what plays
        in advance.

        Raises:
            NotMedia: nothing can be made of the file.
            AttemptFailed: nothing was made of it this time.
            JobLost: another worker has the job.
        """
        try:
            return await self._make(work, held)
        except ProbeSlow as error:
            raise AttemptFailed("The file could not be examined in time.") from error
        except (OSError, ObjectError) as error:
            log.warning("media not stored", extra={"video": work.hash, "cause": str(error)})
            raise AttemptFailed(NOT_STORED) from error
        except OutOfStep as error:
            log.error("renditions out of step", extra={"video": work.hash, "cause": str(error)})  # noqa: TRY400  # one line
            raise AttemptFailed(OUT_OF_STEP) from error
        except CatalogError as error:
            raise AttemptFailed("The catalog could not be written.") from error

    async def _make(self, work: VideoWork, held: HeldJob) -> Assembled | None:
        spans = self._studio.spans
        made = await spans.outcomes(held)
        if not made or made[0] is None:
            filming = Filming(self._studio, work, held)
            original = await filming.make()
            if not filming.is_planned:
                return await self._joined(work, held, original, ())
            outcome = msgspec.json.encode(original).decode()
            if not await spans.original_made(held, outcome, self._studio.now_us()):
                return None
            made = await spans.outcomes(held)
        original = msgspec.json.decode(made[0] or "", type=Original)
        pieces = [msgspec.json.decode(each, type=MadePiece) for each in made[1:] if each]
        return await self._joined(work, held, original, pieces)

    async def _joined(
        self, work: VideoWork, held: HeldJob, original: Original, others: Sequence[MadePiece]
    ) -> Assembled:
        """Write the playlists of all pieces."""
        media, *_ = folders_of(work, held)
        pieces = (original.piece, *others)
        made = stitched(
            media,
            original.rungs,
            pieces,
            channels=1 if original.mono else 2,
            subtitles=original.subtitles,
        )
        if made.seams and others:
            log.warning("spans differ", extra={"video": work.hash, "seams": sorted(made.seams)})
        lists = await stitch(self._studio.objects, work.hash, media, made)
        length_us, short = length_of(original.length_us, made.length)
        size = sum(piece.size for piece in pieces) + sum(lists.values())
        size += original.poster_size + original.preview_size
        size += sum(each.size for each in original.subtitles)
        if original.piece.folder != media:
            size += original.advance
        warnings: dict[str, int] = {}
        for piece in pieces:
            warnings |= piece.warnings
        folders = [media, *(piece.folder for piece in pieces)]
        video = MadeVideo(
            media=media,
            size=size,
            length_us=length_us,
            rungs=_rungs(original, pieces, made, lists),
            posters=original.posters,
            poster_labels=original.poster_labels,
            previews=original.previews,
            subtitles=original.subtitles,
            warnings=(*(() if "times leap" in warnings else short), *sentences(warnings)),
        )
        return Assembled(video=video, folders=tuple(dict.fromkeys(folders)))


def _rungs(
    original: Original, pieces: Sequence[MadePiece], made: Stitched, lists: dict[str, int]
) -> tuple[MadeRung, ...]:
    return tuple(
        MadeRung(
            number=BOX_NUMBERS[rung.name],
            size=made.sizes[rung.name] + lists[rung.name],
            seconds=_seconds(original, pieces, rung.name),
        )
        for rung in original.rungs
    )


def _seconds(original: Original, pieces: Sequence[MadePiece], name: str) -> int:
    """Return the CPU seconds that a rung took: at least one, where it was encoded at all."""
    spent = sum(piece.cpu_ms.get(name, 0) for piece in pieces)
    return 0 if name == original.reused else max(1, round(spent / 1000))
