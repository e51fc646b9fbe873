"""What a player did, by the clocks of the pictures that it showed."""

import statistics
from collections.abc import Sequence
from typing import Final

import msgspec

__all__ = ["HEADINGS", "Playing", "SeenPicture", "judge", "last_new", "row"]

STOP_MS: Final = 500.0  # a picture that stays for so long has stopped


class SeenPicture(msgspec.Struct, frozen=True):
    """A picture on a screen: when it was seen, and when it was drawn (ms since the epoch)."""

    at: float
    drawn: float


class Playing(msgspec.Struct, frozen=True, kw_only=True):
    """How a player played; times are seconds, None where it showed nothing.

    `before` and `after` are the median latencies before the loss of the encoder and at the end;
    `across` whether it showed pictures that were drawn after the loss. `span` is the time between
    the drawing of the first picture that was shown and that of the last. `stops` counts the times
    at which a picture stayed for more than half a second, `skipped` is the longest time between the
    drawing of two pictures that were shown one after the other.
    """

    started: float | None
    before: float | None
    after: float | None
    across: bool
    span: float
    stops: int
    longest: float
    skipped: float


HEADINGS: Final = (
    "| player | what | first picture after | latency | after the switch | shown | stops | "
    "longest stop | skipped | errors in its log | rungs shed |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)


def judge(shown: Sequence[SeenPicture], opened: float, lost: float, ended: float) -> Playing:
    """Judge what was shown; `opened`, `lost`, `ended` are when it began, lost its encoder, ended.

    All are ms since the epoch. `lost` is the middle of a video, which loses nothing.
    """
    stops, longest, skipped = 0, 0.0, 0.0
    last: SeenPicture | None = None
    for picture in shown:
        if last is None or picture.drawn != last.drawn:
            if last is not None and picture.at - last.at > STOP_MS:
                stops += 1
            if last is not None:
                longest = max(longest, picture.at - last.at)
                skipped = max(skipped, picture.drawn - last.drawn)
            last = picture
    if last is not None and ended - last.at > STOP_MS:
        stops += 1
        longest = max(longest, ended - last.at)
    return Playing(
        started=(shown[0].at - opened) / 1000 if shown else None,
        before=_latency([picture for picture in shown if picture.at < lost]),
        after=_latency([picture for picture in shown if picture.at > (lost + ended) / 2]),
        across=any(picture.drawn > lost for picture in shown),
        span=(shown[-1].drawn - shown[0].drawn) / 1000 if shown else 0.0,
        stops=stops,
        longest=longest / 1000,
        skipped=skipped / 1000,
    )


def last_new(shown: Sequence[SeenPicture]) -> float | None:
    """Return when the last picture was first seen, in ms since the epoch; None if there is none.

    A program may show the last picture of a video until it is ended.
    """
    return next((each.at for each in shown if each.drawn == shown[-1].drawn), None)


def _latency(shown: Sequence[SeenPicture]) -> float | None:
    if not shown:
        return None
    return statistics.median(each.at - each.drawn for each in shown) / 1000


def row(player: str, what: str, playing: Playing, errors: int, shed: int) -> str:
    """Return a row of the table; `what` is "video" where there is no latency and no switch.

    `shed` says how often the service left a rendition out: the machine was too slow for the cell.
    """
    live = what != "video"
    cells = [
        player,
        what,
        _seconds(playing.started),
        _seconds(playing.before) if live else "",
        (_seconds(playing.after) if playing.across else "stopped") if live else "",
        "" if live else f"{playing.span:.1f} s",
        str(playing.stops),
        f"{playing.longest:.1f} s",
        f"{playing.skipped:.1f} s",
        str(errors),
        str(shed),
    ]
    return f"| {' | '.join(cells)} |"


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"
