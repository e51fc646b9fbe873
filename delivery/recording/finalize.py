"""Turns the recording of an ended run into a video: playlists, posters, a row in the catalog.

`describe` and `link_posters` serve clips, too.
"""

import logging
from collections.abc import Callable
from typing import Final

from delivery.recording.recording_store import (
    MEDIA,
    ListedStep,
    RecordingStore,
    WrittenPlaylists,
)
from delivery.run.run_store import StoredRun, read_steps
from media.ladder import BOX_NUMBERS
from media.stream_keys import PublicHash
from media.ticks import MICROSECONDS, VIDEO_SCALE, rescale
from storage.catalog.videos.recordings import MadeRecording, RecordedRung, RecordingRow, Recordings
from storage.errors import StorageError
from storage.objects.addresses import live_posters, live_run, video, video_poster
from storage.objects.at_once import do_each
from storage.objects.base import Objects
from storage.objects.trash import discard

log = logging.getLogger(__name__)

# Less than one usual segment is the test of an encoder, not a programme.
MIN_TICKS: Final = 2 * VIDEO_SCALE
_POSTERS: Final = f"poster-{MEDIA}"


async def finalize(
    objects: Objects,
    catalog: Recordings,
    row: RecordingRow,
    store: RecordingStore,
    run: StoredRun | None,
    now_us: Callable[[], int],
    name_of: Callable[[str], str],
) -> bool:
    """Turn a recording into a video and return True, or drop it if it holds next to nothing.

    `run` is the run, if it still exists: its log has the steps that are in no page yet. A call
    that is interrupted can be repeated. What is dropped goes to the trash: a catalog from a backup
    may still have a recording that has become a video since.

    Raises:
        StorageError: the disk or the catalog failed; the recording is unchanged.
    """
    lost: StorageError | None = None
    if run is not None and not store.closed:
        codecs, renditions = run.state.announced_codecs, run.state.renditions
        folders = (live_run(row.stream, row.run),)
        listed = [
            ListedStep(step=step, renditions=renditions, codecs=codecs, folders=folders)
            for step in await read_steps(objects, run, store.totals.last + 1)
        ]
        lost = await store.append_all(listed)
    error = await store.write_page(closed=True)
    lost = lost or error
    if lost is not None:
        about = {"stream": row.stream, "run": row.run, "cause": str(lost)}
        log.warning("media not recorded", extra=about)
    if not store.totals.is_playable or store.totals.ticks < MIN_TICKS:
        # Another host may have made a video of it meanwhile.
        if await catalog.remove(row.id):
            await discard(objects, video(row.hash), now_us())
        return False
    playlists = await store.write_playlists()
    labels = await link_posters(objects, live_posters(row.stream), row.hash, _POSTERS)
    description = describe(store, playlists, _POSTERS, labels)
    await objects.make_durable(video(row.hash))
    if await catalog.finish(row, description, now_us(), name_of) is None:
        await objects.delete_tree(video(row.hash))
        return False
    return True


def describe(
    store: RecordingStore, playlists: WrittenPlaylists, posters: str, labels: tuple[str, ...]
) -> MadeRecording:
    """Return what the catalog stores about a recording.

    `posters` is the folder of its posters, which have these labels.
    """
    totals = store.totals
    listed = totals.listed
    return MadeRecording(
        media=MEDIA,
        size=sum(totals.sizes.values()) + playlists.size,
        length_us=rescale(totals.ticks, VIDEO_SCALE, MICROSECONDS),
        width=listed[0].width if listed else 0,
        height=listed[0].height if listed else 0,
        rungs=tuple(
            RecordedRung(
                number=BOX_NUMBERS[rung.name],
                width=rung.width,
                height=rung.height,
                size=totals.sizes[rung.name],
            )
            for rung in listed
            if rung.name in BOX_NUMBERS
        ),
        posters=posters if labels else None,
        poster_labels=labels,
        time=None if playlists.time is None else (playlists.time.from_us, playlists.time.to_us),
    )


async def link_posters(
    objects: Objects, folder: str, hash_: PublicHash, posters: str
) -> tuple[str, ...]:
    """Link the posters in `folder` to the folder `posters` of a video; return their labels.

    Posters are optional: errors are only logged.
    """
    labels: list[str] = []

    async def link(address: str) -> None:
        label = address.rpartition("/")[2].removesuffix(".jpg")
        if label in BOX_NUMBERS:
            await objects.link(address, video_poster(hash_, posters, label))
            labels.append(label)

    try:
        await do_each(await objects.addresses(folder), link, at_once=len(BOX_NUMBERS))
    except StorageError as error:
        log.warning("posters not stored", extra={"video": hash_, "cause": str(error)})
    return tuple(sorted(labels, key=lambda label: BOX_NUMBERS[label]))
