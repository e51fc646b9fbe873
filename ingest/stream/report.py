"""The report of a stream's encoders: what each sends, and what its owner should change."""

from collections.abc import Mapping

from ingest.report.advice import advice, compare_encoders
from ingest.stream.ports import LiveState
from ingest.stream.slot_session import SlotSession
from media.encoder_report import SlotReport, StreamReport
from media.stream_keys import Slot


def stream_report(
    state: LiveState | None,
    sessions: Mapping[Slot, SlotSession],
    active: frozenset[str],
    now: float,
) -> StreamReport:
    """Return the report of a stream in that state; None if it is not served here.

    `active` are the labels of the enabled resolutions; `now` is in seconds of the clock that
    measured the packets' arrival.
    """
    measured = {slot: sessions[slot].meter.report(now) for slot in sorted(sessions)}
    return StreamReport(
        live=state is not None and state.live,
        on_air=None if state is None or state.on_air is None else str(state.on_air),
        slots=[
            SlotReport(
                slot=str(slot),
                number=slot.number,
                peer=sessions[slot].publisher.peer,
                connected_seconds=round(now - sessions[slot].meter.began, 1),
                encoder=encoder,
                advice=advice(encoder, active, picture_is_due=sessions[slot].picture_is_due),
            )
            for slot, encoder in measured.items()
        ],
        advice=compare_encoders(measured),
    )
