"""From the record of a run that is over to a video: playlists, posters, a place in the catalog."""

import logging
from collections.abc import Callable
from typing import Final, Protocol

from media.ladder import BOX_NUMBERS
from media.ticks import MICROSECONDS, VIDEO_SCALE, rescale
from storage.catalog.videos.recordings import MadeRecording, RecordedRung, RecordingRow
from storage.errors import StorageError
from storage.live.run_state import RunNotes
from storage.objects.addresses import live_poster, live_posters, video, video_poster
from storage.objects.base import Objects
from storage.recording.pages import codecs_by
from storage.recording.recording_store import MEDIA, Heard, Record

__all__ = ["LEAST_TICKS", "Finisher", "finish"]

log = logging.getLogger(__name__)

# Below one segment's usual length there was no programme: an encoder that was tried out.
LEAST_TICKS: Final = 2 * VIDEO_SCALE
_POSTERS: Final = f"poster-{MEDIA}"


class Finisher(Protocol):
    """Makes the video of a recording in the catalog, or drops it."""

    async def finish(
        self,
        recording: RecordingRow,
        made: MadeRecording,
        now_us: int,
        name_of: Callable[[str], str],
    ) -> int | None:
        """Make the video of a recording; None where the recording is gone."""
        ...

    async def drop(self, recording: int) -> None:
        """Forget a recording."""
        ...


async def finish(
    objects: Objects,
    ledger: Finisher,
    row: RecordingRow,
    record: Record,
    notes: RunNotes | None,
    now_us: Callable[[], int],
    name_of: Callable[[str], str],
) -> bool:
    """Make a video of a record, or forget it where there is nothing; returns which.

    `notes` are the run's, where they are still there: they have the steps that no page has. Whoever
    breaks off can begin again.

    Raises:
        StorageError: the disk or the catalog refused; what is recorded stays as it is.
    """
    if notes is not None and not record.closed:
        codecs = codecs_by(notes)
        for step in (*notes.left, *notes.listed):
            error = await record.take(Heard(step=step, renditions=notes.renditions, codecs=codecs))
            if error is not None:
                about = {"stream": row.stream, "run": row.run, "cause": str(error)}
                log.warning("media not recorded", extra=about)
    await record.write(closed=True)
    if not record.tally.plays or record.tally.ticks < LEAST_TICKS:
        await ledger.drop(row.id)
        await objects.delete_tree(video(row.hash))
        return False
    playlists = await record.publish()
    labels = await _posters(objects, row)
    made = _made(record, playlists, labels)
    if await ledger.finish(row, made, now_us(), name_of) is None:
        await objects.delete_tree(video(row.hash))
        return False
    try:
        await record.remove_pages()
    except StorageError as error:
        log.warning("pages not removed", extra={"video": row.hash, "cause": str(error)})
    return True


def _made(record: Record, playlists: int, labels: tuple[str, ...]) -> MadeRecording:
    tally = record.tally
    present = tally.present
    return MadeRecording(
        media=MEDIA,
        size=sum(tally.sizes.values()) + playlists,
        length_us=rescale(tally.ticks, VIDEO_SCALE, MICROSECONDS),
        width=present[0].width if present else 0,
        height=present[0].height if present else 0,
        rungs=tuple(
            RecordedRung(
                number=BOX_NUMBERS[rung.name],
                width=rung.width,
                height=rung.height,
                size=tally.sizes[rung.name],
            )
            for rung in present
            if rung.name in BOX_NUMBERS
        ),
        posters=_POSTERS if labels else None,
        poster_labels=labels,
    )


async def _posters(objects: Objects, row: RecordingRow) -> tuple[str, ...]:
    """Keep the newest posters of the stream as the video's; returns their labels.

    A video can do without: what cannot be kept is told to the log.
    """
    labels: list[str] = []
    try:
        for address in await objects.addresses(live_posters(row.stream)):
            label = address.rpartition("/")[2].removesuffix(".jpg")
            if label in BOX_NUMBERS:
                source = live_poster(row.stream, label)
                await objects.link(source, video_poster(row.hash, _POSTERS, label))
                labels.append(label)
    except StorageError as error:
        log.warning("posters not kept", extra={"video": row.hash, "cause": str(error)})
    return tuple(sorted(labels, key=lambda label: BOX_NUMBERS[label]))
