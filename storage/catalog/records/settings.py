"""What can be set for a stream, and for a project as the default of its streams: values.

Seconds and days are as their names say. `storage.catalog.streams.settings` keeps them.
"""

from typing import Final, TypeVar

import msgspec

__all__ = [
    "DETECT_SECONDS",
    "KEEP_DAYS",
    "MAX_SECONDS",
    "MODES",
    "RETURN_SECONDS",
    "Chosen",
    "Failover",
    "FailoverChange",
    "Recording",
    "RecordingChange",
    "SettingsChange",
    "StreamSettings",
    "in_force",
    "read",
]

# A day: a run that waits longer for its encoder is one that nobody waits for.
MAX_SECONDS: Final = 86_400.0
# Least and most. Below a second an encoder's own hiccups are taken for its death; after half a
# minute of nothing viewers have gone.
DETECT_SECONDS: Final = (1.0, 30.0)
# 0 goes back at once; ten minutes of doubt are as good as `sticky`.
RETURN_SECONDS: Final = (0.0, 600.0)
# Ten years are for ever, on a disk.
KEEP_DAYS: Final = (1, 3650)
MODES: Final = ("prefer_primary", "sticky")

_Section = TypeVar("_Section", bound=msgspec.Struct)


class Failover(msgspec.Struct, frozen=True, kw_only=True):
    """What a run does without its encoder, in seconds; None: what stands behind it says.

    `mode` is one of `MODES`: whether a primary that is well again takes over from a backup, which
    it must have been for `return_seconds`. Media that stay away for `detect_seconds` have failed.
    `goodbye_seconds` is how long a run waits for an encoder that took its leave,
    `reconnect_seconds` for one that was lost.
    """

    mode: str | None = None
    detect_seconds: float | None = None
    return_seconds: float | None = None
    reconnect_seconds: float | None = None
    goodbye_seconds: float | None = None


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """Whether runs are kept as videos, and for how many days; None: what stands behind it says."""

    enabled: bool | None = None
    keep_days: int | None = None


class StreamSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What was set, section by section."""

    failover: Failover = Failover()
    recording: Recording = Recording()


class Chosen(StreamSettings, frozen=True, kw_only=True):
    """What was set for one stream or project; `slate` is the address of its own picture."""

    slate: str | None = None


class FailoverChange(msgspec.Struct, frozen=True, kw_only=True):
    """What is to change of `Failover`; None takes back what was set."""

    mode: str | msgspec.UnsetType | None = msgspec.UNSET
    detect_seconds: float | msgspec.UnsetType | None = msgspec.UNSET
    return_seconds: float | msgspec.UnsetType | None = msgspec.UNSET
    reconnect_seconds: float | msgspec.UnsetType | None = msgspec.UNSET
    goodbye_seconds: float | msgspec.UnsetType | None = msgspec.UNSET


class RecordingChange(msgspec.Struct, frozen=True, kw_only=True):
    """What is to change of `Recording`; None takes back what was set."""

    enabled: bool | msgspec.UnsetType | None = msgspec.UNSET
    keep_days: int | msgspec.UnsetType | None = msgspec.UNSET


class SettingsChange(msgspec.Struct, frozen=True, kw_only=True):
    """What is to change, section by section."""

    failover: FailoverChange = FailoverChange()
    recording: RecordingChange = RecordingChange()


def in_force(settings: str, defaults: str) -> StreamSettings:
    """Return what holds for a stream: its own settings before those of its project.

    Both are the `settings` columns as they stand.
    """
    own, behind = read(settings), read(defaults)
    return StreamSettings(
        failover=_first(own.failover, behind.failover),
        recording=_first(own.recording, behind.recording),
    )


def read(settings: str) -> StreamSettings:
    """Return what a `settings` column says."""
    return msgspec.json.decode(settings, type=StreamSettings)


def _first(own: _Section, behind: _Section) -> _Section:
    """Return a section with each gap of `own` filled from what stands behind it."""
    unset = [field for field in own.__struct_fields__ if getattr(own, field) is None]
    return msgspec.structs.replace(own, **{field: getattr(behind, field) for field in unset})
