"""What a multivariant playlist says of bit rates and frame rates, measured on the media.

Pure. Source: draft-pantos-hls-rfc8216bis, 4.4.6.2 (BANDWIDTH, AVERAGE-BANDWIDTH, FRAME-RATE) and
3 (the peak segment bit rate). Durations are ticks of 90 000 a second.

The playlist is written anew only when it would mislead: when a variant, its coding, size or frame
rate changed, when the measured peak is above the announced one, or when the average is off by more
than 5 %. Bit rates are rounded to three digits, peaks upwards, so that a little more is no news.
"""

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from media.hls.playlist import TARGET_SECONDS, MultivariantPlaylist, Sound, Variant
from media.ladder import AUDIO_RENDITION, Rendition
from media.ticks import VIDEO_SCALE

__all__ = ["Measure", "announce", "frame_rate"]

# The peak is the highest rate of any contiguous segments that last for 0.5 to 1.5 target durations.
_SHORTEST: Final = TARGET_SECONDS * VIDEO_SCALE // 2
_LONGEST: Final = TARGET_SECONDS * VIDEO_SCALE * 3 // 2
# A source with time stamps in milliseconds, rounded either way, is off by this at both ends.
_STAMP: Final = VIDEO_SCALE // 1000
# Frames per 1000 s that cameras and encoders are set to.
_USUAL_RATES: Final = (
    10_000, 12_000, 12_500, 14_985, 15_000, 20_000, 23_976, 24_000, 25_000, 29_970, 30_000,
    48_000, 50_000, 59_940, 60_000,
)  # fmt: skip
# Less than this of a new source says too little of its frame rate.
_TELLING: Final = VIDEO_SCALE * 3 // 2
# Apple's authoring specification asks for the variant of about 2 Mbit/s as the one that players
# begin with over Wi-Fi, which is the first.
_FIRST_RATE: Final = 2_000_000
_GROUP: Final = "audio"


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """What a rendition's media came to so far.

    `size` in bytes and `ticks` are of the whole run, `peak` in bit/s; `frames` in `span` ticks are
    of the source `epoch` alone, `rate` is the frame rate to announce by them, in frames per 1000 s
    (0 where nothing is known). `recent` are size and duration of the newest segments.
    """

    size: int = 0
    ticks: int = 0
    peak: int = 0
    epoch: int = -1
    frames: int = 0
    span: int = 0
    recent: tuple[tuple[int, int], ...] = ()
    rate: int = 0

    @property
    def average(self) -> int:
        """The average bit rate of the run, in bit/s."""
        return _rate(self.size, self.ticks)

    def next(self, size: int, duration: int, *, frames: int, epoch: int) -> "Measure":
        """Return the measure with one more segment."""
        same = epoch == self.epoch
        recent: list[tuple[int, int]] = []
        sizes, ticks, peak = 0, 0, self.peak
        for some, length in ((size, duration), *reversed(self.recent)):
            sizes, ticks = sizes + some, ticks + length
            if ticks > _LONGEST:
                break
            recent.insert(0, (some, length))
            if ticks >= _SHORTEST:
                peak = max(peak, _rate(sizes, ticks))
        fresh = Measure(
            size=self.size + size,
            ticks=self.ticks + duration,
            peak=peak,
            epoch=epoch,
            frames=frames + (self.frames if same else 0),
            span=duration + (self.span if same else 0),
            recent=tuple(recent),
        )
        return msgspec.structs.replace(fresh, rate=frame_rate(fresh, self.rate))

    def gap(self) -> "Measure":
        """Return the measure after a gap: nothing counts, and no peak reaches across it."""
        return msgspec.structs.replace(self, recent=()) if self.recent else self


def _rate(size: int, ticks: int) -> int:
    return 8 * size * VIDEO_SCALE // ticks if ticks > 0 else 0


def frame_rate(measure: Measure, before: int) -> int:
    """Return the frames per 1000 s to announce; `before` is what was announced, or 0.

    A usual rate is taken where the measured one is within what millisecond stamps blur; another
    rate stays as announced until it is off by 1 %.
    """
    if not measure.span or (before and measure.span < _TELLING):
        return before
    measured = measure.frames * VIDEO_SCALE * 1000 // measure.span
    usual = min(_USUAL_RATES, key=lambda rate: abs(rate - measured))
    blur = max(measured * 2 * _STAMP // measure.span, measured // 5000)
    if abs(usual - measured) <= blur:
        return usual
    return before if abs(before - measured) * 100 <= measured else measured


def announce(
    run: str,
    renditions: tuple[Rendition, ...],
    measures: Mapping[str, Measure],
    codecs: Mapping[str, str],
    before: MultivariantPlaylist | None,
    gaps: Collection[str] = (),
) -> MultivariantPlaylist:
    """Return the multivariant playlist of a run; `before` itself where that still holds.

    The variant nearest to 2 Mbit/s by its encoder's ceiling comes first, then the others from the
    largest down. Where there is no picture, the sound is the only variant. Renditions that are
    `gaps` now are left out, for a player should not begin with one; where all rungs are, players
    keep what they were told (`before` is then needed).
    """
    present = tuple(rung for rung in renditions if rung.name not in gaps)
    if renditions and not present and before is not None:
        return before
    sound = measures[AUDIO_RENDITION]
    uri = f"{run}/{AUDIO_RENDITION}/index.m3u8"
    if not renditions:
        alone = Variant(
            uri=uri,
            bandwidth=_rounded(max(sound.peak, sound.average), up=True),
            average=_rounded(sound.average),
            codecs=(codecs[AUDIO_RENDITION],),
        )
        fresh = MultivariantPlaylist(variants=(alone,))
    else:
        first = min(present, key=lambda rung: abs(rung.rate - _FIRST_RATE))
        order = (first, *(rung for rung in present if rung is not first))
        fresh = MultivariantPlaylist(
            variants=tuple(_variant(run, rung, measures, codecs) for rung in order),
            sounds=(Sound(uri=uri, group=_GROUP, name="Audio", channels=2),),
        )
    return before if before is not None and _holds(before, fresh) else fresh


def _variant(
    run: str,
    rung: Rendition,
    measures: Mapping[str, Measure],
    codecs: Mapping[str, str],
) -> Variant:
    picture, sound = measures[rung.name], measures[AUDIO_RENDITION]
    average = picture.average + sound.average
    return Variant(
        uri=f"{run}/{rung.name}/index.m3u8",
        # Peaks need not fall together, but a player may meet them together: the sum is the bound.
        bandwidth=_rounded(max(picture.peak + sound.peak, average), up=True),
        average=_rounded(average),
        codecs=tuple(codecs[name] for name in (rung.name, AUDIO_RENDITION) if name in codecs),
        width=rung.width,
        height=rung.height,
        frame_rate=picture.rate,
        audio=_GROUP,
    )


def _rounded(rate: int, *, up: bool = False) -> int:
    unit = 10 ** max(0, len(str(rate)) - 3)
    return -(-rate // unit) * unit if up else (rate + unit // 2) // unit * unit


def _holds(before: MultivariantPlaylist, fresh: MultivariantPlaylist) -> bool:
    if before.sounds != fresh.sounds or len(before.variants) != len(fresh.variants):
        return False
    return all(_still(*pair) for pair in zip(before.variants, fresh.variants, strict=True))


def _still(before: Variant, fresh: Variant) -> bool:
    alike = msgspec.structs.replace(fresh, bandwidth=before.bandwidth, average=before.average)
    off = abs((fresh.average or 0) - (before.average or 0))
    return (
        alike == before
        and fresh.bandwidth <= before.bandwidth
        and off * 20 <= (before.average or 0)
    )
