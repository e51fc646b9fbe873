"""Parameters shared by many operations: those of lists, and record numbers in paths.

They are declared as text here, so that `api.http.paging.read_query` and `number_of` can validate
them with our own error messages.
"""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final, TypeVar

from litestar.params import PathParameter, QueryParameter

from api.http.errors import ApiError

R = TypeVar("R")

_STRING: Final = {"type": "string", "one_of": None}
_WHOLE: Final = {"type": "integer", "one_of": None}
# Up to ten digits without leading zeros; the catalog checks the range.
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,9}")

Search = Annotated[
    str | None, QueryParameter(description="A part of the title.", schema_extra=_STRING)
]
SortOrder = Annotated[str | None, QueryParameter(schema_extra={**_STRING, "enum": ("asc", "desc")})]
PageNumber = Annotated[str | None, QueryParameter(schema_extra={**_WHOLE, "minimum": 1})]
RecordId = Annotated[
    str, PathParameter(description="The record's number.", schema_extra={**_WHOLE, "minimum": 1})
]


def sort_columns(columns: Sequence[str]) -> Any:  # Any: an argument of Annotated
    """Return the OpenAPI description of a parameter with these columns as values."""
    return QueryParameter(schema_extra={**_STRING, "enum": columns})


def number_of(text: str, noun: str) -> int:
    """Parse the record number in a path.

    Raises:
        ApiError: 404 if no record can have this number.
    """
    if not _NUMBER.fullmatch(text):
        raise missing(noun)
    return int(text)


def still_there(result: R | None, noun: str) -> R:
    """Return the catalog's result for a record that existed when the request began.

    Raises:
        ApiError: 404 if it was deleted since.
    """
    if result is None:
        raise missing(noun)
    return result


def missing(noun: str) -> ApiError:
    """Return the 404 error for a record that does not exist or is hidden from the caller."""
    return ApiError(HTTPStatus.NOT_FOUND, f"There is no such {noun}.")
