"""Encoders that write addresses and decoder configurations in ways of their own, and relays."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
import pytest

from media.codecs.avc import nal_units
from media.hls import m3u8
from media.hls.playlist import MediaPlaylist, MultivariantPlaylist
from tests.support.e2e.clock_video import AAC, ONE_RUNG, X264
from tests.support.e2e.flv_tags import AUDIO, VIDEO, Tag, read, sending
from tests.support.e2e.hls_reader import addresses, media
from tests.support.e2e.nginx_push import pushing
from tests.support.e2e.publishers import ffmpeg, gstreamer, publishing, tool
from tests.support.e2e.service import ServiceProcess, fetch
from tests.support.e2e.tcp_relay import relaying
from tests.support.made_media import make_file
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

_HEADER_BYTES: Final = {VIDEO: 5, AUDIO: 2}
_NO_SETS: Final = b"\x01\x64\x00\x1f\xff\xe0\x00"


def plays(stream: ServiceProcess, rendition: str) -> bool:
    answer = fetch(f"{stream.http}/live/{stream.hash}/index.m3u8?latency=normal")
    return answer.status == 200 and f"/{rendition}/" in answer.body.decode()


def has_sound(stream: ServiceProcess) -> bool:
    answer = fetch(f"{stream.http}/api/streams/{stream.number}", token=stream.token)
    return '"no_audio_stream":false' in answer.text


class Event(msgspec.Struct):
    type: str
    subject: str
    facts: dict[str, object]


def events_of(stream: ServiceProcess) -> list[Event]:
    """Return a stream's newest events, newest first."""
    answer = fetch(f"{stream.http}/api/projects/1/events", token=stream.token)
    events = msgspec.convert(answer.json["data"], list[Event])
    return [each for each in events if each.subject == stream.hash]


def kinds(stream: ServiceProcess) -> list[str]:
    """Return the kinds of a stream's newest events, oldest first."""
    return [each.type for each in reversed(events_of(stream))]


def seams(address: str) -> int:
    """Return how many discontinuities a run's playlist has had."""
    playlist = media(address)
    return playlist.discontinuities + sum(each.discontinuity for each in playlist.segments)


def causes(stream: ServiceProcess, kind: str) -> list[object]:
    """Return the causes of a stream's events of a kind."""
    return [each.facts.get("cause") for each in events_of(stream) if each.type == kind]


def in_one_address(source: Path, server: str, key: str) -> list[str]:
    return ffmpeg(source, f"{server}/_definst_/mp4:{key.replace('_', '%5F')}")


def with_white_space(source: Path, server: str, key: str) -> list[str]:
    *command, url = ffmpeg(source, server)
    return [*command, "-rtmp_playpath", f" {key}\n", url]


def from_gstreamer(source: Path, server: str, key: str) -> list[str]:
    return gstreamer(source, f"rtmp2sink location={server}/{key}%20")


@pytest.mark.parametrize("command", [in_one_address, with_white_space, from_gstreamer])
def test_a_stream_goes_live_however_its_address_is_written(
    own_service: ServiceProcess,
    small_source: Path,
    command: Callable[[Path, str, str], list[str]],
) -> None:
    with publishing(command(small_source, own_service.server, own_service.key)):
        poll(lambda: plays(own_service, "360p"), within=30, what="the picture")


def configured(tags: list[Tag], kind: int, config: bytes, *, until_ms: int) -> list[Tag]:
    """Return tags whose configuration of `kind` is another until the right one follows."""
    right = next(tag for tag in tags if tag.kind == kind and tag.is_configuration)
    wrong = Tag(kind, right.time, right.body[: _HEADER_BYTES[kind]] + config)
    others = [tag for tag in tags if tag is not right]
    later = next(place for place, tag in enumerate(others) if tag.time >= until_ms)
    return [
        wrong,
        *others[:later],
        Tag(kind, others[later].time, right.body),
        *others[later:],
    ]


def with_units(tags: list[Tag], change: Callable[[list[bytes]], bytes]) -> list[Tag]:
    """Return tags with changed pictures; `change` gets a picture's NAL units without lengths."""
    return [
        Tag(tag.kind, tag.time, tag.body[:5] + change(nal_units(tag.body[5:], 4)))
        if tag.kind == VIDEO and tag.body[1] == 1
        else tag
        for tag in tags
    ]


def in_annex_b(units: list[bytes]) -> bytes:
    return b"".join(b"\0\0\0\1" + unit for unit in units)


def captioned(units: list[bytes]) -> bytes:
    """Return a picture with a CEA-608 caption (ATSC A/53 part 4, 6.2.3: user data of "GA94")."""
    caption = b"\xb5\x00\x31GA94\x03\x41\xff\xfc\x94\x20\xff"
    message = b"\x06\x04" + bytes((len(caption),)) + caption + b"\x80"
    return b"".join(len(unit).to_bytes(4) + unit for unit in (message, *units))


@pytest.mark.parametrize(
    ("kind", "config", "event", "cause"),
    [
        pytest.param(VIDEO, _NO_SETS, "picture unusable", "a record without parameter sets"),
        pytest.param(AUDIO, b"\x12", "sound unusable", "cut off in the middle of a value"),
        pytest.param(AUDIO, b"", "sound unusable", "it is empty"),
    ],
)
def test_a_configuration_that_cannot_be_read_is_told_and_the_next_one_taken(
    own_service: ServiceProcess,
    small_source: Path,
    kind: int,
    config: bytes,
    event: str,
    cause: str,
) -> None:
    url = f"{own_service.server}/{own_service.key}"
    tags = configured(read(small_source), kind, config, until_ms=4000)
    with sending(tags, url) as encoder:
        poll(lambda: causes(own_service, event), within=20, what=event)
        expected = f"its decoder configuration cannot be read: {cause}"
        assert causes(own_service, event) == [expected]
        poll(lambda: plays(own_service, "360p"), within=20, what="the picture")
        poll(lambda: has_sound(own_service), within=20, what="the sound")
        assert encoder.poll() is None
    assert len(causes(own_service, "encoder on")) == 1


def test_why_annex_b_is_not_live_is_told(own_service: ServiceProcess, small_source: Path) -> None:
    url = f"{own_service.server}/{own_service.key}"
    with sending(with_units(read(small_source), in_annex_b), url) as encoder:
        poll(lambda: causes(own_service, "picture unusable"), within=20, what="the event")
        assert encoder.poll() is None
    (cause,) = causes(own_service, "picture unusable")
    assert "Annex B" in str(cause)


def test_captions_in_the_picture_are_in_every_rendition(
    own_service: ServiceProcess, two_rungs: Path
) -> None:
    url = f"{own_service.server}/{own_service.key}"
    folder = f"{own_service.http}/live/{own_service.hash}"
    with sending(with_units(read(two_rungs), captioned), url):
        poll(lambda: plays(own_service, "360p"), within=30, what="the encoded rendition")
        renditions = m3u8.parse(fetch(f"{folder}/index.m3u8?latency=normal").text)
        assert isinstance(renditions, MultivariantPlaylist)
        assert len(renditions.variants) == 2
        for variant in renditions.variants:
            listed = m3u8.parse(fetch(f"{folder}/{variant.uri}").text)
            assert isinstance(listed, MediaPlaylist)
            segment = f"{folder}/{variant.uri.rpartition('/')[0]}/{listed.segments[0].uri}"
            pictures = round(30 * listed.segments[0].duration / 90_000)
            assert fetch(segment).body.count(b"GA94") == pictures > 30


@pytest.fixture(scope="module")
def long_gops(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source of 15 pictures a second with a keyframe every 4 s; 12 s."""
    path = tmp_path_factory.mktemp("source") / "long.flv"
    make_file(
        [
            tool("ffmpeg"), "-v", "error", "-y",
            "-f", "lavfi", "-i", f"testsrc2=s={ONE_RUNG}:r=15:d=12",
            "-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000:d=12",
            *X264.format(gop=60).split(), *AAC.format(channels=2).split(),
        ],
        path,
        seconds=60,
    )  # fmt: skip
    return path


def test_a_push_of_nginx_that_joins_between_keyframes_makes_one_run(
    own_service: ServiceProcess, long_gops: Path, tmp_path: Path
) -> None:
    """It sends sound at once and its picture seconds later, also when its upstream comes back."""
    stream = own_service
    with (
        relaying(stream.port_of(stream.server)) as road,
        pushing(tmp_path, f"rtmp://127.0.0.1:{road.port}/live/{stream.key}") as url,
    ):

        def join_late() -> None:
            time.sleep(1)
            road.lighten()

        road.darken()
        with publishing(ffmpeg(long_gops, url)):
            join_late()
            poll(lambda: plays(stream, "360p"), within=20, what="the picture")
            first = addresses(stream.playlist)
        road.darken()
        time.sleep(5)
        with publishing(ffmpeg(long_gops, url)):
            join_late()
            poll(lambda: "back on air" in kinds(stream), within=20, what="the picture's return")
            poll(lambda: seams(first["360p"]) == 2, within=20, what="media after the slate")
        assert addresses(stream.playlist) == first
        assert not media(first["360p"]).ended
        shown = ["encoder on", "live", "encoder off", "slate", "encoder on", "back on air"]
        assert [each for each in kinds(stream) if each in {*shown, "off air"}] == shown
