"""A small low-latency HLS origin for tests of the player, with parts in real time.

The media are encoded in advance: parts of half a second, four per segment, with video and audio in
one rendition. Playlists follow RFC 8216bis: blocking reload (6.2.5.2), parts (4.4.4.9) and a
preload hint (4.4.5.3). It shares no code with the service.
"""

import asyncio
import time
from pathlib import Path
from urllib.parse import parse_qs

from tests.support.e2e.publishers import tool
from tests.support.made_media import make_file

PART = 0.5  # seconds
_PARTS = 4  # in a segment
_TICK = 0.01  # seconds between two checks of the clock
_TOP_LEVEL_HEADER = 8  # bytes: size and name of a box


class LowLatencyRun:
    """A run that began `age` seconds ago; `hold` interrupts it, as a failover does."""

    def __init__(self, folder: Path, seconds: int) -> None:
        """Encode `seconds` of media, which takes about two seconds."""
        path = folder / "low-latency.mp4"
        make_file([tool("ffmpeg"), *_order(seconds), "-y"], path, seconds=120)
        self._init, self._media = _parts_of(path.read_bytes())
        self._began = time.monotonic()
        self._holds: list[tuple[float, float]] = []
        self._stopped = False

    def stop(self) -> None:
        """Answer the waiting requests, so that the server can stop."""
        self._stopped = True

    def begin(self, age: float) -> None:
        """Restart, as if `age` seconds ago."""
        self._began = time.monotonic() - age
        self._holds = []

    def hold(self, seconds: float) -> None:
        """Publish nothing for a while, then everything due at once."""
        now = time.monotonic()
        self._holds.append((now, now + seconds))

    async def answer(self, path: str, query: str) -> tuple[int, str, bytes]:
        """Return the status, type and body for a path below the stream's folder."""
        if path == "index.m3u8":
            return 200, "application/vnd.apple.mpegurl", _MULTIVARIANT.encode()
        name = path.removeprefix("low/180p/")
        if name == "index.m3u8":
            directives = parse_qs(query)
            if "_HLS_msn" in directives:
                msn, part = (
                    int(directives["_HLS_msn"][0]),
                    int(directives.get("_HLS_part", ["3"])[0]),
                )
                await self._wait_for(msn * _PARTS + part)
            return 200, "application/vnd.apple.mpegurl", self._playlist().encode()
        if name == "init.mp4":
            return 200, "video/mp4", self._init
        number = int(name.partition("-")[2].partition(".")[0])
        if name.startswith("part"):
            await self._wait_for(number)
            return 200, "video/mp4", self._media[number]
        first = number * _PARTS
        return 200, "video/mp4", b"".join(self._media[first : first + _PARTS])

    async def _wait_for(self, part: int) -> None:
        while part >= self._published():
            if self._stopped:
                return
            await asyncio.sleep(_TICK)

    def _published(self) -> int:
        """Return the current number of parts."""
        now = time.monotonic()
        until_when = next((since for since, until in self._holds if since <= now < until), now)
        return min(int((until_when - self._began) / PART), len(self._media))

    def _playlist(self) -> str:
        count = self._published()
        whole = count // _PARTS
        lines = [_HEAD]
        for segment in range(whole + 1):
            if segment >= whole - 2:
                lines += [
                    f'#EXT-X-PART:DURATION={PART},URI="part-{number}.m4s"'
                    + (",INDEPENDENT=YES" if number % _PARTS == 0 else "")
                    for number in range(segment * _PARTS, min((segment + 1) * _PARTS, count))
                ]
            if segment < whole:
                lines += [f"#EXTINF:{PART * _PARTS},", f"segment-{segment}.m4s"]
        lines.append(f'#EXT-X-PRELOAD-HINT:TYPE=PART,URI="part-{count}.m4s"')
        return "\n".join(lines) + "\n"


_MULTIVARIANT = """#EXTM3U
#EXT-X-VERSION:9
#EXT-X-STREAM-INF:BANDWIDTH=400000,CODECS="avc1.42c00c,mp4a.40.2",RESOLUTION=160x90
low/180p/index.m3u8
"""

_HEAD = f"""#EXTM3U
#EXT-X-VERSION:9
#EXT-X-TARGETDURATION:2
#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK={3 * PART}
#EXT-X-PART-INF:PART-TARGET={PART}
#EXT-X-MEDIA-SEQUENCE:0
#EXT-X-MAP:URI="init.mp4\""""


def _parts_of(data: bytes) -> tuple[bytes, list[bytes]]:
    """Split a fragmented MP4 at its `moof` boxes into the init section and the fragments."""
    cuts: list[int] = []
    at = 0
    while at + _TOP_LEVEL_HEADER <= len(data):
        size, name = int.from_bytes(data[at : at + 4]), data[at + 4 : at + 8]
        if name == b"mfra":
            break
        if name == b"moof":
            cuts.append(at)
        at += size
    return data[: cuts[0]], [data[a:b] for a, b in zip(cuts, [*cuts[1:], at], strict=True)]


def _order(seconds: int) -> list[str]:
    return [
        *("-v", "error", "-nostdin"),
        *("-f", "lavfi", "-i", f"testsrc2=size=160x90:rate=30:duration={seconds}"),
        *("-f", "lavfi", "-i", f"sine=frequency=440:sample_rate=48000:duration={seconds}"),
        *("-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-profile:v"),
        *("baseline", "-pix_fmt", "yuv420p", "-g", "60", "-keyint_min", "60"),
        *("-c:a", "aac", "-b:a", "64k", "-frag_duration", str(int(PART * 1_000_000))),
        *("-movflags", "empty_moov+default_base_moof", "-f", "mp4"),
    ]
