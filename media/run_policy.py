"""What the runs of a stream do, as their owner sets it: each setting is declared here alone.

What a stream or a project sets has None where the next default decides; `resolve` fills it, and the
grant of an encoder carries the result whole to the run. The change of a setting, and the bodies of
the API, are made of the same fields (`changes_of`, `shown_by`). In the catalog the settings are a
JSON object of those that were set.

A setting that is added here is stored, changed, shown, resolved and given to runs. Units are in the
names.
"""

from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    Never,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

A = TypeVar("A")  # what stands for a setting that is not set: None, or Never once it is resolved


class Within(msgspec.Struct, frozen=True):
    """The least and most that an owner may set. What is stored is not checked again."""

    least: float
    most: float


class OneOf(msgspec.Struct, frozen=True):
    """The words that an owner may set."""

    words: tuple[str, ...]


# A day: no run waits longer for its encoder.
_WAITING: Final = Within(0, 86_400.0)
# Below half a second one lost packet of the network looks like a failure; after half a minute of
# nothing viewers have gone.
_DETECTING: Final = Within(0.5, 30.0)
# 0 switches back at once. More than ten minutes would amount to `sticky`.
_RETURNING: Final = Within(0.0, 600.0)
# 0 waits for nothing. Encoders further apart than ten seconds are not compared.
_ALIGNING: Final = Within(0.0, 10.0)
# What follows from the latency where nobody has set how long viewers wait for an encoder that is
# behind: at low latency they are 2 s behind themselves.
ALIGN_WAIT_SECONDS: Final = 3.0
LOW_LATENCY_ALIGN_WAIT_SECONDS: Final = 1.0
# Below a second a cut is no fault yet; after half a minute viewers have gone.
_FAULTY: Final = Within(1.0, 30.0)
# More than ten years is no useful limit.
_KEEPING: Final = Within(1, 3650)
# Twelve hours are a day's event; what is longer is watched from its recording.
_DVR: Final = Within(0.0, 43_200.0)

_NOT_SET: Final[Any] = None  # Any: the default of a field of any type


class RunFailover(msgspec.Struct, Generic[A], frozen=True, kw_only=True):
    """What a run does without its encoder.

    Attributes:
        mode: Whether a primary that has recovered replaces the backup on air.
        detect_seconds: For how long no media arrive before an encoder counts as failed; None
            follows from the latency, also when resolved.
        return_seconds: For how long a primary must be healthy before it replaces a backup.
        reconnect_seconds: How long a run waits for an encoder whose connection was lost.
        goodbye_seconds: How long a run waits for an encoder that disconnected properly.
        align: Whether several encoders are compared, so that a switch between them goes on at the
            same moment of the programme.
        align_wait_seconds: How long viewers get nothing new at most while an encoder that is
            behind comes to that moment; None follows from the latency, also when resolved.
        quality: Whether encoders that are compared are watched for black, frozen pictures and
            silence, and whether one that shows it is replaced.
        quality_seconds: For how long it shows that before it counts.
    """

    mode: Annotated[str | A, OneOf(("prefer_primary", "sticky"))] = _NOT_SET
    detect_seconds: Annotated[float | None, _DETECTING] = None
    return_seconds: Annotated[float | A, _RETURNING] = _NOT_SET
    reconnect_seconds: Annotated[float | A, _WAITING] = _NOT_SET
    goodbye_seconds: Annotated[float | A, _WAITING] = _NOT_SET
    align: Annotated[str | A, OneOf(("on", "off"))] = _NOT_SET
    align_wait_seconds: Annotated[float | None, _ALIGNING] = None
    quality: Annotated[str | A, OneOf(("off", "report", "switch"))] = _NOT_SET
    quality_seconds: Annotated[float | A, _FAULTY] = _NOT_SET


class RunRecording(msgspec.Struct, Generic[A], frozen=True, kw_only=True):
    """Whether runs become videos, and for how many days."""

    enabled: bool | A = _NOT_SET
    keep_days: Annotated[int | A, _KEEPING] = _NOT_SET


class RunPolicy(msgspec.Struct, Generic[A], frozen=True, kw_only=True):
    """What a run does; it keeps what was set when it began.

    Attributes:
        failover: What it does without its encoder.
        recording: Whether it becomes a video.
        latency: Whether its playlists are low-latency HLS.
        dvr_seconds: How far viewers may go back in it; at least the length of a live playlist.
    """

    failover: RunFailover[A] = RunFailover()
    recording: RunRecording[A] = RunRecording()
    latency: Annotated[str | A, OneOf(("low", "normal"))] = _NOT_SET
    dvr_seconds: Annotated[float | A, _DVR] = _NOT_SET

    @property
    def is_low_latency(self) -> bool:
        """Whether playlists are low-latency HLS, of a policy that is resolved."""
        return self.latency == "low"

    @property
    def align_wait_seconds(self) -> float:
        """How long viewers wait for an encoder that is behind, of a policy that is resolved.

        For none, if it is not found out which are.
        """
        if self.failover.align == "off":
            return 0.0
        if self.failover.align_wait_seconds is not None:
            return self.failover.align_wait_seconds
        return LOW_LATENCY_ALIGN_WAIT_SECONDS if self.is_low_latency else ALIGN_WAIT_SECONDS


if TYPE_CHECKING:
    ResolvedPolicy = RunPolicy[Never]
else:  # as a decoder knows it, from a sender that may lack a setting: `resolve` it then
    ResolvedPolicy = RunPolicy[None]

# What holds where neither the stream, nor its project, nor the service has a setting.
DEFAULTS: Final = ResolvedPolicy(
    failover=RunFailover(
        mode="prefer_primary",
        return_seconds=10.0,
        reconnect_seconds=60.0,
        goodbye_seconds=10.0,
        align="on",
        quality="report",
        quality_seconds=3.0,
    ),
    recording=RunRecording(enabled=False, keep_days=30),
    latency="low",
    dvr_seconds=0.0,
)


def merge(own: RunPolicy[None], fallback: RunPolicy[None]) -> RunPolicy[None]:
    """Return a policy with each setting that is not set in `own` as it is in `fallback`."""
    return _merge(own, fallback)


def resolve(
    own: RunPolicy[None] | ResolvedPolicy, service: ResolvedPolicy = DEFAULTS
) -> ResolvedPolicy:
    """Return what a run does by what was set for it, and by the service where nothing was."""
    return _merge(own, service)


def _merge(own: msgspec.Struct, fallback: msgspec.Struct) -> Any:  # Any: the type of `own`
    merged: dict[str, object] = {}
    for field in own.__struct_fields__:
        value, default = getattr(own, field), getattr(fallback, field)
        is_section = isinstance(value, msgspec.Struct)
        merged[field] = (
            _merge(value, default) if is_section else default if value is None else value
        )
    return msgspec.structs.replace(own, **merged)


def changes_of(
    settings: type[msgspec.Struct], **sections: type[msgspec.Struct]
) -> Any:  # Any: a base of a class
    """Return the base of a class that changes settings, or a section, with changes of `sections`.

    UNSET leaves a field as it is, None removes the setting. Values out of bounds are not decoded.
    """
    fields: list[tuple[str, Any, Any]] = [  # Any: annotations and defaults
        *((name, change | msgspec.UnsetType, msgspec.UNSET) for name, change in sections.items()),
        *(
            (name, _settable(hint) | msgspec.UnsetType | None, msgspec.UNSET)
            for name, hint in _fields(settings)
        ),
    ]
    return msgspec.defstruct(f"ChangesOf{settings.__name__}", fields, frozen=True, kw_only=True)


def shown_by(
    settings: type[msgspec.Struct], **sections: type[msgspec.Struct]
) -> Any:  # Any: a base of a class
    """Return the base of a class that shows settings, or a section, after bodies of `sections`."""
    fields: list[tuple[str, Any]] = [  # Any: annotations
        *sections.items(),
        *((name, _plain(hint) | None) for name, hint in _fields(settings)),
    ]
    return msgspec.defstruct(f"Shown{settings.__name__}", fields, frozen=True, kw_only=True)


def _fields(settings: type[msgspec.Struct]) -> list[tuple[str, Any]]:  # Any: annotations
    """Return the fields of settings that are no sections, with their annotations."""
    hints = get_type_hints(settings, include_extras=True)
    return [(name, hint) for name, hint in hints.items() if not _is_section(hint)]


def _is_section(hint: Any) -> bool:  # Any: annotations
    origin = get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, msgspec.Struct)


def _plain(hint: Any) -> Any:  # Any: annotations
    """Return the type of what can be set, of an annotation with or without bounds."""
    union = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return next(each for each in get_args(union) if each not in (A, type(None)))


def _settable(hint: Any) -> Any:  # Any: annotations
    """Return the type that decodes only what an owner may set."""
    plain = _plain(hint)
    for bound in getattr(hint, "__metadata__", ()):
        if isinstance(bound, OneOf):
            return Literal[bound.words]
        if isinstance(bound, Within):
            return Annotated[plain, msgspec.Meta(ge=bound.least, le=bound.most)]
    return plain
