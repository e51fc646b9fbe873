"""The values of alerts: who is told of what by mail, and what is to be sent next.

A scope is the number of the project whose recipients are told, `INSTALLATION` for the operators of
the whole. Times are microseconds since the Unix epoch (`_us`).
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from media.alerts import OF_PROJECTS, AlertKind
from media.stream_keys import PublicHash

INSTALLATION: Final = 0  # numbers of projects begin with 1
# A list that one looks over; more people have an address for all of them.
MOST_RECIPIENTS: Final = 10


def kinds_of(scope: int) -> tuple[AlertKind, ...]:
    """Return the kinds of alerts that the recipients of a scope can get."""
    return tuple(AlertKind) if scope == INSTALLATION else OF_PROJECTS


class AlertSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The addresses that get mail, and the kinds that are switched off."""

    to: tuple[str, ...] = ()
    off: tuple[AlertKind, ...] = ()


class AlertEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What of the settings is to change: `kinds` are those to switch on or off."""

    to: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    kinds: Mapping[AlertKind, bool] = {}


class AlertMailState(msgspec.Struct, frozen=True, kw_only=True):
    """How many alerts wait to be mailed, and why the last attempt failed, if it did."""

    waiting: int
    problem: str | None


class AlertSubject(msgspec.Struct, frozen=True, kw_only=True):
    """The stream or video that an alert is about, and its number in the console."""

    noun: Literal["stream", "video"]
    id: int
    title: str


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be told. `event` is the stored kind of an event, "" for a condition.

    `project` is the key of the project that it is of, "" for none, `project_name` its name;
    `subject` is None also for what was deleted since.
    """

    id: int
    created_us: int
    event: str
    facts: Mapping[str, object]
    hash: PublicHash = PublicHash("")
    project: str = ""
    project_name: str = ""
    subject: AlertSubject | None = None


class AlertBundle(msgspec.Struct, frozen=True, kw_only=True):
    """The alerts of one kind for one recipient, leased to be sent as one mail.

    `alerts` are the first of its `total`, whose last is number `upto`. `project` is the key of the
    scope's project, "" for the installation, `project_name` its name. `owner` is the random name of
    the lease.
    """

    scope: int
    kind: AlertKind
    address: str
    owner: str
    upto: int
    total: int
    alerts: tuple[Alert, ...]
    failures: int = 0
    project: str = ""
    project_name: str = ""


class MailAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a mail server answered to a test mail, in words, and whether it accepted it."""

    to: str
    accepted: bool
    answer: str
