"""Reads the test pattern: when its picture flashes and when its sound beeps."""

from collections.abc import Iterable

from av import AudioFrame, VideoFrame


def flashes(pictures: Iterable[VideoFrame]) -> list[float]:
    """Return the times (seconds) at which the clock's band turns bright."""
    times: list[float] = []
    was_bright = True  # the start of a flash in the first picture is unknown
    for picture in pictures:
        plane = picture.planes[0]
        rows = slice(
            plane.line_size * (plane.height // 2), plane.line_size * (plane.height * 13 // 18)
        )
        data = bytes(plane)[rows]
        bright = sum(data) / len(data) > 110
        if bright and not was_bright:
            times.append(float(picture.time or 0))
        was_bright = bright
    return times


def beeps(sounds: Iterable[AudioFrame]) -> list[float]:
    """Return the times (seconds) at which a loud tone begins."""
    times: list[float] = []
    last = -1.0
    for sound in sounds:
        start = float(sound.time or 0)
        for index, level in enumerate(memoryview(bytes(sound.planes[0])).cast("f").tolist()):
            if abs(level) > 0.15:
                at = start + index / sound.sample_rate
                if at - last > 0.5:
                    times.append(at)
                last = at
    return times
