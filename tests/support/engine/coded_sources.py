"""Sources in the codecs of enhanced RTMP, encoded with the library's encoders."""

# The library leaves the type parameter of its packets open: pyright knows them only partially.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import io
from collections.abc import Iterator, Mapping
from fractions import Fraction

import av
from av.error import EOFError as NothingMore
from av.filter import Graph
from av.video.frame import PictureType, VideoFrame
from av.video.stream import VideoStream

from media.track import VideoCodec, VideoTrack
from tests.support.engine.sources import Source
from tests.support.thread_priority import same_priority
from transcode.protocol.messages import Packet

HEVC = "libx265"
_QUIET = "log-level=none:pools=1:frame-threads=1:keyint=30:min-keyint=30:bframes=4:b-adapt=0"
# Open GOPs begin with a CRA picture, whose leading pictures depend on the previous GOP.
HEVC_OPEN = {"preset": "ultrafast", "x265-params": f"{_QUIET}:open-gop=1"}
_OPTIONS: Mapping[str, dict[str, str]] = {
    HEVC: {"preset": "ultrafast", "x265-params": f"{_QUIET}:open-gop=0"},
    "libsvtav1": {"preset": "10", "g": "30"},
    "libvpx-vp9": {"deadline": "realtime", "cpu-used": "8", "g": "30"},
}
_CODECS = {HEVC: VideoCodec.HEVC, "libsvtav1": VideoCodec.AV1, "libvpx-vp9": VideoCodec.VP9}


def coded(
    encoder: str,
    *,
    seconds: int = 3,
    size: tuple[int, int] = (640, 360),
    form: str = "yuv420p",
    options: dict[str, str] | None = None,
) -> Source:
    """Encode a test picture of 30 frames a second, a keyframe every second, without sound.

    Muxing it into an MP4 brings the packets into the form that RTMP uses.
    """
    file = io.BytesIO()
    with same_priority(), av.open(file, "w", format="mp4") as container:
        stream = container.add_stream(encoder, 30, options or _OPTIONS[encoder])
        assert isinstance(stream, VideoStream)
        stream.width, stream.height = size
        stream.pix_fmt = form
        for frame in (*_pictures(seconds, size, form), None):
            container.mux(stream.encode(frame))
    file.seek(0)
    with av.open(file, "r") as container:
        (muxed,) = container.streams.video
        track = VideoTrack(
            codec=_CODECS[encoder],
            config=muxed.codec_context.extradata or b"",
            width=size[0],
            height=size[1],
        )
        packets = tuple(
            Packet(
                video=True,
                dts=round(packet.dts * packet.time_base * 1_000),
                pts=round(packet.pts * packet.time_base * 1_000),
                key=packet.is_keyframe,
                data=bytes(packet),
            )
            for packet in container.demux(muxed)
            if packet.dts is not None and packet.pts is not None
        )
    return Source(video=track, audio=None, packets=packets)


def _pictures(seconds: int, size: tuple[int, int], form: str) -> Iterator[VideoFrame]:
    graph = Graph()
    source = graph.add("testsrc2", size=f"{size[0]}x{size[1]}", rate="30", duration=str(seconds))
    sink = graph.add("buffersink")
    graph.link_nodes(source, graph.add("format", pix_fmts=form), sink)
    graph.configure()
    while True:
        try:
            frame = sink.pull()
        except NothingMore:
            return
        assert isinstance(frame, VideoFrame)
        frame.pict_type = PictureType.NONE
        frame.time_base = Fraction(1, 30)
        yield frame
