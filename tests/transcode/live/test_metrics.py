import msgspec
import pytest

from media.packet import MediaPacket
from media.track import AudioCodec, AudioTrack, VideoCodec, VideoTrack
from transcode.live.load_shedding import KEEPING_PACE, LoadShedder
from transcode.live.metrics import RunMetrics
from transcode.protocol.messages import Progress

VIDEO = VideoTrack(codec=VideoCodec.AVC, config=b"a", width=1280, height=720)
AUDIO = AudioTrack(codec=AudioCodec.AAC, config=b"d", rate=48_000, channels=2)


def packet(at: int, *, video: bool = True) -> MediaPacket:
    track = VIDEO if video else AUDIO
    return MediaPacket(track=track, dts=at, pts=at, key=True, data=b"1234")


def send(metrics: RunMetrics, begin: int, end: int, *, video: bool = True) -> None:
    """Count a packet every half a second, from a time to a time in ms."""
    for at in range(begin, end + 1, 500):
        metrics.count_packets([packet(at, video=video)])


def progress(second: float, *, pace: float = 1.0, epoch: int = 0, cpu: float = 0.5) -> Progress:
    """Return an engine's report after some seconds, of a source whose times begin at 100 s."""
    made_ms = 100_000 + round(second * pace * 1000)
    return Progress(
        epoch=epoch,
        taken=made_ms,
        made=made_ms,
        frames=round(30 * second),
        cpu_ms=round(1000 * cpu * second),
        memory_bytes=5,
        rung_cpu_ms={"720p": round(300 * second * pace), "480p": round(100 * second * pace)},
    )


def test_packets_are_counted() -> None:
    figures = RunMetrics()
    figures.count_packets([packet(0)])
    figures.count_packets([packet(5, video=False)])
    assert (figures.packets, figures.pictures, figures.bytes_in) == (2, 1, 8)


def test_pace_cores_and_costs_follow_the_reports() -> None:
    figures = RunMetrics()
    for second in range(1, 12):
        figures.update(progress(second, pace=0.5), float(second), current=True)
    assert figures.pace == pytest.approx(0.5, abs=0.01)
    assert figures.cores == pytest.approx(0.5)
    assert figures.frame_rate == pytest.approx(30)
    assert figures.costs == {"720p": pytest.approx(0.3), "480p": pytest.approx(0.1)}
    assert figures.cpu_seconds == pytest.approx(5.5)
    assert figures.rung_cpu_seconds["720p"] == pytest.approx(1.65)


def test_lateness_is_media_that_was_sent_and_cannot_be_seen_yet() -> None:
    figures = RunMetrics()
    figures.count_packets([packet(100_000)])
    figures.update(progress(0), 0.0, current=True)
    assert figures.lag == 0
    send(figures, 100_500, 104_000)
    figures.update(progress(1.5), 1.5, current=True)
    assert figures.lag == 2.5
    figures.update(progress(0.5), 2.5, current=False)
    assert figures.lag == 2.5, "a report of the source before says nothing of this one"


def test_a_new_line_of_time_makes_nothing_late() -> None:
    figures = RunMetrics()
    figures.count_packets([packet(100_000)])
    figures.begin_timeline()
    figures.count_packets([packet(7)])
    nothing = Progress(epoch=1, taken=0, made=0, frames=0, cpu_ms=9, memory_bytes=5)
    figures.update(nothing, 1.0, current=True)
    assert figures.lag == 0


def test_before_anything_is_made_lateness_counts_from_the_first_packet() -> None:
    figures = RunMetrics()
    send(figures, 100_000, 103_000)
    nothing = Progress(epoch=0, taken=0, made=0, frames=0, cpu_ms=9, memory_bytes=5)
    figures.update(nothing, 1.0, current=True)
    assert figures.lag == 3.0


def test_a_new_engine_counts_on() -> None:
    figures = RunMetrics()
    figures.update(progress(2), 2.0, current=True)
    figures.begin_engine()
    figures.update(progress(1), 3.0, current=True)
    assert figures.cpu_seconds == pytest.approx(1.5)
    assert figures.rung_cpu_seconds["720p"] == pytest.approx(0.9)


def test_a_rung_that_is_off_keeps_the_cost_it_had() -> None:
    figures = RunMetrics()
    for second in (1, 2, 3):
        figures.update(progress(second), float(second), current=True)
    before = figures.costs["720p"]
    last = progress(4)
    stopped = {**last.rung_cpu_ms, "720p": progress(3).rung_cpu_ms["720p"]}
    figures.update(
        Progress(
            epoch=0,
            taken=last.taken,
            made=last.made,
            frames=last.frames,
            cpu_ms=last.cpu_ms,
            memory_bytes=5,
            rung_cpu_ms=stopped,
        ),
        4.0,
        current=True,
    )
    assert figures.costs["720p"] == before
    load = figures.load("a", ("720p",), min_rungs=1)
    assert set(load.costs) == {"720p"}


def test_a_source_that_stalls_does_not_make_its_engine_slow() -> None:
    figures = RunMetrics()
    for second in range(1, 8):
        figures.count_packets([packet(100_000 + 1_000 * second)])
        figures.update(progress(second - 0.5), float(second), current=True)
    assert figures.pace == pytest.approx(1.0, abs=0.01)
    for second in (8, 9, 10):
        figures.update(progress(7.0), float(second), current=True)
    load = figures.load("a", ("720p",), min_rungs=0)
    assert not load.is_behind
    assert load.pace == pytest.approx(1.0, abs=0.01)


def test_an_engine_that_has_more_to_make_than_it_makes_is_slow() -> None:
    figures = RunMetrics()
    for second in range(1, 12):
        figures.count_packets([packet(100_000 + 1_000 * second)])
        figures.update(progress(second, pace=0.5), float(second), current=True)
    load = figures.load("a", ("720p",), min_rungs=0)
    assert load.is_behind
    assert load.pace == pytest.approx(0.5, abs=0.05)


def test_what_comes_in_at_once_after_a_splice_is_not_held_against_the_engine() -> None:
    """After two seconds without media, four seconds from a backup's buffer: pace is reset."""
    figures = RunMetrics()
    for second in range(1, 8):
        figures.count_packets([packet(100_000 + 1_000 * second)])
        figures.update(progress(second - 0.5), float(second), current=True)
    figures.begin_timeline()
    send(figures, 100_000, 104_000)
    for seconds, media, late in ((10.0, 0.0, True), (11.0, 2.0, False), (12.0, 4.5, False)):
        figures.count_packets([packet(104_000 + round((seconds - 10) * 1_000))])
        figures.update(progress(media, epoch=1), seconds, current=True)
        load = figures.load("a", ("720p",), min_rungs=0)
        assert load.pace >= KEEPING_PACE
        assert load.is_behind is late
        assert LoadShedder().decide(seconds, [load], 0.0) == {}


def test_a_run_without_a_source_is_not_late() -> None:
    figures = RunMetrics()
    send(figures, 100_000, 105_000)
    figures.update(progress(1.0), 1.0, current=True)
    assert figures.lag == 4.0
    figures.idle()
    figures.update(progress(1.0), 2.0, current=True)
    assert figures.lag == 0.0


HOUR = 3_600_000  # ms


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(msgspec.structs.replace(packet(110_000), pts=110_000 + 2 * HOUR), id="shown"),
        pytest.param(packet(110_000 + HOUR), id="decoded far ahead"),
        pytest.param(packet(110_000 - HOUR), id="decoded long ago"),
        pytest.param(packet(110_000 + HOUR, video=False), id="heard far ahead"),
    ],
)
def test_one_absurd_timestamp_neither_delays_a_run_nor_sheds_its_rungs(odd: MediaPacket) -> None:
    metrics, shedder = RunMetrics(), LoadShedder()
    for second in range(1, 40):
        send(metrics, 99_500 + 1_000 * second, 100_000 + 1_000 * second)
        if second == 10:
            metrics.count_packets([odd])
        metrics.update(progress(second - 1), float(second), current=True)
        load = metrics.load("a", ("720p", "480p"), min_rungs=0)
        assert load.lag <= 1.5, second
        assert shedder.decide(second, [load], 0.0) == {}, second


@pytest.mark.parametrize("jump", [-HOUR, -10_000, 3_000, 10_000, HOUR])
def test_a_clock_that_jumps_for_good_does_not_count_against_the_engine(jump: int) -> None:
    """The engine's reports follow a second later, as media do."""
    metrics, shedder = RunMetrics(), LoadShedder()
    for second in range(1, 40):
        newest = 100_000 + 1_000 * second
        send(metrics, *(at + jump * (second > 10) for at in (newest - 500, newest)))
        message = progress(second - 1)
        message = msgspec.structs.replace(message, made=message.made + jump * (second > 11))
        metrics.update(message, float(second), current=True)
        load = metrics.load("a", ("720p", "480p"), min_rungs=0)
        assert load.lag <= 1.5, second
        assert load.pace == pytest.approx(1.0, abs=0.05), second
        assert shedder.decide(second, [load], 0.0) == {}, second


def test_a_slow_engine_is_noticed_after_a_jump_too() -> None:
    metrics = RunMetrics()
    send(metrics, 100_000, 101_000)
    for second in range(1, 21):
        send(metrics, HOUR + 1_000 * second, HOUR + 1_000 * second + 500)
        message = progress(0.5 * second)
        metrics.update(
            msgspec.structs.replace(message, made=HOUR + 500 * second), float(second), current=True
        )
    load = metrics.load("a", ("720p",), min_rungs=0)
    assert load.is_behind
    assert load.lag == pytest.approx(10, abs=1)
    assert load.pace == pytest.approx(0.5, abs=0.05)


def test_sound_leads_where_there_is_no_picture() -> None:
    metrics = RunMetrics()
    metrics.begin_source((AUDIO,))
    send(metrics, 100_000, 104_000, video=False)
    metrics.update(progress(1.0), 1.0, current=True)
    assert metrics.lag == 3.0


def test_sound_by_another_clock_makes_no_lag() -> None:
    """Encoders with two clocks stamp the sound a minute ahead, as long as they send."""
    metrics = RunMetrics()
    metrics.begin_source((VIDEO, AUDIO))
    for second in range(1, 20):
        send(metrics, 99_500 + 1_000 * second, 100_000 + 1_000 * second)
        send(metrics, 159_500 + 1_000 * second, 160_000 + 1_000 * second, video=False)
        metrics.update(progress(second - 1), float(second), current=True)
        assert metrics.lag <= 1.5
