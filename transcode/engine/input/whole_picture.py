"""The first picture of a file that is whole.

A decoder makes some picture even of noise, of what is encrypted, or of what refers to pictures that
are missing; it marks such a picture as damaged.
"""

# The library leaves the type parameter of its packets open, so pyright knows them in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from itertools import islice
from typing import Final

from av.error import FFmpegError
from av.packet import Packet
from av.stream import Stream
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from transcode.engine.codec.decode import MOST_PIXELS
from transcode.engine.input.container import Upload
from transcode.engine.input.demux import demux

# The first packets should give a picture; some files begin in the middle of a long group.
_MOST_PACKETS: Final = 1_000


def first_whole_picture(upload: Upload, picture: VideoStream) -> VideoFrame | None:
    """Return the first whole picture from here on; None if the next 1 000 packets have none.

    Raises:
        BadUpload: the pictures are encrypted.
        MemoryError: a picture needs more memory than there is.
    """
    for packet in islice(demux(upload, [picture]), _MOST_PACKETS):
        frame = decode_whole(picture, packet)
        if frame is not None:
            return frame
    return decode_whole(picture, None)


def decode_whole(picture: VideoStream, packet: "Packet[Stream] | None") -> VideoFrame | None:
    """Decode a packet (None: flush the decoder); return the first picture of it that is whole."""
    try:
        frames = picture.codec_context.decode(packet)
    except FFmpegError:
        return None  # the next packet may be good
    for frame in frames:
        if not frame.is_corrupt and 0 < frame.width * frame.height <= MOST_PIXELS:
            return frame
    return None
