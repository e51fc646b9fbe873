"""Turns the settings of streams and the reports on their encoders into bodies.

Streams themselves are presented by `api.schemas.presenter`.
"""

import msgspec
from msgspec.structs import asdict

from api.http.conditional import edit_tag
from api.http.operation import Call
from api.schemas.timestamps import format_timestamp
from api.schemas.urls import Addresses
from api.streams.schemas import EncoderBody, IngestReport, SettingsBody, SlateBody, StreamChanged
from media.encoder_report import SlotReport, StreamReport
from media.run_policy import RunPolicy
from storage.catalog.records.common import StreamRecord
from storage.catalog.records.settings import OwnerSettings
from storage.catalog.streams.holds import is_held


def settings_tag(record: OwnerSettings) -> str:
    """Return the tag of what a change of settings may change (see `api.http.conditional`)."""
    return edit_tag(*(getattr(record, field) for field in RunPolicy.__struct_fields__))


def present_settings(record: OwnerSettings, addresses: Addresses) -> SettingsBody:
    """Return the settings of a stream or a project."""
    picture = None if record.slate is None else addresses.slate(record.slate)
    values = asdict(record) | {"slate": SlateBody(picture=picture)}
    return msgspec.convert(values, SettingsBody, from_attributes=True)


def stream_changed(
    call: Call[StreamRecord], message: str, changed: StreamRecord | None
) -> StreamChanged:
    """Return the answer to a change of the stream, which the catalog returned.

    Raises:
        ApiError: 404 if it was deleted since.
    """
    stream = call.presenter.stream(call.still_there(changed), show_key=True)
    return StreamChanged(message=message, stream=stream)


def present_report(
    report: StreamReport, stream: StreamRecord, now_us: int | None = None
) -> IngestReport:
    """Return what a stream's encoders send, with the ids of the backups that they feed.

    With `now_us` it says whether encoders are refused then.
    """
    backups = {backup.number: backup.id for backup in stream.backups}
    return IngestReport(
        live=report.live,
        on_air=report.on_air,
        slots=[_encoder(slot, backups.get(slot.number)) for slot in report.slots],
        advice=report.advice,
        held_until=None if now_us is None else _held_until(stream, now_us),
        host=report.host,
    )


def _held_until(stream: StreamRecord, now_us: int) -> str | None:
    held_until_us = stream.held_until_us
    return format_timestamp(held_until_us) if is_held(held_until_us, now_us) else None


def _encoder(slot: SlotReport, backup: int | None) -> EncoderBody:
    values = asdict(slot.encoder) | asdict(slot) | {"backup_id": backup}
    return msgspec.convert(values, EncoderBody, from_attributes=True)
