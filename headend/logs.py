"""The log on standard error: one line per event, as key=value text or as JSON.

Modules log through the standard library with facts in `extra`. The identity of an event (stream,
video, job, ...) comes first, always in the same order. Facts may be what a peer sent: a line has no
character that a terminal would act on (`headend.printable`).
"""

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, Literal

import structlog

from headend.printable import printable

_IDENTITY: Final = ("stream", "video", "job", "peer", "rendition")
# Attributes that libraries add to their records and that do not help an operator.
_FOREIGN: Final = frozenset({"color_message", "taskName"})

Event = MutableMapping[str, Any]  # structlog's type of an event


def _order(_logger: object, _name: str, event: Event) -> Mapping[str, Any]:
    """Order the facts: time, level, event and identity first."""
    first = ("timestamp", "level", "event", *_IDENTITY)
    ordered = {key: event[key] for key in first if key in event}
    ordered.update({key: event[key] for key in event if key not in ordered})
    return {key: value for key, value in ordered.items() if key not in _FOREIGN}


def _plain_event(_logger: object, _name: str, event: Event) -> Event:
    """Keep the event on one line."""
    event["event"] = str(event["event"]).replace("\n", " | ")
    return event


class _OneLine(structlog.stdlib.ProcessorFormatter):
    """Renders a record, with its traceback, as one line that is safe to show."""

    def format(self, record: logging.LogRecord) -> str:
        """Render a record."""
        return printable(super().format(record))


def set_up(*, form: Literal["text", "json"], level: str) -> None:
    """Send the lines of all loggers to standard error; call this once, at the start."""
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
    formatter = _OneLine(
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
    chatty_ones = ("uvicorn.access", "sqlalchemy.engine", "alembic", "asyncio")
    # httpcore would log whole URLs, which may hold secrets.
    for chatty in (*chatty_ones, "httpcore"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))
    for server in ("uvicorn", "uvicorn.error"):
        logging.getLogger(server).handlers[:] = []
        logging.getLogger(server).propagate = True
        logging.getLogger(server).setLevel(max(logging.WARNING, root.level))
