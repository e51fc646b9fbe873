"""How much of a source may be decoded without being shown, so that it begins between keyframes.

Pure. Decoding begins with a keyframe, so the pictures from there to the first one that is shown
have to be decoded, while viewers wait.
"""

from typing import Final

from media.track import VideoTrack

# Viewers at low latency have 1.7 s of media, of which noticing a stall takes 0.7 s. Decoding this
# many on one thread takes 0.7 to 1.0 s (measured at 6 Mbit/s): a GOP of 8.3 s at 1080p30.
_MOST_PIXELS: Final = 250 * 1920 * 1080


def leads_up_soon(track: VideoTrack, pictures: int) -> bool:
    """Return whether so many pictures of a track are decoded soon enough to lead up to others."""
    return pictures * track.width * track.height <= _MOST_PIXELS
