"""The report of a stream's encoders: what each sends, and what its owner should change."""

from collections.abc import Mapping

from ingest.report.advice import advice, compare_encoders
from ingest.stream.encoder_watch import EncoderWatch
from ingest.stream.ports import LiveState
from ingest.stream.slot_session import SlotSession
from media.encoder_report import AlignmentReport, SlotReport, StreamReport
from media.stream_keys import Slot


def stream_report(
    state: LiveState | None,
    sessions: Mapping[Slot, SlotSession],
    active: frozenset[str],
    now: float,
    watch: EncoderWatch | None = None,
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
                alignment=None if watch is None else alignment_of(watch, slot, sessions),
                faults=[] if watch is None else list(watch.faults(slot, now)),
            )
            for slot, encoder in measured.items()
        ],
        advice=compare_encoders(measured),
    )


def alignment_of(
    watch: EncoderWatch, slot: Slot, sessions: Mapping[Slot, SlotSession]
) -> AlignmentReport | None:
    """Return how far a slot's encoder is behind the reference; None if it is not compared."""
    alignment, reference = watch.alignment(slot), watch.reference
    if alignment is None or reference is None or reference not in sessions:
        return None
    offset = alignment.offset
    delay = sessions[slot].arrival_clock.delay
    reference_delay = sessions[reference].arrival_clock.delay
    behind = (
        None
        if offset is None or delay is None or reference_delay is None
        else offset + delay - reference_delay
    )
    return AlignmentReport(
        reference=str(reference),
        behind_ms=None if behind is None else round(1000 * behind),
        confidence=round(alignment.confidence, 2),
        method=alignment.method,
        reason=alignment.reason,
    )
