"""The report of what a stream's encoders send, as measured on arrival, for the stream's owner.

Values only; `ingest.report.meter` measures them. Bit rates are in bit/s, frame rates in frames a
second. None: not known, or not yet.
"""

import msgspec

from media.source_fault import SourceFault


class KeyframeReport(msgspec.Struct, frozen=True, kw_only=True):
    """The intervals between keyframes, by their timestamps.

    `intervals` is the number of complete ones, `since_seconds` the time from the newest keyframe to
    the newest picture. `fixed`: all complete intervals have the same length.
    """

    intervals: int
    min_seconds: float | None
    median_seconds: float | None
    max_seconds: float | None
    since_seconds: float
    fixed: bool | None


class PictureReport(msgspec.Struct, frozen=True, kw_only=True):
    """A video track.

    `configuration` is a digest of the decoder configuration: encoders with the same one can replace
    each other within a stream. `announced_frame_rate` is that of the configuration, `frame_rate`
    that of the timestamps; it varies if frames come at irregular times. `frames` were received, and
    `frames_missing` more fit into the gaps between their timestamps. `b_frames` is the number of
    pictures in a row that are displayed before an earlier one. `plays_everywhere`: browsers play it
    as it is, so it need not be encoded again in its own size.
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
    """An audio track; `rate` is in Hz, `configuration` as in `PictureReport`."""

    codec: str
    rate: int
    channels: int
    configuration: str
    bit_rate: int | None
    peak_bit_rate: int | None


class NetworkReport(msgspec.Struct, frozen=True, kw_only=True):
    """The arrival of media.

    `measured_seconds` is the period of this report. `jitter_ms`: 95 of 100 packets arrive within
    this distance of the time that their timestamps predict. `silent_seconds` is the time since the
    last packet, `longest_silence_seconds` the longest time without one.
    """

    measured_seconds: float
    jitter_ms: int | None
    silent_seconds: float
    longest_silence_seconds: float


class ClockReport(msgspec.Struct, frozen=True, kw_only=True):
    """The encoder's clock, by its timestamps.

    `drift_ppm` is how much faster than ours it runs, in millionths, measured over `drift_seconds`.
    `jumps` is how often its timestamps restarted in the last ten minutes, `steps_back` how often
    they went back a little. `interleave_ms` is the distance between the timestamps of audio and
    video that arrive together.
    """

    drift_ppm: int | None
    drift_seconds: float
    jumps: int
    steps_back: int
    interleave_ms: int | None


class SecondsReport(msgspec.Struct, frozen=True, kw_only=True):
    """What arrived in each whole second of the period, oldest first: one number a second.

    `newest` is the number of the last second; numbers rise by one a second, from any beginning.
    `bit_rates` are of picture and sound together, `frames` pictures. `keyframe_seconds` is the
    length of the interval that the newest keyframe ended, None before there is one.
    """

    newest: int
    bit_rates: list[int]
    frames: list[int]
    keyframe_seconds: list[float | None]


class EncoderReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one encoder sends; `video` and `audio` are None before their first packet."""

    video: PictureReport | None
    audio: SoundReport | None
    network: NetworkReport
    clock: ClockReport
    seconds: SecondsReport


class AlignmentReport(msgspec.Struct, frozen=True, kw_only=True):
    """How far an encoder is behind another one of the same programme, which is in `reference`.

    `behind_ms` is how much later the same moment arrives, below 0 if it arrives earlier; None if it
    is not known. `confidence` is how well the two agree, from 0 to 1, `method` by what they were
    compared, and `reason` why the newest comparison found nothing.
    """

    reference: str
    behind_ms: int | None
    confidence: float
    method: str
    reason: str | None


class SlotReport(msgspec.Struct, frozen=True, kw_only=True):
    """An encoder in its slot: `slot` is the slot's name, for example `backup-1`.

    `number` is the slot's number, `peer` the encoder's address. `advice` are sentences on what its
    owner should change. `alignment` is None while nothing is compared with it. `faults` are what it
    shows that may be a fault.
    """

    slot: str
    number: int
    peer: str
    connected_seconds: float
    encoder: EncoderReport
    advice: list[str]
    alignment: AlignmentReport | None = None
    faults: list[SourceFault] = []


class StreamReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All encoders of a stream; `on_air` is the slot that viewers get, if any.

    `advice` compares the encoders with one another. `host` is the name of the process that serves
    the stream, where several receive streams.
    """

    live: bool
    on_air: str | None
    slots: list[SlotReport]
    advice: list[str]
    host: str | None = None
