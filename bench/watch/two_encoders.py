"""Two encoders of one programme, second by second: pictures of `bench.ladder`, made-up sound.

The second one sends the first one's pictures later, and its sound coded anew; its clock has another
beginning. A clip is repeated, always from a keyframe, after longer than any search reaches.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.ladder.feeder import orders
from media.packet import MediaPacket
from media.track import AudioTrack, VideoTrack
from tests.support.engine.programmes import RATE, CodedSound, programme
from transcode.protocol.messages import Begin, Packet

CLIP_SECONDS: Final = 30
BEHIND_MS: Final = 1_371
_START_MS: Final = (5_000, 900_000)
_KBIT, _RATES = (160, 96), (48_000, 44_100)
_SEED: Final = 44


class SentMedia:
    """What one encoder sends."""

    def __init__(self, number: int, clip: Path, seconds: int) -> None:
        start = _START_MS[number] + (BEHIND_MS if number else 0)
        self.video, pictures = _pictures(clip)
        sound = CodedSound(
            programme(seconds, _SEED)[: seconds * RATE],
            kbit=_KBIT[number],
            rate=_RATES[number],
            layout="stereo",
        )
        self.audio: AudioTrack = sound.track
        self._loops = [
            [_later(each, start + 1000 * at) for each in pictures]
            for at in range(0, seconds, CLIP_SECONDS)
        ]
        self._sound = [
            MediaPacket(track=sound.track, dts=start + at, pts=start + at, key=True, data=data)
            for at, data in sound.packets
        ]
        self._begin = _START_MS[number]

    def seconds(self) -> Iterator[list[MediaPacket]]:
        """Yield what arrives in each second."""
        media = sorted(
            (packet for part in (*self._loops, self._sound) for packet in part),
            key=lambda each: each.dts,
        )
        place, until = 0, self._begin
        while place < len(media):
            until += 1000
            first = place
            while place < len(media) and media[place].dts < until:
                place += 1
            yield media[first:place]


def _pictures(clip: Path) -> tuple[VideoTrack, list[MediaPacket]]:
    """Return a clip's pictures, the first one of which is decoded at 0 ms."""
    begin, *rest = orders(clip)
    assert isinstance(begin, Begin)
    assert begin.video is not None
    sent = [each for each in rest if isinstance(each, Packet) and each.video]
    first = sent[0].dts
    return begin.video, [
        MediaPacket(
            track=begin.video,
            dts=each.dts - first,
            pts=each.pts - first,
            key=each.key,
            data=each.data,
        )
        for each in sent
    ]


def _later(packet: MediaPacket, by: int) -> MediaPacket:
    return MediaPacket(
        track=packet.track,
        dts=packet.dts + by,
        pts=packet.pts + by,
        key=packet.key,
        data=packet.data,
    )
