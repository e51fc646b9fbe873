"""The multivariant playlist of a run, with bit rates and frame rates measured on its media.

Pure. Source: draft-pantos-hls-rfc8216bis, 4.4.6.2 (BANDWIDTH, AVERAGE-BANDWIDTH, FRAME-RATE) and
3 (the peak segment bit rate). Durations are ticks of 90 000 a second.

BANDWIDTH must be an upper bound of the media still to come, too. In a live run it is that of the
encoder; a source's own packets have no bound, so it is the measured peak with a margin.

The playlist is replaced only when it would mislead: when a variant, its codecs, size or frame rate
changed, when the measured peak exceeds the announced one, or when the average is off by more than
5 %. Bit rates are rounded to three digits, peaks upwards, so that small changes do not replace it.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from media.hls.playlist import TARGET_SECONDS, AudioRendition, MultivariantPlaylist, Variant
from media.ladder import AUDIO_RENDITION, Rendition
from media.ticks import VIDEO_SCALE

# The peak is the highest rate of contiguous segments that last 0.5 to 1.5 target durations.
_SHORTEST: Final = TARGET_SECONDS * VIDEO_SCALE // 2
_LONGEST: Final = TARGET_SECONDS * VIDEO_SCALE * 3 // 2
# The error at either end for a source whose time stamps are rounded to milliseconds.
_STAMP_ERROR: Final = VIDEO_SCALE // 1000
# Frames per 1000 s that cameras and encoders commonly use.
_USUAL_RATES: Final = (
    10_000, 12_000, 12_500, 14_985, 15_000, 20_000, 23_976, 24_000, 25_000, 29_970, 30_000,
    48_000, 50_000, 59_940, 60_000,
)  # fmt: skip
# Less media than this says too little about a new source's frame rate.
_MIN_SPAN: Final = VIDEO_SCALE * 3 // 2
# Apple's authoring specification wants a variant of about 2 Mbit/s first, since players begin with
# the first one over Wi-Fi.
_FIRST_RATE: Final = 2_000_000
_GROUP: Final = "audio"
# The margin of a peak that no encoder of ours bounds. Encoders that hold a constant rate
# vary by less.
_MARGIN: Final = (5, 4)


class RenditionMeasure(msgspec.Struct, frozen=True, kw_only=True):
    """Bit rate and frame rate of a rendition, measured so far.

    `size` in bytes and `ticks` cover the whole run, `peak` is in bit/s. `frames` within `span`
    ticks cover the source `epoch` alone; `rate` is the frame rate to announce for it, in frames per
    1000 s (0 if unknown). `recent` holds size and duration of the newest segments.
    """

    size: int = 0
    ticks: int = 0
    peak: int = 0
    epoch: int = -1
    frames: int = 0
    span: int = 0
    recent: tuple[tuple[int, int], ...] = ()
    rate: int = 0

    @classmethod
    def of_parts(
        cls, sizes: Iterable[tuple[int, int]], rung: Rendition | None = None
    ) -> "RenditionMeasure":
        """Return the measure of a run's first parts: the size and duration of each.

        `rung` is that of an encoder. Its rate counts then, since first parts have a keyframe each
        and are larger than others. The frame rate stays unknown: reordered pictures share the time
        of a frame at a run's beginning.
        """
        size, ticks = (sum(each) for each in zip(*sizes, strict=True))
        encoded = None if rung is None else rung.rate * ticks // (8 * VIDEO_SCALE)
        return cls(size=size if encoded is None else encoded, ticks=ticks)

    @property
    def average(self) -> int:
        """The average bit rate of the run, in bit/s."""
        return _rate(self.size, self.ticks)

    def with_segment(
        self, size: int, duration: int, *, frames: int, epoch: int
    ) -> "RenditionMeasure":
        """Return the measure with one more segment added."""
        same = epoch == self.epoch
        recent: list[tuple[int, int]] = []
        sizes, ticks, peak = 0, 0, self.peak
        for segment_size, length in ((size, duration), *reversed(self.recent)):
            sizes, ticks = sizes + segment_size, ticks + length
            if ticks > _LONGEST:
                break
            recent.insert(0, (segment_size, length))
            if ticks >= _SHORTEST:
                peak = max(peak, _rate(sizes, ticks))
        fresh = RenditionMeasure(
            size=self.size + size,
            ticks=self.ticks + duration,
            peak=peak,
            epoch=epoch,
            frames=frames + (self.frames if same else 0),
            # The frames of a segment that a dead engine left unfinished were not counted.
            span=(duration if frames else 0) + (self.span if same else 0),
            recent=tuple(recent),
        )
        return msgspec.structs.replace(fresh, rate=frame_rate(fresh, self.rate))

    def with_gap(self) -> "RenditionMeasure":
        """Return the measure after a gap, which adds nothing and which no peak spans."""
        return msgspec.structs.replace(self, recent=()) if self.recent else self


def _rate(size: int, ticks: int) -> int:
    return 8 * size * VIDEO_SCALE // ticks if ticks > 0 else 0


def frame_rate(measure: RenditionMeasure, previous: int) -> int:
    """Return the frames per 1000 s to announce; `previous` is the announced rate, or 0.

    A common rate is chosen if the measured one is within the error of millisecond time stamps. Any
    other rate stays as announced until it is off by 1 %.
    """
    if not measure.span or (previous and measure.span < _MIN_SPAN):
        return previous
    measured = measure.frames * VIDEO_SCALE * 1000 // measure.span
    usual = min(_USUAL_RATES, key=lambda rate: abs(rate - measured))
    blur = max(measured * 2 * _STAMP_ERROR // measure.span, measured // 5000)
    if abs(usual - measured) <= blur:
        return usual
    return previous if abs(previous - measured) * 100 <= measured else measured


def build_multivariant(
    run: str,
    renditions: tuple[Rendition, ...],
    measures: Mapping[str, RenditionMeasure],
    codecs: Mapping[str, str],
    previous: MultivariantPlaylist | None,
    gaps: Collection[str] = (),
    bounds: Mapping[str, int] | None = None,
) -> MultivariantPlaylist:
    """Return the multivariant playlist of a run, or `previous` if that is still accurate.

    The variant whose encoder's ceiling is nearest to 2 Mbit/s comes first, then the others from the
    largest down. In a run without video the audio is the only variant; a video without sound has no
    audio rendition, and no measure of one. Renditions that are `gaps` now are left out, so that no
    player begins with one. If all video rungs are gaps, the result is `previous`, which must
    then be given.

    `bounds` holds the peak rates of renditions whose encoders bound them, in bit/s, while the run
    lasts. None: it is over, and the measured peaks are final.
    """
    present = tuple(rung for rung in renditions if rung.name not in gaps)
    if renditions and not present and previous is not None:
        return previous
    sound = measures.get(AUDIO_RENDITION, RenditionMeasure())
    peaks = {name: _peak(name, measure, bounds) for name, measure in measures.items()}
    uri = f"{run}/{AUDIO_RENDITION}/index.m3u8"
    if not renditions:
        alone = Variant(
            uri=uri,
            bandwidth=_rounded(peaks[AUDIO_RENDITION], up=True),
            average=_rounded(sound.average),
            codecs=(codecs[AUDIO_RENDITION],),
        )
        fresh = MultivariantPlaylist(variants=(alone,))
    else:
        first = min(present, key=lambda rung: abs(rung.rate - _FIRST_RATE))
        order = (first, *(rung for rung in present if rung is not first))
        audio = AudioRendition(uri=uri, group=_GROUP, name="Audio", channels=2)
        fresh = MultivariantPlaylist(
            variants=tuple(_variant(run, rung, measures, peaks, codecs) for rung in order),
            sounds=(audio,) if AUDIO_RENDITION in measures else (),
        )
    return previous if previous is not None and _holds(previous, fresh) else fresh


def with_codecs(playlist: MultivariantPlaylist, codecs: Mapping[str, str]) -> MultivariantPlaylist:
    """Return the playlist with new codecs, by rendition; other renditions keep theirs."""
    variants: list[Variant] = []
    for variant in playlist.variants:
        names = (variant.uri.split("/")[-2], AUDIO_RENDITION)
        pairs = zip(names, variant.codecs, strict=False)
        changed = tuple(codecs.get(name, before) for name, before in pairs)
        variants.append(msgspec.structs.replace(variant, codecs=changed))
    return msgspec.structs.replace(playlist, variants=tuple(variants))


def _variant(
    run: str,
    rung: Rendition,
    measures: Mapping[str, RenditionMeasure],
    peaks: Mapping[str, int],
    codecs: Mapping[str, str],
) -> Variant:
    picture = measures[rung.name]
    sound = measures.get(AUDIO_RENDITION, RenditionMeasure())
    average = picture.average + sound.average
    return Variant(
        uri=f"{run}/{rung.name}/index.m3u8",
        # The peaks may coincide for a player, so their sum is the bound.
        bandwidth=_rounded(peaks[rung.name] + peaks.get(AUDIO_RENDITION, 0), up=True),
        average=_rounded(average),
        codecs=tuple(codecs[name] for name in (rung.name, AUDIO_RENDITION) if name in codecs),
        width=rung.width,
        height=rung.height,
        frame_rate=picture.rate,
        audio=_GROUP if AUDIO_RENDITION in measures else None,
    )


def _peak(name: str, measure: RenditionMeasure, bounds: Mapping[str, int] | None) -> int:
    """Return the peak rate to announce of a rendition, in bit/s."""
    measured = max(measure.peak, measure.average)
    if bounds is None:
        return measured
    if name in bounds:
        return max(measured, bounds[name])
    numerator, denominator = _MARGIN
    return measured * numerator // denominator


def _rounded(rate: int, *, up: bool = False) -> int:
    unit = 10 ** max(0, len(str(rate)) - 3)
    return -(-rate // unit) * unit if up else (rate + unit // 2) // unit * unit


def _holds(previous: MultivariantPlaylist, fresh: MultivariantPlaylist) -> bool:
    if previous.sounds != fresh.sounds or len(previous.variants) != len(fresh.variants):
        return False
    return all(_still_holds(*pair) for pair in zip(previous.variants, fresh.variants, strict=True))


def _still_holds(previous: Variant, fresh: Variant) -> bool:
    alike = msgspec.structs.replace(fresh, bandwidth=previous.bandwidth, average=previous.average)
    off = abs((fresh.average or 0) - (previous.average or 0))
    return (
        alike == previous
        and fresh.bandwidth <= previous.bandwidth
        and off * 20 <= (previous.average or 0)
    )
