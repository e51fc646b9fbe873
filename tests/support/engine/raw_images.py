"""Pictures that were never coded."""

from av.video.frame import VideoFrame


def flat(level: int, *, stripes: int = 0, size: tuple[int, int] = (128, 72)) -> VideoFrame:
    """Return a grey picture with stripes that are lighter by `stripes`."""
    frame = VideoFrame(*size, "yuv420p")
    rows = b"".join(
        bytes([level + (stripes if row % 16 < 8 else 0)]) * frame.planes[0].line_size
        for row in range(size[1])
    )
    frame.planes[0].update(rows)
    for plane in frame.planes[1:]:
        plane.update(b"\x80" * plane.buffer_size)
    return frame
