"""A strict parser of the tags' values, which reports errors as findings.

Source: draft-pantos-hls-rfc8216bis, section 4.2 (attribute lists). It shares no code with
`media.hls`, whose faults it would otherwise repeat.
"""

import functools
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from tests.support.hls.findings import Report

_MOST_KEPT: Final = 1 << 14  # lines: each version of a playlist has most of those before it

_INTEGER: Final = re.compile(r"[0-9]{1,20}")
_DECIMAL: Final = re.compile(r"[0-9]+(\.[0-9]+)?")
_ATTRIBUTE: Final = re.compile(r'([A-Z0-9-]+)=("[^"\r\n]*"|[^",\s]+)(,|$)')
_URI: Final = re.compile(r"[!$-;=?-Z_a-z~%\[\]]+(#[!$-;=?-Z_a-z~%]*)?")  # RFC 3986's characters
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,}(Z|[+-]\d\d:?\d\d)")
_FORMS: Final = {
    "integer": _INTEGER,
    "decimal": _DECIMAL,
    "quoted": re.compile(r'"[^"\r\n]*"'),
    "enumerated": re.compile(r'[^",\s]+'),
    "resolution": re.compile(r"[0-9]+x[0-9]+"),
}
# The attributes of each tag and their types; those with "!" are required.
KNOWN: Final[dict[str, dict[str, str]]] = {
    "EXT-X-SERVER-CONTROL": {
        "CAN-SKIP-UNTIL": "decimal",
        "CAN-SKIP-DATERANGES": "enumerated",
        "HOLD-BACK": "decimal",
        "PART-HOLD-BACK": "decimal",
        "CAN-BLOCK-RELOAD": "enumerated",
    },
    "EXT-X-PART-INF": {"PART-TARGET": "decimal!"},
    "EXT-X-PART": {
        "URI": "quoted!",
        "DURATION": "decimal!",
        "INDEPENDENT": "enumerated",
        "GAP": "enumerated",
    },
    "EXT-X-MAP": {"URI": "quoted!"},
    "EXT-X-SKIP": {"SKIPPED-SEGMENTS": "integer!"},
    "EXT-X-PRELOAD-HINT": {"TYPE": "enumerated!", "URI": "quoted!"},
    "EXT-X-RENDITION-REPORT": {
        "URI": "quoted!",
        "LAST-MSN": "integer!",
        "LAST-PART": "integer",
    },
    "EXT-X-STREAM-INF": {
        "BANDWIDTH": "integer!",
        "AVERAGE-BANDWIDTH": "integer",
        "CODECS": "quoted",
        "RESOLUTION": "resolution",
        "FRAME-RATE": "decimal",
        "AUDIO": "quoted",
        "SUBTITLES": "quoted",
    },
    "EXT-X-MEDIA": {
        "TYPE": "enumerated!",
        "GROUP-ID": "quoted!",
        "NAME": "quoted!",
        "URI": "quoted",
        "LANGUAGE": "quoted",
        "DEFAULT": "enumerated",
        "AUTOSELECT": "enumerated",
        "FORCED": "enumerated",
        "CHANNELS": "quoted",
    },
}


def read_attributes(tag: str, text: str, report: Report) -> Mapping[str, str]:
    """Return the attributes of a tag by name, without quotes; those of a wrong form are left out.

    Attributes that are not in `KNOWN` are reported.
    """
    attributes, faults = _attributes(tag, text)
    for fault, section in faults:
        report(fault, section)
    return attributes


@functools.lru_cache(_MOST_KEPT)
def _attributes(tag: str, text: str) -> tuple[Mapping[str, str], tuple[tuple[str, str], ...]]:
    """Return the attributes, and what is wrong with them with the section that says so."""
    attributes: dict[str, str] = {}
    faults: list[tuple[str, str]] = []

    def report(fault: str, section: str) -> None:
        faults.append((fault, section))

    place = 0
    while place < len(text) or (text.endswith(",") and place == len(text)):
        match = _ATTRIBUTE.match(text, place)
        if match is None:
            report(f"{tag} has no attribute list at {text[place:][:40]!r}", "4.2")
            break
        name, value = match[1], match[2]
        form = KNOWN[tag].get(name)
        if name in attributes:
            report(f"{tag} has {name} twice", "4.2")
        elif form is None:
            report(f"{tag} has the unknown attribute {name}", "4.2")
        elif not _FORMS[form.rstrip("!")].fullmatch(value):
            report(f"{tag} has {name}={value}, which is no {form.rstrip('!')} value", "4.2")
        else:
            attributes[name] = value.strip('"')
        place = match.end() if match[3] == "," else len(text) + 1
    for name, form in KNOWN[tag].items():
        if form.endswith("!") and name not in attributes:
            report(f"{tag} has no {name}", "4.4")
    return MappingProxyType(attributes), tuple(faults)


@functools.lru_cache(_MOST_KEPT)
def decimal(text: str) -> Fraction:
    """Return the value of a decimal number."""
    return Fraction(text)


def read_integer(tag: str, text: str, report: Report) -> int | None:
    """Return a decimal integer (4.2)."""
    if _INTEGER.fullmatch(text):
        return int(text)
    report(f"{tag} has {text!r} for a number", "4.2")
    return None


def read_decimal(tag: str, text: str, report: Report) -> Fraction | None:
    """Return a decimal number (4.2), exactly."""
    if _DECIMAL.fullmatch(text):
        return decimal(text)
    report(f"{tag} has {text!r} for a number", "4.2")
    return None


def read_date(text: str, report: Report) -> Fraction | None:
    """Return the seconds since 1970 of an EXT-X-PROGRAM-DATE-TIME (4.4.4.6).

    A time zone and milliseconds are only recommended, but required of this service.
    """
    seconds = _date(text)
    if seconds is None:
        report(f"EXT-X-PROGRAM-DATE-TIME has {text!r}", "4.4.4.6")
    return seconds


@functools.lru_cache(_MOST_KEPT)
def _date(text: str) -> Fraction | None:
    try:
        moment = datetime.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        moment = None
    if moment is None:
        return None
    past = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return Fraction(past.days * 86_400 + past.seconds) + Fraction(past.microseconds, 1_000_000)


def read_uri(text: str, report: Report) -> str:
    """Return a URI; invalid characters are reported."""
    if not _URI.fullmatch(text):
        report(f"{text!r} is no URI", "4.1")
    return text
