"""The playlists of a live run as viewers get them: what is rendered again, and when."""

from delivery.edge.live_view import LiveView
from media.hls.playlist import PartialSegment
from media.hls.timeline import Timeline


def part(timeline: Timeline, number: int, index: int) -> Timeline:
    segment = PartialSegment(uri=f"{number}.{index}.m4s", duration=45_000, independent=not index)
    return timeline.with_part(segment, hint=f"{number}.{index + 1}.m4s")


def one_segment() -> Timeline:
    timeline = Timeline(part_target=45_000).open("init-0.mp4")
    return part(part(timeline, 0, 0), 0, 1).close("0.m4s", 90_000, hint="1.0.m4s")


def test_each_playlist_reports_on_the_other_renditions() -> None:
    view = LiveView(low_latency=True)
    view.update({"720p": one_segment(), "audio": one_segment()})
    text = view.playlist("720p", low_latency=True)
    assert text is not None
    reports = [line for line in text.body.decode().splitlines() if "RENDITION-REPORT" in line]
    assert reports == ['#EXT-X-RENDITION-REPORT:URI="../audio/index.m3u8",LAST-MSN=0,LAST-PART=1']
    view.update({"audio": part(one_segment().open("init-0.mp4"), 1, 0)})
    after = view.playlist("720p", low_latency=True)
    assert after is not None
    assert b"LAST-MSN=1,LAST-PART=0" in after.body


def test_a_part_changes_nothing_for_players_without_low_latency() -> None:
    view = LiveView(low_latency=True)
    view.update({"720p": one_segment()})
    plain = view.playlist("720p", low_latency=False)
    view.update({"720p": part(one_segment().open("init-0.mp4"), 1, 0)})
    assert plain is not None
    assert b"PART" not in plain.body
    again = view.playlist("720p", low_latency=False)
    assert again is not None
    assert again.body == plain.body


def test_a_text_is_rendered_once_between_two_changes() -> None:
    view = LiveView(low_latency=True)
    first = one_segment()
    view.update({"720p": first})
    assert view.playlist("720p", low_latency=True) is view.playlist("720p", low_latency=True)
    plain = view.playlist("720p", low_latency=False)
    view.update({"720p": part(first.open("init-0.mp4"), 1, 0)})
    assert view.playlist("720p", low_latency=False) is plain


def test_a_run_without_low_latency_has_no_tags_of_it() -> None:
    view = LiveView(low_latency=False)
    view.update({"720p": one_segment()})
    text = view.playlist("720p", low_latency=True, skip=True)
    assert text is not None
    assert b"PART" not in text.body
    assert b"SERVER-CONTROL" not in text.body


def test_nothing_is_served_of_what_lists_nothing() -> None:
    view = LiveView(low_latency=True)
    assert view.playlist("720p", low_latency=True) is None
    view.update({"720p": Timeline(part_target=45_000)})
    assert view.playlist("720p", low_latency=True) is None
    view.update({"720p": part(Timeline(part_target=45_000).open("init-0.mp4"), 0, 0)})
    assert view.playlist("720p", low_latency=True) is not None
    assert view.playlist("720p", low_latency=False) is None
