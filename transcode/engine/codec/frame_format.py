"""The format of a decoded frame, and the filters that convert it to the common one.

The common format is upright, 8 bits, 4:2:0, limited range, with BT.709's colours if the source has
wider or brighter ones. BT.601 stays BT.601, tagged as such. Untagged pictures above 576 lines are
BT.709, as players assume; they are tagged so, because players would assume BT.601 for their smaller
renditions. PQ, HLG and BT.2020 go through a lookup table (made by `scripts/cubes.py`): the scale
filter could convert them too, but takes 1.6 s of CPU to start and twice the time for each frame.
"""

import struct
from fractions import Fraction
from pathlib import Path
from typing import Final

import msgspec
from av.video.frame import VideoFrame

Filter = tuple[str, dict[str, str]]
"""A filter's name and its options."""

# Numbers of ISO/IEC 23091-2, which FFmpeg uses.
_BT709, _UNKNOWN, _BT2020, _BT2020_CONSTANT = 1, 2, 9, 10
_PQ, _HLG = 16, 18
_FULL_RANGE: Final = 2  # AVCOL_RANGE_JPEG
_MOST_LINES_OF_601: Final = 576
_CUBES: Final = Path(__file__).parent
_MATRIX: Final = struct.Struct("=9i")
_MATRIX_ONE: Final = 1 << 16
# From (a, b, c, d) of a display matrix, which takes x to ax + cy and y to bx + dy, downwards.
_ROTATIONS: Final[dict[tuple[int, int, int, int], tuple[str, ...]]] = {
    (-1, 0, 0, 1): ("hflip",),
    (1, 0, 0, -1): ("vflip",),
    (-1, 0, 0, -1): ("hflip", "vflip"),
    (0, 1, 1, 0): ("transpose=cclock_flip",),
    (0, 1, -1, 0): ("transpose=clock",),
    (0, -1, 1, 0): ("transpose=cclock",),
    (0, -1, -1, 0): ("transpose=clock_flip",),
}
_ALL_709: Final = {"colorspace": "bt709", "color_primaries": "bt709", "color_trc": "bt709"}


class FrameFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a frame that the filters depend on; `aspect` is a pixel's width by its
    height.

    `matrix`, `primaries` and `transfer` are numbers of ISO/IEC 23091-2, `range` is FFmpeg's;
    `rotation` names the filters that turn the picture upright, in order.
    """

    width: int
    height: int
    pixel_format: str
    aspect: Fraction
    matrix: int
    primaries: int
    transfer: int
    range: int
    rotation: tuple[str, ...]

    @property
    def upright(self) -> tuple[int, int, Fraction]:
        """Width, height and aspect of the upright picture."""
        if any(name.startswith("transpose") for name in self.rotation):
            return self.height, self.width, 1 / self.aspect
        return self.width, self.height, self.aspect

    @property
    def rotation_filters(self) -> list[Filter]:
        """The filters that turn the picture upright."""
        pairs = [name.partition("=") for name in self.rotation]
        return [(name, {"dir": value} if value else {}) for name, _, value in pairs]

    def scaling_filters(self, size: tuple[int, int], flags: dict[str, str]) -> list[Filter]:
        """Return the filters that bring the upright picture to `size` and the common format."""
        scale = {"w": str(size[0]), "h": str(size[1]), **flags}
        cube = self._cube()
        if cube is not None:
            if self.matrix not in (_BT2020, _BT2020_CONSTANT):
                scale["in_color_matrix"] = "bt2020"
            # lut3d has vector code for 16 bits and none for 8 and 10: twice as fast.
            return [
                ("scale", scale),
                ("format", {"pix_fmts": "gbrp16le"}),
                ("lut3d", {"file": str(_CUBES / f"{cube}.cube"), "interp": "tetrahedral"}),
                ("scale", {"out_color_matrix": "bt709", "out_range": "tv"}),
                ("format", {"pix_fmts": "yuv420p"}),
                ("setparams", {**_ALL_709, "range": "tv"}),
            ]
        if self._is_rgb():
            scale |= {"out_color_matrix": "bt709", "out_range": "tv"}
            tags = {**_ALL_709, "range": "tv"}
        else:
            if self.range == _FULL_RANGE or self.pixel_format.startswith("yuvj"):
                scale["out_range"] = "tv"
            tags = self._tags()
        chain = [("scale", scale), ("format", {"pix_fmts": "yuv420p"})]
        return [*chain, ("setparams", tags)] if tags else chain

    def _cube(self) -> str | None:
        """Return the name of the colour lookup table, if one is needed."""
        if self.transfer in (_PQ, _HLG):
            return "pq" if self.transfer == _PQ else "hlg"
        is_implied = self.primaries == _UNKNOWN and self.matrix in (_BT2020, _BT2020_CONSTANT)
        return "wide" if self.primaries == _BT2020 or is_implied else None

    def _is_rgb(self) -> bool:
        return self.pixel_format.startswith(
            ("gbr", "rgb", "bgr", "pal8", "argb", "abgr", "0rgb", "0bgr")
        )

    def _tags(self) -> dict[str, str]:
        lines = min(self.width, self.height)
        if lines <= _MOST_LINES_OF_601 or self.matrix not in (_BT709, _UNKNOWN):
            return {}
        values = (self.matrix, self.primaries, self.transfer)
        tagged = zip(_ALL_709.items(), values, strict=True)
        return {name: tag for (name, tag), value in tagged if value == _UNKNOWN}


def frame_format(frame: VideoFrame, aspect: Fraction, turn: tuple[str, ...]) -> FrameFormat:
    """Return a frame's format; `aspect` is its pixels', `turn` the result of `rotation_of`."""
    return FrameFormat(
        width=frame.width,
        height=frame.height,
        pixel_format=frame.format.name,
        aspect=aspect,
        matrix=int(frame.colorspace),
        primaries=int(frame.color_primaries),
        transfer=int(frame.color_trc),
        range=int(frame.color_range),
        rotation=turn,
    )


def rotation_of(frame: VideoFrame) -> tuple[str, ...]:
    """Return the filters that turn a keyframe upright, if right angles and flips can do so.

    Only keyframes carry the rotation (H.264 and HEVC: the display orientation SEI); it holds until
    the next keyframe.
    """
    if not frame.rotation:  # costs nothing, and a mirror counts as half a turn
        return ()
    try:
        # PyAV's stub knows one kind of side data only.
        matrix = bytes(frame.side_data["DISPLAYMATRIX"])  # pyright: ignore[reportGeneralTypeIssues, reportUnknownArgumentType]
    except (KeyError, ValueError):  # the library does not know all kinds of side data
        return ()
    a, b, _, c, d, *_ = _MATRIX.unpack(matrix[: _MATRIX.size])
    rounded = (round(a / _MATRIX_ONE), round(b / _MATRIX_ONE))
    return _ROTATIONS.get((*rounded, round(c / _MATRIX_ONE), round(d / _MATRIX_ONE)), ())
