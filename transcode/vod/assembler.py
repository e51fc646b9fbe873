"""Turns a job's file into a video: makes the pieces, then lists them in playlists.

A short asset is made in one piece. The spans of a long one are made by all workers
(`transcode.vod.span_job`), and assembled when all are done. How the job ends is decided in
`transcode.vod.job`.
"""

import logging
from collections.abc import Sequence

import msgspec

from media.ladder import BOX_NUMBERS
from storage.catalog.records.transcoding import MadeRung, MadeVideo, VideoWork
from storage.errors import CatalogBusy, CatalogError, CatalogUnavailable
from storage.leases import Lease
from storage.objects.addresses import video
from storage.objects.base import ObjectError
from storage.workers.leased_task import AttemptFailed
from transcode.inspect.probe import ProbeTimeout
from transcode.vod.asset_attempt import AssetAttempt, TranscodeContext
from transcode.vod.asset_plan import Original, attempt_folders, length_and_warnings
from transcode.vod.engine_task import warning_sentences
from transcode.vod.playlists import VodPlaylists, write_playlists
from transcode.vod.rendition_store import NOT_STORED, OUT_OF_STEP, MadePiece, OutOfStep

log = logging.getLogger(__name__)


class Assembled(msgspec.Struct, frozen=True, kw_only=True):
    """A video whose playlists are written, and the folders that they name."""

    video: MadeVideo
    folders: tuple[str, ...]


class VideoAssembler:
    """Makes the pieces of a video that a job makes itself, and assembles all pieces."""

    def __init__(self, context: TranscodeContext) -> None:
        self._context = context
        self.may_have_recorded = False
        """True once what this attempt made may be recorded for others to assemble."""

    async def make(self, work: VideoWork, job: Lease) -> Assembled | None:
        """Return the assembled video, or None while some of its spans are still to be made.

        Nothing is published yet, except what plays early (see `AssetAttempt`).

        Raises:
            NotMedia: the file cannot be transcoded.
            AttemptFailed: another attempt may succeed.
            Postponed: another attempt may succeed when pictures may be encoded.
            LeaseLost: another worker holds the job now.
        """
        try:
            return await self._make(work, job)
        except ProbeTimeout as error:
            raise AttemptFailed("The file could not be examined in time.") from error
        except (OSError, ObjectError) as error:
            log.warning("media not stored", extra={"video": work.hash, "cause": str(error)})
            raise AttemptFailed(NOT_STORED) from error
        except OutOfStep as error:
            log.error("renditions out of step", extra={"video": work.hash, "cause": str(error)})  # noqa: TRY400  # one line
            raise AttemptFailed(OUT_OF_STEP) from error
        except (CatalogBusy, CatalogUnavailable):
            raise
        except CatalogError as error:
            raise AttemptFailed("The catalog could not be written.") from error

    async def _make(self, work: VideoWork, job: Lease) -> Assembled | None:
        spans = self._context.spans
        outcomes = await spans.outcomes(job)
        if not outcomes or outcomes[0] is None:
            attempt = AssetAttempt(self._context, work, job, is_planned=bool(outcomes))
            original = await attempt.make()
            if not attempt.is_planned:
                return await self._assemble(work, job, original, ())
            outcome = msgspec.json.encode(original).decode()
            await self._context.objects.make_durable(video(work.hash))
            self.may_have_recorded = True
            if not await self._context.write(
                lambda job, now_us: spans.finish_original(job, outcome, now_us), job
            ):
                return None
            outcomes = await spans.outcomes(job)
        original = msgspec.json.decode(outcomes[0] or "", type=Original)
        pieces = [msgspec.json.decode(each, type=MadePiece) for each in outcomes[1:] if each]
        return await self._assemble(work, job, original, pieces)

    async def _assemble(
        self, work: VideoWork, job: Lease, original: Original, span_pieces: Sequence[MadePiece]
    ) -> Assembled:
        """Write the playlists that list all pieces."""
        media, *_ = attempt_folders(work, job)
        pieces = (original.piece, *span_pieces)
        playlists, list_sizes = await write_playlists(
            self._context.objects,
            work.hash,
            media,
            original.rungs,
            pieces,
            audible=original.audible,
            channels=1 if original.mono else 2,
            subtitles=original.subtitles,
        )
        if playlists.discontinuities and span_pieces:
            log.warning(
                "spans differ",
                extra={"video": work.hash, "seams": sorted(playlists.discontinuities)},
            )
        await self._context.objects.make_durable(video(work.hash))
        length_us, short = length_and_warnings(
            original.length_us, playlists.length, original.reached
        )
        size = sum(piece.size for piece in pieces) + sum(list_sizes.values())
        size += original.poster_size + original.preview_size
        size += sum(each.size for each in original.subtitles)
        if original.piece.folder != media:
            size += original.advance
        warnings: dict[str, int] = {}
        for piece in pieces:
            warnings |= piece.warnings
        folders = [media, *(piece.folder for piece in pieces)]
        made_video = MadeVideo(
            media=media,
            size=size,
            length_us=length_us,
            rungs=_rungs(original, pieces, playlists, list_sizes),
            posters=original.posters,
            poster_labels=original.poster_labels,
            previews=original.previews,
            subtitles=original.subtitles,
            warnings=(*(() if "times leap" in warnings else short), *warning_sentences(warnings)),
        )
        return Assembled(video=made_video, folders=tuple(dict.fromkeys(folders)))


def _rungs(
    original: Original,
    pieces: Sequence[MadePiece],
    playlists: VodPlaylists,
    list_sizes: dict[str, int],
) -> tuple[MadeRung, ...]:
    return tuple(
        MadeRung(
            number=BOX_NUMBERS[rung.name],
            size=playlists.sizes[rung.name] + list_sizes[rung.name],
            seconds=_seconds(original, pieces, rung.name),
        )
        for rung in original.rungs
    )


def _seconds(original: Original, pieces: Sequence[MadePiece], name: str) -> int:
    """Return the CPU seconds that a rung took; at least one if it was encoded at all."""
    spent = sum(piece.cpu_ms.get(name, 0) for piece in pieces)
    return 0 if name == original.reused else max(1, round(spent / 1000))
