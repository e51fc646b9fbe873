"""Files of the corpus with odd tracks: very many, flagged, protected, or noise."""

from functools import partial
from pathlib import Path
from typing import Final

from tests.support.engine.sources import ffmpeg
from tests.support.transcode.corpus_bytes import (
    changed,
    element,
    flv_of_noise,
    inserted,
    scrambled,
)
from tests.support.transcode.corpus_clips import AAC, X264, Maker, clip, covered
from tests.support.transcode.corpus_items import FAST, MPEG2, OPUS, PLAIN, Item

_TINY: Final = (160, 90)
_NO_PICTURE: Final = "The picture cannot be decoded: the file is damaged, cut off or protected."
_ENCRYPTED: Final = "The file is encrypted (DRM): it can be played with a key only."
_CENC: Final = (
    *("-encryption_scheme", "cenc-aes-ctr", "-encryption_key", "76a6c65c5ea762046bd749a2e632ccbb"),
    *("-encryption_kid", "a7e61c373e219033c21091fa607bf3b8"),
)
_FILM: Final = clip(*PLAIN, size=_TINY)
# Without indexes, so that it can grow.
_LIVE_WEBM: Final = clip("-c:v", "libvpx", *FAST, *OPUS, "-live", "1", size=_TINY)


def _joined(*options: str, others: tuple[tuple[str, ...], ...], maps: tuple[str, ...]) -> Maker:
    """Return a maker that remuxes a film and other inputs; `maps` are the tracks in order."""

    def make(path: Path) -> None:
        whole = path.with_name("whole.mkv")
        _FILM(whole)
        inputs = [word for other in others for word in ("-f", "lavfi", "-i", *other)]
        tracks = [word for each in maps for word in ("-map", each)]
        ffmpeg("-i", whole, *inputs, *tracks, "-t", "3", *options, "-y", path)

    return make


def _noise(seed: int, path: Path) -> None:
    path.write_bytes(flv_of_noise(seed))


def _key_id(webm: bytes) -> bytes:
    """Return a WebM whose first track is declared encrypted (WebM Encryption, section 3)."""
    key = element(0x5035, element(0x47E1, b"\x05") + element(0x47E2, b"0123456789abcdef"))
    coding = element(0x6240, element(0x5031, b"\0") + element(0x5033, b"\x01") + key)
    return inserted(webm, 0xAE, element(0x6D80, coding))


def _as_cbcs(mp4: bytes) -> bytes:
    return mp4.replace(b"schm\0\0\0\0cenc", b"schm\0\0\0\0cbcs")


def _with_fonts(path: Path) -> None:
    """Make an MKV with attached fonts for its subtitles."""
    whole, font = path.with_name("whole.mkv"), path.with_name("font.ttf")
    _FILM(whole)
    font.write_bytes(bytes(2_000))
    fonts = [
        word
        for index in range(100)
        for word in ("-attach", font, f"-metadata:s:t:{index}", "mimetype=font/ttf")
    ]
    ffmpeg("-i", whole, "-c", "copy", *fonts, "-y", path)


_DARK: Final = ("color=black:s=160x90:r=25:d=3",)
_LARGER: Final = ("color=black:s=320x180:r=25:d=3",)
_QUIET: Final = ("anullsrc=r=8000:cl=mono:d=3",)
_MONO_AAC: Final = (*AAC, "-ac", "1", "-ar", "44100")
_TWO: Final = ("0:v", "0:a", "1")
_PAIRED: Final = "Two tracks of sound with one channel each were taken for left and right."

ODD_TRACKS: Final = (
    Item(
        "many-tracks.mkv",
        "70 tracks of sound, and the picture after them",
        _joined(
            *("-c:a", "pcm_s16le", "-c:a:0", "copy", "-c:v", "copy"),
            others=(_QUIET,),
            maps=("0:a", *("1",) * 69, "0:v"),
        ),
        size=_TINY,
        own=True,
        kept=True,
    ),
    Item(
        "left-right.mov",
        "MOV of a camera, left and right in tracks of their own",
        _joined("-c:v", "copy", *_MONO_AAC, others=(_QUIET,), maps=_TWO),
        size=_TINY,
        own=True,
        warning=_PAIRED,
    ),
    Item(
        "left-right.mxf",
        "the same, MXF with MPEG-2 and PCM",
        _joined(*MPEG2, "-ac", "1", "-ar", "48000", others=(_QUIET,), maps=_TWO),
        size=_TINY,
        warning=_PAIRED,
    ),
    Item(
        "two-languages.mkv",
        "two tracks of sound with one channel, in two languages",
        _joined(
            *("-c:v", "copy", *_MONO_AAC),
            *("-metadata:s:a:0", "language=eng", "-metadata:s:a:1", "language=deu"),
            others=(_QUIET,),
            maps=_TWO,
        ),
        size=_TINY,
        own=True,
        kept=True,
        warning="Other tracks of sound were left out.",
    ),
    Item(
        "fonts.mkv",
        "100 fonts attached",
        _with_fonts,
        size=_TINY,
        own=True,
        kept=True,
    ),
    Item(
        "default-picture.mkv",
        "two pictures of a size, the second the default",
        _joined(
            *("-c", "copy", "-c:v:0", "libx264", "-disposition:v:0", "0"),
            *("-disposition:v:1", "default"),
            others=(_DARK,),
            maps=("1", "0:v", "0:a"),
        ),
        size=_TINY,
        own=True,
        kept=True,
    ),
    Item(
        "default-smaller.mp4",
        "two pictures, the smaller one the default",
        _joined(
            *("-c", "copy", "-c:v:0", "libx264", "-disposition:v:0", "0"),
            *("-disposition:v:1", "default"),
            others=(_LARGER,),
            maps=("1", "0:v", "0:a"),
        ),
        size=_TINY,
        own=True,
        kept=True,
    ),
    Item(
        "cover-first.mkv",
        "a still image, flagged as the default, before the picture",
        _joined(
            *("-c", "copy", "-c:v:0", "mjpeg", "-disposition:v:0", "default"),
            *("-disposition:v:1", "0"),
            others=(("color=red:s=640x360:r=25:d=0.04,format=yuvj420p",),),
            maps=("1", "0:v", "0:a"),
        ),
        size=_TINY,
        own=True,
        kept=True,
    ),
    Item(
        "cover-attached.mp4",
        "a cover larger than the picture",
        covered(_FILM, "mp4", "-disposition:v:1", "attached_pic"),
        size=_TINY,
        own=True,
        kept=True,
    ),
    Item("encrypted-cenc.mp4", "MP4, encrypted (cenc)", clip(*PLAIN, *_CENC), refused=_ENCRYPTED),
    Item(
        "encrypted-cbcs.mp4",
        "MP4, encrypted (cbcs)",
        changed(clip(*PLAIN, *_CENC), _as_cbcs),
        refused=_ENCRYPTED,
    ),
    Item("encrypted.webm", "WebM, encrypted", changed(_LIVE_WEBM, _key_id), refused=_ENCRYPTED),
    Item(
        "scrambled.ts",
        "MPEG-TS, scrambled",
        changed(clip(*X264, *AAC, size=_TINY), scrambled),
        refused=_NO_PICTURE,
    ),
    Item(
        "noise.flv",
        "FLV whose pictures and sound are noise",
        partial(_noise, 39),
        refused="The picture has a format that cannot be decoded.",
    ),
)
