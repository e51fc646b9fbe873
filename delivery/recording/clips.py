"""Cuts clips: parts of a run that become videos of their own, without being encoded.

A clip is requested by a time of the stream's clock, as EXT-X-PROGRAM-DATE-TIME shows it, and
consists of the whole segments that overlap this time: it begins at a keyframe, and may be longer
than requested by up to a segment at either end. Its segments are hard links, as those of a
recording, so it lasts when the live window moves on or the recording is deleted.

It is cut out of a recording that is a video, out of one under way, or out of the live window; media
that are at the edge alone (the segment that is being made) are not part of it.
"""

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from delivery.recording.finalize import describe, link_posters
from delivery.recording.pages import TimeRange, time_of
from delivery.recording.recording_store import MEDIA, ListedStep, RecordingStore, StepPages
from delivery.run.run_state import PAGE_STEPS, Step
from delivery.run.run_store import StoredRun, newest_run, read_steps, run_log
from media.ladder import Rendition
from media.stream_keys import PublicHash
from storage.catalog.videos.clips import Clips, RecordedTime
from storage.catalog.videos.recordings import BORROWED_POSTERS, MadeRecording
from storage.errors import StorageError
from storage.objects.addresses import (
    live_posters,
    live_run,
    video,
    video_folder,
)
from storage.objects.base import Objects
from storage.objects.disk_threads import FILES

# Playlists show times in milliseconds, so a requested time may be off by as much.
_TOLERANCE_US: Final = 1000


class NotAvailable(StorageError):
    """There are no media of a requested time; `available` holds the times that have media.

    These are times of recordings and of the live window, the newest first.
    """

    def __init__(self, available: Sequence[TimeRange]) -> None:
        super().__init__("there is no media of that time")
        self.available = tuple(available)


class ClipSource(msgspec.Struct, frozen=True, kw_only=True):
    """The steps that a clip consists of, and where their media are.

    `folders` holds, by the number of a step, the folders that may have its media. `posters` is a
    folder of posters, and `video` the number of the video that the clip is cut out of, if any.
    """

    steps: tuple[Step, ...]
    folders: dict[int, tuple[str, ...]]
    renditions: tuple[Rendition, ...]
    codecs: dict[str, str]
    posters: str | None
    video: int | None

    @property
    def time(self) -> TimeRange:
        """The time that the clip shows."""
        return TimeRange(time_of(self.steps[0]).from_us, time_of(self.steps[-1]).to_us)

    @property
    def size(self) -> int:
        """The size of its segments in bytes."""
        return sum(each.size for step in self.steps for each in step.segments.values())


async def find_source(
    objects: Objects,
    catalog: Clips,
    stream: int,
    hash_: PublicHash,
    wanted: TimeRange,
) -> ClipSource:
    """Return what a clip of the stream `hash_`, whose number is `stream`, is cut out of.

    Raises:
        NotAvailable: no recording, and no live window, covers the whole time.
        StorageError: the disk or the catalog failed.
    """
    # In this order: a recording that becomes a video meanwhile is found either way.
    sources = await catalog.find_sources(
        stream, wanted.from_us + _TOLERANCE_US, wanted.to_us - _TOLERANCE_US
    )
    if sources.recorded is not None:
        source = await _find_in_video(objects, sources.recorded, wanted)
        if source is not None:
            return source
    run = await newest_run(objects, hash_, with_steps=True)
    available: list[TimeRange] = []
    if run is not None:
        source, time = await _find_in_run(objects, run, sources.recording.get(run.run), wanted)
        if source is not None:
            return source
        available += [time] if time is not None else []
    available += [TimeRange(each.from_us, each.to_us) for each in sources.others]
    raise NotAvailable(available)


async def _find_in_video(
    objects: Objects, recorded: RecordedTime, wanted: TimeRange
) -> ClipSource | None:
    store = await RecordingStore.load(objects, recorded.hash)
    candidates = await store.pages.find(wanted)
    steps = await FILES.run(partial(_overlapping, candidates, wanted))  # as in `_find_in_run`
    folder = video_folder(recorded.hash, MEDIA)
    posters = recorded.posters
    if not steps:
        return None
    return ClipSource(
        steps=steps,
        folders={step.sequence: (folder,) for step in steps},
        renditions=store.totals.renditions,
        codecs=store.totals.codecs,
        posters=None if posters is None else video_folder(recorded.hash, posters),
        video=recorded.video,
    )


async def _find_in_run(
    objects: Objects, run: StoredRun, recording: PublicHash | None, wanted: TimeRange
) -> tuple[ClipSource | None, TimeRange | None]:
    """Return what to cut out of a run, None if it lacks the time; and the time that it has.

    `recording` is the hash of its recording, if any, which has more than the live window.
    """
    live = live_run(run.hash, run.run)
    if recording is None:
        older = await _steps_of_window(objects, run, wanted)
        newest: Sequence[Step] = run.state.tail
        folders: tuple[str, ...] = (live,)
    else:
        store = await RecordingStore.load(objects, recording)
        recorded = (video_folder(recording, MEDIA),)
        pages = store.pages
        older = _OlderSteps(
            begin_us=await pages.begin_us(), steps=await pages.find(wanted), folders=recorded
        )
        # These are in no page yet, and the recorder may not have linked them.
        newest = await read_steps(objects, run, store.totals.last + 1)
        folders = (live, *recorded)
    newest = [step for step in newest if step.sequence >= older.since and step.playable]
    # Beside the event loop: six hours have 10,800 steps.
    return await FILES.run(partial(_cut, run, older, newest, folders, wanted))


class _OlderSteps(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a log's pages: when they begin, and the steps around the requested time.

    `since` is the number of the oldest step that may be part of a clip. `folders` have the media.
    """

    begin_us: int | None
    steps: Sequence[Step]
    folders: tuple[str, ...]
    since: int = 0


async def _steps_of_window(objects: Objects, run: StoredRun, wanted: TimeRange) -> _OlderSteps:
    """Return the steps in the live window of a run's log; media outside may be deleted soon."""
    state, log = run.state, run_log(objects, run.hash, run.run)
    newest = state.tail[0].sequence if state.tail else state.first
    pages = StepPages(log, range(state.first // PAGE_STEPS, newest // PAGE_STEPS))
    steps = await pages.find(wanted)
    return _OlderSteps(
        begin_us=await pages.begin_us(state.first),
        steps=[step for step in steps if step.sequence >= state.first and step.playable],
        folders=(live_run(run.hash, run.run),),
        since=state.first,
    )


def _cut(
    run: StoredRun,
    older: _OlderSteps,
    newest: Sequence[Step],
    folders: tuple[str, ...],
    wanted: TimeRange,
) -> tuple[ClipSource | None, TimeRange | None]:
    """See `_find_in_run`; the media of the `newest` steps are in `folders`."""
    steps = (*older.steps, *newest)
    if not steps:
        return None, None
    first_us = time_of(steps[0]).from_us if older.begin_us is None else older.begin_us
    time = TimeRange(first_us, time_of(steps[-1]).to_us)
    chosen = _overlapping(steps, wanted)
    begins_late = wanted.from_us < time.from_us - _TOLERANCE_US
    if begins_late or wanted.to_us > time.to_us + _TOLERANCE_US or not chosen:
        return None, time
    places = dict.fromkeys((step.sequence for step in older.steps), older.folders)
    places |= dict.fromkeys((step.sequence for step in newest), folders)
    source = ClipSource(
        steps=chosen,
        folders={step.sequence: places[step.sequence] for step in chosen},
        renditions=run.state.renditions,
        codecs=run.state.announced_codecs,
        posters=live_posters(run.hash),
        video=None,
    )
    return source, time


def _overlapping(steps: Sequence[Step], wanted: TimeRange) -> tuple[Step, ...]:
    """Return the steps from the first to the last that overlap a time."""
    times = [time_of(step) for step in steps]
    first = next(
        (n for n, time in enumerate(times) if time.to_us > wanted.from_us + _TOLERANCE_US),
        len(steps),
    )
    last = next(
        (
            n
            for n, time in reversed([*enumerate(times)])
            if time.from_us < wanted.to_us - _TOLERANCE_US
        ),
        -1,
    )
    return tuple(steps[first : last + 1])


async def make_clip(objects: Objects, source: ClipSource, hash_: PublicHash) -> MadeRecording:
    """Link the media of a clip to the video `hash_`, which has no row yet; write its playlists.

    When this returns, all of it survives a power cut. If the process is killed before the row
    exists, the cleanup of orphans removes it; on any failure it is removed at once.

    Raises:
        ObjectError: the disk failed, or the media were deleted meanwhile.
    """
    try:
        return await _make(objects, source, hash_)
    except BaseException:
        with contextlib.suppress(StorageError):
            await objects.delete_tree(video(hash_))
        raise


async def _make(objects: Objects, source: ClipSource, hash_: PublicHash) -> MadeRecording:
    store = RecordingStore(objects, hash_)
    listed = [
        ListedStep(
            step=step,
            renditions=source.renditions,
            codecs=source.codecs,
            folders=source.folders[step.sequence],
        )
        for step in source.steps
    ]
    for start in range(0, len(listed), PAGE_STEPS):
        _require_media(await store.append_all(listed[start : start + PAGE_STEPS]))
        if store.is_page_due:
            _require_media(await store.write_page())
    _require_media(await store.write_page(closed=True))
    playlists = await store.write_playlists()
    await store.remove_pages()
    labels: tuple[str, ...] = ()
    if source.posters is not None:
        labels = await link_posters(objects, source.posters, hash_, BORROWED_POSTERS)
    await objects.make_durable(video(hash_))
    return describe(store, playlists, BORROWED_POSTERS, labels)


def _require_media(error: StorageError | None) -> None:
    """Raise what made media of a step a gap: a clip can be requested again, a recording cannot."""
    if error is not None:
        raise error
