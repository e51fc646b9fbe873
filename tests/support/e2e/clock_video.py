"""A clock burnt into pictures: encoder commands that draw it, and a reader that decodes it.

Large black and white cells in every picture encode when it was made: the time of day in
milliseconds, modulo `WRAP_MS`. Two encoders that were started at different times show the same
clock, so the received pictures alone show what was lost or repeated, and how old they are. A strip
below the cells is white for the first tenth of each second since the encoder's start, while its
sound beeps, so that audio and video can be compared.
"""

import itertools
import statistics
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import av
import imageio_ffmpeg
import msgspec
from av import VideoFrame

from tests.support.e2e.hls_reader import CollectedRendition, collect, multivariant
from tests.support.e2e.publishers import tool
from tests.support.e2e.strict_player import timeline

# Wide and low: the ladders are those of 360p, 480p and 720p, with a quarter of the pixels.
ONE_RUNG = "432x128"  # passed through: too wide for 240p
TWO_RUNGS = "656x160"  # passed through, and one encoded rung: too wide for 360p
THREE_RUNGS = "864x240"  # passed through, and two encoded rungs: too wide for 480p

_BITS = 20
WRAP_MS = 1 << _BITS  # 17 minutes
_ROWS = 10
CELLS = f"color=c=black:s={_BITS}x{_ROWS}"  # what `clock_filter` draws into
_LOUD = 0.17  # above the tone's level, below that of a beep
_CLEAR = 60  # the least difference between a white and a black cell, which coding blurs

# Like OBS but cheap: B-frames, a keyframe every 2 s, 1 Mbit/s. One thread has less delay.
X264 = (
    "-c:v libx264 -preset ultrafast -bf 2 -b_strategy 0 -g {gop} -keyint_min {gop} "
    "-sc_threshold 0 -threads 1 -pix_fmt yuv420p -b:v 1M -maxrate 1M -bufsize 1M"
)
HEVC = (
    "-c:v libx265 -preset ultrafast -pix_fmt yuv420p -b:v 1M -g {gop} "
    "-x265-params log-level=error:scenecut=0:bframes=2:pools=1:frame-threads=1"
)
AAC = "-c:a aac -b:a 96k -ar 48000 -ac {channels}"


def encoder(
    url: str,
    *,
    size: str = ONE_RUNG,
    fps: int = 30,
    video: str = X264,
    channels: int = 2,
    seconds: float | None = None,
    began: int | None = None,
) -> list[str]:
    """Return the command of an encoder that sends the clock in real time.

    `channels=0` means no sound. HEVC requires an ffmpeg with enhanced RTMP. With `seconds` it
    encodes a file of that length as fast as possible. The first picture's clock is `began`
    (milliseconds, not 0) if that is given, or else the time of day.
    """
    paced = ["-re"] if seconds is None else []
    picture = clock_filter(size, began)
    sound = [*paced, "-f", "lavfi", "-i", "sine=f=440:beep_factor=4:r=48000"]
    program = imageio_ffmpeg.get_ffmpeg_exe() if "265" in video else tool("ffmpeg")
    return [
        program, "-nostdin", "-v", "error",
        *paced, "-f", "lavfi", "-i", f"{CELLS}:r={fps}",
        *(sound if channels else []),
        "-vf", picture, *video.format(gop=2 * fps).split(),
        *(["-af", "volume=0.8", *AAC.format(channels=channels).split()] if channels else []),
        *(["-t", str(seconds)] if seconds is not None else []),
        "-flush_packets", "1", "-f", "flv", url,
    ]  # fmt: skip


def clock_filter(size: str, began: int | None = None) -> str:
    """Return the filter that draws the clock into pictures of `CELLS`; see `encoder`."""
    now = f"mod(floor(ld(0)+T*1000),{WRAP_MS})"
    bit = f"mod(floor({now}/pow(2,X)),2)"
    # Rows 0 to 2: bits, the lowest left; 3 to 5: the inverted bits; 6 and 7: the flash; then noise,
    # so that there is something to encode. The time of day is taken with the first picture.
    start = "floor(time(0)*1000)" if began is None else str(began)
    luma = (
        f"if(eq(ld(0),0),st(0,{start}));"
        f"if(lt(Y,3),16+219*{bit},if(lt(Y,6),235-219*{bit},"
        f"if(lt(Y,8),16+219*lt(mod(T,1),0.1),16+200*random(2))))"
    )
    return (
        f"format=gray,geq=lum='{luma}':threads=1,"
        f"scale={size.replace('x', ':')}:flags=neighbor,setsar=1,format=yuv420p"
    )


class ReceivedPicture(msgspec.Struct, frozen=True, kw_only=True):
    """A picture as a viewer receives it.

    `at` is its position (seconds) on the playlist's timeline, `time` (seconds) its media time;
    `stamp` the clock's milliseconds, None if it is unreadable; `segment` the number of its segment.
    """

    at: float
    time: float
    stamp: int | None
    segment: int
    bright: bool = False  # whether the flash is on


def of_levels(plain: list[int], inverted: list[int]) -> int | None:
    """Decode the two rows of cells; None if they are no valid clock."""
    stamp = 0
    for column, (white, black) in enumerate(zip(plain, inverted, strict=True)):
        if abs(white - black) < _CLEAR:
            return None
        stamp |= (white > black) << column
    return stamp


def read(frame: VideoFrame) -> tuple[int | None, bool]:
    """Return the clock of a picture (None if it is unreadable), and whether the flash is on."""
    plane = frame.planes[0]
    return read_luma(bytes(plane), plane.line_size, frame.width, frame.height)


def read_luma(data: bytes, stride: int, width: int, height: int) -> tuple[int | None, bool]:
    """Return the clock of a luma plane, as `read` does; `stride` is the length of a row."""

    def level(row: float, column: float) -> int:
        """Return the mean of nine pixels in the middle of a cell, `row` counted from the top."""
        y, x = int(row * height / _ROWS), int((column + 0.5) * width / _BITS)
        lines = (y - 2, y, y + 2)
        return sum(sum(data[line * stride + x - 1 : line * stride + x + 2]) for line in lines) // 9

    plain, inverted = ([level(row, column) for column in range(_BITS)] for row in (1.5, 4.5))
    return of_levels(plain, inverted), level(7.0, _BITS / 2) > 128


def apart(stamp: int, other: int) -> int:
    """Return how many milliseconds `stamp` is after `other`, modulo `WRAP_MS`."""
    return (stamp - other + WRAP_MS // 2) % WRAP_MS - WRAP_MS // 2


class PlaylistArchive:
    """Stores everything that a stream's playlists list, and when it was first listed."""

    def __init__(self, url: str, *, patient: bool = False) -> None:
        self.held: dict[str, CollectedRendition] = {}
        self.named: dict[str, dict[int, float]] = {}  # rendition, segment number: time of day
        self.fault: Exception | None = None
        self._url = url
        self._patient = patient  # whether to wait for the first playlist
        self._over = threading.Event()

    def run(self) -> None:
        """Poll every 0.2 s until `stop`."""
        while not self._over.wait(0.2):
            try:
                self.refresh()
            except (AssertionError, OSError) as error:
                self.fault = self.fault or error

    def refresh(self) -> None:
        """Fetch new segments."""
        now = time.time()
        if self._patient and multivariant(self._url) is None:
            return
        self._patient = False
        collect(self._url, self.held)
        for rendition, collected in self.held.items():
            named = self.named.setdefault(rendition, {})
            for number in collected.segments:
                named.setdefault(number, now)

    def stop(self) -> None:
        """End `run`."""
        self._over.set()

    def marks(self, rendition: str) -> list[int]:
        """Return the numbers of the segments after a discontinuity."""
        segments = self.held[rendition].segments
        return [number for number in sorted(segments) if segments[number].discontinuity]

    def holes(self, rendition: str) -> list[float]:
        """Return the gap (seconds) between each segment and its predecessor.

        Discontinuities are skipped: players concatenate media across them.
        """
        segments = self.held[rendition].segments
        scale = _scale(self.held[rendition])
        gaps: list[float] = []
        for previous, number in itertools.pairwise(sorted(segments)):
            if not segments[number].discontinuity:
                _, end = timeline(segments[previous].data)
                start, _ = timeline(segments[number].data)
                gaps.append((start - end) / scale)
        return gaps

    def pictures(self, rendition: str, folder: Path) -> list[ReceivedPicture]:
        """Decode all stored segments of a rendition, in presentation order."""
        held = self.held[rendition]
        folder.mkdir(exist_ok=True)
        received: list[ReceivedPicture] = []
        files = held.stretches(folder / f"{rendition}.mp4")
        for path, numbers in zip(files, _stretches(held), strict=True):
            place = received[-1].at + 1 / 30 if received else 0.0
            received += _decoded(path, held, numbers, place)
        return received

    def unclocked(self, rendition: str, folder: Path) -> float:
        """Return the total time (seconds) of pictures without a readable clock."""
        pictures = self.pictures(rendition, folder)
        return sum(
            after.at - before.at
            for before, after in itertools.pairwise(pictures)
            if before.stamp is None
        )


def _scale(collected: CollectedRendition) -> int:
    """Return the timescale of a rendition's media."""
    data = next(iter(collected.inits.values()))
    offset = data.index(b"mdhd") + 4
    return int.from_bytes(data[offset + 12 : offset + 16], "big")


def _stretches(collected: CollectedRendition) -> list[list[int]]:
    """Return the segment numbers between discontinuities, as in `CollectedRendition.stretches`."""
    ranges: list[list[int]] = []
    init, last = "", 0
    for number in sorted(collected.segments):
        segment = collected.segments[number]
        if not ranges or segment.discontinuity or segment.init != init or number != last + 1:
            ranges.append([])
        init, last = segment.init, number
        ranges[-1].append(number)
    return ranges


def _decoded(
    path: Path, collected: CollectedRendition, numbers: list[int], place: float
) -> Iterator[ReceivedPicture]:
    """Yield the pictures of consecutive segments; the first one is at `place`."""
    scale = _scale(collected)
    starts = [timeline(collected.segments[number].data)[0] / scale for number in numbers]
    first: float | None = None
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            assert frame.time is not None
            first = frame.time if first is None else first
            index = sum(start <= frame.time + 0.001 for start in starts) - 1
            stamp, bright = read(frame)
            yield ReceivedPicture(
                at=place + frame.time - first,
                time=frame.time,
                stamp=stamp,
                segment=numbers[max(index, 0)],
                bright=bright,
            )


@contextmanager
def archiving(url: str, *, patient: bool = False) -> Generator[PlaylistArchive]:
    """Archive a stream for the length of the block; every listed object must exist.

    With `patient`, the stream may have no playlist at first.
    """
    archive = PlaylistArchive(url, patient=patient)
    thread = threading.Thread(target=archive.run, name="keeper")
    thread.start()
    try:
        yield archive
    finally:
        archive.stop()
        thread.join()
    assert archive.fault is None, archive.fault


class ClockJump(msgspec.Struct, frozen=True, kw_only=True):
    """A jump of the clock: a positive `gap_ms` is lost time, a negative one repeated time."""

    before: ReceivedPicture
    after: ReceivedPicture
    gap_ms: int


def clock_jumps(pictures: Iterable[ReceivedPicture], *, fps: int = 30) -> list[ClockJump]:
    """Return where clock and media time differ by more than half a picture.

    A missing picture is no jump if the next one has the right time: see `longest_gap`.
    """
    clocked = [picture for picture in pictures if picture.stamp is not None]
    jumps: list[ClockJump] = []
    for before, after in itertools.pairwise(clocked):
        assert before.stamp is not None
        assert after.stamp is not None
        gap = apart(after.stamp, before.stamp) - 1000 * (after.at - before.at)
        if abs(gap) > 500 / fps:
            jumps.append(ClockJump(before=before, after=after, gap_ms=round(gap)))
    return jumps


def longest_gap(pictures: Iterable[ReceivedPicture]) -> float:
    """Return the longest time (seconds) that one picture is shown, in media time."""
    return max(after.at - before.at for before, after in itertools.pairwise(pictures))


def lags(
    archive: PlaylistArchive, rendition: str, pictures: Iterable[ReceivedPicture]
) -> dict[float, float]:
    """Return the age of each segment's newest picture, by the time of day it was listed."""
    newest: dict[int, int] = {}
    for picture in pictures:
        if picture.stamp is not None:
            newest[picture.segment] = picture.stamp
    named = archive.named[rendition]
    return {
        named[number]: apart(int(named[number] * 1000) % WRAP_MS, stamp) / 1000
        for number, stamp in sorted(newest.items())
    }


def offsets(
    archive: PlaylistArchive,
    rendition: str,
    pictures: list[ReceivedPicture],
    folder: Path,
    *,
    since: float,
) -> list[float]:
    """Return the delay (seconds) of each beep after its flash.

    Only in segments listed since a time of day, after the last switch. A flash without a beep,
    where the sound pauses, is skipped.
    """
    named = archive.named[rendition]
    start = min(number for number, at in named.items() if at >= since)
    beeps = _beeps(archive.held["audio"].stretches(folder / "sound.mp4")[-1])
    delays: list[float] = []
    for before, after in itertools.pairwise(
        picture for picture in pictures if picture.segment >= start
    ):
        if after.bright and not before.bright:
            nearest = min((beep - after.time for beep in beeps), key=abs, default=1.0)
            if abs(nearest) < 0.5:
                delays.append(nearest)
    return delays


def _beeps(path: Path) -> list[float]:
    """Return the media times (seconds) at which a sound begins to beep."""
    times: list[float] = []
    last = -1.0
    with av.open(str(path)) as container:
        for sound in container.decode(audio=0):
            start = float(sound.time or 0)
            levels = memoryview(bytes(sound.planes[0])).cast("f").tolist()
            for index, level in enumerate(levels):
                if abs(level) > _LOUD:
                    at = start + index / sound.sample_rate
                    if at - last > 0.3:
                        times.append(at)
                    last = at
    return times


def middle(values: Iterable[float]) -> float:
    """Return the median."""
    return statistics.median(values)
