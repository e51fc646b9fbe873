"""Signatures and levels of a made-up programme, and what two encoders make of them.

It is far cheaper than coded pictures: an hour takes seconds.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from media.ticks import VIDEO_SCALE
from transcode.engine.watch.faults import WINDOW, Levels, Shown
from transcode.engine.watch.pictures import BLOCKS, COLUMNS, ROWS, Pictures

PER_SECOND = 10
STEP = VIDEO_SCALE // PER_SECOND


class Programme(msgspec.Struct):
    """A row of blocks, ten times a second, how bright each is at most, and how loud it is."""

    blocks: NDArray[np.float32]
    bright: NDArray[np.float32]
    decibels: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.blocks)


def programme(seconds: float, seed: int, *, light: float = 1.0, cuts: bool = True) -> Programme:
    """Scenes of 2 to 8 s, of which every third stands still; `light` multiplies what is shown."""
    random = np.random.default_rng(seed)
    count = round(seconds * PER_SECOND)
    blocks = np.zeros((count, BLOCKS), np.float32)
    place = 0
    while place < count:
        length = int(random.uniform(20, 80)) if cuts else count
        part = slice(place, place + length)
        rows = len(blocks[part])
        scene = random.uniform(40, 160) + 35 * random.standard_normal(BLOCKS)
        if random.random() > 0.33:
            # A person who moves covers some of the blocks, more and less.
            who = np.zeros((ROWS, COLUMNS))
            who[3:8, (at := int(random.integers(0, 12))) : at + 4] = random.uniform(20, 60)
            swaying = np.cumsum(random.standard_normal(rows)) * 0.3
            blocks[part] = scene + np.outer(np.sin(swaying + place), who.ravel())
        else:
            blocks[part] = scene
        place += length
    blocks = 16 + (np.clip(blocks, 16, 235) - 16) * np.float32(light)
    loud = np.repeat(random.uniform(-50, -12, count // 3 + 1), 3)[:count]
    loud += random.standard_normal(count) * 3
    return Programme(blocks, blocks.max(axis=1) + 20 * light, loud.astype("f4"))


def encoded(
    shown: Programme,
    seed: int,
    *,
    noise: float = 0.15,
    gain: float = 1.0,
    lift: float = 0.0,
    behind: float = 0.0,
    sound_behind: float = 0.0,
    quieter: float = 0.0,
) -> Shown:
    """Return what an encoder sends: coarser, in another range of luma, later, less loud.

    What it codes anew, it codes a bit differently; what stands still stays as it is for 2 s.
    """
    random = np.random.default_rng(seed)
    count = len(shown)
    moved = np.abs(np.diff(shown.blocks, axis=0, prepend=0)).max(axis=1) > 0.01
    anew = moved | (np.arange(count) % (2 * PER_SECOND) == seed % (2 * PER_SECOND))
    errors = random.standard_normal((count, BLOCKS)).clip(-2.5, 2.5) * noise
    errors = errors[np.maximum.accumulate(np.where(anew, np.arange(count), 0))]
    times = np.arange(count, dtype=np.int64) * STEP + round(behind * VIDEO_SCALE)
    blocks = (shown.blocks * gain + lift + errors).astype("f4")
    windows = np.arange(count, dtype=np.int64) * WINDOW
    heard = shown.decibels - quieter + random.standard_normal(count) * 0.5
    return Shown(
        Pictures(times, blocks, (shown.bright * gain + lift).astype("f4")),
        Levels(windows + round((behind + sound_behind) * VIDEO_SCALE), heard.astype("f4")),
    )


def until(shown: Shown, time: int) -> Shown:
    """Return what is kept of a source at a time."""
    since = time - 30 * VIDEO_SCALE
    return Shown(shown.pictures.between(since, time), shown.levels.between(since, time))
