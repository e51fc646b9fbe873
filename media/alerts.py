"""What operators are told of by mail: the kinds of alerts.

Events of streams and videos say which one they are (`media.stream_events`); the others are
conditions of a machine (`storage.catalog.alerts.conditions`). The names are stored, and those of
the API.
"""

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


# Those of one project's streams and videos; the others are of the installation alone.
OF_PROJECTS: Final = (AlertKind.PRIMARY_LOST, AlertKind.OFF_AIR, AlertKind.VIDEO_FAILED)
