"""Reads a stream as a player does: its playlists, its media, and ffmpeg's verdict on them."""

import hashlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import urljoin

import av

from media.codecs.avc import nal_units
from media.hls import m3u8
from media.hls.playlist import MediaPlaylist, MultivariantPlaylist
from tests.support.e2e.publishers import tool
from tests.support.e2e.service import fetch

T = TypeVar("T")
_PARAMETER_SETS = (7, 8)  # nal_unit_type


def multivariant(url: str) -> MultivariantPlaylist | None:
    """Fetch the multivariant playlist; None while there is none."""
    answer = fetch(url)
    if answer.status == 404:
        return None
    assert answer.status == 200, answer
    playlist = m3u8.parse(answer.text)
    assert isinstance(playlist, MultivariantPlaylist)
    return playlist


def media(url: str) -> MediaPlaylist:
    """Fetch a media playlist."""
    answer = fetch(url)
    assert answer.status == 200, (url, answer)
    playlist = m3u8.parse(answer.text)
    assert isinstance(playlist, MediaPlaylist)
    return playlist


def has_segments(url: str) -> bool:
    """Return whether each playlist lists a segment; at first there are parts alone."""
    if multivariant(url) is None:
        return False
    return all(media(address).segments for address in addresses(url).values())


def addresses(url: str) -> dict[str, str]:
    """Return the URLs of a stream's media playlists by rendition, including audio."""
    playlist = multivariant(url)
    assert playlist is not None
    uris = [variant.uri for variant in playlist.variants]
    uris += [sound.uri for sound in playlist.sounds]
    return {uri.split("/")[-2]: urljoin(url, uri) for uri in dict.fromkeys(uris)}


def run_of(url: str) -> str:
    """Return the name of the run in the multivariant playlist."""
    return addresses(url)["audio"].split("/")[-3]


def last_sequence(url: str) -> int:
    """Return the number of the last segment that the sound's playlist lists."""
    playlist = media(addresses(url)["audio"])
    return playlist.sequence + len(playlist.segments) - 1


@dataclass
class CollectedRendition:
    """All media that a rendition's playlist has listed, in order."""

    inits: dict[str, bytes] = field(default_factory=dict[str, bytes])
    segments: dict[int, "CollectedSegment"] = field(default_factory=dict[int, "CollectedSegment"])

    def file(self, path: Path) -> Path:
        """Write init sections and segments to one file, in order."""
        with path.open("wb") as file:
            init = ""
            for number in sorted(self.segments):
                segment = self.segments[number]
                if segment.init != init:
                    init = segment.init
                    file.write(self.inits[init])
                file.write(segment.data)
        return path

    def stretches(self, path: Path) -> list[Path]:
        """Write one file per range between discontinuities, as players decode them."""
        files: list[Path] = []
        init, number = "", 0
        for place in sorted(self.segments):
            segment = self.segments[place]
            if not files or segment.discontinuity or segment.init != init or place != number + 1:
                init = segment.init
                files.append(path.with_name(f"{path.stem}-{len(files)}{path.suffix}"))
                files[-1].write_bytes(self.inits[init])
            number = place
            with files[-1].open("ab") as file:
                file.write(segment.data)
        return files


@dataclass(frozen=True)
class CollectedSegment:
    """A segment and its playlist entry."""

    init: str
    duration: int
    discontinuity: bool
    wall_us: int | None
    data: bytes


def has_ended(url: str) -> bool:
    """Return whether all playlists of a stream or video have their ENDLIST."""
    return all(media(address).ended for address in addresses(url).values())


def collect(url: str, into: dict[str, CollectedRendition]) -> bool:
    """Fetch the listed objects that are new; every listed object must exist.

    Return whether that was all: each of these playlists has its ENDLIST.
    """
    ended = True
    for rendition, address in addresses(url).items():
        collected = into.setdefault(rendition, CollectedRendition())
        playlist = media(address)
        ended = ended and playlist.ended
        for number, segment in enumerate(playlist.segments, playlist.sequence):
            if number in collected.segments or segment.gap:
                continue
            assert segment.map_uri is not None
            init = urljoin(address, segment.map_uri)
            if init not in collected.inits:
                collected.inits[init] = _bytes(init)
            data = _bytes(urljoin(address, segment.uri))
            collected.segments[number] = CollectedSegment(
                init, segment.duration, segment.discontinuity, segment.wall_us, data
            )
    return ended


def _bytes(url: str) -> bytes:
    answer = fetch(url)
    assert answer.status == 200, (url, answer.status)
    return answer.body


def decoder_errors(path: Path) -> str:
    """Return ffmpeg's messages while it decodes a file; empty if it finds no error."""
    result = subprocess.run(
        # The default time base is one over the frame rate, too coarse for a variable rate.
        [
            *(tool("ffmpeg"), "-v", "warning", "-i", str(path)),
            *("-enc_time_base", "-1", "-f", "null", "-"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stderr


def picture_digests(path: Path) -> list[str]:
    """Return a digest of each coded H.264 picture, which repackaging does not change.

    Parameter sets are left out: whether they are in band is up to those who package.
    """
    digests: list[str] = []
    with av.open(str(path)) as container:
        for packet in container.demux(video=0):
            if packet.size:
                units = nal_units(bytes(packet), 4)
                pictures = [unit for unit in units if unit[0] & 0x1F not in _PARAMETER_SETS]
                digests.append(hashlib.sha256(b"".join(pictures)).hexdigest())
    return digests


def frames(path: Path) -> Iterator[tuple[float, bool]]:
    """Yield the time in seconds and the keyframe flag of each packet, in file order."""
    with av.open(str(path)) as container:
        stream = container.streams[0]
        for packet in container.demux(stream):
            if packet.pts is not None:
                yield float(packet.pts * packet.time_base), packet.is_keyframe
