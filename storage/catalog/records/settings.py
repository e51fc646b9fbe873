"""What owners can set for a stream, and for a project as the default of its streams: values.

Units are in the names. `storage.catalog.streams.settings` stores them.
"""

from typing import Final, TypeVar

import msgspec

__all__ = [
    "DETECT_SECONDS",
    "DVR_SECONDS",
    "KEEP_DAYS",
    "LATENCIES",
    "MAX_SECONDS",
    "MODES",
    "RETURN_SECONDS",
    "FailoverChange",
    "OwnerSettings",
    "RecordingChange",
    "SettingsChange",
    "SlateChange",
    "StreamFailover",
    "StreamRecording",
    "StreamSettings",
    "effective_settings",
    "parse_settings",
]

# A day: no run waits longer for its encoder.
MAX_SECONDS: Final = 86_400.0
# Least and most. Below half a second one lost packet of the network looks like a failure; after
# half a minute of nothing viewers have gone.
DETECT_SECONDS: Final = (0.5, 30.0)
# 0 switches back at once. More than ten minutes would amount to `sticky`.
RETURN_SECONDS: Final = (0.0, 600.0)
# More than ten years is no useful limit.
KEEP_DAYS: Final = (1, 3650)
MODES: Final = ("prefer_primary", "sticky")
LATENCIES: Final = ("low", "normal")
# Least and most. Twelve hours are a day's event; what is longer is watched from its recording.
DVR_SECONDS: Final = (0.0, 43_200.0)

_S = TypeVar("_S", bound=msgspec.Struct)


class StreamFailover(msgspec.Struct, frozen=True, kw_only=True):
    """What a run does without its encoder; None leaves a field to the next default.

    A stream's default is its project's setting, a project's is the configuration.

    Attributes:
        mode: One of `MODES`: whether a primary that has recovered replaces the backup on air.
        detect_seconds: For how long no media arrive before an encoder counts as failed.
        return_seconds: For how long a primary must be healthy before it replaces a backup.
        reconnect_seconds: How long a run waits for an encoder whose connection was lost.
        goodbye_seconds: How long a run waits for an encoder that disconnected properly.
    """

    mode: str | None = None
    detect_seconds: float | None = None
    return_seconds: float | None = None
    reconnect_seconds: float | None = None
    goodbye_seconds: float | None = None


class StreamRecording(msgspec.Struct, frozen=True, kw_only=True):
    """Whether runs become videos, and for how many days; None as in `StreamFailover`."""

    enabled: bool | None = None
    keep_days: int | None = None


class StreamSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a stream or a project; None as in `StreamFailover`.

    Attributes:
        failover: What a run does without its encoder.
        recording: Whether runs become videos.
        latency: One of `LATENCIES`: whether playlists are low-latency HLS.
        dvr_seconds: How far viewers may go back in a run; at least the length of a live playlist.
    """

    failover: StreamFailover = StreamFailover()
    recording: StreamRecording = StreamRecording()
    latency: str | None = None
    dvr_seconds: float | None = None


class OwnerSettings(StreamSettings, frozen=True, kw_only=True):
    """The settings that a stream or project has itself; `slate` is the address of its own slate."""

    slate: str | None = None


class SlateChange(msgspec.Struct, frozen=True, kw_only=True):
    """The settings after a change of the slate, and the address of the picture no longer used."""

    settings: OwnerSettings
    unused: str | None


class FailoverChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of `StreamFailover`; UNSET leaves a field as it is, None removes the setting."""

    mode: str | msgspec.UnsetType | None = msgspec.UNSET
    detect_seconds: float | msgspec.UnsetType | None = msgspec.UNSET
    return_seconds: float | msgspec.UnsetType | None = msgspec.UNSET
    reconnect_seconds: float | msgspec.UnsetType | None = msgspec.UNSET
    goodbye_seconds: float | msgspec.UnsetType | None = msgspec.UNSET


class RecordingChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of `StreamRecording`; UNSET leaves a field as it is, None removes the setting."""

    enabled: bool | msgspec.UnsetType | None = msgspec.UNSET
    keep_days: int | msgspec.UnsetType | None = msgspec.UNSET


class SettingsChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of `StreamSettings`; UNSET leaves a field as it is, None removes the setting."""

    failover: FailoverChange = FailoverChange()
    recording: RecordingChange = RecordingChange()
    latency: str | msgspec.UnsetType | None = msgspec.UNSET
    dvr_seconds: float | msgspec.UnsetType | None = msgspec.UNSET


def effective_settings(settings: str, defaults: str) -> StreamSettings:
    """Return a stream's settings, with its project's where it has none of its own.

    Both arguments are `settings` columns, as JSON.
    """
    return _merge(parse_settings(settings), parse_settings(defaults))


def parse_settings(settings: str) -> StreamSettings:
    """Parse a `settings` column."""
    return msgspec.json.decode(settings, type=StreamSettings)


def _merge(own: _S, fallback: _S) -> _S:
    """Return settings, or a section, with each key that is None in `own` filled from `fallback`."""
    merged: dict[str, object] = {}
    for field in own.__struct_fields__:
        value, default = getattr(own, field), getattr(fallback, field)
        is_section = isinstance(value, msgspec.Struct)
        merged[field] = (
            _merge(value, default) if is_section else default if value is None else value
        )
    return msgspec.structs.replace(own, **merged)
