"""What owners have set for a stream, and for a project as the default of its streams: values.

The settings themselves are `media.run_policy`; `storage.catalog.streams.settings` stores them.
"""

import msgspec

from media.run_policy import RunFailover, RunPolicy, RunRecording, changes_of, merge

# None leaves a field to the next default: a stream's is its project's setting, a project's is the
# service's.
StreamFailover = RunFailover[None]
StreamRecording = RunRecording[None]
StreamSettings = RunPolicy[None]


class OwnerSettings(StreamSettings, frozen=True, kw_only=True):
    """The settings that a stream or project has itself; `slate` is the address of its own slate."""

    slate: str | None = None


class SlateChange(msgspec.Struct, frozen=True, kw_only=True):
    """The settings after a change of the slate, and the address of the picture no longer used."""

    settings: OwnerSettings
    unused: str | None


class FailoverChange(changes_of(RunFailover), msgspec.Struct, frozen=True, kw_only=True):
    """A change of `StreamFailover`."""


class RecordingChange(changes_of(RunRecording), msgspec.Struct, frozen=True, kw_only=True):
    """A change of `StreamRecording`."""


class SettingsChange(
    changes_of(RunPolicy, failover=FailoverChange, recording=RecordingChange),
    msgspec.Struct,
    frozen=True,
    kw_only=True,
):
    """A change of `StreamSettings`."""


def effective_settings(settings: str, defaults: str) -> StreamSettings:
    """Return a stream's settings, with its project's where it has none of its own.

    Both arguments are `settings` columns, as JSON.
    """
    return merge(parse_settings(settings), parse_settings(defaults))


def parse_settings(settings: str) -> StreamSettings:
    """Parse a `settings` column."""
    return msgspec.json.decode(settings, type=StreamSettings)
