"""Decodes the output of engines as a player would."""

import array
import io
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import av
from av.audio.frame import AudioFrame
from av.container import InputContainer

from tests.support.engine.engine_process import EngineOutput
from tests.support.engine.sources import ffmpeg
from tests.support.memory_folder import memory_folder

_BRIGHT = 120
_LOUD = 0.2
_QUIET_SECONDS = 0.3


def warnings(output: EngineOutput) -> dict[str, str]:
    """Decode each rendition with Debian's ffmpeg, and return its messages by rendition."""
    return warnings_of([(name, file) for name in output.names for file in output.files(name)])


def warnings_of(files: Sequence[tuple[str, bytes]]) -> dict[str, str]:
    """Decode named files with Debian's ffmpeg, and return its messages by name."""
    # One run for all, since starting ffmpeg is half the work; if it complains, one run per file.
    if not _messages(file for _, file in files):
        return {}
    return {name: text for name, file in files if (text := _messages([file]))} or {
        "all at once": _messages(file for _, file in files)
    }


def _messages(files: Iterable[bytes]) -> str:
    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        sources: list[str | Path] = []
        sinks: list[str] = []
        for number, file in enumerate(files):
            place = Path(folder) / f"{number}.mp4"
            place.write_bytes(file)
            # A second thread costs more than it saves on pictures this small.
            sources += ["-threads", "1", "-i", place]
            # The default time base is one over the frame rate, too coarse for a variable rate.
            sinks += ["-map", str(number), "-enc_time_base", "-1", "-f", "null", "-"]
        return ffmpeg("-filter_threads", "1", *sources, *sinks) if sources else ""


def packets(data: bytes) -> list[tuple[int, int, bytes]]:
    """Return decode time, presentation time and bytes of a file's samples, in its timescale."""
    samples: list[tuple[int, int, bytes]] = []
    with av.open(io.BytesIO(data), "r") as container:
        for packet in container.demux():
            if packet.dts is not None and packet.pts is not None:
                samples.append((packet.dts, packet.pts, bytes(packet)))
    return samples


def frames(data: bytes) -> list[tuple[int, int, int]]:
    """Return time, width and height of a file's frames, in presentation order."""
    with av.open(io.BytesIO(data), "r") as container:
        return [
            (frame.pts, frame.width, frame.height)
            for frame in container.decode(video=0)
            if frame.pts is not None
        ]


def shape(data: bytes) -> float:
    """Return the display aspect ratio of a file."""
    with av.open(io.BytesIO(data), "r") as container:
        (stream,) = container.streams.video
        aspect = stream.sample_aspect_ratio or 1
        return float(stream.width * aspect / stream.height)


def loudness(data: bytes) -> list[tuple[float, float]]:
    """Return the time in seconds and the peak sample of each audio frame of a file."""
    with av.open(io.BytesIO(data), "r") as container:
        return [
            (frame.time or 0.0, max(abs(sample) for sample in _samples(frame)))
            for frame in container.decode(audio=0)
        ]


def onsets(data: bytes, channel: int = 0) -> tuple[list[float], list[float]]:
    """Return the times in seconds at which the picture turns bright and a channel loud."""
    with av.open(io.BytesIO(data), "r") as container:
        flashes = _flashes(container) if container.streams.video else []
    with av.open(io.BytesIO(data), "r") as container:
        beeps = _beeps(container, channel) if container.streams.audio else []
    return flashes, beeps


def _flashes(container: InputContainer) -> list[float]:
    times: list[float] = []
    was_bright = False
    for frame in container.decode(video=0):
        luma = bytes(frame.planes[0])[::331]
        is_bright = sum(luma) > _BRIGHT * len(luma)
        if is_bright and not was_bright:
            times.append(frame.time)
        was_bright = is_bright
    return times


def _beeps(container: InputContainer, channel: int) -> list[float]:
    times: list[float] = []
    loud = -1.0
    for frame in container.decode(audio=0):
        for index, sample in enumerate(_samples(frame, channel)):
            if abs(sample) > _LOUD:
                time = (frame.time or 0.0) + index / frame.sample_rate
                if time - loud > _QUIET_SECONDS:
                    times.append(time)
                loud = time
    return times


def _samples(frame: AudioFrame, channel: int = 0) -> Sequence[float]:
    return array.array("f", bytes(frame.planes[channel])[: 4 * frame.samples])
