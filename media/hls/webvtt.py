"""Renders WebVTT files and cue text. Pure.

Times are milliseconds. Source: W3C WebVTT, sections 4.1 (files), 4.2.2 (cue text); RFC 8216, 3.5
(X-TIMESTAMP-MAP, which maps cue times to the media's clock).
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

_BLANK: Final = re.compile(r"\n[ \t]*(?=\n|$)")
# Not allowed in a payload: controls, and the two Unicode line separators.
_CONTROLS: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f\u2028\u2029]")


class Cue(msgspec.Struct, frozen=True, gc=False):
    """A cue shown from `start` until `end`; `text` is cue text or metadata."""

    start: int
    end: int
    text: str


def timestamp(milliseconds: int) -> str:
    """Return a WebVTT timestamp with hours: `00:01:02.345`.

    Raises:
        ValueError: the time is negative.
    """
    if milliseconds < 0:
        raise ValueError(f"a time of {milliseconds} ms")
    seconds, rest = divmod(milliseconds, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02}:{minute:02}:{second:02}.{rest:03}"


def escape(text: str) -> str:
    """Escape plain text as cue text, so that it cannot contain markup or end its cue."""
    return render_runs([(text, "")])


def render_runs(runs: Iterable[tuple[str, str]]) -> str:
    """Render runs of plain text with their styles (of `b`, `i` and `u`) as cue text.

    Returns "" if there is no visible text.
    """
    pieces: list[str] = []
    is_text = False
    for text, styles in runs:
        plain = _CONTROLS.sub(" ", text.replace("\r\n", "\n").replace("\r", "\n"))
        is_text = is_text or bool(plain.strip())
        plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        opening = "".join(f"<{style}>" for style in styles)
        closing = "".join(f"</{style}>" for style in reversed(styles))
        pieces.append(f"{opening}{plain}{closing}" if plain.strip() else plain)
    return _BLANK.sub("", "".join(pieces)).strip("\n \t") if is_text else ""


def render(cues: Iterable[Cue], *, ticks: int | None = None) -> str:
    """Render a file of cues; their time 0 is at `ticks` (90 000 a second) of the media.

    Raises:
        ValueError: a cue ends before it begins, begins before 0, or its text would end it.
    """
    opening = "WEBVTT\n"
    if ticks is not None:
        opening += f"X-TIMESTAMP-MAP=MPEGTS:{ticks},LOCAL:{timestamp(0)}\n"
    blocks = [opening]
    for cue in cues:
        if cue.end <= cue.start or not cue.text or "\n\n" in cue.text or "-->" in cue.text:
            raise ValueError(f"no cue: {cue.start} to {cue.end} ms, {cue.text[:80]!r}")
        blocks.append(f"{timestamp(cue.start)} --> {timestamp(cue.end)}\n{cue.text}\n")
    return "\n".join(blocks)


def numbers(cue: Cue, step: int, count: int) -> range:
    """Return the numbers, from 0, of the segments in which a cue is shown.

    `count` segments of `step` milliseconds each; what is shown after the last is in that one.
    """
    last = count - 1
    return range(min(cue.start // step, last), min((cue.end - 1) // step, last) + 1)


def split(cues: Sequence[Cue], step: int, count: int) -> list[list[Cue]]:
    """Return the cues of `count` segments of `step` milliseconds each.

    A cue that is shown in several segments is in each of them (RFC 8216, 3.5).
    """
    segments: list[list[Cue]] = [[] for _ in range(count)]
    for cue in cues:
        for number in numbers(cue, step, count):
            segments[number].append(cue)
    return segments
