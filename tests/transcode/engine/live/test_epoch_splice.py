"""One source after the other without a seam, through a real engine process and real encoders."""

import io
import itertools
import random
from pathlib import Path

import av
import msgspec
import pytest

from media.hls.segment import Segment
from tests.support.engine.coded_sources import HEVC, coded
from tests.support.engine.decoded_output import frames, packets, warnings
from tests.support.engine.engine_process import FRAME, ORIGIN, EngineOutput, begin, run
from tests.support.engine.sources import LOW_360P, Source, moving, source_of
from tests.support.engine.splices import (
    LADDER,
    SECOND,
    SHIFT,
    SIZE,
    is_whole,
    pictures_of,
    shown,
    since,
    sound_is_gapless,
    source_to_splice,
    spliced,
    up_to,
)
from transcode.protocol.messages import Finish, LeaveOut, Packet, Prepared, Spliced, TakenOver


@pytest.fixture(scope="module")
def source(folder: Path) -> Source:
    return source_to_splice(folder)


@pytest.fixture(scope="module")
def other(folder: Path) -> Source:
    """The same size, coded in another way."""
    path = folder / "splice-other.flv"
    return source_of(moving(path, seconds=4, gop=30, size=SIZE, bframes=0))


@pytest.fixture(scope="module")
def lent(source: Source) -> EngineOutput:
    return run(spliced(up_to(source, 3_400), since(source, 2_500)))


def test_lent_packets_follow_each_other_without_a_seam(lent: EngineOutput) -> None:
    assert is_whole(lent)
    (report,) = lent.of(Spliced)
    assert (report.epoch, report.reused) == (1, "240p")
    assert sound_is_gapless(lent)


def test_no_picture_is_lost_at_a_splice_in_any_rung(lent: EngineOutput, source: Source) -> None:
    pictures = [*up_to(source, 3_400).published, *since(source, 2_500).published]
    (top,) = lent.files("240p")
    assert [data for _, _, data in packets(top)] == pictures
    assert len(shown(lent, "240p")) == len(shown(lent, "144p")) == len(pictures)
    assert shown(lent, "240p") == shown(lent, "144p")


def test_the_new_source_begins_where_the_old_one_ended(lent: EngineOutput, source: Source) -> None:
    before = up_to(source, 3_400).pictures
    at = ORIGIN + 90 * (max(each.pts for each in before) - before[0].pts) + FRAME
    times = shown(lent, "144p")
    assert abs(times[len(before)] - at) <= 90, "within a millisecond, as stamps are"


def test_segments_end_at_the_first_keyframe_from_two_seconds_on(lent: EngineOutput) -> None:
    lengths = [round(each.duration / SECOND, 1) for each in lent.segments("240p")]
    # The new source's keyframes come 3.4, 4.4, 5.4, 6.4 s after the beginning of the run.
    assert lengths[:2] == [2.0, 2.4]
    assert sum(lengths) == pytest.approx(3.4 + 3.0, abs=0.2)


@pytest.mark.parametrize("reuse", [True, False], ids=["lent", "encoded"])
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.prove) for seed in (1, 2))]
)
def test_a_splice_at_any_moment_has_no_seam(source: Source, seed: int, reuse: bool) -> None:
    chance = random.Random(seed)
    # A source in itself has pictures of 100 ms where it is cut off among B-frames.
    ends = [up_to(source, chance.randrange(300, 5_900)) for _ in range(2)]
    middle = since(ends[1], 0, SHIFT * 2)
    output = run(spliced(ends[0], middle, since(source, chance.randrange(4_000)), reuse=reuse))
    assert is_whole(output)
    assert len(output.of(Spliced)) == 2
    assert sound_is_gapless(output)
    counts = {len(shown(output, name)) for name in pictures_of(output)}
    wanted = sum(len(each.pictures) for each in (ends[0], middle))
    assert len(counts) == 1
    assert counts.pop() > wanted
    assert all(segment.duration <= 4 * SECOND + FRAME for segment in output.of(Segment))


def test_encoded_rungs_keep_their_encoders_and_their_grid(source: Source) -> None:
    output = run(spliced(up_to(source, 2_700), since(source, 1_500), reuse=False))
    assert is_whole(output)
    assert output.of(Spliced) == [Spliced(epoch=1, reused=None)]
    lengths = [each.duration / SECOND for each in output.segments("240p")[:3]]
    assert lengths == pytest.approx([2.0, 2.0, 2.0], abs=0.04)
    pictures = [*up_to(source, 2_700).pictures, *since(source, 1_500).pictures]
    assert len(shown(output, "240p")) == len(shown(output, "144p")) == len(pictures)
    assert sound_is_gapless(output)


def test_a_source_that_ends_right_after_a_cut_leaves_no_tiny_segment(source: Source) -> None:
    key = sorted(each.dts for each in source.pictures if each.key)[2]
    output = run(spliced(up_to(source, key + 1), since(source, 0)))
    assert is_whole(output)
    assert min(each.duration for each in output.segments("240p")[:-1]) > 1.9 * SECOND
    output = run(spliced(up_to(source, key + 1), since(source, 0), reuse=False))
    assert is_whole(output)


def test_keyframes_far_apart_bring_no_encoder_in_at_a_splice(folder: Path) -> None:
    path = folder / "splice-four.flv"
    rare = source_of(moving(path, seconds=8, gop=120, size=LOW_360P))
    output = run(spliced(up_to(rare, 5_500), since(rare, 0)))
    assert is_whole(output)
    assert output.of(TakenOver) == []
    lengths = [round(each.duration / SECOND, 1) for each in output.segments("360p")]
    assert lengths[:3] == [4.0, 1.5, 4.0]


def test_between_two_configurations_the_encoder_makes_the_top_rung(
    source: Source, other: Source
) -> None:
    first, second = up_to(source, 3_400), since(other, 0)
    output = run(spliced(first, second))
    assert (output.status, output.troubles, warnings(output)) == (0, {}, {})
    assert output.of(Spliced) == [Spliced(epoch=1, reused="240p")]
    assert output.in_step()
    for name in output.names:
        assert not any(each.discontinuity for each in output.segments(name))
        assert {each.epoch for each in output.segments(name)} == {0}
    assert len(output.inits("240p")) == 3
    everything = [*first.pictures, *second.pictures]
    for name in ("240p", "144p"):
        assert sum(len(frames(file)) for file in output.files(name)) == len(everything)
    assert sound_is_gapless(output)


def test_the_same_sets_in_another_record_need_no_other_init_section(source: Source) -> None:
    second = since(source, 2_500)
    assert second.video is not None
    record = second.video.config + b"\xfd\xf8\xf8\x00"
    video = msgspec.structs.replace(second.video, config=record)
    output = run(
        spliced(up_to(source, 3_400), msgspec.structs.replace(second, video=video)),
    )
    assert is_whole(output)


def test_rungs_that_are_shed_stay_away_over_a_splice_and_come_back(source: Source) -> None:
    orders = spliced(up_to(source, 3_400), since(source, 500))
    taken = len(up_to(source, 3_400).packets)
    orders.insert(taken // 2, LeaveOut(off=("144p",)))
    orders.insert(taken + 40, LeaveOut(off=()))
    output = run(orders)
    assert (output.status, output.complaints, output.troubles) == (0, "", {})
    assert len(output.of(Prepared)) == 1
    assert warnings(output) == {}
    gaps = [segment.gap for segment in output.segments("144p")]
    assert True in gaps
    assert not gaps[-1]
    assert not any(segment.discontinuity for segment in output.of(Segment))
    assert len(shown(output, "240p")) == sum(
        len(each.pictures) for each in (up_to(source, 3_400), since(source, 500))
    )


def test_a_source_that_shows_another_picture_is_taken_over_where_it_comes_in(
    source: Source,
) -> None:
    """Its configuration is the same, but its first picture brings other sets along."""
    second = since(source, 0)
    first = next(n for n, each in enumerate(second.packets) if each.video)
    picture = second.packets[first]
    turned = msgspec.structs.replace(picture, data=_with_sets_of_another(picture.data))
    packets_ = (*second.packets[:first], turned, *second.packets[first + 1 :])
    output = run(spliced(up_to(source, 3_400), msgspec.structs.replace(second, packets=packets_)))
    assert output.status == 0
    assert output.of(TakenOver) == [TakenOver(epoch=1, for_good=True)]
    assert output.in_step()
    assert not any(segment.discontinuity for segment in output.segments("240p"))


def _with_sets_of_another(data: bytes) -> bytes:
    """Put a sequence parameter set of another size before a picture."""
    unit = bytes.fromhex("6764001eacd940a02ff9610000030001000003003c0f162d96")  # 640x360
    return len(unit).to_bytes(4, "big") + unit + data


def test_one_that_lends_after_one_that_cannot_makes_the_top_rung(source: Source) -> None:
    output = run(
        [
            *spliced(up_to(source, 2_500), reuse=False)[:-1],
            msgspec.structs.replace(begin(source, ladder=LADDER, epoch=1), splice=True),
            *since(source, 0).packets,
            Finish(),
        ]
    )
    assert [each.reused for each in output.of(Prepared)] == [None]
    assert output.of(Spliced) == [Spliced(epoch=1, reused="240p")]
    assert not any(segment.discontinuity for segment in output.of(Segment))
    assert warnings(output) == {}
    published = [packet.data for packet in since(source, 0).pictures]
    (*_, own) = output.files("240p")
    made = [data for _, _, data in packets(own)]
    assert all(map(bytes.endswith, made, published)), "with parameter sets before keyframes"
    assert len(made) == len(published)


def test_after_a_source_that_never_began_the_next_one_begins(source: Source) -> None:
    nothing = msgspec.structs.replace(source, packets=())
    output = run(spliced(nothing, since(source, 0)))
    assert (output.status, output.troubles) == (0, {})
    assert not any(segment.discontinuity for segment in output.of(Segment))
    output = run(spliced(up_to(source, 3_400), nothing, since(source, 2_500)))
    assert is_whole(output)
    assert len(output.of(Spliced)) == 2


def test_hevc_continues_in_the_same_encoders() -> None:
    source = coded(HEVC, seconds=3, size=(640, 72))
    output = run(spliced(up_to(source, 1_700), since(source, 500)))
    assert is_whole(output)
    pictures = [*up_to(source, 1_700).pictures, *since(source, 500).pictures]
    assert len(shown(output, "360p")) == len(pictures)


def test_decode_times_rise_across_a_splice(lent: EngineOutput) -> None:
    (file,) = lent.files("240p")
    with av.open(io.BytesIO(file), "r") as container:
        times = [packet.dts for packet in container.demux() if packet.dts is not None]
    assert all(before < after for before, after in itertools.pairwise(times))


def test_packets_without_a_source_are_dropped(source: Source) -> None:
    """What comes between an end and a beginning is dropped, and the beginning is another epoch."""
    stray = Packet(video=True, dts=1, pts=1, key=True, data=source.pictures[0].data)
    order = msgspec.structs.replace(begin(source), splice=True)
    output = run([stray, order, *up_to(source, 2_000).packets, Finish()])
    assert output.status == 0
    assert len(output.of(Prepared)) == 1
