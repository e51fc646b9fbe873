"""One source's packets, judged: times in ms, as RTMP has them."""

import os

import msgspec
import pytest

from media.ladder import Ladder, ladder_for
from media.track import VideoCodec, VideoTrack
from tests.support.engine.undeclared_order import undeclared_order
from tests.transcode.engine.input.test_random_access import AVC
from transcode.engine.core.reports import ReportWriter
from transcode.engine.input.random_access import AccessPoint
from transcode.engine.live.source import LiveSource
from transcode.protocol.messages import Begin, Packet

SECOND = 90_000
CONFIG = bytes.fromhex(
    "0164001effe100196764001eacd940a02ff9610000030001000003003c0f162d9601000468ef8fcbfdf8f800"
)
VIDEO = VideoTrack(codec=VideoCodec.AVC, config=CONFIG, width=640, height=360)
HEVC = VideoTrack(codec=VideoCodec.HEVC, config=bytes((1, 1, *bytes(20), 0)), width=640, height=360)
LADDER = ladder_for(640, 360, frozenset())
IDR, OTHER = b"\x00\x00\x00\x02\x65\x88", b"\x00\x00\x00\x02\x41\x9a"


def source(
    video: VideoTrack | None = VIDEO,
    *,
    ladder: Ladder | None = LADDER,
    reuse: bool = True,
    in_order: bool = False,
) -> LiveSource:
    order = Begin(
        epoch=3,
        video=video,
        audio=None,
        ladder=ladder,
        start=0,
        sequence=0,
        inits={},
        discontinuity=False,
        reuse=reuse,
    )
    reports = ReportWriter(os.open(os.devnull, os.O_WRONLY))
    return LiveSource(order, reports, in_order=in_order)


def picture(dts: int, data: bytes = OTHER, *, pts: int | None = None) -> Packet:
    key = data == IDR
    return Packet(video=True, dts=dts, pts=dts if pts is None else pts, key=key, data=data)


def test_nothing_counts_before_the_first_keyframe() -> None:
    of = source()
    assert of.classify(picture(0), VIDEO) is None
    assert of.classify(picture(33, IDR), VIDEO) is AccessPoint.ENTRY


def test_what_is_shown_before_the_first_keyframe_is_left_out() -> None:
    of = source()
    assert of.classify(picture(0, IDR, pts=100), VIDEO) is AccessPoint.ENTRY
    of.begin(100, 1_000, 0)
    assert of.classify(picture(33, pts=66), VIDEO) is None
    assert of.classify(picture(66, pts=166), VIDEO) is AccessPoint.OTHER
    assert of.classify(picture(100, pts=90), VIDEO) is AccessPoint.OTHER, (
        "only up to the first after it"
    )


def test_its_first_time_is_placed_as_ordered() -> None:
    of = source()
    clock = of.begin(7_000, 1_000, 5 * SECOND)
    assert of.place_picture(picture(6_967, IDR, pts=7_000), clock, VIDEO) == (
        5 * SECOND - 2_970,
        450_000,
    )
    assert (of.frames, of.newest_ms, of.number) == (1, 7_000, 3)


@pytest.mark.parametrize(
    ("times", "step"),
    [
        pytest.param([0], 3_000, id="unknown"),
        pytest.param([0, 20], 1_800, id="50 a second"),
        pytest.param([0, 20, 60], 3_600, id="the newest counts"),
        pytest.param([0, 900], 9_000, id="a hole is no picture's length"),
        pytest.param([0, 20, 10], 1_800, id="what goes back says nothing"),
    ],
)
def test_a_picture_is_shown_as_long_as_the_one_before_it(times: list[int], step: int) -> None:
    of = source()
    clock = of.begin(0, 1_000, 0)
    for time in times:
        of.place_picture(picture(time), clock, VIDEO)
    assert of.step == step


def test_a_source_lends_its_packets_to_a_rung_of_its_own_size() -> None:
    assert source().is_reusable
    assert not source(reuse=False).is_reusable
    assert not source(HEVC).is_reusable
    assert not source(ladder=None).is_reusable
    short_lengths = msgspec.structs.replace(VIDEO, config=CONFIG[:4] + b"\xfd" + CONFIG[5:])
    assert source(short_lengths).config is not None
    assert not source(short_lengths).is_reusable
    larger = Ladder((msgspec.structs.replace(LADDER.renditions[0], width=854, height=480),))
    assert not source(ladder=larger).is_reusable


def test_encoders_fit_sources_that_are_coded_alike() -> None:
    assert source().encoder_key == source().encoder_key
    wide = msgspec.structs.replace(VIDEO, width=1_280)
    assert source(wide).encoder_key != source().encoder_key
    assert source(HEVC).encoder_key == source(HEVC).encoder_key
    main10 = msgspec.structs.replace(HEVC, config=bytes((1, 2, *bytes(20), 0)))
    assert source(main10).encoder_key != source(HEVC).encoder_key
    other = msgspec.structs.replace(HEVC, config=HEVC.config + b"another encoder's words")
    assert source(other).encoder_key == source(HEVC).encoder_key
    assert source(None).encoder_key is None


def test_pictures_of_another_configuration_are_never_lent_again() -> None:
    of = source()
    assert of.can_reuse(picture(0, IDR), AccessPoint.ENTRY)
    unit = b"\x67" + bytes([AVC.profile - 1]) + AVC.sps[0][2:]
    other = len(unit).to_bytes(4, "big") + unit + IDR
    assert not of.can_reuse(picture(40, other), AccessPoint.ENTRY)
    assert not of.can_reuse(picture(80, IDR), AccessPoint.ENTRY), "it needs those sets, too"
    assert of.mismatched


def test_a_configuration_that_is_none_is_no_reason_to_stop() -> None:
    broken = source(msgspec.structs.replace(VIDEO, config=b"\x01"))
    assert broken.config is None
    assert not broken.is_reusable
    assert broken.init_section is None
    assert broken.encoder_key is not None


def test_its_init_section_is_its_own() -> None:
    init = source().init_section
    assert init is not None
    codecs, data = init
    assert codecs == AVC.codecs
    assert CONFIG in data


def test_no_picture_is_waited_for_a_second_after_its_sound() -> None:
    of = source()
    of.begin(0, 1_000, 10 * SECOND)
    assert of.note_sound(13 * SECOND) == 9 * SECOND, "a single stamp may be absurd"
    assert of.note_sound(13 * SECOND) == 12 * SECOND


def test_pictures_that_come_in_order_need_no_declaration_of_it() -> None:
    track, _ = undeclared_order(1)
    for in_order in (False, True):
        form = source(track, in_order=in_order).video_format
        assert form is not None
        assert form.order_known is in_order
