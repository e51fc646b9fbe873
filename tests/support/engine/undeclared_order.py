"""H.264 without reordering, from an encoder that does not declare that in its VUI."""

# The library leaves the type parameter of its packets open: pyright knows them only partially.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from fractions import Fraction
from typing import Final

from av.codec.context import CodecContext, Flags
from av.video.frame import PictureType

from media.track import VideoCodec, VideoTrack
from tests.support.engine.raw_images import flat
from transcode.engine.codec.decode import TIME_BASE

_SIZE: Final = (1280, 720)
_LAST_FIELDS: Final = 6  # Exp-Golomb numbers at the end of the VUI (14496-10, E.1.1)


def undeclared_order(count: int) -> tuple[VideoTrack, list[bytes]]:
    """Return a track and its packets: P-frames that could, as declared, be B-frames."""
    context = CodecContext.create("libx264", "w")
    context.width, context.height = _SIZE
    context.pix_fmt = "yuv420p"
    context.time_base, context.framerate = TIME_BASE, Fraction(30)
    context.thread_count = 1
    context.flags |= Flags.global_header
    coding = "annexb=0:bframes=1:b-adapt=0:rc-lookahead=0:scenecut=0"
    context.options = {"preset": "ultrafast", "profile": "high", "x264-params": coding}
    packets: list[bytes] = []
    for number in range(count):
        frame = flat(60 + number, size=_SIZE)
        frame.pts, frame.time_base = number * 3_000, TIME_BASE
        frame.pict_type = PictureType.P if number else PictureType.I
        packets += [bytes(packet) for packet in context.encode(frame)]
    packets += [bytes(packet) for packet in context.encode(None)]
    config = _without_restrictions(context.extradata or b"")
    track = VideoTrack(codec=VideoCodec.AVC, config=config, width=_SIZE[0], height=_SIZE[1])
    return track, packets


def _without_restrictions(config: bytes) -> bytes:
    """Return an avcC record without the end of its VUI, which limits the reordering."""
    size = int.from_bytes(config[6:8], "big")
    raw = config[8 : 8 + size].replace(b"\0\0\3", b"\0\0")
    bits = "".join(f"{byte:08b}" for byte in raw).rstrip("0")[:-1]
    # The flag before them, and one that follows it, precede the last fields.
    offset = next(
        index
        for index in range(len(bits) - _LAST_FIELDS - 2, 0, -1)
        if bits[index] == "1" and _numbers(bits[index + 2 :]) == _LAST_FIELDS
    )
    shortened = bits[:offset] + "01"
    shortened += "0" * (-len(shortened) % 8)
    unit = bytearray()
    for byte in int(shortened, 2).to_bytes(len(shortened) // 8, "big"):
        if unit.endswith(b"\0\0") and byte <= 3:
            unit.append(3)
        unit.append(byte)
    return config[:6] + len(unit).to_bytes(2, "big") + bytes(unit) + config[8 + size :]


def _numbers(bits: str) -> int:
    """Count the Exp-Golomb numbers in the bits; -1 if they end within one."""
    offset = count = 0
    while offset < len(bits):
        marker = bits.find("1", offset)
        if marker < 0:
            return -1
        offset += 2 * (marker - offset) + 1
        count += 1
    return count if offset == len(bits) else -1
