"""The bodies and the change of a policy are made of its fields; what is not set is a default."""

from typing import get_type_hints

import msgspec
import pytest

from media.run_policy import (
    DEFAULTS,
    RunFailover,
    RunPolicy,
    RunRecording,
    Within,
    changes_of,
    resolve,
    shown_by,
)


class Change(changes_of(RunFailover), msgspec.Struct, frozen=True, kw_only=True):
    """A change as the catalog and the API make it."""


class Shown(shown_by(RunRecording), msgspec.Struct, frozen=True, kw_only=True):
    """A body as the API makes it."""


def test_what_nobody_set_is_the_default_of_the_service() -> None:
    assert resolve(RunPolicy()) == DEFAULTS
    service = resolve(
        RunPolicy(recording=RunRecording(enabled=True, keep_days=7), latency="normal")
    )
    own = RunPolicy(
        failover=RunFailover(goodbye_seconds=0.0), recording=RunRecording(enabled=False)
    )
    resolved = resolve(own, service)
    assert resolved.recording == RunRecording(enabled=False, keep_days=7)
    assert (resolved.latency, resolved.dvr_seconds) == ("normal", 0.0)
    assert resolved.failover == msgspec.structs.replace(DEFAULTS.failover, goodbye_seconds=0.0)


def test_a_resolved_policy_lacks_nothing_but_what_follows_from_the_latency() -> None:
    policy = msgspec.to_builtins(resolve(RunPolicy()))
    values = {**policy.pop("failover"), **policy.pop("recording"), **policy}
    unset = [name for name, value in values.items() if value is None]
    assert unset == ["detect_seconds", "align_wait_seconds"]


def test_how_long_viewers_wait_follows_from_the_latency_unless_it_is_set() -> None:
    policies = (
        RunPolicy(),
        RunPolicy(latency="normal"),
        RunPolicy(latency="normal", failover=RunFailover(align_wait_seconds=0.0)),
        RunPolicy(latency="normal", failover=RunFailover(align="off", align_wait_seconds=2.0)),
    )
    assert [resolve(each).align_wait_seconds for each in policies] == [1.0, 3.0, 0.0, 0.0]


def test_a_change_leaves_what_is_not_sent_and_takes_back_what_is_null() -> None:
    change = msgspec.json.decode(b'{"mode": null, "return_seconds": 3}', type=Change)
    assert msgspec.to_builtins(change) == {"mode": None, "return_seconds": 3.0}


@pytest.mark.parametrize(
    "body",
    [
        b'{"mode": "other"}', b'{"detect_seconds": 0.49}', b'{"detect_seconds": 30.1}',
        b'{"return_seconds": "3"}', b'{"goodbye_seconds": 86401}',
    ],
)  # fmt: skip
def test_a_change_out_of_bounds_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(body, type=Change)


def test_bounds_are_least_and_most() -> None:
    hints = [
        *get_type_hints(RunPolicy, include_extras=True).values(),
        *get_type_hints(RunFailover, include_extras=True).values(),
        *get_type_hints(RunRecording, include_extras=True).values(),
    ]
    bounds = [
        each
        for hint in hints
        for each in getattr(hint, "__metadata__", ())
        if isinstance(each, Within)
    ]
    assert len(bounds) >= 6
    assert all(0 <= each.least < each.most for each in bounds)


def test_a_body_shows_every_field_and_null_for_what_is_not_set() -> None:
    assert (
        msgspec.json.encode(Shown(enabled=None, keep_days=3)) == b'{"enabled":null,"keep_days":3}'
    )
    with pytest.raises(TypeError):
        Shown(enabled=True)


def test_what_is_stored_is_read_whatever_the_bounds_are() -> None:
    stored = msgspec.json.decode(
        b'{"latency": "of a later version", "recording": {"keep_days": 9999}}', type=RunPolicy[None]
    )
    assert (stored.latency, stored.recording.keep_days) == ("of a later version", 9999)
