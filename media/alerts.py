"""What operators are told of by mail: the kinds of alerts.

Events of streams and videos say which one they are (`media.stream_events`); the others are
conditions of a machine (`storage.catalog.alerts.conditions`). The names are stored, and those of
the API.
"""

import re
from enum import StrEnum
from typing import Final


class AlertKind(StrEnum):
    """A kind of alert, which can be switched off on its own."""

    PRIMARY_LOST = "primary_lost"
    OFF_AIR = "off_air"
    VIDEO_FAILED = "video_failed"
    DISK = "disk"
    CERTIFICATE = "certificate"
    BACKUP = "backup"


# What mail servers take without an extension (RFC 5321, 4.1.2, without quoted names), and nothing
# that could end a header or a command.
_ADDRESS: Final = re.compile(
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*"
    r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
)
_MOST_ADDRESS: Final = 254  # RFC 5321, 4.5.3.1.3, without the brackets
# Those of one project's streams and videos; the others are of the installation alone.
OF_PROJECTS: Final = (AlertKind.PRIMARY_LOST, AlertKind.OFF_AIR, AlertKind.VIDEO_FAILED)


def is_address(text: str) -> bool:
    """Return whether a text is an address for mail, as `ops@example.org`."""
    return len(text) <= _MOST_ADDRESS and _ADDRESS.fullmatch(text) is not None
