"""Pictures of a made-up programme, and what two encoders make of them."""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import io
from collections.abc import Iterable, Iterator
from fractions import Fraction

import av
import numpy as np
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from numpy.typing import NDArray

from media.track import VideoCodec, VideoTrack
from tests.support.thread_priority import same_priority
from transcode.protocol.watch_messages import WatchedPicture

Luma = NDArray[np.uint8]
WIDTH, HEIGHT, FPS = 320, 180, 25


def scenery(random: np.random.Generator, width: int = WIDTH, height: int = HEIGHT) -> Luma:
    """A landscape twice as wide and high as a picture: large shapes, and small ones in them."""
    high, wide = 2 * height, 2 * width
    spectrum = np.fft.rfft2(random.standard_normal((high, wide)))
    distance = np.hypot(np.fft.fftfreq(high)[:, None], np.fft.rfftfreq(wide)[None])
    shapes = np.fft.irfft2(spectrum / np.maximum(distance, 1 / high) ** 1.3, (high, wide))
    shapes = (shapes - shapes.mean()) / shapes.std()
    return np.clip(random.uniform(70, 130) + 40 * shapes, 16, 235).astype("u1")


def scenes(seconds: float, seed: int, *, dark: float = 1.0) -> Iterator[Luma]:
    """Yield pictures: cameras that pan or stand still, people who move, a cut now and then.

    `dark` is what luma is multiplied with.
    """
    random = np.random.default_rng(seed)
    left = round(seconds * FPS)
    while left > 0:
        length = min(left, int(random.uniform(2, 8) * FPS))
        left -= length
        land, person = scenery(random), scenery(random)[:60, :40]
        pan = random.choice([0.0, 0.0, 1.0]) * random.uniform(-1, 1, 2)
        start, place = random.uniform(60, 100, 2), random.uniform(20, 100, 2)
        pace = random.uniform(1, 6)
        for number in range(length):
            y, x = (start + pan * number * 0.4).astype(int).clip(0, 140)
            picture = land[y : y + HEIGHT, x : x + WIDTH].copy()
            sway = 12 * np.sin(number / FPS * pace + np.array([0, 1]))
            down, across = (place + sway).astype(int)
            picture[down : down + 60, across : across + 40] = person
            yield (16 + (picture - 16.0) * dark).astype("u1")


class CodedPictures:
    """Pictures as an encoder sends them: packets with times in milliseconds, from `start_ms` on."""

    def __init__(
        self,
        pictures: Iterable[Luma],
        *,
        kbit: int = 600,
        gop: int = 2 * FPS,
        bframes: int = 2,
        preset: str = "veryfast",
        fps: int = FPS,
        start_ms: int = 0,
    ) -> None:
        file = io.BytesIO()
        with same_priority(), av.open(file, "w", format="mp4") as container:
            stream: VideoStream | None = None
            for number, luma in enumerate(pictures):
                high, wide = luma.shape
                if stream is None:
                    options = {
                        "preset": preset,
                        "x264-params": f"scenecut=0:keyint={gop}:bframes={bframes}:rc-lookahead=10",
                        "maxrate": f"{kbit}k",
                        "bufsize": f"{kbit}k",
                        "threads": "1",
                    }
                    stream = container.add_stream("libx264", fps, options)
                    stream.width, stream.height, stream.bit_rate = wide, high, kbit * 1000
                grey = np.full((high // 2, wide), 128, np.uint8)
                frame = VideoFrame.from_ndarray(np.concatenate([luma, grey]), format="yuv420p")
                frame.pts, frame.time_base = number, Fraction(1, fps)
                container.mux(stream.encode(frame))
            assert stream is not None
            container.mux(stream.encode(None))
        # Muxing brings the packets into the form that RTMP uses.
        file.seek(0)
        with av.open(file, "r") as container:
            (muxed,) = container.streams.video
            self.track = VideoTrack(
                codec=VideoCodec.AVC,
                config=muxed.codec_context.extradata or b"",
                width=muxed.width,
                height=muxed.height,
            )
            self.packets = tuple(
                WatchedPicture(
                    dts=start_ms + round(packet.dts * packet.time_base * 1_000),
                    pts=start_ms + round(packet.pts * packet.time_base * 1_000),
                    key=packet.is_keyframe,
                    data=bytes(packet),
                )
                for packet in container.demux(muxed)
                if packet.dts is not None and packet.pts is not None
            )
