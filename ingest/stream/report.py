"""A stream's encoders, as their owner is told of them: what they send, and what to change."""

from collections.abc import Mapping

from ingest.report.advice import advice, compare
from ingest.stream.ports import LiveState
from ingest.stream.slot_session import Seat
from media.encoder_report import SlotReport, StreamReport
from media.stream_keys import Slot

__all__ = ["report_of"]


def report_of(
    state: LiveState | None, seats: Mapping[Slot, Seat], active: frozenset[str], now: float
) -> StreamReport:
    """Return the report of a stream that stands as `state` says; None: it is not served here.

    `active` are the labels of the resolutions that are switched on; `now` is in seconds of the
    clock by which packets came.
    """
    measured = {slot: seats[slot].meter.report(now) for slot in sorted(seats)}
    return StreamReport(
        live=state is not None and state.live,
        on_air=None if state is None or state.on_air is None else str(state.on_air),
        slots=[
            SlotReport(
                slot=str(slot),
                number=slot.number,
                peer=seats[slot].publisher.peer,
                connected_seconds=round(now - seats[slot].meter.began, 1),
                encoder=encoder,
                advice=advice(encoder, active),
            )
            for slot, encoder in measured.items()
        ],
        advice=compare(measured),
    )
