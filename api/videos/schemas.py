"""The bodies of the operations on videos.

Lengths are seconds, sizes bytes, widths and heights pixels.
"""

from typing import Final, get_args

import msgspec

from api.library.references import CountryReferences, TagReferences
from api.schemas.common import Category, CountryBody, Embed, PlayerReference, TagBody, edits_of
from api.schemas.text_fields import Description, OptionalTitle, TextField


class VideoResolution(msgspec.Struct, frozen=True, kw_only=True):
    """A resolution that a video has or will have, in pixels."""

    id: int
    name: str
    width: int
    height: int


class ShownRung(msgspec.Struct, frozen=True, kw_only=True):
    """A resolution in `VideoShown`; `transcoded` is 1 once it plays.

    `transcode_duration` is in seconds; the values are the height and the width of the picture.
    """

    resolution: str
    resolution_id: int
    transcoded: int
    vertical_value: int
    horizontal_value: int
    size: int
    transcode_duration: int


class CommonKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of every form."""

    id: int
    hash: str
    title: str
    description: str
    name: str
    size: int
    length: float
    iso8601_duration: str
    width: int
    height: int
    video: str
    uploaded_at: str | None
    completed: bool
    completed_at: str | None
    created_at: str
    updated_at: str
    published: bool
    published_at: str | None
    image_urls: dict[str, str]
    project_json: str
    video_json: str


class _Making(CommonKeys, frozen=True, kw_only=True):
    """The keys of every form except `VideoShown`."""

    uploading: bool
    transcoding_progress: int
    transcoding_at: str | None
    transcoding_eta: int
    published_url: str
    image_update_at: str | None
    storage_size: int


class VideoItem(_Making, frozen=True, kw_only=True):
    """A video in a list."""

    embed: Embed


class UploadedVideo(_Making, frozen=True, kw_only=True):
    """A video that was just added: the full form without its snippets."""

    category: Category | None
    countries: list[CountryBody]
    player: PlayerReference | None
    resolutions: list[VideoResolution]
    tags: list[TagBody]


class Video(UploadedVideo, frozen=True, kw_only=True):
    """A video in full."""

    embed: Embed


class VideoShown(CommonKeys, frozen=True, kw_only=True):
    """A video by itself; `media_resource` is its playlist's path, `image` its standard poster."""

    tags: list[TagBody]
    category: Category | None
    countries: list[CountryBody]
    embed: Embed
    resolutions: list[ShownRung]
    media_resource: str
    image: str


class VideoAdded(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to adding a video; its progress is published on the web socket."""

    message: str
    video: UploadedVideo
    web_socket_broadcaster: str
    web_socket_key: str
    web_socket_cluster: str


class VideoChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to changing a video."""

    message: str
    video: Video


class VideosRetried(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to trying failed videos again; `videos` is how many were queued."""

    message: str
    videos: int


class VideoStatusBody(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of transcoding a video; `eta` is in seconds, 0 if unknown or done.

    `state` is uploading, queued, transcoding, completed or failed; `reason` says why it failed.
    `waits_for` is "live streams" while these need the machine on which files are transcoded, so
    that no pictures are encoded that were not begun before, and "" otherwise.
    """

    state: str
    progress: int
    eta: int
    attempt: int
    reason: str
    warnings: list[str]
    waits_for: str


class DetailsBody(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of a new video, with the keys of `VideoDetails`: in JSON, a form or metadata.

    A title of "" stands for the file's name. Forms have only the texts.
    """

    title: OptionalTitle | msgspec.UnsetType = msgspec.UNSET
    description: Description | msgspec.UnsetType = msgspec.UNSET
    category: int | None = None
    countries: CountryReferences | None = None
    tags: TagReferences | None = None


TEXTS: Final[dict[str, type[TextField]]] = {
    field.name: kind
    for field in msgspec.structs.fields(DetailsBody)
    for kind in get_args(field.type)
    if isinstance(kind, type) and issubclass(kind, TextField)
}
"""The keys of `DetailsBody` that are texts."""


class VideoEdit(edits_of(DetailsBody), msgspec.Struct, frozen=True, kw_only=True):
    """What of a video is to change: the keys that are sent.

    A title of null or "" is the file's name; null clears what else may be empty.
    """


class VideoData(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to showing a video."""

    data: VideoShown


class VideoStatusData(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to showing the status of a video."""

    data: VideoStatusBody


class PlayerChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Which player a video is shown in; null is the standard player."""

    player: int | None
