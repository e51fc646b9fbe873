from ingest.stream.track_finder import (
    HELD_BYTES,
    PATIENCE_SECONDS,
    PICTURE_SECONDS,
    SourceBegun,
    TrackFinder,
    continues,
)
from media.loop_lag import LoopLag
from media.packet import MediaPacket
from media.track import AudioCodec, AudioTrack, Track, VideoCodec, VideoTrack

VIDEO = VideoTrack(codec=VideoCodec.AVC, config=b"a", width=1280, height=720)
OTHER = VideoTrack(codec=VideoCodec.AVC, config=b"b", width=1280, height=720)
SMALL = VideoTrack(codec=VideoCodec.AVC, config=b"c", width=640, height=360)
AUDIO = AudioTrack(codec=AudioCodec.AAC, config=b"d", rate=48_000, channels=2)


def packet(track: Track, at: int = 0, size: int = 1) -> MediaPacket:
    return MediaPacket(track=track, dts=at, pts=at, key=True, data=bytes(size))


def test_both_tracks_decide_at_once() -> None:
    finder = TrackFinder()
    assert finder.add_track(VIDEO, 0.0) is None
    assert finder.add_track(AUDIO, 0.1) == SourceBegun((VIDEO, AUDIO))
    assert finder.is_settled


def test_packets_before_the_decision_come_out_after_it_in_order() -> None:
    finder = TrackFinder()
    finder.add_track(AUDIO, 0.0)
    packets = [packet(AUDIO, at) for at in range(3)]
    assert finder.hold(packets, 0.1) is None
    assert finder.add_track(VIDEO, 0.5) == SourceBegun((VIDEO, AUDIO), tuple(packets))


def test_a_single_track_is_decided_after_the_waiting_time() -> None:
    finder = TrackFinder()
    finder.add_track(VIDEO, 0.0)
    first = packet(VIDEO)
    assert finder.hold([first], 0.1) is None
    assert finder.tick(PATIENCE_SECONDS - 0.01) is None
    assert finder.tick(PATIENCE_SECONDS) == SourceBegun((VIDEO,), (first,))
    assert finder.tick(PATIENCE_SECONDS + 1) is None


def sound_alone(finder: TrackFinder, until: float, announced: bool = True) -> SourceBegun | None:
    """Send ten packets a second, with their times in tenths, until something comes out."""
    if announced:
        finder.announce_picture()
    begun = finder.add_track(AUDIO, 0.0)
    for tenth in range(round(until * 10)):
        begun = begun or finder.hold([packet(AUDIO, tenth)], tenth / 10)
    return begun


def test_an_announced_picture_is_waited_for_longer() -> None:
    finder = TrackFinder()
    assert sound_alone(finder, 8.0) is None
    assert finder.awaits_picture
    # Sound that came long before the picture is of no use to it.
    sound = tuple(packet(AUDIO, tenth) for tenth in range(69, 80))
    assert finder.add_track(VIDEO, 8.0) == SourceBegun((VIDEO, AUDIO), sound)
    assert not finder.awaits_picture


def test_an_announced_picture_that_never_comes_is_not_waited_for_for_ever() -> None:
    finder = TrackFinder()
    assert sound_alone(finder, PICTURE_SECONDS) is None
    sound = tuple(packet(AUDIO, tenth) for tenth in range(109, 120))
    assert finder.tick(PICTURE_SECONDS) == SourceBegun((AUDIO,), sound)
    assert not finder.awaits_picture


def test_only_an_announced_picture_is_waited_for_longer() -> None:
    finder = TrackFinder()
    begun = sound_alone(finder, PATIENCE_SECONDS + 0.1, announced=False)
    assert begun is not None
    assert begun.tracks == (AUDIO,)
    finder.announce_picture()  # too late
    assert not finder.awaits_picture
    assert finder.add_track(VIDEO, 5.0) == SourceBegun((VIDEO, AUDIO))


def test_sound_is_not_waited_for_any_longer_when_a_picture_was_announced() -> None:
    finder = TrackFinder()
    finder.announce_picture()
    finder.add_track(VIDEO, 0.0)
    first = packet(VIDEO)
    assert finder.hold([first], 0.1) is None
    assert finder.tick(PATIENCE_SECONDS) == SourceBegun((VIDEO,), (first,))


def test_a_picture_that_cannot_be_used_is_given_up() -> None:
    finder = TrackFinder()
    sound_alone(finder, 3.0)
    begun = finder.give_picture_up(3.0)
    assert begun is not None
    assert begun.tracks == (AUDIO,)
    early = TrackFinder()
    sound_alone(early, 0.5)
    assert early.give_picture_up(0.5) is None
    assert early.tick(PATIENCE_SECONDS) is not None


def test_a_source_that_leaves_before_its_announced_picture_is_none() -> None:
    finder = TrackFinder()
    sound_alone(finder, 8.0)
    assert finder.finish() is None


def test_a_source_that_sends_no_packets_is_not_decided() -> None:
    finder = TrackFinder()
    finder.add_track(VIDEO, 0.0)
    assert finder.tick(100.0) is None


def test_a_flood_within_the_waiting_time_decides() -> None:
    finder = TrackFinder()
    finder.add_track(VIDEO, 0.0)
    flood = packet(VIDEO, size=HELD_BYTES + 1)
    assert finder.hold([flood], 0.0) == SourceBegun((VIDEO,), (flood,))


def test_another_configuration_begins_anew() -> None:
    finder = TrackFinder()
    finder.add_track(VIDEO, 0.0)
    finder.add_track(AUDIO, 0.0)
    assert finder.add_track(OTHER, 5.0) == SourceBegun((OTHER, AUDIO))


def test_a_clock_that_jumped_begins_anew_only_after_the_decision() -> None:
    finder = TrackFinder()
    finder.add_track(VIDEO, 0.0)
    assert finder.restart() is None
    finder.add_track(AUDIO, 0.0)
    assert finder.restart() == SourceBegun((VIDEO, AUDIO), new_clock=True)


def test_a_source_that_leaves_within_the_waiting_time_is_decided() -> None:
    finder = TrackFinder()
    finder.add_track(VIDEO, 0.0)
    first = packet(VIDEO)
    finder.hold([first], 0.1)
    assert finder.finish() == SourceBegun((VIDEO,), (first,))
    assert finder.finish() is None


def test_a_run_with_a_picture_can_continue_with_any_picture() -> None:
    assert continues((VIDEO, AUDIO), (OTHER,))
    assert continues((VIDEO, AUDIO), (SMALL, AUDIO))
    assert not continues((AUDIO,), (VIDEO, AUDIO))
    assert not continues((VIDEO,), (AUDIO,))
    assert continues((AUDIO,), (AUDIO,))


def test_the_waiting_time_does_not_pass_while_the_loop_is_held_up() -> None:
    lag = LoopLag()
    lag.beat(0.0)
    finder = TrackFinder(lag)
    finder.add_track(VIDEO, 0.0)
    first = packet(VIDEO)
    assert finder.hold([first], 0.1) is None
    assert finder.tick(3.0) is None
    assert finder.hold([packet(VIDEO, 1)], 3.0) is None
    # Packets that were sent meanwhile are read now.
    assert finder.add_track(AUDIO, 3.0) == SourceBegun((VIDEO, AUDIO), (first, packet(VIDEO, 1)))
