"""Turns videos into bodies, in each of their forms."""

from typing import Any, Final

import msgspec

from api.http.operation import Call
from api.schemas.common import BROADCASTER, CLUSTER, Embed
from api.schemas.embed_snippets import embed_snippets
from api.schemas.presenter import Presenter, present_labels, present_player
from api.schemas.timestamps import format_timestamp
from api.schemas.urls import Addresses
from api.videos.schemas import (
    CommonKeys,
    ShownRung,
    UploadedVideo,
    Video,
    VideoAdded,
    VideoChanged,
    VideoItem,
    VideoResolution,
    VideoShown,
    VideoStatusBody,
)
from media.ladder import BOX_LABELS
from storage.catalog.records.videos import VideoRecord, VideoStatus, WholeVideo

# The protocol is Pusher's (version 7). The cluster is a placeholder that clients require.
_CARD: Final = "default"  # the poster that always exists: a placeholder until there is a real one
_UNDER_WAY: Final = ("queued", "transcoding")
# The keys whose values are those of the record.
_AS_RECORDED: Final = tuple(
    key for key in CommonKeys.__struct_fields__ if hasattr(VideoRecord, key)
)
_Values = dict[str, Any]  # Any: fields of every type, by their names


def _milliseconds(length_us: int) -> int:
    return (length_us + 500) // 1000


def iso8601_duration(length_us: int) -> str:
    """Return a length in microseconds as an ISO 8601 duration, to the millisecond: `PT1H2M3.456S`.

    Parts that are zero are left out; a length of 0 is `PT0S`.
    """
    minutes, milliseconds = divmod(_milliseconds(length_us), 60_000)
    hours, minutes = divmod(minutes, 60)
    seconds, rest = divmod(milliseconds, 1000)
    text = f"{hours}H" if hours else ""
    if minutes:
        text += f"{minutes}M"
    if rest:
        text += f"{seconds}.{rest:03}".rstrip("0") + "S"
    elif seconds or not text:
        text += f"{seconds}S"
    return f"PT{text}"


def _optional_timestamp(moment_us: int | None) -> str | None:
    return None if moment_us is None else format_timestamp(moment_us)


class VideoPresenter(msgspec.Struct, frozen=True, kw_only=True):
    """Presents videos under the addresses of this service."""

    addresses: Addresses
    broadcaster_key: str

    @classmethod
    def of(cls, presenter: Presenter) -> "VideoPresenter":
        """Return the presenter of videos of the service whose streams a presenter presents."""
        return cls(addresses=presenter.addresses, broadcaster_key=presenter.broadcaster_key)

    def item(self, record: VideoRecord) -> VideoItem:
        """Return a video in the form of lists."""
        return VideoItem(**self._common(record), **self._progress(record), embed=self.embed(record))

    def full(self, whole: WholeVideo) -> Video:
        """Return a video in full."""
        return Video(**self._whole(whole), embed=self.embed(whole.video))

    def added(self, whole: WholeVideo) -> VideoAdded:
        """Return the answer to adding a video."""
        return VideoAdded(
            message="Video added.",
            video=UploadedVideo(**self._whole(whole)),
            web_socket_broadcaster=BROADCASTER,
            web_socket_key=self.broadcaster_key,
            web_socket_cluster=CLUSTER,
        )

    def shown(self, whole: WholeVideo) -> VideoShown:
        """Return a video in the form of its own page."""
        record = whole.video
        return VideoShown(
            **self._common(record),
            **present_labels(whole),
            embed=self.embed(record),
            resolutions=[
                ShownRung(
                    resolution=BOX_LABELS[rung.number],
                    resolution_id=rung.number,
                    transcoded=int(rung.transcoded),
                    vertical_value=rung.height,
                    horizontal_value=rung.width,
                    size=rung.size,
                    transcode_duration=rung.transcode_seconds,
                )
                for rung in whole.rungs
            ],
            media_resource=f"videos/{record.hash}/index.m3u8",
            image=self.addresses.video_poster(record.hash, _CARD),
        )

    def _whole(self, whole: WholeVideo) -> _Values:
        return {
            **self._common(whole.video),
            **self._progress(whole.video),
            **present_labels(whole),
            "player": present_player(whole),
            "resolutions": _resolutions(whole),
        }

    def _common(self, record: VideoRecord) -> _Values:
        addresses, hash_ = self.addresses, record.hash
        values: _Values = {
            "length": _milliseconds(record.length_us) / 1000,
            "iso8601_duration": iso8601_duration(record.length_us),
            "video": addresses.video_playlist(hash_),
            "uploaded_at": _optional_timestamp(record.uploaded_us),
            "completed": record.state == "completed",
            "completed_at": _optional_timestamp(record.completed_us),
            "created_at": format_timestamp(record.created_us),
            "updated_at": format_timestamp(record.updated_us),
            "published_at": _optional_timestamp(record.published_us),
            "image_urls": {
                label: addresses.video_poster(hash_, label) for label in record.poster_labels
            },
            "project_json": addresses.project_document(record.project_key),
            "video_json": addresses.video_document(hash_),
        }
        return values | {key: getattr(record, key) for key in _AS_RECORDED}

    def _progress(self, record: VideoRecord) -> _Values:
        return {
            "uploading": record.state == "uploading",
            "transcoding_progress": record.progress,
            "transcoding_at": _optional_timestamp(record.transcoding_us),
            "transcoding_eta": record.eta,
            "published_url": self.addresses.published_video_playlist(record.hash),
            "image_update_at": _optional_timestamp(record.image_us),
            "storage_size": record.storage_size,
        }

    def embed(self, record: VideoRecord) -> Embed:
        """Return the snippets that embed a video."""
        size = (record.width, record.height)
        return embed_snippets(self.addresses, record.hash, record.title, "video", size)


def present_status(record: VideoStatus, *, files_wait: bool) -> VideoStatusBody:
    """Return the progress of transcoding a video; `files_wait`: live streams need the machine."""
    return VideoStatusBody(
        state=record.state,
        progress=record.progress,
        eta=record.eta,
        attempt=record.attempt,
        reason=record.reason,
        warnings=list(record.warnings),
        waits_for="live streams" if files_wait and record.state in _UNDER_WAY else "",
    )


def _resolutions(whole: WholeVideo) -> list[VideoResolution]:
    return [
        VideoResolution(
            id=rung.number, name=BOX_LABELS[rung.number], width=rung.width, height=rung.height
        )
        for rung in whole.rungs
    ]


def video_changed(call: Call[WholeVideo], message: str, changed: WholeVideo | None) -> VideoChanged:
    """Return the answer to a change of the video, which the catalog returned.

    Raises:
        ApiError: 404 if it was deleted since.
    """
    video = VideoPresenter.of(call.presenter).full(call.still_there(changed))
    return VideoChanged(message=message, video=video)
