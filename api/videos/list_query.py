"""Reads the query of the list of a project's videos from a request."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from litestar.di import NamedDependency

from api.http.operation import Services
from api.http.parameters import PageNumber, Search, SortOrder, queried, read_query
from media.ticks import DAY_US, since_epoch_us
from storage.catalog.records.videos import Phase, VideoQuery

_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_PHASES: Final[Mapping[str, Phase]] = {
    "completed": "completed",
    "inprogress": "inprogress",
    "failed": "failed",
}
_TYPES: Final = ("completed", "recent", "inprogress", "failed")
_COLUMNS: Final = ("id", "title", "length", "size")

Type = Annotated[
    str | None,
    queried("Which videos; recent are those of the last seven days.", name="type", enum=_TYPES),
]
From = Annotated[
    str | None,
    queried(
        "The first day of creation (UTC), as 2026-01-31; needs `to`.", name="from", format="date"
    ),
]
To = Annotated[str | None, queried("The last day of creation (UTC); needs `from`.", format="date")]


class VideoListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The query of a list; `filters` are its parameters as they were sent, without the page."""

    query: VideoQuery
    page: int
    filters: list[tuple[str, str]]


def provide_list_query(
    services: NamedDependency[Services],
    type_: Type = None,
    search: Search = None,
    from_: From = None,
    to: To = None,
    sort_column: Annotated[str | None, queried(enum=_COLUMNS)] = None,
    sort_order: SortOrder = None,
    page: PageNumber = None,
) -> VideoListQuery:
    """Read the query parameters of the list.

    Raises:
        ApiError: 422 with every parameter that is wrong.
    """
    errors: dict[str, list[str]] = {}
    if type_ is not None and type_ not in _TYPES:
        errors["type"] = [f"The type must be one of {', '.join(_TYPES)}."]
    from_us, until_us = _span(from_, to, errors)
    common = read_query(
        search=search,
        sort_column=sort_column,
        sort_order=sort_order,
        page=page,
        columns=_COLUMNS,
        faults=errors,
    )
    if type_ == "recent":
        since_us = services.clock_us() - 7 * DAY_US
        from_us = since_us if from_us is None else max(from_us, since_us)
    parameters = {"type": type_, "search": search, "from": from_, "to": to}
    parameters |= {"sort_column": sort_column, "sort_order": sort_order}
    return VideoListQuery(
        query=VideoQuery(
            phase=_PHASES.get(type_ or ""),
            search=common.search,
            from_us=from_us,
            until_us=until_us,
            sort=common.sort if sort_column or sort_order else None,
        ),
        page=common.page,
        filters=[(name, value) for name, value in parameters.items() if value],
    )


def _day(text: str) -> int | None:
    """Return the beginning of a day in microseconds since the Unix epoch; None if it is no day."""
    try:
        day = datetime.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        return None
    return None if day is None else since_epoch_us(day.replace(tzinfo=UTC))


def _span(
    first: str | None, last: str | None, errors: dict[str, list[str]]
) -> tuple[int | None, int | None]:
    """Return the beginning of the first day and the end of the last one.

    Invalid or missing days are added to `errors`.
    """
    if first is None and last is None:
        return None, None
    begins = None if first is None else _day(first)
    ends = None if last is None else _day(last)
    for name, other, text, day_us in (("from", "to", first, begins), ("to", "from", last, ends)):
        if text is None:
            errors[name] = [f"The {name} is required where there is a {other}."]
        elif day_us is None:
            errors[name] = [f"The {name} must be a day such as 2026-01-31."]
    if begins is None or ends is None:
        return None, None
    return begins, ends + DAY_US
