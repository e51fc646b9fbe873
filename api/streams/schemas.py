"""The bodies of the operations on single streams, except those in `api.schemas.common`.

Classes that end in `Body` are shown without that suffix in the OpenAPI document.
"""

from typing import Annotated

import msgspec

from api.library.references import CountryReferences, TagReferences
from api.schemas.common import Backup, StreamBody, shown_as
from api.schemas.text_fields import Description, OptionalTitle, Title
from api.schemas.timestamps import Moment
from api.videos.schemas import Video
from media.encoder_report import (
    AlignmentReport,
    ClockReport,
    NetworkReport,
    PictureReport,
    SecondsReport,
    SoundReport,
)
from media.run_policy import RunFailover, RunPolicy, RunRecording, shown_by
from media.source_fault import SourceFault
from storage.catalog.records.settings import FailoverChange, RecordingChange, SettingsChange


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
    """The answer to showing a stream."""

    data: StreamBody


class StreamChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to changing a stream."""

    message: str
    stream: StreamBody


class BackupAdded(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to adding a backup."""

    message: str
    backup: Backup


class ClipAddition(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a stream that is to be a video, by the times that its playlists show."""

    from_: Moment = msgspec.field(name="from")
    to: Moment
    title: OptionalTitle | msgspec.UnsetType = msgspec.UNSET


class ClipTime(msgspec.Struct, frozen=True, kw_only=True):
    """When a clip begins and ends, by the stream's clock."""

    from_: str = msgspec.field(name="from")
    to: str


class ClipAdded(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to making a clip."""

    message: str
    video: Video
    clip: ClipTime


class Drill(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a drill; `from` and `to` name slots ("primary", "backup-1").

    `gap_ms` is how much of the programme viewers missed, `switched_after_ms` the time from the
    command to the switch. `host` is the process that serves the stream, where several receive
    streams.
    """

    from_: str = msgspec.field(name="from")
    to: str
    gap_ms: int
    switched_after_ms: int
    host: str | None = None


class Drilled(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a drill."""

    message: str
    drill: Drill


@shown_as("Failover")
class FailoverBody(shown_by(RunFailover), msgspec.Struct, frozen=True, kw_only=True):
    """What a run does without its encoder.

    A null of a stream is decided by its project, a null of a project by the service's settings.
    """


class FailoverEdit(FailoverChange, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to change: `goodbye_seconds` is for an encoder that ended its stream properly.

    `mode` says whether a primary that works again takes over from a backup, once it has worked for
    `return_seconds`. Media that stays away for `detect_seconds` has failed.
    """


@shown_as("Slate")
class SlateBody(msgspec.Struct, frozen=True, kw_only=True):
    """The picture that viewers get while no encoder is on air; `picture` is its URL or null."""

    picture: str | None


@shown_as("Recording")
class RecordingBody(shown_by(RunRecording), msgspec.Struct, frozen=True, kw_only=True):
    """Whether runs are recorded as videos, and kept for how many days; null as in
    `FailoverBody`.
    """


class RecordingEdit(RecordingChange, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to change."""


@shown_as("Settings")
class SettingsBody(
    shown_by(RunPolicy, failover=FailoverBody, slate=SlateBody, recording=RecordingBody),
    msgspec.Struct,
    frozen=True,
    kw_only=True,
):
    """The settings of a stream, or of all streams of a project; null as in `FailoverBody`.

    `latency` says whether playlists are low-latency HLS, `dvr_seconds` how far viewers may go back.
    """


class SettingsEdit(SettingsChange, frozen=True, kw_only=True):
    """What is to be set; null takes back what was. The slate has an address of its own.

    `dvr_seconds` 0 is the length of a live playlist (`live.listed_seconds`).
    """

    failover: FailoverEdit | msgspec.UnsetType = msgspec.UNSET
    recording: RecordingEdit | msgspec.UnsetType = msgspec.UNSET


class SettingsData(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to showing settings."""

    data: SettingsBody


class SettingsChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to changing settings."""

    message: str
    settings: SettingsBody


@shown_as("Encoder")
class EncoderBody(msgspec.Struct, frozen=True, kw_only=True):
    """A connected encoder; `backup_id` is null for the primary.

    `alignment` is null for the encoder that others are compared with, and while it is alone.
    `faults` are black, a frozen picture or silence that it shows: "fault" while another encoder
    does not show that, "both" while all do, "unknown" if that cannot be told.
    """

    slot: str
    backup_id: int | None
    peer: str
    connected_seconds: float
    video: PictureReport | None
    audio: SoundReport | None
    network: NetworkReport
    clock: ClockReport
    seconds: SecondsReport
    advice: list[str]
    alignment: AlignmentReport | None
    faults: list[SourceFault]


class IngestReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All encoders of a stream; `on_air` is the slot that viewers get now.

    `held_until`: the stream was ended, and encoders are refused until this time, or longer if one
    tries meanwhile; not there if they are let in. `host` is the process that serves the stream,
    where several receive streams.
    """

    live: bool
    on_air: str | None
    slots: list[EncoderBody]
    advice: list[str]
    held_until: str | None = None
    host: str | None = None


class IngestData(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to showing what a stream's encoders send."""

    data: IngestReport
