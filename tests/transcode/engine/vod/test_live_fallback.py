"""Uploaded files through the ladder: every frame in step in every rung, whatever its coding."""

import itertools
from pathlib import Path

import pytest

from media.ladder import AUDIO_RENDITION
from tests.support.engine.decoded_output import frames, loudness, onsets, packets, warnings
from tests.support.engine.engine_process import EngineOutput
from tests.support.engine.sources import TONE, ffmpeg, source_of
from tests.support.engine.upload_files import FLASHES, film, made_of, make_for, read, refusal
from transcode.engine.codec.decode import PacketData
from transcode.engine.input.container import open_upload
from transcode.engine.input.demux import decode_times, demux
from transcode.engine.vod.live_fallback import PacketScan, has_short_segments, interleave
from transcode.protocol.messages import EpochFinished, InitSection, Packet, Prepared, Probed

SECOND = 90_000
X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-sc_threshold", "0")
EVERY_2_S = ("-g", "50", "-keyint_min", "50")


def whole(output: EngineOutput, *, seconds: float = 3) -> bool:
    """Whether all renditions are there to the end, in step, and silent in ffmpeg."""
    assert warnings(output) == {}
    assert output.in_step()
    for name in output.names:
        lengths = [segment.duration for segment in output.segments(name)]
        assert abs(sum(lengths) / SECOND - seconds) < 0.15, name
        assert max(lengths) <= 4.1 * SECOND
        assert not any(segment.gap for segment in output.segments(name))
        stamps = [dts for file in output.files(name) for dts, _, _ in packets(file)]
        assert all(a < b for a, b in itertools.pairwise(stamps))
    return True


def in_sync(output: EngineOutput, *, within: float = 0.06) -> bool:
    """Whether flashes and beeps come out together, at the times of the source."""
    rung = next(name for name in output.names if name != AUDIO_RENDITION)
    flashes, _ = onsets(output.files(rung)[0])
    _, beeps = onsets(output.files(AUDIO_RENDITION)[0])
    wanted = [10 + FLASHES + second for second in range(len(flashes))]
    assert len(flashes) >= 3
    assert len(beeps) == len(flashes)
    for times in (flashes, beeps):
        for time, due in zip(times, wanted, strict=True):
            assert abs(time - due) < within, (flashes, beeps)
    return True


@pytest.mark.parametrize(
    ("name", "coding"),
    [
        pytest.param("a.mp4", (*X264, "-bf", "2", "-c:a", "aac"), id="mp4, its index at the end"),
        pytest.param("a.mkv", (*X264, "-bf", "2", "-c:a", "libopus", "-ar", "48000"),
                     id="mkv", marks=pytest.mark.prove),
        pytest.param(
            "a.webm",
            (
                *("-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8"),
                *("-c:a", "libopus", "-ar", "48000"),
            ),
            id="webm, VP9 and Opus",
        ),
        pytest.param("a.ts", (*X264, "-bf", "2", "-c:a", "aac"), id="MPEG-TS"),
        pytest.param("a.avi", ("-c:v", "mpeg4", "-bf", "2", "-c:a", "pcm_s16le"), id="AVI, MPEG-4"),
        pytest.param("a.mpg", ("-c:v", "mpeg2video", "-bf", "2", "-c:a", "mp2"),
                     id="MPEG-PS", marks=pytest.mark.prove),
        pytest.param("a.flv", (*X264, "-c:a", "libmp3lame"),
                     id="FLV, MP3", marks=pytest.mark.prove),
        pytest.param("a.mov", (*X264, "-c:a", "alac"), id="MOV, ALAC", marks=pytest.mark.prove),
        pytest.param("a.mkv", ("-c:v", "libx265", "-preset", "ultrafast", "-x265-params",
                               "log-level=none:bframes=3", "-c:a", "aac"), id="HEVC"),
        pytest.param("b.webm", ("-c:v", "libvpx", "-deadline", "realtime", "-c:a", "libvorbis"),
                     id="webm, VP8 and Vorbis", marks=pytest.mark.prove),
    ],
)  # fmt: skip
def test_files_of_every_make_go_through_whole_and_in_sync(
    tmp_path: Path, name: str, coding: tuple[str, ...]
) -> None:
    output = made_of(film(tmp_path / name, *coding))
    assert whole(output)
    assert in_sync(output)
    assert output.troubles == {}


def test_every_picture_of_the_file_is_in_every_rung(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mp4", *X264, "-bf", "2", "-c:a", "aac", size=(854, 96))
    output = made_of(path, reuse=False)
    assert output.names == ["360p", "480p", AUDIO_RENDITION]
    assert whole(output)
    for name in ("360p", "480p"):
        (file,) = output.files(name)
        assert [pts for pts, _, _ in frames(file)] == [
            10 * SECOND + index * SECOND // 25 for index in range(75)
        ]


def test_the_file_lends_its_own_packets_where_its_keyframes_come_in_time(tmp_path: Path) -> None:
    coding = (*X264, *EVERY_2_S, "-profile:v", "high", "-bf", "2", "-c:a", "aac")
    path = film(tmp_path / "a.mp4", *coding, seconds=6, size=(854, 96))
    output = made_of(path)
    (prepared,) = output.of(Prepared)
    assert prepared.reused == "480p"
    assert whole(output, seconds=6)
    (file,) = output.files("480p")
    assert [data for _, _, data in packets(file)] == source_of(path).published
    assert output.starts("360p") == output.starts("480p") == [10 * SECOND, 12 * SECOND, 14 * SECOND]


@pytest.mark.parametrize("gop", [250, pytest.param(9_999, marks=pytest.mark.prove)])
def test_a_file_with_few_keyframes_is_encoded_from_its_beginning(tmp_path: Path, gop: int) -> None:
    path = film(tmp_path / "a.mp4", *X264, "-g", str(gop), "-c:a", "aac", seconds=9)
    output = made_of(path)
    (prepared,) = output.of(Prepared)
    assert prepared.reused is None
    assert not any(segment.discontinuity for segment in output.segments("240p"))
    assert whole(output, seconds=9)


def test_a_rotated_picture_comes_out_upright(tmp_path: Path) -> None:
    lying, standing = tmp_path / "lying.mp4", tmp_path / "standing.mp4"
    film(lying, *X264, *EVERY_2_S, "-c:a", "aac", size=(640, 72))
    ffmpeg("-i", lying, "-c", "copy", "-metadata:s:v", "rotate=90", "-y", standing)
    output = made_of(standing)
    assert whole(output)
    assert output.names == ["360p", AUDIO_RENDITION]
    (file,) = output.files("360p")
    assert {(width, height) for _, width, height in frames(file)} == {(72, 640)}


def test_odd_sizes_and_other_chroma_become_even_and_ordinary(tmp_path: Path) -> None:
    output = made_of(film(tmp_path / "a.mp4", *X264, "-c:a", "aac", size=(607, 69), form="yuv444p"))
    assert whole(output)
    (file,) = output.files("360p")
    assert {(width, height) for _, width, height in frames(file)} == {(606, 68)}
    assert {init.codecs[:9] for init in output.of(InitSection)} == {"avc1.6400", "mp4a.40.2"}


def test_a_file_without_sound_is_silent_to_its_end(tmp_path: Path) -> None:
    output = made_of(film(tmp_path / "a.mp4", *X264, sound=None))
    assert whole(output)
    (file,) = output.files(AUDIO_RENDITION)
    assert max(loud for _, loud in loudness(file)) < 0.001


def test_sound_alone_is_a_rendition_alone(tmp_path: Path) -> None:
    ffmpeg("-f", "lavfi", "-i", TONE, "-t", "5", "-ac", "1", "-y", tmp_path / "a.mp3")
    output = made_of(tmp_path / "a.mp3")
    assert output.names == [AUDIO_RENDITION]
    assert warnings(output) == {}
    lengths = [segment.duration for segment in output.segments(AUDIO_RENDITION)]
    assert abs(sum(lengths) / SECOND - 5) < 0.1
    (file,) = output.files(AUDIO_RENDITION)
    assert max(loud for _, loud in loudness(file)) > 0.05


def test_sound_alone_of_two_tracks_is_heard_on_the_left_and_on_the_right(tmp_path: Path) -> None:
    for_sides = [
        word
        for begin in ("0.5", "1.5")
        for word in ("-f", "lavfi", "-i", f"{TONE},volume=0:enable='not(between(t,{begin},9))'")
    ]
    ffmpeg(*for_sides, "-map", "0", "-map", "1", "-t", "3", "-y", tmp_path / "a.m4a")
    output = made_of(tmp_path / "a.m4a")
    (file,) = output.files(AUDIO_RENDITION)
    for channel, begin in enumerate((10.5, 11.5)):
        assert onsets(file, channel)[1] == pytest.approx([begin], abs=0.05)


def test_times_that_begin_late_begin_at_the_beginning(tmp_path: Path) -> None:
    path = film(tmp_path / "a.ts", *X264, "-c:a", "aac", "-output_ts_offset", "9000")
    output = made_of(path)
    assert whole(output)
    assert in_sync(output)


def test_parts_as_short_as_segments_are_joined_where_their_clock_begins_again(
    tmp_path: Path,
) -> None:
    part = film(tmp_path / "part.ts", *X264, "-bf", "2", "-c:a", "aac", seconds=1)
    (tmp_path / "joined.ts").write_bytes(part.read_bytes() * 4)
    output = made_of(tmp_path / "joined.ts", reuse=False)
    assert whole(output, seconds=4)
    (file,) = output.files("240p")
    assert len(frames(file)) == 4 * 25


def test_a_file_that_is_cut_off_gives_what_is_there(tmp_path: Path) -> None:
    film(tmp_path / "a.mkv", *X264, "-c:a", "aac", seconds=8)
    data = (tmp_path / "a.mkv").read_bytes()
    (tmp_path / "cut.mkv").write_bytes(data[: len(data) // 2])
    output = made_of(tmp_path / "cut.mkv")
    assert output.in_step()
    (finished,) = output.of(EpochFinished)
    assert 2 < finished.end / SECOND - 10 < 6


def test_damage_in_the_middle_costs_pictures_and_not_the_film(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mkv", *X264, "-g", "12", "-c:a", "aac", seconds=6)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 2_000] = bytes(2_000)
    path.write_bytes(data)
    output = made_of(path)
    assert output.in_step()
    (finished,) = output.of(EpochFinished)
    assert abs(finished.end / SECOND - 16) < 0.2


def test_a_file_whose_pictures_cannot_be_decoded_is_refused(tmp_path: Path) -> None:
    path = film(tmp_path / "a.mkv", *X264, "-bsf:v", "noise=amount=1", sound=None)
    order = make_for(Probed(container="", length_us=0, width=320, height=180))
    assert refusal_of_video(path, order)


def refusal_of_video(path: Path, order: object) -> bool:
    output = read("video", path, order)  # pyright: ignore[reportArgumentType]  # a Make
    return output.status == 0 and "refused" in str(output.reports[-1]).lower()


def test_a_text_is_refused_here_too(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_text("no film")
    order = make_for(Probed(container="", length_us=0, width=320, height=180))
    assert refusal(tmp_path / "a.mp4", "video", order).startswith("The file cannot be read")


# -- pure -----------------------------------------------------------------------------------------


def scan(*keys: float, end: float) -> PacketScan:
    ticks = tuple(round(key * SECOND) for key in keys)
    return PacketScan(first=0, end=round(end * SECOND), size=1, keys=ticks, timed=True)


@pytest.mark.parametrize(
    ("keys", "end", "expected"),
    [
        pytest.param((0, 2, 4, 6), 8, True, id="every 2 s"),
        pytest.param((0, 1, 2, 3, 4), 5, True, id="every second"),
        pytest.param((0, 3.9, 7.8), 10, True, id="every 3.9 s"),
        pytest.param((0, 5), 6, False, id="too far apart"),
        pytest.param((0, 1.9, 4.4), 6, False, id="one too early, the next too late"),
        pytest.param((0,), 4, True, id="one is enough for 4 s"),
        pytest.param((0,), 4.5, False, id="a long end"),
        pytest.param((1, 3), 5, False, id="it begins without one"),
        pytest.param((), 3, False, id="none"),
    ],
)
def test_a_film_is_of_one_piece_where_its_keyframes_bound_every_segment(
    keys: tuple[float, ...], end: float, expected: bool
) -> None:
    is_short = has_short_segments(scan(*keys, end=end), cut=2 * SECOND, longest=4 * SECOND)
    assert is_short is expected


def test_decode_times_rise_and_are_never_after_the_times_of_showing() -> None:
    pts_order = [0, 120, 40, 80, 240, 160, 200]
    decoded = decode_times(pts_order)
    assert decoded == (-40, 0, 40, 80, 120, 160, 200)
    assert all(dts <= pts for dts, pts in zip(decoded, pts_order, strict=True))
    assert decode_times([]) == ()


def packet(dts: int, *, video: bool, size: int = 1) -> Packet:
    return Packet(video=video, dts=dts, pts=dts, key=True, data=bytes(size))


def test_tracks_stored_apart_are_read_in_the_order_of_their_times() -> None:
    pictures = [packet(time, video=True) for time in range(0, 100, 10)]
    sounds = [packet(time, video=False) for time in range(5, 105, 10)]
    came = list(interleave([*pictures, *sounds]))
    assert [each.dts for each in came] == list(range(0, 100, 5))
    assert len(came) == 20


def test_left_and_right_that_are_stored_apart_are_read_by_their_times(tmp_path: Path) -> None:
    silence = ("-f", "lavfi", "-i", "anullsrc=r=8000:cl=mono:d=1")
    ffmpeg(*silence, *silence, "-map", "0", "-map", "1", "-c:a", "aac", "-y", tmp_path / "a.m4a")
    with (tmp_path / "a.m4a").open("rb") as file, open_upload(file.fileno()) as upload:
        apart = sorted(demux(upload, [*upload.streams.audio]), key=lambda each: each.stream_index)
        times = [each.dts or 0 for each in apart]
        packets = [
            Packet(video=False, dts=dts, pts=dts, key=True, data=PacketData(each))
            for each, dts in zip(apart, times, strict=True)
        ]
        assert times != sorted(times)
        assert [each.dts for each in interleave(packets, 2)] == sorted(times)


def test_what_is_held_back_is_bounded() -> None:
    pictures = (packet(time, video=True, size=8 << 20) for time in range(100))
    packets = interleave(pictures)
    first = next(packets)
    assert first.dts == 0
    assert next(pictures).dts < 10
