"""Films with embedded subtitles, made by Debian's ffmpeg."""

from collections.abc import Sequence
from pathlib import Path

from tests.support.engine.sources import ffmpeg

# Language and title for the container, and the text as SubRip.
Track = tuple[str, str, str]
GERMAN: Track = (
    "ger",
    "Deutsch",
    "1\n00:00:02,000 --> 00:00:04,000\nGuten Morgen\n\n2\n00:00:20,000 --> 00:00:22,000\nEnde\n",
)
ENGLISH: Track = (
    "eng",
    "English",
    "1\n00:00:02,000 --> 00:00:04,000\nGood <i>morning</i>\n\n"
    "2\n00:00:20,000 --> 00:00:22,000\nThe end\n",
)
_USUAL = {".mp4": "mov_text", ".mov": "mov_text", ".mkv": "srt", ".webm": "webvtt"}


def subtitled(
    path: Path, tracks: Sequence[Track], *, seconds: float = 6, shift: float = 0, codec: str = ""
) -> Path:
    """Make a film with these tracks, whose timestamps begin at `shift` seconds."""
    inputs: list[str | Path] = []
    facts: list[str] = []
    for number, (language, title, words) in enumerate(tracks):
        file = path.with_suffix(f".{number}.srt")
        file.write_text(words, encoding="utf-8")
        inputs += ["-i", file]
        facts += ["-map", str(number + 1)]
        facts += [f"-metadata:s:s:{number}", f"language={language}"]
        facts += [f"-metadata:s:s:{number}", f"title={title}"]
    ffmpeg(
        *("-f", "lavfi", "-i", f"testsrc2=s=320x180:r=25:d={seconds}", *inputs, "-map", "0"),
        *(*facts, "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", "50"),
        *("-c:s", codec or _USUAL[path.suffix], "-output_ts_offset", str(shift), "-y", path),
    )
    return path
