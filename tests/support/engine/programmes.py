"""Sound of a made-up programme, and what two encoders make of it."""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from fractions import Fraction

import numpy as np
from av.audio.codeccontext import AudioCodecContext
from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler
from av.codec.context import CodecContext
from numpy.typing import NDArray

from media.track import AudioCodec, AudioTrack

RATE = 48_000
Wave = NDArray[np.float32]


def programme(seconds: float, seed: int) -> Wave:
    """Notes, noises and syllables with pauses, none of which comes twice."""
    random = np.random.default_rng(seed)
    wave = np.zeros(round(seconds * RATE), np.float32)
    place = 0
    while place < len(wave):
        length = min(int(random.uniform(0.05, 0.5) * RATE), len(wave) - place)
        times = np.arange(length) / RATE
        match int(random.integers(4)):
            case 0:
                pitch = random.uniform(100, 2000)
                sound = sum(np.sin(2 * np.pi * pitch * k * times) / k for k in range(1, 6))
            case 1:
                shape = np.hanning(int(random.integers(3, 60)))
                sound = np.convolve(random.standard_normal(length), shape)[:length]
                sound = sound / (np.abs(sound).max() + 1e-6)
            case 2:
                buzz = np.sign(np.sin(2 * np.pi * random.uniform(80, 300) * times))
                sound = buzz * np.sin(2 * np.pi * random.uniform(300, 3000) * times)
            case _:
                sound = np.zeros(length)
        fade = np.minimum(1, times / 0.01) * np.exp(-times * random.uniform(1, 8))
        wave[place : place + length] += (fade * sound * random.uniform(0.05, 0.4)).astype("f4")
        place += int(length * random.uniform(0.3, 1)) + 1
    return np.clip(wave, -1, 1)


class CodedSound:
    """A wave as an encoder sends it: packets with times in milliseconds, from `start_ms` on.

    It has one channel, or a row for each of two.
    """

    def __init__(
        self,
        wave: Wave,
        *,
        kbit: int = 128,
        rate: int = RATE,
        layout: str = "mono",
        start_ms: int = 0,
    ) -> None:
        context = CodecContext.create("aac", "w")
        assert isinstance(context, AudioCodecContext)
        context.sample_rate, context.format, context.layout = rate, "fltp", layout
        context.bit_rate = kbit * 1000
        context.options = {"aac_coder": "fast"}  # the usual one takes most of the tests' time
        context.time_base = Fraction(1, rate)
        context.open()
        rows = np.atleast_2d(wave).astype("f4")
        given = "mono" if len(rows) == 1 else "stereo"
        frame = AudioFrame.from_ndarray(rows, format="fltp", layout=given)
        frame.sample_rate, frame.pts, frame.time_base = RATE, 0, Fraction(1, RATE)
        resampler = AudioResampler("fltp", layout, rate, frame_size=1024)
        coded: list[tuple[int, bytes]] = []
        for piece in (frame, None):
            for resampled in resampler.resample(piece):
                coded += self._packets(context, resampled, start_ms)
        self.packets = tuple(coded + self._packets(context, None, start_ms))
        self.track = AudioTrack(
            codec=AudioCodec.AAC,
            config=bytes(context.extradata or b""),
            rate=rate,
            channels=context.channels,
        )

    @staticmethod
    def _packets(
        context: AudioCodecContext, frame: AudioFrame | None, start_ms: int
    ) -> list[tuple[int, bytes]]:
        return [
            (
                start_ms + round(float((packet.pts or 0) * (packet.time_base or 0)) * 1000),
                bytes(packet),
            )
            for packet in context.encode(frame)
        ]
