"""What the console shows of a stream's present state: one word for it, and its encoders. Pure."""

from typing import Final, Literal

import msgspec

from api.console.event_words import slot_name
from api.schemas.urls import Addresses
from media.stream_events import BackOnAirEvent, LiveEvent, SlateEvent, SwitchedEvent
from media.stream_keys import Slot
from storage.catalog.events.kinds import PausedEvent
from storage.catalog.records.common import StreamRecord

# `starting`: an encoder sends, and viewers get nothing yet.
StreamState = Literal["live", "paused", "slate", "starting", "idle"]
# Events since which a stream is in its state: the newest counts.
ON_AIR_EVENTS: Final = (LiveEvent, SwitchedEvent, BackOnAirEvent)
SLATE_EVENTS: Final = (SlateEvent, PausedEvent)


class SlotState(msgspec.Struct, frozen=True, kw_only=True):
    """One ingest address: `slot` as reports name it, `backup` its id (None: the primary).

    `sending`: an encoder sends to it; `on_air`: viewers get that encoder's media now.
    """

    slot: str
    name: str
    backup: int | None
    sending: bool
    on_air: bool
    server: str  # the one of these to show where there is room for one
    rtmp_url: str
    rtmps_url: str


def state_of(record: StreamRecord) -> StreamState:
    """Return what viewers of a stream get."""
    if record.live:
        if record.paused:
            return "paused"
        return "slate" if record.on_air is None else "live"
    return "starting" if record.receiving_count else "idle"


def poster_of(record: StreamRecord, addresses: Addresses) -> str | None:
    """Return the address of a stream's smallest poster, None where it has none yet."""
    labels = record.poster_labels
    return addresses.live_poster(record.hash, labels[0]) if labels else None


def slot_states(record: StreamRecord, addresses: Addresses) -> list[SlotState]:
    """Return a stream's ingest addresses, the primary first."""
    of_backups = sum(backup.live for backup in record.backups)
    # The record counts the encoders that send: one more than the backups that do is the primary.
    sending = record.receiving_count > of_backups
    rows = [(Slot(0), None, sending, record.on_air == 0)]
    rows += [(Slot(each.number), each.id, each.live, each.on_air) for each in record.backups]
    return [
        SlotState(
            slot=str(slot),
            name=slot_name(slot),
            backup=backup,
            sending=sends,
            on_air=on_air,
            server=addresses.encoder_server(slot),
            rtmp_url=addresses.rtmp_ingest(slot),
            rtmps_url=addresses.rtmps_ingest(slot),
        )
        for slot, backup, sends, on_air in rows
    ]
