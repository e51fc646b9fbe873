"""A source's newest pictures: what is kept, and what of it is decoded."""

import msgspec

from media.ticks import VIDEO_SCALE
from tests.support.engine.shown_pictures import FPS, CodedPictures, scenes
from transcode.engine.watch.picture_source import PictureSource
from transcode.protocol.watch_messages import WatchedPicture

CODED = CodedPictures(scenes(12, seed=5))
SECOND = VIDEO_SCALE


def source() -> PictureSource:
    made = PictureSource(CODED.track)
    made.add(CODED.packets)
    return made


def test_decoding_begins_at_the_keyframe_before_and_goes_on() -> None:
    made = source()
    assert not made.is_followed
    assert made.follow(9 * SECOND, most=30) == 30
    assert made.is_followed
    times = made.pictures().times
    assert times[0] == 8 * SECOND
    made.follow(0, most=1000)
    times = made.pictures().times
    assert times[0] == 8 * SECOND
    assert times[-1] > 11.6 * SECOND
    # What no other picture refers to is left out: two of three.
    assert 4 * FPS // 3 <= len(times) <= 4 * FPS
    assert made.follow(0, most=1000) == 0
    made.leave()
    assert not made.is_followed


def test_what_is_older_than_the_buffer_begins_at_its_first_keyframe() -> None:
    made = source()
    made.follow(0, most=1)
    made.follow(0, most=1000)
    assert made.pictures().times[0] == 6 * SECOND


def test_glances_decode_a_keyframe_in_a_while() -> None:
    made = PictureSource(CODED.track)
    glanced: list[int] = []
    for number in range(0, len(CODED.packets), FPS):
        made.add(CODED.packets[number : number + FPS])
        made.glance()
        glanced.append(len(made.pictures().times))
    assert glanced == [number // 2 + 1 for number in range(12)]
    assert len(made.glances().times) == 2
    # Large keyframes take longer to decode, so they are looked at less often.
    large = PictureSource(CODED.track)
    for each in CODED.packets:
        filler = (150_000).to_bytes(4, "big") + b"\x0c" + bytes(149_999) if each.key else b""
        large.add([msgspec.structs.replace(each, data=each.data + filler)])
        large.glance()
    assert len(large.pictures().times) == 2
    large.glance(closely=True)


def test_sizes_are_those_of_the_usual_second_without_what_fills_up() -> None:
    filler = (4_000).to_bytes(4, "big") + b"\x0c" + bytes(3_999)
    made = PictureSource(CODED.track)
    still = [
        msgspec.structs.replace(each, data=each.data[:60] + filler)
        for each in CODED.packets
        if each.pts >= 10_000 and not each.key
    ]
    usual = [each for each in CODED.packets if each.pts < 10_000]
    made.add(usual[: 3 * FPS])
    assert made.share(SECOND, 2 * SECOND) is None, "too little is known"
    made.add(usual[3 * FPS :])
    share = made.share(9 * SECOND, 10 * SECOND)
    assert share is not None
    assert 0.2 < share < 5
    cut = [each.data[:4] for each in still]
    assert all(cut)
    made.add([msgspec.structs.replace(each, data=filler + b"\0\0\0\1\x01") for each in still])
    share = made.share(round(10.4 * SECOND), round(11.4 * SECOND))
    assert share is not None
    assert share < 0.05


def test_one_gop_that_is_too_long_is_not_kept() -> None:
    made = PictureSource(CODED.track)
    key = CODED.packets[0]
    made.add([key])
    for number in range(1, 400):
        made.add([WatchedPicture(number * 40, number * 40, False, bytes(100_000))])
        assert made.kept_bytes <= 9 << 20
    assert made.follow(0, most=1000) == 0
    made.add([WatchedPicture(16_000, 16_000, True, key.data)])
    assert made.follow(0, most=1000) == 1


def test_garbage_shows_nothing() -> None:
    made = PictureSource(CODED.track)
    made.add(WatchedPicture(each.dts, each.pts, each.key, b"\xff" * 99) for each in CODED.packets)
    made.glance()
    made.follow(0, most=1000)
    assert len(made.pictures().times) == 0
    broken = PictureSource(msgspec.structs.replace(CODED.track, config=b"\x01\xff\xff"))
    broken.add(CODED.packets)
    broken.glance()
    broken.follow(0, most=1000)


def test_signatures_of_half_a_minute_are_kept() -> None:
    made = PictureSource(CODED.track)
    for turn in range(6):
        made.add(
            WatchedPicture(each.dts + 12_000 * turn, each.pts + 12_000 * turn, each.key, each.data)
            for each in CODED.packets
        )
        made.follow(0, most=1000)
        times = made.pictures().times
        assert times[-1] - times[0] <= 43 * SECOND
