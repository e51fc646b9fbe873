"""The log: one line an event, key=value for people or JSON for machines, on standard error.

Modules log through the standard library with facts in `extra`; here they become lines. Identity
comes first and always in the same order.
"""

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, Literal

import structlog

__all__ = ["set_up"]

_IDENTITY: Final = ("stream", "video", "job", "peer", "rendition")
# Facts that other libraries put on their records and that say nothing to an operator.
_FOREIGN: Final = frozenset({"color_message", "taskName"})

Event = MutableMapping[str, Any]  # structlog's own type for an event: any fact may stand in it


def _order(_logger: object, _name: str, event: Event) -> Mapping[str, Any]:
    """Put time, level, event and identity in front of the other facts."""
    first = ("timestamp", "level", "event", *_IDENTITY)
    ordered = {key: event[key] for key in first if key in event}
    ordered.update({key: event[key] for key in event if key not in ordered})
    return {key: value for key, value in ordered.items() if key not in _FOREIGN}


def _plain_event(_logger: object, _name: str, event: Event) -> Event:
    """Call the event `event` in words without quotes where it can be."""
    event["event"] = str(event["event"]).replace("\n", " | ")
    return event


def set_up(*, form: Literal["text", "json"], level: str) -> None:
    """Send every logger's lines to standard error; call it once, at the start."""
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    last: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.processors.LogfmtRenderer(bool_as_flag=False)
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            _plain_event,
            _order,
            last,
        ],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    chatty_ones = ("uvicorn.access", "sqlalchemy.engine", "alembic", "aiosqlite", "asyncio")
    # The last would tell whole addresses, which may hold secrets.
    for chatty in (*chatty_ones, "httpcore"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))
    for server in ("uvicorn", "uvicorn.error"):
        logging.getLogger(server).handlers[:] = []
        logging.getLogger(server).propagate = True
        logging.getLogger(server).setLevel(max(logging.WARNING, root.level))
