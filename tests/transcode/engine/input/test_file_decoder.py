"""A file's own decoders: every frame has its time, in the order of showing."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import av
import pytest
from av.container import InputContainer
from av.error import FFmpegError

from tests.support.engine.upload_files import film
from transcode.engine.input.file_decoder import FileDecoders, FileVideoDecoder

CODING = ("-c:v", "libx264", "-bf", "2", "-g", "25", "-c:a", "aac")


@contextmanager
def opened(folder: Path, *, sound: str | None = "mono") -> Generator[InputContainer]:
    """Open a film of 25 pictures, with B-frames."""
    with av.open(film(folder / "a.mp4", *CODING, seconds=1, sound=sound)) as container:
        yield container


def shown(container: InputContainer, *, timed: bool) -> tuple[list[int | None], list[int]]:
    """Return the times of the frames that come out, and those of the packets that went in."""
    picture = container.streams.video[0]
    decoder = FileVideoDecoder(picture, timed=timed)
    frames: list[int | None] = []
    times: list[int] = []
    for packet in container.demux(picture):
        if packet.pts is None or packet.dts is None:
            continue
        times.append(packet.pts)
        frames += [frame.pts for frame in decoder.decode(bytes(packet), packet.dts, packet.pts)]
    frames += [frame.pts for frame in decoder.drain()]
    assert not decoder.all_failed
    return frames, times


@pytest.mark.parametrize("timed", [True, False])
def test_frames_come_in_the_order_of_their_times(tmp_path: Path, timed: bool) -> None:
    with opened(tmp_path) as container:
        frames, times = shown(container, timed=timed)
    assert len(frames) == 25
    assert frames == sorted(times)
    assert times != sorted(times)  # or there would be nothing to put in order


@pytest.mark.parametrize(
    ("codec", "errors"),
    [pytest.param("libx264", 2, id="reported"), pytest.param("mpeg2video", 0, id="dropped")],
)
def test_damaged_packets_without_times_do_not_shift_later_frames(
    tmp_path: Path, codec: str, errors: int
) -> None:
    path = film(tmp_path / "a.ts", "-c:v", codec, "-bf", "2", "-g", "50", seconds=2, sound=None)
    with av.open(path) as container:
        picture = container.streams.video[0]
        decoder = FileVideoDecoder(picture, timed=False)
        frames: list[int | None] = []
        raised = number = 0
        for packet in container.demux(picture):
            if not packet.size:
                continue
            data = b"\xff" * packet.size if number in {14, 21} else bytes(packet)
            try:
                frames += [frame.pts for frame in decoder.decode(data, number, number)]
            except FFmpegError:
                raised += 1
            number += 1
        frames += [frame.pts for frame in decoder.drain()]
    assert (number, len(frames), raised) == (50, 48, errors)
    assert frames[:10] == list(range(10))
    assert frames[-20:] == list(range(30, 50))


def test_a_decoder_that_gives_nothing_is_known(tmp_path: Path) -> None:
    with opened(tmp_path) as container:
        decoder = FileVideoDecoder(container.streams.video[0], timed=True)
        assert not decoder.all_failed  # nothing went in yet
        with pytest.raises(FFmpegError):
            decoder.decode(b"\0\0\0\x05nonse", 0, 0)
        assert decoder.drain() == []
        assert decoder.all_failed


def test_sound_is_decoded_whole(tmp_path: Path) -> None:
    with opened(tmp_path) as container:
        sound = container.streams.audio[0]
        decoder = FileDecoders(None, (sound,), timed=True).audio()
        samples = 0
        for packet in container.demux(sound):
            if packet.pts is not None:
                samples += sum(each.samples for each in decoder.decode(bytes(packet), packet.pts))
        samples += sum(each.samples for each in decoder.drain())
    assert abs(samples - 44_100) <= 2 * 1024  # whole frames of AAC


def test_a_track_that_is_not_there_has_no_decoder(tmp_path: Path) -> None:
    with opened(tmp_path, sound=None) as container:
        decoders = FileDecoders(container.streams.video[0], (), timed=True)
        assert decoders.video() is decoders.video_decoder
        with pytest.raises(LookupError):
            decoders.audio()
        with pytest.raises(LookupError):
            FileDecoders(None, (), timed=True).video()
