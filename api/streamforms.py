"""The bodies of the operations on single streams that are not in `api.schemas`."""

from typing import Annotated

import msgspec

from api.countries import CountryReferences
from api.labels import TagReferences
from api.schemas import Backup, Stream
from api.texts import Description, Title
from storage.catalog.streamsettings import MAX_SECONDS

__all__ = [
    "BackupAdded",
    "Failover",
    "FailoverEdit",
    "Settings",
    "SettingsChanged",
    "SettingsData",
    "SettingsEdit",
    "StreamChanged",
    "StreamData",
    "StreamEdit",
]

Seconds = Annotated[float, msgspec.Meta(ge=0, le=MAX_SECONDS)]


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

    data: Stream


class StreamChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a change."""

    message: str
    stream: Stream


class BackupAdded(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to adding a backup."""

    message: str
    backup: Backup


class Failover(msgspec.Struct, frozen=True, kw_only=True):
    """How long a run waits for its encoder, in seconds; null: what stands behind it says.

    That is the project for a stream, and the service's own settings for a project.
    """

    reconnect_seconds: float | None
    goodbye_seconds: float | None


class FailoverEdit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to change: `goodbye_seconds` is for an encoder that took its leave."""

    reconnect_seconds: Seconds | msgspec.UnsetType | None = msgspec.UNSET
    goodbye_seconds: Seconds | msgspec.UnsetType | None = msgspec.UNSET


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What was set for a stream, or for all streams of a project."""

    failover: Failover


class SettingsEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be set; null takes back what was."""

    failover: FailoverEdit | msgspec.UnsetType = msgspec.UNSET


class SettingsData(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a look at settings."""

    data: Settings


class SettingsChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a change of settings."""

    message: str
    settings: Settings
