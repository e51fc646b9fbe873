"""Orders for engines that work on uploaded files, and the reports that a live run does not have.

Sans-IO; the framing and all other reports are in `transcode.protocol.messages`. An order is JSON in
the engine's arguments. Times are ticks of 90 000 a second on the output clock unless stated
otherwise. `SpanOrder` is stored as JSON with its job: its fields keep their names.
"""

from typing import Final

import msgspec

from media.hls.webvtt import Cue
from media.ladder import Ladder, Rendition

# The posters of a file without a picture, by label.
COVER_SIZES: Final[dict[str, tuple[int, int]]] = {"720p": (1280, 720), "360p": (640, 360)}
# Subtitle tracks of a file that are read: international releases have some 30.
MOST_SUBTITLES: Final = 32


class AssetOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A whole file: survey all of it, then make what is made in one piece.

    `ladder` is None if there is no picture; `reuse` allows the file's own packets as the top rung.
    If the file is not divided into spans, all rungs are made, with `threads` threads. Unless
    `encode` is True, no picture is encoded: that is left to others even if there is one span, and a
    file with a picture that has no spans is only surveyed.
    """

    ladder: Ladder | None
    reuse: bool = False
    threads: int = 1
    encode: bool = True


class SpanOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Some segments of a file, the first with number `sequence`, in the renditions `rungs`.

    `cuts` are where the segments begin, with the first picture at or after each. `end` is where the
    media that follow begin and `until` the cut that they begin with; both are the asset's end for
    the last span. `before` is the time of the picture that precedes the span, `key` that of the
    keyframe where decoding begins; `pictures` counts the pictures from the first cut to `until`.
    Adding `offset` brings the file's own times, in ticks of 90 000 a second, to the output clock.
    `rate` is in frames per 1000 s. `threads` is the number of threads to use. `alone` is True if
    the asset has no other span. `timed` is False if the times are those of decoding: pictures get
    them in the order in which the decoder returns them. The asset's first picture is also shown
    for the time `wait` before its own. If `joined`, the file's clock begins again, and its
    times are those of its parts joined to one. Orders stored by 0.2 have none of the last four.
    """

    rungs: tuple[Rendition, ...]
    sequence: int
    cuts: tuple[int, ...]
    end: int
    until: int
    before: int
    key: int
    pictures: int
    offset: int
    rate: int
    threads: int = 1
    alone: bool = False
    timed: bool = True
    wait: int = 0
    joined: bool = False


class PreviewOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Thumbnails of the `Keyframe`s that follow on the engine's standard input.

    `width` and `height` are the size in which the video is shown. The best of the `PosterKeyframe`s
    that are among them becomes the poster, in the sizes of `rungs`, largest first.
    """

    width: int
    height: int
    rungs: tuple[Rendition, ...] = ()


class Keyframe(msgspec.Struct, frozen=True, kw_only=True, tag="keyframe", gc=False):
    """A keyframe of a video, shown `at` milliseconds from its first picture.

    `data` is an init section and a chunk that begins with the keyframe.
    """

    at: int
    data: bytes


class PosterKeyframe(msgspec.Struct, frozen=True, kw_only=True, tag="poster keyframe", gc=False):
    """A keyframe of a video's largest rendition, which may become its poster.

    `data` is as in `Keyframe`.
    """

    data: bytes


class Surveyed(msgspec.Struct, frozen=True, kw_only=True, tag="surveyed"):
    """The result of reading all packets of a file, before anything is encoded.

    `audible` is True if there is sound, and so an audio rendition. `reused` is the rung that its
    own packets make; `kept` is True if its own sound can be used as it is, `mono` if that has one
    channel. Other engines are to make `spans` if there are several. `reason` is why
    a long asset is not divided, "" if that needs no reason. `segments` counts the segments; 0 if
    the file is converted in one pass, because it has no picture or its times are not reliable: then
    nothing plays early. `reached` is how far the times of all tracks go, used or not; 0 if unknown.
    """

    audible: bool = True
    reused: str | None = None
    kept: bool = False
    mono: bool = False
    spans: tuple[SpanOrder, ...] = ()
    reason: str = ""
    segments: int = 0
    reached: int = 0


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """The renditions `names` are complete."""

    names: tuple[str, ...]


class SubtitleTrack(msgspec.Struct, frozen=True, kw_only=True, tag="subtitles"):
    """A subtitle track: cues in milliseconds from the asset's first picture, in order.

    `language` is a tag (RFC 5646), "" if the file does not name it; `title` likewise. `forced` is
    True if the cues are meant for all viewers.
    """

    language: str
    title: str
    forced: bool
    cues: tuple[Cue, ...]
