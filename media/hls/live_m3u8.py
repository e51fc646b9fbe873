"""Renders the playlist of a live timeline as text, with low-latency tags or without.

Source: draft-pantos-hls-rfc8216bis, sections 4.4.3.7 (EXT-X-PART-INF), 4.4.3.8
(EXT-X-SERVER-CONTROL), 4.4.4.9 (EXT-X-PART), 4.4.5.2 (EXT-X-SKIP), 4.4.5.3 (EXT-X-PRELOAD-HINT),
4.4.5.4 (EXT-X-RENDITION-REPORT) and 6.2.5.1 (delta updates).
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from media.hls.m3u8 import (
    ENDLIST,
    VERSION,
    SegmentLines,
    header,
    seconds_text,
    uri_text,
)
from media.hls.playlist import MediaPlaylist, RenditionReport
from media.hls.timeline import Timeline

# The version that EXT-X-SKIP needs (section 8). No other low-latency tag needs a higher version
# than any media playlist, and players without low latency ignore those tags.
_DELTA_VERSION: Final = 9


def render_timeline(
    timeline: Timeline,
    *,
    low_latency: bool,
    skip: bool = False,
    reports: Iterable[RenditionReport] = (),
) -> str:
    """Render the playlist of a timeline, with a line feed at the end.

    Without `low_latency` it lists closed segments only. `skip` requests a delta update
    (`_HLS_skip`), which omits segments that are older than the skip boundary. Every rendition's
    playlist should have the `reports` of all others.
    """
    if not low_latency:
        texts = [_header(timeline), _segments(timeline, parts=False)]
    else:
        skipped = timeline.count_skippable() if skip and not timeline.ended else 0
        texts = [
            _header(timeline, version=_DELTA_VERSION if skipped else VERSION),
            _control(timeline),
            f"#EXT-X-SKIP:SKIPPED-SEGMENTS={skipped}\n" if skipped else "",
            _segments(timeline, parts=True, skipped=skipped),
            _hint(timeline.hint) if timeline.hint is not None else "",
            *map(_report, reports),
        ]
    return "".join([*texts, ENDLIST if timeline.ended else ""])


def _header(timeline: Timeline, *, version: int = VERSION) -> str:
    opening = MediaPlaylist(
        target=timeline.target,
        sequence=timeline.sequence,
        discontinuities=timeline.discontinuities,
    )
    return header(opening, version=version, live=True)


def _control(timeline: Timeline) -> str:
    return _control_text(
        timeline.part_target, timeline.part_hold_back, timeline.hold_back, timeline.skip_boundary
    )


@lru_cache
def _control_text(part_target: int, part_hold_back: int, hold_back: int, skip_boundary: int) -> str:
    attributes = ["CAN-BLOCK-RELOAD=YES"]
    if part_target:
        attributes.append(f"PART-HOLD-BACK={seconds_text(part_hold_back)}")
    attributes.append(f"HOLD-BACK={seconds_text(hold_back)}")
    attributes.append(f"CAN-SKIP-UNTIL={seconds_text(skip_boundary)}")
    control = f"#EXT-X-SERVER-CONTROL:{','.join(attributes)}\n"
    if not part_target:
        return control
    return f"{control}#EXT-X-PART-INF:PART-TARGET={seconds_text(part_target)}\n"


def _segments(timeline: Timeline, *, parts: bool, skipped: int = 0) -> str:
    return SegmentLines().join(timeline.portions(parts=parts, skipped=skipped))


def _hint(uri: str) -> str:
    return f'#EXT-X-PRELOAD-HINT:TYPE=PART,URI="{uri}"\n'


@lru_cache(1024)  # each is in the playlists of all other renditions
def _report(report: RenditionReport) -> str:
    last_part = "" if report.last_part is None else f",LAST-PART={report.last_part}"
    attributes = f'URI="{uri_text(report.uri)}",LAST-MSN={report.last_msn}{last_part}'
    return f"#EXT-X-RENDITION-REPORT:{attributes}\n"
