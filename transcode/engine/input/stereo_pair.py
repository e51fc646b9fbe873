"""Two tracks of one channel each that are the left and the right of one sound, as cameras write it.

Which tracks are, and how their packets become stereo: what is heard together comes out together, by
the times of both, and where one of them has nothing, its side is silent. Positions are samples.
"""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from av.audio.frame import AudioFrame
from av.audio.resampler import AudioResampler
from av.audio.stream import AudioStream
from av.error import FFmpegError
from av.stream import Disposition

from media.ticks import VIDEO_SCALE, rescale
from transcode.engine.codec.decode import (
    SAMPLE_BYTES,
    TIME_BASE,
    AudioDecoder,
    PacketData,
    stereo_frame,
)

# The library's names of a single channel's position, and what makes a layout of them.
ONE_SIDE: Final = {"1 channels (FL)": "FL", "1 channels (FR)": "FR"}
_SIDES: Final = {"FL": 0, "L": 0, "LEFT": 0, "FR": 1, "R": 1, "RIGHT": 1}
_WORD: Final = re.compile(r"[^\W\d_]+")
_UNSTATED: Final = ("und", "")
# How far one track may be ahead of the other in the file: 2 MB of sound. Cameras interleave them.
_MOST_AHEAD: Final = 10  # seconds
# Some timestamps are rounded to whole milliseconds; an error of more than a 25th of a second is a
# hole or an overlap.
_SLACKS: Final = 25  # a second


# -- which tracks ---------------------------------------------------------------------------------


def left_and_right(
    sounds: Sequence[AudioStream], chosen: AudioStream
) -> tuple[AudioStream, AudioStream] | None:
    """Return the left and the right track if all of a file's tracks have one channel, or None.

    They are the one that is chosen and the one after it, in the order of the file unless they are
    named; a track that is named left looks for one named right. Tracks that differ in language,
    purpose, title, codec or rate are alternatives.
    """
    if any(each.codec_context.channels != 1 for each in sounds):
        return None
    side = _side(chosen)
    others = sounds[sounds.index(chosen) + 1 :]
    opposite = [each for each in others if side is not None and _side(each) == 1 - side]
    other = next(iter([*opposite, *others]), None)
    if other is None or not _are_alike(chosen, other):
        return None
    sides = (side, _side(other))
    if None in sides and sides != (None, None):
        return None  # a centre beside a left, say
    return (other, chosen) if sides == (1, 0) else (chosen, other)


def _are_alike(one: AudioStream, other: AudioStream) -> bool:
    languages = {each.language for each in (one, other)} - {None, *_UNSTATED}
    is_timed = (one.codec_context.sample_rate or 0) > 0  # 0: the file does not say
    return is_timed and len(languages) < 2 and _nature(one) == _nature(other)


def _nature(sound: AudioStream) -> tuple[object, ...]:
    """Return what two tracks have in common if they are parts of one sound."""
    context = sound.codec_context
    title = [word for word in _words(sound) if word not in _SIDES]
    purpose = sound.disposition & ~Disposition.default
    return context.name, context.sample_rate, int(purpose), title


def _side(sound: AudioStream) -> int | None:
    """Return 0 if a track is named left, 1 if right, by its channel or else by its title."""
    position = ONE_SIDE.get(sound.codec_context.layout.name)
    names = [position] if position is not None else _words(sound)
    sides = {_SIDES[name] for name in names if name in _SIDES}
    return sides.pop() if len(sides) == 1 else None


def _words(sound: AudioStream) -> list[str]:
    """Return the words of a track's title, without numbers."""
    title = sound.metadata.get("title") or sound.metadata.get("handler_name") or ""
    return [word.upper() for word in _WORD.findall(title)]


# -- from two tracks to one -----------------------------------------------------------------------


class Joined(NamedTuple):
    """Samples of both sides, from a position on."""

    begin: int
    left: bytes
    right: bytes


class _Side:
    """The samples of one side that wait for the other; `end` is None before the first."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, memoryview]] = deque()
        self.end: int | None = None

    @property
    def begin(self) -> int | None:
        """Where the samples that wait begin."""
        return self._waiting[0][0] if self._waiting else None

    def add(self, at: int, data: bytes, *, done: int | None, slack: int) -> None:
        """Add samples; what is before the end, or before what is `done`, comes too late."""
        if self.end is not None and abs(at - self.end) <= slack:
            at = self.end
        begin = max(each for each in (at, self.end, done) if each is not None)
        samples = memoryview(data)[(begin - at) * SAMPLE_BYTES :]
        if samples:
            self._waiting.append((begin, samples))
            self.end = begin + len(samples) // SAMPLE_BYTES

    def next_change(self, begin: int) -> int | None:
        """Return where, after a position, samples begin or end first; None if none wait."""
        if not self._waiting:
            return None
        at, samples = self._waiting[0]
        return at if at > begin else at + len(samples) // SAMPLE_BYTES

    def take(self, begin: int, end: int) -> bytes:
        """Take the samples from `begin` to `end`, between which there is no change."""
        if not self._waiting or self._waiting[0][0] > begin:
            return bytes((end - begin) * SAMPLE_BYTES)
        _, samples = self._waiting.popleft()
        size = (end - begin) * SAMPLE_BYTES
        if len(samples) > size:
            self._waiting.appendleft((end, samples[size:]))
        return bytes(samples[:size])


class PairJoiner:
    """Joins the samples of two sides by their positions; neither waits for more than `most`.

    A side that never has a sample gets those of the other.
    """

    def __init__(self, *, most: int, slack: int) -> None:
        self._sides = (_Side(), _Side())
        self._most = most
        self._slack = slack
        self._done: int | None = None

    def add(self, side: int, at: int, data: bytes) -> None:
        """Add samples of a side, of four bytes each; the position may be off by the slack."""
        self._sides[side].add(at, data, done=self._done, slack=self._slack)

    def take(self, *, all_of_them: bool = False) -> list[Joined]:
        """Return what both sides have, or all that is left."""
        ends = [side.end for side in self._sides if side.end is not None]
        if not ends:
            return []
        ready = max(ends) - (0 if all_of_them else self._most)
        if len(ends) == len(self._sides):
            ready = max(ready, min(ends))
        joined: list[Joined] = []
        while (begin := self._begin(ready)) is not None:
            changes = [side.next_change(begin) for side in self._sides]
            end = min(each for each in (*changes, ready) if each is not None)
            left, right = (side.take(begin, end) for side in self._sides)
            unheard = [side.end is None for side in self._sides]
            joined.append(
                Joined(begin, right if unheard[0] else left, left if unheard[1] else right)
            )
            self._done = end
        return joined

    def _begin(self, ready: int) -> int | None:
        begins = [side.begin for side in self._sides if side.begin is not None]
        return min((begin for begin in begins if begin < ready), default=None)


class PairDecoder:
    """Decodes the packets of two tracks into stereo; `decoders` are by track, the left one first.

    An `AudioDecoder` (see `transcode.engine.codec.decode`) for packets that know their track.
    """

    def __init__(self, decoders: Mapping[int, AudioDecoder], rate: int) -> None:
        self._decoders = decoders
        self._sides = {track: side for side, track in enumerate(decoders)}
        self._rate = rate
        self._mono: dict[int, tuple[object, AudioResampler]] = {}  # by track
        self._joiner = PairJoiner(most=_MOST_AHEAD * rate, slack=rate // _SLACKS)

    def decode(self, data: bytes, pts: int | None) -> list[AudioFrame]:
        """Decode one packet."""
        if not isinstance(data, PacketData):
            raise TypeError("a packet without its track")
        track = data.packet.stream_index
        self._add(track, self._decoders[track].decode(data, pts))
        return self._frames()

    def drain(self) -> list[AudioFrame]:
        """Return the frames that the decoders still hold."""
        for track, decoder in self._decoders.items():
            with suppress(FFmpegError):  # the other one's are good
                self._add(track, decoder.drain())
        return self._frames(all_of_them=True)

    def _add(self, track: int, frames: list[AudioFrame]) -> None:
        for frame in frames:
            if frame.pts is None:
                continue
            at = rescale(frame.pts, VIDEO_SCALE, self._rate)
            samples = self._resampler(track, frame).resample(frame)
            data = b"".join(
                bytes(each.planes[0])[: each.samples * SAMPLE_BYTES] for each in samples
            )
            self._joiner.add(self._sides[track], at, data)

    def _resampler(self, track: int, frame: AudioFrame) -> AudioResampler:
        """Return what makes samples of one form of frames, whose own may change."""
        form = (frame.format.name, frame.layout.name, frame.sample_rate)
        known = self._mono.get(track)
        if known is None or known[0] != form:
            known = (form, AudioResampler(format="fltp", layout="mono", rate=self._rate))
            self._mono[track] = known
        return known[1]

    def _frames(self, *, all_of_them: bool = False) -> list[AudioFrame]:
        frames: list[AudioFrame] = []
        for begin, left, right in self._joiner.take(all_of_them=all_of_them):
            frame = stereo_frame(len(left) // SAMPLE_BYTES, (left, right), self._rate)
            frame.pts, frame.time_base = rescale(begin, self._rate, VIDEO_SCALE), TIME_BASE
            frames.append(frame)
        return frames
