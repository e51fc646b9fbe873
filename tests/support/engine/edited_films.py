"""Films as editors and recorders leave them: of several edits, or of several configurations."""

# The library leaves the type parameter of its packets open: pyright knows them only partially.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, get_args

import av
from av.container import OutputContainer
from av.packet import Packet, PacketSideData, PktSideDataT
from av.stream import Stream

_NEW_CONFIG: Final = get_args(PktSideDataT).index("new_extradata")
# Seconds by which sound ends before its picture: that of the next film begins as much early,
# to prime the decoder.
_EARLY: Final = 0.025


def edited(film: Path, *edits: tuple[float, float | None]) -> Path:
    """Replace the edit lists of an MP4 of ffmpeg's, whose index is at its end.

    Each edit is a length and where in the film it begins, in seconds; None is an empty edit.
    """
    data = film.read_bytes()
    ((begin, moov),) = [(at, body) for kind, at, body in _boxes(data) if kind == b"moov"]
    (scale,) = struct.unpack_from(">I", _only(moov, b"mvhd"), 12)
    length = round(scale * sum(seconds for seconds, _ in edits))
    body = b""
    for kind, _, content in _boxes(moov):
        if kind == b"mvhd":
            content = content[:16] + struct.pack(">I", length) + content[20:]
        if kind == b"trak":
            content = _with_edits(content, edits, scale, length)
        body += _box(kind, content)
    result = film.with_stem(f"{film.stem}-edited")
    result.write_bytes(data[:begin] + _box(b"moov", body))
    return result


def joined_films(result: Path, *films: Path) -> Path:
    """Join films of the same codecs to one; each later one brings its configurations.

    The result's suffix is its format.
    """
    begin = 0.0
    with av.open(str(result), "w") as container:
        tracks: dict[str, Stream] = {}
        for film in films:
            begin = _append(film, container, tracks, begin)
    return result


def _append(
    film: Path, container: OutputContainer, tracks: dict[str, Stream], begin: float
) -> float:
    """Append a film at the time `begin`; return when its picture ends."""
    with av.open(str(film)) as source:
        streams = [*source.streams.video, *source.streams.audio]
        changed = {stream.index for stream in streams if stream.type in tracks}
        for stream in streams:
            if stream.type not in tracks:
                tracks[stream.type] = container.add_stream_from_template(stream)
        picture = source.streams.video[0]
        end = begin + float((picture.duration or 0) * (picture.time_base or 0))
        for packet in source.demux(streams):
            if packet.dts is None or packet.pts is None:
                continue
            if packet.stream_index in changed:
                changed.remove(packet.stream_index)
                _bring_config(packet)
            offset = round(begin / packet.time_base)
            packet.pts, packet.dts = packet.pts + offset, packet.dts + offset
            ends = (packet.pts + (packet.duration or 0)) * packet.time_base
            if packet.stream is not picture and ends > end - _EARLY:
                continue
            packet.stream = tracks[packet.stream.type]
            container.mux(packet)
    return end


def _bring_config(packet: "Packet[Stream]") -> None:
    config = packet.stream.codec_context.extradata or b""
    # The stubs declare a type that the constructor does not take.
    side_data = PacketSideData(_NEW_CONFIG, len(config))  # pyright: ignore[reportArgumentType, reportCallIssue]
    side_data.update(config)
    packet.set_sidedata(side_data)


def _with_edits(
    trak: bytes, edits: Sequence[tuple[float, float | None]], scale: int, length: int
) -> bytes:
    (ticks,) = struct.unpack_from(">I", _only(_only(trak, b"mdia"), b"mdhd"), 12)
    # Where ffmpeg's own edit begins: B-frames and primed sound begin later than their decoding.
    (first,) = struct.unpack_from(">i", _only(_only(trak, b"edts"), b"elst"), 12)
    entries = b"".join(
        struct.pack(
            ">IiI",
            round(seconds * scale),
            -1 if begin is None else first + round(begin * ticks),
            0x10000,
        )
        for seconds, begin in edits
    )
    elst = _box(b"elst", struct.pack(">II", 0, len(edits)) + entries)
    body = b""
    for kind, _, content in _boxes(trak):
        if kind == b"tkhd":
            content = content[:20] + struct.pack(">I", length) + content[24:]
        body += _box(kind, _box(b"edts", elst)[8:] if kind == b"edts" else content)
    return body


def _boxes(data: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    at = 0
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        yield kind, at, data[at + 8 : at + size]
        at += size


def _only(data: bytes, kind: bytes) -> bytes:
    (body,) = (body for name, _, body in _boxes(data) if name == kind)
    return body


def _box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(body), kind) + body
