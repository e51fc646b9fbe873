"""A hand-made live presentation: the responses of a perfect server to a strict player.

Two renditions of 2 s segments and 0.5 s parts: 20 pictures a second, and sound. The run has a
discontinuity with another init section, a gap in the video, delta updates, a compressed playlist,
requests for media far ahead, and an end. Each test of the checker breaks one detail.
"""

import gzip
from functools import cache
from typing import Final
from urllib.parse import urlsplit

from media.hls.fmp4 import Sample, audio_init, fragment, video_init
from tests.support.hls.fetches import Fetch

BASE: Final = "http://host/live/x/"
URL: Final = f"{BASE}index.m3u8"
VIDEO: Final = "run/720p/"
AUDIO: Final = "run/audio/"
SEGMENTS: Final = 11
_WINDOW: Final = 7  # closed segments
_PARTS: Final = 4
_CUT: Final = 3  # begins a discontinuity
_GAP: Final = 5  # has no picture
_HEADERS: Final = {"access-control-allow-origin": "*"}
_TEXT: Final = {
    **_HEADERS,
    "content-type": "application/vnd.apple.mpegurl",
    "cache-control": "public, max-age=1",
    "vary": "Accept-Encoding",
}
_MEDIA: Final = {
    **_HEADERS,
    "content-type": "video/mp4",
    "cache-control": "public, max-age=31536000, immutable",
}
_REFUSED: Final = {**_HEADERS, "cache-control": "no-store"}
_AVC: Final = bytes.fromhex("0164001fffe100046764001f01000468ee3c80")
_MULTIVARIANT: Final = """#EXTM3U
#EXT-X-VERSION:7
#EXT-X-INDEPENDENT-SEGMENTS
#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="sound",NAME="Sound",AUTOSELECT=YES,DEFAULT=YES,CHANNELS="2",\
URI="run/audio/index.m3u8"
#EXT-X-STREAM-INF:BANDWIDTH=36000,CODECS="avc1.64001f,mp4a.40.2",RESOLUTION=1280x720,\
FRAME-RATE=20.000,AUDIO="sound"
run/720p/index.m3u8
"""


def is_playlist(fetch: Fetch) -> bool:
    """Return whether a fetch got a playlist without compression."""
    path = urlsplit(fetch.url).path
    return path.endswith(".m3u8") and fetch.status == 200 and not fetch.is_gzip


@cache
def _init(folder: str) -> bytes:
    if folder == VIDEO:
        return video_init(config=_AVC, width=1280, height=720)
    return audio_init(config=bytes.fromhex("1190"), rate=48_000, channels=2)


@cache
def _part(folder: str, msn: int, index: int) -> bytes:
    """Return half a second: ten pictures, or twenty audio frames."""
    scale, count = (90_000, 10) if folder == VIDEO else (48_000, 20)
    duration = scale // 2 // count
    # After the discontinuity, the media have another clock.
    half = 20 + _PARTS * msn + index + (1000 if msn >= _CUT else 0)
    samples = [
        Sample(
            dts=half * scale // 2 + number * duration,
            pts=half * scale // 2 + number * duration,
            duration=duration,
            key=folder == AUDIO or (index == 0 and number == 0),
            data=bytes([msn + 16, index + 16, number + 16]) * 20,
        )
        for number in range(count)
    ]
    return fragment(samples, number=msn * _PARTS + index + 1)


def _segment_lines(folder: str, msn: int, parts: int, *, listed: bool) -> list[str]:
    """Return the lines of a segment with so many parts; it is closed if it has all four."""
    gap = folder == VIDEO and msn == _GAP
    lines = ["#EXT-X-DISCONTINUITY"] if msn == _CUT else []
    if msn in (0, _CUT):
        lines.append(f'#EXT-X-MAP:URI="init-{msn // _CUT}.mp4"')
    lines.append(f"#EXT-X-PROGRAM-DATE-TIME:2026-01-01T00:00:{2 * msn:02}.000Z")
    for index in range(parts if listed else 0):
        flag = ",INDEPENDENT=YES" if index == 0 or folder == AUDIO else ""
        flag = ",GAP=YES" if gap else flag
        lines.append(f'#EXT-X-PART:DURATION=0.500000,URI="{msn}.{index}.m4s"{flag}')
    if parts == _PARTS:
        lines += ["#EXT-X-GAP"] if gap else []
        lines += ["#EXTINF:2.000000,", f"{msn}.m4s"]
    return lines


def _text(folder: str, done: int, *, skip: bool = False, ended: bool = False) -> str:
    """Return the playlist after so many parts."""
    closed, parts = divmod(done, _PARTS)
    first = max(0, closed - _WINDOW)
    lines = [
        "#EXTM3U",
        "#EXT-X-VERSION:9",
        "#EXT-X-INDEPENDENT-SEGMENTS",
        "#EXT-X-TARGETDURATION:2",
        "#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,CAN-SKIP-UNTIL=12.0,HOLD-BACK=6.0,"
        "PART-HOLD-BACK=1.5",
        "#EXT-X-PART-INF:PART-TARGET=0.500000",
        f"#EXT-X-MEDIA-SEQUENCE:{first}",
        f"#EXT-X-DISCONTINUITY-SEQUENCE:{int(first > _CUT)}",
    ]
    # Segments that end more than 12 s before the end may be skipped; parts are removed after 6 s.
    skipped = max(0, closed - first - 6) if skip else 0
    lines += [f"#EXT-X-SKIP:SKIPPED-SEGMENTS={skipped}"] if skipped else []
    for msn in range(first + skipped, closed + bool(parts)):
        lines += _segment_lines(
            folder, msn, min(_PARTS, done - msn * _PARTS), listed=msn >= closed - 4
        )
        if msn == first and first > _CUT:
            lines.insert(-3, '#EXT-X-MAP:URI="init-1.mp4"')
        elif msn == first and 0 < first < _CUT:
            lines.insert(-3, '#EXT-X-MAP:URI="init-0.mp4"')
    if ended:
        return "\n".join([*lines, "#EXT-X-ENDLIST", ""])
    other = "audio" if folder == VIDEO else "720p"
    last = divmod(done - 1, _PARTS)
    return "\n".join(
        [
            *lines,
            f'#EXT-X-PRELOAD-HINT:TYPE=PART,URI="{closed}.{parts}.m4s"',
            f'#EXT-X-RENDITION-REPORT:URI="../{other}/index.m3u8",LAST-MSN={last[0]},'
            f"LAST-PART={last[1]}",
            "",
        ]
    )


class _Script:
    """Records fetches as time passes."""

    def __init__(self) -> None:
        self.fetches: list[Fetch] = []

    def playlist(
        self, url: str, text: str, began: float, ended: float, *, compressed: bool = False
    ) -> None:
        headers = {**_TEXT, "content-encoding": "gzip"} if compressed else _TEXT
        body = gzip.compress(text.encode(), 1, mtime=0) if compressed else text.encode()
        self.fetches.append(
            Fetch(url=BASE + url, began=began, ended=ended, headers=headers, body=body)
        )

    def media(self, url: str, body: bytes, began: float, ended: float) -> None:
        self.fetches.append(
            Fetch(url=BASE + url, began=began, ended=ended, headers=_MEDIA, body=body)
        )

    def refusal(self, url: str, status: int, at: float) -> None:
        self.fetches.append(
            Fetch(url=BASE + url, began=at, ended=at + 0.01, status=status, headers=_REFUSED)
        )


def hand_made() -> list[Fetch]:
    """Return all fetches, ordered by their end."""
    return [*_written()]


@cache
def _written() -> list[Fetch]:
    script = _Script()
    script.playlist("index.m3u8", _MULTIVARIANT, 0.4, 0.41)
    for done in range(1, SEGMENTS * _PARTS + 1):
        for folder, delay in ((VIDEO, 0.01), (AUDIO, 0.02)):
            _one_part(script, folder, done, delay)
        if done % 10 == 0:
            script.playlist("index.m3u8", _MULTIVARIANT, done / 2 + 0.3, done / 2 + 0.31)
    end = SEGMENTS * _PARTS
    for later in (0.5, 1.0):
        for folder in (VIDEO, AUDIO):
            text = _text(folder, end, ended=True)
            script.playlist(f"{folder}index.m3u8", text, end / 2 + later, end / 2 + later + 0.1)
    return sorted(script.fetches, key=lambda fetch: fetch.ended)


def _one_part(script: _Script, folder: str, done: int, delay: float) -> None:
    """Add a part: a blocking request for its playlist, and a fetch of its bytes."""
    (msn, index), at = divmod(done - 1, _PARTS), done / 2 + delay
    query = "" if done == 1 else f"?_HLS_msn={msn}&_HLS_part={index}"
    skip = done > 1 and done % 5 == 0
    query += "&_HLS_skip=YES" if skip else ""
    script.playlist(f"{folder}index.m3u8{query}", _text(folder, done, skip=skip), at - 0.48, at)
    if done in (1, 1 + _CUT * _PARTS):
        script.media(f"{folder}init-{msn // _CUT}.mp4", _init(folder), at + 0.03, at + 0.04)
    if folder == VIDEO and msn == _GAP:
        return
    part = _part(folder, msn, index)
    hinted = done % 2 == 0  # requested since it was hinted
    began, ended = (at - 0.47, at - 0.005) if hinted else (at + 0.05, at + 0.06)
    script.media(f"{folder}{msn}.{index}.m4s", part, began, ended)
    if index == _PARTS - 1:
        whole = b"".join(_part(folder, msn, each) for each in range(_PARTS))
        script.media(f"{folder}{msn}.m4s", whole, at + 0.07, at + 0.08)
    if done == 30:
        _unusual(script, folder, done, at)


def _unusual(script: _Script, folder: str, done: int, at: float) -> None:
    """Request the same playlist three times, media far ahead, and removed media."""
    for number, compressed in enumerate((False, True, False)):
        began = at + 0.1 + number / 50
        text = _text(folder, done)
        script.playlist(f"{folder}index.m3u8", text, began, began + 0.01, compressed=compressed)
    script.refusal(f"{folder}index.m3u8?_HLS_msn=99", 400, at + 0.17)
    script.refusal(f"{folder}index.m3u8?_HLS_part=1", 400, at + 0.19)
    removed = b"".join(_part(folder, 0, each) for each in range(_PARTS))
    script.media(f"{folder}0.m4s", removed, at + 0.2, at + 0.21)
