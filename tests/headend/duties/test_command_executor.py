"""Commands in rows, carried out on streams that are on their way."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from api.streams.command_client import IngestClient
from delivery.edge.memory import MemoryEdge
from delivery.run.run_state import LiveWindow
from headend.duties.command_executor import CommandExecutor
from headend.duties.media_remover import StoredMedia
from headend.hosts.ownership import SoleRuns
from headend.hosts.presence import HostIdentity, HostPresence
from headend.roles.adapters import CatalogDirectory, CatalogJournal
from ingest.stream.failover import Mode, Policy
from ingest.stream.ports import StreamEnded
from ingest.stream.registry import LiveStreams
from media.run_policy import DEFAULTS, RunFailover, RunPolicy, RunRecording, resolve
from storage.catalog import Catalog, open_catalog
from storage.catalog.records.common import Change, StreamRecord
from storage.catalog.records.settings import FailoverChange, RecordingChange, SettingsChange
from storage.catalog.streams.commands import (
    CommandKind,
    CommandRecord,
    CommandStatus,
    StreamCommand,
)
from storage.objects.disk import DiskObjects
from tests.ingest.stream.test_live_stream import FakePorts, FakePublisher
from tests.support.sql import migrated
from tests.support.waiting import until
from transcode.live.service import LiveTranscoding

NOW = 1_000
SECOND = 1_000_000
HOLDS = 60.0  # seconds
BY = 1
NEVER = 1000.0  # seconds, which no test takes
NEWS = ("paused", "slate", "resumed", "back on air")


class CommandedIngest(msgspec.Struct, kw_only=True):
    """An ingest without sockets and engines, over a real catalog and a real disk.

    `held` are the streams that were held for commands.
    """

    catalog: Catalog
    stream: StreamRecord
    objects: DiskObjects
    ports: FakePorts
    streams: LiveStreams
    orders: CommandExecutor
    media: StoredMedia
    ingest: IngestClient
    held: list[int]

    async def publish(self, key: StreamRecord | None = None, *, now_us: int = NOW) -> FakePublisher:
        """Let an encoder in, with the key that a stream's record has."""
        directory = CatalogDirectory(
            self.catalog, DEFAULTS, now_us=lambda: now_us, end_holds_seconds=HOLDS
        )
        grant = await directory.grant("live", (key or self.stream).key)
        assert grant is not None
        encoder = FakePublisher()
        encoder.session = await self.streams.attach(grant, encoder)
        encoder.send(packets=1)
        while not (await self.now()).live:  # noqa: ASYNC110 # a row in a database
            await asyncio.sleep(0.01)
        return encoder

    async def now(self) -> StreamRecord:
        record = await self.catalog.streams.find(self.stream.id)
        assert record is not None
        return record

    async def end(self, *, deadline_us: int = NOW) -> CommandRecord | None:
        number = await self.catalog.streams.request_end(
            self.stream.id, Change(NOW, by=BY), deadline_us=deadline_us
        )
        assert number is not None
        return await self.ingest.wait_or_withdraw(number, NOW)


async def registered(catalog: Catalog) -> HostPresence:
    identity = HostIdentity(name="here", role="ingest", address=None, version="1")
    presence = HostPresence(catalog, identity, dead_seconds=NEVER)
    await presence.register()
    return presence


@asynccontextmanager
async def ingest_fixture(
    folder: Path, *, nudged: bool = True, shared: bool = False, end_holds_seconds: float = HOLDS
) -> AsyncGenerator[CommandedIngest, None]:
    """Run an ingest, which is one host of a catalog that several share where `shared` is on."""
    edge = MemoryEdge()
    with DiskObjects(folder / "objects") as objects:
        async with open_catalog(migrated(folder / "catalog.db"), migrate=True) as catalog:
            stream = (await catalog.installation.first_start(1)).stream
            assert stream is not None
            ports = FakePorts()
            held: list[int] = []

            @asynccontextmanager
            async def hold(stream: int) -> AsyncGenerator[bool]:
                held.append(stream)
                yield True

            presence = await registered(catalog) if shared else None
            async with asyncio.TaskGroup() as tasks:
                streams = LiveStreams(ports, CatalogJournal(catalog, lambda: NOW), tasks)
                media = StoredMedia(objects, edge.drop_folder)
                orders = CommandExecutor(
                    catalog=catalog,
                    streams=streams,
                    unfinished_runs=SoleRuns(
                        LiveTranscoding(
                            objects=objects,
                            edge=edge,
                            window=LiveWindow(listed_seconds=30.0, kept_seconds=60.0),
                        )
                    ),
                    media=media,
                    now_us=lambda: NOW,
                    presence=presence,
                    hold=hold,
                    end_holds_seconds=end_holds_seconds,
                )
                nudge = (orders.nudge,) if nudged else ()
                carrying = tasks.create_task(orders.run())
                yield CommandedIngest(
                    catalog=catalog,
                    stream=stream,
                    objects=objects,
                    ports=ports,
                    streams=streams,
                    orders=orders,
                    held=held,
                    media=media,
                    ingest=IngestClient(catalog, media, *nudge),
                )
                streams.drain()
                await streams.wait_closed()
                carrying.cancel()


def play(
    folder: Path,
    scenario: Callable[[CommandedIngest], Awaitable[None]],
    *,
    nudged: bool = True,
    shared: bool = False,
    end_holds_seconds: float = HOLDS,
) -> None:
    async def go() -> None:
        async with (
            asyncio.timeout(60),
            ingest_fixture(
                folder, nudged=nudged, shared=shared, end_holds_seconds=end_holds_seconds
            ) as ingest,
        ):
            await scenario(ingest)

    asyncio.run(go())


def test_a_command_of_a_stream_is_carried_out_by_the_host_that_owns_it(tmp_path: Path) -> None:
    async def scenario(ingest: CommandedIngest) -> None:
        catalog = ingest.catalog
        free = await catalog.streams.add(ingest.stream.project, "nobody's", Change(NOW))
        owner = await catalog.hosts.register("owner", "ingest", None, "1")
        await catalog.owners.claim(ingest.stream.id, owner, dead_seconds=NEVER)
        number = await catalog.streams.request_end(
            ingest.stream.id, Change(NOW, by=BY), deadline_us=NOW
        )
        assert number is not None
        # What comes after it is carried out, as this host is the first one.
        later = await catalog.streams.request_end(free.id, Change(NOW, by=BY), deadline_us=NOW)
        assert later is not None
        came = await ingest.ingest.wait_or_withdraw(later, NOW)
        assert came is not None
        assert came.status is CommandStatus.DONE
        waiting = await catalog.commands.find(number)
        assert waiting is not None
        assert waiting.status is CommandStatus.WAITING
        await catalog.hosts.leave(owner)
        came = await ingest.ingest.wait_or_withdraw(number, NOW)
        assert came is not None
        assert came.status is CommandStatus.DONE

    play(tmp_path, scenario, shared=True)


def test_an_end_is_carried_out_and_answered(tmp_path: Path) -> None:
    async def scenario(ingest: CommandedIngest) -> None:
        encoder = await ingest.publish()
        came = await ingest.end()
        assert came is not None
        assert (came.status, came.answer) == (CommandStatus.DONE, {"ended": True})
        assert encoder.disconnected == "the stream was ended by its owner"
        assert not (await ingest.now()).live
        again = await ingest.end()
        assert again is not None
        assert again.answer == {"ended": False}

    play(tmp_path, scenario)


def test_an_ended_stream_s_encoder_is_refused_until_the_time_is_over(tmp_path: Path) -> None:
    async def scenario(ingest: CommandedIngest) -> None:
        await ingest.publish()
        came = await ingest.end()
        assert came is not None
        assert came.answer == {"ended": True}
        with pytest.raises(StreamEnded):
            await ingest.publish(now_us=NOW + 2 * SECOND)
        with pytest.raises(StreamEnded):
            await ingest.publish(now_us=NOW + 61 * SECOND)
        # There is nothing to end, and that lasts no longer than it did.
        held_until_us = (await ingest.now()).held_until_us
        again = await ingest.end()
        assert again is not None
        assert again.answer == {"ended": False}
        assert (await ingest.now()).held_until_us == held_until_us
        await ingest.publish(now_us=NOW + 300 * SECOND)
        assert len(ingest.ports.sinks) == 2

    play(tmp_path, scenario)


def test_an_end_lets_encoders_in_where_the_setting_says_so(tmp_path: Path) -> None:
    async def scenario(ingest: CommandedIngest) -> None:
        await ingest.publish()
        assert await ingest.end() is not None
        assert (await ingest.now()).held_until_us is None
        await ingest.publish()

    play(tmp_path, scenario, end_holds_seconds=0.0)


def test_an_ingest_in_another_process_looks_by_itself(tmp_path: Path) -> None:
    async def scenario(ingest: CommandedIngest) -> None:
        await ingest.publish()
        began = asyncio.get_running_loop().time()
        came = await ingest.end()
        assert came is not None
        assert came.answer == {"ended": True}
        assert asyncio.get_running_loop().time() - began < 10

    play(tmp_path, scenario, nudged=False)


def test_an_end_that_comes_too_late_ends_nothing(tmp_path: Path) -> None:
    async def scenario(ingest: CommandedIngest) -> None:
        encoder = await ingest.publish()
        came = await ingest.end(deadline_us=NOW - 1)
        assert came is not None
        assert came.status is CommandStatus.LATE
        assert encoder.disconnected is None
        assert (await ingest.now()).live

    play(tmp_path, scenario)


def test_a_changed_key_takes_the_old_ones_encoder_off_and_no_other(tmp_path: Path) -> None:
    async def scenario(ingest: CommandedIngest) -> None:
        old = await ingest.publish()
        number = await ingest.catalog.streams.rotate(ingest.stream.id, Change(NOW, by=BY))
        assert number is not None
        came = await ingest.ingest.wait(number)
        assert came is not None
        assert came.answer == {"disconnected": 1}
        assert old.disconnected == "the stream key was changed"
        new = await ingest.publish(await ingest.now())
        # As by a command that was answered late, or twice.
        again = await ingest.catalog.commands.add(
            StreamCommand(
                stream=ingest.stream.id, hash=ingest.stream.hash, kind=CommandKind.DISCONNECT
            ),
            NOW,
        )
        came = await ingest.ingest.wait(again)
        assert came is not None
        assert came.answer == {"disconnected": 0}
        assert new.disconnected is None
        assert len(ingest.ports.sinks) == 1

    play(tmp_path, scenario)


def test_a_deleted_streams_encoder_is_taken_off_and_its_media_removed(tmp_path: Path) -> None:
    async def scenario(ingest: CommandedIngest) -> None:
        encoder = await ingest.publish()
        hash_ = ingest.stream.hash
        await ingest.objects.put(f"live/{hash_}/index.m3u8", b"x")
        await ingest.objects.put("live/Other6hIj9lA/index.m3u8", b"x")
        number = await ingest.catalog.streams.remove(ingest.stream.id, Change(NOW, by=BY))
        assert number is not None
        await ingest.ingest.finish_removal(number, hash_)
        assert encoder.disconnected == "the stream was deleted"
        assert ingest.ports.sinks[0].recorded[-1] == "end"
        assert await ingest.objects.addresses("live") == ["live/Other6hIj9lA/index.m3u8"]
        assert len(ingest.streams) == 0

    play(tmp_path, scenario)


def test_a_deletion_that_no_ingest_heard_of_is_made_up_for_at_the_next_start(
    tmp_path: Path,
) -> None:
    async def scenario(ingest: CommandedIngest) -> None:
        await ingest.objects.put("live/Gone6hIj9lAb/index.m3u8", b"x")
        forget = StreamCommand(stream=77, hash="Gone6hIj9lAb", kind=CommandKind.FORGET)
        number = await ingest.catalog.commands.add(forget, 1)
        came = await ingest.ingest.wait(number)
        assert came is not None
        assert came.status is CommandStatus.DONE
        assert await ingest.objects.addresses("live") == []

    play(tmp_path, scenario)


def test_commands_are_carried_out_while_the_media_of_many_streams_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    go_on = asyncio.Event()

    async def remove_slowly(hashes: Sequence[str]) -> None:
        begun.extend(hashes)
        await go_on.wait()

    async def scenario(ingest: CommandedIngest) -> None:
        monkeypatch.setattr(ingest.media, "remove", remove_slowly)
        forgets = [
            await ingest.catalog.commands.add(
                StreamCommand(stream=each, hash=f"Gone{each}", kind=CommandKind.FORGET), 1
            )
            for each in range(70, 90)
        ]
        await until(lambda: len(begun) >= 8)
        await ingest.publish()
        came = await ingest.end()
        assert came is not None
        assert came.answer == {"ended": True}
        assert len(begun) == 8
        go_on.set()
        for each in forgets:
            assert (await ingest.ingest.wait(each)) is not None
        assert len(begun) == 20

    play(tmp_path, scenario)


def test_without_an_ingest_a_command_is_taken_back_in_time(tmp_path: Path) -> None:
    async def scenario(ingest: CommandedIngest) -> None:
        lonely = IngestClient(ingest.catalog, taken_seconds=0.0)
        async with asyncio.timeout(5):
            command = StreamCommand(
                stream=1, hash=ingest.stream.hash, kind=CommandKind.END, deadline_us=NOW - 1
            )
            number = await ingest.catalog.commands.add(command, NOW)
            came = await lonely.wait_or_withdraw(number, NOW)
        assert came is not None
        assert came.status is CommandStatus.LATE
        assert not await ingest.catalog.commands.start(number, NOW - 1)

    play(tmp_path, scenario, nudged=False)


def test_a_pause_and_a_resume_reach_the_run(tmp_path: Path) -> None:
    async def scenario(ingest: CommandedIngest) -> None:
        encoder = await ingest.publish()
        streams = ingest.catalog.streams
        number = await streams.pause(ingest.stream.id, Change(NOW, by=BY))
        assert number is not None
        came = await ingest.ingest.wait(number)
        assert came is not None
        assert came.answer == {"done": True}
        record = await ingest.now()
        assert (record.live, record.paused, record.on_air) == (True, True, None)
        assert ingest.ports.sinks[0].recorded[-1] == "slate"
        assert encoder.disconnected is None
        number = await streams.resume(ingest.stream.id, Change(NOW, by=BY))
        assert number is not None
        came = await ingest.ingest.wait(number)
        assert came is not None
        assert came.answer == {"done": True}
        encoder.send(packets=1)

        async def on_air() -> bool:
            return (await ingest.now()).on_air == 0

        await until(on_air)
        kinds = [each.kind for each in (await ingest.catalog.events.find_page(1)).items]
        listed = [kind for kind in reversed(kinds) if kind in NEWS]
        assert listed == ["paused", "slate", "resumed", "back on air"]

    play(tmp_path, scenario)


def test_commands_that_overtake_each_other_leave_the_run_as_its_owner_said_last(
    tmp_path: Path,
) -> None:
    async def scenario(ingest: CommandedIngest) -> None:
        await ingest.publish()
        streams = ingest.catalog.streams
        for _ in range(5):
            first = await streams.pause(ingest.stream.id, Change(NOW, by=BY))
            last = await streams.resume(ingest.stream.id, Change(NOW, by=BY))
            assert first is not None
            assert last is not None
            for number in (last, first):
                came = await ingest.ingest.wait(number)
                assert came is not None
                assert came.answer == {"done": True}
            assert not (await ingest.now()).paused

    play(tmp_path, scenario)


def test_a_pause_of_a_stream_without_a_run_is_not_done(tmp_path: Path) -> None:
    async def scenario(ingest: CommandedIngest) -> None:
        pause = StreamCommand(
            stream=ingest.stream.id, hash=ingest.stream.hash, kind=CommandKind.PAUSE
        )
        came = await ingest.ingest.wait(await ingest.catalog.commands.add(pause, NOW))
        assert came is not None
        assert came.answer == {"done": False}

    play(tmp_path, scenario)


def test_a_drill_is_answered_with_what_it_took_or_why_it_was_not(tmp_path: Path) -> None:
    async def scenario(ingest: CommandedIngest) -> None:
        primary = await ingest.publish()

        async def drill() -> dict[str, object]:
            number = await ingest.catalog.streams.request_drill(
                ingest.stream.id, Change(NOW, by=BY), deadline_us=NOW
            )
            assert number is not None
            came = await ingest.ingest.wait(number, done_seconds=20.0)
            assert came is not None
            assert came.status is CommandStatus.DONE
            return came.answer

        async def send(encoder: FakePublisher) -> None:
            while True:
                encoder.send(packets=1)
                await asyncio.sleep(0.1)

        async with asyncio.TaskGroup() as tasks:
            sending = [tasks.create_task(send(primary))]
            assert "no other encoder is healthy" in str(await drill())
            directory = CatalogDirectory(
                ingest.catalog, resolve(RunPolicy(failover=RunFailover(detect_seconds=1.0)))
            )
            grant = await directory.grant("live-backup-1", ingest.stream.key)
            assert grant is not None
            backup = FakePublisher()
            backup.session = await ingest.streams.attach(grant, backup)
            sending.append(tasks.create_task(send(backup)))

            async def well() -> bool:
                return (await ingest.now()).receiving_count == 2

            await until(well)
            await asyncio.sleep(0.3)
            answer = await drill()
            for task in sending:
                task.cancel()
        assert (answer["from"], answer["to"]) == ("primary", "backup-1")
        assert 900 <= int(str(answer["switched_after_ms"])) <= 5_000
        assert set(answer) == {"from", "to", "gap_ms", "switched_after_ms"}
        assert (await ingest.now()).on_air == 1

    play(tmp_path, scenario)


@pytest.mark.parametrize("shared", [False, True])
def test_a_report_names_the_host_where_several_receive_streams(
    tmp_path: Path, shared: bool
) -> None:
    async def scenario(ingest: CommandedIngest) -> None:
        await ingest.publish()
        for kind in (CommandKind.REPORT, CommandKind.DRILL):
            asked = StreamCommand(stream=ingest.stream.id, hash=ingest.stream.hash, kind=kind)
            came = await ingest.ingest.wait(await ingest.catalog.commands.add(asked, NOW))
            assert came is not None
            assert came.answer.get("host") == ("here" if shared else None)
            assert ("host" in came.answer) is shared

    play(tmp_path, scenario, shared=shared)


def test_a_report_is_what_the_encoders_send(tmp_path: Path) -> None:
    async def scenario(ingest: CommandedIngest) -> None:
        async def report() -> dict[str, object]:
            asked = StreamCommand(
                stream=ingest.stream.id, hash=ingest.stream.hash, kind=CommandKind.REPORT
            )
            came = await ingest.ingest.wait(await ingest.catalog.commands.add(asked, NOW))
            assert came is not None
            return came.answer

        assert (await report())["slots"] == []
        # It need not be claimed for that, as it must be to be changed.
        assert ingest.held == []
        await ingest.end()
        assert ingest.held == [ingest.stream.id]
        await ingest.publish()
        found = await report()
        assert (found["live"], found["on_air"]) == (True, "primary")

    play(tmp_path, scenario)


def test_what_is_set_for_a_stream_comes_with_its_grant(tmp_path: Path) -> None:
    async def scenario(ingest: CommandedIngest) -> None:
        directory = CatalogDirectory(
            ingest.catalog,
            resolve(
                RunPolicy(
                    failover=RunFailover(detect_seconds=3.0),
                    recording=RunRecording(enabled=True, keep_days=7),
                )
            ),
        )
        grant = await directory.grant("live", ingest.stream.key)
        assert grant is not None
        assert grant.policy == Policy(detect_seconds=3.0, align_wait_seconds=1.0)
        recording = grant.run.recording
        assert (
            grant.reconnect_seconds,
            grant.goodbye_seconds,
            recording.enabled,
            recording.keep_days,
        ) == (
            60.0,
            10.0,
            True,
            7,
        )
        assert (grant.run.latency, grant.run.dvr_seconds) == ("low", 0.0)
        assert (grant.paused, grant.slate) == (False, None)
        change = SettingsChange(
            failover=FailoverChange(mode="sticky", return_seconds=0.0, goodbye_seconds=0.0),
            recording=RecordingChange(enabled=False),
            latency="normal",
            dvr_seconds=3600.0,
        )
        assert await ingest.catalog.stream_settings.change(
            ingest.stream.id, change, Change(NOW, by=BY)
        )
        grant = await directory.grant("live", ingest.stream.key)
        assert grant is not None
        assert grant.policy == Policy(mode=Mode.STICKY, detect_seconds=3.0, return_seconds=0.0)
        recording = grant.run.recording
        assert (
            grant.reconnect_seconds,
            grant.goodbye_seconds,
            recording.enabled,
            recording.keep_days,
        ) == (
            60.0,
            0.0,
            False,
            7,
        )
        assert (grant.run.latency, grant.run.dvr_seconds) == ("normal", 3600.0)

    play(tmp_path, scenario)
