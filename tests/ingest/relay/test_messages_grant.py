"""A grant between hosts of this version and of 0.2, in both directions."""

from typing import Final

import msgspec

from ingest.relay.messages import Attach, RelayedGrant, decode
from media.run_policy import RunFailover, RunPolicy, RunRecording, resolve
from media.stream_keys import Slot
from tests.ingest.relay.test_messages import GRANT

POLICY_OF_0_2: Final = {
    "mode": "sticky",
    "detect_seconds": 0.7,
    "hold_seconds": 2.0,
    "return_seconds": 4.0,
    "picture_seconds": 30.0,
}
OF_0_2: Final[dict[str, object]] = {
    "stream": 7,
    "hash": "Ab3dEf6hIj9l",
    "slot": 2,
    "active": ["720p"],
    "reconnect_seconds": 30.0,
    "goodbye_seconds": 0.5,
    "policy": POLICY_OF_0_2,
    "proof": "p",
    "paused": True,
    "slate": "slates/a.jpg",
    "record": True,
    "keep_days": 3,
    "low_latency": False,
    "dvr_seconds": 3600.0,
}


def test_a_grant_of_version_0_2_is_read_and_what_it_reads_is_sent() -> None:
    slot = msgspec.to_builtins(Slot(2))
    attach = decode(msgspec.msgpack.encode([2, 0, OF_0_2 | {"slot": slot}, "192.0.2.1:5"]))
    assert isinstance(attach, Attach)
    grant = attach.grant.received()
    assert grant.run == resolve(
        RunPolicy(
            failover=RunFailover(
                mode="sticky", return_seconds=4.0, reconnect_seconds=30.0, goodbye_seconds=0.5
            ),
            recording=RunRecording(enabled=True, keep_days=3),
            latency="normal",
            dvr_seconds=3600.0,
        )
    )
    sent = msgspec.to_builtins(RelayedGrant.of(grant))
    sent["policy"] = {key: sent["policy"][key] for key in POLICY_OF_0_2}
    assert {key: sent[key] for key in OF_0_2} == OF_0_2 | {"slot": slot}


def test_a_setting_that_the_sender_of_a_grant_does_not_know_has_its_default() -> None:
    sent = msgspec.to_builtins(RelayedGrant.of(GRANT))
    assert msgspec.convert(sent, RelayedGrant).received() == GRANT
    del sent["run"]
    assert msgspec.convert(sent, RelayedGrant).received().run == msgspec.structs.replace(
        GRANT.run, failover=msgspec.structs.replace(GRANT.run.failover, detect_seconds=None)
    )
    sent["run"] = {"recording": {"enabled": True}}
    assert msgspec.convert(sent, RelayedGrant).received().run.recording.keep_days == 30
