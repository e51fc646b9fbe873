"""The sound over a splice, alone and with the picture."""

import itertools
import random
from pathlib import Path

import msgspec
import pytest

from media.hls.segment import Segment
from media.ladder import AUDIO_RENDITION
from media.track import AudioCodec, AudioTrack
from tests.support.engine.decoded_output import loudness, onsets, packets, warnings
from tests.support.engine.engine_process import ORIGIN, run
from tests.support.engine.sources import Source, ffmpeg, source_of
from tests.support.engine.splices import (
    SECOND,
    SHIFT,
    is_whole,
    pictures_of,
    shown,
    since,
    sound_is_gapless,
    source_to_splice,
    spliced,
    up_to,
)
from transcode.protocol.messages import Spliced


@pytest.fixture(scope="module")
def source(folder: Path) -> Source:
    return source_to_splice(folder)


def retuned(folder: Path, source: Source, *coding: str) -> Source:
    """The same picture with another sound."""
    path = folder / f"splice-{'-'.join(coding).replace('/', '')}.flv"
    old = folder / "splice.flv"
    ffmpeg("-i", old, "-c:v", "copy", "-c:a", "aac", *coding, "-f", "flv", "-y", path)
    other = source_of(path)
    assert [each.data for each in other.pictures] == [each.data for each in source.pictures]
    return other


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("-ac", "2"), id="stereo"),
        pytest.param(("-ar", "48000", "-b:a", "64k"), id="another rate", marks=pytest.mark.prove),
        pytest.param(("-af", "adelay=900:all=1"), id="silent at first"),
    ],
)
def test_sound_of_another_form_continues(
    folder: Path, source: Source, change: tuple[str, ...]
) -> None:
    output = run(spliced(up_to(source, 2_700), since(retuned(folder, source, *change), 1_500)))
    assert is_whole(output)
    assert sound_is_gapless(output)
    assert max(level for _, level in loudness(output.files(AUDIO_RENDITION)[0])[-20:]) > 0.05


@pytest.mark.parametrize("comes", [True, False])
def test_sound_that_comes_or_goes_is_silence(source: Source, comes: bool) -> None:
    first, second = (mute(source), source) if comes else (source, mute(source))
    output = run(spliced(up_to(first, 2_700), since(second, 1_500)))
    assert is_whole(output)
    assert sound_is_gapless(output)
    levels = loudness(output.files(AUDIO_RENDITION)[0])
    start = ORIGIN / SECOND
    before = max(level for at, level in levels if at < start + 2.5)
    after = max(level for at, level in levels if at > start + 2.9)
    assert (before > 0.05, after > 0.05) == (first.audio is not None, second.audio is not None)


def test_sound_that_comes_late_finds_silence(source: Source) -> None:
    late = since(source, 1_500)
    first = late.pictures[0].pts
    packets = tuple(each for each in late.packets if each.video or each.pts > first + 1_500)
    output = run(spliced(up_to(source, 2_700), msgspec.structs.replace(late, packets=packets)))
    assert output.troubles.keys() <= {"sound missing"}
    assert sound_is_gapless(output)
    assert not any(segment.discontinuity for segment in output.of(Segment))


def mute(source: Source) -> Source:
    packets = tuple(packet for packet in source.packets if packet.video)
    return msgspec.structs.replace(source, audio=None, packets=packets)


def alone(source: Source) -> Source:
    packets = tuple(packet for packet in source.packets if not packet.video)
    return msgspec.structs.replace(source, video=None, packets=packets)


def test_sound_alone_continues_to_the_sample(source: Source) -> None:
    first, second = alone(up_to(source, 2_700)), alone(since(source, 1_500, lead=0))
    output = run(spliced(first, second))
    assert (output.status, output.troubles, warnings(output)) == (0, {}, {})
    assert output.of(Spliced) == [Spliced(epoch=1, reused=None)]
    (file,) = output.files(AUDIO_RENDITION)
    times = [pts for _, pts, _ in packets(file)]
    assert {after - before for before, after in itertools.pairwise(times)} == {1024}
    seconds = (len(first.packets) + len(second.packets)) * 1024 / 44_100
    assert len(times) * 1024 / 48_000 == pytest.approx(seconds, abs=0.1)
    assert not any(segment.discontinuity for segment in output.of(Segment))


def test_sound_with_an_unknown_codec_leaves_the_picture_whole(source: Source) -> None:
    broken = AudioTrack(codec=AudioCodec.OPUS, config=b"no head", rate=48_000, channels=2)
    second = msgspec.structs.replace(since(source, 1_500), audio=broken)
    output = run(spliced(up_to(source, 2_700), second))
    assert output.status == 0
    pictures = [*up_to(source, 2_700).pictures, *second.pictures]
    assert len(shown(output, "144p")) == len(pictures)
    assert sound_is_gapless(output)


# -- picture and sound together -------------------------------------------------------------------


@pytest.fixture(scope="module")
def pulses(folder: Path) -> Source:
    """12 s that flash and beep 0.4 s into each second, with a keyframe every second."""
    path = folder / "splice-pulses.flv"
    when = "gte(t,0.4)*lt(mod(t-0.4,1),0.1)"
    black = "color=black:s=256x48:r=30:d=12"
    ffmpeg(
        *("-f", "lavfi", "-i", f"{black},drawbox=c=white:t=fill:enable='{when}'"),
        *("-f", "lavfi", "-i", f"aevalsrc='0.8*sin(2*PI*1000*t)*{when}':s=44100:d=12"),
        *("-c:v", "libx264", "-preset", "superfast", "-bf", "2", "-g", "30", "-keyint_min", "30"),
        *("-sc_threshold", "0", "-c:a", "aac", "-b:a", "128k", "-f", "flv", "-y", path),
    )
    return source_of(path)


@pytest.mark.parametrize(
    "reuse",
    [pytest.param(True, id="lent", marks=pytest.mark.prove), pytest.param(False, id="encoded")],
)
def test_picture_and_sound_stay_together_over_ten_splices(
    pulses: Source, folder: Path, reuse: bool
) -> None:
    flashes, beeps = onsets((folder / "splice-pulses.flv").read_bytes())
    usual = beeps[0] - flashes[0]
    chance = random.Random(10)
    pieces: list[Source] = []
    for number in range(11):
        start = chance.randrange(0, 8)
        # Cut off where it is dark and quiet, so that each flash and beep is whole.
        end = (start + chance.randrange(2, 4)) * 1_000 + chance.randrange(-350, 250)
        pieces.append(since(up_to(pulses, end), start * 1_000, SHIFT * number))
    output = run(spliced(*pieces, reuse=reuse))
    assert is_whole(output)
    assert sound_is_gapless(output)
    seen, _ = onsets(output.files(pictures_of(output)[0])[0])
    _, heard = onsets(output.files(AUDIO_RENDITION)[0])
    assert len(seen) == len(heard) > 20
    offsets = [sound - sight - usual for sight, sound in zip(seen, heard, strict=True)]
    assert max(abs(offset) for offset in offsets) <= 0.045
