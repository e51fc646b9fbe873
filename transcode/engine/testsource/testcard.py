"""A test picture and its tone, from which delay and lip sync can be read.

The picture has colour bars, a clock (UTC), a strip that scrolls, and a block that sweeps across
noise once in two seconds. At each whole second the clock's band is inverted for 100 ms while a 1
kHz tone sounds. Beneath it quiet chords follow each other without repetition, so that it can be
heard how far apart two encoders are, as in a programme. Frames are counted since the Unix epoch
(`tick`), sound in samples since then, so both follow from the time alone.
"""

import math
import random
from array import array
from itertools import combinations
from typing import Final

import av

from media.ticks import AUDIO_SCALE

FLASH_MS: Final = 100
_BEEP_HZ, _BEEP = 1_000, 0.5
_BEAT: Final = AUDIO_SCALE // 16  # samples
_BEATS_OF_BEEP: Final = 2
# One in each band in which the sounds of two encoders are compared. Each has a whole number of
# periods in a beat, so that one chord goes on from the other.
_NOTES_HZ: Final = (208, 448, 1_248, 2_640)
_CHORDS: Final = tuple(chord for size in (1, 2, 3) for chord in combinations(_NOTES_HZ, size))
_NOTE: Final = 0.03
_FADE: Final = 240  # 5 ms: a tone that stops at once clicks

# Rows of 5 bits, the left pixel highest.
_GLYPHS: Final = {
    "0": (14, 17, 19, 21, 25, 17, 14),
    "1": (4, 12, 4, 4, 4, 4, 14),
    "2": (14, 17, 1, 2, 4, 8, 31),
    "3": (31, 2, 4, 2, 1, 17, 14),
    "4": (2, 6, 10, 18, 31, 2, 2),
    "5": (31, 16, 30, 1, 1, 17, 14),
    "6": (6, 8, 16, 30, 17, 17, 14),
    "7": (31, 1, 2, 4, 8, 8, 8),
    "8": (14, 17, 17, 14, 17, 17, 14),
    "9": (14, 17, 17, 15, 1, 2, 12),
    ":": (0, 4, 4, 0, 4, 4, 0),
    ".": (0, 0, 0, 0, 0, 4, 4),
}
_ROWS, _COLUMNS = 7, 6  # a glyph is 5 wide, with a gap
_TEXT: Final = len("00:00:00.000")

# Bars of 75 % in BT.709, limited range: Y, Cb, Cr.
_BARS: Final = (
    (180, 128, 128), (168, 44, 136), (145, 147, 44), (133, 63, 52),
    (63, 193, 204), (51, 109, 212), (28, 212, 120), (16, 128, 128),
)  # fmt: skip
_BLACK, _WHITE = 16, 235
_SEED: Final = 1  # the same noise in every process


class TestCard:
    """Draws frames of one size and rate; `width` and `height` are even."""

    __test__ = False  # a name, not a test

    def __init__(self, width: int, height: int, fps: int) -> None:
        self._width, self._height, self._fps = width, height, fps
        planes = av.VideoFrame(width, height, "yuv420p").planes
        # Rows are padded in memory, for the sake of wide instructions.
        self._stride, chroma_stride = planes[0].line_size, planes[1].line_size
        self._bars = height * 9 // 20 // 2 * 2
        self._band = height * 15 // 20 // 2 * 2
        self._strip = height * 18 // 20 // 2 * 2
        self._scale = max(1, min(width * 9 // 10 // (_TEXT * _COLUMNS), (self._band - self._bars) //
                                 (_ROWS + 2)))  # fmt: skip
        self._still = bytearray(self._rows(self._bar_row(0, 1), self._bars))
        self._still += self._rows(bytes((_BLACK,)) * width, height - self._bars)
        self._chroma = tuple(
            self._bar_row(channel, 2).ljust(chroma_stride, b"\x80") * (self._bars // 2)
            + b"\x80" * (chroma_stride * (height // 2 - self._bars // 2))
            for channel in (1, 2)
        )
        wave = bytes(_BLACK + abs(219 - 438 * x // width) for x in range(width))
        self._wave = wave + wave
        # Without noise the picture would be so still that it took fewer bits than its own smaller
        # renditions, and would be listed below them in a playlist.
        coarse = random.Random(_SEED).randbytes(2 * self._stride * (height - self._strip))  # noqa: S311  # no secret
        self._noise = coarse.translate(bytes(_BLACK + level // 4 for level in range(256)))
        self._glyphs = {
            (glyph, inverted): self._render(glyph, inverted=inverted)
            for glyph in _GLYPHS
            for inverted in (False, True)
        }

    def frame(self, tick: int) -> av.VideoFrame:
        """Return the frame of a tick; the caller sets its `pts`."""
        canvas = bytearray(self._still)
        part = tick % self._fps
        inverted = part * 1000 < FLASH_MS * self._fps
        if inverted:
            band = self._rows(bytes((_WHITE,)) * self._width, self._band - self._bars)
            canvas[self._bars * self._stride : self._band * self._stride] = band
        self._write(canvas, clock_text(tick, self._fps), inverted=inverted)
        # A sweep and a scroll in two seconds each, so that every frame of a GOP differs.
        offset = tick % (2 * self._fps) * self._width // (2 * self._fps)
        strip = self._rows(self._wave[offset : offset + self._width], self._strip - self._band)
        canvas[self._band * self._stride : self._strip * self._stride] = strip
        self._sweep(canvas, tick, offset)
        frame = av.VideoFrame(self._width, self._height, "yuv420p")
        for plane, data in zip(frame.planes, (bytes(canvas), *self._chroma), strict=True):
            plane.update(data)
        return frame

    def _sweep(self, canvas: bytearray, tick: int, offset: int) -> None:
        """Draw the block on its background of noise."""
        start, end = self._strip * self._stride, self._height * self._stride
        # The step is an odd prime, so that the noise does not repeat within a GOP.
        shift = tick * 7_919 % (len(self._noise) - (end - start) + 1)
        canvas[start:end] = self._noise[shift : shift + end - start]
        side = max(2, self._width // 40)
        block = bytes((_WHITE,)) * side
        for line in range(self._strip, self._height):
            left = line * self._stride + min(offset, self._width - side)
            canvas[left : left + side] = block

    def _rows(self, row: bytes, count: int) -> bytes:
        return row.ljust(self._stride, b"\x10") * count

    def _bar_row(self, channel: int, step: int) -> bytes:
        width = self._width // step
        return bytes(_BARS[8 * x // width][channel] for x in range(width))

    def _render(self, glyph: str, *, inverted: bool) -> tuple[bytes, ...]:
        """Return a glyph's rows, scaled horizontally only."""
        ink, paper = (_BLACK, _WHITE) if inverted else (_WHITE, _BLACK)
        return tuple(
            b"".join(
                bytes((ink if row << 1 >> (_COLUMNS - 1 - column) & 1 else paper,)) * self._scale
                for column in range(_COLUMNS)
            )
            for row in _GLYPHS[glyph]
        )

    def _write(self, canvas: bytearray, text: str, *, inverted: bool) -> None:
        across, down = _TEXT * _COLUMNS * self._scale, _ROWS * self._scale
        left = (self._width - across) // 2
        top = self._bars + (self._band - self._bars - down) // 2
        if left < 0:
            return  # narrower than the clock at one pixel a dot
        for number in range(_ROWS):
            row = b"".join(self._glyphs[glyph, inverted][number] for glyph in text)
            for line in range(top + number * self._scale, top + (number + 1) * self._scale):
                start = line * self._stride + left
                canvas[start : start + across] = row


def clock_text(tick: int, fps: int) -> str:
    """Return the time of day (UTC) of a tick, say `12:34:56.789`."""
    seconds, part = divmod(tick, fps)
    minutes, hours = seconds // 60 % 60, seconds // 3600 % 24
    return f"{hours:02}:{minutes:02}:{seconds % 60:02}.{part * 1000 // fps:03}"


class Tone:
    """Makes the sound for the picture: 48 kHz, stereo, planar floats."""

    def __init__(self) -> None:
        chords = [_chord(notes) for notes in _CHORDS]
        self._chords = [array("f", chord).tobytes() for chord in chords]
        self._beeps = [
            [array("f", map(sum, zip(chord, _beep(beat), strict=True))).tobytes()
             for chord in chords]
            for beat in range(_BEATS_OF_BEEP)
        ]  # fmt: skip

    def frame(self, sample: int, count: int) -> av.AudioFrame:
        """Return `count` samples that begin `sample` samples after the epoch."""
        first, skipped = divmod(sample, _BEAT)
        last = (sample + count) // _BEAT
        played = b"".join(map(self._played, range(first, last + 1)))
        frame = av.AudioFrame(format="fltp", layout="stereo", samples=count)
        for plane in frame.planes:
            plane.update(
                played[4 * skipped : 4 * (skipped + count)].ljust(plane.buffer_size, b"\0")
            )
        frame.sample_rate = AUDIO_SCALE
        return frame

    def _played(self, number: int) -> bytes:
        """Return a sixteenth of a second, counted since the epoch."""
        beat = number % 16
        chords = self._beeps[beat] if beat < _BEATS_OF_BEEP else self._chords
        return random.Random(number).choice(chords)  # noqa: S311  # no secret


def _chord(notes: tuple[int, ...]) -> list[float]:
    angles = [2 * math.pi * frequency / AUDIO_SCALE for frequency in notes]
    level = _NOTE / len(notes)
    return [level * sum(math.sin(angle * sample) for angle in angles) for sample in range(_BEAT)]


def _beep(beat: int) -> list[float]:
    """Return the levels of the beep in one of the first beats of a second."""
    angle, length = 2 * math.pi * _BEEP_HZ / AUDIO_SCALE, AUDIO_SCALE * FLASH_MS // 1000
    return [
        _BEEP * min(1.0, max(0.0, (length - sample) / _FADE)) * math.sin(angle * sample)
        for sample in range(_BEAT * beat, _BEAT * (beat + 1))
    ]
