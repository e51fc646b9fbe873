"""Where a source begins that continues a run of another process.

Pure. That process has stored where the programme is in its media, and by what the clocks of the
encoders are known again that it knew to be apart by so much. So viewers get every picture once,
whichever of these encoders the source is, although all else of that process is gone.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from media.source_mark import ProgrammePlace
from media.ticks import VIDEO_SCALE, rescale
from media.track import AudioTrack, VideoTrack
from transcode.protocol.messages import Packet

# An encoder that is behind comes to that moment within this time, or is shown from an earlier one:
# what viewers at normal latency have.
_MOST_WAIT_SECONDS: Final = 3
# Half a picture at 60 a second.
_TOLERANCE: Final = VIDEO_SCALE // 120


class Resumption(msgspec.Struct, frozen=True, kw_only=True):
    """What is left out of a source's first packets, and the `pts` that it is shown from.

    That is None if it is the first keyframe that is left.
    """

    dropped: Sequence[Packet]
    show_from: int | None


def resume(
    packets: Sequence[Packet],
    video: VideoTrack,
    audio: AudioTrack | None,
    place: ProgrammePlace,
    end: int,
) -> Resumption | None:
    """Return where a source begins that continues media which end at `end` on the output clock.

    None if its clock is not known, or its packets begin too late.
    """
    pictures = [packet for packet in packets if packet.video]
    moment = _moment(pictures, video, place, end)
    if moment is None:
        return None
    newest = max(packet.pts for packet in pictures)
    moment = min(moment, newest + _MOST_WAIT_SECONDS * video.scale)
    since = moment - rescale(_TOLERANCE, VIDEO_SCALE, video.scale)
    keyframes = [each for each in pictures if each.key and each.pts <= moment]
    if not keyframes:
        return None
    keyframe = keyframes[-1]
    sound_scale = video.scale if audio is None else audio.scale
    before = packets[: packets.index(keyframe)]
    dropped = [
        each
        for each in before
        # Sound may come before the picture that it belongs to.
        if each.video or rescale(each.pts, sound_scale, video.scale) < keyframe.dts
    ]
    return Resumption(dropped=dropped, show_from=_first_shown(pictures, keyframe, since))


def _first_shown(pictures: Sequence[Packet], keyframe: Packet, since: int) -> int | None:
    if keyframe.pts >= since:
        return None
    first = min((each.pts for each in pictures if each.pts >= since), default=since)
    # Otherwise one that is shown before it may still come.
    return first if any(each.dts >= first for each in pictures) else since


def _moment(
    pictures: Sequence[Packet], video: VideoTrack, place: ProgrammePlace, end: int
) -> int | None:
    """Return the time by the clock of a source at which media end; None if it is not known."""
    keyframes = [packet for packet in pictures if packet.key]
    for mark in place.marks:
        if any(mark.is_of(each.pts, video.scale, each.data) for each in keyframes):
            return rescale(end - place.offset + mark.apart, VIDEO_SCALE, video.scale)
    return None
