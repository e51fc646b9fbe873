"""One word for the state of a stream, and the states of its encoders."""

from typing import Any

import msgspec
import pytest

from api.console.stream_states import slot_states, state_of
from storage.catalog.records.common import BackupRecord, StreamRecord
from tests.api.schemas.test_presenter import RECORD
from tests.support.api.application import ADDRESSES

IDLE = msgspec.structs.replace(
    RECORD,
    live=False,
    processing=False,
    receiving_count=0,
    on_air=None,
    backups=(BackupRecord(id=10, number=2, live=False, on_air=False),),
)


def record(**changes: Any) -> StreamRecord:  # Any: fields of several types
    return msgspec.structs.replace(IDLE, **changes)


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "idle"),
        ({"receiving_count": 1, "processing": True}, "starting"),
        ({"live": True, "on_air": 0, "receiving_count": 1}, "live"),
        ({"live": True, "on_air": None, "receiving_count": 1}, "slate"),
        ({"live": True, "on_air": None, "paused": True}, "paused"),
        # The pause of a run that is over is no state of the stream.
        ({"paused": True}, "idle"),
        ({"processing": True}, "idle"),
    ],
)
def test_the_state_is_what_viewers_get(changes: dict[str, Any], state: str) -> None:
    assert state_of(record(**changes)) == state


def test_the_primary_sends_what_the_backups_do_not() -> None:
    backup = BackupRecord(id=10, number=2, live=True, on_air=True)
    primary, other = slot_states(
        record(receiving_count=1, live=True, on_air=2, backups=(backup,)), ADDRESSES
    )
    assert (primary.slot, primary.name, primary.backup) == ("primary", "Primary", None)
    assert (primary.sending, primary.on_air) == (False, False)
    assert (other.slot, other.name, other.backup) == ("backup-2", "Backup 2", 10)
    assert (other.sending, other.on_air) == (True, True)
    assert other.rtmp_url == other.server == "rtmp://spare.example:1935/live-backup-2"
    primary, _ = slot_states(record(receiving_count=2, on_air=0, backups=(backup,)), ADDRESSES)
    assert (primary.sending, primary.on_air) == (True, True)
    assert primary.rtmps_url == "rtmps://in.example:1936/live"
