"""What an encoder sends, as it was measured where it comes in: the report that its owner reads.

Values only; `ingest.report.meter` measures them. Bit rates are bit/s, frame rates frames a second.
What cannot be said (yet) is None.
"""

import msgspec

__all__ = [
    "ClockReport",
    "EncoderReport",
    "KeyframeReport",
    "NetworkReport",
    "PictureReport",
    "SlotReport",
    "SoundReport",
    "StreamReport",
]


class KeyframeReport(msgspec.Struct, frozen=True, kw_only=True):
    """How far keyframes lie apart, by their timestamps.

    `intervals` is how many whole ones were seen, `since_seconds` how long the newest keyframe is
    behind the newest picture. `fixed`: all whole ones are of the same length.
    """

    intervals: int
    min_seconds: float | None
    median_seconds: float | None
    max_seconds: float | None
    since_seconds: float
    fixed: bool | None


class PictureReport(msgspec.Struct, frozen=True, kw_only=True):
    """A picture track.

    `configuration` is a digest of the decoder configuration: two encoders with the same one can
    take each other's place in the middle of a stream. `announced_frame_rate` is what the
    configuration claims, `frame_rate` what the timestamps say; it varies where frames come at odd
    times. `frames` were seen, and `frames_missing` more fit into the holes between their
    timestamps. `b_frames` is how many pictures in a row are shown before one that came earlier.
    `plays_everywhere`: browsers play it as it is, so it need not be encoded again in its own size.
    """

    codec: str
    profile: str | None
    level: str | None
    width: int
    height: int
    configuration: str
    plays_everywhere: bool
    announced_frame_rate: float | None
    frame_rate: float | None
    frame_rate_varies: bool | None
    frames: int
    frames_missing: int
    bit_rate: int | None
    peak_bit_rate: int | None
    keyframes: KeyframeReport
    b_frames: int | None
    open_gop: bool | None


class SoundReport(msgspec.Struct, frozen=True, kw_only=True):
    """A sound track; `rate` is in Hz, `configuration` as the picture's."""

    codec: str
    rate: int
    channels: int
    configuration: str
    bit_rate: int | None
    peak_bit_rate: int | None


class NetworkReport(msgspec.Struct, frozen=True, kw_only=True):
    """How media arrive.

    `measured_seconds`: what this report looks back on. `jitter_ms`: 95 of 100 packets come within
    it of when their timestamps promise them. `silent_seconds`: since the last packet;
    `longest_silence_seconds`: the longest time without one.
    """

    measured_seconds: float
    jitter_ms: int | None
    silent_seconds: float
    longest_silence_seconds: float


class ClockReport(msgspec.Struct, frozen=True, kw_only=True):
    """The encoder's clock, by its timestamps.

    `drift_ppm`: how many millionths it is faster than ours, measured over `drift_seconds`.
    `jumps`: how often its timestamps began anew in the last ten minutes; `steps_back`: how often
    they went back a little. `interleave_ms`: how far apart the times of sound and picture are that
    come together.
    """

    drift_ppm: int | None
    drift_seconds: float
    jumps: int
    steps_back: int
    interleave_ms: int | None


class EncoderReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one encoder sends now; no picture or sound: none has come."""

    video: PictureReport | None
    audio: SoundReport | None
    network: NetworkReport
    clock: ClockReport


class SlotReport(msgspec.Struct, frozen=True, kw_only=True):
    """An encoder and its place: `slot` as it is written, say `backup-1`, `number` what it counts.

    `peer` is the encoder's address. `advice` is what its owner should change, in sentences.
    """

    slot: str
    number: int
    peer: str
    connected_seconds: float
    encoder: EncoderReport
    advice: list[str]


class StreamReport(msgspec.Struct, frozen=True, kw_only=True):
    """All encoders of a stream; `on_air` is the slot that viewers get, None: none of them.

    `advice` is about the encoders beside one another.
    """

    live: bool
    on_air: str | None
    slots: list[SlotReport]
    advice: list[str]
