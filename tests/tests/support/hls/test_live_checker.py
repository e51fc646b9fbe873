"""The checker finds nothing in a perfect presentation, and every fault of a broken one."""

import gzip
import re
from collections.abc import Callable
from typing import Final

import msgspec
import pytest

from tests.support.hls.fetches import Fetch
from tests.support.hls.hand_made import AUDIO, BASE, URL, VIDEO, hand_made
from tests.support.hls.live_checker import LiveChecker

Spoil = Callable[[list[Fetch]], list[Fetch]]

PICTURES: Final = f"{VIDEO}index.m3u8"
SOUND: Final = f"{AUDIO}index.m3u8"
VARIANTS: Final = "index.m3u8"
SYNC: Final = bytes.fromhex("0000003c02000000")  # size and flags of a sample
NOT_SYNC: Final = bytes.fromhex("0000003c01010000")
UNCACHED: Final = {"cache-control": "no-store"}


def check(fetches: list[Fetch], *, low: bool | None = True) -> list[str]:
    checker = LiveChecker(URL, low=low)
    for fetch in fetches:
        checker.feed(fetch)
    return checker.finish()


def text(url: str, old: str, new: str, *, first: int = 1, last: int = 1_000) -> Spoil:
    """Replace a pattern in the playlists below a URL, from the `first` to the `last` match."""

    def spoil(fetches: list[Fetch]) -> list[Fetch]:
        spoilt_fetches: list[Fetch] = []
        number = 0
        for fetch in fetches:
            if fetch.url.startswith(BASE + url) and "m3u8" in fetch.url and fetch.status == 200:
                plain = gzip.decompress(fetch.body) if fetch.is_gzip else fetch.body
                spoilt, count = re.subn(old, new, plain.decode())
                number += bool(count)
                if count and first <= number <= last:
                    changed = spoilt.encode()
                    changed = gzip.compress(changed, 1, mtime=0) if fetch.is_gzip else changed
                    fetch = msgspec.structs.replace(fetch, body=changed)
            spoilt_fetches.append(fetch)
        assert number >= first, "nothing was spoilt"
        return spoilt_fetches

    return spoil


def answers(of: str, /, *, last: int = 1_000, **fields: object) -> Spoil:
    """Change fields of the responses to a URL; `headers` are added to the existing ones."""

    def spoil(fetches: list[Fetch]) -> list[Fetch]:
        named = [fetch for fetch in fetches if fetch.url == BASE + of][:last]
        assert named, "nothing was spoilt"
        return [replaced(fetch, fields) if fetch in named else fetch for fetch in fetches]

    return spoil


def replaced(fetch: Fetch, fields: dict[str, object]) -> Fetch:
    headers = fields.get("headers", {})
    assert isinstance(headers, dict)
    return msgspec.structs.replace(fetch, **{**fields, "headers": {**fetch.headers, **headers}})


def bytes_of(url: str, change: Callable[[bytes], bytes], *, first: int = 1) -> Spoil:
    """Change the bytes of a resource, from one response on."""

    def spoil(fetches: list[Fetch]) -> list[Fetch]:
        named = [fetch for fetch in fetches if fetch.url == BASE + url][first - 1 :]
        assert named, "nothing was spoilt"
        return [
            replaced(fetch, {"body": change(fetch.body)}) if fetch in named else fetch
            for fetch in fetches
        ]

    return spoil


def added(like: str, at: float, **fields: object) -> Spoil:
    """Add a response like the first of a URL, at another time."""

    def spoil(fetches: list[Fetch]) -> list[Fetch]:
        source = next(fetch for fetch in fetches if fetch.url == BASE + like)
        fetch = replaced(source, {"began": at, "ended": at + 0.001, **fields})
        return sorted([*fetches, fetch], key=lambda each: each.ended)

    return spoil


def moved(ticks: int, *, parts: range = range(4)) -> Callable[[bytes], bytes]:
    """Delay the fragments of these numbers."""

    def change(data: bytes) -> bytes:
        places = [match.end() + 4 for match in re.finditer(b"tfdt", data)]
        for place in (places[number] for number in parts if number < len(places)):
            start = int.from_bytes(data[place : place + 8], "big") + ticks
            data = data[:place] + start.to_bytes(8, "big") + data[place + 8 :]
        return data

    return change


def both(*spoils: Spoil) -> Spoil:
    def spoil(fetches: list[Fetch]) -> list[Fetch]:
        for each in spoils:
            fetches = each(fetches)
        return fetches

    return spoil


def test_a_perfect_presentation_has_no_findings() -> None:
    checker = LiveChecker(URL, low=True)
    fetches = hand_made()
    for fetch in fetches:
        checker.feed(fetch)
    assert checker.finish() == []
    assert checker.fetches == len(fetches)
    assert checker.merged >= 4, "delta updates were applied"
    assert {len(each.media.sizes) for each in checker.renditions.values()} == {10, 11}


def test_without_expectations_of_latency_it_has_none_either() -> None:
    assert check(hand_made(), low=None) == []


def of_segment(msn: int, change: Callable[[bytes], bytes]) -> Spoil:
    """Change the audio of a segment and of all its parts."""
    parts = [bytes_of(f"{AUDIO}{msn}.{index}.m4s", change) for index in range(4)]
    return both(bytes_of(f"{AUDIO}{msn}.m4s", change), *parts)


SHIFTED: Final = both(*(of_segment(msn, moved(28_800)) for msn in range(3, 11)))
# A change, and all findings that it causes.
BREACHES: Final[dict[str, tuple[Spoil, list[str]]]] = {
    # Bytes (3.1.2, 3.2, 4.4.4)
    "other bytes later": (
        bytes_of(f"{AUDIO}0.m4s", lambda data: data[:-1] + b"x", first=2),
        [r"0\.m4s has other bytes than before \(6\.2\.1\)"],
    ),
    "parts are not the segment": (
        bytes_of(f"{AUDIO}1.m4s", lambda data: data[:-1] + b"x"),
        [r"the parts of 1 are not its bytes \(3\.2\)"],
    ),
    "a part is not the hinted one": (
        added(f"{AUDIO}1.1.m4s", 3.5, body=b"x"),
        [r"1\.1\.m4s has other bytes than before \(6\.2\.1\)"],
    ),
    "no media": (
        both(*(bytes_of(f"{AUDIO}1{n}.m4s", lambda data: data[:-1]) for n in ("", ".3"))),
        [r"1(\.3)?\.m4s is no media: a box b'mdat' of .* \(3\.1\.2\)"],
    ),
    "no init section": (
        bytes_of(f"{AUDIO}init-1.mp4", lambda data: data[8:]),
        [r"init-1\.mp4 is no init section: .* \(3\.1\.2\)"],
    ),
    "the playlist says more than is there": (
        text(SOUND, "EXTINF:2.000000,\n9", "EXTINF:2.300000,\n9"),
        [
            r"segment 9 holds 2\.000 s of media, its playlist says 2\.300 s \(4\.4\.4\.1\)",
            r"the parts of 9 last",
            r"the date of 10 is -0\.300 s off",
        ],
    ),
    "a part says more than is there": (
        both(
            text(SOUND, 'DURATION=0.500000,URI="9.3', 'DURATION=0.420000,URI="9.3'),
            text(SOUND, "EXTINF:2.000000,\n9", "EXTINF:1.920000,\n9"),
            text(SOUND, r"00:20\.000Z", "00:19.920Z"),
        ),
        [
            r"part 9\.3 holds 0\.500 s of media, its playlist says 0\.420 s \(4\.4\.4\.9\)",
            r"segment 9 holds 2\.000 s of media, its playlist says 1\.920 s \(4\.4\.4\.1\)",
            r"a delta update lists 11\.920 s only|36000 bit/s, its peak",
        ],
    ),
    "not independent": (
        text(PICTURES, '(PART:.*URI="2\\.1\\.m4s")', r"\1,INDEPENDENT=YES"),
        [r"part 2\.1 is INDEPENDENT and begins without a sync sample \(4\.4\.4\.9\)"],
    ),
    "a segment without a sync sample": (
        both(
            *(
                bytes_of(f"{VIDEO}2{n}.m4s", lambda data: data.replace(SYNC, NOT_SYNC))
                for n in ("", ".0")
            )
        ),
        [
            r"part 2\.0 is INDEPENDENT and begins without a sync sample \(4\.4\.4\.9\)",
            r"(part 2\.0|segment 2) begins without a sync sample \(4\.4\.2\.1\)",
        ],
    ),
    "a hole": (
        both(
            bytes_of(f"{AUDIO}9.2.m4s", moved(4_800)),
            bytes_of(f"{AUDIO}9.m4s", moved(4_800, parts=range(2, 3))),
        ),
        [
            r"(part 9\.2|a fragment within segment 9) begins after a hole of 0\.100 s \(6\.2\.1\)",
            r"(part 9\.3|a fragment within segment 9) begins with an overlap of 0\.100 s",
        ],
    ),
    "a hole between segments": (
        both(*(of_segment(msn, moved(4_800)) for msn in (9, 10))),
        [r"index\.m3u8: 9 begins after a hole of 0\.100 s \(6\.2\.1\)"],
    ),
    "an unmarked change of the encoding": (
        both(
            text(SOUND, r"(#EXT-X-PROGRAM-DATE-TIME:\S*:16\.)", r'#EXT-X-MAP:URI="init-2.mp4"\n\1'),
            added(f"{AUDIO}init-0.mp4", 16.6, url=f"{BASE}{AUDIO}init-2.mp4"),
            bytes_of(
                f"{AUDIO}init-2.mp4", lambda data: data.replace(b"\0\0\xbb\x80", b"\0\0\xbb\x81")
            ),
        ),
        [r"8 has another encoding without EXT-X-DISCONTINUITY \(6\.2\.1\)", "hole|overlap|holds"],
    ),
    # Renditions and variants (4.4.6.2, 6.2.4)
    "media begin at another time": (
        SHIFTED,
        [r"the media of \d+ begin at .* s, those of .* at .* s \(6\.2\.4\)"],
    ),
    "dates of another time": (
        text(SOUND, r"2026-01-01T00:00", "2026-01-01T00:01"),
        [r"the date of \d+ is 60\.000 s off \w+/index\.m3u8 \(6\.2\.4\)"],
    ),
    "a discontinuity of one rendition": (
        text(SOUND, "DISCONTINUITY-SEQUENCE:", "DISCONTINUITY-SEQUENCE:1"),
        [r"has the discontinuity sequence number 1\d, in .* \d|number \d, in .* 1\d \(6\.2\.4\)"],
    ),
    "another target": (
        both(
            text(SOUND, "TARGETDURATION:2", "TARGETDURATION:3"),
            text(SOUND, "SKIP-UNTIL=12.0,HOLD-BACK=6.0", "SKIP-UNTIL=18.0,HOLD-BACK=9.0"),
        ),
        [r"the target is \d s, that of .* \d s \(6\.2\.4\)", "delta update lists"],
    ),
    "a rendition falls behind": (
        added(f"{SOUND}?_HLS_msn=6&_HLS_part=1", 21.0, url=f"{BASE}{SOUND}"),
        [
            r"it is 6\.0 s behind 720p/index\.m3u8 \(6\.2\.4\)",
            "newest|vanished|never listed|report|sequence|uri|parts|closed|hint|duration",
        ],
    ),
    "codec": (
        text(VARIANTS, "mp4a.40.2", "mp4a.40.5"),
        [r"has mp4a\.40\.2 beside .* \(4\.4\.6\.2\)"],
    ),
    "size": (
        text(VARIANTS, "1280x720", "1280x700"),
        [r"is \(1280, 700\), its media \(1280, 720\) \(4\.4\.6\.2\)"],
    ),
    "bandwidth": (
        text(VARIANTS, "BANDWIDTH=36000", "BANDWIDTH=30000"),
        [r"says 30000 bit/s, its peak is \d+ \(4\.4\.6\.2\)"],
    ),
    # Rendition reports (4.4.5.4, B.1)
    "no report": (
        text(PICTURES, "#EXT-X-RENDITION-REPORT.*\n", "", last=1),
        [r"there is no report of audio/index\.m3u8 \(B\.1\)"],
    ),
    "a report of another": (
        text(PICTURES, r"URI=\"\.\./audio/", 'URI="../720p/', last=1),
        [
            r"there is a report of the rendition itself \(4\.4\.5\.4\)",
            r"there is no report of audio/index\.m3u8 \(B\.1\)",
        ],
    ),
    "a report without its part": (
        text(PICTURES, ",LAST-PART=2", ""),
        [r"the report of audio/index\.m3u8 has no LAST-PART \(4\.4\.5\.4\)"],
    ),
    "a report that is behind": (
        text(PICTURES, "LAST-MSN=6,LAST-PART=3", "LAST-MSN=6,LAST-PART=0"),
        [r"the report of audio/index\.m3u8 says \(6, 0\) after \(6, 2\) was listed \(4\.4\.5\.4\)"],
    ),
    "a report that is ahead": (
        both(
            text(PICTURES, "LAST-MSN=6,LAST-PART=1", "LAST-MSN=7,LAST-PART=1"),
            added(f"{SOUND}?_HLS_msn=6&_HLS_part=1", 13.1),
        ),
        [r"the report of audio/index\.m3u8 said \(7, 1\), which came later \(4\.4\.5\.4\)"],
    ),
    # Delivery (6.2.5, 6.2.6, B.1)
    "an answer without what it was to wait for": (
        answers(f"{SOUND}?_HLS_msn=6&_HLS_part=1", url=f"{BASE}{SOUND}?_HLS_msn=6&_HLS_part=2"),
        [r"_HLS_msn=6&_HLS_part=2 was answered without it \(6\.2\.5\.2\)"],
    ),
    "an answer that is held too long": (
        answers(f"{SOUND}?_HLS_msn=9&_HLS_part=1", began=11.0),
        [r"_HLS_msn=9&_HLS_part=1 was held for 8\.\d s \(6\.2\.5\.2\)"],
    ),
    "given up too early": (
        added(f"{SOUND}?_HLS_msn=99", 16.0, url=f"{BASE}{SOUND}?_HLS_msn=8", status=503),
        [r"_HLS_msn=8 was answered 503 after 0\.0 s \(6\.2\.5\.2\)"],
    ),
    "another status": (
        added(f"{SOUND}?_HLS_msn=99", 16.0, url=f"{BASE}{SOUND}?_HLS_msn=8", status=404),
        [r"_HLS_msn=8 was answered 404 \(6\.2\.5\.2\)"],
    ),
    "near, and refused": (
        added(f"{SOUND}?_HLS_msn=99", 16.0, url=f"{BASE}{SOUND}?_HLS_msn=9", status=400),
        [r"_HLS_msn=9 was refused while 7 was the newest \(6\.2\.5\.2\)"],
    ),
    "far, and not refused": (
        answers(f"{SOUND}?_HLS_msn=99", status=503, began=9.0),
        [r"_HLS_msn=99 was answered 503 while 7 was the newest \(6\.2\.5\.2\)"],
    ),
    "a part of no segment": (
        answers(f"{SOUND}?_HLS_part=1", status=404),
        [r"_HLS_part without _HLS_msn was answered 404 \(6\.2\.5\.2\)"],
    ),
    "a delta update that nobody asked for": (
        added(
            f"{SOUND}?_HLS_msn=8&_HLS_part=2&_HLS_skip=YES",
            17.6,
            url=f"{BASE}{SOUND}?_HLS_msn=8&_HLS_part=2",
        ),
        [r"a delta update came without being asked for \(6\.2\.5\.1\)"],
    ),
    "a delta update that skips too much": (
        text(f"{SOUND}?_HLS_msn=8&_HLS_part=2", r"(?s)(SEGMENTS=)1\n.*?\n2\.m4s", r"\g<1>2"),
        [r"a delta update lists 11\.500 s only \(6\.2\.5\.1\)"],
    ),
    "a delta update that is not the whole": (
        text(f"{SOUND}?_HLS_msn=8&_HLS_part=2", "SEGMENTS=1", "SEGMENTS=2"),
        [
            r"the (uri|wall) of \d was",
            "newest",
            "is named for",
            "sequence number of",
            "part",
            "of",
            ".",
        ],
    ),
    "the playlist is gone": (
        added(f"{SOUND}?_HLS_msn=99", 16.0, url=f"{BASE}{SOUND}", status=404),
        [r"it was answered 404 \(6\.2\.1\)"],
    ),
    "the multivariant playlist is gone": (
        added(f"{SOUND}?_HLS_msn=99", 16.0, url=URL, status=404),
        [r"it was answered 404 after it had been there \(6\.2\.1\)"],
    ),
    "a listed segment is gone": (
        answers(f"{AUDIO}4.m4s", status=404, headers=UNCACHED),
        [r"audio/4\.m4s is listed and was answered 404 \(6\.2\.1\)"],
    ),
    "a removed segment is gone too early": (
        added(f"{SOUND}?_HLS_msn=99", 16.0, url=f"{BASE}{AUDIO}0.m4s", status=404),
        [r"audio/0\.m4s is listed and was answered 404 \(6\.2\.1\)"],
    ),
    "an init section is gone": (
        added(f"{SOUND}?_HLS_msn=99", 16.2, url=f"{BASE}{AUDIO}init-0.mp4", status=404),
        [r"audio/init-0\.mp4 (is listed and )?was answered 404 \(6\.2\.1\)"],
    ),
    "a hinted part is refused": (
        answers(f"{AUDIO}4.1.m4s", status=404, headers=UNCACHED),
        [r"the hinted audio/4\.1\.m4s was answered 404, and came \(6\.2\.6\)"],
    ),
    "a hinted part is put off at once": (
        answers(f"{AUDIO}4.1.m4s", status=503, headers=UNCACHED),
        [r"the hinted audio/4\.1\.m4s was answered 503, and came \(6\.2\.6\)"],
    ),
    "a hinted part is put off after three target durations": (
        answers(f"{AUDIO}4.1.m4s", status=503, headers=UNCACHED, began=0.0),
        [],
    ),
    "a withdrawn part is delivered": (
        both(
            text(SOUND, 'PART,URI="4.1.m4s"', 'PART,URI="4.9.m4s"'),
            added(f"{AUDIO}4.0.m4s", 8.7, url=f"{BASE}{AUDIO}4.9.m4s"),
        ),
        [r"audio/4\.9\.m4s was delivered and never listed \(6\.2\.6\)"],
    ),
    "compressed otherwise": (
        text(SOUND, "MSN=7,LAST-PART=1", "MSN=7,LAST-PART=0", first=3, last=3),
        [r"the compressed playlist is another than the plain one \(6\.2\.1\)"],
    ),
    "compressed badly": (
        added(f"{SOUND}", 16.2, headers={"content-encoding": "gzip"}),
        [r"the compressed answer cannot be read \(6\.2\.1\)"],
    ),
    "no CORS": (
        lambda fetches: [
            msgspec.structs.replace(
                each,
                headers={n: v for n, v in each.headers.items() if "origin" not in n},
            )
            if each.url == URL
            else each
            for each in fetches
        ],
        [r"multivariant: the answer 200 has no Access-Control-Allow-Origin \(CORS\)"],
    ),
    "no caching": (
        answers(VARIANTS, headers={"cache-control": "public"}),
        [r"the answer 200 has Cache-Control 'public' \(B\.1\)"],
    ),
    "cached for long": (
        answers(SOUND, headers={"cache-control": "max-age=2"}),
        [r"the playlist may be kept for 2 s \(B\.1\)"],
    ),
    "refused for long": (
        answers(f"{SOUND}?_HLS_msn=99", headers={"cache-control": "max-age=60"}),
        [r"the answer 400 may be kept for 60 s \(B\.1\)"],
    ),
    "content type of a playlist": (
        answers(SOUND, headers={"content-type": "text/plain"}),
        [r"the content type is 'text/plain' \(4\)"],
    ),
    "content type of media": (
        answers(f"{AUDIO}4.m4s", headers={"content-type": "text/plain"}),
        [r"the content type is 'text/plain' \(4\)"],
    ),
    "no Vary": (
        answers(SOUND, headers={"vary": "Origin"}),
        [r"the playlist does not vary by Accept-Encoding \(6\.2\.1\)"],
    ),
    "a multivariant playlist in the place of a media playlist": (
        added(VARIANTS, 16.2, url=f"{BASE}{SOUND}"),
        [r"there is a multivariant playlist at its address \(4\.4\)"],
    ),
    "a media playlist in the place of the multivariant": (
        added(SOUND, 16.2, url=URL),
        [r"there is a media playlist at its address \(4\.4\)"],
    ),
}


@pytest.mark.parametrize(("spoil", "expected"), BREACHES.values(), ids=BREACHES)
def test_what_is_spoilt_is_found_and_nothing_else(spoil: Spoil, expected: list[str]) -> None:
    findings = check(spoil(hand_made()))
    assert [each for each in expected if not any(re.search(each, one) for one in findings)] == [], (
        findings
    )
    assert [each for each in findings if not any(re.search(one, each) for one in expected)] == []


def test_a_stream_of_normal_latency_carries_the_query_on() -> None:
    url = f"{URL}?latency=normal"
    checker = LiveChecker(url, low=False)
    variants = next(fetch for fetch in hand_made() if fetch.url == URL)
    checker.feed(msgspec.structs.replace(variants, url=url))
    assert [each.partition(": ")[2] for each in checker.findings] == [
        "720p/index.m3u8 does not carry the query on (decided for latency=normal)",
        "audio/index.m3u8 does not carry the query on (decided for latency=normal)",
    ]
    queried = variants.body.replace(b"index.m3u8", b"index.m3u8?latency=normal")
    checker = LiveChecker(url, low=False)
    checker.feed(msgspec.structs.replace(variants, url=url, body=queried))
    assert checker.findings == []


def test_another_run_has_its_own_history() -> None:
    checker = LiveChecker(URL, low=True)
    fetches = hand_made()
    for fetch in fetches:
        checker.feed(fetch)
    for fetch in fetches:
        body = fetch.body.replace(b"run/", b"next/") if fetch.url == URL else fetch.body
        url, later = fetch.url.replace("/run/", "/next/"), {"began": fetch.began + 60}
        checker.feed(
            msgspec.structs.replace(fetch, url=url, ended=fetch.ended + 60, body=body, **later)
        )
    assert checker.finish() == []
    assert len(checker.presentations) == 2
