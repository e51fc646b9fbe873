"""What the engines of uploaded files are asked for, and what they say besides a run's reports.

Sans-IO; framing and all other reports are `transcode.protocol.messages`'s. An order is JSON in the
engine's arguments. Times are ticks of 90 000 a second on the output clock, unless it says
otherwise.
"""

import msgspec

from media.hls.webvtt import Cue
from media.ladder import Ladder, Rendition

__all__ = ["Film", "Ready", "Stretch", "Subtitles", "Surveyed"]


class Film(msgspec.Struct, frozen=True, kw_only=True):
    """A whole file: look at all of it, then make of it what is made in one piece.

    `ladder` is None where there is no picture; `reuse` allows its own packets as the top rung.
    Where the file is not cut into stretches, all rungs are made, by `threads` threads.
    """

    ladder: Ladder | None
    reuse: bool = False
    threads: int = 1


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """Some segments of a file, the first of which is `sequence`, in the renditions `rungs`.

    `cuts` are where the segments begin: with the first picture at or after that. `end` is where
    what follows begins, and `until` the cut that it begins with: both are the film's end for the
    last stretch. `before` is the time of the picture that precedes it, `key` that of the keyframe
    that decoding begins with; `pictures` is how many there are from the first cut to `until`.
    What the file says, in ticks of 90 000 a second, is on the output clock once `offset` was added.
    `rate` is in frames per 1000 s. `threads` is how many threads may work at it.
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


class Surveyed(msgspec.Struct, frozen=True, kw_only=True, tag="surveyed"):
    """What a look at all packets of a file says, before anything is made of it.

    `reused` is the rung that its own packets make, `kept` says that its own sound serves, and
    `mono` that it has one channel. There is more than one of `stretches` only where others are to
    make them. `reason` is why a film is not cut into several though it is long: "" where there is
    none. `segments` is how many there are, `length` how long they are together.
    """

    reused: str | None = None
    kept: bool = False
    mono: bool = False
    stretches: tuple[Stretch, ...] = ()
    reason: str = ""
    segments: int = 0
    length: int = 0


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """The renditions `names` are out, whole."""

    names: tuple[str, ...]


class Subtitles(msgspec.Struct, frozen=True, kw_only=True, tag="subtitles"):
    """A track of words: cues in milliseconds from the film's first picture, in order.

    `language` is a tag (RFC 5646), "" where the file does not say; so is `title`. `forced` says
    that all who watch should see them.
    """

    language: str
    title: str
    forced: bool
    cues: tuple[Cue, ...]
