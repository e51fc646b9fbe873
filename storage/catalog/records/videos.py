"""The values that the catalog returns for videos: frozen, without any database type.

Times are microseconds since the Unix epoch (`_us`), lengths microseconds.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from media.countries import Country
from media.stream_keys import PublicHash
from storage.catalog.records.common import Named, Sort
from storage.catalog.records.details import VideoDetails
from storage.catalog.records.transcoding import MadeSubtitles

Phase = Literal["inprogress", "completed", "failed"]
# The names of folders with uploaded posters begin with this; transcoding does not replace them.
OWN_POSTERS: Final = "own-"


class VideoRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A video as lists show it, and what every other form has too.

    `own_title` is None where its owner gave none: then `file_title` shows, the file's name. `state`
    is uploading, queued, transcoding, completed or failed. `hidden` means that the owner
    unpublished it, `media` names the folder of what plays (None: nothing yet), `posters` and
    `previews` those of its posters and previews. `source` is the address of its file, None for a
    recording; `reason` is why it failed. A recording that is not kept for ever is deleted at
    `expires_us`.
    """

    id: int
    project: int
    project_key: str
    hash: PublicHash
    own_title: str | None
    file_title: str
    description: str
    name: str
    size: int
    length_us: int
    width: int
    height: int
    state: str
    progress: int
    eta: int
    uploaded_us: int | None
    transcoding_us: int | None
    completed_us: int | None
    created_us: int
    updated_us: int
    published: bool
    published_us: int | None
    hidden: bool
    media: str | None
    posters: str | None
    labels: str
    image_us: int | None
    storage_size: int
    version: int
    source: str | None = None
    previews: str | None = None
    reason: str = ""
    expires_us: int | None = None

    @property
    def title(self) -> str:
        """The title that shows."""
        return self.own_title if self.own_title is not None else self.file_title

    @property
    def poster_labels(self) -> tuple[str, ...]:
        """The labels of the resolutions that there is a poster in."""
        return tuple(label for label in self.labels.split(",") if label)


class VideoRung(msgspec.Struct, frozen=True, kw_only=True):
    """A resolution of a video: `number` is the public one, `transcoded` means that it plays."""

    number: int
    width: int
    height: int
    transcoded: bool
    size: int
    transcode_seconds: int


class WholeVideo(msgspec.Struct, frozen=True, kw_only=True):
    """A video with all that belongs to it; `rungs` are in the order of their numbers."""

    video: VideoRecord
    category: Named | None
    countries: tuple[Country, ...]
    player: Named | None
    tags: tuple[Named, ...]
    rungs: tuple[VideoRung, ...]
    subtitles: tuple[MadeSubtitles, ...] = ()

    @property
    def details(self) -> VideoDetails:
        """What its owner says of it."""
        whole: dict[str, Any] = {  # Any: fields of every type
            "title": self.video.own_title,
            "category": self.category and self.category.id,
            "countries": tuple(each.number for each in self.countries),
            "tags": tuple(each.id for each in self.tags),
        }
        others = set(VideoDetails.__struct_fields__) - set(whole)
        return VideoDetails(**whole, **{key: getattr(self.video, key) for key in others})


class VideoStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of transcoding a video; `eta` in seconds, `attempt` 0 where none began."""

    project: int
    state: str
    progress: int
    eta: int
    attempt: int
    reason: str
    warnings: tuple[str, ...]


class VideoQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The filters of a list of videos: a phase, titles with `search`, a span of creation.

    Without a `sort`, videos of a span are in the order of creation, and others in that of their
    numbers, newest first. The columns of a sort are id, title, length and size.
    """

    phase: Phase | None = None
    search: str = ""
    from_us: int | None = None
    until_us: int | None = None  # not itself part of the span
    sort: Sort | None = None


class VideoFile(msgspec.Struct, frozen=True, kw_only=True):
    """A whole file of an expected video, and what it is; `size` in bytes.

    `length_us`, `width` and `height` are 0 where the probe did not know them in time; `rungs` holds
    number, width and height of each planned resolution.
    """

    source: str
    size: int
    length_us: int = 0
    width: int = 0
    height: int = 0
    rungs: Sequence[tuple[int, int, int]] = ()


class NewVideo(VideoFile, frozen=True, kw_only=True):
    """A file that was uploaded, as its video begins; `size` is 0 where it is not known yet.

    `posters` is a folder of posters that came with it, with their labels. `source` is "" where the
    file is still to come.
    """

    hash: PublicHash
    file_title: str
    name: str
    details: VideoDetails = VideoDetails()
    size: int = 0
    source: str = ""
    posters: str | None = None
    poster_labels: Sequence[str] = ()
