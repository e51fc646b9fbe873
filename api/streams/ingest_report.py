"""What a stream's encoders send, as the ingest role measures it, and what should be changed."""

from http import HTTPStatus
from typing import Final

import msgspec
from litestar import Controller, get
from litestar.di import NamedDependency

from api.http.auth import ApiRequest
from api.http.error_statuses import READ_ERRORS
from api.http.errors import documented, unavailable
from api.streams.command_client import IngestClient
from api.streams.lookup import STREAM
from api.streams.presenter import present_report
from api.streams.schemas import IngestData
from media.encoder_report import StreamReport
from storage.catalog.records.common import Change, StreamRecord

_NO_INGEST: Final = (
    "No process receives encoders now, so nothing is known of them; try again in a moment."
)
_RETRY_SECONDS: Final = 5


class IngestReportController(Controller):
    """What a stream's encoders send."""

    path = "/streams/{stream_id:str}/ingest"
    tags = ("streams",)
    dependencies = STREAM

    @get(
        summary="Show what a stream's encoders send",
        responses=documented(*READ_ERRORS, HTTPStatus.SERVICE_UNAVAILABLE),
    )
    async def show_ingest(
        self,
        request: ApiRequest,
        stream: NamedDependency[StreamRecord],
        ingest: NamedDependency[IngestClient],
        now_us: NamedDependency[int],
    ) -> IngestData:
        """Show what each encoder sent in the last minute, and what its owner should change.

        Without an encoder there are no slots; `held_until` says whether they are refused since the
        stream was ended. What is not known yet is null.
        """
        answer = await ingest.report(stream, Change(now_us, by=request.auth.id))
        if answer is None:
            raise unavailable(_NO_INGEST, _RETRY_SECONDS)
        report = msgspec.convert(answer, StreamReport)
        return IngestData(data=present_report(report, stream, now_us))
