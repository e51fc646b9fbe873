"""A client that reads a low-latency playlist as a player does, and times each part on its way.

It asks for each part before it exists (RFC 8216bis, section 6.2.5.2) and reads the clock off the
part's pictures: so the time from drawing a picture to listing it is known without a player.
"""

import re
import statistics
import threading
import time
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import Final
from urllib.parse import urljoin

import av
import msgspec
from av.error import FFmpegError
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from bench.latency.clock import read, since
from tests.support.in_thread import in_thread

_PATIENCE_SECONDS: Final = 15.0
_VARIANT: Final = re.compile(r"#EXT-X-STREAM-INF:.*?RESOLUTION=\d+x(\d+).*\n(\S+)")
_PART: Final = re.compile(r'#EXT-X-PART:(?=.*DURATION=([\d.]+))(?=.*URI="([^"]+)")')
_MAP: Final = re.compile(r'#EXT-X-MAP:.*URI="([^"]+)"')
_NUMBER: Final = re.compile(r"#EXT-X-MEDIA-SEQUENCE:(\d+)")


class NoParts(Exception):
    """The playlist lists no parts."""


class ListedPart(msgspec.Struct, frozen=True):
    """A part of a playlist: its segment's number and its own, its length (seconds), addresses."""

    msn: int
    part: int
    duration: float
    address: str
    init: str


class ReadPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part that was read: times of day in seconds, and the presentation times of its pictures."""

    part: ListedPart
    listed: float
    fetched: float
    pictures: tuple[int, ...]


class Stages(msgspec.Struct, frozen=True, kw_only=True):
    """Medians, in seconds: a part's length; its newest picture's age when listed and when fetched.

    `late` is the 95th percentile of the age when listed.
    """

    parts: int
    duration: float
    listed: float
    late: float
    fetched: float


def top_rendition(text: str, address: str) -> str:
    """Return the address of the largest variant in a multivariant playlist.

    Raises:
        NoParts: it names none.
    """
    variants = [(int(height), uri) for height, uri in _VARIANT.findall(text)]
    if not variants:
        raise NoParts("the multivariant playlist has no picture")
    return urljoin(address, max(variants)[1])


def newest_parts(text: str, address: str) -> tuple[list[ListedPart], tuple[int, int]]:
    """Return a media playlist's parts, oldest first, and the number of the part that comes next."""
    first = _NUMBER.search(text)
    msn, part, init = int(first[1]) if first else 0, 0, ""
    parts: list[ListedPart] = []
    for line in text.splitlines():
        if match := _PART.match(line):
            uri = urljoin(address, match[2])
            parts.append(ListedPart(msn, part, float(match[1]), uri, init))
            part += 1
        elif match := _MAP.match(line):
            init = urljoin(address, match[1])
        elif line and not line.startswith("#"):
            msn, part = msn + 1, 0
    return parts, (msn, part)


class PartReader:
    """Reads one stream's largest rendition until it is stopped."""

    def __init__(self, playlist: str) -> None:
        self.read: list[ReadPart] = []
        self.clocks: dict[int, int] = {}
        """The clock of each picture, by its presentation time."""
        self.error: Exception | None = None
        self._playlist = playlist
        self._over = threading.Event()
        self._decoder: VideoCodecContext | None = None
        self._inits: dict[str, bytes] = {}

    def run(self) -> None:
        """Read until stopped, or until something fails, which `error` then holds."""
        try:
            self._run()
        except (OSError, NoParts, FFmpegError) as error:
            self.error = error

    def stop(self) -> None:
        """End after the request that is under way."""
        self._over.set()

    def _run(self) -> None:
        address = top_rendition(_get(self._playlist).decode(), self._playlist)
        parts, following = newest_parts(_get(address).decode(), address)
        if not parts:
            raise NoParts("the playlist lists no parts")
        last = (parts[-1].msn, parts[-1].part)
        while not self._over.is_set():
            msn, part = following
            text = _get(f"{address}?_HLS_msn={msn}&_HLS_part={part}").decode()
            listed = time.time()
            parts, following = newest_parts(text, address)
            for listed_part in parts:
                if (listed_part.msn, listed_part.part) > last:
                    last = (listed_part.msn, listed_part.part)
                    self._fetch(listed_part, listed)

    def _fetch(self, part: ListedPart, listed: float) -> None:
        data = _get(part.address)
        fetched = time.time()
        if part.init not in self._inits:
            self._inits[part.init] = _get(part.init)
            self._decoder = None
        pictures: list[int] = []
        with av.open(BytesIO(self._inits[part.init] + data), "r") as container:
            stream = container.streams.video[0]
            # One decoder for all parts: most of them do not begin with a keyframe.
            decoder = self._decoder = self._decoder or _decoder(stream)
            for packet in container.demux(stream):
                if packet.pts is None:
                    continue  # the end
                pictures.append(packet.pts)
                for frame in decoder.decode(packet):  # pyright: ignore[reportUnknownMemberType]  # PyAV's stubs leave packets open
                    self._keep(frame)
        self.read.append(
            ReadPart(part=part, listed=listed, fetched=fetched, pictures=tuple(pictures))
        )

    def _keep(self, frame: VideoFrame) -> None:
        plane = frame.planes[0]
        clock = read(memoryview(plane), plane.line_size, frame.width, frame.height)
        if clock is not None and frame.pts is not None:
            self.clocks[frame.pts] = clock


def _decoder(stream: VideoStream) -> VideoCodecContext:
    decoder = av.CodecContext.create(stream.codec_context.name, "r")
    assert isinstance(decoder, VideoCodecContext)
    decoder.extradata = stream.codec_context.extradata
    return decoder


def _get(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=_PATIENCE_SECONDS) as answer:
        return answer.read()


@contextmanager
def reading(playlist: str) -> Generator[PartReader]:
    """Read a stream for the length of the block."""
    reader = PartReader(playlist)
    with in_thread(reader.run, reader.stop):
        yield reader


def stages(read_parts: Sequence[ReadPart], clocks: dict[int, int]) -> Stages | None:
    """Return the medians over all parts whose pictures' clocks are known; None without any."""
    listed: list[float] = []
    fetched: list[float] = []
    durations: list[float] = []
    for read_part in read_parts:
        drawn = [clocks[pts] for pts in read_part.pictures if pts in clocks]
        if len(drawn) < len(read_part.pictures) or not drawn:
            continue
        newest = max(drawn)
        listed.append(since(newest, 1000 * read_part.listed) / 1000)
        fetched.append(since(newest, 1000 * read_part.fetched) / 1000)
        durations.append(read_part.part.duration)
    if not listed:
        return None
    return Stages(
        parts=len(listed),
        duration=statistics.median(durations),
        listed=statistics.median(listed),
        late=sorted(listed)[len(listed) * 95 // 100],
        fetched=statistics.median(fetched),
    )
