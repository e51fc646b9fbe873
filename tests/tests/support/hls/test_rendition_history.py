"""Versions of a playlist: which changes are allowed, and which are not."""

from typing import Final

import pytest

from tests.support.hls.findings import Findings
from tests.support.hls.rendition_history import RenditionHistory, Resource, merge_delta
from tests.support.hls.strict_m3u8 import MediaText, read_playlist

URL: Final = "http://host/720p/index.m3u8"
# Four versions: a part more, the segment closed, the oldest one removed with its discontinuity.
FIRST: Final = """#EXTM3U
#EXT-X-VERSION:9
#EXT-X-TARGETDURATION:1
#EXT-X-PART-INF:PART-TARGET=0.5
#EXT-X-MEDIA-SEQUENCE:3
#EXT-X-DISCONTINUITY-SEQUENCE:1
#EXT-X-DISCONTINUITY
#EXT-X-MAP:URI="init-0.mp4"
#EXT-X-PROGRAM-DATE-TIME:2026-01-31T12:00:03.000Z
#EXTINF:1.0,
3.m4s
#EXTINF:1.0,
4.m4s
#EXTINF:1.0,
5.m4s
#EXT-X-PART:DURATION=0.5,URI="6.0.m4s"
#EXT-X-PART:DURATION=0.5,URI="6.1.m4s"
#EXTINF:1.0,
6.m4s
#EXT-X-PART:DURATION=0.5,URI="7.0.m4s"
#EXT-X-PRELOAD-HINT:TYPE=PART,URI="7.1.m4s"
"""
SECOND: Final = FIRST.replace(
    '#EXT-X-PRELOAD-HINT:TYPE=PART,URI="7.1.m4s"',
    '#EXT-X-PART:DURATION=0.5,URI="7.1.m4s"\n#EXT-X-PRELOAD-HINT:TYPE=PART,URI="8.0.m4s"',
)
THIRD: Final = (
    SECOND.replace(
        "SEQUENCE:3\n#EXT-X-DISCONTINUITY-SEQUENCE:1", "SEQUENCE:4\n#EXT-X-DISCONTINUITY-SEQUENCE:2"
    )
    .replace("#EXT-X-DISCONTINUITY\n", "")
    .replace("#EXT-X-PROGRAM-DATE-TIME:2026-01-31T12:00:03.000Z\n#EXTINF:1.0,\n3.m4s\n", "")
    .replace("#EXT-X-PRELOAD", "#EXTINF:1.0,\n7.m4s\n#EXT-X-PRELOAD")
)
FOURTH: Final = THIRD.replace('#EXT-X-PRELOAD-HINT:TYPE=PART,URI="8.0.m4s"', "#EXT-X-ENDLIST")


def read(text: str) -> MediaText:
    findings = Findings()
    playlist = read_playlist(text.encode(), findings.about("it"))
    assert findings.sentences == [], "a fault of syntax"
    assert isinstance(playlist, MediaText)
    return playlist


def follow(*texts: str) -> tuple[RenditionHistory, list[str]]:
    findings = Findings()
    history = RenditionHistory(URL, findings.about("it"))
    for number, text in enumerate(texts):
        history.update(read(text), float(number))
    return history, [each.removeprefix("it: ") for each in findings.sentences]


def test_a_playlist_that_grows_has_no_findings() -> None:
    history, findings = follow(FIRST, SECOND, THIRD, THIRD, FOURTH, FOURTH)
    assert findings == []
    assert history.newest == (7, 1)
    assert {number: known.discontinuity for number, known in history.known.items()} == {
        3: 2,
        4: 2,
        5: 2,
        6: 2,
        7: 2,
    }
    assert history.resources["http://host/720p/7.1.m4s"] == Resource("part", 7, 1)
    assert history.resources["http://host/720p/4.m4s"] == Resource("segment", 4)
    assert history.resources["http://host/720p/init-0.mp4"].kind == "init"
    assert history.withdrawn == {"http://host/720p/8.0.m4s"}


@pytest.mark.parametrize(
    ("before", "old", "new", "expected"),
    [
        (
            FIRST,
            "DURATION:1",
            "DURATION:2",
            [
                "the target duration was 1 s and is 2 s (6.2.1)",
            ],
        ),
        (
            FIRST,
            "DISCONTINUITY-SEQUENCE:1",
            "DISCONTINUITY-SEQUENCE:0",
            [
                "the discontinuity sequence number fell from 1 to 0 (6.2.2)",
                "the discontinuity sequence number of 3 was 2 and is 1 (6.2.2)",
                "the discontinuity sequence number of 7 was 2 and is 1 (6.2.2)",
            ],
        ),
        (
            FIRST,
            "#EXT-X-DISCONTINUITY\n",
            "",
            [
                "the discontinuity of 3 was True, is False (6.2.1)",
                "the discontinuity sequence number of 3 was 2 and is 1 (6.2.2)",
            ],
        ),
        (
            FIRST,
            "DISCONTINUITY-SEQUENCE:1",
            "DISCONTINUITY-SEQUENCE:2",
            [
                "the discontinuity sequence number of 3 was 2 and is 3 (6.2.2)",
            ],
        ),
        (FIRST, "\n4.m4s", "\n4b.m4s", ["the uri of 4 was '4.m4s', is '4b.m4s' (6.2.1)"]),
        (
            FIRST,
            "1.0,\n4.m4s",
            "1.1,\n4.m4s",
            [
                "the duration of 4 was 1.000000, is 1.100000 (6.2.1)",
            ],
        ),
        (
            FIRST,
            "#EXTINF:1.0,\n4.m4s",
            "#EXT-X-GAP\n#EXTINF:1.0,\n4.m4s",
            [
                "the gap of 4 was False, is True (6.2.1)",
            ],
        ),
        (
            FIRST,
            "03.000Z",
            "03.001Z",
            ["the wall of 3 was 1769860803.000000, is 1769860803.001000 (6.2.1)"],
        ),
        (
            FIRST,
            "init-0",
            "init-1",
            [
                "the map_uri of 3 was 'init-0.mp4', is 'init-1.mp4' (6.2.1)",
                "the map_uri of 7 was 'init-0.mp4', is 'init-1.mp4' (6.2.1)",
            ],
        ),
        (
            FIRST,
            '0.5,URI="7.0',
            '0.4,URI="7.0',
            [
                "part 7.0 changed: 7.0.m4s 0.500000, 7.0.m4s 0.400000 (6.2.1)",
            ],
        ),
        (
            FIRST,
            '"7.0.m4s"',
            '"7.0.m4s",INDEPENDENT=YES',
            [
                "part 7.0 changed: 7.0.m4s 0.500000, 7.0.m4s 0.500000 INDEPENDENT (6.2.1)",
            ],
        ),
        (
            SECOND,
            '#EXT-X-PART:DURATION=0.5,URI="7.1.m4s"\n',
            "",
            [
                "part 7.1 vanished (6.2.1)",
            ],
        ),
        (
            FIRST,
            '#EXT-X-PART:DURATION=0.5,URI="7.0.m4s"\n',
            "",
            [
                "7.0 was the newest, now 6.1 is (6.2.1)",
            ],
        ),
        (
            FIRST,
            '#EXT-X-PART:DURATION=0.5,URI="6.0.m4s"\n',
            "",
            [
                "part 6.0 changed: 6.0.m4s 0.500000, 6.1.m4s 0.500000 (6.2.1)",
                "part 6.1 vanished (6.2.1)",
            ],
        ),
        (
            FIRST,
            '#EXT-X-PART:DURATION=0.5,URI="6.0.m4s"\n#EXT-X-PART:DURATION=0.5,URI="6.1.m4s"\n',
            "",
            ["the parts of 6 were removed near the end (6.2.2)"],
        ),
        (
            FIRST,
            '"6.1.m4s"\n',
            '"6.1.m4s"\n#EXT-X-PART:DURATION=0.1,URI="6.2.m4s"\n',
            [
                "6 was closed and got another part (6.2.1)",
            ],
        ),
        (
            FIRST,
            'PART,URI="7.1',
            'PART,URI="7.0',
            [
                "the hint names 7.0.m4s, which is listed already (4.4.5.3)",
            ],
        ),
        (FOURTH, "#EXT-X-ENDLIST\n", "", ["the playlist changed after EXT-X-ENDLIST (4.4.3.4)"]),
        (
            FOURTH,
            "#EXT-X-ENDLIST\n",
            "#EXTINF:1.0,\n8.m4s\n#EXT-X-ENDLIST\n",
            [
                "the playlist changed after EXT-X-ENDLIST (4.4.3.4)",
            ],
        ),
    ],
)
def test_a_change_that_is_not_allowed_is_found(
    before: str, old: str, new: str, expected: list[str]
) -> None:
    assert old in before
    _, findings = follow(before, before.replace(old, new, 1))
    assert set(expected) <= set(findings), findings
    # A change of what precedes other lines is one of all that follow.
    kinds = {each.split(" ", 2)[1] for each in expected}
    assert {each.split(" ", 2)[1] for each in findings} == kinds, findings


@pytest.mark.parametrize(
    ("before", "old", "new", "expected"),
    [
        (
            THIRD,
            "MEDIA-SEQUENCE:4",
            "MEDIA-SEQUENCE:3",
            [
                "the media sequence number fell from 4 to 3 (6.2.2)",
                "7.1 was the newest, now 6.1 is (6.2.1)",
            ],
        ),
        (
            FIRST,
            "#EXTINF:1.0,\n4.m4s\n",
            "",
            [
                "7.0 was the newest, now 6.0 is (6.2.1)",
                "the uri of 4 was '4.m4s', is '5.m4s' (6.2.1)",
                "5.m4s is named for 5 and for 4 (6.2.1)",
            ],
        ),
        (FIRST, "MEDIA-SEQUENCE:3", "MEDIA-SEQUENCE:9", ["8 and 0 more were never listed (6.2.2)"]),
    ],
)
def test_numbers_that_shift_are_found_by_all_that_they_name(
    before: str, old: str, new: str, expected: list[str]
) -> None:
    _, findings = follow(before, before.replace(old, new, 1))
    assert set(expected) <= set(findings), findings


def test_hints_of_what_is_not_the_next_part_are_counted() -> None:
    other = FIRST.replace('PART,URI="7.1', 'PART,URI="7.2')
    third = SECOND.replace(
        "#EXT-X-PRELOAD", '#EXT-X-PART:DURATION=0.5,URI="7.2.m4s"\n#EXT-X-PRELOAD'
    )
    right, wrong = follow(FIRST, SECOND)[0], follow(other, SECOND, third)[0]
    assert (right.wrong_hints, right.withdrawn) == (0, set())
    assert wrong.wrong_hints == 2, "7.1 came for 7.2, and that for 8.0"
    assert follow(other, SECOND, third)[1] == [], "what was planned may change"
    assert follow(other, SECOND)[0].withdrawn == {"http://host/720p/7.2.m4s"}
    assert wrong.withdrawn == set()


def test_a_first_part_need_be_hinted_only_where_the_media_goes_on() -> None:
    hint = '#EXT-X-PRELOAD-HINT:TYPE=PART,URI="8.0.m4s"'
    closed = THIRD.replace(hint, "")
    assert hint in THIRD
    first = f'{closed}#EXT-X-PART:DURATION=0.5,URI="8.0.m4s"\n'
    assert "the first part of 8 was not hinted (B.1)" in follow(closed, first)[1]
    other = closed + '#EXT-X-DISCONTINUITY\n#EXT-X-PART:DURATION=0.5,URI="8.0.m4s"\n'
    assert not [each for each in follow(closed, other)[1] if "hinted" in each]


def test_a_playlist_from_which_segments_go_stays_three_targets_long() -> None:
    short = THIRD.replace("MEDIA-SEQUENCE:4", "MEDIA-SEQUENCE:6").replace(
        "#EXTINF:1.0,\n4.m4s\n#EXTINF:1.0,\n5.m4s\n", ""
    )
    assert follow(THIRD, short)[1] == ["segments were removed from 2.0 s of media (6.2.2)"]


def test_discontinuities_that_go_are_counted() -> None:
    old = FIRST.replace("#EXT-X-DISCONTINUITY-SEQUENCE:1\n", "")
    new = THIRD.replace("#EXT-X-DISCONTINUITY-SEQUENCE:2\n", "")
    assert follow(old, new)[1] == [
        "segments are removed without EXT-X-DISCONTINUITY-SEQUENCE (6.2.2)",
        "the discontinuity sequence number of 4 was 1 and is 0 (6.2.2)",
        "the discontinuity sequence number of 5 was 1 and is 0 (6.2.2)",
        "the discontinuity sequence number of 6 was 1 and is 0 (6.2.2)",
        "the discontinuity sequence number of 7 was 1 and is 0 (6.2.2)",
    ]


def test_a_delta_update_is_completed_from_the_last_playlist() -> None:
    delta = read(
        SECOND.replace(
            """#EXT-X-DISCONTINUITY
#EXT-X-MAP:URI="init-0.mp4"
#EXT-X-PROGRAM-DATE-TIME:2026-01-31T12:00:03.000Z
#EXTINF:1.0,
3.m4s
#EXTINF:1.0,
4.m4s
""",
            "#EXT-X-SKIP:SKIPPED-SEGMENTS=2\n",
        )
    )
    merged = merge_delta(delta, read(FIRST))
    assert merged is not None
    assert merged.all == read(SECOND).all
    assert merge_delta(delta, None) is None
    assert merge_delta(delta, read(THIRD)) is None, "3 was removed from it"


def test_what_blocking_reload_waits_for_has_come() -> None:
    history, _ = follow(FIRST)
    cases = [(5, None), (6, None), (6, 1), (6, 2), (7, 0)]
    assert [case for case in cases if not history.has_come(*case)] == []
    assert not history.has_come(7, 1)
    assert not history.has_come(7, None)
    assert not history.has_come(8, 0)


def test_what_was_listed_stays_for_its_availability_duration() -> None:
    history, _ = follow(FIRST, SECOND, THIRD)
    # 3 was listed at 0 s, lasts 1 s, and its longest playlist 4 s; a second is the tolerance.
    removed = Resource("segment", 3)
    assert history.is_due(removed, 3.9, began=3.0)
    assert not history.is_due(removed, 4.1, began=3.0)
    assert history.is_due(Resource("segment", 4), 60.0, began=50.0)
    assert history.is_due(Resource("part", 7, 1), 60.0, began=50.0)
    assert not history.is_due(Resource("part", 7, 1), 0.9, began=-1.0), "it was asked for early"


GONE: Final = FIRST.replace(
    """#EXT-X-PART:DURATION=0.5,URI="6.0.m4s"
#EXT-X-PART:DURATION=0.5,URI="6.1.m4s"
#EXTINF:1.0,
6.m4s
#EXT-X-PART:DURATION=0.5,URI="7.0.m4s"
#EXT-X-PRELOAD-HINT:TYPE=PART,URI="7.1.m4s"
""",
    "#EXT-X-GAP\n#EXTINF:0.0,\n6.m4s\n#EXT-X-GAP\n#EXTINF:0.0,\n7.m4s\n",
)
NEXT: Final = f"{GONE}#EXT-X-DISCONTINUITY\n#EXTINF:1.0,\n8.m4s\n"


def after_an_interruption(*texts: str, gone: bool = True) -> tuple[RenditionHistory, list[str]]:
    findings = Findings()
    history = RenditionHistory(URL, findings.about("it"))
    history.update(read(FIRST), 0.0)
    if gone:
        history.interrupt()
    for number, text in enumerate(texts, 1):
        history.update(read(text), float(number))
    return history, [each.removeprefix("it: ") for each in findings.sentences]


def test_a_server_that_was_gone_may_have_lost_the_newest_segments() -> None:
    history, findings = after_an_interruption(GONE, GONE, NEXT)
    assert findings == []
    assert history.lost == {6, 7}
    assert "http://host/720p/6.0.m4s" not in history.resources
    assert history.known[8].discontinuity == history.known[7].discontinuity + 1


def test_a_server_that_was_gone_may_have_lost_the_parts_of_other_segments() -> None:
    without = GONE.replace("#EXT-X-GAP\n#EXTINF:0.0,\n6.m4s", "#EXTINF:1.0,\n6.m4s")
    history, findings = after_an_interruption(without, without)
    assert (findings, history.lost) == ([], {7})
    back = without.replace(
        "#EXTINF:1.0,\n6.m4s", '#EXT-X-PART:DURATION=0.5,URI="6.0.m4s"\n#EXTINF:1.0,\n6.m4s'
    )
    assert after_an_interruption(without, back)[1] == ["the parts of 6 came back (6.2.2)"]
    assert after_an_interruption(without, gone=False)[1] != []


def test_a_server_that_was_there_may_not() -> None:
    history, findings = after_an_interruption(GONE, gone=False)
    assert "the gap of 6 was False, is True (6.2.1)" in findings
    assert history.lost == set()


def test_what_was_lost_once_does_not_change_again() -> None:
    changed = NEXT.replace("0.0,\n6.m4s", "1.0,\n6.m4s")
    assert after_an_interruption(GONE, changed)[1] == [
        "the duration of 6 was 0.000000, is 1.000000 (6.2.1)"
    ]


def test_only_the_newest_segments_may_be_lost() -> None:
    text = GONE.replace("#EXT-X-GAP\n#EXTINF:0.0,\n7.m4s", "#EXTINF:1.0,\n7.m4s")
    history, findings = after_an_interruption(text)
    assert "the gap of 6 was False, is True (6.2.1)" in findings
    assert history.lost == set()


def test_what_follows_a_loss_is_a_discontinuity() -> None:
    unmarked = NEXT.replace("#EXT-X-DISCONTINUITY\n#EXTINF:1.0,\n8", "#EXTINF:1.0,\n8")
    assert after_an_interruption(GONE, unmarked)[1] == [
        "8 follows lost media without a discontinuity (4.4.4.3)"
    ]
