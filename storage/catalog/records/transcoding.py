"""The values that the catalog exchanges with the workers that make videos: frozen."""

import msgspec

from media.stream_keys import PublicHash


class VideoWork(msgspec.Struct, frozen=True, kw_only=True):
    """A video to transcode: the object `source`, which is the `generation`-th of its files.

    `media`, `posters` and `previews` are the folders that it has already, if any.
    """

    video: int
    hash: PublicHash
    source: str
    generation: int
    media: str | None
    posters: str | None
    previews: str | None = None


class PlannedSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A span of a video to be transcoded separately; `number` counts from 1 in a job.

    `cost` is its expected work relative to the other spans, `order` is JSON for its worker.
    """

    number: int
    cost: int
    order: str


class SpanWork(msgspec.Struct, frozen=True, kw_only=True):
    """A span to transcode (see `PlannedSpan`), of a video's file (see `VideoWork`)."""

    hash: PublicHash
    source: str
    generation: int
    cost: int
    order: str


class PreviewWork(msgspec.Struct, frozen=True, kw_only=True):
    """A recording whose previews are to be made; its media are in the folder `media`.

    `needs_poster`: it has none, or that of its stream.
    """

    hash: PublicHash
    generation: int
    media: str
    needs_poster: bool = False


class MadePreviews(msgspec.Struct, frozen=True, kw_only=True):
    """What was made of a recording's keyframes.

    `previews` and `posters` are folders below the video's own, None where nothing was made; `size`
    is that of the previews in bytes.
    """

    previews: str | None = None
    size: int = 0
    posters: str | None = None
    poster_labels: tuple[str, ...] = ()


class PlannedRung(msgspec.Struct, frozen=True, kw_only=True):
    """A rung that is to be made; `number` is the resolution's public one."""

    number: int
    width: int
    height: int


class MadeRung(msgspec.Struct, frozen=True, kw_only=True):
    """A rung that plays now: its bytes, and the seconds that making it took."""

    number: int
    size: int
    seconds: int


class MadeSubtitles(msgspec.Struct, frozen=True, kw_only=True):
    """Subtitles that are stored: `rendition` is their folder below `folder`, `size` is in bytes.

    No two of a video have the same `title`; `language` is a tag, "" where it is not known.
    `segments` is how many segments of `segment_ms` milliseconds there are besides the whole, and
    `peak` the highest bit rate of one; 0 if there is only the whole, as before 0.3.
    """

    folder: str
    rendition: str
    title: str
    language: str
    forced: bool
    size: int
    segments: int = 0
    segment_ms: int = 0
    peak: int = 0


class MadeVideo(msgspec.Struct, frozen=True, kw_only=True):
    """All that was made of a video; folders are below the video's own, None for none."""

    media: str
    size: int
    length_us: int
    rungs: tuple[MadeRung, ...]
    posters: str | None
    poster_labels: tuple[str, ...]
    previews: str | None = None
    subtitles: tuple[MadeSubtitles, ...] = ()
    warnings: tuple[str, ...] = ()


class RemainingMedia(msgspec.Struct, frozen=True, kw_only=True):
    """What a job that ended leaves: the folders in use, and the newest attempt's number."""

    media: str | None
    posters: str | None
    attempt: int
    previews: str | None = None
