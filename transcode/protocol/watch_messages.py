"""The messages of a watch engine, which compares the encoders of one stream.

    parent: Watch, WatchedSound..., WatchedPictures...
                                         a source, or a source anew: its clock has restarted
    parent: Compare                      engine: Compared
    parent: Judge                        engine: Judged
    parent: Unwatch                      the source is gone

Sources have numbers, which the parent gives them.
"""

from typing import Annotated, Final, Literal

import msgspec

from media.source_fault import FaultKind, Verdict
from media.track import AudioTrack, VideoTrack


class Watch(msgspec.Struct, frozen=True, kw_only=True, tag="watch"):
    """A source begins, or begins anew: what came of it before is of another clock.

    Only what `is_judged` is the subject of a `Judge`; of all others there is no picture.
    """

    source: int
    audio: AudioTrack | None
    video: VideoTrack | None = None
    is_judged: bool = False


class WatchedSound(msgspec.Struct, frozen=True, kw_only=True, tag="sound"):
    """Packets of a source's sound: their times, in ticks of its track, and their data."""

    source: int
    packets: tuple[tuple[int, bytes], ...]


class WatchedPicture(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A coded picture; times are in ticks of its track."""

    dts: int
    pts: int
    key: bool
    data: bytes


class WatchedPictures(msgspec.Struct, frozen=True, kw_only=True, tag="pictures"):
    """Packets of a source's pictures."""

    source: int
    packets: tuple[WatchedPicture, ...]


class Unwatch(msgspec.Struct, frozen=True, kw_only=True, tag="unwatch"):
    """A source is gone."""

    source: int


class Compare(msgspec.Struct, frozen=True, kw_only=True, tag="compare"):
    """Compare the newest `seconds` of two sources.

    `near_us` is the offset that is assumed (see `Compared`), and at most 0.3 s from it is searched;
    None searches 10 s to either side, seen from what has arrived.
    """

    reference: int
    other: int
    seconds: float
    near_us: int | None = None


class AlignedSource(msgspec.Struct, frozen=True, kw_only=True):
    """A source that is to be judged, and how far its times are from those of the reference.

    `offset_us` is that of `Compared`, 0 for the reference, None if it is not known.
    """

    source: int
    offset_us: int | None


class Judge(msgspec.Struct, frozen=True, kw_only=True, tag="judge"):
    """Say which of these sources show black, a frozen picture or silence; asked once a second."""

    sources: tuple[AlignedSource, ...]


# Why two sources cannot be compared now.
NoOffset = Literal[
    "no sound",
    "too short",
    "silent",
    "steady",
    "ambiguous",
    "different",
    "pictures awaited",
    "outdated",
]


class Compared(msgspec.Struct, frozen=True, kw_only=True, tag="compared"):
    """What `Compare` found: what the reference shows at t, the other shows at t + `offset_us`.

    Times are those of their packets, in microseconds. `offset_us` is None if it cannot be believed,
    and then `reason` says why. `exact`: the waves agree as well, so it is right to a millisecond,
    otherwise to 10. `correlation` and `ratio` are those of the best place. `method` is by what it
    was found, `picture_us` what pictures have said last: it differs where lip sync does.
    """

    reference: int
    other: int
    offset_us: int | None
    reason: NoOffset | None = None
    method: Literal["sound", "picture"] = "sound"
    picture_us: int | None = None
    exact: bool = False
    correlation: float = 0.0
    ratio: float = 0.0


MOST_FINDINGS: Final = 64
"""In one `Judged`: a picture and a sound of each of 32 sources, which is more than a stream has."""

MOST_LASTING_SECONDS: Final = 366 * 86_400.0
"""Of a finding: it ends with its source's connection."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a source shows that may be a fault (see `media.source_fault`)."""

    source: int
    kind: FaultKind
    verdict: Verdict
    seconds: Annotated[float, msgspec.Meta(ge=0, le=MOST_LASTING_SECONDS)]
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0


class Judged(msgspec.Struct, frozen=True, kw_only=True, tag="judged"):
    """What `Judge` found; a source that is not named shows nothing that may be a fault."""

    found: Annotated[tuple[Found, ...], msgspec.Meta(max_length=MOST_FINDINGS)]


WatchOrder = Watch | WatchedSound | WatchedPictures | Unwatch | Compare | Judge
