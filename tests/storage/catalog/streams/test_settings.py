"""What is set for streams and projects, and what of it is in force; the slate's picture with it."""

import msgspec
import pytest

from storage.catalog import Catalog
from storage.catalog.records.common import Change, StreamRecord
from storage.catalog.records.settings import (
    FailoverChange,
    OwnerSettings,
    RecordingChange,
    SettingsChange,
    StreamFailover,
    StreamRecording,
    StreamSettings,
    effective_settings,
)

NOW = 5_000
BY = 3
ALL_FAILOVER = FailoverChange(
    mode="sticky",
    detect_seconds=1.5,
    return_seconds=0.0,
    reconnect_seconds=30.0,
    goodbye_seconds=4.5,
    align="off",
    align_wait_seconds=2.5,
    quality="switch",
    quality_seconds=4.0,
)


def changed(**failover: object) -> SettingsChange:
    return SettingsChange(failover=msgspec.convert(failover, FailoverChange))


async def begun(catalog: Catalog) -> StreamRecord:
    stream = (await catalog.installation.first_start(1)).stream
    assert stream is not None
    return stream


async def kinds(catalog: Catalog) -> list[tuple[str, object]]:
    events = (await catalog.events.find_page(1)).items
    return [(each.kind, each.facts.get("keys")) for each in reversed(events)][1:]


@pytest.mark.parametrize(
    ("own", "behind", "expected"),
    [
        pytest.param("{}", "{}", (None, None, None), id="nothing was set"),
        pytest.param(
            '{"failover": {"mode": "sticky"}}',
            '{"failover": {"mode": "prefer_primary", "detect_seconds": 3}}',
            ("sticky", 3.0, None),
            id="each key by itself",
        ),
        pytest.param(
            '{"failover": {"return_seconds": 0}}',
            '{"failover": {"return_seconds": 9}}',
            (None, None, 0.0),
            id="zero is set",
        ),
    ],
)
def test_a_streams_own_settings_come_first_key_by_key(
    own: str, behind: str, expected: tuple[object, ...]
) -> None:
    failover = effective_settings(own, behind).failover
    assert (failover.mode, failover.detect_seconds, failover.return_seconds) == expected


def test_latency_and_dvr_come_from_the_project_where_the_stream_has_none() -> None:
    effective = effective_settings('{"latency": "normal"}', '{"latency": "low", "dvr_seconds": 60}')
    assert (effective.latency, effective.dvr_seconds) == ("normal", 60.0)
    effective = effective_settings('{"dvr_seconds": 0}', '{"dvr_seconds": 60}')
    assert (effective.latency, effective.dvr_seconds) == (None, 0.0)


def test_off_is_set_too() -> None:
    own, behind = (
        '{"recording": {"enabled": false}}',
        '{"recording": {"enabled": true, "keep_days": 3}}',
    )
    assert effective_settings(own, behind).recording == StreamRecording(enabled=False, keep_days=3)


async def test_ingest_gets_the_streams_own_settings_before_its_projects(
    catalog: Catalog,
) -> None:
    stream = await begun(catalog)
    assert await catalog.stream_settings.find(stream.id) == OwnerSettings()

    async def current() -> StreamSettings:
        ingest_stream = await catalog.live_state.find_ingest(stream.key)
        assert ingest_stream is not None
        windows = await catalog.live_state.find_reconnect_windows()
        assert windows == {stream.hash: ingest_stream.settings.failover.reconnect_seconds}
        return ingest_stream.settings

    assert await current() == StreamSettings()
    everything = SettingsChange(
        failover=ALL_FAILOVER,
        recording=RecordingChange(enabled=True, keep_days=7),
        latency="low",
        dvr_seconds=3600.0,
    )
    for_all = await catalog.project_settings.change(1, everything, Change(NOW, by=BY))
    failover = StreamFailover(**msgspec.structs.asdict(ALL_FAILOVER))
    expected = StreamSettings(
        failover=failover,
        recording=StreamRecording(enabled=True, keep_days=7),
        latency="low",
        dvr_seconds=3600.0,
    )
    assert for_all == OwnerSettings(**msgspec.structs.asdict(expected))
    assert await catalog.project_settings.find(1) == for_all
    assert await catalog.stream_settings.find(stream.id) == OwnerSettings()
    assert await current() == expected
    change = SettingsChange(failover=FailoverChange(goodbye_seconds=0.0), latency="normal")
    own = await catalog.stream_settings.change(stream.id, change, Change(NOW, by=BY))
    assert own == OwnerSettings(failover=StreamFailover(goodbye_seconds=0.0), latency="normal")
    assert await current() == msgspec.structs.replace(
        expected,
        failover=msgspec.structs.replace(failover, goodbye_seconds=0.0),
        latency="normal",
    )
    change = SettingsChange(failover=FailoverChange(goodbye_seconds=None), latency=None)
    assert (
        await catalog.stream_settings.change(stream.id, change, Change(NOW, by=BY))
        == OwnerSettings()
    )
    assert await current() == expected


async def test_a_change_names_the_keys_that_are_others_now(catalog: Catalog) -> None:
    stream = await begun(catalog)
    both = SettingsChange(
        failover=FailoverChange(mode="sticky", detect_seconds=2.0),
        recording=RecordingChange(enabled=False),
        latency="normal",
        dvr_seconds=60.0,
    )
    await catalog.stream_settings.change(stream.id, both, Change(NOW, by=BY))
    again = SettingsChange(failover=FailoverChange(mode="sticky", detect_seconds=3.0))
    await catalog.stream_settings.change(stream.id, again, Change(NOW, by=BY))
    before = await catalog.streams.find(stream.id)
    assert before is not None
    await catalog.stream_settings.change(stream.id, again, Change(NOW + 1, by=BY))
    await catalog.stream_settings.change(
        stream.id, changed(goodbye_seconds=None), Change(NOW + 1, by=BY)
    )
    after = await catalog.streams.find(stream.id)
    assert after is not None
    assert after == before  # which says nothing new
    assert (after.version, after.updated_us) == (stream.version + 2, NOW)
    assert await kinds(catalog) == [
        (
            "stream settings changed",
            [
                "dvr_seconds",
                "failover.detect_seconds",
                "failover.mode",
                "latency",
                "recording.enabled",
            ],
        ),
        ("stream settings changed", ["failover.detect_seconds"]),
    ]


async def test_a_stream_has_its_own_picture_its_projects_or_none(catalog: Catalog) -> None:
    stream = await begun(catalog)
    project = await catalog.projects.find("1")
    assert project is not None

    async def shown() -> str | None:
        ingest_stream = await catalog.live_state.find_ingest(stream.key)
        assert ingest_stream is not None
        return ingest_stream.slate

    assert await shown() is None
    edited = await catalog.project_settings.set_slate(1, "41", Change(NOW, by=BY))
    assert edited is not None
    of_project = f"slates/p-{project.key}/41.jpg"
    assert (edited.settings.slate, edited.unused) == (of_project, None)
    assert await shown() == of_project
    edited = await catalog.stream_settings.set_slate(stream.id, "42", Change(NOW, by=BY))
    assert edited is not None
    assert (edited.settings.slate, edited.unused) == (f"slates/s-{stream.hash}/42.jpg", None)
    assert await shown() == edited.settings.slate
    ingest_stream = await catalog.stream_settings.find(stream.id)
    assert ingest_stream is not None
    assert ingest_stream.slate == edited.settings.slate
    replaced = await catalog.stream_settings.set_slate(stream.id, "43", Change(NOW, by=BY))
    assert replaced is not None
    assert replaced.unused == edited.settings.slate
    # The same once more: a picture in use is not to be removed.
    same = await catalog.stream_settings.set_slate(stream.id, "43", Change(NOW, by=BY))
    assert same is not None
    assert same.unused is None
    removed = await catalog.stream_settings.set_slate(stream.id, None, Change(NOW, by=BY))
    assert removed is not None
    assert (removed.settings.slate, removed.unused) == (None, f"slates/s-{stream.hash}/43.jpg")
    assert await shown() == of_project
    assert [kind for kind, _ in await kinds(catalog)] == [
        "project slate changed", *["stream slate changed"] * 3,
    ]  # fmt: skip
    assert await catalog.project_settings.set_slate(99, "1", Change(NOW, by=BY)) is None
