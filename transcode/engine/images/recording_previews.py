"""Previews of a recording: thumbnails of keyframes that the parent reads from its segments.

Each `Keyframe` is a small fragmented MP4 of its own, so it does not matter in which epoch it was
made, nor by which encoder.
"""

import io
import os
import time
from collections.abc import Iterator
from typing import Final

from transcode.engine.images.preview_sheets import Thumbnails
from transcode.engine.input.container import BadUpload, open_media, pixel_aspect, video_stream
from transcode.engine.input.demux import demux
from transcode.engine.input.whole_picture import decode_whole
from transcode.protocol.file_messages import Keyframe, PreviewOrder
from transcode.protocol.messages import Previews, WireReader

__all__ = ["make_previews"]

_READ_BYTES: Final = 1 << 18
# As for posters: the sandbox ends an engine at 60 s of CPU. 400 keyframes of 360p take 3 s, of
# 1080p 9 s; a source in 2160p without a smaller rendition may reach the limit.
_CPU_SECONDS: Final = 30.0


def make_previews(
    descriptor: int, order: PreviewOrder, *, cpu_seconds: float = _CPU_SECONDS
) -> Iterator[Previews]:
    """Yield the previews of the keyframes that a pipe brings, if there are two or more.

    Keyframes that come after `cpu_seconds` are left out, and those that cannot be decoded.

    Raises:
        WireError: the input is no sequence of keyframes.
    """
    begun = time.process_time()
    reader: WireReader[Keyframe] = WireReader(Keyframe)
    thumbnails = Thumbnails(order.width, order.height)
    while data := os.read(descriptor, _READ_BYTES):
        for keyframe in reader.feed(data):
            if time.process_time() - begun <= cpu_seconds:
                _add(thumbnails, keyframe)
    previews = thumbnails.previews()
    if previews is not None:
        yield previews


def _add(thumbnails: Thumbnails, keyframe: Keyframe) -> None:
    try:
        with open_media(io.BytesIO(keyframe.data)) as media:
            picture = video_stream(media)
            packet = None if picture is None else next(demux(media, [picture]), None)
            if picture is None or packet is None:
                return
            picture.codec_context.thread_count = 1
            # A decoder holds a picture back until it knows which one is shown before it.
            frame = decode_whole(picture, packet) or decode_whole(picture, None)
            if frame is not None:
                thumbnails.add(keyframe.at, frame, pixel_aspect(picture))
    except (BadUpload, MemoryError):
        return  # the others may be well
