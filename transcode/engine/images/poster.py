"""Posters and previews of an uploaded file: the best of its keyframes as a JPEG for each rung.

`transcode.engine.images.image_score` defines the best; the first pictures of many files are black,
titles or fades. The same keyframes, scaled down, are the thumbnails that players show over a time
line.
"""

import time
from collections.abc import Iterator
from fractions import Fraction
from itertools import islice, pairwise
from typing import Final

from av.video.frame import VideoFrame

from media.ladder import Rendition
from transcode.engine.codec.jpeg import labelled_posters
from transcode.engine.codec.scaler import Cascade
from transcode.engine.core.reports import ReportWriter
from transcode.engine.images.image_score import ImageScorer
from transcode.engine.images.keyframe_sampler import SampledKeyframe, sample_keyframes
from transcode.engine.images.preview_sheets import Thumbnails
from transcode.engine.input.container import BadUpload, open_upload, pixel_aspect, video_stream
from transcode.engine.input.whole_picture import first_whole_picture
from transcode.protocol.messages import FileOrder, Poster, Previews

# Keyframes among which the poster is chosen. In trials, more of them gave no better posters.
_MOST_CANDIDATES: Final = 60
# Limits for the sampling: the sandbox ends an engine at 60 s of CPU, and the parent waits at most
# 180 s. A file in 2160p without an index, where each seek is slow, may reach them.
_CPU_SECONDS: Final = 30.0
_SECONDS: Final = 90.0
_THUMBNAIL: Final = (64, 36)


def make_posters(
    descriptor: int, make: FileOrder, reports: ReportWriter
) -> Iterator[Poster | Previews]:
    """Yield a poster for each rung, largest first; then the previews.

    Raises:
        BadUpload: no picture can be decoded.
    """
    if make.ladder is None:
        return
    cpu, started = time.process_time(), time.monotonic()

    def is_over() -> bool:
        return time.process_time() - cpu > _CPU_SECONDS or time.monotonic() - started > _SECONDS

    rungs = make.ladder.renditions
    with open_upload(descriptor, reports) as upload:
        picture = video_stream(upload)
        if picture is None:
            raise BadUpload("The file has no picture.")
        aspect = pixel_aspect(picture)
        keyframes = sample_keyframes(
            upload, picture, make.length_us or upload.duration or 0, is_over
        )
        thumbnails = Thumbnails(rungs[0].width, rungs[0].height)
        candidates = _Candidates(aspect, thumbnails)
        for keyframe in islice(keyframes, _MOST_CANDIDATES):
            candidates.judge(keyframe)
        best = candidates.best() or _any_picture(descriptor, reports)
        yield from scaled_posters(best, aspect, rungs)
        for keyframe in keyframes:
            candidates.keep(keyframe)
    previews = thumbnails.previews()
    if previews is not None:
        yield previews


def luma_and_detail(frame: VideoFrame) -> tuple[float, float]:
    """Return a still's mean luma (16 to 235) and the mean difference of neighbouring pixels."""
    wide, high = _THUMBNAIL
    small = frame.reformat(width=wide, height=high, format="gray")
    plane = small.planes[0]
    data, line = bytes(plane), plane.line_size
    rows = [data[row_number * line : row_number * line + wide] for row_number in range(high)]
    mean = sum(map(sum, rows)) / (wide * high)
    across = sum(abs(a - b) for row in rows for a, b in pairwise(row))
    down = sum(
        abs(a - b) for upper, lower in pairwise(rows) for a, b in zip(upper, lower, strict=True)
    )
    return mean, (across + down) / (wide * high)


def scaled_posters(
    best: VideoFrame, aspect: Fraction, rungs: tuple[Rendition, ...]
) -> Iterator[Poster]:
    """Yield the posters of a picture, whose pixels have that aspect, in the sizes of `rungs`.

    Raises:
        av.error.FFmpegError, ValueError: its format cannot be read.
    """
    pictures = Cascade(tuple((rung.width, rung.height) for rung in rungs)).scale(best, aspect)
    yield from labelled_posters([rung.name for rung in rungs], pictures)


class _Candidates:
    """The keyframes so far: the best, and thumbnails of all of them."""

    def __init__(self, aspect: Fraction, thumbnails: Thumbnails) -> None:
        self._aspect = aspect
        self._thumbnails = thumbnails
        self._scorer = ImageScorer()
        self._best: tuple[float, VideoFrame] | None = None

    def judge(self, keyframe: SampledKeyframe) -> None:
        """Add a keyframe that may become the poster."""
        copy = self.keep(keyframe)
        if copy is None:
            return
        score = self._scorer.score(copy)
        if self._best is None or score > self._best[0]:
            self._best = score, keyframe.frame

    def keep(self, keyframe: SampledKeyframe) -> VideoFrame | None:
        """Add a keyframe; return a smaller copy, None if its format cannot be read."""
        return self._thumbnails.add(keyframe.at, keyframe.frame, self._aspect)

    def best(self) -> VideoFrame | None:
        """Return the picture for the poster; None if there was no keyframe."""
        return None if self._best is None else self._best[1]


def _any_picture(descriptor: int, reports: ReportWriter | None) -> VideoFrame:
    """Return the first whole picture of a file whose keyframes are not found.

    An edit list may leave out the only keyframe, and a container's index may lead past it.

    Raises:
        BadUpload: there is none.
    """
    with open_upload(descriptor, reports) as upload:
        picture = video_stream(upload)
        frame = None if picture is None else first_whole_picture(upload, picture)
    if frame is None:
        raise BadUpload("No picture of the file can be decoded.")
    return frame
