"""Encoders publish, players fetch: the output has all frames of the input, in every rung."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import pytest

from media.hls.playlist import MultivariantPlaylist
from tests.conftest import Proof
from tests.support.e2e.hls_reader import (
    CollectedRendition,
    addresses,
    collect,
    decoder_errors,
    frames,
    has_segments,
    media,
    multivariant,
    picture_digests,
)
from tests.support.e2e.publishers import ffmpeg, gstreamer, publishing
from tests.support.e2e.service import SCALE, ServiceProcess, fetch, without_slate
from tests.support.waiting import poll

pytestmark = pytest.mark.e2e

SECOND = 90_000
FRAME = SECOND // 30
RUNGS = {"720p": (864, 240), "480p": (854, 238), "360p": (640, 178)}


@pytest.fixture
def headend(own_service: ServiceProcess) -> ServiceProcess:
    return own_service


def collect_until_the_end(url: str) -> dict[str, CollectedRendition]:
    """Follow a run as a player does, to its ENDLIST."""
    collected: dict[str, CollectedRendition] = {}

    def ended() -> bool:
        if multivariant(url) is None:
            return False
        # Before collecting, since the last segment may appear in between.
        is_over = all(media(address).ended for address in addresses(url).values())
        collect(url, collected)
        return is_over

    poll(ended, within=60, what="the run's end")
    return collected


def test_every_rung_is_whole_in_step_and_silent_in_ffmpeg(
    headend: ServiceProcess, three_rungs: Path, tmp_path: Path, proof: Proof
) -> None:
    """One run, followed to its end, contains everything that was sent."""
    without_slate(headend)
    with publishing(ffmpeg(three_rungs, f"{headend.server}/{headend.key}")):
        playlist = poll(
            lambda: multivariant(headend.playlist), within=40, what="a multivariant playlist"
        )
        listed = time.time()
        poll(lambda: has_segments(headend.playlist), what="a segment of each rendition")
        first = media(addresses(headend.playlist)["720p"]).segments[0]
        # The wall clock of the first segment is when its first picture came: one GOP (2 s) + 1.5 s.
        assert first.wall_us is not None
        waited = listed - first.wall_us / 1e6
        assert waited <= 3.5 * SCALE
        proof(
            "first keyframe's arrival to its segment in the playlist, 2 s GOP",
            f"{waited:.2f} s",
            "at most 3.5 s",
        )
        collected = collect_until_the_end(headend.playlist)

    rungs = RUNGS
    if headend.has_shed():
        assert SCALE > 1, "a machine of its own makes all rungs"
        rungs = {"720p": RUNGS["720p"]}
        collected = {
            name: rendition for name, rendition in collected.items() if name in {*rungs, "audio"}
        }
    sizes = {(variant.width, variant.height) for variant in playlist.variants}
    assert sizes == set(RUNGS.values()) or rungs != RUNGS
    # The first announcement, by parts, does not know it.
    assert {variant.frame_rate for variant in playlist.variants} <= {0, 30_000}
    assert all(len(variant.codecs) == 2 for variant in playlist.variants)
    assert set(collected) == {*rungs, "audio"}

    files = {
        name: rendition.file(tmp_path / f"{name}.mp4") for name, rendition in collected.items()
    }
    assert {name: decoder_errors(file) for name, file in files.items()} == dict.fromkeys(files, "")

    check_figures(playlist_at_the_end(headend), collected)

    # Out frames = in frames; the top rung is the source's own packets.
    sent = picture_digests(three_rungs)
    assert picture_digests(files["720p"]) == sent
    times = {name: sorted(t for t, _ in frames(files[name])) for name in rungs}
    assert {name: len(found) for name, found in times.items()} == dict.fromkeys(times, len(sent))
    for name in rungs:
        assert times[name] == pytest.approx(times["720p"], abs=0.001)

    # Boundaries: equal in all rungs, 2.000 s each, though scene cuts put keyframes in between.
    numbers = sorted(collected["720p"].segments)
    for name, rendition in collected.items():
        assert sorted(rendition.segments) == numbers, name
        lengths = [rendition.segments[number].duration for number in numbers]
        slack = FRAME if name != "audio" else 1920
        assert all(abs(length - 2 * SECOND) <= slack for length in lengths[:-1]), (name, lengths)
        assert not any(rendition.segments[number].discontinuity for number in numbers)


def playlist_at_the_end(headend: ServiceProcess) -> MultivariantPlaylist:
    playlist = multivariant(headend.playlist)
    assert playlist is not None
    return playlist


def check_figures(playlist: MultivariantPlaylist, collected: dict[str, CollectedRendition]) -> None:
    """Check the multivariant playlist's bit rates against the media."""
    sound = collected["audio"].segments
    for variant in playlist.variants:
        name = variant.uri.split("/")[-2]
        if name not in collected:  # shed
            continue
        segments = collected[name].segments
        rates = [
            8 * (len(segments[n].data) * SECOND / segments[n].duration)
            + 8 * (len(sound[n].data) * SECOND / sound[n].duration)
            for n in segments
        ]
        total = sum(len(segments[n].data) + len(sound[n].data) for n in segments)
        average = 8 * total * SECOND / sum(segment.duration for segment in segments.values())
        assert variant.bandwidth >= max(rates) * 0.99
        assert variant.average == pytest.approx(average, rel=0.15)


def roads(headend: ServiceProcess, source: Path, keys: list[str]) -> dict[str, list[str]]:
    """Return a command for each transport, each with another key."""
    port, secure = headend.port_of(headend.server), headend.port_of(headend.secure_server)
    first, second, third, fourth, fifth, sixth = keys
    return {
        "ffmpeg, IPv4": ffmpeg(source, f"rtmp://127.0.0.1:{port}/live/{first}"),
        "ffmpeg, IPv6": ffmpeg(source, f"rtmp://[::1]:{port}/live/{second}"),
        "ffmpeg, TLS": ffmpeg(source, f"rtmps://localhost:{secure}/live/{third}"),
        "rtmp2sink": gstreamer(source, f"rtmp2sink location=rtmp://127.0.0.1:{port}/live/{fourth}"),
        "rtmpsink": gstreamer(source, f"rtmpsink location=rtmp://127.0.0.1:{port}/live/{fifth}"),
        "rtmpsink, TLS": gstreamer(
            source, f"rtmpsink location=rtmps://127.0.0.1:{secure}/live/{sixth}"
        ),
    }


def test_every_encoder_and_transport_works(
    headend: ServiceProcess, small_source: Path, tmp_path: Path
) -> None:
    """Six encoders at once, over every transport, each into another stream."""
    without_slate(headend)
    records = [headend.add_stream(f"Stream {number}") for number in range(6)]
    commands = roads(headend, small_source, [str(record["stream"]) for record in records])
    with ExitStack() as stack, ThreadPoolExecutor(6) as threads:
        for command in commands.values():
            stack.enter_context(publishing(command))
        urls = [str(record["stream_url"]) for record in records]
        collected_by_way = dict(
            zip(commands, threads.map(collect_until_the_end, urls), strict=True)
        )
    sent = picture_digests(small_source)
    for way, collected in collected_by_way.items():
        files = {
            name: rendition.file(tmp_path / f"{way}-{name}.mp4")
            for name, rendition in collected.items()
        }
        assert set(files) == {"360p", "audio"}, way
        silent = {name: decoder_errors(file) for name, file in files.items()}
        assert silent == dict.fromkeys(files, ""), way
        arrived = picture_digests(files["360p"])
        if way.startswith("ffmpeg"):
            assert arrived == sent, way
        else:
            # GStreamer's parser adds parameter sets and keeps its last picture at the end.
            assert len(arrived) >= len(sent) - 2, way


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param("a key of no stream", marks=pytest.mark.prove),
        "a wrong secret",
        pytest.param("no key", marks=pytest.mark.prove),
        "no such backup",
    ],
)
def test_a_wrong_key_is_refused_and_never_logged(
    headend: ServiceProcess, small_source: Path, wrong: str
) -> None:
    nobody = "0b8e4a52-6d7c-4f3a-9a8e-1c2d3e4f5a6b"
    server = headend.server
    match wrong:
        case "a key of no stream":
            name = f"AAAAAAAAAAAA_{nobody}"
        case "a wrong secret":
            name = f"{headend.hash}_{nobody}"
        case "no such backup":
            name, server = headend.key, f"{server}-backup-2"
        case _:
            name = "x"
    before = len(headend.log.read_text())
    with publishing(ffmpeg(small_source, f"{server}/{name}")) as encoder:
        assert encoder.wait(timeout=10 * SCALE) != 0
    log = headend.log.read_text()[before:]
    assert "refused" in log
    assert nobody not in log
    assert headend.key not in log
    assert headend.key.split("_")[1] not in log
    # An encoder with the right key is still accepted.
    with publishing(ffmpeg(small_source, f"{headend.server}/{headend.key}")):
        poll(lambda: multivariant(headend.playlist), within=15, what="a playlist")


def test_the_record_follows_the_life_of_the_stream(
    headend: ServiceProcess, small_source: Path
) -> None:
    def flags() -> dict[str, object]:
        answer = fetch(f"{headend.http}/api/streams/{headend.number}", token=headend.token)
        record = cast("dict[str, object]", answer.json["data"])  # JSON
        return {name: record[name] for name in ("live", "published")}

    assert flags() == {"live": False, "published": False}
    assert fetch(headend.playlist).status == 404
    with publishing(ffmpeg(small_source, f"{headend.server}/{headend.key}")):
        poll(lambda: flags()["live"], within=15, what="live")
        assert flags() == {"live": True, "published": True}
    poll(lambda: not flags()["live"], within=15, what="off air")
    assert flags() == {"live": False, "published": True}
    # Where all that took less than a second, the first answer still counts.
    poll(lambda: fetch(headend.playlist).status == 200, within=2, what="the playlist")
