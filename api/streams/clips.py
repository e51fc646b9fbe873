"""Clips: a part of a stream, of its live window or of a recording, becomes a video at once."""

import contextlib
from typing import Final

from litestar import Controller

from api.http.errors import ApiError, invalid
from api.http.operation import adds
from api.intake.upload_intake import (
    GivenIntake,
    require_room,
    store_errors_translated,
    token_holders,
)
from api.library.quotas import GivenQuotas
from api.schemas.filenames import slug
from api.schemas.timestamps import format_timestamp
from api.streams.lookup import STREAM, StreamCall
from api.streams.schemas import ClipAdded, ClipAddition, ClipTime
from api.videos.presenter import VideoPresenter
from delivery.recording.clips import NotAvailable, find_source, make_clip
from delivery.recording.pages import TimeRange
from media.stream_keys import PublicHash
from media.ticks import MICROSECONDS
from storage.catalog.videos.clips import NewClip
from storage.errors import NoSuchProject, StorageError
from storage.objects.addresses import video as video_folder
from storage.objects.base import Objects

# Less is a mistyped time: a segment, the least that a clip consists of, lasts two seconds.
SHORTEST_SECONDS: Final = 1
# The request is answered when all files are linked, and proxies usually wait for a minute: six
# hours of five renditions, 54,000 files, take 12 s of CPU. For more there is the recording.
LONGEST_SECONDS: Final = 6 * 3600


class ClipsController(Controller):
    """The clips of a stream."""

    path = "/streams/{stream_id:str}/clips"
    tags = ("streams",)
    dependencies = STREAM

    @adds("Make a clip", ClipAddition)
    async def add_clip(
        self,
        call: StreamCall,
        intake: GivenIntake,
        quotas: GivenQuotas,
    ) -> ClipAdded:
        """Make a video of what was live from one time to another, without encoding it.

        Times are those of the stream's clock, as its playlists show them. The clip consists of the
        whole segments that overlap them, so that it begins at a keyframe; the answer says when it
        begins and ends. It is cut out of a recording, finished or under way, or of the live window.
        """
        body = await call.body(ClipAddition)
        time_range = _requested_time(body)
        caller, objects = call.caller.id, intake.objects
        await require_room(intake, None)
        # It counts towards the quotas until it is added.
        async with contextlib.AsyncExitStack() as adding:
            with (
                intake.clip_gate.acquire(token_holders(caller, call.record.project)),
                store_errors_translated(),
            ):
                try:
                    source = await find_source(
                        objects, call.catalog.clips, call.record.id, call.record.hash, time_range
                    )
                except NotAvailable as error:
                    raise _not_available(error, time_range) from error
                await adding.enter_async_context(
                    quotas.adding_clip(call.record.project, source.size)
                )
                hash_ = await call.catalog.videos.free_hash()
                media = await make_clip(objects, source, hash_)
            clip = NewClip(
                hash=hash_,
                made=media,
                from_us=source.time.from_us,
                title=str(body.title or "") or None,
                video=source.video,
            )
            try:
                added = await call.catalog.clips.add(call.record.id, clip, call.change(), slug)
            except NoSuchProject:
                await _remove(objects, hash_)
                raise
            if added is None:
                await _remove(objects, hash_)
        return ClipAdded(
            message="Clip added.",
            video=VideoPresenter.of(call.presenter).full(call.still_there(added)),
            clip=ClipTime(
                from_=format_timestamp(source.time.from_us), to=format_timestamp(source.time.to_us)
            ),
        )


async def _remove(objects: Objects, hash_: PublicHash) -> None:
    """Remove the media of a clip whose stream was deleted meanwhile.

    After other failures the catalog may have it: then the cleanup of orphans decides.
    """
    with contextlib.suppress(StorageError):
        await objects.delete_tree(video_folder(hash_))


def _requested_time(body: ClipAddition) -> TimeRange:
    """Return the requested time.

    Raises:
        ApiError: 422 if it is too short or too long.
    """
    length_us = body.to - body.from_
    if length_us < SHORTEST_SECONDS * MICROSECONDS:
        raise invalid({"to": [f"A clip lasts at least {SHORTEST_SECONDS} s."]})
    if length_us > LONGEST_SECONDS * MICROSECONDS:
        raise invalid({"to": [f"A clip lasts at most {LONGEST_SECONDS} s."]})
    return TimeRange(int(body.from_), int(body.to))


def _not_available(error: NotAvailable, time_range: TimeRange) -> ApiError:
    """Return the error response for a time of which not all media, or none, are kept."""
    if not error.available:
        return invalid({"from": ["Nothing of this stream is kept, or nothing of this time."]})
    available = "; ".join(
        f"{format_timestamp(time.from_us)} to {format_timestamp(time.to_us)}"
        for time in error.available
    )
    text = f"Not all of this time is kept. There is {available}."
    newest = error.available[0]
    late = time_range.from_us >= newest.from_us and time_range.to_us > newest.to_us
    return invalid({"to" if late else "from": [text]})
