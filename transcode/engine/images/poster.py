"""Stills of an uploaded file: the best of its keyframes, as a JPEG for each rung, and previews.

Good is what `transcode.engine.images.image_score` says; the first pictures of many films are
black, titles or fades. The same keyframes, scaled down, are the pictures that players show over a
time line.
"""

import time
from collections.abc import Iterator
from fractions import Fraction
from itertools import islice, pairwise
from typing import Final

from av.error import FFmpegError
from av.video.frame import VideoFrame

from media.ladder import Rendition
from transcode.engine.codec.jpeg import jpeg
from transcode.engine.codec.scaler import Cascade
from transcode.engine.images.image_score import Merit
from transcode.engine.images.keyframe_sampler import Moment, moments
from transcode.engine.images.preview_sheets import COLUMNS, PER_SHEET, sheets, thumbnail_size
from transcode.engine.input.container import BadUpload, aspect_of, opened, picture_of
from transcode.protocol.messages import Make, Poster, Previews

__all__ = ["measured", "posters"]

# Keyframes of which the best is the poster. More of a film were no better in what was tried.
_JUDGED: Final = 60
# What looking may take: the box ends an engine at 60 s of CPU, and the parent does not wait longer
# than 180 s. A film in 2160p of which every look is a seek without an index may get that far.
_CPU_SECONDS: Final = 30.0
_SECONDS: Final = 90.0
_THUMBNAIL: Final = (64, 36)


def posters(descriptor: int, make: Make) -> Iterator[Poster | Previews]:
    """Yield a poster for each rung, largest first; then the previews.

    Raises:
        BadUpload: no picture can be decoded.
    """
    if make.ladder is None:
        return
    cpu, begun = time.process_time(), time.monotonic()

    def is_over() -> bool:
        return time.process_time() - cpu > _CPU_SECONDS or time.monotonic() - begun > _SECONDS

    rungs = make.ladder.renditions
    with opened(descriptor) as upload:
        picture = picture_of(upload)
        if picture is None:
            raise BadUpload("The file has no picture.")
        aspect = aspect_of(picture)
        found = moments(upload, picture, make.length_us or upload.duration or 0, is_over)
        looks = _Looks(aspect, thumbnail_size(rungs[0].width, rungs[0].height))
        for moment in islice(found, _JUDGED):
            looks.judge(moment)
        yield from _in_sizes(looks.best(), aspect, rungs)
        for moment in found:
            looks.keep(moment)
    previews = looks.previews()
    if previews is not None:
        yield previews


def measured(frame: VideoFrame) -> tuple[float, float]:
    """Return a still's mean luma (16 to 235) and by how much its neighbouring pixels differ."""
    wide, high = _THUMBNAIL
    small = frame.reformat(width=wide, height=high, format="gray")
    plane = small.planes[0]
    data, line = bytes(plane), plane.line_size
    rows = [data[place * line : place * line + wide] for place in range(high)]
    mean = sum(map(sum, rows)) / (wide * high)
    across = sum(abs(a - b) for row in rows for a, b in pairwise(row))
    down = sum(abs(a - b) for one, two in pairwise(rows) for a, b in zip(one, two, strict=True))
    return mean, (across + down) / (wide * high)


class _Looks:
    """What was seen of a film: its best picture, and all of them in small."""

    def __init__(self, aspect: Fraction, size: tuple[int, int]) -> None:
        self._aspect = aspect
        self._size = size
        self._merit = Merit()
        self._sizes = ((2 * size[0], 2 * size[1]), size)
        self._cascade = Cascade(self._sizes)
        self._best: tuple[float, VideoFrame] | None = None
        self._small: list[tuple[int, VideoFrame]] = []

    def judge(self, moment: Moment) -> None:
        """Take a keyframe that may be the poster."""
        copy = self.keep(moment)
        if copy is None:
            return
        merit = self._merit.of(copy)
        if self._best is None or merit > self._best[0]:
            self._best = merit, moment.frame

    def keep(self, moment: Moment) -> VideoFrame | None:
        """Take a keyframe; returns a smaller copy, None where its form cannot be read."""
        if moment.frame.interlaced_frame:
            # Joining its fields takes the frame before it for its neighbour, which it is not.
            self._cascade = Cascade(self._sizes)
        try:
            copy, small = self._cascade.scale(moment.frame, self._aspect)
        except (FFmpegError, ValueError):
            self._cascade = Cascade(self._sizes)
            return None
        self._small.append((moment.at, small))
        return copy

    def best(self) -> VideoFrame:
        """Return the picture for the poster.

        Raises:
            BadUpload: there is none.
        """
        if self._best is None:
            raise BadUpload("No picture of the file can be decoded.")
        return self._best[1]

    def previews(self) -> Previews | None:
        """Return all that was kept, in order; None where one picture is all there is."""
        found = sorted(self._small, key=lambda each: each[0])
        if len(found) < 2:
            return None
        return Previews(
            width=self._size[0],
            height=self._size[1],
            columns=COLUMNS,
            per_sheet=PER_SHEET,
            times=tuple(at for at, _ in found),
            sheets=tuple(sheets([small for _, small in found])),
        )


def _in_sizes(best: VideoFrame, aspect: Fraction, rungs: tuple[Rendition, ...]) -> Iterator[Poster]:
    made = Cascade(tuple((rung.width, rung.height) for rung in rungs)).scale(best, aspect)
    for rung, still in zip(rungs, made, strict=True):
        yield Poster(label=rung.name, width=still.width, height=still.height, data=jpeg(still))
