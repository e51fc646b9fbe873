"""Commands to the ingest role: what the API waits for."""

from api.streams.command_client import IngestClient
from storage.catalog.records.common import Change
from storage.catalog.streams.commands import CommandKind, CommandStatus, StreamCommand
from tests.api.streams.test_item import call, get_stream, newest_events
from tests.support.api.application import NOW_US, ApiService


async def test_an_end_without_an_ingest_is_503_and_never_executed(
    api_service: ApiService,
) -> None:
    stream = await api_service.add("Mine")
    answer = await call(api_service, "POST", stream["id"], "/end")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"
    assert answer.json() == {
        "message": "No process receives encoders now, so nothing was ended; try again in a moment."
    }
    assert await api_service.catalog.commands.find_unanswered() == ()
    assert await get_stream(api_service, stream) == stream
    assert (await newest_events(api_service))[0][0] == "stream added"


async def test_a_command_that_is_not_taken_is_withdrawn(api_service: ApiService) -> None:
    stream = await api_service.catalog.streams.add(1, "Mine", Change(NOW_US))
    client = IngestClient(api_service.catalog, taken_seconds=0.05)
    deadline_us = client.deadline_us(NOW_US)
    assert deadline_us == NOW_US + 50_000
    command = StreamCommand(
        stream=stream.id,
        hash=stream.hash,
        kind=CommandKind.END,
        deadline_us=deadline_us,
        by=None,
    )
    number = await api_service.catalog.commands.add(command, NOW_US)
    withdrawn = await client.wait_or_withdraw(number, NOW_US)
    assert withdrawn is None or withdrawn.status is CommandStatus.LATE
    assert await api_service.catalog.commands.find_unanswered() == ()


async def test_each_command_wakes_the_ingest_and_a_report_leaves_no_row(
    api_service: ApiService,
) -> None:
    stream = await api_service.catalog.streams.add(1, "Mine", Change(NOW_US))
    wakes: list[int] = []
    client = IngestClient(api_service.catalog, wake_up=lambda: wakes.append(1), taken_seconds=0.05)
    assert await client.report(stream, Change(NOW_US)) is None
    assert wakes == [1]
    assert await api_service.catalog.commands.find_unanswered() == ()
