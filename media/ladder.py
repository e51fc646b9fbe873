"""The ladder of renditions of a source: their labels, sizes and bit rates.

Each rung is a bounding box (rotated for portrait) into which the picture is fitted. The top rung
has the source's own size, under the label of the smallest box that holds it; pictures are never
scaled up.
"""

from typing import Final

import msgspec

# The name of the audio rendition; every run has exactly one.
AUDIO_RENDITION = "audio"
# The highest bit rate that it reaches over 2 s, in bit/s: AAC at 128 kbit/s peaks at 133 where
# noise begins, and its container adds 5.
AUDIO_PEAK_RATE: Final = 150_000
# What a live encoder may send at once beyond its rate, in seconds of that rate. More gains nothing:
# SSIM of sport, talk and screen is the same to 0.002 with 0.5, 1 and 2 s.
BURST_SECONDS: Final = 0.5
# A source with more than this times the rate of its rung costs viewers more than it is worth: bits
# above the rate of the encoders are invisible.
MOST_SOURCE_RATE: Final = 2
_PEAK_SECONDS: Final = 2  # the shortest time for which a playlist's peak counts


class Box(msgspec.Struct, frozen=True):
    """A resolution that owners can enable; `rate` is that of its encoder in bit/s.

    `number` is the public id of the resolution; `standard`: enabled for new streams.
    """

    number: int
    label: str
    width: int
    height: int
    rate: int
    standard: bool = False

    def holds(self, width: int, height: int) -> bool:
        """Return whether a picture fits into the box, which is rotated for portrait."""
        return max(width, height) <= self.width and min(width, height) <= self.height


# Rates: measured for 720p, 480p and 360p (2.8, 1.4 and 0.8 Mbit/s), extrapolated to the others at
# about the same bits per pixel.
BOXES = (
    Box(8, "144p", 256, 144, 200_000),
    Box(7, "240p", 426, 240, 400_000),
    Box(1, "360p", 640, 360, 800_000, standard=True),
    Box(2, "480p", 854, 480, 1_400_000, standard=True),
    Box(3, "720p", 1280, 720, 2_800_000, standard=True),
    Box(4, "1080p", 1920, 1080, 5_000_000, standard=True),
    Box(5, "1440p", 2560, 1440, 9_000_000),
    Box(6, "2160p", 3840, 2160, 16_000_000),
)
_FIRST_ORDINARY = 2  # 240p and 144p exist only for sources below 360p

BOX_LABELS: Final = {box.number: box.label for box in BOXES}
BOX_NUMBERS: Final = {box.label: box.number for box in BOXES}
# The boxes that owners choose from, by number.
SELECTABLE_BOXES: Final = tuple(sorted(BOXES[_FIRST_ORDINARY:], key=lambda box: box.number))
STANDARD_LABELS: Final = frozenset(box.label for box in BOXES if box.standard)


class Rendition(msgspec.Struct, frozen=True, kw_only=True):
    """One rung: `name` is its label, `rate` its encoder's in bit/s; sizes are even.

    `source_size`: it has exactly the source's size, so the source's packets can be copied.
    """

    name: str
    width: int
    height: int
    rate: int
    source_size: bool = False

    @property
    def peak_rate(self) -> int:
        """The most that its live encoder reaches in 2 s or more, in bit/s.

        That is the bound of the encoder's buffer model. It reaches 0.9 of that at most, which
        leaves enough for the container.
        """
        return round(self.rate * (1 + BURST_SECONDS / _PEAK_SECONDS))


class Ladder(msgspec.Struct, frozen=True):
    """Renditions of one source, largest first; never empty."""

    renditions: tuple[Rendition, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The labels, largest first."""
        return tuple(rung.name for rung in self.renditions)


def box_of(width: int, height: int) -> Box:
    """Return the smallest box that holds a picture; the largest box if none does."""
    return next((box for box in BOXES if box.holds(width, height)), BOXES[-1])


def _fit(box: Box, width: int, height: int) -> tuple[int, int]:
    """Return the largest even size with the picture's aspect that fits into the box."""
    across, down = (box.width, box.height) if width >= height else (box.height, box.width)
    if width * down <= height * across:
        wide, high = _even(width * down, height, across), down
    else:
        wide, high = across, _even(height * across, width, down)
    return min(wide, max(2, width // 2 * 2)), min(high, max(2, height // 2 * 2))


def _even(dividend: int, divisor: int, most: int) -> int:
    """Return the even number nearest to a quotient, between 2 and `most`."""
    return max(2, min(most, (dividend + divisor) // (2 * divisor) * 2))


def ladder_for(width: int, height: int, active: frozenset[str]) -> Ladder:
    """Return the ladder of a picture of `width` x `height` pixels.

    `active` are the labels that the stream's owner enabled. If none of them is at or below the
    source, the source's own box is the only rung: a stream always has a picture.
    """
    source_box = box_of(width, height)
    place = BOXES.index(source_box)
    lower = [box for box in BOXES[_FIRST_ORDINARY:place] if box.label in active]
    rungs: list[Rendition] = []
    if source_box.label in active or not lower:
        even = (width // 2 * 2, height // 2 * 2)
        fits = source_box.holds(width, height)
        size = even if fits else _fit(source_box, width, height)
        rungs.append(
            Rendition(
                name=source_box.label,
                width=size[0],
                height=size[1],
                rate=source_box.rate,
                source_size=fits and size == (width, height),
            )
        )
    for box in reversed(lower):
        across, down = _fit(box, width, height)
        # A source one line larger than a box would be offered twice in the same size.
        if not rungs or (across, down) != (rungs[-1].width, rungs[-1].height):
            rungs.append(Rendition(name=box.label, width=across, height=down, rate=box.rate))
    return Ladder(tuple(rungs))
