"""Playlists as text: golden files, both ways, and any text at all."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from media.hls.m3u8 import MAX_TEXT, M3u8Error, parse, render, utc_text
from media.hls.playlist import (
    AudioRendition,
    MediaPlaylist,
    MultivariantPlaylist,
    PlaylistSegment,
    SubtitleRendition,
    Variant,
)

GOLDEN = Path(__file__).parent / "golden"
NOON_US = 1_769_860_800_000_000  # 2026-01-31T12:00:00Z

MEDIA = MediaPlaylist(
    sequence=7,
    discontinuities=1,
    segments=(
        PlaylistSegment(
            uri="7.m4s", duration=180_000, map_uri="init-0.mp4", wall_us=NOON_US + 123_456
        ),
        PlaylistSegment(
            uri="8.m4s", duration=180_180, map_uri="init-0.mp4", wall_us=NOON_US + 2_123_000
        ),
        PlaylistSegment(
            uri="11.m4s",
            duration=90_001,
            map_uri="init-1.mp4",
            discontinuity=True,
            wall_us=NOON_US + 9_000_000,
        ),
    ),
    ended=True,
)
SECOND = 90_000


def two_seconds(
    number: int, map_uri: str | None, *, discontinuity: bool = False
) -> PlaylistSegment:
    """A segment of 2 s, which is a gap where it has no init section."""
    return PlaylistSegment(
        uri=f"{number}.m4s",
        duration=2 * SECOND,
        map_uri=map_uri,
        discontinuity=discontinuity,
        wall_us=NOON_US + 2_000_000 * (number - 3) if number != 8 else None,
        gap=map_uri is None,
    )


# A rendition that begins with a gap, returns with the init section it had, and with another one.
GAPS = MediaPlaylist(
    sequence=3,
    segments=(
        two_seconds(3, None),
        two_seconds(4, "init-0.mp4"),
        two_seconds(5, None, discontinuity=True),
        two_seconds(6, None),
        two_seconds(7, "init-0.mp4"),
        two_seconds(8, None),
        two_seconds(9, "init-1.mp4"),
    ),
)
VARIANTS = MultivariantPlaylist(
    sounds=(AudioRendition(uri="20260131T120000123/audio/index.m3u8", group="audio", name="Audio",
                  channels=2),),
    variants=(
        Variant(
            uri="20260131T120000123/720p/index.m3u8",
            bandwidth=3_010_000,
            average=2_760_000,
            codecs=("avc1.64001F", "mp4a.40.2"),
            width=1280,
            height=720,
            frame_rate=29_970,
            audio="audio",
        ),
        Variant(
            uri="20260131T120000123/360p/index.m3u8",
            bandwidth=1_000_000,
            average=900_000,
            codecs=("avc1.64001E", "mp4a.40.2"),
            width=640,
            height=360,
            frame_rate=30_000,
            audio="audio",
        ),
    ),
)  # fmt: skip
SOUND_ALONE = MultivariantPlaylist(
    variants=(
        Variant(
            uri="20260131T120000123/audio/index.m3u8",
            bandwidth=132_000,
            average=129_000,
            codecs=("mp4a.40.2",),
        ),
    )
)


@pytest.mark.parametrize(
    ("name", "playlist"),
    [
        ("media.m3u8", MEDIA),
        ("gaps.m3u8", GAPS),
        ("variants.m3u8", VARIANTS),
        ("sound_alone.m3u8", SOUND_ALONE),
    ],
)
def test_playlists_match_the_golden_files(
    name: str, playlist: MediaPlaylist | MultivariantPlaylist
) -> None:
    assert render(playlist) == (GOLDEN / name).read_text()


uris = st.from_regex(r"[!$-~][!#-~]{0,40}", fullmatch=True).filter(lambda uri: '"' not in uri)
quotables = st.text(st.characters(blacklist_characters='"', min_codepoint=32), max_size=20).filter(
    lambda text: not any(ord(one) == 127 for one in text)
)
segments = st.builds(
    PlaylistSegment,
    uri=uris,
    duration=st.integers(0, 90_000 * 999),
    map_uri=st.none(),
    discontinuity=st.booleans(),
    gap=st.booleans(),
    # Times are written in milliseconds.
    wall_us=st.none() | st.integers(0, 4_000_000_000_000).map(lambda ms: 1000 * ms),
)


@st.composite
def media_playlists(draw: st.DrawFn) -> MediaPlaylist:
    """Once a playlist has an init section, all that follow have one, but for gaps."""
    plain = draw(st.lists(segments, max_size=3))
    mapped = [
        PlaylistSegment(
            uri=one.uri,
            duration=one.duration,
            map_uri=None if one.gap else draw(uris),
            discontinuity=one.discontinuity,
            wall_us=one.wall_us,
            gap=one.gap,
        )
        for one in draw(st.lists(segments, max_size=5))
    ]
    return MediaPlaylist(
        target=draw(st.integers(1, 60)),
        sequence=draw(st.integers(0, 10**12)),
        discontinuities=draw(st.integers(0, 10**6)),
        segments=(*plain, *mapped),
        ended=draw(st.booleans()),
    )


codecs = st.from_regex(r"[A-Za-z0-9.]{1,20}", fullmatch=True)
multivariants = st.builds(
    MultivariantPlaylist,
    variants=st.lists(
        st.builds(
            Variant,
            uri=uris,
            bandwidth=st.integers(0, 10**9),
            average=st.none() | st.integers(0, 10**9),
            codecs=st.lists(codecs, max_size=3).map(tuple),
            width=st.just(1280),
            height=st.just(720),
            frame_rate=st.integers(0, 300_000),
            audio=st.none() | quotables,
            subtitles=st.none() | quotables,
        ),
        min_size=1,
        max_size=3,
    ).map(tuple),
    sounds=st.lists(
        st.builds(
            AudioRendition,
            uri=uris,
            group=quotables,
            name=quotables,
            channels=st.integers(1, 16),
            default=st.booleans(),
        ),
        max_size=2,
    ).map(tuple),
    subtitles=st.lists(
        st.builds(
            SubtitleRendition,
            uri=uris,
            group=quotables,
            name=quotables,
            language=quotables,
            forced=st.booleans(),
        ),
        max_size=2,
    ).map(tuple),
)


@given(media_playlists() | multivariants)
def test_what_is_written_is_read_back_equal(
    playlist: MediaPlaylist | MultivariantPlaylist,
) -> None:
    assert parse(render(playlist)) == playlist


LINES = (
    "#EXTM3U", "#EXTINF:", "#EXTINF:2.000000,", "#EXT-X-MAP:", '#EXT-X-MAP:URI="a"', "a.m4s",
    "#EXT-X-TARGETDURATION:4", "#EXT-X-STREAM-INF:", "#EXT-X-STREAM-INF:BANDWIDTH=1", "#", "",
    "#EXT-X-GAP",
    "#EXT-X-PROGRAM-DATE-TIME:2026-01-31T12:00:00Z", "#EXT-X-MEDIA:TYPE=AUDIO,URI=",
    "#EXT-X-MEDIA-SEQUENCE:99999999999999999999", "#EXT-X-PROGRAM-DATE-TIME:0001-01-01T00:00+23:59",
)  # fmt: skip


@given(
    st.text(max_size=300)
    | st.lists(st.sampled_from(LINES) | st.text(max_size=30), max_size=12).map("\n".join)
    | st.lists(st.sampled_from(LINES) | st.text(max_size=30), max_size=12).map(
        lambda lines: "\n".join(["#EXTM3U", *lines])
    )
)
@example("#EXTM3U")
@example("")
def test_any_text_gives_a_playlist_that_can_be_written_or_an_error(text: str) -> None:
    try:
        playlist = parse(text)
    except M3u8Error:
        return
    assert parse(render(playlist)) == parse(render(parse(render(playlist))))


def test_a_gap_brings_no_init_section_even_where_it_is_given_one() -> None:
    gap = PlaylistSegment(uri="0.m4s", duration=SECOND, map_uri="init-0.mp4", gap=True)
    segment = PlaylistSegment(uri="1.m4s", duration=SECOND, map_uri="init-1.mp4")
    lines = render(MediaPlaylist(segments=(gap, segment))).splitlines()
    assert [line for line in lines if "MAP" in line or "m4s" in line] == [
        "0.m4s",
        '#EXT-X-MAP:URI="init-1.mp4"',
        "1.m4s",
    ]


@pytest.mark.parametrize("offset", [0, 1, 2], ids=["first", "between", "last"])
def test_a_gap_is_distinguished_from_its_neighbours_wherever_its_tag_is(offset: int) -> None:
    tags = ["#EXTINF:2.0,", "#EXT-X-DISCONTINUITY"]
    tags.insert(offset, "#EXT-X-GAP")
    lines = ["#EXTM3U", "#EXT-X-TARGETDURATION:4", *tags, "a.m4s", "#EXTINF:2.0,", "b.m4s", ""]
    playlist = parse("\n".join(lines))
    assert isinstance(playlist, MediaPlaylist)
    assert [(one.gap, one.discontinuity) for one in playlist.segments] == [
        (True, True),
        (False, False),
    ]


def test_lines_of_other_servers_are_understood() -> None:
    text = (
        "#EXTM3U\r\n#EXT-X-VERSION:3\r\n#EXT-X-TARGETDURATION:11\r\n# a comment\r\n\r\n"
        "#EXT-X-UNKNOWN:1\r\n#EXT-X-PROGRAM-DATE-TIME:2026-01-31T13:00:00.5+01:00\r\n"
        "#EXTINF:10.01, a title\r\nhttps://cdn.example/a.ts?x=1\r\n"
    )
    assert parse(text) == MediaPlaylist(
        target=11,
        segments=(
            PlaylistSegment(
                uri="https://cdn.example/a.ts?x=1", duration=900_900, wall_us=NOON_US + 500_000
            ),
        ),
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("#EXT-X-TARGETDURATION:4\n", id="no mark in front"),
        pytest.param("#EXTM3U\n", id="no target duration"),
        pytest.param("#EXTM3U\n#EXT-X-TARGETDURATION:4\na.m4s\n", id="no duration"),
        pytest.param("#EXTM3U\n#EXT-X-TARGETDURATION:-4\n", id="negative"),
        pytest.param("#EXTM3U\n#EXT-X-TARGETDURATION:٤\n", id="no ASCII digits"),
        pytest.param("#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-BYTERANGE:1@2\n", id="range"),
        pytest.param('#EXTM3U\n#EXT-X-MAP:URI="a",BYTERANGE="1@2"\n', id="range of a map"),
        pytest.param("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n", id="no URI"),
        pytest.param("#EXTM3U\n#EXT-X-STREAM-INF:CODECS=a\nx\n", id="no bandwidth"),
        pytest.param('#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1,CODECS="a\nx\n', id="open quote"),
        pytest.param("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1,BANDWIDTH=2\nx\n", id="twice"),
        pytest.param("#EXTM3U\n#" + "x" * MAX_TEXT, id="too long"),
    ],
)
def test_what_is_no_playlist_is_refused(text: str) -> None:
    with pytest.raises(M3u8Error):
        parse(text)


@pytest.mark.parametrize("uri", ["", "a b", 'a"', "a\nb", "#a", "a\r", "é", "a\0"])
def test_a_uri_that_would_break_the_text_is_not_written(uri: str) -> None:
    with pytest.raises(M3u8Error):
        render(MediaPlaylist(segments=(PlaylistSegment(uri=uri, duration=1),)))
    with pytest.raises(M3u8Error):
        render(MediaPlaylist(segments=(PlaylistSegment(uri="a", duration=1, map_uri=uri),)))


@pytest.mark.parametrize("text", ['a"b', "a\nb", "a\rb", "\x7f"])
def test_a_name_that_would_break_its_quotes_is_not_written(text: str) -> None:
    sound = AudioRendition(uri="a", group="g", name=text, channels=2)
    with pytest.raises(M3u8Error):
        render(MultivariantPlaylist(variants=(), sounds=(sound,)))
    words = SubtitleRendition(uri="a", group="g", name=text)
    with pytest.raises(M3u8Error):
        render(MultivariantPlaylist(variants=(), subtitles=(words,)))


def test_subtitles_say_their_language_where_it_is_known() -> None:
    words = SubtitleRendition(
        uri="1-1/words1/index.m3u8", group="subtitles", name="Deutsch", language="de"
    )
    forced = SubtitleRendition(
        uri="1-1/words2/index.m3u8", group="subtitles", name="Signs", forced=True
    )
    variant = Variant(uri="1-1/360p/index.m3u8", bandwidth=1, subtitles="subtitles")
    playlist = MultivariantPlaylist(variants=(variant,), subtitles=(words, forced))
    assert render(playlist).split("\n")[3:-1] == [
        '#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="subtitles",NAME="Deutsch",LANGUAGE="de",'
        'AUTOSELECT=YES,DEFAULT=NO,FORCED=NO,URI="1-1/words1/index.m3u8"',
        '#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="subtitles",NAME="Signs",'
        'AUTOSELECT=YES,DEFAULT=NO,FORCED=YES,URI="1-1/words2/index.m3u8"',
        '#EXT-X-STREAM-INF:BANDWIDTH=1,SUBTITLES="subtitles"',
        "1-1/360p/index.m3u8",
    ]
    assert parse(render(playlist)) == playlist


def test_subtitles_without_an_address_are_no_playlist() -> None:
    text = '#EXTM3U\n#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="g",NAME="n"\n'
    with pytest.raises(M3u8Error, match="no URI"):
        parse(text)


def test_neighbouring_ticks_are_distinguished_in_text() -> None:
    texts = {
        render(MediaPlaylist(segments=(PlaylistSegment(uri="a", duration=ticks),)))
        for ticks in range(180_000, 180_200)
    }
    assert len(texts) == 200


@pytest.mark.parametrize(
    ("wall_us", "text"),
    [
        (NOON_US, "2026-01-31T12:00:00.000Z"),
        (NOON_US + 999_499, "2026-01-31T12:00:00.999Z"),
        (NOON_US + 999_500, "2026-01-31T12:00:01.000Z"),
        (0, "1970-01-01T00:00:00.000Z"),
        (-62_135_596_800_000_000, "0001-01-01T00:00:00.000Z"),
    ],
)
def test_times_have_milliseconds_and_are_rounded(wall_us: int, text: str) -> None:
    assert utc_text(wall_us) == text


def test_a_time_beyond_the_calendar_is_refused() -> None:
    with pytest.raises(M3u8Error):
        utc_text(10**20)


def test_a_playlist_that_never_changes_says_so_and_is_read_back() -> None:
    whole = MediaPlaylist(
        target=2, segments=(PlaylistSegment(uri="0.m4s", duration=180_000),), ended=True, whole=True
    )
    text = render(whole)
    assert "#EXT-X-PLAYLIST-TYPE:VOD\n" in text
    assert parse(text) == whole
    live = msgspec.structs.replace(whole, whole=False)
    assert "PLAYLIST-TYPE" not in render(live)
    assert parse(render(live)) == live
