"""Every kind of event there is, one type each: what can be recorded, and who is told.

Those of a stream on air are `media.stream_events`, which says how types, stored names, facts and
`docs/events.md` belong together; those of changes that callers make are here. `EVENTS` are what
gets a row in the log, in the order of the page; `STATES`, which several events lead to, and
progress are broadcast alone.

A new kind is a class here, and, of a stream, a sentence in `api.console.event_words`; then run
`scripts/events_page.py`.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final

import msgspec

from media import stream_events as on_air
from media.alerts import AlertKind
from media.stream_events import OwnerEvent, StreamEvent

_Meta = msgspec.Meta
_Keys = Annotated[list[str], _Meta(description="the keys that were sent")]
_ChangedKeys = Annotated[list[str], _Meta(description="such as `failover.mode`")]
_MailKeys = Annotated[list[str], _Meta(description="`to`, or kinds such as `off_air`")]
_HasPicture = Annotated[bool, _Meta(description="whether it has its own picture now")]
_VideoHash = Annotated[str, _Meta(description="its hash")]
_Size = Annotated[int, _Meta(description="of the file, in bytes")]
_Link = Annotated[int, _Meta(description="its id")]
_Replacing = Annotated[bool | msgspec.UnsetType, _Meta(description="true if for another file")]
_FileNumber = Annotated[int, _Meta(description="the number of the file, from 2 on")]
_Expired = Annotated[bool, _Meta(description="whether its time in the trash was over")]
_Cause = Annotated[str | msgspec.UnsetType, _Meta(description="if no owner asked for it")]


class VideoEvent(OwnerEvent, frozen=True, kw_only=True):
    """An event of a video."""


class ProjectEvent(OwnerEvent, frozen=True, kw_only=True):
    """An event of a project that is about none of its streams and videos."""


class _OwnersStreamEvent(StreamEvent, frozen=True, kw_only=True):
    """A change that an owner made to the stream with this id."""

    stream: int


# -- changes to streams ----------------------------------------------------------------------------


class StreamAddedEvent(_OwnersStreamEvent, frozen=True, kw_only=True, tag="stream added"):
    """A stream was added."""

    title: str


class StreamDeletedEvent(_OwnersStreamEvent, frozen=True, kw_only=True, tag="stream deleted"):
    """A stream was deleted."""

    is_broadcast: ClassVar = True
    title: str


class StreamRestoredEvent(_OwnersStreamEvent, frozen=True, kw_only=True, tag="stream restored"):
    """A stream that was deleted came back from the [trash](api.md#trash)."""

    is_broadcast: ClassVar = True
    title: str


class StreamRemovedForGoodEvent(
    _OwnersStreamEvent, frozen=True, kw_only=True, tag="stream removed for good"
):
    """A stream that was deleted cannot be restored any more."""

    title: str
    expired: _Expired


class StreamEditedEvent(_OwnersStreamEvent, frozen=True, kw_only=True, tag="stream edited"):
    """Its texts, labels, player, countries or resolutions were changed."""

    keys: _Keys


class StreamSettingsChangedEvent(
    StreamEvent, frozen=True, kw_only=True, tag="stream settings changed"
):
    """Settings of its runs, as of failover or recording, were set or removed."""

    keys: _ChangedKeys


class StreamSlateChangedEvent(
    _OwnersStreamEvent, frozen=True, kw_only=True, tag="stream slate changed"
):
    """Its slate's picture was set or removed."""

    picture: _HasPicture


class StreamKeyChangedEvent(
    _OwnersStreamEvent, frozen=True, kw_only=True, tag="stream key changed"
):
    """Its key was replaced: the old one is refused."""


class PublishedEvent(StreamEvent, frozen=True, kw_only=True, tag="published"):
    """The owner published it, or it was live for the first time."""

    is_broadcast: ClassVar = True
    stream: Annotated[int | msgspec.UnsetType, _Meta(description="if the owner did")] = (
        msgspec.UNSET
    )
    cause: _Cause = msgspec.UNSET


class UnpublishedEvent(_OwnersStreamEvent, frozen=True, kw_only=True, tag="unpublished"):
    """The owner hid it from viewers."""

    is_broadcast: ClassVar = True


class PausedEvent(_OwnersStreamEvent, frozen=True, kw_only=True, tag="paused"):
    """The owner paused it: viewers get the slate."""

    is_broadcast: ClassVar = True


class ResumedEvent(_OwnersStreamEvent, frozen=True, kw_only=True, tag="resumed"):
    """The owner resumed it, or its run was over."""

    is_broadcast: ClassVar = True
    cause: _Cause = msgspec.UNSET


class FailoverDrillEvent(
    _OwnersStreamEvent, frozen=True, kw_only=True, tag="failover drill", rename={"from_": "from"}
):
    """A drill succeeded: another encoder took over."""

    from_: str
    to: str
    gap_ms: int
    switched_after_ms: int


class StreamEndedEvent(_OwnersStreamEvent, frozen=True, kw_only=True, tag="stream ended"):
    """The owner ended a run; written once it is over."""


class StreamAllowedEvent(_OwnersStreamEvent, frozen=True, kw_only=True, tag="stream allowed"):
    """The owner let encoders in again after an end."""

    is_broadcast: ClassVar = True


class _BackupEvent(_OwnersStreamEvent, frozen=True, kw_only=True):
    is_broadcast: ClassVar = True
    backup: int
    number: int


class BackupAddedEvent(_BackupEvent, frozen=True, kw_only=True, tag="backup added"):
    """It got another ingest address."""


class BackupRemovedEvent(_BackupEvent, frozen=True, kw_only=True, tag="backup removed"):
    """One of its ingest addresses was removed."""


# -- videos ----------------------------------------------------------------------------------------


class UploadLinkAddedEvent(VideoEvent, frozen=True, kw_only=True, tag="upload link added"):
    """Someone without a token may upload one file, or replace that of `subject`.

    See [uploads.md](uploads.md).
    """

    link: _Link
    most_bytes: int


class UploadLinkDeletedEvent(VideoEvent, frozen=True, kw_only=True, tag="upload link deleted"):
    """The address of an upload link no longer works."""

    link: _Link


class UploadDeletedEvent(VideoEvent, frozen=True, kw_only=True, tag="upload deleted"):
    """A resumable upload ended without a video: its client deleted it.

    `subject` is the video it would have become, or whose file it would have replaced.
    """

    replacing: _Replacing = msgspec.UNSET


class UploadExpiredEvent(VideoEvent, frozen=True, kw_only=True, tag="upload expired"):
    """The same, as nothing came for too long."""

    replacing: _Replacing = msgspec.UNSET


class UploadRefusedEvent(VideoEvent, frozen=True, kw_only=True, tag="upload refused"):
    """The same, as the file is not a video."""

    replacing: _Replacing = msgspec.UNSET


# How an upload ends without a video.
UploadEnd = type[UploadDeletedEvent | UploadExpiredEvent | UploadRefusedEvent]


class ImportAskedForEvent(VideoEvent, frozen=True, kw_only=True, tag="import asked for"):
    """A video will be downloaded from an address; see [imports.md](imports.md)."""

    host: str


class VideoAddedEvent(VideoEvent, frozen=True, kw_only=True, tag="video added"):
    """The whole file of a video has arrived."""

    size: _Size


class VideoDeletedEvent(VideoEvent, frozen=True, kw_only=True, tag="video deleted"):
    """A video was deleted."""


class VideoRestoredEvent(VideoEvent, frozen=True, kw_only=True, tag="video restored"):
    """A video that was deleted came back from the [trash](api.md#trash)."""

    is_broadcast: ClassVar = True
    title: str


class VideoRemovedForGoodEvent(VideoEvent, frozen=True, kw_only=True, tag="video removed for good"):
    """A video that was deleted cannot be restored any more."""

    title: str
    expired: _Expired


class VideoFileRemovedForGoodEvent(
    VideoEvent, frozen=True, kw_only=True, tag="video file removed for good"
):
    """A file that a video had cannot be taken back any more."""

    size: _Size
    expired: _Expired


class RecordingExpiredEvent(VideoEvent, frozen=True, kw_only=True, tag="recording expired"):
    """A recording was removed, as its retention is over."""


class RecordingKeptEvent(VideoEvent, frozen=True, kw_only=True, tag="recording kept"):
    """The owner keeps a recording: it does not expire any more."""


class VideoReplacedEvent(VideoEvent, frozen=True, kw_only=True, tag="video replaced"):
    """A video's file was replaced."""

    is_broadcast: ClassVar = True
    size: _Size
    generation: _FileNumber


class VideoFileTakenBackEvent(VideoEvent, frozen=True, kw_only=True, tag="video file taken back"):
    """The file before a video's present one took its place again."""

    is_broadcast: ClassVar = True
    size: _Size
    generation: _FileNumber


class RecordedEvent(StreamEvent, frozen=True, kw_only=True, tag="recorded"):
    """A run of the stream ended and became a video; see [recording.md](recording.md)."""

    video: _VideoHash
    seconds: float


class ClipAddedEvent(StreamEvent, frozen=True, kw_only=True, tag="clip added"):
    """A part of the stream became a video; see [recording.md](recording.md#clips)."""

    stream: int
    video: _VideoHash
    seconds: float


class TranscodingBeganEvent(VideoEvent, frozen=True, kw_only=True, tag="transcoding began"):
    """A worker began to transcode a video."""

    attempt: Annotated[int, _Meta(description="from 1 on")]


class VideoCompletedEvent(VideoEvent, frozen=True, kw_only=True, tag="video completed"):
    """All renditions of a video are ready."""

    is_broadcast: ClassVar = True
    size: Annotated[int, _Meta(description="of all renditions, in bytes")]
    warnings: Annotated[int, _Meta(description="how many there are")]


class VideoFailedEvent(VideoEvent, frozen=True, kw_only=True, tag="video failed"):
    """A video could not be transcoded."""

    is_broadcast: ClassVar = True
    reason: str

    @property
    def alert(self) -> AlertKind:
        """That a video failed."""
        return AlertKind.VIDEO_FAILED


class VideoQueuedAgainEvent(VideoEvent, frozen=True, kw_only=True, tag="video queued again"):
    """The owner retried a video that had failed."""

    is_broadcast: ClassVar = True


class VideoEditedEvent(VideoEvent, frozen=True, kw_only=True, tag="video edited"):
    """A video's texts, labels, player, countries or poster were changed."""

    keys: _Keys


class VideoPublishedEvent(VideoEvent, frozen=True, kw_only=True, tag="video published"):
    """The owner published a video."""

    is_broadcast: ClassVar = True
    plays: Annotated[bool, _Meta(description="false if it is shown once it plays")]


class VideoUnpublishedEvent(VideoEvent, frozen=True, kw_only=True, tag="video unpublished"):
    """The owner hid a video from viewers."""

    is_broadcast: ClassVar = True


# -- the project -----------------------------------------------------------------------------------


class ProjectAddedEvent(ProjectEvent, frozen=True, kw_only=True, tag="project added"):
    """The project was added."""

    project: int
    name: str


class ProjectEditedEvent(ProjectEvent, frozen=True, kw_only=True, tag="project edited"):
    """Its name or its upload origins were changed."""

    project: int
    keys: _Keys


class _OldProject(ProjectEvent, frozen=True, kw_only=True):
    project: int
    key: str
    name: str


class ProjectDeletedEvent(_OldProject, frozen=True, kw_only=True, tag="project deleted"):
    """A project was deleted; written in the first project."""


class ProjectRestoredEvent(_OldProject, frozen=True, kw_only=True, tag="project restored"):
    """The project came back from the [trash](api.md#trash) with all that it has."""


class ProjectRemovedForGoodEvent(
    _OldProject, frozen=True, kw_only=True, tag="project removed for good"
):
    """A project that was deleted cannot be restored any more; written in the first project."""

    expired: _Expired


class ProjectSettingsChangedEvent(
    ProjectEvent, frozen=True, kw_only=True, tag="project settings changed"
):
    """Settings that its streams have by default were set or removed."""

    keys: _ChangedKeys


class ProjectSlateChangedEvent(
    ProjectEvent, frozen=True, kw_only=True, tag="project slate changed"
):
    """The picture of its slate was set or removed."""

    picture: _HasPicture


class _MailEdit(ProjectEvent, frozen=True, kw_only=True):
    keys: _MailKeys


class ProjectMailChangedEvent(_MailEdit, frozen=True, kw_only=True, tag="project mail changed"):
    """Who gets mail of the project, or of what, was changed."""


class InstallationMailChangedEvent(
    _MailEdit, frozen=True, kw_only=True, tag="installation mail changed"
):
    """Who gets mail of the installation, or of what, was changed; written in the first project."""


class TokenAddedEvent(ProjectEvent, frozen=True, kw_only=True, tag="token added"):
    """A token was added; the token itself is never written."""

    token: int
    name: str
    write: Annotated[bool, _Meta(description="whether it may change things")]


class TokenRevokedEvent(ProjectEvent, frozen=True, kw_only=True, tag="token revoked"):
    """A token was revoked."""

    token: int
    name: str
    write: Annotated[bool, _Meta(description="whether it could change things")]


class _LabelNamed(ProjectEvent, frozen=True, kw_only=True):
    """A tag, a category or a player that was added or deleted."""

    label: int
    name: str


class _LabelEdited(ProjectEvent, frozen=True, kw_only=True):
    """A tag, a category or a player that was changed."""

    label: int
    keys: _Keys


class LabelEvents(msgspec.Struct, frozen=True, kw_only=True):
    """The events of tags, of categories or of players."""

    added: type[_LabelNamed]
    edited: type[_LabelEdited]
    deleted: type[_LabelNamed]


def _label_events(noun: str) -> LabelEvents:
    """Return the events of a noun, in which the field `label` is stored under its name.

    A struct renames only the fields that it declares itself, so each declares the label again.
    """
    rename = {"label": noun}

    class Added(_LabelNamed, frozen=True, kw_only=True, tag=f"{noun} added", rename=rename):
        __doc__ = f"A {noun} was added."
        label: int

    class Edited(_LabelEdited, frozen=True, kw_only=True, tag=f"{noun} edited", rename=rename):
        __doc__ = f"A {noun} was changed."
        label: int

    class Deleted(_LabelNamed, frozen=True, kw_only=True, tag=f"{noun} deleted", rename=rename):
        __doc__ = f"A {noun} was deleted."
        label: int

    return LabelEvents(added=Added, edited=Edited, deleted=Deleted)


LABEL_EVENTS: Final[Mapping[str, LabelEvents]] = {
    noun: _label_events(noun) for noun in ("tag", "category", "player")
}


# -- states, which are broadcast and not logged ----------------------------------------------------


class StreamState(StreamEvent, frozen=True, kw_only=True, tag="stream state"):
    """A host that receives streams wrote another state, or a stream got its first posters."""

    is_logged: ClassVar = False
    is_broadcast: ClassVar = True


class VideoState(VideoEvent, frozen=True, kw_only=True, tag="video state"):
    """Its progress rose, more of it plays, it was queued, or a recording or a clip became it."""

    is_logged: ClassVar = False
    is_broadcast: ClassVar = True


class BytesReceived(VideoEvent, frozen=True, kw_only=True, tag="bytes received"):
    """More of its file has arrived, about once a second."""

    is_logged: ClassVar = False
    is_broadcast: ClassVar = True
    received_bytes: int
    size: Annotated[int | None, _Meta(description="null while it is unknown")]


STATES: Final[tuple[type[OwnerEvent], ...]] = (StreamState, VideoState, BytesReceived)

# By the sections of `docs/events.md`.
EVENTS: Final[Mapping[str, tuple[type[OwnerEvent], ...]]] = {
    "on air": (
        on_air.EncoderOnEvent,
        on_air.EncoderSilentEvent,
        on_air.EncoderFaultEvent,
        on_air.EncoderSendingEvent,
        on_air.EncoderOffEvent,
        on_air.TakenOverEvent,
        on_air.RefusedEvent,
        on_air.PictureUnusableEvent,
        on_air.SoundUnusableEvent,
        on_air.PictureAwaitedEvent,
        on_air.LiveEvent,
        on_air.SwitchedEvent,
        on_air.SlateEvent,
        on_air.BackOnAirEvent,
        on_air.OffAirEvent,
    ),
    "the machine": (
        on_air.RungShedEvent,
        on_air.RungReturnedEvent,
        on_air.TopRungEncodedEvent,
        on_air.SoundMovedEvent,
        on_air.EngineLostEvent,
        on_air.RecordingStoppedEvent,
        on_air.RecordingNotBegunEvent,
    ),
    "changes to streams": (
        StreamAddedEvent,
        StreamDeletedEvent,
        StreamRestoredEvent,
        StreamRemovedForGoodEvent,
        StreamEditedEvent,
        StreamSettingsChangedEvent,
        StreamSlateChangedEvent,
        StreamKeyChangedEvent,
        PublishedEvent,
        UnpublishedEvent,
        PausedEvent,
        ResumedEvent,
        FailoverDrillEvent,
        StreamEndedEvent,
        StreamAllowedEvent,
        BackupAddedEvent,
        BackupRemovedEvent,
    ),
    "videos": (
        UploadLinkAddedEvent,
        UploadLinkDeletedEvent,
        UploadDeletedEvent,
        UploadExpiredEvent,
        UploadRefusedEvent,
        ImportAskedForEvent,
        VideoAddedEvent,
        VideoDeletedEvent,
        VideoRestoredEvent,
        VideoRemovedForGoodEvent,
        RecordingExpiredEvent,
        RecordingKeptEvent,
        VideoReplacedEvent,
        VideoFileTakenBackEvent,
        VideoFileRemovedForGoodEvent,
        RecordedEvent,
        ClipAddedEvent,
        TranscodingBeganEvent,
        VideoCompletedEvent,
        VideoFailedEvent,
        VideoQueuedAgainEvent,
        VideoEditedEvent,
        VideoPublishedEvent,
        VideoUnpublishedEvent,
    ),
    "the project": (
        ProjectAddedEvent,
        ProjectEditedEvent,
        ProjectDeletedEvent,
        ProjectRestoredEvent,
        ProjectRemovedForGoodEvent,
        ProjectSettingsChangedEvent,
        ProjectSlateChangedEvent,
        ProjectMailChangedEvent,
        InstallationMailChangedEvent,
        TokenAddedEvent,
        TokenRevokedEvent,
        *(
            kind
            for each in LABEL_EVENTS.values()
            for kind in (each.added, each.edited, each.deleted)
        ),
    ),
}
