"""The report on a stream's encoders, through the whole application and an ingest beside it."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec
import pytest

from api.app import create_app
from api.streams.command_client import IngestClient
from delivery.edge.memory import MemoryEdge
from delivery.run.run_state import LiveWindow
from headend.duties.command_executor import CommandExecutor
from headend.duties.media_remover import StoredMedia
from headend.hosts.ownership import SoleRuns
from headend.roles.adapters import CatalogJournal
from ingest.stream.registry import LiveStreams
from ingest.stream.slot_session import SlotSession
from media.packet import MediaPacket
from media.stream_keys import Slot
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change, StreamRecord
from storage.objects.disk import DiskObjects
from tests.ingest.stream.test_live_stream import (
    AUDIO,
    GRANT,
    SMALL,
    VIDEO,
    FakePorts,
    FakePublisher,
)
from tests.support.api.application import ADDRESSES, NOW_US, ApiService, Json
from tests.support.api.contract_shapes import (
    BOOLEAN,
    INTEGER,
    NUMBER,
    STRING,
    Nullable,
    ValueKind,
    faults,
)
from tests.support.shared_engines import mostly_on
from transcode.live.service import LiveTranscoding

# Both databases get the same statements here; their differences have separate tests.
pytestmark = mostly_on("sqlite")

_SLOT: Final = ValueKind("slot", (str,), "primary|backup-[1-9][0-9]*")
_DIGEST: Final = ValueKind("digest", (str,), "[0-9a-f]{8}")
_PEER: Final = ValueKind("address", (str,), r"\S+:[0-9]+")
_KEYFRAMES: Final = {
    "intervals": INTEGER,
    "min_seconds": Nullable(NUMBER),
    "median_seconds": Nullable(NUMBER),
    "max_seconds": Nullable(NUMBER),
    "since_seconds": NUMBER,
    "fixed": Nullable(BOOLEAN),
}
_PICTURE: Final = {
    "codec": STRING,
    "profile": Nullable(STRING),
    "level": Nullable(STRING),
    "width": INTEGER,
    "height": INTEGER,
    "configuration": _DIGEST,
    "plays_everywhere": BOOLEAN,
    "announced_frame_rate": Nullable(NUMBER),
    "frame_rate": Nullable(NUMBER),
    "frame_rate_varies": Nullable(BOOLEAN),
    "frames": INTEGER,
    "frames_missing": INTEGER,
    "bit_rate": Nullable(INTEGER),
    "peak_bit_rate": Nullable(INTEGER),
    "keyframes": _KEYFRAMES,
    "b_frames": Nullable(INTEGER),
    "open_gop": Nullable(BOOLEAN),
}
_SOUND: Final = {
    "codec": STRING,
    "rate": INTEGER,
    "channels": INTEGER,
    "configuration": _DIGEST,
    "bit_rate": Nullable(INTEGER),
    "peak_bit_rate": Nullable(INTEGER),
}
_ENCODER: Final = {
    "slot": _SLOT,
    "backup_id": Nullable(INTEGER),
    "peer": _PEER,
    "connected_seconds": NUMBER,
    "video": Nullable(_PICTURE),
    "audio": Nullable(_SOUND),
    "network": {
        "measured_seconds": NUMBER,
        "jitter_ms": Nullable(INTEGER),
        "silent_seconds": NUMBER,
        "longest_silence_seconds": NUMBER,
    },
    "clock": {
        "drift_ppm": Nullable(INTEGER),
        "drift_seconds": NUMBER,
        "jumps": INTEGER,
        "steps_back": INTEGER,
        "interleave_ms": Nullable(INTEGER),
    },
    "seconds": {
        "newest": INTEGER,
        "bit_rates": [INTEGER],
        "frames": [INTEGER],
        "keyframe_seconds": [Nullable(NUMBER)],
    },
    "advice": [STRING],
    "alignment": Nullable(
        {
            "reference": _SLOT,
            "behind_ms": Nullable(INTEGER),
            "confidence": NUMBER,
            "method": STRING,
            "reason": Nullable(STRING),
        }
    ),
    "faults": [{"kind": STRING, "verdict": STRING, "seconds": NUMBER, "confidence": NUMBER}],
}
REPORT: Final = {
    "data": {
        "live": BOOLEAN,
        "on_air": Nullable(_SLOT),
        "slots": [_ENCODER],
        "advice": [STRING],
    }
}


@pytest.fixture
def catalog_database(either_database: str | Path) -> str | Path:
    return either_database


class IngestFixture(msgspec.Struct, frozen=True):
    """An ingest without sockets and engines, and the application, on one catalog and one loop."""

    client: httpx.AsyncClient
    catalog: Catalog
    streams: LiveStreams
    stream: StreamRecord

    async def attach_encoder(self, slot: int) -> FakePublisher:
        """Attach an encoder."""
        encoder = FakePublisher()
        grant = msgspec.structs.replace(
            GRANT, stream=self.stream.id, hash=self.stream.hash, slot=Slot(slot)
        )
        encoder.session = await self.streams.attach(grant, encoder)
        return encoder

    async def get_report(self) -> Json:
        """Request the report with a read-only token."""
        _, token = await self.catalog.tokens.add("reader", 1, Change(NOW_US), write=False)
        headers = {"Authorization": f"Bearer {token}"}
        path = f"/api/streams/{self.stream.id}/ingest"
        answer = await self.client.get(path, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
async def ingest_fixture(
    catalog_database: str | Path, objects: DiskObjects
) -> AsyncGenerator[IngestFixture]:
    async with (
        open_catalog(catalog_database, migrate=True) as catalog,
        asyncio.TaskGroup() as tasks,
    ):
        first = await catalog.installation.first_start(NOW_US)
        assert first.stream is not None
        streams = LiveStreams(FakePorts(), CatalogJournal(catalog, lambda: NOW_US), tasks)
        edge = MemoryEdge()
        media = StoredMedia(objects, edge.drop_folder)
        window = LiveWindow(listed_seconds=30.0, kept_seconds=60.0)
        orders = CommandExecutor(
            catalog=catalog,
            streams=streams,
            unfinished_runs=SoleRuns(LiveTranscoding(objects=objects, edge=edge, window=window)),
            media=media,
            now_us=lambda: NOW_US,
        )
        app: Any = create_app(  # Any: httpx has its own ASGI types
            catalog=catalog,
            addresses=ADDRESSES,
            broadcaster_key=first.broadcaster_key,
            version="1.2.3",
            ingest=IngestClient(catalog, wake_up=orders.nudge),
            clock_us=lambda: NOW_US,
        )
        carrying = tasks.create_task(orders.run())
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://headend") as client:
            yield IngestFixture(client, catalog, streams, first.stream)
        streams.drain()
        await streams.wait_closed()
        carrying.cancel()


def send(encoder: FakePublisher, *, small: bool = False) -> None:
    """Send 20 s of media, as if they had arrived during the last 20 s."""
    assert isinstance(encoder.session, SlotSession)
    began = asyncio.get_running_loop().time() - 20
    video = SMALL if small else VIDEO
    encoder.session.meter.add_track(video, began)
    encoder.session.meter.add_track(AUDIO, began)
    for number in range(500):
        for track, key in ((video, number % 250 == 0), (AUDIO, True)):
            at = 40 * number
            packet = MediaPacket(track=track, dts=at, pts=at, key=key, data=bytes(1000))
            encoder.session.meter.add_packets([packet], began + at / 1000)


async def test_a_stream_without_encoders(ingest_fixture: IngestFixture) -> None:
    body = await ingest_fixture.get_report()
    assert body == {"data": {"live": False, "on_air": None, "slots": [], "advice": []}}


async def test_encoders_with_all_their_keys(ingest_fixture: IngestFixture) -> None:
    backup_encoder = await ingest_fixture.attach_encoder(1)
    body = await ingest_fixture.get_report()
    assert faults(body, REPORT) == []  # before the first packet, these values are null
    assert body["data"]["slots"][0]["video"] is None
    send(await ingest_fixture.attach_encoder(0))
    send(backup_encoder, small=True)
    body = await ingest_fixture.get_report()
    assert faults(body, REPORT) == []
    primary, other = body["data"]["slots"]
    (backup,) = ingest_fixture.stream.backups
    assert (primary["slot"], primary["backup_id"]) == ("primary", None)
    assert (other["slot"], other["backup_id"]) == ("backup-1", backup.id)
    assert primary["peer"] == "192.0.2.1:5"
    assert primary["video"]["keyframes"]["median_seconds"] == 10
    assert primary["video"]["bit_rate"] == 200_000
    assert any("10 s: set 2 s" in advice for advice in primary["advice"])
    assert "1280x720 and 640x360" in body["data"]["advice"][0]
    assert await ingest_fixture.catalog.commands.find_unanswered() == ()


async def test_without_an_ingest_the_report_is_503_and_no_command_remains(
    api_service: ApiService,
) -> None:
    stream = await api_service.add()
    answer = await api_service.client.get(
        f"/api/streams/{stream['id']}/ingest", headers=api_service.owner
    )
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"
    assert set(answer.json()) == {"message"}
    assert await api_service.catalog.commands.find_unanswered() == ()


async def test_the_report_requires_a_token_and_an_existing_stream(api_service: ApiService) -> None:
    stream = await api_service.add()
    other = await api_service.catalog.projects.add("Other", Change(1))
    theirs = await api_service.headers_of("theirs", other.id, write=False)
    path = f"/api/streams/{stream['id']}/ingest"
    assert (await api_service.client.get(path, headers=theirs)).status_code == 404
    assert (await api_service.client.get(path)).status_code == 401
    for never in ("999", "x", "-1", "99999999999999999999"):
        answer = await api_service.client.get(
            f"/api/streams/{never}/ingest", headers=api_service.owner
        )
        assert answer.status_code == 404
        assert set(answer.json()) == {"message"}


async def test_the_operation_is_described(api_service: ApiService) -> None:
    answer = await api_service.client.get("/schema/openapi.json")
    operation = answer.json()["paths"]["/api/streams/{stream_id}/ingest"]["get"]
    assert {"200", "401", "404", "503"} <= set(operation["responses"])
