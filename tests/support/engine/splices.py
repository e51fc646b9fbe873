"""Spliced sources of one run, and checks of their output."""

import itertools
from pathlib import Path

import msgspec

from media.hls.segment import Segment
from media.ladder import AUDIO_RENDITION, Ladder, ladder_for
from tests.support.engine.decoded_output import frames, packets, warnings
from tests.support.engine.engine_process import AAC_FRAME, LABELS, EngineOutput, begin
from tests.support.engine.sources import Source, moving, source_of
from transcode.protocol.messages import EngineOrder, Finish, Prepared

SECOND = 90_000
SHIFT = 1_000_000  # another encoder's clock, in ms
MOST_GAP = SECOND // 10
SIZE = (320, 80)
# Two rungs of a source that is low enough for many tests, with 0.2 bits for each pixel.
TOP = msgspec.structs.replace(ladder_for(*SIZE, LABELS).renditions[0], rate=6 * SIZE[0] * SIZE[1])
LADDER = Ladder(
    (TOP, msgspec.structs.replace(TOP, name="144p", width=256, height=64, source_size=False))
)


def source_to_splice(folder: Path) -> Source:
    """Return 6 s of 320x80 with a keyframe every second and two B-frames between others."""
    return source_of(moving(folder / "splice.flv", seconds=6, gop=30, size=SIZE))


def up_to(source: Source, end: int) -> Source:
    """Return the packets of a source that was cut off `end` ms after its beginning."""
    packets = tuple(packet for packet in source.packets if packet.dts < end)
    return msgspec.structs.replace(source, packets=packets)


def since(source: Source, start: int, shift: int = SHIFT, lead: int = 500) -> Source:
    """Return a backup's buffer: all packets from a keyframe, with the sound shortly before it."""
    key = min(each.pts for each in source.pictures if each.key and each.pts >= start)
    first = next(n for n, each in enumerate(source.packets) if each.video and each.pts == key)
    buffered = [
        packet
        for n, packet in enumerate(source.packets)
        if n >= first or (not packet.video and packet.pts >= key - lead)
    ]
    moved = tuple(
        msgspec.structs.replace(packet, dts=packet.dts + shift, pts=packet.pts + shift)
        for packet in buffered
    )
    return msgspec.structs.replace(source, packets=moved)


def ladder_of(source: Source) -> Ladder | None:
    """Return the ladder for the standard source; None: the default for its size."""
    video = source.video
    return LADDER if video is not None and (video.width, video.height) == SIZE else None


def spliced(*sources: Source, reuse: bool = True) -> list[EngineOrder]:
    """Return the orders of a run that splices sources."""
    orders: list[EngineOrder] = []
    for number, each in enumerate(sources):
        order = begin(each, ladder=ladder_of(each), epoch=number, reuse=reuse)
        orders += [msgspec.structs.replace(order, splice=number > 0), *each.packets]
    return [*orders, Finish()]


def is_whole(output: EngineOutput) -> bool:
    """Return whether it is one epoch without discontinuities that decodes without errors."""
    assert (output.status, output.complaints, output.troubles) == (0, "", {})
    assert len(output.of(Prepared)) == 1
    assert {segment.epoch for segment in output.of(Segment)} == {0}
    assert not any(segment.discontinuity for segment in output.of(Segment))
    assert output.in_step()
    assert all(len(output.inits(name)) == 1 for name in output.names)
    assert warnings(output) == {}
    return True


def pictures_of(output: EngineOutput) -> list[str]:
    return [name for name in output.names if name != AUDIO_RENDITION]


def shown(output: EngineOutput, name: str) -> list[int]:
    """Return the times of a rendition's pictures, checking that they increase without gaps."""
    (file,) = output.files(name)
    times = [pts for pts, _, _ in frames(file)]
    steps = [after - before for before, after in itertools.pairwise(times)]
    assert all(0 < step <= MOST_GAP for step in steps), max(steps)
    return times


def sound_is_gapless(output: EngineOutput) -> bool:
    """Return whether the audio is sample-contiguous and ends with the picture."""
    (file,) = output.files(AUDIO_RENDITION)
    times = [pts for _, pts, _ in packets(file)]
    assert {after - before for before, after in itertools.pairwise(times)} == {1024}
    last = output.segments(AUDIO_RENDITION)[-1]
    picture = output.segments(pictures_of(output)[0])[-1]
    end = picture.start + picture.duration
    assert abs(last.start + last.duration - end) <= AAC_FRAME
    return True
