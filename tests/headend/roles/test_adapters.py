"""Settings on their way into grants, and from there to the runs that are opened for them."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from delivery.edge.memory import MemoryEdge
from delivery.run.run_state import LiveWindow
from headend.config.settings import ServiceSettings
from headend.roles.adapters import (
    CatalogDirectory,
    CatalogJournal,
    EngineSinks,
    service_policy,
)
from ingest.stream.failover import LOW_LATENCY_POLICY, Policy
from ingest.stream.ports import Grant, LiveState, PortError, StreamDeleted, StreamEnded
from media.run_policy import DEFAULTS, ResolvedPolicy, RunFailover, RunPolicy, RunRecording, resolve
from media.stream_events import EngineLostEvent, SlateEvent
from media.stream_keys import Slot, StreamKey
from storage.catalog import open_catalog
from storage.catalog.records.common import Change
from storage.catalog.records.settings import FailoverChange, SettingsChange
from storage.catalog.streams.commands import CommandKind, StreamCommand
from storage.objects.disk import DiskObjects
from tests.support.sql import migrated
from transcode.live.live_run import LiveRun
from transcode.live.ports import RunSettings
from transcode.live.service import LiveTranscoding


@pytest.mark.parametrize(
    ("defaults", "project", "own", "expected"),
    [
        pytest.param({}, {}, {}, LOW_LATENCY_POLICY, id="low latency is the default"),
        pytest.param({"latency": "normal"}, {}, {}, Policy(), id="the service's latency"),
        pytest.param({}, {"latency": "normal"}, {}, Policy(), id="the project's latency"),
        pytest.param(
            {"latency": "normal"}, {}, {"latency": "low"}, LOW_LATENCY_POLICY, id="the stream's"
        ),
        pytest.param(
            {"detect_seconds": 3.0},
            {},
            {},
            Policy(detect_seconds=3.0, align_wait_seconds=1.0),
            id="set",
        ),
        pytest.param(
            {"detect_seconds": 3.0},
            {"detect_seconds": 4.0},
            {},
            Policy(detect_seconds=4.0, align_wait_seconds=1.0),
            id="set for the project",
        ),
        pytest.param(
            {"detect_seconds": 3.0},
            {"detect_seconds": 4.0, "latency": "normal"},
            {"detect_seconds": 0.5},
            Policy(detect_seconds=0.5),
            id="set for the stream",
        ),
    ],
)
async def test_a_stall_is_noticed_sooner_at_low_latency_unless_its_time_is_set(
    tmp_path: Path,
    defaults: dict[str, Any],
    project: dict[str, Any],
    own: dict[str, Any],
    expected: Policy,
) -> None:
    async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as catalog:
        stream = (await catalog.installation.first_start(1)).stream
        assert stream is not None
        await catalog.project_settings.change(1, _change(project), Change(2))
        await catalog.stream_settings.change(stream.id, _change(own), Change(2))
        directory = CatalogDirectory(catalog, _service(defaults))
        grant = await directory.grant("live", stream.key)
        assert grant is not None
        assert grant.policy == expected


def test_each_setting_of_the_service_for_runs_is_in_its_policy() -> None:
    settings = msgspec.convert(
        {
            "live": {"latency": "normal", "reconnect_seconds": 7, "goodbye_seconds": 3},
            "failover": {"mode": "sticky", "detect_seconds": 4, "return_seconds": 5},
            "recording": {"enabled": False, "keep_days": 9},
        },
        ServiceSettings,
    )
    assert service_policy(settings) == resolve(
        RunPolicy(
            failover=RunFailover(
                mode="sticky",
                detect_seconds=4.0,
                return_seconds=5.0,
                reconnect_seconds=7.0,
                goodbye_seconds=3.0,
            ),
            recording=RunRecording(enabled=False, keep_days=9),
            latency="normal",
        )
    )
    assert service_policy(ServiceSettings()) == resolve(
        RunPolicy(recording=RunRecording(enabled=True))
    )


async def test_encoders_are_not_admitted_while_there_is_a_reason(tmp_path: Path) -> None:
    async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as catalog:
        stream = (await catalog.installation.first_start(1)).stream
        assert stream is not None
        on_air: set[str] = set()
        directory = CatalogDirectory(
            catalog, DEFAULTS, refuse=lambda hash_: "" if hash_ in on_air else "not ours"
        )
        with pytest.raises(PortError, match="not ours"):
            await directory.grant("live", stream.key)
        on_air.add(stream.hash)
        assert await directory.grant("live", stream.key) is not None


async def test_an_ended_stream_s_encoders_are_refused_at_each_of_its_addresses(
    tmp_path: Path,
) -> None:
    async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as catalog:
        stream = (await catalog.installation.first_start(1)).stream
        assert stream is not None
        now_us = 1_000

        def directory(seconds: float) -> CatalogDirectory:
            return CatalogDirectory(
                catalog, DEFAULTS, now_us=lambda: now_us, end_holds_seconds=seconds, host="a"
            )

        command = StreamCommand(stream=stream.id, hash=stream.hash, kind=CommandKind.END)
        number = await catalog.commands.add(command, now_us)
        assert await catalog.commands.start(number, now_us, hold_us=60_000_000)
        for application in ("live", "live-backup-1"):
            with pytest.raises(StreamEnded, match="after 65 s"):
                await directory(60).grant(application, stream.key)
        # What no encoder may use is as it was, and 0 lets all in.
        assert await directory(60).grant("live-backup-9", stream.key) is None
        assert await directory(60).grant("live", StreamKey.new(stream.hash)) is None
        assert await directory(0).grant("live", stream.key) is not None
        events = await catalog.events.find_page(1, subject=stream.hash)
        assert (events.items[0].kind, events.items[0].facts) == (
            "refused",
            {"slot": "primary", "reason": "the stream was ended", "host": "a"},
        )


async def test_a_deleted_stream_s_encoders_are_told_so_until_it_is_restored(tmp_path: Path) -> None:
    async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as catalog:
        stream = (await catalog.installation.first_start(1)).stream
        assert stream is not None
        directory = CatalogDirectory(catalog, DEFAULTS)
        await catalog.streams.remove(stream.id, Change(1, keep_us=10))
        for application in ("live", "live-backup-1"):
            with pytest.raises(StreamDeleted, match="its owner can restore it from the trash"):
                await directory.grant(application, stream.key)
        assert await directory.grant("live", StreamKey.new(stream.hash)) is None, "a wrong key"
        (item,) = (await catalog.trash.find_page(1, 1, 2)).items
        await catalog.trash.restore(item.id, Change(2))
        assert await directory.grant("live", stream.key) is not None


@pytest.mark.parametrize(("own", "seconds"), [({}, 30.0), ({"reconnect_seconds": 0.0}, 10.0)])
async def test_a_run_waits_for_its_picture_as_for_an_encoder_and_ten_seconds_at_least(
    tmp_path: Path, own: dict[str, Any], seconds: float
) -> None:
    async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as catalog:
        stream = (await catalog.installation.first_start(1)).stream
        assert stream is not None
        await catalog.stream_settings.change(stream.id, _change(own), Change(2))
        directory = CatalogDirectory(catalog, _service({"reconnect_seconds": 30.0}))
        grant = await directory.grant("live", stream.key)
        assert grant is not None
        assert grant.policy.picture_seconds == seconds


def _service(values: dict[str, Any]) -> ResolvedPolicy:
    """Return the service's policy with a `latency` and times."""
    times = {key: value for key, value in values.items() if key != "latency"}
    failover = RunFailover[None](**times)
    return resolve(RunPolicy(failover=failover, latency=values.get("latency")))


def _change(values: dict[str, Any]) -> SettingsChange:
    """Return a change of `latency` and of times."""
    return SettingsChange(
        failover=FailoverChange(
            detect_seconds=values.get("detect_seconds", msgspec.UNSET),
            reconnect_seconds=values.get("reconnect_seconds", msgspec.UNSET),
        ),
        latency=values.get("latency", msgspec.UNSET),
    )


async def test_a_run_has_the_settings_of_the_grant_that_opens_it(tmp_path: Path) -> None:
    grant = Grant(
        stream=1,
        hash="Ab3dEf6hIj9k",
        slot=Slot(0),
        active=frozenset(),
        reconnect_seconds=7.0,
        goodbye_seconds=3.0,
        run=resolve(
            RunPolicy(
                failover=RunFailover(reconnect_seconds=7.0), latency="normal", dvr_seconds=3600.0
            )
        ),
    )
    with DiskObjects(tmp_path) as objects:
        transcoding = LiveTranscoding(objects=objects, edge=MemoryEdge(), window=LiveWindow())
        sinks = EngineSinks(transcoding, part_seconds=0.25)
        async with sinks.run(grant, lambda: None, 5) as run:
            assert isinstance(run, LiveRun)
            assert run.settings == RunSettings(policy=grant.run, part_seconds=0.25, generation=5)


async def test_events_name_the_host_where_several_receive_streams(tmp_path: Path) -> None:
    async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as catalog:
        stream = (await catalog.installation.first_start(1)).stream
        assert stream is not None
        state = LiveState(
            stream=stream.id, hash=stream.hash, live=False, processing=False, on_air=None,
            sending=frozenset(), no_audio=False,
        )  # fmt: skip
        for name in (None, "ingest-1"):
            event = SlateEvent(reason="lost")
            journal = CatalogJournal(catalog, lambda: 5, name)
            await journal.write(state, (event,))
            await journal.happened(stream.hash, EngineLostEvent(cause="killed"))
        found = [(each.kind, each.facts) for each in (await catalog.events.find_page(1)).items]
    assert found[:4] == [
        ("engine lost", {"cause": "killed", "host": "ingest-1"}),
        ("slate", {"reason": "lost", "host": "ingest-1"}),
        ("engine lost", {"cause": "killed"}),
        ("slate", {"reason": "lost"}),
    ]


async def test_a_state_is_written_by_the_owner_of_its_stream_alone(tmp_path: Path) -> None:
    async with open_catalog(migrated(tmp_path / "catalog.db"), migrate=True) as catalog:
        stream = (await catalog.installation.first_start(1)).stream
        assert stream is not None
        host = await catalog.hosts.register("a", "ingest", None, "1")
        first = await catalog.owners.claim(stream.id, host, dead_seconds=60)
        await catalog.owners.release(stream.id, host, first.generation)
        second = await catalog.owners.claim(stream.id, host, dead_seconds=60)
        state = LiveState(
            stream=stream.id, hash=stream.hash, live=True, processing=True, on_air=Slot(0),
            sending=frozenset({Slot(0)}), no_audio=False,
        )  # fmt: skip
        for owner, live in ((first, False), (second, True)):
            written = msgspec.structs.replace(state, generation=owner.generation)
            await CatalogJournal(catalog, lambda: 5).write(written, ())
            assert (await catalog.streams.find_all())[0].live is live
