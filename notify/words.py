"""The words of mails: what happened, in sentences for someone who is not at the console. Pure."""

from collections.abc import Mapping
from typing import Final

from media.alerts import AlertKind
from storage.catalog.records.alerts import Alert, AlertBundle

# For one, and for several, of which `{}` is the number.
_HEADS: Final[Mapping[AlertKind, tuple[str, str]]] = {
    AlertKind.PRIMARY_LOST: ("Primary encoder lost", "Primary encoders lost {} times"),
    AlertKind.OFF_AIR: ("Off air unexpectedly", "Off air unexpectedly {} times"),
    AlertKind.VIDEO_FAILED: ("A video failed", "{} videos failed"),
    AlertKind.DISK: ("A disk is nearly full", "{} disks are nearly full"),
    AlertKind.CERTIFICATE: ("A certificate needs you", "{} certificates need you"),
    AlertKind.BACKUP: ("No good backup", "No good backup: {} times"),
}
_LOSSES: Final[Mapping[str, str]] = {
    "lost": "The connection of the primary encoder was lost.",
    "silent": "The primary encoder sent nothing for too long, and was disconnected.",
    "closed by us": "The process that received the primary encoder ended.",
}
_SLATES: Final[Mapping[str, str]] = {
    "lost": "the connection of the last encoder was lost",
    "silent": "the last encoder sent nothing for too long",
    "stalled": "no media arrives",
}


def headline(bundle: AlertBundle) -> str:
    """Return what happened in a few words, with the title if it is about one thing."""
    one, several = _HEADS[bundle.kind]
    subjects = {each.subject.title for each in bundle.alerts if each.subject is not None}
    about = f": {subjects.pop()}" if len(subjects) == 1 else ""
    return f"{several.format(bundle.total) if bundle.total > 1 else one}{about}"


def sentence(alert: Alert) -> str:
    """Return what happened in full sentences."""
    facts = alert.facts
    match alert.event:
        case "encoder off":
            return f"{_LOSSES.get(str(facts.get('reason')), _LOSSES['lost'])}{_others(facts)}"
        case "encoder silent":
            return f"The primary encoder is connected, but sends nothing.{_others(facts)}"
        case "slate":
            why = _SLATES.get(str(facts.get("reason")), "no encoder is left")
            return f"Viewers see the slate: {why}."
        case "off air":
            return f"The run is over: {facts.get('cause', 'its end was unusual')}."
        case "video failed":
            return f"It could not be made: {facts.get('reason', 'the log has the cause')}"
        case _:
            return str(facts.get("text", alert.event))


def _others(facts: Mapping[str, object]) -> str:
    count = facts.get("receiving_count")
    if not isinstance(count, int):
        return ""
    if count == 0:
        return " No encoder of the stream sends now."
    return " 1 other encoder sends." if count == 1 else f" {count} other encoders send."
