"""Clips are byte for byte what was live, made during the stream or after its end."""

import io
from pathlib import Path
from typing import Any, Final

import av
import msgspec
import pytest

from api.schemas.timestamps import format_timestamp, parse_timestamp
from tests.support.e2e.clock_video import (
    WRAP_MS,
    PlaylistArchive,
    ReceivedPicture,
    apart,
    archiving,
    encoder,
    read,
)
from tests.support.e2e.hls_reader import addresses, media
from tests.support.e2e.publishers import publishing
from tests.support.e2e.service import SCALE, Answer, ServiceProcess, fetch, service
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

TOP: Final = "360p"
# The shortest allowed window: the first segments leave it soon.
SHORT: Final = {
    "HEADEND_LIVE__LISTED_SECONDS": "12",
    "HEADEND_LIVE__KEPT_SECONDS": "30",
    "HEADEND_LIVE__GOODBYE_SECONDS": "0",
    "HEADEND_STORAGE__MIN_FREE_BYTES": "0",
}
Json = dict[str, Any]  # Any: what the tests are about to find out


class Match:
    """A stream that was or is live, with everything its playlists listed."""

    def __init__(self, headend: ServiceProcess, live: PlaylistArchive, folder: Path) -> None:
        self.headend = headend
        self.live = live
        self.folder = folder
        self.shown: dict[str, list[int | None]] = {}  # the clocks of a clip's pictures, by its hash
        # How long (ms) after the clock in its first picture a clip begins, by the stream's clock.
        self.delays: list[int] = []

    @property
    def newest(self) -> int:
        """The number of the newest segment that every rendition had."""
        numbers = [rendition.segments for rendition in self.live.held.values()]
        return min((max(segments, default=-1) for segments in numbers), default=-1)

    def wall_us(self, number: int) -> int:
        """Return a segment's start time according to its playlist."""
        wall_us = self.live.held[TOP].segments[number].wall_us
        assert wall_us is not None
        return wall_us

    def ask(self, from_us: int, to_us: int) -> Answer:
        """Request a clip."""
        return fetch(
            f"{self.headend.http}/api/streams/{self.headend.number}/clips",
            method="POST",
            token=self.headend.token,
            body={"from": format_timestamp(from_us), "to": format_timestamp(to_us)},
        )

    def clip(self, first: int, last: int) -> Json:
        """Make a clip from the middle of one segment to the middle of another; return the video."""
        half_us = 500_000
        answer = self.ask(self.wall_us(first) + half_us, self.wall_us(last) + half_us)
        assert answer.status == 201, answer.text
        response: Json = answer.json
        begins_us = parse_timestamp(response["clip"]["from"])
        assert begins_us is not None
        assert abs(begins_us - self.wall_us(first)) <= 1000  # playlists show milliseconds
        video: Json = response["video"]
        assert (video["completed"], video["published"]) == (True, True)
        self.plays(video, first, last)
        return video

    def plays(self, video: Json, first: int, last: int) -> None:
        """Check that a video consists of these segments: the same bytes, the same pictures."""
        numbers = range(first, last + 1)
        url = f"{self.headend.http}/videos/{video['hash']}/index.m3u8"
        clip = PlaylistArchive(url)
        clip.refresh()
        assert set(clip.held) == set(self.live.held)
        for name, rendition in clip.held.items():
            expected = [self.live.held[name].segments[number].data for number in numbers]
            assert [
                segment.data for _, segment in sorted(rendition.segments.items())
            ] == expected, name
            playlist = media(addresses(url)[name])
            assert (playlist.ended, playlist.whole) == (True, True)
        # The clock in the pictures runs from the first segment to the last.
        clocks = stamps(clip.pictures(TOP, self.folder / str(video["hash"])))
        assert None not in clocks
        self.shown[str(video["hash"])] = clocks
        live = stamps(self.live.pictures(TOP, self.folder / "live"))
        begin = live.index(clocks[0])
        assert live[begin : begin + len(clocks)] == clocks
        with av.open(url) as player:
            assert sum(1 for _ in player.decode(video=0)) == len(clocks)
        assert clocks[0] is not None
        self.delays.append(apart(self.wall_us(first) // 1000 % WRAP_MS, clocks[0]))

    def poses(self, video: Json) -> bool:
        """Return whether the poster of a clip is a picture of it."""
        poster = fetch(f"{self.headend.http}/videos/{video['hash']}/poster/{TOP}.jpg")
        if poster.status != 200:  # the stream may have had none
            return False
        with av.open(io.BytesIO(poster.body), "r", format="jpeg_pipe") as jpeg:
            clock, _ = read(next(jpeg.decode(video=0)))
        return clock in self.shown[str(video["hash"])]

    def recordings(self) -> list[Json]:
        """Return the videos that are longer than the clips."""
        url = f"{self.headend.http}/api/projects/1/videos"
        videos = fetch(url, token=self.headend.token).json["data"]
        return [each for each in msgspec.convert(videos, list[Json]) if each["length"] > 12]


def stamps(pictures: list[ReceivedPicture]) -> list[int | None]:
    return [picture.stamp for picture in pictures]


def test_a_clip_is_what_was_live(tmp_path: Path) -> None:
    with (
        service(tmp_path / "data", environment=SHORT) as headend,
        archiving(headend.playlist, patient=True) as live,
    ):
        match = Match(headend, live, tmp_path)
        with publishing(encoder(f"{headend.server}/{headend.key}")):
            poll(lambda: match.newest >= 8, within=60, what="nine segments")
            assert media(addresses(headend.playlist)[TOP]).sequence > 0
            of_window = match.clip(4, 6)
            poll(lambda: match.poses(of_window), within=20, what="a poster of its own")
            of_recording_under_way = match.clip(0, 2)
            late = match.ask(match.wall_us(6), match.wall_us(6) + 3_600_000_000)
            assert late.status == 422
            assert "Not all of this time is kept. There is 20" in late.text
        poll(lambda: media(addresses(headend.playlist)[TOP]).ended, within=20, what="ENDLIST")
        poll(match.recordings, within=20, what="its recording")
        (recording,) = match.recordings()
        of_recording = match.clip(1, 5)
        deletion = fetch(
            f"{headend.http}/api/videos/{recording['id']}", method="DELETE", token=headend.token
        )
        assert deletion.status == 204, deletion.text
        match.plays(of_window, 4, 6)
        match.plays(of_recording_under_way, 0, 2)
        match.plays(of_recording, 1, 5)
        # All clips begin where requested: the offset is always the same, the encoder's delay.
        assert len(match.delays) == 6
        assert max(match.delays) - min(match.delays) < 100, match.delays
        assert abs(match.delays[0]) < 5000 * SCALE
