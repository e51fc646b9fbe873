"""The headers and bodies that describe an upload."""

from email.utils import parsedate_to_datetime

from tests.support.api.application import NOW_US, ApiService
from tests.support.api.tus_client import TUS, UPLOADS


async def test_the_expiry_of_an_upload_is_in_a_header(api_service: ApiService) -> None:
    answer = await api_service.client.post(
        UPLOADS, headers={**api_service.owner, **TUS, "Upload-Length": "100"}
    )
    until = parsedate_to_datetime(answer.headers["upload-expires"]).timestamp()
    assert until == NOW_US // 1_000_000 + 24 * 3600
