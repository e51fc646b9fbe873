"""The operations on tags and categories, and how other records' bodies name tags."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import quote

import msgspec
from litestar import Request, delete, get, post, put
from litestar.di import NamedDependency

from api.http.auth import needs_write
from api.http.errors import documented, invalid
from api.http.json_body import described, read_body
from api.http.paging import envelope, read_query
from api.http.parameters import (
    PageNumber,
    RecordId,
    Search,
    SortOrder,
    missing,
    number_of,
    sort_columns,
)
from api.library.projects import ProjectId, project_of
from api.schemas.common import Listing
from api.schemas.presenter import Presenter
from api.schemas.text_fields import Name
from storage.catalog import Catalog
from storage.catalog.library.labels import COLUMNS, Kind, TagById, TagByName, TagWanted
from storage.catalog.records.common import LabelRecord, Principal

__all__ = ["HANDLERS", "TagReference", "TagReferences", "wanted_tags"]

Call = Request[Any, Principal, Any]  # Any: what Litestar leaves open
SortColumn = Annotated[str | None, sort_columns(COLUMNS)]

# Of one record: more would make nothing easier to find.
_MOST: Final = 100


class TagReference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tag of a record: by its id, or by its name, which makes it where there is none yet.

    With both, the id counts: so a record's own tags can be sent back as they were shown.
    """

    id: int | msgspec.UnsetType = msgspec.UNSET
    name: Name | msgspec.UnsetType = msgspec.UNSET


TagReferences = Annotated[list[TagReference], msgspec.Meta(max_length=_MOST)]


def wanted_tags(references: Sequence[TagReference]) -> tuple[TagWanted, ...]:
    """Return the tags that a body names, as the catalog takes them.

    Raises:
        ApiError: 422 where one has neither id nor name.
    """
    wanted: list[TagWanted] = []
    for reference in references:
        if reference.id is not msgspec.UNSET:
            wanted.append(TagById(reference.id))
        elif reference.name is not msgspec.UNSET:
            wanted.append(TagByName(str(reference.name)))
        else:
            raise invalid({"tags": ["Each of the tags must have an id or a name."]})
    return tuple(wanted)


class LabelAddition(msgspec.Struct, frozen=True, kw_only=True):
    """What it takes to add a tag or a category."""

    name: Name
    active: bool = True


class LabelEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What of a tag or a category is to change."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    active: bool | msgspec.UnsetType = msgspec.UNSET


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """A tag or a category; `active` is true until its owner changes it."""

    id: int
    name: str
    active: bool


class TagAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to adding or editing a tag."""

    message: str
    tag: Label


class CategoryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to adding or editing a category."""

    message: str
    category: Label


_READS: Final = documented(
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
_WRITES: Final = documented(
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.CONFLICT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
_DELETES: Final = documented(
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
)


def _shown(record: LabelRecord) -> Label:
    return Label(id=record.id, name=record.name, active=record.active)


async def _label_of(catalog: Catalog, caller: Principal, kind: Kind, text: str) -> LabelRecord:
    """Return the label of a path.

    Raises:
        ApiError: 404 where there is none, or none that the caller may know of.
    """
    record = await catalog.labels.find(kind, number_of(text, kind))
    if record is None or not caller.reaches(record.project):
        raise missing(kind)
    return record


async def _add(request: Call, catalog: Catalog, kind: Kind, project_id: str, now_us: int) -> Label:
    project = await project_of(catalog, request.auth, project_id)
    body = await read_body(request, LabelAddition)
    record = await catalog.labels.add(
        kind,
        project.id,
        str(body.name),
        active=body.active,
        by=request.auth.id,
        now_us=now_us,
    )
    return _shown(record)


async def _edit(request: Call, catalog: Catalog, kind: Kind, text: str, now_us: int) -> Label:
    label = await _label_of(catalog, request.auth, kind, text)
    body = await read_body(request, LabelEdit)
    record = await catalog.labels.edit(
        kind,
        label.id,
        name=None if body.name is msgspec.UNSET else str(body.name),
        active=None if body.active is msgspec.UNSET else body.active,
        by=request.auth.id,
        now_us=now_us,
    )
    if record is None:
        raise missing(kind)
    return _shown(record)


async def _delete(request: Call, catalog: Catalog, kind: Kind, text: str, now_us: int) -> None:
    label = await _label_of(catalog, request.auth, kind, text)
    if not await catalog.labels.remove(kind, label.id, by=request.auth.id, now_us=now_us):
        raise missing(kind)


async def _list(
    catalog: Catalog, presenter: Presenter, caller: Principal, kind: Kind, noun: str,
    project_id: str, **sent: str | None,
) -> Listing[Label]:  # fmt: skip
    project = await project_of(catalog, caller, project_id)
    query = read_query(
        search=sent["search"],
        sort_column=sent["sort_column"],
        sort_order=sent["sort_order"],
        page=sent["page"],
        columns=COLUMNS,
    )
    found = await catalog.labels.find_page(
        kind, project.id, search=query.search, sort=query.sort, page=query.page
    )
    return envelope(
        found,
        [_shown(record) for record in found.items],
        path=f"{presenter.addresses.http}/api/projects/{quote(project_id, safe='')}/{noun}",
        filters=query.filters,
    )


@get("/projects/{project_id:str}/tags", summary="List tags", tags=["tags"], responses=_READS)
async def list_tags(
    request: Call,
    project_id: ProjectId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    search: Search = None,
    sort_column: SortColumn = None,
    sort_order: SortOrder = None,
    page: PageNumber = None,
) -> Listing[Label]:
    """List a project's tags in pages of ten, newest first unless a column is named."""
    return await _list(
        catalog, presenter, request.auth, "tag", "tags", project_id,
        search=search, sort_column=sort_column, sort_order=sort_order, page=page,
    )  # fmt: skip


@post(
    "/projects/{project_id:str}/tags",
    guards=[needs_write],
    operation_class=described(LabelAddition),
    summary="Add a tag",
    tags=["tags"],
    responses=_WRITES,
)
async def add_tag(
    request: Call,
    project_id: ProjectId,
    catalog: NamedDependency[Catalog],
    now_us: NamedDependency[int],
) -> TagAnswer:
    """Make a tag; its name must be its own in the project, whatever the case."""
    tag = await _add(request, catalog, "tag", project_id, now_us)
    return TagAnswer(message="Tag added.", tag=tag)


@put(
    "/tags/{tag_id:str}",
    guards=[needs_write],
    operation_class=described(LabelEdit),
    summary="Edit a tag",
    tags=["tags"],
    responses=_WRITES,
)
async def edit_tag(
    request: Call,
    tag_id: RecordId,
    catalog: NamedDependency[Catalog],
    now_us: NamedDependency[int],
) -> TagAnswer:
    """Give a tag another name, or say whether it is active; keys that are not sent stay."""
    tag = await _edit(request, catalog, "tag", tag_id, now_us)
    return TagAnswer(message="Tag updated.", tag=tag)


@delete(
    "/tags/{tag_id:str}",
    guards=[needs_write],
    summary="Delete a tag",
    tags=["tags"],
    responses=_DELETES,
)
async def delete_tag(
    request: Call,
    tag_id: RecordId,
    catalog: NamedDependency[Catalog],
    now_us: NamedDependency[int],
) -> None:
    """Delete a tag; streams and videos lose it."""
    await _delete(request, catalog, "tag", tag_id, now_us)


@get(
    "/projects/{project_id:str}/categories",
    summary="List categories",
    tags=["categories"],
    responses=_READS,
)
async def list_categories(
    request: Call,
    project_id: ProjectId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    search: Search = None,
    sort_column: SortColumn = None,
    sort_order: SortOrder = None,
    page: PageNumber = None,
) -> Listing[Label]:
    """List a project's categories in pages of ten, newest first unless a column is named."""
    return await _list(
        catalog, presenter, request.auth, "category", "categories", project_id,
        search=search, sort_column=sort_column, sort_order=sort_order, page=page,
    )  # fmt: skip


@post(
    "/projects/{project_id:str}/categories",
    guards=[needs_write],
    operation_class=described(LabelAddition),
    summary="Add a category",
    tags=["categories"],
    responses=_WRITES,
)
async def add_category(
    request: Call,
    project_id: ProjectId,
    catalog: NamedDependency[Catalog],
    now_us: NamedDependency[int],
) -> CategoryAnswer:
    """Make a category; its name must be its own in the project, whatever the case."""
    category = await _add(request, catalog, "category", project_id, now_us)
    return CategoryAnswer(message="Category added.", category=category)


@put(
    "/categories/{category_id:str}",
    guards=[needs_write],
    operation_class=described(LabelEdit),
    summary="Edit a category",
    tags=["categories"],
    responses=_WRITES,
)
async def edit_category(
    request: Call,
    category_id: RecordId,
    catalog: NamedDependency[Catalog],
    now_us: NamedDependency[int],
) -> CategoryAnswer:
    """Give a category another name, or say whether it is active; keys that are not sent stay."""
    category = await _edit(request, catalog, "category", category_id, now_us)
    return CategoryAnswer(message="Category updated.", category=category)


@delete(
    "/categories/{category_id:str}",
    guards=[needs_write],
    summary="Delete a category",
    tags=["categories"],
    responses=_DELETES,
)
async def delete_category(
    request: Call,
    category_id: RecordId,
    catalog: NamedDependency[Catalog],
    now_us: NamedDependency[int],
) -> None:
    """Delete a category; streams and videos lose it."""
    await _delete(request, catalog, "category", category_id, now_us)


HANDLERS: Final = (
    list_tags,
    add_tag,
    edit_tag,
    delete_tag,
    list_categories,
    add_category,
    edit_category,
    delete_category,
)
