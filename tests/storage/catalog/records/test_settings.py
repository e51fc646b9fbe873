"""A stream's settings override its project's, key by key; old stored settings stay readable."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from storage.catalog.records.settings import (
    StreamFailover,
    StreamRecording,
    StreamSettings,
    effective_settings,
    parse_settings,
)

SECONDS = st.none() | st.floats(0, 100)
SETTINGS = st.builds(
    StreamSettings,
    failover=st.builds(StreamFailover, detect_seconds=SECONDS, reconnect_seconds=SECONDS),
    recording=st.builds(
        StreamRecording, enabled=st.none() | st.booleans(), keep_days=st.none() | st.integers(1, 9)
    ),
    latency=st.none() | st.sampled_from(["low", "normal"]),
    dvr_seconds=SECONDS,
)


def text(settings: StreamSettings) -> str:
    return msgspec.json.encode(settings).decode()


@given(SETTINGS, SETTINGS)
def test_each_key_is_the_streams_own_or_else_the_projects(
    own: StreamSettings, project: StreamSettings
) -> None:
    effective = effective_settings(text(own), text(project))
    for merged, mine, theirs in (
        (effective, own, project),
        (effective.failover, own.failover, project.failover),
        (effective.recording, own.recording, project.recording),
    ):
        for field in mine.__struct_fields__:
            value = getattr(mine, field)
            if not isinstance(value, msgspec.Struct):
                wanted = getattr(theirs, field) if value is None else value
                assert getattr(merged, field) == wanted


@given(SETTINGS)
def test_settings_are_read_as_they_were_stored(settings: StreamSettings) -> None:
    assert parse_settings(text(settings)) == settings


def test_settings_of_other_versions_are_read() -> None:
    assert parse_settings("{}") == StreamSettings()
    settings = parse_settings('{"recording": {"keep_days": 3}, "of_a_later_version": 1}')
    assert settings == StreamSettings(recording=StreamRecording(keep_days=3))
