import pytest

from media.packet import PACKET_OVERHEAD
from media.track import AudioCodec, AudioTrack, VideoCodec, VideoTrack
from transcode.live.recent_packets import RECENT_BYTES, RecentPackets
from transcode.protocol.messages import Packet

AUDIO = AudioTrack(codec=AudioCodec.AAC, config=b"d", rate=48_000, channels=2)
OTHER = AudioTrack(codec=AudioCodec.AAC, config=b"e", rate=48_000, channels=2)
MIB = 1 << 20


def video(width: int = 1920, height: int = 1080) -> VideoTrack:
    return VideoTrack(codec=VideoCodec.AVC, config=b"a", width=width, height=height)


def recent(track: VideoTrack | None = None) -> RecentPackets:
    packets = RecentPackets()
    packets.begin(track or video(), AUDIO)
    return packets


def picture(at: int, *, key: bool = False, reorder: int = 0, size: int = 1) -> Packet:
    return Packet(video=True, dts=at, pts=at + reorder, key=key, data=bytes(size))


def sound(at: int) -> Packet:
    return Packet(video=False, dts=at, pts=at, key=True, data=b"s")


def fill(packets: RecentPackets, seconds: int, *, rate: int = 30, gop: int = 10) -> None:
    for number in range(seconds * rate):
        at = round(number * 1000 / rate)
        packets.add(picture(at, key=number % (gop * rate) == 0), at / 1000)


def test_the_present_group_of_pictures_leads_up_to_a_beginning() -> None:
    packets = recent()
    packets.add(picture(0), 0.0)
    assert packets.preroll() == (), "no keyframe yet"
    for at in (0, 1000, 2000, 3000):
        packets.add(picture(at, key=at in (0, 2000)), at / 1000)
        packets.add(sound(at), at / 1000)
    assert packets.preroll() == (
        *(picture(2000, key=True), sound(2000)),
        *(picture(3000), sound(3000)),
    )
    packets.change_sound(AUDIO)
    assert len(packets.preroll()) == 4
    packets.change_sound(OTHER)
    assert packets.preroll() == (picture(2000, key=True), picture(3000))
    packets.begin(video(), AUDIO)
    assert packets.preroll() == ()


def test_a_group_that_is_too_large_leads_up_to_nothing() -> None:
    packets = recent()
    packets.add(picture(0, key=True, size=MIB), 0.0)
    for _ in range(RECENT_BYTES // (MIB + PACKET_OVERHEAD) - 1):
        packets.add(picture(1, size=MIB), 0.0)
    assert packets.preroll()
    packets.add(picture(2, size=MIB), 0.0)
    assert packets.preroll() == ()
    packets.add(picture(3), 0.0)
    assert packets.preroll() == ()
    packets.add(picture(4, key=True), 0.0)
    assert len(packets.preroll()) == 1


@pytest.mark.parametrize(
    ("size", "rate", "seconds", "is_decoded"),
    [
        pytest.param((1920, 1080), 30, 9, True, id="1080p30: 1.4 s of work"),
        pytest.param((1920, 1080), 60, 5, True, id="1080p60: 1.5 s of work"),
        pytest.param((3840, 2160), 60, 4, True, id="2160p60: 4.8 s of work, a keyframe in 6 s"),
        pytest.param((3840, 2160), 60, 6, False, id="2160p60: 7.2 s of work, a keyframe in 4 s"),
    ],
)
def test_what_takes_longer_to_decode_than_the_next_keyframe_to_come_is_left_out(
    size: tuple[int, int], rate: int, seconds: int, is_decoded: bool
) -> None:
    packets = recent(video(*size))
    fill(packets, seconds, rate=rate)
    assert bool(packets.preroll()) is is_decoded


def test_what_was_not_published_comes_after_what_leads_up_to_it() -> None:
    packets = recent()
    # Decoded in the order 0, 3, 1, 2, 6, 4, 5.
    for index, shown in enumerate((0, 3, 1, 2, 6, 4, 5)):
        packets.add(picture(index, key=index == 0, reorder=shown - index), float(index))
    preroll, sent = packets.split(2 * 90, arrived_since=0.0)
    assert [each.pts for each in preroll] == [0]
    assert [each.packet.pts for each in sent] == [3, 1, 2, 6, 4, 5], "nothing goes missing"
    preroll, sent = packets.split(None, arrived_since=4.0)
    assert [each.pts for each in preroll] == [0, 3, 1, 2]
    assert [each.packet.pts for each in sent] == [6, 4, 5]
    packets.hide()
    packets.add(picture(7), 7.0)
    preroll, sent = packets.split(None, arrived_since=0.0)
    assert (len(preroll), [each.packet.pts for each in sent]) == (7, [7])


def test_groups_are_kept_until_they_are_surely_published() -> None:
    packets = recent()
    fill(packets, 20, gop=2)
    preroll, sent = packets.split(15_000 * 90, arrived_since=0.0)
    assert (preroll[0].dts, sent[0].packet.dts) == (14_000, 15_000)
    _, sent = packets.split(0, arrived_since=0.0)
    assert 10_000 <= sent[0].packet.dts <= 14_000


def test_without_a_preroll_only_a_keyframe_can_follow() -> None:
    packets = recent(video(7680, 4320))
    fill(packets, 5, gop=4)
    preroll, sent = packets.split(3_500 * 90, arrived_since=0.0)
    assert preroll == ()
    assert (sent[0].packet.dts, sent[0].packet.key) == (4_000, True)


def test_sound_alone_can_follow_anywhere() -> None:
    packets = RecentPackets()
    packets.begin(None, AUDIO)
    for at in range(0, 20_000, 20):
        packets.add(sound(at), at / 1000)
    preroll, sent = packets.split(18_000 * 90, arrived_since=0.0)
    assert (preroll, sent[0].packet.dts) == ((), 18_000)
    assert len(packets.split(None, arrived_since=0.0)[1]) < 20 * 50, "bounded"
