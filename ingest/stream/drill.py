"""A failover drill: the session on air counts as silent until another has taken over.

Times are seconds of the event loop's clock.
"""

import asyncio
from typing import Final

from ingest.stream.slot_session import SlotSession

# How long the caller waits; a switch takes as long as detection does, at most 2 s by default.
DRILL_SECONDS: Final = 20.0
# What a switch may take beyond detection: a tick, and a busy event loop.
_MARGIN_SECONDS: Final = 1.0

Facts = dict[str, object]


class DrillRefused(Exception):
    """A drill is impossible or was cancelled; the message is for the owner."""


def require_time(detect_seconds: float) -> None:
    """Refuse a drill that would take too long.

    Raises:
        DrillRefused: a switch takes longer than the caller waits.
    """
    if detect_seconds > DRILL_SECONDS - _MARGIN_SECONDS:
        raise DrillRefused(
            f"a switch takes {detect_seconds:g} s, as detect_seconds is set; "
            f"a drill may take {DRILL_SECONDS:g} s"
        )


class FailoverDrill:
    """One drill, from its beginning on; either `complete` or `cancel` ends it.

    `outcome` gets the facts of the switch, or a `DrillRefused`.
    """

    def __init__(self, session: SlotSession, now: float) -> None:
        self.session = session
        self.outcome: asyncio.Future[Facts] = asyncio.get_running_loop().create_future()
        self._began = now
        session.cut_off(now)

    def complete(self, to: SlotSession, gap_ms: int, now: float) -> None:
        """Deliver the facts of the switch."""
        self.session.restore(now)
        if not self.outcome.done():
            self.outcome.set_result(
                {
                    "from": str(self.session.slot),
                    "to": str(to.slot),
                    "gap_ms": gap_ms,
                    "switched_after_ms": round(1000 * (now - self._began)),
                }
            )

    def cancel(self, reason: str, now: float) -> None:
        """Deliver why there was no switch."""
        self.session.restore(now)
        if not self.outcome.done():
            self.outcome.set_exception(DrillRefused(reason))
