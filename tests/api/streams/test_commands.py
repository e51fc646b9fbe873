"""Pause, resume and the drill, with a simulated ingest that executes the rows with commands."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from storage.catalog import Catalog
from storage.catalog.streams.commands import CommandKind
from tests.support.api import contract_shapes
from tests.support.api.application import NOW_US, ApiService, Json
from tests.support.shared_engines import mostly_on

# Both databases get the same statements here; their differences have separate tests.
pytestmark = mostly_on("sqlite")

HOLD_US = 60_000_000
SWITCHED = {"from": "primary", "to": "backup-1", "gap_ms": -40, "switched_after_ms": 900}
DRILL = {
    "from": contract_shapes.STRING,
    "to": contract_shapes.STRING,
    "gap_ms": contract_shapes.INTEGER,
    "switched_after_ms": contract_shapes.INTEGER,
}


@pytest.fixture
def catalog_database(either_database: str | Path) -> str | Path:
    return either_database


@pytest.fixture
def taken_seconds() -> float:
    """Long enough for the slowest machine, since an ingest answers here."""
    return 20.0


@asynccontextmanager
async def simulated_ingest(
    catalog: Catalog, answers: Mapping[CommandKind, Mapping[str, object]]
) -> AsyncGenerator[list[CommandKind]]:
    """Execute and answer commands as an ingest does; yield the executed ones."""
    executed: list[CommandKind] = []

    async def answer() -> None:
        while True:
            for record in await catalog.commands.find_unanswered():
                kind = record.command.kind
                hold_us = HOLD_US if kind is CommandKind.END else 0
                if await catalog.commands.start(record.id, NOW_US, hold_us=hold_us):
                    executed.append(kind)
                    await catalog.commands.answer(record.id, answers[kind], NOW_US)
            await asyncio.sleep(0.01)

    async with asyncio.TaskGroup() as tasks:
        ingest = tasks.create_task(answer())
        yield executed
        ingest.cancel()


async def add_live_stream(api_service: ApiService) -> Json:
    """Add a live stream whose primary and backup send."""
    stream = await api_service.add("Live")
    await api_service.catalog.live_state.set(
        stream["id"], live=True, processing=True, on_air=0, sending=(0, 1), no_audio=False,
        now_us=NOW_US,
    )  # fmt: skip
    return stream


async def post(api_service: ApiService, stream: Json, operation: str, status: int) -> Json:
    path = f"/api/streams/{stream['id']}/{operation}"
    answer = await api_service.client.post(path, headers=api_service.owner)
    assert answer.status_code == status, answer.text
    assert answer.headers["cache-control"] == "no-store"
    body: Json = answer.json()
    if status != 200:
        assert contract_shapes.refusal_faults(body) == []
    return body


async def events(api_service: ApiService, stream: Json) -> list[tuple[str, Json, int | None, int]]:
    """Return a stream's events, oldest first."""
    items = (await api_service.listed(f"?stream={stream['id']}", "/api/projects/1/events"))["data"]
    return [
        (item["type"], item["facts"], item["token"], item["number"]) for item in reversed(items)
    ]


async def test_a_stream_is_paused_and_resumed(api_service: ApiService) -> None:
    stream = await add_live_stream(api_service)
    answers = {CommandKind.PAUSE: {"done": True}, CommandKind.RESUME: {"done": True}}
    async with simulated_ingest(api_service.catalog, answers) as executed:
        for operation, message, paused, conflict in (
            ("pause", "Stream paused.", True, "The stream is paused already."),
            ("resume", "Stream resumed.", False, "The stream is not paused."),
        ):
            body = await post(api_service, stream, operation, 200)
            assert contract_shapes.faults(body, contract_shapes.CHANGE_STREAM) == []
            assert body["message"] == message
            record = body["stream"]
            assert (record["paused"], record["live"], record["receiving_count"]) == (
                paused,
                True,
                2,
            )
            assert await post(api_service, stream, operation, 409) == {"message": conflict}
    assert executed == [CommandKind.PAUSE, CommandKind.RESUME]
    mine = {"stream": stream["id"]}
    assert (await events(api_service, stream))[-2:] == [
        ("paused", mine, 1, 4), ("resumed", mine, 1, 5),
    ]  # fmt: skip


async def test_subscribers_are_told_of_a_pause(api_service: ApiService) -> None:
    stream = await add_live_stream(api_service)
    since = await api_service.catalog.outbox.newest()
    async with simulated_ingest(api_service.catalog, {CommandKind.PAUSE: {"done": True}}):
        await post(api_service, stream, "pause", 200)
    (recorded,), _ = await api_service.catalog.outbox.read_after(since, 10)
    assert '"paused":true' in recorded.body.replace(" ", "")


async def test_a_stream_that_is_not_live_is_neither_paused_nor_drilled(
    api_service: ApiService,
) -> None:
    stream = await api_service.add()
    before = await events(api_service, stream)
    for operation, sentence in (
        ("pause", "The stream is not live: there is nothing to pause."),
        ("resume", "The stream is not paused."),
        ("failover-drill", "The stream is not live: there is no encoder to switch away from."),
    ):
        assert await post(api_service, stream, operation, 409) == {"message": sentence}
    assert await events(api_service, stream) == before
    assert await api_service.catalog.commands.find_unanswered() == ()


async def test_a_run_that_ended_meanwhile_is_not_paused(api_service: ApiService) -> None:
    stream = await add_live_stream(api_service)
    async with simulated_ingest(api_service.catalog, {CommandKind.PAUSE: {"done": False}}):
        body = await post(api_service, stream, "pause", 409)
    assert body == {"message": "The stream's run is over: there is nothing to pause."}
    record = await api_service.catalog.streams.find(stream["id"])
    assert record is not None
    assert not record.paused
    recorded = [(kind, token) for kind, _, token, _ in await events(api_service, stream)]
    assert recorded[-2:] == [("paused", 1), ("resumed", None)]


async def test_a_drill_answers_how_it_went(api_service: ApiService) -> None:
    stream = await add_live_stream(api_service)
    async with simulated_ingest(api_service.catalog, {CommandKind.DRILL: SWITCHED}) as executed:
        body = await post(api_service, stream, "failover-drill", 200)
    assert contract_shapes.faults(body, {"message": contract_shapes.STRING, "drill": DRILL}) == []
    assert body == {"message": "Failover drilled.", "drill": SWITCHED}
    assert executed == [CommandKind.DRILL]
    drill = ("failover drill", {"stream": stream["id"], **SWITCHED}, 1, 4)
    assert (await events(api_service, stream))[-1] == drill


async def test_a_drill_names_the_host_where_several_receive_streams(
    api_service: ApiService,
) -> None:
    stream = await add_live_stream(api_service)
    switched = {**SWITCHED, "host": "ingest-1"}
    async with simulated_ingest(api_service.catalog, {CommandKind.DRILL: switched}):
        body = await post(api_service, stream, "failover-drill", 200)
    assert body == {"message": "Failover drilled.", "drill": switched}


async def test_a_drill_that_the_ingest_refuses_is_409_in_its_words(api_service: ApiService) -> None:
    stream = await add_live_stream(api_service)
    async with simulated_ingest(
        api_service.catalog, {CommandKind.DRILL: {"refused": "no other is well"}}
    ):
        body = await post(api_service, stream, "failover-drill", 409)
    assert body == {"message": "No other is well."}
    assert "failover drill" not in [kind for kind, *_ in await events(api_service, stream)]


async def test_a_paused_stream_is_not_drilled(api_service: ApiService) -> None:
    stream = await add_live_stream(api_service)
    async with simulated_ingest(api_service.catalog, {CommandKind.PAUSE: {"done": True}}):
        await post(api_service, stream, "pause", 200)
        body = await post(api_service, stream, "failover-drill", 409)
    assert body == {"message": "The stream is paused: resume it first."}


async def test_encoders_are_refused_after_an_end_until_their_owner_allows_them(
    api_service: ApiService,
) -> None:
    stream = await add_live_stream(api_service)
    async with simulated_ingest(api_service.catalog, {CommandKind.END: {"ended": True}}):
        body = await post(api_service, stream, "end", 200)
    assert contract_shapes.faults(body, contract_shapes.CHANGE_STREAM) == []
    report: Json = {"live": False, "on_air": None, "slots": [], "advice": []}
    async with simulated_ingest(api_service.catalog, {CommandKind.REPORT: report}):
        path = f"/api/streams/{stream['id']}/ingest"
        held = await api_service.client.get(path, headers=api_service.owner)
        assert held.json() == {"data": {**report, "held_until": "2023-11-14T22:14:20.123456Z"}}
        since = await api_service.catalog.outbox.newest()
        for _ in range(2):
            body = await post(api_service, stream, "allow", 200)
            assert contract_shapes.faults(body, contract_shapes.CHANGE_STREAM) == []
            assert body["message"] == "Encoders are allowed."
        after = await api_service.client.get(path, headers=api_service.owner)
        assert after.json() == {"data": report}
    sent, _ = await api_service.catalog.outbox.read_after(since, 10)
    assert len(sent) == 1
    mine = {"stream": stream["id"]}
    assert [each[:3] for each in await events(api_service, stream)][-2:] == [
        ("stream ended", mine, 1),
        ("stream allowed", mine, 1),
    ]


class TestWithoutAnIngest:
    @pytest.fixture
    def taken_seconds(self) -> float:
        return 0.1

    async def test_a_drill_that_no_ingest_takes_is_503_and_is_never_executed(
        self, api_service: ApiService
    ) -> None:
        stream = await add_live_stream(api_service)
        body = await post(api_service, stream, "failover-drill", 503)
        assert body["message"].startswith("No process receives encoders now")
        assert await api_service.catalog.commands.find_unanswered() == ()

    async def test_a_pause_holds_for_the_ingest_that_comes(self, api_service: ApiService) -> None:
        stream = await add_live_stream(api_service)
        body = await post(api_service, stream, "pause", 200)
        assert body["stream"]["paused"]
        (waiting,) = await api_service.catalog.commands.find_unanswered()
        assert waiting.command.kind is CommandKind.PAUSE
        assert waiting.command.deadline_us is None
