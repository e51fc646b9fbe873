"""Tags and categories: two kinds of labels, with the same operations."""

from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from litestar import Controller, Response, delete, get, post, put
from litestar.di import NamedDependency, Provide

from api.http.auth import ApiRequest, needs_write
from api.http.error_statuses import BODY_ERRORS, CHANGE_ERRORS, READ_ERRORS
from api.http.errors import documented
from api.http.json_body import described, read_body
from api.http.paging import ListQuery, envelope
from api.http.parameters import RecordId, missing, number_of, still_there
from api.http.preconditions import IfMatch, quoted, unless_edited
from api.library.lookup import PROJECT, ProjectId, label_tag, list_url, provide_list_query
from api.schemas.common import Listing, named_schema
from api.schemas.presenter import Presenter
from api.schemas.text_fields import Name
from storage.catalog import Catalog
from storage.catalog.library.labels import COLUMNS, Kind
from storage.catalog.records.common import Change, LabelRecord, ProjectRecord

_TAGS: Final = "/projects/{project_id:str}/tags"
_TAG: Final = "/tags/{tag_id:str}"
_CATEGORIES: Final = "/projects/{project_id:str}/categories"
_CATEGORY: Final = "/categories/{category_id:str}"


class LabelAddition(msgspec.Struct, frozen=True, kw_only=True):
    """What it takes to add a tag or a category."""

    name: Name
    active: bool = True


class LabelEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What of a tag or a category is to change."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    active: bool | msgspec.UnsetType = msgspec.UNSET


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """A tag or a category; `active` is true until its owner sets it to false."""

    id: int
    name: str
    active: bool


class LabelShown(msgspec.Struct, frozen=True, kw_only=True):
    """One tag or one category."""

    data: Label


class TagAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to adding or editing a tag."""

    message: str
    tag: Label


class CategoryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to adding or editing a category."""

    message: str
    category: Label


def _label(record: LabelRecord) -> Label:
    return Label(id=record.id, name=record.name, active=record.active)


def _headers(record: LabelRecord) -> dict[str, str]:
    return {"ETag": quoted(label_tag(record))}


async def _find(request: ApiRequest, catalog: Catalog, kind: Kind, text: str) -> LabelRecord:
    record = await catalog.labels.find(kind, number_of(text, kind))
    if record is None or not request.auth.reaches(record.project):
        raise missing(kind)
    return record


async def _list(
    catalog: Catalog, kind: Kind, project: int, list_query: ListQuery, url: str
) -> Listing[Label]:
    page = await catalog.labels.find_page(
        kind, project, search=list_query.search, sort=list_query.sort, page=list_query.page
    )
    labels = [_label(record) for record in page.items]
    return envelope(page, labels, path=url, filters=list_query.filters)


async def _add(
    request: ApiRequest, catalog: Catalog, kind: Kind, project: int, now_us: int
) -> Label:
    body = await read_body(request, LabelAddition)
    record = await catalog.labels.add(
        kind, project, str(body.name), Change(now_us, by=request.auth.id), active=body.active
    )
    return _label(record)


async def _edit(
    request: ApiRequest,
    catalog: Catalog,
    kind: Kind,
    label: int,
    now_us: int,
    if_match: str | None,
) -> LabelRecord:
    body = await read_body(request, LabelEdit)
    record = await catalog.labels.edit(
        kind,
        label,
        Change(now_us, by=request.auth.id),
        name=None if body.name is msgspec.UNSET else str(body.name),
        active=None if body.active is msgspec.UNSET else body.active,
        check=unless_edited(if_match, label_tag),
    )
    return still_there(record, kind)


async def _delete(
    request: ApiRequest, catalog: Catalog, kind: Kind, label: int, now_us: int
) -> None:
    if not await catalog.labels.remove(kind, label, Change(now_us, by=request.auth.id)):
        raise missing(kind)


async def provide_tag(
    request: ApiRequest, tag_id: RecordId, catalog: NamedDependency[Catalog]
) -> LabelRecord:
    """Return the tag that a path names.

    Raises:
        ApiError: 404 if there is no such tag, or if the caller's token does not reach it.
    """
    return await _find(request, catalog, "tag", tag_id)


async def provide_category(
    request: ApiRequest, category_id: RecordId, catalog: NamedDependency[Catalog]
) -> LabelRecord:
    """Return the category that a path names.

    Raises:
        ApiError: 404 if there is no such category, or if the caller's token does not reach it.
    """
    return await _find(request, catalog, "category", category_id)


_DEPENDENCIES: Final = {
    **PROJECT,
    "tag": Provide(provide_tag),
    "category": Provide(provide_category),
    "list_query": provide_list_query(COLUMNS),
}


class TagsController(Controller):
    """The tags of a project."""

    tags = ("tags",)
    dependencies = _DEPENDENCIES

    @get(_TAGS, summary="List tags", responses=documented(*READ_ERRORS))
    async def list_tags(
        self,
        project: NamedDependency[ProjectRecord],
        project_id: ProjectId,
        list_query: NamedDependency[ListQuery],
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
    ) -> Annotated[Listing[Label], named_schema("Listing_api.labels.Label_")]:
        """List a project's tags in pages of ten, newest first unless a column is named."""
        url = list_url(presenter.addresses, project_id, "tags")
        return await _list(catalog, "tag", project.id, list_query, url)

    @post(
        _TAGS,
        guards=[needs_write],
        operation_class=described(LabelAddition),
        summary="Add a tag",
        responses=documented(*BODY_ERRORS, HTTPStatus.CONFLICT),
    )
    async def add_tag(
        self,
        request: ApiRequest,
        project: NamedDependency[ProjectRecord],
        catalog: NamedDependency[Catalog],
        now_us: NamedDependency[int],
    ) -> TagAnswer:
        """Make a tag; its name must be unique in the project, ignoring case."""
        tag = await _add(request, catalog, "tag", project.id, now_us)
        return TagAnswer(message="Tag added.", tag=tag)

    @get(_TAG, summary="Show a tag", responses=documented(*READ_ERRORS))
    async def show_tag(self, tag: NamedDependency[LabelRecord]) -> Response[LabelShown]:
        """Show a tag; `ETag` names this version of it."""
        return Response(LabelShown(data=_label(tag)), headers=_headers(tag))

    @put(
        _TAG,
        guards=[needs_write],
        operation_class=described(LabelEdit),
        summary="Edit a tag",
        responses=documented(*BODY_ERRORS, HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED),
    )
    async def edit_tag(
        self,
        request: ApiRequest,
        tag: NamedDependency[LabelRecord],
        catalog: NamedDependency[Catalog],
        now_us: NamedDependency[int],
        if_match: IfMatch = None,
    ) -> Response[TagAnswer]:
        """Give a tag another name, or say whether it is active; keys that are not sent stay."""
        edited = await _edit(request, catalog, "tag", tag.id, now_us, if_match)
        answer = TagAnswer(message="Tag updated.", tag=_label(edited))
        return Response(answer, headers=_headers(edited))

    @delete(
        _TAG,
        guards=[needs_write],
        summary="Delete a tag",
        responses=documented(*CHANGE_ERRORS),
    )
    async def delete_tag(
        self,
        request: ApiRequest,
        tag: NamedDependency[LabelRecord],
        catalog: NamedDependency[Catalog],
        now_us: NamedDependency[int],
    ) -> None:
        """Delete a tag; streams and videos lose it."""
        await _delete(request, catalog, "tag", tag.id, now_us)


class CategoriesController(Controller):
    """The categories of a project."""

    tags = ("categories",)
    dependencies = _DEPENDENCIES

    @get(_CATEGORIES, summary="List categories", responses=documented(*READ_ERRORS))
    async def list_categories(
        self,
        project: NamedDependency[ProjectRecord],
        project_id: ProjectId,
        list_query: NamedDependency[ListQuery],
        catalog: NamedDependency[Catalog],
        presenter: NamedDependency[Presenter],
    ) -> Annotated[Listing[Label], named_schema("Listing_api.labels.Label_")]:
        """List a project's categories in pages of ten, newest first unless a column is named."""
        url = list_url(presenter.addresses, project_id, "categories")
        return await _list(catalog, "category", project.id, list_query, url)

    @post(
        _CATEGORIES,
        guards=[needs_write],
        operation_class=described(LabelAddition),
        summary="Add a category",
        responses=documented(*BODY_ERRORS, HTTPStatus.CONFLICT),
    )
    async def add_category(
        self,
        request: ApiRequest,
        project: NamedDependency[ProjectRecord],
        catalog: NamedDependency[Catalog],
        now_us: NamedDependency[int],
    ) -> CategoryAnswer:
        """Make a category; its name must be unique in the project, ignoring case."""
        category = await _add(request, catalog, "category", project.id, now_us)
        return CategoryAnswer(message="Category added.", category=category)

    @get(_CATEGORY, summary="Show a category", responses=documented(*READ_ERRORS))
    async def show_category(self, category: NamedDependency[LabelRecord]) -> Response[LabelShown]:
        """Show a category; `ETag` names this version of it."""
        return Response(LabelShown(data=_label(category)), headers=_headers(category))

    @put(
        _CATEGORY,
        guards=[needs_write],
        operation_class=described(LabelEdit),
        summary="Edit a category",
        responses=documented(*BODY_ERRORS, HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED),
    )
    async def edit_category(
        self,
        request: ApiRequest,
        category: NamedDependency[LabelRecord],
        catalog: NamedDependency[Catalog],
        now_us: NamedDependency[int],
        if_match: IfMatch = None,
    ) -> Response[CategoryAnswer]:
        """Give a category another name, or say whether it is active; keys that are not sent
        stay.
        """
        edited = await _edit(request, catalog, "category", category.id, now_us, if_match)
        answer = CategoryAnswer(message="Category updated.", category=_label(edited))
        return Response(answer, headers=_headers(edited))

    @delete(
        _CATEGORY,
        guards=[needs_write],
        summary="Delete a category",
        responses=documented(*CHANGE_ERRORS),
    )
    async def delete_category(
        self,
        request: ApiRequest,
        category: NamedDependency[LabelRecord],
        catalog: NamedDependency[Catalog],
        now_us: NamedDependency[int],
    ) -> None:
        """Delete a category; streams and videos lose it."""
        await _delete(request, catalog, "category", category.id, now_us)
