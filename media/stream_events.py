"""What happens to a live stream on air, as its owner is told: one type for each kind of event.

The parts that receive, transcode and record streams say what happened with these;
`storage.catalog.events.kinds` lists them with those of changes that callers make, and nothing else
can be recorded. They are here, since `ingest` knows no storage.

The name under which a kind is stored is the tag of its type, its fields are the facts, in stored
order, and its docstring says when it is written: `docs/events.md` is made of these. Stored names
and facts stay as they are, since clients and older rows have them.
"""

from typing import Annotated, ClassVar, Final

import msgspec

from media.alerts import AlertKind

_Meta = msgspec.Meta
_PRIMARY: Final = "primary"
# Of encoders that nobody ended, and of a source that sends nothing.
_LOSSES: Final = frozenset({"lost", "silent", "stalled"})
_Count = Annotated[int, _Meta(description="how many encoders of the stream send then")]


class OwnerEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened, for the owner of a project; its fields must hold no secret.

    `is_logged`: it gets a row in the project's event log. `is_broadcast`: the state of its stream
    or video goes to the web-sockets; the facts go with it if nothing else tells them.
    """

    is_logged: ClassVar[bool] = True
    is_broadcast: ClassVar[bool] = False

    @classmethod
    def stored_kind(cls) -> str:
        """Return the name under which events of this type are stored."""
        return str(cls.__struct_config__.tag)

    @property
    def kind(self) -> str:
        """The name under which this event is stored."""
        return self.stored_kind()

    @property
    def facts(self) -> dict[str, object]:
        """The facts, fit for JSON, in stored order; those that are not set are left out."""
        values: dict[str, object] = msgspec.to_builtins(self)
        values.pop("type", None)
        return values

    @property
    def alert(self) -> AlertKind | None:
        """The kind of alert by which operators are told of it; None if they are not."""
        return None


class StreamEvent(OwnerEvent, frozen=True, kw_only=True):
    """An event of a live stream: it gets the stream's next number."""


# -- on air ----------------------------------------------------------------------------------------


class EncoderOnEvent(StreamEvent, frozen=True, kw_only=True, tag="encoder on"):
    """An encoder connected and may send."""

    slot: str
    receiving_count: _Count


class EncoderSilentEvent(StreamEvent, frozen=True, kw_only=True, tag="encoder silent"):
    """A connected encoder has sent no media for `failover.detect_seconds`."""

    slot: str
    receiving_count: _Count

    @property
    def alert(self) -> AlertKind | None:
        """That the primary is lost, though it is connected."""
        return AlertKind.PRIMARY_LOST if self.slot == _PRIMARY else None


class EncoderFaultEvent(StreamEvent, frozen=True, kw_only=True, tag="encoder fault"):
    """An encoder has shown black, a frozen picture or silence for `failover.quality_seconds`."""

    slot: str
    fault: Annotated[str, _Meta(description="`black`, `frozen` or `silent`")]
    everywhere: Annotated[bool, _Meta(description="whether all encoders of the stream show it")]


class EncoderSendingEvent(StreamEvent, frozen=True, kw_only=True, tag="encoder sending"):
    """The media of an encoder that was silent came again."""

    slot: str
    receiving_count: _Count


class EncoderOffEvent(StreamEvent, frozen=True, kw_only=True, tag="encoder off"):
    """An encoder disconnected; `silent`: it is still connected, but it sent no media."""

    slot: str
    receiving_count: _Count
    reason: Annotated[
        str,
        _Meta(description="`goodbye`, `lost`, `silent`, `taken over` or `closed by us`"),
    ]
    cause: Annotated[
        str | msgspec.UnsetType, _Meta(description="if it ended with the process that received it")
    ] = msgspec.UNSET

    @property
    def alert(self) -> AlertKind | None:
        """That the primary is lost, if neither it nor an owner ended its stream."""
        is_lost = self.reason in _LOSSES or self.cause is not msgspec.UNSET
        return AlertKind.PRIMARY_LOST if self.slot == _PRIMARY and is_lost else None


class TakenOverEvent(StreamEvent, frozen=True, kw_only=True, tag="taken over"):
    """A second connection with the key replaced a silent one."""

    slot: str


class RefusedEvent(StreamEvent, frozen=True, kw_only=True, tag="refused"):
    """A second encoder was refused because the first is sending; at most once a minute.

    Or, with the reason `the stream was ended`, an encoder tried to go live
    [after an end](publish.md#after-an-end); once for each end.
    """

    slot: str
    reason: str


class PictureUnusableEvent(StreamEvent, frozen=True, kw_only=True, tag="picture unusable"):
    """For a second, the packets of an encoder's picture could not be used.

    No readable decoder configuration came before them, or H.264 comes in Annex B form. They are
    dropped until some can be used; once for a connection, and at most once a minute.
    """

    slot: str
    cause: str


class SoundUnusableEvent(StreamEvent, frozen=True, kw_only=True, tag="sound unusable"):
    """For a second, the packets of an encoder's sound could not be used, as with the picture."""

    slot: str
    cause: str


class PictureAwaitedEvent(StreamEvent, frozen=True, kw_only=True, tag="picture awaited"):
    """Viewers get no encoder, because for 3 s this one has sent sound and no picture.

    At most once a minute. See [publish.md](publish.md#what-is-accepted).
    """

    slot: str
    cause: Annotated[str, _Meta(description="`the encoder announced one` or `the run has one`")]


class LiveEvent(StreamEvent, frozen=True, kw_only=True, tag="live"):
    """Viewers get the first segment of a run."""

    is_broadcast: ClassVar = True


class SwitchedEvent(
    StreamEvent, frozen=True, kw_only=True, tag="switched", rename={"from_": "from"}
):
    """Another encoder is on air; see [failover.md](failover.md)."""

    from_: str
    to: str
    reason: str
    gap_ms: Annotated[
        int | msgspec.UnsetType,
        _Meta(description="what viewers missed, in milliseconds, below 0: saw twice"),
    ] = msgspec.UNSET


class SlateEvent(StreamEvent, frozen=True, kw_only=True, tag="slate"):
    """No encoder is on air: viewers get the slate."""

    reason: str

    @property
    def alert(self) -> AlertKind | None:
        """That the stream is off air unexpectedly, if nobody paused or ended it."""
        return AlertKind.OFF_AIR if self.reason in _LOSSES else None


class BackOnAirEvent(StreamEvent, frozen=True, kw_only=True, tag="back on air"):
    """An encoder replaced the slate."""

    slot: str
    gap_ms: Annotated[
        int, _Meta(description="how long viewers were without an encoder, in milliseconds")
    ]


class OffAirEvent(StreamEvent, frozen=True, kw_only=True, tag="off air"):
    """The run is over."""

    is_broadcast: ClassVar = True
    cause: Annotated[str | msgspec.UnsetType, _Meta(description="if the end was unusual")] = (
        msgspec.UNSET
    )

    @property
    def alert(self) -> AlertKind | None:
        """That the stream is off air unexpectedly, if its end was unusual."""
        return None if self.cause is msgspec.UNSET else AlertKind.OFF_AIR


# -- the machine -----------------------------------------------------------------------------------


class RungShedEvent(StreamEvent, frozen=True, kw_only=True, tag="rung shed"):
    """The machine could not make every rendition."""

    renditions: list[str]
    late: Annotated[float, _Meta(description="how many seconds behind the encoder")]


class RungReturnedEvent(StreamEvent, frozen=True, kw_only=True, tag="rung returned"):
    """There was enough idle CPU for a while."""

    renditions: list[str]


class TopRungEncodedEvent(StreamEvent, frozen=True, kw_only=True, tag="top rung encoded"):
    """The source's own packets cannot be used.

    There is no keyframe for 4 s, or a picture does not match its decoder configuration.
    """

    cause: str


class SoundMovedEvent(StreamEvent, frozen=True, kw_only=True, tag="sound moved"):
    """Sound and picture are more than 4 s apart, as with two clocks.

    The sound is played with the picture that arrives with it; once for each offset in a run.
    """

    offset_ms: Annotated[
        int,
        _Meta(
            description="how far the sound's timestamps were ahead of the picture's"
            " (below 0: behind)"
        ),
    ]
    moved_ms: Annotated[int, _Meta(description="what is added to them")]


class EngineLostEvent(StreamEvent, frozen=True, kw_only=True, tag="engine lost"):
    """An engine ended unexpectedly and was replaced."""

    cause: str


class RecordingStoppedEvent(StreamEvent, frozen=True, kw_only=True, tag="recording stopped"):
    """A run is not recorded any more."""

    cause: str


class RecordingNotBegunEvent(StreamEvent, frozen=True, kw_only=True, tag="recording not begun"):
    """A run is not recorded."""

    cause: str
