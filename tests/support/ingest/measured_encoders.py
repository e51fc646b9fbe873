"""Encoders with known packets for the tests of the meter, on a manual clock."""

from collections.abc import Callable, Iterator

from ingest.report.meter import Meter
from media.encoder_report import EncoderReport, PictureReport
from media.packet import MediaPacket
from media.track import AudioCodec, AudioTrack, Track, VideoCodec, VideoTrack

VIDEO = VideoTrack(codec=VideoCodec.AVC, config=b"a", width=1280, height=720)
AUDIO = AudioTrack(codec=AudioCodec.AAC, config=b"d", rate=48_000, channels=2)
START = 5000.0
FRAME_BYTES, SOUND_BYTES = 12_500, 400
SOUND_SECONDS = 1024 / 48_000

Delay = Callable[[float], float]


def on_time(at: float) -> float:
    return 0.0


def pictures(
    seconds: float,
    *,
    fps: float = 30.0,
    gop: int = 60,
    frames: int = 1,
    begin: float = 0.0,
) -> Iterator[tuple[float, MediaPacket]]:
    """Yield (time, packet) of each picture; in groups of `frames` all but one are reordered."""
    for number in range(round(seconds * fps)):
        place = number % gop % frames
        # The anchor is coded first and presented last.
        shown = number + (frames if place == 0 and number % gop else 1 if number % gop == 0 else 0)
        at = begin + number / fps
        yield (
            at,
            MediaPacket(
                track=VIDEO,
                dts=round(1000 * at),
                pts=round(1000 * (begin + shown / fps)),
                key=number % gop == 0,
                data=bytes(FRAME_BYTES),
            ),
        )


def audio_packets(seconds: float, *, begin: float = 0.0) -> Iterator[tuple[float, MediaPacket]]:
    for number in range(round(seconds / SOUND_SECONDS)):
        at = begin + number * SOUND_SECONDS
        stamp = round(1000 * at)
        yield at, MediaPacket(track=AUDIO, dts=stamp, pts=stamp, key=True, data=bytes(SOUND_BYTES))


def measured(
    *sources: Iterator[tuple[float, MediaPacket]],
    late: Delay = on_time,
    speed: float = 1.0,
    tracks: tuple[Track, ...] = (VIDEO, AUDIO),
) -> EncoderReport:
    """Send all packets in order, by an encoder whose clock is `speed` times as fast as ours."""
    meter = Meter(START)
    for track in tracks:
        meter.add_track(track, START)
    now = START
    arrived = START
    packets = sorted((pair for each in sources for pair in each), key=lambda pair: pair[0])
    for at, packet in packets:
        now = START + at / speed
        # A delayed packet delays those after it.
        arrived = max(arrived, now + late(now - START))
        meter.add_packets([packet], arrived)
    return meter.report(max(arrived, now))


def picture(report: EncoderReport) -> PictureReport:
    assert report.video is not None
    return report.video
