"""Settings and reports on encoders as bodies."""

import msgspec

from api.streams.presenter import present_report, present_settings
from media.encoder_report import StreamReport
from storage.catalog.records.common import Change
from storage.catalog.records.settings import OwnerSettings
from tests.support.api.application import ADDRESSES, NOW_US, ApiService


def test_a_slate_is_shown_by_its_address() -> None:
    assert present_settings(OwnerSettings(), ADDRESSES).slate.picture is None
    body = present_settings(OwnerSettings(slate="slates/s-abc/x.jpg"), ADDRESSES)
    assert body.slate.picture == "https://live.example/slates/s-abc/x.jpg"
    assert body.recording.enabled is None
    assert body.failover.mode is None


async def test_a_report_without_encoders_has_no_slots(api_service: ApiService) -> None:
    stream = await api_service.catalog.streams.add(1, "Mine", Change(NOW_US))
    report = StreamReport(live=False, on_air=None, slots=[], advice=["a"])
    body = present_report(report, stream)
    assert (body.live, body.on_air, body.slots, body.advice) == (False, None, [], ["a"])
    assert "host" not in msgspec.to_builtins(body)
    ended = msgspec.structs.replace(stream, held_until_us=NOW_US + 1_000_000)
    assert present_report(report, ended, NOW_US).held_until == "2023-11-14T22:13:21.123456Z"
    assert present_report(report, ended, NOW_US + 1_000_000).held_until is None
    assert "held_until" not in msgspec.to_builtins(present_report(report, stream, NOW_US))
    named = present_report(msgspec.structs.replace(report, host="ingest-1"), stream)
    assert msgspec.to_builtins(named)["host"] == "ingest-1"
