"""Parameters that many operations take: of a list, and the number of a record in a path.

Here they are only described, as text: what is wrong with one is said in words of ours, by
`api.http.paging.read_query` and by `number_of`.
"""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final

from litestar.params import PathParameter, QueryParameter

from api.http.errors import ApiError

__all__ = ["PageNumber", "RecordId", "Search", "SortOrder", "missing", "number_of", "sort_columns"]

_STRING: Final = {"type": "string", "one_of": None}
_WHOLE: Final = {"type": "integer", "one_of": None}
# Canonical numbers of ten digits; the catalog knows how many bits its own have.
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,9}")

Search = Annotated[
    str | None, QueryParameter(description="A part of the name.", schema_extra=_STRING)
]
SortOrder = Annotated[str | None, QueryParameter(schema_extra={**_STRING, "enum": ("asc", "desc")})]
PageNumber = Annotated[str | None, QueryParameter(schema_extra={**_WHOLE, "minimum": 1})]
RecordId = Annotated[
    str, PathParameter(description="The record's number.", schema_extra={**_WHOLE, "minimum": 1})
]


def sort_columns(columns: Sequence[str]) -> Any:  # Any: an argument of Annotated
    """Return the description of a parameter that names one of these columns."""
    return QueryParameter(schema_extra={**_STRING, "enum": columns})


def number_of(text: str, noun: str) -> int:
    """Return the number that a path names a record by.

    Raises:
        ApiError: 404, as it can be the number of none.
    """
    if not _NUMBER.fullmatch(text):
        raise missing(noun)
    return int(text)


def missing(noun: str) -> ApiError:
    """Return the refusal where there is no such record, or none that the caller may know of."""
    return ApiError(HTTPStatus.NOT_FOUND, f"There is no such {noun}.")
