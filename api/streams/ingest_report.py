"""What a stream's encoders send, as it was measured where they come in, and what to change."""

from http import HTTPStatus
from typing import Final

import msgspec
from litestar import get
from litestar.di import NamedDependency

from api.http.errors import ApiError, documented
from api.http.parameters import RecordId
from api.streams.command_client import Ingest
from api.streams.lookup import LOOKS, STREAM, Call, stream_of
from media.encoder_report import (
    ClockReport,
    NetworkReport,
    PictureReport,
    SlotReport,
    SoundReport,
    StreamReport,
)
from storage.catalog import Catalog
from storage.catalog.records.common import StreamRecord

__all__ = ["HANDLERS", "Encoder", "IngestData", "IngestReport"]

_NO_INGEST: Final = (
    "No process takes encoders in now, so nothing is known of them; try again in a moment."
)
_RETRY_SECONDS: Final = "5"


class Encoder(msgspec.Struct, frozen=True, kw_only=True):
    """An encoder that is connected; `backup_id` is null in the primary's place."""

    slot: str
    backup_id: int | None
    peer: str
    connected_seconds: float
    video: PictureReport | None
    audio: SoundReport | None
    network: NetworkReport
    clock: ClockReport
    advice: list[str]


class IngestReport(msgspec.Struct, frozen=True, kw_only=True):
    """All encoders of a stream; `on_air` is the slot that viewers get now."""

    live: bool
    on_air: str | None
    slots: list[Encoder]
    advice: list[str]


class IngestData(msgspec.Struct, frozen=True, kw_only=True):
    """What the operation answers."""

    data: IngestReport


@get(
    f"{STREAM}/ingest",
    summary="Show what a stream's encoders send",
    tags=["streams"],
    responses={**LOOKS, **documented(HTTPStatus.SERVICE_UNAVAILABLE)},
)
async def show_ingest(
    request: Call,
    stream_id: RecordId,
    catalog: NamedDependency[Catalog],
    ingest: NamedDependency[Ingest],
    now_us: NamedDependency[int],
) -> IngestData:
    """Show what each encoder sent in the last minute, and what its owner should change.

    Without an encoder there are no slots. What is not known yet is null.
    """
    stream = await stream_of(catalog, request.auth, stream_id)
    answer = await ingest.report(stream, now_us, by=request.auth.id)
    if answer is None:
        raise ApiError(
            HTTPStatus.SERVICE_UNAVAILABLE, _NO_INGEST, headers={"Retry-After": _RETRY_SECONDS}
        )
    return IngestData(data=_shown(msgspec.convert(answer, StreamReport), stream))


def _shown(report: StreamReport, stream: StreamRecord) -> IngestReport:
    backups = {backup.number: backup.id for backup in stream.backups}
    return IngestReport(
        live=report.live,
        on_air=report.on_air,
        slots=[_encoder(slot, backups.get(slot.number)) for slot in report.slots],
        advice=report.advice,
    )


def _encoder(slot: SlotReport, backup: int | None) -> Encoder:
    return Encoder(
        slot=slot.slot,
        backup_id=backup,
        peer=slot.peer,
        connected_seconds=slot.connected_seconds,
        video=slot.encoder.video,
        audio=slot.encoder.audio,
        network=slot.encoder.network,
        clock=slot.encoder.clock,
        advice=slot.advice,
    )


HANDLERS: Final = (show_ingest,)
