"""Describes the events of a stream for its owner: a sentence, and its tone.

Each kind of a stream's events has its words here, by its type. A kind that is not known is shown as
it is, so that one of another version is never lost. Pure.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal, cast

import msgspec

from api.console.rendering import duration_text
from media import stream_events as on_air
from media.stream_events import StreamEvent
from media.stream_keys import PublicHash
from storage.catalog.events import kinds
from storage.catalog.records.common import EventRecord

Tone = Literal["good", "bad", "plain"]
Facts = Mapping[str, object]

_LOSSES: Final = {
    "goodbye": "the encoder ended its stream",
    "lost": "the connection was lost",
    "silent": "the encoder sent nothing for too long",
    "taken over": "another connection took over",
    "closed by us": "the service closed the connection",
}
# `new` is the slot that is on air now, `old` the one before.
_SWITCHES: Final = {
    "lost": "{new} took over: the connection of {old} was lost.",
    "stalled": "{new} took over: {old} sent nothing.",
    "drill": "{new} took over from {old} in a drill.",
    "black": "{new} took over: {old} showed black.",
    "frozen": "{new} took over: {old} showed a frozen picture.",
    "silent": "{new} took over: {old} was silent.",
    "returned": "{new} works again and took over from {old}.",
}
_ENDED: Final = "the stream was ended"
_MADE_VIDEO: Final = (kinds.RecordedEvent.stored_kind(), kinds.ClipAddedEvent.stored_kind())
_OTHER_SWITCH: Final = "{new} took over from {old}."


class EventLine(msgspec.Struct, frozen=True, kw_only=True):
    """An event as the time line shows it; `at_us` in microseconds since the Unix epoch.

    `video`: the hash of the video that came of it, "" for none.
    """

    number: int
    at_us: int
    text: str
    tone: Tone
    video: PublicHash = PublicHash("")


def describe(event: EventRecord) -> EventLine:
    """Return an event in words."""
    words = _WORDS.get(event.kind)
    text, tone = words(event.facts) if words is not None else (_plain(event), "plain")
    return EventLine(
        number=event.id,
        at_us=event.created_us,
        text=text,
        tone=tone,
        video=PublicHash(str(event.facts.get("video", "")) if event.kind in _MADE_VIDEO else ""),
    )


def slot_name(slot: object) -> str:
    """Return the name of a slot as people read it: `backup-1` is "Backup 1"."""
    return str(slot).replace("-", " ").capitalize()


def _plain(event: EventRecord) -> str:
    return f"{event.kind[:1].upper()}{event.kind[1:]}."


def _gap(facts: Facts) -> str:
    gap = facts.get("gap_ms")
    if not isinstance(gap, int | float):
        return ""
    if gap < 0:
        return f" Viewers saw {_seconds(-gap)} twice."
    return f" Viewers missed {_seconds(gap) if gap else 'nothing'}."


def _seconds(milliseconds: float) -> str:
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1000:.1f} s"


def _slot(facts: Facts, key: str = "slot") -> str:
    return slot_name(facts.get(key, "An encoder"))


def _list(value: object) -> str:
    return ", ".join(map(str, cast("list[object]", value))) if isinstance(value, list) else ""


def _always(text: str, tone: Tone = "plain") -> Callable[[Facts], tuple[str, Tone]]:
    return lambda _facts: (text, tone)


def _encoder_off(facts: Facts) -> tuple[str, Tone]:
    tone: Tone = "plain" if facts.get("reason") == "goodbye" else "bad"
    reason = str(facts.get("reason", ""))
    # Nobody closed what ended with its process.
    why = facts.get("cause") or _LOSSES.get(reason, reason)
    return f"{_slot(facts)} disconnected{f': {why}' if why else ''}.", tone


def _switched(facts: Facts) -> tuple[str, Tone]:
    form = _SWITCHES.get(str(facts.get("reason")), _OTHER_SWITCH)
    text = form.format(new=_slot(facts, "to"), old=_slot(facts, "from").lower())
    return text + _gap(facts), "good"


def _slate(facts: Facts) -> tuple[str, Tone]:
    reason = str(facts.get("reason", ""))
    why = {"stalled": "no media arrives", "paused": "the stream is paused", **_LOSSES}.get(reason)
    return f"No encoder is on air{f': {why}' if why else ''}. Viewers see the slate.", "bad"


def _drill(facts: Facts) -> tuple[str, Tone]:
    after = facts.get("switched_after_ms")
    delay = f" after {_seconds(after)}" if isinstance(after, int | float) else ""
    text = f"Failover drill: {_slot(facts, 'to').lower()} took over{delay}."
    return f"{text}{_gap(facts)}", "good"


def _off_air(facts: Facts) -> tuple[str, Tone]:
    cause = facts.get("cause")
    return (f"The run is over: {cause}.", "bad") if cause else ("The run is over.", "plain")


def _because_of(text: str, tone: Tone = "bad") -> Callable[[Facts], tuple[str, Tone]]:
    def words(facts: Facts) -> tuple[str, Tone]:
        cause = facts.get("cause")
        return (f"{text}: {cause}." if cause else f"{text}.", tone)

    return words


def _unusable(what: str) -> Callable[[Facts], tuple[str, Tone]]:
    return lambda facts: _because_of(f"{_slot(facts)}: viewers do not get its {what}")(facts)


def _refused(facts: Facts) -> tuple[str, Tone]:
    reason = facts.get("reason", "")
    if reason == _ENDED:
        return f"{_slot(facts)} tried to go live and was refused: {reason}.", "bad"
    return f"A second encoder for {_slot(facts).lower()} was refused: {reason}.", "bad"


_SHOWN: Final = {"black": "black", "frozen": "a frozen picture", "silent": "silence"}


def _encoder_fault(facts: Facts) -> tuple[str, Tone]:
    shown = _SHOWN.get(str(facts.get("fault")), "nothing")
    if facts.get("everywhere"):
        return f"{_slot(facts)} shows {shown}, as all encoders of the stream do.", "plain"
    return f"{_slot(facts)} shows {shown}, while another encoder does not.", "bad"


def _edited(text: str) -> Callable[[Facts], tuple[str, Tone]]:
    return lambda facts: (f"{text}: {_list(facts.get('keys', []))}.", "plain")


_SENTENCES: Final[Mapping[type[StreamEvent], Callable[[Facts], tuple[str, Tone]]]] = {
    on_air.EncoderOnEvent: lambda facts: (f"{_slot(facts)} connected.", "plain"),
    on_air.EncoderOffEvent: _encoder_off,
    on_air.EncoderSilentEvent: lambda facts: (
        f"{_slot(facts)} is connected, but sends nothing.",
        "bad",
    ),
    on_air.EncoderFaultEvent: _encoder_fault,
    on_air.EncoderSendingEvent: lambda facts: (f"{_slot(facts)} sends again.", "good"),
    on_air.TakenOverEvent: lambda facts: (
        f"{_slot(facts)}: a new connection replaced a silent one.",
        "plain",
    ),
    on_air.RefusedEvent: _refused,
    on_air.PictureUnusableEvent: _unusable("picture"),
    on_air.SoundUnusableEvent: _unusable("sound"),
    on_air.PictureAwaitedEvent: lambda facts: (
        f"{_slot(facts)} sends sound only: viewers get it once its picture comes,"
        f" as {facts.get('cause', 'one is expected')}.",
        "bad",
    ),
    on_air.LiveEvent: _always("Viewers get the stream.", "good"),
    kinds.PublishedEvent: _because_of("The stream is published", "plain"),
    kinds.UnpublishedEvent: _always("The stream is unpublished: viewers see nothing."),
    on_air.SwitchedEvent: _switched,
    on_air.SlateEvent: _slate,
    on_air.BackOnAirEvent: lambda facts: (
        f"{_slot(facts)} replaced the slate.{_gap(facts)}",
        "good",
    ),
    on_air.OffAirEvent: _off_air,
    on_air.RungShedEvent: lambda facts: (
        f"The machine is overloaded: {_list(facts.get('renditions', []))} is no longer encoded.",
        "bad",
    ),
    on_air.RungReturnedEvent: lambda facts: (
        f"{_list(facts.get('renditions', []))} is encoded again.",
        "good",
    ),
    on_air.TopRungEncodedEvent: _because_of("The source's own packets cannot be used", "plain"),
    on_air.SoundMovedEvent: _always(
        "Sound and picture are far apart: they are played as they arrive."
    ),
    on_air.EngineLostEvent: _because_of("An engine ended and was replaced"),
    on_air.RecordingStoppedEvent: _because_of("The run is not recorded any more"),
    on_air.RecordingNotBegunEvent: _because_of("The run is not recorded"),
    kinds.RecordedEvent: lambda facts: (
        f"The run became a video of {_length(facts.get('seconds'))}.",
        "good",
    ),
    kinds.ClipAddedEvent: lambda facts: (
        f"A clip of {_length(facts.get('seconds'))} was made.",
        "plain",
    ),
    kinds.StreamAddedEvent: _always("The stream was added."),
    kinds.StreamEditedEvent: _edited("Edited"),
    kinds.StreamSettingsChangedEvent: _edited("Settings changed"),
    kinds.StreamSlateChangedEvent: lambda facts: (
        "A slate was set." if facts.get("picture") else "The slate was removed.",
        "plain",
    ),
    kinds.StreamKeyChangedEvent: _always("The stream key was changed: the old one is refused."),
    kinds.PausedEvent: _always("Paused: viewers see the slate.", "plain"),
    kinds.ResumedEvent: _because_of("The pause is over", "plain"),
    kinds.FailoverDrillEvent: _drill,
    kinds.StreamEndedEvent: _always("The run was ended."),
    kinds.StreamAllowedEvent: _always("Encoders may send again."),
    kinds.StreamRestoredEvent: _always("It was restored from the trash."),
    kinds.BackupAddedEvent: lambda facts: (f"Backup {facts.get('number')} was added.", "plain"),
    kinds.BackupRemovedEvent: lambda facts: (f"Backup {facts.get('number')} was removed.", "plain"),
}
# Rows have the stored names; those of other versions may lack facts, too.
_WORDS: Final = {kind.stored_kind(): words for kind, words in _SENTENCES.items()}


def _length(seconds: object) -> str:
    if not isinstance(seconds, int | float):
        return "unknown length"
    return duration_text(round(seconds))
