"""What a stream's encoders send, as the ingest role measures it, and what should be changed."""

from http import HTTPStatus
from typing import Final

import msgspec
from litestar import Controller

from api.http.errors import unavailable
from api.http.operation import shows
from api.streams.command_client import GivenIngest
from api.streams.lookup import STREAM, StreamCall
from api.streams.presenter import present_report
from api.streams.schemas import IngestData
from media.encoder_report import StreamReport

_NO_INGEST: Final = (
    "No process receives encoders now, so nothing is known of them; try again in a moment."
)
_RETRY_SECONDS: Final = 5


class IngestReportController(Controller):
    """What a stream's encoders send."""

    path = "/streams/{stream_id:str}/ingest"
    tags = ("streams",)
    dependencies = STREAM

    @shows("Show what a stream's encoders send", errors=[HTTPStatus.SERVICE_UNAVAILABLE])
    async def show_ingest(self, call: StreamCall, ingest: GivenIngest) -> IngestData:
        """Show what each encoder sent in the last minute, and what its owner should change.

        Without an encoder there are no slots; `held_until` says whether they are refused since the
        stream was ended. What is not known yet is null.
        """
        answer = await ingest.report(call.record, call.change())
        if answer is None:
            raise unavailable(_NO_INGEST, _RETRY_SECONDS)
        report = msgspec.convert(answer, StreamReport)
        return IngestData(data=present_report(report, call.record, call.now_us()))
