"""Parameters shared by many operations: record numbers in paths, and lists in pages.

They are declared as text here, so that `read_query` and `number_of` can validate them with our own
error messages. `envelope` puts a page of a list into the response.
"""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import urlencode

import msgspec
from litestar.params import PathParameter, QueryParameter

from api.http.errors import ApiError, FieldErrors, invalid
from api.schemas.common import Listing, Meta, PageLink, PageLinks
from api.schemas.text_fields import has_control_characters
from storage.catalog.records.common import Page, Sort

R = TypeVar("R")
B = TypeVar("B")

# Up to ten digits without leading zeros; the catalog checks the range.
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,9}")
# 18 digits fit into every integer type of ours and of the databases.
_PAGE: Final = re.compile(r"[1-9][0-9]{0,17}")
_MAX_SEARCH: Final = 255  # characters, as the longest title
_ORDERS: Final = ("asc", "desc")


def queried(
    description: str | None = None, *, name: str | None = None, type_: str = "string", **schema: Any
) -> Any:  # Any: JSON Schema; an argument of Annotated
    """Return the OpenAPI description of a parameter of the query, which its handler validates."""
    extra = {"type": type_, "one_of": None, **schema}
    return QueryParameter(name=name, description=description, schema_extra=extra)


Search = Annotated[str | None, queried("A part of the title.")]
SortOrder = Annotated[str | None, queried(enum=_ORDERS)]
PageNumber = Annotated[str | None, queried(type_="integer", minimum=1)]
RecordId = Annotated[
    str,
    PathParameter(
        description="The record's number.",
        schema_extra={"type": "integer", "one_of": None, "minimum": 1},
    ),
]


def number_of(text: str, noun: str) -> int:
    """Parse the record number in a path.

    Raises:
        ApiError: 404 if no record can have this number.
    """
    if not _NUMBER.fullmatch(text):
        raise missing(noun)
    return int(text)


def missing(noun: str) -> ApiError:
    """Return the 404 error for a record that does not exist or is hidden from the caller."""
    return ApiError(HTTPStatus.NOT_FOUND, f"There is no such {noun}.")


# -- lists ----------------------------------------------------------------------------------------


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The parsed query of a list; `filters` are its parameters as sent, except the page."""

    search: str
    sort: Sort
    page: int
    filters: tuple[tuple[str, str], ...]


def read_query(
    *,
    page: str | None,
    search: str | None = None,
    sort_column: str | None = None,
    sort_order: str | None = None,
    columns: Sequence[str] = (),
    faults: FieldErrors | None = None,
) -> ListQuery:
    """Parse the query parameters of a list; None means not sent.

    The default is newest first; a column without an order sorts ascending, an order without a
    column sorts by id. `faults` are errors of other parameters, reported together with these.

    Raises:
        ApiError: 422, with every invalid parameter.
    """
    errors = dict(faults or {})
    if search is not None and len(search) > _MAX_SEARCH:
        errors["search"] = [f"The search may have at most {_MAX_SEARCH} characters."]
    elif search is not None and has_control_characters(search):
        errors["search"] = ["The search must not contain control characters."]
    if sort_column is not None and sort_column not in columns:
        errors["sort_column"] = [f"The sort_column must be one of {', '.join(columns)}."]
    if sort_order is not None and sort_order not in _ORDERS:
        errors["sort_order"] = [f"The sort_order must be one of {', '.join(_ORDERS)}."]
    if page is not None and not _PAGE.fullmatch(page):
        errors["page"] = ["The page must be a whole number from 1 up."]
    if errors:
        raise invalid(errors)
    order = sort_order or ("asc" if sort_column else "desc")
    parameters = {"search": search, "sort_column": sort_column, "sort_order": sort_order}
    return ListQuery(
        search=search or "",
        sort=Sort(sort_column or "id", descending=order == "desc"),
        page=int(page or 1),
        filters=tuple((name, value) for name, value in parameters.items() if value),
    )


def envelope(
    page: Page[R], data: list[B], *, path: str, filters: Sequence[tuple[str, str]]
) -> Listing[B]:
    """Return a page in its envelope; `path` is the URL of the list without a query.

    A page beyond the end is empty, and its previous page is the last one.
    """
    # A long list has thousands of page links, which differ only in their ends.
    stem = f"{path}?{urlencode([*filters, ('page', '')])}"

    def url(number: int) -> str:
        return f"{stem}{number}"

    prev = url(min(page.number - 1, page.last)) if page.number > 1 else None
    following = url(page.number + 1) if page.number < page.last else None
    before = (page.number - 1) * page.size
    return Listing(
        data=data,
        links=PageLinks(first=url(1), last=url(page.last), prev=prev, next=following),
        meta=Meta(
            current_page=page.number,
            from_=before + 1 if data else None,
            last_page=page.last,
            links=[
                PageLink(url=prev, label="« Previous", active=False),
                *(
                    PageLink(url=f"{stem}{number}", label=str(number), active=number == page.number)
                    for number in range(1, page.last + 1)
                ),
                PageLink(url=following, label="Next »", active=False),
            ],
            path=path,
            per_page=page.size,
            to=before + len(data) if data else None,
            total=page.total,
        ),
    )
