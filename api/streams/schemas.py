"""The bodies of the operations on single streams that are not in `api.schemas.common`."""

from typing import Annotated, Literal

import msgspec

from api.library.countries import CountryReferences
from api.library.labels import TagReferences
from api.schemas.common import Backup, StreamBody
from api.schemas.text_fields import Description, Title
from storage.catalog.records.settings import DETECT_SECONDS, KEEP_DAYS, MAX_SECONDS, RETURN_SECONDS

__all__ = [
    "BackupAdded",
    "Drill",
    "Drilled",
    "Failover",
    "FailoverEdit",
    "Recording",
    "RecordingEdit",
    "Settings",
    "SettingsChanged",
    "SettingsData",
    "SettingsEdit",
    "Slate",
    "StreamChanged",
    "StreamData",
    "StreamEdit",
]

Seconds = Annotated[float, msgspec.Meta(ge=0, le=MAX_SECONDS)]
Mode = Literal["prefer_primary", "sticky"]
Detect = Annotated[float, msgspec.Meta(ge=DETECT_SECONDS[0], le=DETECT_SECONDS[1])]
Return = Annotated[float, msgspec.Meta(ge=RETURN_SECONDS[0], le=RETURN_SECONDS[1])]
Days = Annotated[int, msgspec.Meta(ge=KEEP_DAYS[0], le=KEEP_DAYS[1])]


class StreamEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What of a stream is to change; what is not sent stays.

    Null clears what may be empty. `tags`, `countries` and `resolutions` replace the whole list.
    """

    title: Title | msgspec.UnsetType = msgspec.UNSET
    description: Description | msgspec.UnsetType = msgspec.UNSET
    category: int | msgspec.UnsetType | None = msgspec.UNSET
    countries: CountryReferences | msgspec.UnsetType | None = msgspec.UNSET
    tags: TagReferences | msgspec.UnsetType | None = msgspec.UNSET
    resolutions: (
        Annotated[list[int], msgspec.Meta(min_length=1, max_length=100)] | msgspec.UnsetType
    ) = msgspec.UNSET
    player: int | msgspec.UnsetType | None = msgspec.UNSET


class StreamData(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a look at one stream."""

    data: StreamBody


class StreamChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a change."""

    message: str
    stream: StreamBody


class BackupAdded(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to adding a backup."""

    message: str
    backup: Backup


class Drill(msgspec.Struct, frozen=True, kw_only=True):
    """How a drill went: from which slot to which ("primary", "backup 1").

    `gap_ms` is how much of the programme viewers missed, `switched_after_ms` how long the switch
    took from the order on.
    """

    from_: str = msgspec.field(name="from")
    to: str
    gap_ms: int
    switched_after_ms: int


class Drilled(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a drill."""

    message: str
    drill: Drill


class Failover(msgspec.Struct, frozen=True, kw_only=True):
    """What a run does without its encoder; null: what stands behind it says.

    That is the project for a stream, and the service's own settings for a project.
    """

    mode: str | None
    detect_seconds: float | None
    return_seconds: float | None
    reconnect_seconds: float | None
    goodbye_seconds: float | None


class FailoverEdit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to change: `goodbye_seconds` is for an encoder that took its leave.

    `mode` says whether a primary that is well again takes over from a backup, once it has been well
    for `return_seconds`. Media that stays away for `detect_seconds` has failed.
    """

    mode: Mode | msgspec.UnsetType | None = msgspec.UNSET
    detect_seconds: Detect | msgspec.UnsetType | None = msgspec.UNSET
    return_seconds: Return | msgspec.UnsetType | None = msgspec.UNSET
    reconnect_seconds: Seconds | msgspec.UnsetType | None = msgspec.UNSET
    goodbye_seconds: Seconds | msgspec.UnsetType | None = msgspec.UNSET


class Slate(msgspec.Struct, frozen=True, kw_only=True):
    """What viewers get while nobody is on air; `picture` is an address, null where none is set."""

    picture: str | None


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """Whether runs are kept as videos, and for how many days; null as in `Failover`."""

    enabled: bool | None
    keep_days: int | None


class RecordingEdit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to change."""

    enabled: bool | msgspec.UnsetType | None = msgspec.UNSET
    keep_days: Days | msgspec.UnsetType | None = msgspec.UNSET


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What was set for a stream, or for all streams of a project."""

    failover: Failover
    slate: Slate
    recording: Recording


class SettingsEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be set; null takes back what was. The slate has an address of its own."""

    failover: FailoverEdit | msgspec.UnsetType = msgspec.UNSET
    recording: RecordingEdit | msgspec.UnsetType = msgspec.UNSET


class SettingsData(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a look at settings."""

    data: Settings


class SettingsChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a change of settings."""

    message: str
    settings: Settings
